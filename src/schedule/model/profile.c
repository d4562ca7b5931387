#include "schedule/model/profile.h"

#include <string.h>

bool pz_profile_init(struct pz_profile *f, const struct pz_problem *p, struct pz_arena *arena) {
  size_t most = 2 * (size_t)p->n + 2;
  *f = (struct pz_profile){.p = p};
  f->time = pz_arena_alloc(arena, most, sizeof *f->time);
  f->use = pz_arena_alloc(arena, most, sizeof *f->use);
  if (!f->time || !f->use) return false;
  pz_profile_clear(f);
  return true;
}

void pz_profile_clear(struct pz_profile *f) {
  f->n = 1;
  f->time[0] = 0;
  memset(f->use[0], 0, sizeof f->use[0]);
}

static bool fits(const struct pz_profile *f, uint32_t i, const struct pz_mode *m) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r] > f->p->capacity[r] - f->use[i][r]) return false;
  return true;
}

/* At a boundary only what runs on both sides counts; that is at most the smaller use. */
static bool fits_at_point(const struct pz_profile *f, uint32_t i, const struct pz_mode *m) {
  for (int r = 0; r < PZ_RESOURCES; r++) {
    int32_t left = i ? f->use[i - 1][r] : 0, right = f->use[i][r];
    if (m->use[r] > f->p->capacity[r] - (left < right ? left : right)) return false;
  }
  return true;
}

double pz_profile_earliest(const struct pz_profile *f, double ready, const struct pz_mode *m) {
  uint32_t i = 0;
  while (i + 1 < f->n && f->time[i + 1] <= ready) i++;
  double start = ready;
  if (m->s <= 0) {
    for (;; i++, start = f->time[i])
      if (f->time[i] >= start ? fits_at_point(f, i, m) : fits(f, i, m)) return start;
  }
  for (;;) {
    uint32_t k = i;
    while (k < f->n && f->time[k] < start + m->s && fits(f, k, m)) k++;
    if (k >= f->n || f->time[k] >= start + m->s) return start;
    i = k + 1;
    start = f->time[i];
  }
}

static uint32_t split(struct pz_profile *f, double t) {
  uint32_t i = f->n - 1;
  while (f->time[i] > t) i--;
  if (f->time[i] == t) return i;
  memmove(&f->time[i + 2], &f->time[i + 1], (f->n - i - 1) * sizeof f->time[0]);
  memmove(&f->use[i + 2], &f->use[i + 1], (f->n - i - 1) * sizeof f->use[0]);
  f->time[i + 1] = t;
  memcpy(f->use[i + 1], f->use[i], sizeof f->use[0]);
  f->n++;
  return i + 1;
}

void pz_profile_occupy(struct pz_profile *f, double start, const struct pz_mode *m) {
  if (m->s <= 0) return;
  uint32_t a = split(f, start), b = split(f, start + m->s);
  for (uint32_t i = a; i < b; i++)
    for (int r = 0; r < PZ_RESOURCES; r++) f->use[i][r] += m->use[r];
}
