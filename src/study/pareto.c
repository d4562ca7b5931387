/* Finds and thins a Pareto front.  pz_pareto_front() bounds every chip of the study, then evaluates chips in batches, those
 * with the largest bounds first; after each batch, chips whose bounds are dominated by the front are excluded.  So most
 * chips are never evaluated.  pz_front_thin() chooses a subset of the front to show. */
#include "study/pareto.h"

#include <math.h>
#include <stdlib.h>

#include "study/tasks.h"

enum { BATCH = 64 };

/* ---- dominance ------------------------------------------------------------------------------ */

static int compare_values(const void *a, const void *b) {
  const struct pz_front_point *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  if (x->area_um2 != y->area_um2) return x->area_um2 < y->area_um2 ? -1 : 1;
  if (x->watts != y->watts) return x->watts < y->watts ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

static int compare_areas(const void *a, const void *b) {
  const struct pz_front_point *x = a, *y = b;
  if (x->area_um2 != y->area_um2) return x->area_um2 < y->area_um2 ? -1 : 1;
  return compare_values(a, b);
}

static bool dominates(const struct pz_front_point *a, const struct pz_front_point *b) {
  if (a->value < b->value || a->area_um2 > b->area_um2 || a->watts > b->watts) return false;
  bool better = a->value > b->value || a->area_um2 < b->area_um2 || a->watts < b->watts;
  return better || a->point < b->point; /* of equal points the first stays */
}

static bool is_dominated(const struct pz_front *f, const struct pz_front_point *p) {
  for (uint32_t i = 0; i < f->n; i++)
    if (f->points[i].point != p->point && dominates(&f->points[i], p)) return true;
  return false;
}

static void insert_into_front(struct pz_front *f, const struct pz_front_point *p) {
  if (is_dominated(f, p)) return;
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (!dominates(p, &f->points[i])) f->points[n++] = f->points[i];
  f->points[n++] = *p;
  f->n = n;
}

/* ---- finding -------------------------------------------------------------------------------- */

/* The chips that may still be on the front.  Their values are upper bounds until they are evaluated. */
struct front_candidates {
  struct pz_study *s;
  struct pz_objective objective;
  struct pz_front_point *list;
  uint32_t n;
};

static void set_boxed_point(const struct pz_study *s, uint32_t point, struct pz_boxed *out) {
  struct pz_box one = pz_box_of(&s->points[point]);
  pz_boxed_set(&s->space, &one, out);
}

static void bound_candidate(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct front_candidates *c = ctx;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed chip;
  struct pz_front_point *p = &c->list[i];
  set_boxed_point(c->s, (uint32_t)i, &chip);
  *p = (struct pz_front_point){
      .point = (uint32_t)i, .area_um2 = chip.least.mm2 * 1e6, .watts = chip.least.watts};
  pz_must(call, pz_search_bound(c->s->search, worker, &c->objective, &chip, steps, &p->value,
                                pz_call_error(call)));
}

static void evaluate_candidate(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct front_candidates *c = ctx;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_front_point *p = &c->list[i];
  struct pz_boxed chip;
  for (uint32_t k = 0; k < c->objective.n; k++) {
    struct pz_evaluation e;
    uint32_t m = c->objective.models[k];
    pz_must(call, pz_search_evaluate(c->s->search, worker, &c->s->points[p->point], m,
                                     PZ_EFFORT_QUICK, &e, pz_call_error(call)));
    steps[m] = (struct pz_step_cost){e.step_s, e.dynamic_j};
  }
  set_boxed_point(c->s, p->point, &chip);
  p->value = pz_objective_value(&c->objective, steps, &chip.least);
}

static struct pz_front_point *fastest_point(const struct pz_front *f) {
  struct pz_front_point *best = f->points;
  for (uint32_t i = 1; i < f->n; i++)
    if (compare_values(&f->points[i], best) < 0) best = &f->points[i];
  return best;
}

static void mark_knee(struct pz_front *f) {
  if (f->n < 3) return;
  const struct pz_front_point *smallest = f->points, *fastest = fastest_point(f);
  double value_range = fastest->value - smallest->value;
  double area_range = fastest->area_um2 - smallest->area_um2;
  bool has_chord = value_range > 0 && area_range > 0;
  if (!has_chord) return;
  double farthest = 1e-9;
  struct pz_front_point *knee = NULL;
  for (uint32_t i = 0; i < f->n; i++) {
    struct pz_front_point *p = &f->points[i];
    double above = (p->value - smallest->value) / value_range -
                   (p->area_um2 - smallest->area_um2) / area_range;
    if (above > farthest) {
      farthest = above;
      knee = p;
    }
  }
  if (knee) knee->knee = true;
}

struct pz_front pz_pareto_front(struct pz_call *call, struct pz_study *s, struct pz_watch watch) {
  struct pz_call own = pz_call_in(call, &s->arena);
  struct front_candidates c = {.s = s,
                               .objective = s->objective_run[s->n_runs - 1].objective,
                               .list = pz_alloc(&own, s->n_points, sizeof *c.list),
                               .n = s->n_points};
  struct pz_front f = {.points = pz_alloc(&own, s->n_points, sizeof *f.points)};
  struct pz_study_tasks tasks = {
      .run = bound_candidate, .ctx = &c, .results = c.list, .result_bytes = sizeof *c.list};
  c.objective.kind = PZ_OBJECTIVE_GEOMEAN;
  pz_study_run_tasks(call, s->search, s->n_points, &tasks);
  qsort(c.list, c.n, sizeof *c.list, compare_values);

  pz_study_phase_begin(call, watch.progress, "front", "chips", c.n);
  tasks.run = evaluate_candidate;
  while (c.n) {
    uint32_t n = c.n < BATCH ? c.n : BATCH, n_left = 0;
    pz_study_run_tasks(call, s->search, n, &tasks);
    for (uint32_t i = 0; i < n; i++)
      if (c.list[i].value > 0) insert_into_front(&f, &c.list[i]);
    for (uint32_t i = n; i < c.n; i++)
      if (!is_dominated(&f, &c.list[i])) c.list[n_left++] = c.list[i];
    c.n = n_left;
    f.n_evaluated += n;
    if (watch.progress) pz_progress_set(watch.progress, f.n_evaluated, f.n_evaluated + c.n, NULL);
  }
  pz_study_phase_end(call, watch.progress);
  qsort(f.points, f.n, sizeof *f.points, compare_areas);
  mark_knee(&f);
  f.n_full = f.n;
  return f;
}

/* ---- thinning ------------------------------------------------------------------------------- */

/* By how much a kept point may be worse, in each criterion, than a point that is left out. */
struct front_slack {
  double value, area_um2, watts;
};

static bool is_close_to(const struct pz_front_point *kept, const struct pz_front_point *p,
                        const struct front_slack *slack) {
  return kept->value >= p->value - slack->value &&
         kept->area_um2 <= p->area_um2 + slack->area_um2 && kept->watts <= p->watts + slack->watts;
}

void pz_front_thin(struct pz_front *f, double tolerance) {
  struct front_slack most = {0};
  if (!f->n || !(tolerance > 0)) return;
  for (uint32_t i = 0; i < f->n; i++) {
    most.value = fmax(most.value, f->points[i].value);
    most.area_um2 = fmax(most.area_um2, f->points[i].area_um2);
    most.watts = fmax(most.watts, f->points[i].watts);
  }
  struct front_slack slack = {tolerance * most.value, tolerance * most.area_um2,
                              tolerance * most.watts};
  fastest_point(f)->kept = true;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->points[i].knee) f->points[i].kept = true;
  for (uint32_t i = 0; i < f->n; i++) {
    const struct pz_front_point *p = &f->points[i];
    bool covered = false;
    for (uint32_t k = 0; k < f->n && !covered; k++)
      covered = f->points[k].kept && is_close_to(&f->points[k], p, &slack);
    if (covered) continue;
    /* Keep the fastest point that covers it, and of equally fast ones the smallest: points are sorted by area. */
    struct pz_front_point *best = &f->points[i];
    for (uint32_t k = 0; k < f->n; k++)
      if (is_close_to(&f->points[k], p, &slack) && f->points[k].value > best->value)
        best = &f->points[k];
    best->kept = true;
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->points[i].kept) f->points[n++] = f->points[i];
  f->n = n;
}
