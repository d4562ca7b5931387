/* Makes modes at lower rates (rate_modes.h).
 *
 * For each number of cores, list_durations() finds the durations at which one of the shares falls to a lower level; at
 * each of them a mode holds the lowest levels that suffice. */
#include "schedule/model/rate_modes.h"

#include <math.h>
#include <stdlib.h>

/* Quarters, and towards 0 and 1 a sixteenth and 1/256, so that what is left beside a small share is a level too.  With
 * more levels schedules are hardly shorter and fewer are proven optimal, with fewer levels they are longer (tuned on the
 * layers of bench_layers).  In parts of PZ_RATE_PARTS, ascending. */
#define PART(n, of) (PZ_RATE_PARTS / (of) * (n))
static const int32_t levels[] = {PART(1, 256), PART(1, 16),  PART(1, 4),     PART(1, 2),
                                 PART(3, 4),   PART(15, 16), PART(255, 256), PZ_RATE_PARTS};
enum { LEVELS = PZ_RATE_LEVELS, MAX_DURATIONS = 3 * LEVELS + 1 };
_Static_assert(sizeof levels / sizeof *levels == LEVELS, "the header has this number");
_Static_assert(PZ_RATE_PARTS % 256 == 0, "levels are whole parts");

double pz_rate_level(int i) { return (double)levels[i] / PZ_RATE_PARTS; }

/* The lowest level at which a memory that needs memory_s at the full rate is done within s.  The quotient may be off by
 * rounding. */
static int32_t memory_level(double memory_s, double s) {
  if (!(memory_s > 0 && s > 0)) return 0;
  double parts = memory_s / s * PZ_RATE_PARTS * (1 - 1e-12);
  int i = 0;
  while (i + 1 < LEVELS && levels[i] < parts) i++;
  return levels[i];
}

/* The lowest level of the watts with which the operator takes no longer than s, and its energy then. */
static int32_t power_level(const struct pz_full_mode *f, double s, double *joules) {
  if (!f->limited) return 0;
  int i = 0;
  while (i + 1 < LEVELS && f->power_s[i] > s * (1 + 1e-12)) i++;
  *joules = f->power_j[i];
  return levels[i];
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* Lists the durations up to the limit at which one of the shares falls to a lower level, in descending order, and as the
 * last one the duration at the full rate.  Returns their number. */
static int list_durations(const struct pz_full_mode *f, double limit_s, double out[MAX_DURATIONS]) {
  const double memory_s[] = {f->at.hbm_s, f->at.glb_s};
  int n = 0;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < LEVELS && memory_s[k] > 0; i++) {
      double s = memory_s[k] / levels[i] * PZ_RATE_PARTS;
      if (s > f->at.s && s <= limit_s) out[n++] = s;
    }
  for (int i = 0; i < LEVELS && f->limited; i++)
    if (f->power_s[i] > f->at.s && f->power_s[i] <= limit_s) out[n++] = f->power_s[i];
  qsort(out, (size_t)n, sizeof *out, descending);
  out[n++] = f->at.s;
  return n;
}

/* Lowers the limit to the full-rate duration on fewer cores, if the operator needs no more of the memories there: slower
 * modes on more cores are then dominated. */
static double limit_by_fewer_cores(const struct pz_vec *full, uint32_t at, double limit_s) {
  const struct pz_mode *f = &pz_vec_at(full, struct pz_full_mode, at)->at;
  for (uint32_t i = 0; i < at; i++) {
    const struct pz_full_mode *few = pz_vec_at(full, struct pz_full_mode, i);
    const struct pz_mode *o = &few->at;
    bool needs_less = !few->limited && o->hbm_s <= f->hbm_s && o->glb_s <= f->glb_s;
    for (int r = 0; r < PZ_HBM_RATE && needs_less; r++) needs_less = o->use[r] <= f->use[r];
    if (needs_less && o->s < limit_s) limit_s = o->s;
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

void pz_append_rate_modes(struct pz_call *call, const struct pz_vec *full, double limit_s,
                          struct pz_vec *modes) {
  double s[MAX_DURATIONS];
  for (uint32_t k = 0; k < full->n; k++) {
    const struct pz_full_mode *f = pz_vec_at(full, struct pz_full_mode, k);
    int n = list_durations(f, limit_by_fewer_cores(full, k, limit_s), s);
    for (int i = 0; i < n; i++) {
      struct pz_mode m = f->at;
      m.s = s[i];
      m.use[PZ_HBM_RATE] = memory_level(m.hbm_s, m.s);
      m.use[PZ_GLB_RATE] = memory_level(m.glb_s, m.s);
      m.use[PZ_POWER] = power_level(f, m.s, &m.j);
      if (!is_dominated(modes, &m)) pz_append(call, modes, &m);
    }
  }
}

static int32_t exact_share(double memory_s, double s) {
  return s > 0 ? (int32_t)ceil(fmin(1, memory_s / s) * PZ_RATE_PARTS) : 0;
}

void pz_append_full_rate_modes(struct pz_call *call, const struct pz_vec *full,
                               struct pz_vec *modes) {
  for (uint32_t k = 0; k < full->n; k++) {
    struct pz_mode m = pz_vec_at(full, struct pz_full_mode, k)->at;
    m.use[PZ_HBM_RATE] = exact_share(m.hbm_s, m.s);
    m.use[PZ_GLB_RATE] = exact_share(m.glb_s, m.s);
    pz_append(call, modes, &m);
  }
}

/* ---- for callers that return a status ---- */

struct rate_modes_args {
  const struct pz_vec *full;
  double limit_s;
  struct pz_vec *modes;
};

static void append_rate_modes(struct pz_call *call, void *ctx) {
  struct rate_modes_args *x = ctx;
  pz_append_rate_modes(call, x->full, x->limit_s, x->modes);
}

bool pz_rate_modes(const struct pz_vec *full, double limit_s, struct pz_vec *modes) {
  struct rate_modes_args x = {full, limit_s, modes};
  return pz_border(append_rate_modes, &x, NULL) == PZ_OK;
}
