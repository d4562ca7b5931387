#include "schedule/model/profile.h"

#include <string.h>

bool pz_profile_init(struct pz_profile *f, const struct pz_problem *p, struct pz_arena *arena) {
  size_t most = 2 * (size_t)p->n + 2;
  *f = (struct pz_profile){.p = p};
  if (!PZ_ARRAY(arena, f->time, most) || !PZ_ARRAY(arena, f->left, most)) return false;
  pz_profile_clear(f);
  return true;
}

void pz_profile_clear(struct pz_profile *f) {
  f->n = 1;
  f->time[0] = 0;
  memcpy(f->left[0], f->p->capacity, sizeof f->left[0]);
}

/* Whether a milestone fits at the beginning of interval i.  Only tasks that run on both sides of that instant count, and
 * they use at most the smaller of both uses. */
static bool fits_at_point(const struct pz_profile *f, uint32_t i, const struct pz_mode *m) {
  int32_t residual[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) {
    int32_t before = i ? f->left[i - 1][r] : f->p->capacity[r], after = f->left[i][r];
    residual[r] = before > after ? before : after;
  }
  return pz_mode_fits(residual, m);
}

double pz_profile_earliest(const struct pz_profile *f, double ready, const struct pz_mode *m) {
  uint32_t i = 0;
  while (i + 1 < f->n && f->time[i + 1] <= ready) i++;
  double start = ready;
  if (m->s <= 0) {
    for (;; i++, start = f->time[i])
      if (f->time[i] >= start ? fits_at_point(f, i, m) : pz_mode_fits(f->left[i], m)) return start;
  }
  for (;;) {
    uint32_t k = i;
    while (k < f->n && f->time[k] < start + m->s && pz_mode_fits(f->left[k], m)) k++;
    if (k >= f->n || f->time[k] >= start + m->s) return start;
    i = k + 1;
    start = f->time[i];
  }
}

/* Splits the interval that contains t.  Returns the interval that begins there. */
static uint32_t split_interval(struct pz_profile *f, double t) {
  uint32_t i = f->n - 1;
  while (f->time[i] > t) i--;
  if (f->time[i] == t) return i;
  memmove(&f->time[i + 2], &f->time[i + 1], (f->n - i - 1) * sizeof f->time[0]);
  memmove(&f->left[i + 2], &f->left[i + 1], (f->n - i - 1) * sizeof f->left[0]);
  f->time[i + 1] = t;
  memcpy(f->left[i + 1], f->left[i], sizeof f->left[0]);
  f->n++;
  return i + 1;
}

void pz_profile_occupy(struct pz_profile *f, double start, const struct pz_mode *m) {
  if (m->s <= 0) return;
  uint32_t a = split_interval(f, start), b = split_interval(f, start + m->s);
  for (uint32_t i = a; i < b; i++)
    for (int r = 0; r < PZ_RESOURCES; r++) f->left[i][r] -= m->use[r];
}
