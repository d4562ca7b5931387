#include "search/evaluate.h"

#include <math.h>

#include "partition/partition.h"

/* Beyond this many mappings the cache starts anew. */
enum { MOST_MAPPINGS = 200000 };

enum pz_status pz_evaluator_init(struct pz_evaluator *e, const struct pz_search_task *task,
                                 const struct pz_bounds *bounds, bool unbounded,
                                 struct pz_error *err) {
  *e = (struct pz_evaluator){.task = task, .unbounded = unbounded};
  pz_cost_init(&e->cost, &task->space->base, &task->net);
  pz_arena_init(&e->arena, NULL);
  e->at = pz_bounds_at_new(bounds, &e->arena);
  return e->at ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the search");
}

void pz_evaluator_release(struct pz_evaluator *e) {
  if (!e) return;
  pz_cost_release(&e->cost);
  pz_arena_release(&e->arena);
}

/* ---- the tables' bounds ---------------------------------------------------------------------- */

/* Variants of one model are numbered from its first. */
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

struct pz_plan_inputs pz_evaluator_inputs(struct pz_evaluator *e, uint32_t model, double hbm_gib,
                                          enum pz_effort effort) {
  const struct pz_search_task *t = e->task;
  const struct pz_portfolio *p = t->portfolio;
  return (struct pz_plan_inputs){.cost = &e->cost,
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

static void go(struct pz_evaluator *e, const struct pz_chip *chip, const struct pz_point *p) {
  if (e->cost.mappings.n > MOST_MAPPINGS) {
    pz_cost_release(&e->cost);
    pz_cost_init(&e->cost, chip, &e->task->net);
  }
  pz_cost_set_chip(&e->cost, chip, &e->task->net);
  e->outside = !p || !pz_bounds_cover(e->at, p);
  if (!e->outside) pz_bounds_go(e->at, p);
}

/* On the chip at hand. */
static enum pz_status evaluate(struct pz_evaluator *e, uint32_t model, double hbm_gib,
                               enum pz_effort effort, double limit_s, struct pz_evaluation *out,
                               struct pz_error *err) {
  struct pz_plan_inputs in = pz_evaluator_inputs(e, model, hbm_gib, effort);
  struct table_bounds tables = {e->at, e->task->portfolio->first[model]};
  const struct pz_plan_bounds bounds = {&tables, variant_bound_s, layer_bound_s, plan_bound_s};
  struct pz_plan_choice found;
  if (!e->unbounded && !e->outside) in.bounds = &bounds;
  enum pz_status status = pz_plan_choose(&in, limit_s, &e->arena, &found, err);
  if (status != PZ_OK) return status;
  e->n_variants += found.n_looked;
  *out = (struct pz_evaluation){.time_s = HUGE_VAL, .least_s = limit_s};
  if (!found.below) return PZ_OK;
  *out = (struct pz_evaluation){.effort = effort,
                                .time_s = found.time_s,
                                .least_s = found.lower_bound_s,
                                .n_open = found.n_open,
                                .plan = found.plan};
  if (found.plan.n_stages) out->plan.variant += tables.first;
  return PZ_OK;
}

enum pz_status pz_evaluate(struct pz_evaluator *e, const struct pz_point *p, uint32_t model,
                           double hbm_gib, enum pz_effort effort, struct pz_evaluation *out,
                           struct pz_error *err) {
  return pz_evaluate_within(e, p, model, hbm_gib, effort, HUGE_VAL, out, err);
}

enum pz_status pz_evaluate_within(struct pz_evaluator *e, const struct pz_point *p, uint32_t model,
                                  double hbm_gib, enum pz_effort effort, double limit_s,
                                  struct pz_evaluation *out, struct pz_error *err) {
  struct pz_chip chip;
  pz_space_chip(e->task->space, p, &chip);
  go(e, &chip, p);
  if (e->outside || !pz_bounds_impossible(e->at))
    return evaluate(e, model, hbm_gib, effort, limit_s, out, err);
  *out = (struct pz_evaluation){.effort = effort, .time_s = HUGE_VAL, .least_s = HUGE_VAL};
  return PZ_OK;
}

enum pz_status pz_evaluate_chip(struct pz_evaluator *e, const struct pz_chip *chip, uint32_t model,
                                double hbm_gib, enum pz_effort effort, struct pz_evaluation *out,
                                struct pz_error *err) {
  go(e, chip, NULL);
  return evaluate(e, model, hbm_gib, effort, HUGE_VAL, out, err);
}

/* ---- a plan in full ------------------------------------------------------------------------- */

enum pz_status pz_evaluation_model_plan(struct pz_evaluator *e, const struct pz_chip *chip,
                                        double hbm_gib, const struct pz_evaluation *v,
                                        struct pz_arena *arena, struct pz_partition *out,
                                        struct pz_error *err) {
  const struct pz_portfolio *p = e->task->portfolio;
  uint32_t m = p->variants[v->plan.variant].model;
  struct pz_plan_record record = v->plan;
  struct pz_place_model model;
  struct pz_arena work;
  record.variant -= p->first[m];
  go(e, chip, NULL);
  pz_arena_init(&work, arena->mem);
  struct pz_plan_inputs in = pz_evaluator_inputs(e, m, hbm_gib, v->effort);
  enum pz_status status = pz_plan_restore(&in, &record, v->time_s, &work, &model, err);
  if (status == PZ_OK) status = pz_partition_make(&model, v->least_s, arena, out, err);
  pz_arena_release(&work);
  return status;
}
