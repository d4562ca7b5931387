/* The evaluator `original`.  A worker is moved to a chip (go_to_chip) or to a box (go_to_box), and then asked for plans
 * or bounds of models, one after another.  Plans come from pz_plan_find_best(), which is given the tables of bounds
 * through three callbacks. */
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

static struct original *original_of(struct pz_evaluator *e) { return (struct original *)e; }

/* ---- creation ------------------------------------------------------------------------------- */

/* Releases what does not lie in the memory of the evaluator. */
static void release_original(void *original) {
  struct original *o = original;
  for (unsigned i = 0; o->workers && i < o->n_workers; i++) {
    pz_cost_release(&o->workers[i].cost);
    pz_arena_release(&o->workers[i].arena);
  }
  pz_bounds_free(o->bounds);
}

static void free_original(struct pz_evaluator *e) {
  release_original(e);
  pz_object_free(e);
}

/* The tables of bounds do not have the other axes. */
static void check_axes(struct pz_call *call, const struct pz_space *s) {
  static const enum pz_axis fixed[] = {PZ_AXIS_LOCAL_KIB, PZ_AXIS_GLB_BYTES_PER_CYCLE,
                                       PZ_AXIS_CLOCK_MHZ, PZ_AXIS_HBM_STACKS,
                                       PZ_AXIS_LINK_GB_PER_S};
  const char *wrong = NULL;
  if (s->n_hbm > 1) wrong = "hbm";
  if (s->n_nodes > 1) wrong = "nodes";
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (s->n[fixed[i]] > 1) wrong = pz_axis_name(fixed[i]);
  if (!s->has_base) wrong = "no base chip, and";
  if (wrong)
    pz_raise(call, PZ_BAD_USE,
             "--evaluator original: the space %s has %s%s to choose; accepted: a space with a "
             "base chip that chooses arrays, cores, lanes and the global buffer, as paper",
             s->name, wrong, s->has_base ? "" : " other axes");
}

struct pz_evaluator *pz_original_create(struct pz_call *call, const struct pz_original_task *task,
                                        bool exhaustive, struct pz_pool *pool,
                                        struct pz_watch watch) {
  struct pz_call own;
  check_axes(call, task->space);
  struct original *o = pz_object_new(call, sizeof *o, &own);
  pz_defer(call, release_original, o);
  o->base.ops = &original_ops;
  o->task = task;
  o->n_workers = pz_pool_threads(pool);
  o->bounds = pz_bounds_create(call, task, pool, watch);
  o->workers = pz_alloc(&own, o->n_workers, sizeof *o->workers);
  for (unsigned i = 0; i < o->n_workers; i++) {
    struct pz_original_worker *w = &o->workers[i];
    pz_cost_init(&w->cost, &task->space->base, &task->net);
    pz_arena_init(&w->arena, NULL);
    w->task = task;
    w->ignores_bounds = exhaustive;
    w->at = pz_bounds_at_new(&own, o->bounds);
  }
  pz_undefer(call, o);
  return pz_object_keep(call, o);
}

struct pz_original_worker *pz_original_worker(struct pz_evaluator *e, unsigned worker) {
  return &original_of(e)->workers[worker];
}

uint64_t pz_original_variants(const struct pz_evaluator *e) {
  const struct original *o = (const struct original *)e;
  uint64_t n = 0;
  for (unsigned i = 0; i < o->n_workers; i++) n += o->workers[i].n_variants;
  return n;
}

/* ---- the tables as bounds of pz_plan_find_best() ----------------------------------------------- */

/* Variants of one model, which pz_plan_find_best() numbers from 0. */
struct table_bounds {
  struct pz_bounds_at *at;
  uint32_t first;
};

static double variant_bound_s(void *ctx, uint32_t variant, bool recompute) {
  const struct table_bounds *b = ctx;
  return pz_bounds_variant_s(b->at, b->first + variant, recompute, HUGE_VAL);
}

static double layer_bound_s(void *ctx, uint32_t variant, uint32_t layer,
                            enum pz_direction direction) {
  const struct table_bounds *b = ctx;
  return pz_bounds_layer_s(b->at, b->first + variant, layer, direction);
}

static double plan_bound_s(void *ctx, uint32_t variant, bool recompute, const double *fwd_s,
                           const double *bwd_s, double limit_s) {
  const struct table_bounds *b = ctx;
  return pz_bounds_times_s(b->at, b->first + variant, recompute, fwd_s, bwd_s, limit_s);
}

/* ---- a model on a chip ----------------------------------------------------------------------- */

struct pz_plan_inputs pz_original_inputs(struct pz_original_worker *w, uint32_t model,
                                         double hbm_gib, enum pz_effort effort) {
  const struct pz_original_task *t = w->task;
  const struct pz_portfolio *p = t->portfolio;
  return (struct pz_plan_inputs){.cost = &w->cost,
                                 .variants = &p->variants[p->first[model]],
                                 .n_variants = p->first[model + 1] - p->first[model],
                                 .devices = t->o.devices,
                                 .batch = t->o.batch,
                                 .hbm_bytes = hbm_gib * 0x1p30,
                                 .state = t->o.state,
                                 .sample_flop = p->sample_flop[model],
                                 .semantics = pz_task_semantics(t),
                                 .recompute = PZ_AS_FRAMEWORK,
                                 .quick_steps = t->o.quick_steps,
                                 .steps = effort == PZ_EFFORT_FULL ? t->o.steps : t->o.quick_steps};
}

/* Moves the worker to a chip.  p is NULL if the chip is not of the space. */
static void go_to_chip(struct pz_original_worker *w, const struct pz_chip *chip,
                       const struct pz_point *p) {
  if (w->cost.mappings.n > MOST_MAPPINGS) {
    pz_cost_release(&w->cost);
    pz_cost_init(&w->cost, chip, &w->task->net);
  }
  pz_cost_set_chip(&w->cost, chip, &w->task->net);
  w->is_at_box = false;
  w->is_outside = !p || !pz_bounds_cover(w->at, p);
  if (!w->is_outside) pz_bounds_go(w->at, p);
}

/* Evaluates a model on the current chip. */
static struct pz_evaluation evaluate_here(struct pz_call *call, struct pz_original_worker *w,
                                          uint32_t model, double hbm_gib, enum pz_effort effort,
                                          double limit_s) {
  struct pz_plan_inputs in = pz_original_inputs(w, model, hbm_gib, effort);
  struct table_bounds tables = {w->at, w->task->portfolio->first[model]};
  const struct pz_plan_bounds bounds = {&tables, variant_bound_s, layer_bound_s, plan_bound_s};
  struct pz_call in_worker = pz_call_in(call, &w->arena);
  if (!w->ignores_bounds && !w->is_outside) in.bounds = &bounds;
  struct pz_plan_choice found = pz_plan_find_best(&in_worker, &in, limit_s);
  w->n_variants += found.n_looked;
  if (!found.below) return (struct pz_evaluation){.step_s = HUGE_VAL, .least_s = limit_s};
  if (found.plan.n_stages) found.plan.variant += tables.first;
  return (struct pz_evaluation){.effort = effort,
                                .step_s = found.time_s,
                                .least_s = found.lower_bound_s,
                                .n_open = found.n_open,
                                .plan = found.plan};
}

struct pz_evaluation pz_original_evaluate(struct pz_call *call, struct pz_original_worker *w,
                                          const struct pz_point *p, uint32_t model, double hbm_gib,
                                          enum pz_effort effort, double limit_s) {
  struct pz_chip chip;
  pz_space_chip(w->task->space, p, &chip);
  go_to_chip(w, &chip, p);
  if (!w->is_outside && pz_bounds_impossible(w->at))
    return (struct pz_evaluation){.effort = effort, .step_s = HUGE_VAL, .least_s = HUGE_VAL};
  return evaluate_here(call, w, model, hbm_gib, effort, limit_s);
}

struct pz_evaluation pz_original_evaluate_chip(struct pz_call *call, struct pz_original_worker *w,
                                               const struct pz_chip *chip, uint32_t model,
                                               double hbm_gib, enum pz_effort effort) {
  go_to_chip(w, chip, NULL);
  return evaluate_here(call, w, model, hbm_gib, effort, HUGE_VAL);
}

/* ---- the operations of the evaluator -------------------------------------------------------- */

static struct pz_evaluation evaluate_original(struct pz_call *call, struct pz_evaluator *e,
                                              unsigned worker, const struct pz_boxed *chip,
                                              uint32_t model, enum pz_effort effort,
                                              double limit_s) {
  struct original *o = original_of(e);
  struct pz_point p = pz_box_point(&chip->box);
  return pz_original_evaluate(call, &o->workers[worker], &p, model, pz_task_most_hbm(o->task),
                              effort, limit_s);
}

/* Moves the bounds of the worker to a box, unless they are there already: models are asked one after another. */
static void go_to_box(struct pz_original_worker *w, const struct pz_box *b) {
  struct pz_point p = pz_box_point(b);
  if (w->is_at_box && w->box.kind == b->kind && memcmp(w->box.lo, b->lo, sizeof b->lo) == 0 &&
      memcmp(w->box.hi, b->hi, sizeof b->hi) == 0)
    return;
  if (pz_box_is_chip(b) && pz_bounds_cover(w->at, &p))
    pz_bounds_go(w->at, &p);
  else
    pz_bounds_go_box(w->at, b);
  w->box = *b;
  w->is_at_box = true;
}

/* The bound of a box is lowered a little, because the bounds of its chips are rounded in another way. */
static double bound_original(struct pz_call *call, struct pz_evaluator *e, unsigned worker,
                             const struct pz_boxed *b, uint32_t model, int level, double enough_s) {
  static const double ROUNDING = 1 - 1e-9;
  struct pz_original_worker *w = &original_of(e)->workers[worker];
  (void)call, (void)level, (void)enough_s;
  go_to_box(w, &b->box);
  return pz_bounds_model_s(w->at, model) * (pz_box_is_chip(&b->box) ? 1 : ROUNDING);
}

static const struct pz_evaluator_ops original_ops = {.name = "original",
                                                     .free = free_original,
                                                     .bound = bound_original,
                                                     .evaluate = evaluate_original};

/* ---- a plan in full ------------------------------------------------------------------------- */

void pz_original_restore_plan(struct pz_call *call, struct pz_original_worker *w,
                              const struct pz_chip *chip, double hbm_gib,
                              const struct pz_evaluation *v, struct pz_partition *out) {
  const struct pz_portfolio *p = w->task->portfolio;
  if (v->plan.variant >= p->n_variants)
    pz_raise(call, PZ_INTERNAL, "%s: the recorded plan is of no variant", chip->name);
  uint32_t m = p->variants[v->plan.variant].model;
  struct pz_call work = pz_scratch(call);
  struct pz_plan_record record = v->plan;
  record.variant -= p->first[m];
  go_to_chip(w, chip, NULL);
  struct pz_plan_inputs in = pz_original_inputs(w, m, hbm_gib, v->effort);
  struct pz_place_model model = pz_plan_rebuild(&work, &in, &record, v->step_s);
  *out = pz_partition_describe(call, &model, v->least_s);
  pz_scratch_end(&work);
}
