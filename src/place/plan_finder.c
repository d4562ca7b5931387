/* Finds the best training plan for one chip after another (plan_finder.h).
 *
 * Shapes are ranked by lower bounds that follow from rates of the chip and tables of terms
 * (rank_shapes).  Only promising shapes are timed on the chip, which takes most of the time
 * (time_shape), and bounded by the plans of their frontiers (bound_shape).  pz_finder_best() first
 * prices the plan with the lowest bound, because few plans are faster, and then the grids of the
 * shapes that this plan does not exclude. */
#include "place/plan_finder.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/shared_table.h"
#include "cost/power.h"
#include "place/plan_frontier.h"
#include "place/plan_pricing.h"
#include "step/step_energy.h"

/* Lowers bounds by more than the rounding of sums that a step adds in another order. */
static const double ROUNDING = 1 - 1e-9;

/* A shape with a lower bound of the step of its plans. */
struct ranked_shape {
  double bound_s;
  uint32_t shape;
};

struct pz_plan_finder {
  struct pz_plan_question question;
  struct pz_plan_space space;
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  struct pz_plan_frontiers frontiers;
  struct pz_term_tables terms;
  struct pz_arena best_plans;         /* holds the results of the last call of pz_finder_best() */
  struct pz_product_times *own_times; /* GEMM times, or NULL if those of the question are used */
  /* The shape with which loops over shapes begin.  Finders that share frontiers begin with
   * different shapes, so that each computes other frontiers. */
  uint32_t first_shape;
  uint32_t last_best_shape;    /* the shape with the least pz_finder_floor_s() on the last chip */
  struct ranked_shape *ranked; /* list with room for all shapes */
  struct pz_vec open_grids;    /* grids of a shape that could have the best plan */
  struct pz_plan promising;    /* the plan with the lowest bound on the last chip */
  /* shape of `promising`, or NULL if there is no such plan */
  struct pz_step_shape *promising_shape;
};

/* Returns a hash, never 0, of the properties of chip and network on which layer times depend. */
static uint64_t chip_key(struct pz_finder_chip finder_chip) {
  const struct pz_chip *chip = finder_chip.chip;
  struct pz_power_law law = pz_power_law_of(chip);
  enum { OF_CHIP = 14 }; /* values of the chip, which precede three of each network level */
  double values[OF_CHIP + 3 * PZ_CLUSTER_MOST_LEVELS] = {
      (double)chip->tensor.cores,       (double)chip->tensor.rows,  (double)chip->tensor.cols,
      (double)chip->tensor.local_bytes, (double)chip->vector.cores, (double)chip->vector.lanes,
      (double)chip->glb_bytes,          chip->glb_bytes_per_s,      chip->clock_hz,
      pz_chip_hbm_bytes_per_s(chip),    chip->rules.nested_mapping, chip->cold ? law.watts : 0,
      chip->cold ? law.mm2 : 0,         chip->bounds_others};
  for (int l = 0; l < finder_chip.net->n_levels; l++) {
    values[OF_CHIP + 3 * l] = (double)finder_chip.net->level[l].devices;
    values[OF_CHIP + 3 * l + 1] = finder_chip.net->level[l].bytes_per_s;
    values[OF_CHIP + 3 * l + 2] = finder_chip.net->level[l].latency_s;
  }
  return pz_hash(values, sizeof values) | 1; /* 0 stands for shapes without times */
}

/* Sets chip and cutoff of the question, and discards the plans found for the last chip. */
static void set_chip(struct pz_plan_finder *finder, struct pz_finder_chip finder_chip,
                     double cutoff_s) {
  struct pz_found_plan *list = finder->pricing.found.list;
  finder->question.job.chip = finder_chip.chip;
  finder->question.job.net = finder_chip.net;
  finder->pricing.cutoff_s = cutoff_s;
  finder->pricing.found = (struct pz_found_plans){.list = list};
  pz_plan_memory_set_chip(&finder->memory, finder_chip.chip);
}

/* Computes the layer times of a shape on a chip, unless the shape is already timed for it. */
static void time_shape(struct pz_call *call, struct pz_plan_finder *finder,
                       struct pz_step_shape *shape, struct pz_finder_chip finder_chip) {
  uint64_t key = chip_key(finder_chip);
  struct pz_plan plan = pz_step_shape_plan(&finder->question, shape);
  if (shape->timed_for == key) return;
  shape->timed_for = 0;
  pz_step_model_set_chip(call, shape->model, finder_chip.chip, finder_chip.net, &plan,
                         finder->terms.times);
  pz_step_shape_time(call, &finder->space, shape);
  shape->timed_for = key;
}

/* ---- bounds from rates ---------------------------------------------------------------------- */

/* Returns the factor by which waiting for other devices lengthens a step on all devices.  It holds
 * in bounds for fewer devices, too, where the work of each grows by more than the waiting falls. */
static double waiting_factor(const struct pz_plan_question *question) {
  return 1 + pz_step_waiting(question->job.constants, question->job.net, question->plan.devices);
}

/* Returns a lower bound, in seconds, of the step of all plans of a shape (tp, cp, ep and mbs): the
 * time of a microbatch, times the microbatches of each device if all devices have equal shares. */
static double whole_shape_s(const struct pz_plan_finder *finder, const struct pz_term_rates *rates,
                            uint32_t shape) {
  enum pz_term_measure measure = pz_term_measure_of(&finder->terms, rates, shape);
  return pz_term_s(&finder->terms, rates, shape, PZ_TERM_WHOLE, measure) *
         finder->terms.share[shape] * waiting_factor(&finder->question);
}

/* Returns a lower bound, in seconds, of the step of the plans of a shape that fit in memory: the
 * least bound of its frontier by the times of terms (step_terms.h), the parts of a step. */
static double shape_frontier_s(struct pz_call *call, struct pz_plan_finder *finder,
                               const struct pz_term_rates *rates, uint32_t shape) {
  const struct pz_frontier *plans = pz_plan_frontier_shape(call, &finder->frontiers, shape);
  enum pz_term_measure measure = pz_term_measure_of(&finder->terms, rates, shape);
  struct pz_term_seconds seconds;
  for (uint32_t k = 0; k < pz_terms_of(plans->kinds); k++)
    seconds.s[k] = pz_term_s(&finder->terms, rates, shape, pz_term_at(plans->kinds, k), measure);
  return pz_frontier_least_s(plans, &seconds);
}

/* Returns a lower bound of the step of all plans from rates of the chip, at most enough_s. */
double pz_finder_floor_s(struct pz_call *call, struct pz_plan_finder *finder,
                         struct pz_finder_chip finder_chip, double enough_s) {
  set_chip(finder, finder_chip, enough_s);
  struct pz_term_rates rates =
      pz_term_rates_of(call, &finder->terms, finder_chip.chip, finder_chip.net);
  double least_s = enough_s;
  /* the best shape of the last chip comes first, because it is likely to be the best again */
  for (uint32_t k = 0; k <= finder->space.shapes.n; k++) {
    uint32_t i = finder->last_best_shape;
    if (k > 0) i = (finder->first_shape + k - 1) % finder->space.shapes.n;
    if (whole_shape_s(finder, &rates, i) >= least_s) continue;
    double bound_s = shape_frontier_s(call, finder, &rates, i);
    if (bound_s >= least_s) continue;
    least_s = bound_s;
    finder->last_best_shape = i;
  }
  return least_s;
}

/* Compares two ranked shapes for qsort(): by bound, and equal bounds by the number of the shape. */
static int by_rank(const void *a, const void *b) {
  const struct ranked_shape *first = a, *second = b;
  if (first->bound_s != second->bound_s) return first->bound_s < second->bound_s ? -1 : 1;
  return (first->shape > second->shape) - (first->shape < second->shape);
}

/* Lists the shapes that may have a step below the limit, lowest bound first; returns how many. */
static uint32_t rank_shapes(struct pz_call *call, struct pz_plan_finder *finder,
                            struct pz_finder_chip finder_chip, double limit_s) {
  struct pz_term_rates rates =
      pz_term_rates_of(call, &finder->terms, finder_chip.chip, finder_chip.net);
  uint32_t n = 0;
  for (uint32_t k = 0; k < finder->space.shapes.n; k++) {
    uint32_t i = (finder->first_shape + k) % finder->space.shapes.n;
    double bound_s = whole_shape_s(finder, &rates, i);
    if (bound_s >= limit_s) continue;
    if (limit_s < HUGE_VAL) bound_s = shape_frontier_s(call, finder, &rates, i);
    if (bound_s < limit_s) finder->ranked[n++] = (struct ranked_shape){bound_s, i};
  }
  qsort(finder->ranked, n, sizeof *finder->ranked, by_rank);
  return n;
}

/* ---- bounds from layer times ---------------------------------------------------------------- */

/* Returns the seconds of each term of a step (step_terms.h) on the chip for which the shape is
 * timed: layers by kind, what full and selective recomputation add to them, and the operators
 * before and after all layers.  Holds for plans with several microbatches. */
static struct pz_term_seconds timed_terms(struct pz_call *call, const struct pz_plan_space *space,
                                          struct pz_step_shape *shape) {
  static const int recomputations[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_FULL,
                                       PZ_RECOMPUTATION_SELECTIVE};
  struct pz_plan plan = pz_step_shape_fastest(space->question, shape);
  uint32_t kinds = shape->model->kinds.n;
  double times_s[PZ_TERMS] = {0};
  for (uint32_t mode = 0; mode < 3; mode++) {
    plan.recompute = recomputations[mode];
    pz_step_model_time(call, shape->model, &plan, 2, PZ_TIMING_BOUND);
    const struct pz_model_steps *steps = shape->model->steps;
    for (uint32_t k = 0; k < kinds; k++) {
      double block_s = pz_layer_step_s(&steps->block[k]);
      double recomputed_s = pz_layer_step_s(&steps->again[k]);
      times_s[mode * PZ_TERM_KINDS + k] = mode == 0 ? block_s : pz_fmax(0, recomputed_s - block_s);
    }
    times_s[PZ_TERM_ENDS] = pz_layer_step_s(&steps->before);
    times_s[PZ_TERM_ENDS + 1] = pz_layer_step_s(&steps->after);
  }
  struct pz_term_seconds terms = {{0}};
  for (uint32_t k = 0; k < pz_terms_of(kinds); k++) terms.s[k] = times_s[pz_term_at(kinds, k)];
  return terms;
}

/* Lowers *least_s to the least bound of the steps of the shape's plans on a chip.  The plan that
 * lowers it becomes finder->promising.  Quicker bounds of shape, grids and plans come first. */
static void bound_shape_on(struct pz_call *call, struct pz_plan_finder *finder,
                           struct pz_step_shape *shape, const struct pz_chip *chip,
                           double *least_s) {
  const struct pz_plan_space *space = &finder->space;
  pz_plan_space_check_stop(call, space);
  time_shape(call, finder, shape, (struct pz_finder_chip){chip, finder->question.job.net});
  /* the bound of the whole shape: all its layers, divided evenly among the devices */
  double microbatch_s = pz_fmin(shape->time[0].single_s, shape->time[0].several_s);
  double layers_s = microbatch_s * pz_step_shape_share(space->question, shape) *
                    waiting_factor(space->question) * ROUNDING;
  if (layers_s >= *least_s) return;
  struct pz_term_seconds seconds = timed_terms(call, space, shape);
  for (uint32_t i = shape->first_grid; i < shape->first_grid + shape->n_grids; i++) {
    const struct pz_plan_grid *grid = pz_grid_at(space, i);
    double grid_s = pz_plan_grid_bound_s(space->question, shape, grid) * ROUNDING;
    if (!(grid_s < *least_s)) continue;
    const struct pz_frontier *plans = pz_plan_frontier_grid(call, &finder->frontiers, i);
    for (uint32_t k = 0; k < plans->n_plans; k++) {
      const struct pz_frontier_plan *packed = &pz_frontier_plans(plans)[k];
      struct pz_plan plan = pz_frontier_unpack(plans, packed, space, grid);
      /* gradients of a single microbatch need not be accumulated */
      double single_factor = 1;
      if (pz_plan_microbatches(&plan) == 1)
        single_factor = pz_fmin(1, shape->time[0].single_s / shape->time[0].several_s);
      if (pz_frontier_plan_s(plans, packed, &seconds) * single_factor >= *least_s) continue;
      double bound_s = pz_step_bound(call, shape->model, &plan) * ROUNDING;
      if (bound_s >= *least_s) continue;
      *least_s = bound_s;
      finder->promising = plan;
      finder->promising_shape = shape;
    }
  }
}

/* Lowers *least_s to the least bound of the steps of the shape's plans on the chip of the question.
 * If GEMMs have nested mappings there, a relaxed chip without them is tried first: it is never
 * slower, and its GEMM times are stored, so that its bound often excludes the shape. */
static void bound_shape(struct pz_call *call, struct pz_plan_finder *finder,
                        struct pz_step_shape *shape, double *least_s) {
  struct pz_finder_chip question_chip = {finder->question.job.chip, finder->question.job.net};
  if (question_chip.chip->rules.nested_mapping && shape->timed_for != chip_key(question_chip)) {
    struct pz_chip relaxed = *question_chip.chip;
    double relaxed_s = *least_s;
    relaxed.rules.nested_mapping = false;
    relaxed.bounds_others = true;
    bound_shape_on(call, finder, shape, &relaxed, &relaxed_s);
    if (!(relaxed_s < *least_s)) return; /* the shape is excluded */
  }
  bound_shape_on(call, finder, shape, question_chip.chip, least_s);
}

/* Returns a lower bound of the step of all plans from layer times on the chip, at most enough_s. */
double pz_finder_bound_s(struct pz_call *call, struct pz_plan_finder *finder,
                         struct pz_finder_chip finder_chip, double enough_s) {
  double least_s = enough_s;
  pz_plan_frontiers_trim(&finder->frontiers);
  set_chip(finder, finder_chip, enough_s);
  finder->promising_shape = NULL;
  uint32_t n = rank_shapes(call, finder, finder_chip, enough_s);
  for (uint32_t i = 0; i < n && finder->ranked[i].bound_s < least_s; i++)
    bound_shape(call, finder, pz_shape_at(&finder->space, finder->ranked[i].shape), &least_s);
  return least_s;
}

/* Returns a lower bound, in seconds, of the step of the promising plan (see struct pz_plan_finder)
 * on another chip without nested mappings, or HUGE_VAL if there is no promising plan. */
double pz_finder_promising_s(struct pz_call *call, struct pz_plan_finder *finder,
                             struct pz_finder_chip finder_chip) {
  struct pz_chip relaxed = *finder_chip.chip;
  struct pz_finder_chip on_relaxed = {&relaxed, finder_chip.net};
  relaxed.rules.nested_mapping = false;
  if (!finder->promising_shape) return HUGE_VAL;
  set_chip(finder, on_relaxed, HUGE_VAL);
  time_shape(call, finder, finder->promising_shape, on_relaxed);
  return pz_step_bound(call, finder->promising_shape->model, &finder->promising);
}

/* ---- the best plan -------------------------------------------------------------------------- */

/* Returns the fastest plan on a chip with a step below cutoff_s, and sets *least_s to a lower bound
 * of the step of all plans.  First prices the promising plan, which has the lowest bound, and then
 * the grids of the shapes that it does not exclude, lowest bound first. */
struct pz_found_plans pz_finder_best(struct pz_call *call, struct pz_plan_finder *finder,
                                     struct pz_finder_chip finder_chip, double cutoff_s,
                                     double *least_s) {
  const struct pz_found_plans *found = &finder->pricing.found;
  pz_arena_release(&finder->best_plans);
  pz_arena_init(&finder->best_plans);
  *least_s = pz_finder_bound_s(call, finder, finder_chip, cutoff_s);
  if (!finder->promising_shape) return *found;
  pz_plan_pricing_add(call, &finder->pricing, finder->promising_shape, &finder->promising);
  double limit_s = found->n ? found->list[0].p.step_s : cutoff_s;
  uint32_t n = rank_shapes(call, finder, finder_chip, limit_s);
  for (uint32_t i = 0; i < n; i++) { /* the limit falls whenever a better plan is found */
    limit_s = found->n ? found->list[0].p.step_s : cutoff_s;
    if (finder->ranked[i].bound_s >= limit_s) break;
    struct pz_step_shape *shape = pz_shape_at(&finder->space, finder->ranked[i].shape);
    double bound_s = limit_s;
    bound_shape(call, finder, shape, &bound_s);
    if (!(bound_s < limit_s)) continue;
    /* price the grids of this shape that may have the best plan */
    finder->open_grids.n = 0;
    for (uint32_t k = shape->first_grid; k < shape->first_grid + shape->n_grids; k++) {
      struct pz_plan_grid *grid = pz_grid_at(&finder->space, k);
      grid->bound_s = pz_plan_grid_bound_s(&finder->question, shape, grid);
      grid->bound = grid->bound_s;
      if (pz_plan_pricing_promises(&finder->pricing, grid))
        pz_append(call, &finder->open_grids, grid);
    }
    qsort(finder->open_grids.items, finder->open_grids.n, sizeof(struct pz_plan_grid),
          pz_plan_grid_order);
    for (uint32_t k = 0; k < finder->open_grids.n; k++) {
      const struct pz_plan_grid *grid = pz_vec_at(&finder->open_grids, struct pz_plan_grid, k);
      if (!pz_plan_pricing_promises(&finder->pricing, grid)) break;
      pz_plan_pricing_grid(call, &finder->pricing, grid);
    }
  }
  if (found->n) {
    /* if passes are scheduled, a better schedule may exist, so that the bound may be lower */
    double step_s = found->list[0].p.step_s;
    *least_s = finder->terms.scheduled ? pz_fmin(*least_s, step_s) : step_s;
  }
  return *found;
}

/* Returns a lower bound of the joules of a step without static power (pz_term_least_j). */
double pz_finder_least_j(struct pz_call *call, struct pz_plan_finder *finder,
                         const struct pz_chip *chip, double voltage2) {
  return pz_term_least_j(call, &finder->terms, chip, voltage2);
}

/* Returns the joules of a step with a plan without static power, once its shape is timed. */
double pz_finder_plan_j(struct pz_call *call, struct pz_plan_finder *finder,
                        struct pz_finder_chip finder_chip, const struct pz_plan *plan,
                        double params) {
  for (uint32_t i = 0; i < finder->space.shapes.n; i++) {
    struct pz_step_shape *shape = pz_shape_at(&finder->space, i);
    bool has_same_sp = shape->tp == 1 || shape->sp == plan->sp;
    bool is_shape_of_plan = shape->tp == plan->tp && shape->cp == pz_plan_cp(plan) &&
                            shape->mbs == plan->mbs && shape->ep == pz_plan_ep(plan) &&
                            has_same_sp && shape->halves == plan->halves;
    if (!is_shape_of_plan) continue;
    time_shape(call, finder, shape, finder_chip);
    return pz_step_dynamic_j(call, shape->model, plan, params);
  }
  pz_raise(call, PZ_BAD_USE, "a plan of another finder");
}

/* ---- a finder ------------------------------------------------------------------------------- */

/* Sets for each shape the range of its grids, whether all its plans have several microbatches, and
 * its representative, the shape with the same plans that differs at most in `halves`. */
static void link_shapes(struct pz_plan_space *space) {
  for (uint32_t i = 0; i < space->grids.n; i++) { /* the grids of a shape are adjacent */
    const struct pz_plan_grid *grid = pz_grid_at(space, i);
    struct pz_step_shape *shape = pz_shape_at(space, grid->shape);
    if (!shape->n_grids) {
      shape->first_grid = i;
      shape->always_several = true;
    }
    shape->n_grids++;
    shape->always_several &= space->question->plan.batch > shape->mbs * grid->dp;
  }
  /* a shape with halves directly follows the shape without halves */
  for (uint32_t i = 0; i < space->shapes.n; i++) {
    struct pz_step_shape *shape = pz_shape_at(space, i);
    shape->representative = i;
    if (!i) continue;
    const struct pz_step_shape *previous = shape - 1;
    bool same_but_halves = shape->tp == previous->tp && shape->cp == previous->cp &&
                           shape->ep == previous->ep && shape->mbs == previous->mbs &&
                           shape->sp == previous->sp && shape->n_grids == previous->n_grids;
    if (same_but_halves && shape->halves && !previous->halves) shape->representative = i - 1;
  }
}

/* Releases what a finder owns outside its own arena; a pz_close_fn. */
static void release_finder(void *finder) {
  struct pz_plan_finder *plan_finder = finder;
  pz_plan_space_release(&plan_finder->space);
  pz_arena_release(&plan_finder->memory.cache_arena);
  pz_arena_release(&plan_finder->frontiers.arena);
  pz_product_times_free(plan_finder->own_times);
  pz_arena_release(&plan_finder->best_plans);
}

/* Makes a finder: lists the space, makes its step models, and prepares the tables.  Their first
 * times are those without nested mappings, because shapes are timed again for every chip. */
struct pz_plan_finder *pz_finder_new(struct pz_call *call,
                                     const struct pz_plan_question *question) {
  struct pz_call in_finder;
  struct pz_plan_finder *finder = pz_object_new(call, sizeof *finder, &in_finder);
  struct pz_chip *relaxed = pz_copy(call, question->job.chip, 1, sizeof *relaxed);
  finder->question = *question;
  pz_arena_init(&finder->best_plans);
  pz_vec_init(&finder->open_grids, in_finder.arena, sizeof(struct pz_plan_grid));
  pz_plan_space_init(&finder->space, &finder->question, in_finder.arena);
  pz_arena_init(&finder->memory.cache_arena);
  pz_plan_frontiers_init(&finder->frontiers, &finder->space, &finder->memory);
  pz_defer(call, release_finder, finder);
  struct pz_plan_space *space = &finder->space;
  relaxed->rules.nested_mapping = false;
  finder->question.job.chip = relaxed;
  if (!question->job.times) finder->own_times = pz_product_times_new(call, question->shared);
  if (finder->own_times) finder->question.job.times = finder->own_times;
  pz_plan_space_list(call, space);
  pz_plan_memory_init(&in_finder, &finder->memory, space, true); /* with a cache for other chips */
  pz_plan_pricing_init(&in_finder, &finder->pricing, space, &finder->memory, &finder->best_plans);
  pz_term_tables_init(&in_finder, &finder->terms, space);
  link_shapes(space);
  finder->first_shape = (uint32_t)(pz_shared_table_turn(finder->question.shared) * space->shapes.n);
  finder->ranked = pz_alloc(&in_finder, space->shapes.n, sizeof *finder->ranked);
  finder->question.job.chip = question->job.chip;
  pz_undefer(call, finder); /* the finder is complete, so that release_finder() must not run */
  return pz_object_keep(call, finder);
}

void pz_plan_finder_free(struct pz_plan_finder *finder) {
  if (finder) release_finder(finder);
  pz_object_free(finder);
}
