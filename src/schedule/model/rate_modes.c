#include "schedule/model/rate_modes.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Eighths, and towards 0 and 1 powers of two: what is left beside a small share is a level too.
 * In parts of PZ_RATE_PARTS, all of them whole. */
enum { EIGHTHS = 8, FINEST = 12, MOST_LEVELS = EIGHTHS + 2 * (FINEST - 3) };
_Static_assert(PZ_RATE_PARTS % (1 << FINEST) == 0, "levels are whole parts");

struct level_list {
  int32_t parts[MOST_LEVELS]; /* ascending */
  int n;
};

static struct level_list list_levels(void) {
  struct level_list l = {.n = 0};
  for (int k = FINEST; k > 3; k--) l.parts[l.n++] = PZ_RATE_PARTS >> k;
  for (int k = 1; k < EIGHTHS; k++) l.parts[l.n++] = PZ_RATE_PARTS / EIGHTHS * k;
  for (int k = 4; k <= FINEST; k++) l.parts[l.n++] = PZ_RATE_PARTS - (PZ_RATE_PARTS >> k);
  l.parts[l.n++] = PZ_RATE_PARTS;
  assert(l.n == MOST_LEVELS);
  return l;
}

/* The least level that moves so much in this time; a quotient may be off by rounding. */
static int32_t level_for(const struct level_list *l, double memory_s, double s) {
  if (!(memory_s > 0 && s > 0)) return 0;
  double parts = memory_s / s * PZ_RATE_PARTS * (1 - 1e-12);
  int i = 0;
  while (i + 1 < l->n && l->parts[i] < parts) i++;
  return l->parts[i];
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Durations at which one of the shares falls to a lower level, and that at full rate, which is the
 * last. */
static int list_durations(const struct level_list *l, const struct pz_full_rate_mode *f,
                          double limit_s, double out[2 * MOST_LEVELS + 1]) {
  const double memory_s[] = {f->hbm_s, f->glb_s};
  int n = 0;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < l->n && memory_s[k] > 0; i++) {
      double s = memory_s[k] / l->parts[i] * PZ_RATE_PARTS;
      if (s > f->mode.s && s <= limit_s) out[n++] = s;
    }
  qsort(out, (size_t)n, sizeof *out, descending);
  out[n++] = f->mode.s;
  return n;
}

/* An operator that on fewer cores asks no more of the memories takes no longer there than on more
 * cores, from its full-rate duration on. */
static double limit_by_fewer_cores(const struct pz_vec *full, uint32_t at, double limit_s) {
  const struct pz_full_rate_mode *f = pz_vec_at(full, struct pz_full_rate_mode, at);
  for (uint32_t i = 0; i < at; i++) {
    const struct pz_full_rate_mode *o = pz_vec_at(full, struct pz_full_rate_mode, i);
    bool fewer = o->hbm_s <= f->hbm_s && o->glb_s <= f->glb_s;
    for (int r = 0; r < PZ_HBM_RATE && fewer; r++) fewer = o->mode.use[r] <= f->mode.use[r];
    if (fewer && o->mode.s < limit_s) limit_s = o->mode.s;
  }
  return limit_s;
}

static bool is_dominated(const struct pz_vec *modes, const struct pz_mode *m) {
  for (uint32_t i = 0; i < modes->n; i++) {
    const struct pz_mode *o = pz_vec_at(modes, struct pz_mode, i);
    if (o->s <= m->s && pz_mode_fits(m->use, o)) return true;
  }
  return false;
}

bool pz_rate_modes(const struct pz_vec *full, double limit_s, struct pz_vec *out) {
  const struct level_list levels = list_levels();
  double s[2 * MOST_LEVELS + 1];
  for (uint32_t k = 0; k < full->n; k++) {
    const struct pz_full_rate_mode *f = pz_vec_at(full, struct pz_full_rate_mode, k);
    int n = list_durations(&levels, f, limit_by_fewer_cores(full, k, limit_s), s);
    for (int i = 0; i < n; i++) {
      struct pz_mode m = f->mode;
      m.s = s[i];
      m.use[PZ_HBM_RATE] = level_for(&levels, f->hbm_s, m.s);
      m.use[PZ_GLB_RATE] = level_for(&levels, f->glb_s, m.s);
      if (!is_dominated(out, &m) && !pz_vec_push(out, &m)) return false;
    }
  }
  return true;
}
