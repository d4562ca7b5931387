#include "search/pareto.h"

#include <stdlib.h>

enum { BATCH = 64 };

static int by_value(const void *a, const void *b) {
  const struct pz_front_point *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  if (x->area_um2 != y->area_um2) return x->area_um2 < y->area_um2 ? -1 : 1;
  if (x->watts != y->watts) return x->watts < y->watts ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

static int by_area(const void *a, const void *b) {
  const struct pz_front_point *x = a, *y = b;
  if (x->area_um2 != y->area_um2) return x->area_um2 < y->area_um2 ? -1 : 1;
  return by_value(a, b);
}

static bool dominates(const struct pz_front_point *a, const struct pz_front_point *b) {
  if (a->value < b->value || a->area_um2 > b->area_um2 || a->watts > b->watts) return false;
  bool better = a->value > b->value || a->area_um2 < b->area_um2 || a->watts < b->watts;
  return better || a->point < b->point; /* of equal ones the first stays */
}

static bool dominated(const struct pz_front *f, const struct pz_front_point *p) {
  for (uint32_t i = 0; i < f->n; i++)
    if (f->points[i].point != p->point && dominates(&f->points[i], p)) return true;
  return false;
}

static void insert(struct pz_front *f, const struct pz_front_point *p) {
  if (dominated(f, p)) return;
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (!dominates(p, &f->points[i])) f->points[n++] = f->points[i];
  f->points[n++] = *p;
  f->n = n;
}

/* The next chips whose bounds nothing dominates, evaluated together. */
static enum pz_status run_batch(struct pz_study *s, const struct pz_objective *o,
                                const struct pz_front_point *list, uint32_t *at, struct pz_front *f,
                                struct pz_error *err) {
  uint32_t batch[BATCH], n = 0;
  for (; *at < s->n_points && n < BATCH; (*at)++)
    if (!dominated(f, &list[*at])) batch[n++] = list[*at].point;
  enum pz_status status = pz_search_look(s->search, batch, n, o, err);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    struct pz_front_point p = {batch[i], pz_search_value(s->search, o, batch[i], false),
                               pz_search_area_um2(s->search, batch[i]),
                               pz_search_watts(s->search, batch[i])};
    if (p.value > 0) insert(f, &p);
  }
  f->n_evaluated += n;
  return status;
}

enum pz_status pz_front_find(struct pz_study *s, struct pz_front *out, struct pz_error *err) {
  struct pz_objective o = s->contest[s->n_contests - 1].objective;
  struct pz_front_point *list = pz_arena_alloc(&s->arena, s->n_points, sizeof *list);
  struct pz_front f = {pz_arena_alloc(&s->arena, s->n_points, sizeof *f.points), 0, 0};
  enum pz_status status = PZ_OK;
  uint32_t at = 0;
  if (!list || !f.points) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the front");
  o.kind = PZ_OBJECTIVE_GEOMEAN;
  for (uint32_t p = 0; p < s->n_points; p++)
    list[p] =
        (struct pz_front_point){p, pz_search_table_bound(s->search, &o, p),
                                pz_search_area_um2(s->search, p), pz_search_watts(s->search, p)};
  qsort(list, s->n_points, sizeof *list, by_value);
  while (status == PZ_OK && at < s->n_points) status = run_batch(s, &o, list, &at, &f, err);
  if (status != PZ_OK) return status;
  qsort(f.points, f.n, sizeof *f.points, by_area);
  *out = f;
  return PZ_OK;
}
