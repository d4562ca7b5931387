#include "study/pareto.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 64 };

/* ---- finding -------------------------------------------------------------------------------- */

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

/* Chips whose bounds nothing on the front dominates, by bound. */
struct candidates {
  struct pz_study *s;
  struct pz_objective o;
  struct pz_front_point *list;
  uint32_t n;
};

static void boxed(const struct pz_study *s, uint32_t point, struct pz_boxed *out) {
  struct pz_box b = pz_box_of(&s->points[point]);
  pz_boxed_set(&s->space, &b, out);
}

static enum pz_status bound_one(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct candidates *c = ctx;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed chip;
  struct pz_front_point *p = &c->list[i];
  boxed(c->s, (uint32_t)i, &chip);
  *p = (struct pz_front_point){
      .point = (uint32_t)i, .area_um2 = chip.least.mm2 * 1e6, .watts = chip.least.watts};
  return pz_search_bound(c->s->search, worker, &c->o, &chip, steps, &p->value, err);
}

static enum pz_status value_one(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct candidates *c = ctx;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_front_point *p = &c->list[i];
  struct pz_boxed chip;
  enum pz_status status = PZ_OK;
  for (uint32_t k = 0; k < c->o.n && status == PZ_OK; k++) {
    struct pz_evaluation e;
    uint32_t m = c->o.models[k];
    status = pz_search_evaluate(c->s->search, worker, &c->s->points[p->point], m, PZ_EFFORT_QUICK,
                                &e, err);
    steps[m] = (struct pz_step_cost){e.step_s, e.dynamic_j};
  }
  boxed(c->s, p->point, &chip);
  if (status == PZ_OK) p->value = pz_objective_value(&c->o, steps, &chip.least);
  return status;
}

static void pack_one(void *ctx, size_t i, struct pz_buffer *out) {
  const struct candidates *c = ctx;
  pz_buffer_append(out, (const char *)&c->list[i], sizeof c->list[i]);
}

static enum pz_status unpack_one(void *ctx, size_t i, struct pz_bytes *in) {
  struct candidates *c = ctx;
  return pz_bytes_take(in, &c->list[i], sizeof c->list[i]) ? PZ_OK : PZ_BAD_INPUT;
}

/* The first of them, evaluated together.  What the front then dominates goes for good. */
static enum pz_status run_batch(struct candidates *c, struct pz_front *f, struct pz_error *err) {
  struct pz_search_work work = {value_one, pack_one, unpack_one, c, false};
  uint32_t n = c->n < BATCH ? c->n : BATCH, left = 0;
  enum pz_status status = pz_search_deal(c->s->search, n, &work, err);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++)
    if (c->list[i].value > 0) insert(f, &c->list[i]);
  for (uint32_t i = n; i < c->n; i++)
    if (!dominated(f, &c->list[i])) c->list[left++] = c->list[i];
  c->n = left;
  f->n_evaluated += n;
  return status;
}

static enum pz_status evaluate_all(struct candidates *c, struct pz_watch watch, struct pz_front *f,
                                   struct pz_error *err) {
  enum pz_status status = PZ_OK;
  pz_progress_next(watch.progress, "front", "chips", c->n);
  while (status == PZ_OK && c->n) {
    status = run_batch(c, f, err);
    if (watch.progress)
      pz_progress_set(watch.progress, f->n_evaluated, f->n_evaluated + c->n, NULL);
  }
  pz_progress_finish(watch.progress, NULL);
  return status;
}

static struct pz_front_point *fastest(const struct pz_front *f) {
  struct pz_front_point *best = f->points;
  for (uint32_t i = 1; i < f->n; i++)
    if (by_value(&f->points[i], best) < 0) best = &f->points[i];
  return best;
}

static void mark_knee(struct pz_front *f) {
  if (f->n < 3) return;
  const struct pz_front_point *small = f->points, *fast = fastest(f);
  double values = fast->value - small->value, areas = fast->area_um2 - small->area_um2;
  double farthest = 1e-9;
  struct pz_front_point *knee = NULL;
  if (!(values > 0 && areas > 0)) return;
  for (uint32_t i = 0; i < f->n; i++) {
    struct pz_front_point *p = &f->points[i];
    double above = (p->value - small->value) / values - (p->area_um2 - small->area_um2) / areas;
    if (above > farthest) farthest = above, knee = p;
  }
  if (knee) knee->knee = true;
}

enum pz_status pz_front_find(struct pz_study *s, struct pz_watch watch, struct pz_front *out,
                             struct pz_error *err) {
  struct candidates c = {.s = s,
                         .o = s->objective_run[s->n_runs - 1].objective,
                         .list = pz_arena_alloc(&s->arena, s->n_points, sizeof *c.list),
                         .n = s->n_points};
  struct pz_search_work bounds = {bound_one, pack_one, unpack_one, &c, false};
  struct pz_front f = {.points = pz_arena_alloc(&s->arena, s->n_points, sizeof *f.points)};
  if (!c.list || !f.points) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the front");
  c.o.kind = PZ_OBJECTIVE_GEOMEAN;
  enum pz_status status = pz_search_deal(s->search, s->n_points, &bounds, err);
  if (status != PZ_OK) return status;
  qsort(c.list, c.n, sizeof *c.list, by_value);
  status = evaluate_all(&c, watch, &f, err);
  if (status != PZ_OK) return status;
  qsort(f.points, f.n, sizeof *f.points, by_area);
  mark_knee(&f);
  f.n_full = f.n;
  *out = f;
  return PZ_OK;
}

/* ---- thinning ------------------------------------------------------------------------------- */

/* How much worse a kept point may be. */
struct slack {
  double value, area_um2, watts;
};

static struct slack slack_of(const struct pz_front *f, double tolerance) {
  struct slack most = {0};
  for (uint32_t i = 0; i < f->n; i++) {
    most.value = fmax(most.value, f->points[i].value);
    most.area_um2 = fmax(most.area_um2, f->points[i].area_um2);
    most.watts = fmax(most.watts, f->points[i].watts);
  }
  return (struct slack){tolerance * most.value, tolerance * most.area_um2, tolerance * most.watts};
}

static bool covers(const struct pz_front_point *q, const struct pz_front_point *p,
                   const struct slack *by) {
  return q->value >= p->value - by->value && q->area_um2 <= p->area_um2 + by->area_um2 &&
         q->watts <= p->watts + by->watts;
}

/* The fastest that stands for p; of equally fast ones the smaller: points come by area. */
static struct pz_front_point *stand_in(const struct pz_front *f, struct pz_front_point *p,
                                       const struct slack *by) {
  struct pz_front_point *best = p;
  for (uint32_t i = 0; i < f->n; i++)
    if (covers(&f->points[i], p, by) && f->points[i].value > best->value) best = &f->points[i];
  return best;
}

void pz_front_thin(struct pz_front *f, double tolerance) {
  if (!f->n || !(tolerance > 0)) return;
  struct slack by = slack_of(f, tolerance);
  uint32_t n = 0;
  fastest(f)->kept = true;
  for (uint32_t i = 0; i < f->n; i++) f->points[i].kept |= f->points[i].knee;
  for (uint32_t i = 0; i < f->n; i++) {
    bool covered = false;
    for (uint32_t k = 0; k < f->n && !covered; k++)
      covered = f->points[k].kept && covers(&f->points[k], &f->points[i], &by);
    if (!covered) stand_in(f, &f->points[i], &by)->kept = true;
  }
  for (uint32_t i = 0; i < f->n; i++)
    if (f->points[i].kept) f->points[n++] = f->points[i];
  f->n = n;
}
