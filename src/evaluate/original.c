#include "evaluate/original.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "partition/partition.h"

/* Beyond this many mappings the cache starts anew. */
enum { MOST_MAPPINGS = 200000 };

struct original {
  struct pz_evaluator base;
  const struct pz_original_task *task;
  struct pz_bounds *bounds;
  struct pz_original_worker *workers;
  unsigned n_workers;
};

static const struct pz_evaluator_ops ops;

static struct original *of(struct pz_evaluator *e) { return (struct original *)e; }

/* ---- making --------------------------------------------------------------------------------- */

static void free_original(struct pz_evaluator *e) {
  struct original *o = of(e);
  for (unsigned i = 0; o->workers && i < o->n_workers; i++) {
    pz_cost_release(&o->workers[i].cost);
    pz_arena_release(&o->workers[i].arena);
  }
  pz_bounds_free(o->bounds);
  pz_free(o->workers);
  pz_free(o);
}

/* What tables are made of does not depend on the other axes. */
static enum pz_status check_space(const struct pz_space *s, struct pz_error *err) {
  static const enum pz_axis fixed[] = {PZ_AXIS_LOCAL_KIB, PZ_AXIS_GLB_BYTES_PER_CYCLE,
                                       PZ_AXIS_CLOCK_MHZ, PZ_AXIS_HBM_STACKS,
                                       PZ_AXIS_LINK_GB_PER_S};
  const char *wrong = s->n_nodes > 1 ? "nodes" : s->n_hbm > 1 ? "hbm" : NULL;
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (s->n[fixed[i]] > 1) wrong = pz_axis_name(fixed[i]);
  if (!s->has_base) wrong = "no base chip, and";
  if (!wrong) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE,
                 "--evaluator original: the space %s has %s%s to choose; accepted: a space with a "
                 "base chip that chooses arrays, cores, lanes and the global buffer, as paper",
                 s->name, wrong, s->has_base ? "" : " other axes");
}

static enum pz_status make_workers(struct original *o, bool exhaustive, struct pz_error *err) {
  o->workers = pz_calloc(o->n_workers, sizeof *o->workers);
  for (unsigned i = 0; o->workers && i < o->n_workers; i++) {
    struct pz_original_worker *w = &o->workers[i];
    w->task = o->task;
    w->unbounded = exhaustive;
    pz_cost_init(&w->cost, &o->task->space->base, &o->task->net);
    pz_arena_init(&w->arena, NULL);
    w->at = pz_bounds_at_new(o->bounds, &w->arena);
    if (!w->at) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the search");
  }
  return o->workers ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the search");
}

enum pz_status pz_original_new(const struct pz_original_task *task, bool exhaustive,
                               struct pz_pool *pool, struct pz_watch watch,
                               struct pz_evaluator **out, struct pz_error *err) {
  enum pz_status status = check_space(task->space, err);
  if (status != PZ_OK) return status;
  struct original *o = pz_calloc(1, sizeof *o);
  if (!o) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the search");
  o->base.ops = &ops;
  o->task = task;
  o->n_workers = pz_pool_threads(pool);
  status = pz_bounds_new(task, pool, watch, &o->bounds, err);
  if (status == PZ_OK) status = make_workers(o, exhaustive, err);
  if (status == PZ_OK)
    *out = &o->base;
  else
    free_original(&o->base);
  return status;
}

struct pz_original_worker *pz_original_worker(struct pz_evaluator *e, unsigned worker) {
  return &of(e)->workers[worker];
}

uint64_t pz_original_variants(const struct pz_evaluator *e) {
  const struct original *o = (const struct original *)e;
  uint64_t n = 0;
  for (unsigned i = 0; i < o->n_workers; i++) n += o->workers[i].n_variants;
  return n;
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

struct pz_plan_inputs pz_original_inputs(struct pz_original_worker *e, uint32_t model,
                                         double hbm_gib, enum pz_effort effort) {
  const struct pz_original_task *t = e->task;
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

static void go(struct pz_original_worker *e, const struct pz_chip *chip, const struct pz_point *p) {
  if (e->cost.mappings.n > MOST_MAPPINGS) {
    pz_cost_release(&e->cost);
    pz_cost_init(&e->cost, chip, &e->task->net);
  }
  pz_cost_set_chip(&e->cost, chip, &e->task->net);
  e->in_box = false;
  e->outside = !p || !pz_bounds_cover(e->at, p);
  if (!e->outside) pz_bounds_go(e->at, p);
}

/* On the chip at hand. */
static enum pz_status evaluate(struct pz_original_worker *e, uint32_t model, double hbm_gib,
                               enum pz_effort effort, double limit_s, struct pz_evaluation *out,
                               struct pz_error *err) {
  struct pz_plan_inputs in = pz_original_inputs(e, model, hbm_gib, effort);
  struct table_bounds tables = {e->at, e->task->portfolio->first[model]};
  const struct pz_plan_bounds bounds = {&tables, variant_bound_s, layer_bound_s, plan_bound_s};
  struct pz_plan_choice found;
  if (!e->unbounded && !e->outside) in.bounds = &bounds;
  enum pz_status status = pz_plan_choose(&in, limit_s, &e->arena, &found, err);
  if (status != PZ_OK) return status;
  e->n_variants += found.n_looked;
  *out = (struct pz_evaluation){.step_s = HUGE_VAL, .least_s = limit_s};
  if (!found.below) return PZ_OK;
  *out = (struct pz_evaluation){.effort = effort,
                                .step_s = found.time_s,
                                .least_s = found.lower_bound_s,
                                .n_open = found.n_open,
                                .plan = found.plan};
  if (found.plan.n_stages) out->plan.variant += tables.first;
  return PZ_OK;
}

enum pz_status pz_original_value(struct pz_original_worker *e, const struct pz_point *p,
                                 uint32_t model, double hbm_gib, enum pz_effort effort,
                                 double limit_s, struct pz_evaluation *out, struct pz_error *err) {
  struct pz_chip chip;
  pz_space_chip(e->task->space, p, &chip);
  go(e, &chip, p);
  if (e->outside || !pz_bounds_impossible(e->at))
    return evaluate(e, model, hbm_gib, effort, limit_s, out, err);
  *out = (struct pz_evaluation){.effort = effort, .step_s = HUGE_VAL, .least_s = HUGE_VAL};
  return PZ_OK;
}

enum pz_status pz_original_value_of_chip(struct pz_original_worker *e, const struct pz_chip *chip,
                                         uint32_t model, double hbm_gib, enum pz_effort effort,
                                         struct pz_evaluation *out, struct pz_error *err) {
  go(e, chip, NULL);
  return evaluate(e, model, hbm_gib, effort, HUGE_VAL, out, err);
}

static enum pz_status value(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *chip,
                            uint32_t model, enum pz_effort effort, double limit_s,
                            struct pz_evaluation *out, struct pz_error *err) {
  const struct pz_original_task *t = of(e)->task;
  struct pz_point p = pz_box_point(&chip->box);
  return pz_original_value(&of(e)->workers[worker], &p, model, pz_task_most_hbm(t), effort, limit_s,
                           out, err);
}

/* Where its tables stand; models are asked one after another. */
static void go_box(struct pz_original_worker *w, const struct pz_box *b) {
  struct pz_point p = pz_box_point(b);
  if (w->in_box && w->box.kind == b->kind && memcmp(w->box.lo, b->lo, sizeof b->lo) == 0 &&
      memcmp(w->box.hi, b->hi, sizeof b->hi) == 0)
    return;
  if (pz_box_is_chip(b) && pz_bounds_cover(w->at, &p))
    pz_bounds_go(w->at, &p);
  else
    pz_bounds_go_box(w->at, b);
  w->box = *b;
  w->in_box = true;
}

static enum pz_status bound(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                            uint32_t model, int level, double enough_s, double *step_s,
                            struct pz_error *err) {
  /* a hair below: its chips' come through other roundings */
  static const double HAIR = 1 - 1e-9;
  struct pz_original_worker *w = &of(e)->workers[worker];
  (void)level, (void)enough_s, (void)err;
  go_box(w, &b->box);
  *step_s = pz_bounds_model_s(w->at, model) * (pz_box_is_chip(&b->box) ? 1 : HAIR);
  return PZ_OK;
}

static const struct pz_evaluator_ops ops = {
    .name = "original", .free = free_original, .bound = bound, .value = value};

/* ---- a plan in full ------------------------------------------------------------------------- */

enum pz_status pz_original_plan(struct pz_original_worker *e, const struct pz_chip *chip,
                                double hbm_gib, const struct pz_evaluation *v,
                                struct pz_arena *arena, struct pz_partition *out,
                                struct pz_error *err) {
  const struct pz_portfolio *p = e->task->portfolio;
  if (v->plan.variant >= p->n_variants)
    return pz_fail(err, PZ_INTERNAL, "%s: the recorded plan is of no variant", chip->name);
  uint32_t m = p->variants[v->plan.variant].model;
  struct pz_plan_record record = v->plan;
  struct pz_place_model model;
  struct pz_arena work;
  record.variant -= p->first[m];
  go(e, chip, NULL);
  pz_arena_init(&work, arena->mem);
  struct pz_plan_inputs in = pz_original_inputs(e, m, hbm_gib, v->effort);
  enum pz_status status = pz_plan_restore(&in, &record, v->step_s, &work, &model, err);
  if (status == PZ_OK) status = pz_partition_make(&model, v->least_s, arena, out, err);
  pz_arena_release(&work);
  return status;
}
