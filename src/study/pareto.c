/* Finds and thins a Pareto front.  pz_pareto_front() bounds every chip of the study, then
 * evaluates chips in batches, those with the largest bounds first.  After each batch, chips
 * whose bounds are dominated by the front are excluded, so that most chips are never evaluated.
 * pz_front_thin() chooses a subset of the front to show. */
#include "study/pareto.h"

#include <math.h>
#include <stdlib.h>

#include "study/tasks.h"

enum { BATCH = 64 }; /* chips that are evaluated before the front excludes others again */

/* ---- dominance ------------------------------------------------------------------------------ */

/* Compares points by value, the largest first; then by area, power and index, for qsort. */
static int compare_values(const void *a, const void *b) {
  const struct pz_front_point *first = a, *second = b;
  if (first->value != second->value) return first->value > second->value ? -1 : 1;
  if (first->area_um2 != second->area_um2) return first->area_um2 < second->area_um2 ? -1 : 1;
  if (first->watts != second->watts) return first->watts < second->watts ? -1 : 1;
  return first->point < second->point ? -1 : 1;
}

/* Compares points by area, the smallest first; then like compare_values(), for qsort. */
static int compare_areas(const void *a, const void *b) {
  const struct pz_front_point *first = a, *second = b;
  if (first->area_um2 != second->area_um2) return first->area_um2 < second->area_um2 ? -1 : 1;
  return compare_values(a, b);
}

/* Returns whether `first` dominates `second`: it is at least as good in throughput, area and power,
 * and better in one of them.  If both are equal, the point with the lower index dominates. */
static bool dominates(const struct pz_front_point *first, const struct pz_front_point *second) {
  if (first->value < second->value || first->area_um2 > second->area_um2 ||
      first->watts > second->watts)
    return false;
  bool better = first->value > second->value || first->area_um2 < second->area_um2 ||
                first->watts < second->watts;
  return better || first->point < second->point; /* the first of equal points stays */
}

/* Returns whether another point of the front dominates a point. */
static bool is_dominated(const struct pz_front *front, const struct pz_front_point *point) {
  for (uint32_t i = 0; i < front->n; i++)
    if (front->points[i].point != point->point && dominates(&front->points[i], point)) return true;
  return false;
}

/* ---- finding -------------------------------------------------------------------------------- */

/* The chips that may still be on the front; values are upper bounds until evaluated. */
struct front_candidates {
  struct pz_study *study;
  struct pz_objective objective;
  struct pz_front_point *list;
  uint32_t n;
};

/* Task i: sets candidate i to chip i with its area, power and upper bound of the objective. */
static void bound_candidate(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct front_candidates *candidates = ctx;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed chip;
  struct pz_front_point *point = &candidates->list[i];
  struct pz_box point_box = pz_box_of(&candidates->study->points[i]);
  pz_boxed_set(&candidates->study->space, &point_box, &chip);
  *point = (struct pz_front_point){
      .point = (uint32_t)i, .area_um2 = chip.least.mm2 * 1e6, .watts = chip.least.watts};
  point->value = pz_search_upper_bound(call, candidates->study->search, worker,
                                       &candidates->objective, &chip, steps);
}

/* Task i: replaces the bound of candidate i by the objective with the best plan of every model. */
static void evaluate_candidate(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct front_candidates *candidates = ctx;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_front_point *point = &candidates->list[i];
  struct pz_boxed chip;
  for (uint32_t k = 0; k < candidates->objective.n; k++) {
    uint32_t model = candidates->objective.models[k];
    struct pz_evaluation evaluation =
        pz_search_evaluate_chip(call, candidates->study->search, worker,
                                &candidates->study->points[point->point], model, PZ_EFFORT_QUICK);
    steps[model] = (struct pz_step_cost){evaluation.step_s, evaluation.dynamic_j};
  }
  struct pz_box point_box = pz_box_of(&candidates->study->points[point->point]);
  pz_boxed_set(&candidates->study->space, &point_box, &chip);
  point->value = pz_objective_value(&candidates->objective, steps, &chip.least);
}

/* Returns the point with the largest value; of equal ones the smallest. */
static struct pz_front_point *fastest_point(const struct pz_front *front) {
  struct pz_front_point *best = front->points;
  for (uint32_t i = 1; i < front->n; i++)
    if (compare_values(&front->points[i], best) < 0) best = &front->points[i];
  return best;
}

/* Marks the point farthest above the chord from the smallest chip to the fastest one. */
static void mark_knee(struct pz_front *front) {
  if (front->n < 3) return;
  const struct pz_front_point *smallest = front->points, *fastest = fastest_point(front);
  double value_range = fastest->value - smallest->value;
  double area_range = fastest->area_um2 - smallest->area_um2;
  bool has_chord = value_range > 0 && area_range > 0;
  if (!has_chord) return;
  double farthest = 1e-9; /* a smaller distance is a rounding error */
  struct pz_front_point *knee = NULL;
  for (uint32_t i = 0; i < front->n; i++) {
    struct pz_front_point *point = &front->points[i];
    double above = (point->value - smallest->value) / value_range -
                   (point->area_um2 - smallest->area_um2) / area_range;
    if (above > farthest) {
      farthest = above;
      knee = point;
    }
  }
  if (knee) knee->knee = true;
}

/* Evaluates chips in the order of their bounds until the front dominates all remaining bounds. */
struct pz_front pz_pareto_front(struct pz_call *call, struct pz_study *study,
                                struct pz_watch watch) {
  struct pz_call own = pz_call_in(call, &study->arena);
  struct front_candidates candidates = {study, study->objective_run[study->n_runs - 1].objective,
                                        NULL, study->n_points};
  candidates.list = pz_alloc(&own, study->n_points, sizeof *candidates.list);
  struct pz_front front = {.points = pz_alloc(&own, study->n_points, sizeof *front.points)};
  struct pz_study_tasks tasks = {.run = bound_candidate, .ctx = &candidates};
  tasks.results = candidates.list;
  tasks.result_bytes = sizeof *candidates.list;
  candidates.objective.kind = PZ_OBJECTIVE_GEOMEAN;
  pz_study_run_tasks(call, study->search, study->n_points, &tasks);
  qsort(candidates.list, candidates.n, sizeof *candidates.list, compare_values);

  pz_study_phase_begin(call, watch.progress, "front", "chips", candidates.n);
  tasks.run = evaluate_candidate;
  while (candidates.n) {
    uint32_t n = candidates.n < BATCH ? candidates.n : BATCH, n_left = 0;
    pz_study_run_tasks(call, study->search, n, &tasks);
    for (uint32_t i = 0; i < n; i++)
      if (candidates.list[i].value > 0 && !is_dominated(&front, &candidates.list[i])) {
        /* Replaces the points of the front that the candidate dominates by the candidate. */
        uint32_t n_kept = 0;
        for (uint32_t k = 0; k < front.n; k++)
          if (!dominates(&candidates.list[i], &front.points[k]))
            front.points[n_kept++] = front.points[k];
        front.points[n_kept++] = candidates.list[i];
        front.n = n_kept;
      }
    for (uint32_t i = n; i < candidates.n; i++)
      if (!is_dominated(&front, &candidates.list[i]))
        candidates.list[n_left++] = candidates.list[i];
    candidates.n = n_left;
    front.n_evaluated += n;
    if (watch.progress)
      pz_progress_set(watch.progress, front.n_evaluated, front.n_evaluated + candidates.n, NULL);
  }
  pz_study_phase_end(call, watch.progress);
  qsort(front.points, front.n, sizeof *front.points, compare_areas);
  mark_knee(&front);
  front.n_full = front.n;
  return front;
}

/* ---- thinning ------------------------------------------------------------------------------- */

/* How much worse a kept point may be in each criterion than a point that it covers. */
struct front_slack {
  double value, area_um2, watts;
};

/* Returns whether a kept point may stand for another one: it is worse by at most the slack. */
static bool is_close_to(const struct pz_front_point *kept, const struct pz_front_point *point,
                        const struct front_slack *slack) {
  return kept->value >= point->value - slack->value &&
         kept->area_um2 <= point->area_um2 + slack->area_um2 &&
         kept->watts <= point->watts + slack->watts;
}

/* Keeps the fastest point, the knee, and for each uncovered point the fastest that covers it. */
void pz_front_thin(struct pz_front *front, double tolerance) {
  struct front_slack most = {0};
  if (!front->n || !(tolerance > 0)) return;
  for (uint32_t i = 0; i < front->n; i++) {
    most.value = fmax(most.value, front->points[i].value);
    most.area_um2 = fmax(most.area_um2, front->points[i].area_um2);
    most.watts = fmax(most.watts, front->points[i].watts);
  }
  struct front_slack slack = {tolerance * most.value, tolerance * most.area_um2,
                              tolerance * most.watts};
  fastest_point(front)->kept = true;
  for (uint32_t i = 0; i < front->n; i++)
    if (front->points[i].knee) front->points[i].kept = true;
  for (uint32_t i = 0; i < front->n; i++) {
    const struct pz_front_point *point = &front->points[i];
    bool covered = false;
    for (uint32_t k = 0; k < front->n && !covered; k++)
      covered = front->points[k].kept && is_close_to(&front->points[k], point, &slack);
    if (covered) continue;
    /* Keeps the fastest point within the tolerance; of equal ones the first and smallest. */
    struct pz_front_point *best = &front->points[i];
    for (uint32_t k = 0; k < front->n; k++)
      if (is_close_to(&front->points[k], point, &slack) && front->points[k].value > best->value)
        best = &front->points[k];
    best->kept = true;
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < front->n; i++)
    if (front->points[i].kept) front->points[n++] = front->points[i];
  front->n = n;
}
