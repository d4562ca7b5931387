/* The evaluator `original`.  A worker is moved to a chip (go_to_chip) or to a box (go_to_box),
 * and then asked for plans or bounds of models, one after another.  Plans come from
 * pz_plan_find_best(), which is given the tables of bounds through three callbacks. */
#include "evaluate/original.h"

#include <math.h>
#include <string.h>

#include "partition/partition.h"

/* When the cache of mappings has more entries than this, it is emptied. */
enum { MOST_MAPPINGS = 200000 };

struct original {
  struct pz_evaluator base;
  const struct pz_original_task *task;
  struct pz_bounds *bounds;
  struct pz_original_worker *workers;
  unsigned n_workers;
};

static const struct pz_evaluator_ops original_ops;

/* Releases what the evaluator owns outside its own memory; a pz_close_fn. */
static void release_original(void *original) {
  struct original *self = original;
  for (unsigned i = 0; self->workers && i < self->n_workers; i++) {
    pz_cost_release(&self->workers[i].cost);
    pz_arena_release(&self->workers[i].arena);
  }
  pz_bounds_free(self->bounds);
}

/* Frees the evaluator (struct pz_evaluator_ops). */
static void free_original(struct pz_evaluator *evaluator) {
  release_original(evaluator);
  pz_object_free(evaluator);
}

/* Raises PZ_BAD_USE if the space varies an axis that the tables of bounds do not have. */
static void check_axes(struct pz_call *call, const struct pz_space *space) {
  static const enum pz_axis fixed[] = {PZ_AXIS_LOCAL_KIB, PZ_AXIS_GLB_BYTES_PER_CYCLE,
                                       PZ_AXIS_CLOCK_MHZ, PZ_AXIS_HBM_STACKS,
                                       PZ_AXIS_LINK_GB_PER_S};
  const char *rejected_axis = NULL;
  if (space->n_hbm > 1) rejected_axis = "hbm";
  if (space->n_nodes > 1) rejected_axis = "nodes";
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (space->n[fixed[i]] > 1) rejected_axis = pz_axis_name(fixed[i]);
  if (!space->has_base) rejected_axis = "no base chip, and";
  if (rejected_axis)
    pz_raise(call, PZ_BAD_USE,
             "--evaluator original: the space %s has %s%s to choose; accepted: a space with a "
             "base chip that chooses arrays, cores, lanes and the global buffer, as paper",
             space->name, rejected_axis, space->has_base ? "" : " other axes");
}

/* Creates the evaluator, with tables of bounds and a worker for each thread. */
struct pz_evaluator *pz_original_create(struct pz_call *call, const struct pz_original_task *task,
                                        bool exhaustive, struct pz_pool *pool,
                                        struct pz_watch watch) {
  struct pz_call in_evaluator;
  check_axes(call, task->space);
  struct original *original = pz_object_new(call, sizeof *original, &in_evaluator);
  pz_defer(call, release_original, original);
  original->base.ops = &original_ops;
  original->task = task;
  original->n_workers = pz_pool_threads(pool);
  original->bounds = pz_bounds_create(call, task, pool, watch);
  original->workers = pz_alloc(&in_evaluator, original->n_workers, sizeof *original->workers);
  for (unsigned i = 0; i < original->n_workers; i++) {
    struct pz_original_worker *worker = &original->workers[i];
    pz_cost_init(&worker->cost, &task->space->base, &task->net);
    pz_arena_init(&worker->arena);
    worker->task = task;
    worker->ignores_bounds = exhaustive;
    worker->position = pz_bounds_at_new(&in_evaluator, original->bounds);
  }
  pz_undefer(call, original);
  return pz_object_keep(call, original);
}

/* Returns the caches and work space of a thread. */
struct pz_original_worker *pz_original_worker(struct pz_evaluator *evaluator, unsigned worker) {
  return &((struct original *)evaluator)->workers[worker];
}

/* Returns the number of variants that all workers have evaluated. */
uint64_t pz_original_variants(const struct pz_evaluator *evaluator) {
  const struct original *original = (const struct original *)evaluator;
  uint64_t n = 0;
  for (unsigned i = 0; i < original->n_workers; i++) n += original->workers[i].n_variants;
  return n;
}

/* The context of the callbacks of pz_plan_find_best(), which numbers the variants of a model from
 * 0. */
struct table_bounds {
  struct pz_bounds_at *position;
  uint32_t first;
};

/* Returns a lower bound on the step of every plan of a variant, for struct pz_plan_bounds. */
static double variant_bound_s(void *ctx, uint32_t variant, bool recompute) {
  const struct table_bounds *tables = ctx;
  return pz_bounds_variant_s(tables->position, tables->first + variant, recompute, HUGE_VAL);
}

/* Returns a lower bound on every schedule of a layer, for struct pz_plan_bounds. */
static double layer_bound_s(void *ctx, uint32_t variant, uint32_t layer,
                            enum pz_direction direction) {
  const struct table_bounds *tables = ctx;
  return pz_bounds_layer_s(tables->position, tables->first + variant, layer, direction);
}

/* Returns a lower bound on the step of plans with these layer times, for struct pz_plan_bounds. */
static double plan_bound_s(void *ctx, uint32_t variant, bool recompute, const double *fwd_s,
                           const double *bwd_s, double limit_s) {
  const struct table_bounds *tables = ctx;
  return pz_bounds_times_s(tables->position, tables->first + variant, recompute, fwd_s, bwd_s,
                           limit_s);
}

/* ---- a model on a chip ----------------------------------------------------------------------- */

/* Returns the inputs of a search for the plans of a model on the current chip. */
struct pz_plan_inputs pz_original_inputs(struct pz_original_worker *worker, uint32_t model,
                                         double hbm_gib, enum pz_effort effort) {
  const struct pz_original_task *task = worker->task;
  const struct pz_portfolio *portfolio = task->portfolio;
  bool only_first_stage = pz_assumed(task->assumptions, PZ_ASSUME_FIRST_STAGE);
  return (struct pz_plan_inputs){
      .cost = &worker->cost,
      .variants = &portfolio->variants[portfolio->first[model]],
      .n_variants = portfolio->first[model + 1] - portfolio->first[model],
      .devices = task->o.devices,
      .batch = task->o.batch,
      .hbm_bytes = hbm_gib * 0x1p30,
      .state = task->o.state,
      .sample_flop = portfolio->sample_flop[model],
      .semantics = only_first_stage ? PZ_SEMANTICS_ORIGINAL : PZ_SEMANTICS_CORRECTED,
      .recompute = PZ_AS_FRAMEWORK,
      .quick_steps = task->o.quick_steps,
      .steps = effort == PZ_EFFORT_FULL ? task->o.steps : task->o.quick_steps};
}

/* Moves the worker to a chip.  `point` is its place in the space of the search, or NULL to do
 * without bounds.  Returns false if bounds show that no GEMM can be mapped to the chip. */
static bool go_to_chip(struct pz_original_worker *worker, const struct pz_chip *chip,
                       const struct pz_point *point) {
  if (worker->cost.mappings.n > MOST_MAPPINGS) {
    pz_cost_release(&worker->cost);
    pz_cost_init(&worker->cost, chip, &worker->task->net);
  }
  pz_cost_set_chip(&worker->cost, chip, &worker->task->net);
  worker->is_at_box = false;
  worker->lacks_bounds = !point || !pz_bounds_cover(worker->position, point);
  return worker->lacks_bounds || pz_bounds_go(worker->position, point);
}

/* Evaluates a model on the current chip.  If no plan is below limit_s, returns the effort
 * PZ_EFFORT_NONE, with the limit as the lower bound that this proves. */
static struct pz_evaluation evaluate_here(struct pz_call *call, struct pz_original_worker *worker,
                                          uint32_t model, double hbm_gib, enum pz_effort effort,
                                          double limit_s) {
  struct pz_plan_inputs inputs = pz_original_inputs(worker, model, hbm_gib, effort);
  /* The portfolio and its tables of bounds list the variants of all models one after another;
   * pz_plan_find_best() numbers those of this model from 0. */
  uint32_t first_variant = worker->task->portfolio->first[model];
  struct table_bounds tables = {worker->position, first_variant};
  const struct pz_plan_bounds bounds = {&tables, variant_bound_s, layer_bound_s, plan_bound_s};
  struct pz_call in_worker = pz_call_in(call, &worker->arena);
  bool uses_bounds = !worker->ignores_bounds && !worker->lacks_bounds;
  if (uses_bounds) inputs.bounds = &bounds;
  struct pz_plan_choice found = pz_plan_find_best(&in_worker, &inputs, limit_s);
  worker->n_variants += found.n_scheduled;
  bool is_below_limit = found.below;
  if (!is_below_limit) return (struct pz_evaluation){.step_s = HUGE_VAL, .least_s = limit_s};
  bool has_plan = found.plan.n_stages > 0; /* otherwise no plan fits in memory */
  if (has_plan) found.plan.variant += first_variant;
  return (struct pz_evaluation){.effort = effort,
                                .step_s = found.time_s,
                                .least_s = found.lower_bound_s,
                                .n_open = found.n_open,
                                .plan = found.plan};
}

/* Returns the best plan of a model on a chip of the space, guided by bounds. */
struct pz_evaluation pz_original_evaluate(struct pz_call *call, struct pz_original_worker *worker,
                                          const struct pz_point *point, uint32_t model,
                                          double hbm_gib, enum pz_effort effort, double limit_s) {
  struct pz_chip chip;
  pz_space_chip(worker->task->space, point, &chip);
  if (!go_to_chip(worker, &chip, point))
    return (struct pz_evaluation){.effort = effort, .step_s = HUGE_VAL, .least_s = HUGE_VAL};
  return evaluate_here(call, worker, model, hbm_gib, effort, limit_s);
}

/* Returns the best plan of a model on any chip, without bounds. */
struct pz_evaluation pz_original_evaluate_chip(struct pz_call *call,
                                               struct pz_original_worker *worker,
                                               const struct pz_chip *chip, uint32_t model,
                                               double hbm_gib, enum pz_effort effort) {
  (void)go_to_chip(worker, chip, NULL);
  return evaluate_here(call, worker, model, hbm_gib, effort, HUGE_VAL);
}

/* ---- the operations of the evaluator -------------------------------------------------------- */

/* Returns the best plan of a model on the only chip of a box, with the largest memory. */
static struct pz_evaluation evaluate_original(struct pz_call *call, struct pz_evaluator *evaluator,
                                              unsigned worker, const struct pz_boxed *chip,
                                              uint32_t model, enum pz_effort effort,
                                              double limit_s) {
  struct original *original = (struct original *)evaluator;
  struct pz_point point = pz_box_point(&chip->box);
  return pz_original_evaluate(call, &original->workers[worker], &point, model,
                              (double)original->task->o.hbm_gib.v[original->task->o.hbm_gib.n - 1],
                              effort, limit_s);
}

/* Moves the bounds of the worker to a box, unless they are there already. */
static void go_to_box(struct pz_original_worker *worker, const struct pz_box *box) {
  struct pz_point point = pz_box_point(box);
  if (worker->is_at_box && worker->box.kind == box->kind &&
      memcmp(worker->box.lo, box->lo, sizeof box->lo) == 0 &&
      memcmp(worker->box.hi, box->hi, sizeof box->hi) == 0)
    return;
  if (pz_box_is_chip(box) && pz_bounds_cover(worker->position, &point))
    (void)pz_bounds_go(worker->position, &point);
  else
    pz_bounds_go_box(worker->position, box);
  worker->box = *box;
  worker->is_at_box = true;
}

/* Returns a lower bound on the step of a model on all chips of a box.  That of several chips is
 * lowered by a margin, because the bounds of its chips round differently. */
static double bound_original(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                             const struct pz_boxed *box, uint32_t model, int level,
                             double enough_s) {
  static const double ROUNDING = 1 - 1e-9;
  struct pz_original_worker *original_worker = pz_original_worker(evaluator, worker);
  (void)call, (void)level, (void)enough_s;
  go_to_box(original_worker, &box->box);
  return pz_bounds_model_s(original_worker->position, model) *
         (pz_box_is_chip(&box->box) ? 1 : ROUNDING);
}

static const struct pz_evaluator_ops original_ops = {.name = "original",
                                                     .free = free_original,
                                                     .bound = bound_original,
                                                     .evaluate = evaluate_original};

/* Describes the plan of an evaluation, rebuilt from its record by code that checks it. */
void pz_original_restore_plan(struct pz_call *call, struct pz_original_worker *worker,
                              const struct pz_chip *chip, double hbm_gib,
                              const struct pz_evaluation *evaluation, struct pz_partition *out) {
  const struct pz_portfolio *portfolio = worker->task->portfolio;
  if (evaluation->plan.variant >= portfolio->n_variants)
    pz_raise(call, PZ_INTERNAL, "%s: the recorded plan is of no variant", chip->name);
  uint32_t model_index = portfolio->variants[evaluation->plan.variant].model;
  struct pz_call work = pz_scratch(call);
  struct pz_plan_record record = evaluation->plan;
  record.variant -= portfolio->first[model_index];
  (void)go_to_chip(worker, chip, NULL);
  struct pz_plan_inputs inputs =
      pz_original_inputs(worker, model_index, hbm_gib, evaluation->effort);
  struct pz_place_model model = pz_plan_rebuild(&work, &inputs, &record, evaluation->step_s);
  *out = pz_partition_describe(call, &model, evaluation->least_s);
  pz_scratch_end(&work);
}
