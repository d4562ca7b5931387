#include "search/evaluate.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "place/checker.h"
#include "place/solve.h"

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

/* ---- one variant ------------------------------------------------------------------------------- */

/* A variant on a chip: times of its layers, found or bounded. */
struct candidate {
  uint32_t variant;
  double bound_s;                   /* of any plan, from the tables */
  double time_s, least_s;           /* with the schedules found, with their bounds */
  struct pz_layer_time (*times)[2]; /* by layer */
  int64_t *tried;                   /* by layer: with so many steps; 0: not yet */
  uint32_t n_open;
};

struct work {
  struct pz_evaluator *e;
  double hbm_gib;
  struct pz_arena arena; /* of this evaluation */
  double *layer_s[2];    /* work space, by direction and layer */
  struct pz_evaluation *best;
  struct pz_error *err;
};

static bool bounded(const struct work *w) { return !w->e->unbounded && !w->e->outside; }

/* Keep the shorter schedule and the higher bound of two tries. */
static void improve(struct pz_layer_time *t, const struct pz_layer_time *more) {
  double least_s = fmax(t->least_s, more->least_s);
  if (!t->open || more->s < t->s) *t = *more; /* none yet, or a shorter one */
  t->least_s = fmin(least_s, t->s);
  t->open = t->least_s < t->s;
}

static const struct pz_workload *workload_of(const struct work *w, const struct candidate *c) {
  return w->e->task->portfolio->variants[c->variant].w;
}

/* One layer, both directions, unless they are closed or were tried as hard. */
static enum pz_status schedule_layer(struct work *w, struct candidate *c, uint32_t layer,
                                     int64_t steps) {
  const struct pz_layer *l = &workload_of(w, c)->layers[layer];
  enum pz_status status = PZ_OK;
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD && c->tried[layer] < steps; d++) {
    struct pz_layer_time *t = &c->times[layer][d], more;
    if (c->tried[layer] && !t->open) continue;
    status = pz_layer_schedule(&w->e->cost, &l->ops[d], steps, NULL, &more, w->err);
    if (status != PZ_OK) return status;
    improve(t, &more);
  }
  c->tried[layer] = steps;
  return PZ_OK;
}

static enum pz_status schedule(struct work *w, struct candidate *c, int64_t steps) {
  enum pz_status status = PZ_OK;
  c->n_open = 0;
  for (uint32_t i = 0; i < workload_of(w, c)->n_layers && status == PZ_OK; i++) {
    status = schedule_layer(w, c, i, steps);
    c->n_open += c->times[i][PZ_FORWARD].open + c->times[i][PZ_BACKWARD].open;
  }
  return status;
}

/* A bound on the plans of a variant from what is known: schedules' bounds where they were made, the
 * tables' for the others. */
static double known_bound(struct work *w, const struct candidate *c, double limit_s) {
  double kept, again;
  for (uint32_t i = 0; i < workload_of(w, c)->n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      w->layer_s[d][i] = c->tried[i]
                             ? c->times[i][d].least_s
                             : pz_bounds_layer_s(w->e->at, c->variant, i, (enum pz_direction)d);
  kept = pz_bounds_times_s(w->e->at, c->variant, false, w->layer_s[0], w->layer_s[1], limit_s);
  again = pz_bounds_times_s(w->e->at, c->variant, true, w->layer_s[0], w->layer_s[1], limit_s);
  return fmin(kept, again);
}

static uint32_t main_layer(const struct pz_workload *l) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < l->n_layers; i++)
    if (l->layers[i].count > l->layers[most].count) most = i;
  return most;
}

/* A first look: the repeated layer before the others, which need not be looked at when it rules out
 * plans below limit_s by itself. */
static enum pz_status look_within(struct work *w, struct candidate *c, double limit_s, bool *may) {
  int64_t steps = w->e->task->o.quick_steps;
  enum pz_status status = PZ_OK;
  *may = true;
  if (bounded(w)) {
    status = schedule_layer(w, c, main_layer(workload_of(w, c)), steps);
    *may = status == PZ_OK && known_bound(w, c, limit_s) < limit_s;
  }
  if (status == PZ_OK && *may) status = schedule(w, c, steps);
  if (status == PZ_OK && *may && bounded(w)) *may = known_bound(w, c, limit_s) < limit_s;
  return status;
}

/* The best plan with these times if it takes at most limit_s; else a time of HUGE_VAL. */
static enum pz_status place(struct work *w, uint32_t variant, const struct pz_place_width *width,
                            bool recompute, double limit_s, struct pz_plan *plan) {
  const struct pz_variant *l = &w->e->task->portfolio->variants[variant];
  struct pz_place_problem p = pz_task_problem(w->e->task, l, w->hbm_gib, recompute);
  struct pz_error none = {0};
  p.widths = width;
  plan->time_s = HUGE_VAL;
  enum pz_status status =
      pz_place_solve_within(&p, pz_task_semantics(w->e->task), limit_s, &w->arena, plan, &none);
  if (status == PZ_NO_ANSWER) plan->time_s = HUGE_VAL;
  return status == PZ_OK || status == PZ_NO_ANSWER ? PZ_OK
                                                   : pz_fail(w->err, status, "%s", none.message);
}

/* The layers with the times found, or with their bounds. */
static enum pz_status chain(struct work *w, const struct candidate *c, bool least,
                            struct pz_place_width *width) {
  const struct pz_workload *l = w->e->task->portfolio->variants[c->variant].w;
  struct pz_layer_time(*times)[2] = pz_arena_alloc(&w->arena, l->n_layers, sizeof *times);
  if (!times) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the plan");
  memcpy(times, c->times, l->n_layers * sizeof *times);
  for (uint32_t i = 0; i < l->n_layers && least; i++)
    for (int d = 0; d < 2; d++) times[i][d].s = times[i][d].least_s;
  return pz_place_chain(l, (const struct pz_layer_time(*)[2])times, &w->arena, width, NULL, w->err);
}

/* Ties go to the variant listed first, whichever was looked at first. */
static bool better(const struct pz_evaluation *best, const struct candidate *c, double time_s) {
  return time_s < best->time_s || (time_s == best->time_s && c->variant < best->plan.variant);
}

static void record(struct pz_evaluation *best, const struct candidate *c, bool recompute,
                   double time_s) {
  best->time_s = time_s;
  best->plan = (struct pz_plan_record){.variant = c->variant, .recompute = recompute};
}

/* Is no plan with these times, or their bounds, better than the best? */
static bool ruled_out(struct work *w, const struct candidate *c, bool least, bool recompute) {
  double limit_s = w->best->time_s;
  if (!bounded(w)) return false;
  for (uint32_t i = 0; i < workload_of(w, c)->n_layers; i++)
    for (int d = 0; d < 2; d++)
      w->layer_s[d][i] = least ? c->times[i][d].least_s : c->times[i][d].s;
  return pz_bounds_times_s(w->e->at, c->variant, recompute, w->layer_s[0], w->layer_s[1],
                           limit_s) >= limit_s;
}

/* Both ways with activations; keeping them wins ties. */
static enum pz_status place_both(struct work *w, struct candidate *c) {
  struct pz_place_width width = {0};
  struct pz_plan plan;
  enum pz_status status = chain(w, c, false, &width);
  c->time_s = c->least_s = HUGE_VAL;
  for (int r = 0; r < 2 && status == PZ_OK; r++) {
    if (ruled_out(w, c, false, r)) continue;
    status = place(w, c->variant, &width, r, w->best->time_s, &plan);
    if (status != PZ_OK || plan.time_s >= c->time_s) continue;
    c->time_s = plan.time_s;
    if (better(w->best, c, plan.time_s)) record(w->best, c, r, plan.time_s);
  }
  if (!c->n_open) c->least_s = c->time_s;
  if (status == PZ_OK && c->n_open) status = chain(w, c, true, &width);
  for (int r = 0; r < 2 && status == PZ_OK && c->n_open; r++) {
    if (ruled_out(w, c, true, r)) continue;
    status = place(w, c->variant, &width, r, w->best->time_s, &plan);
    if (status == PZ_OK) c->least_s = fmin(c->least_s, plan.time_s);
  }
  return status;
}

/* ---- all variants ------------------------------------------------------------------------------ */

static int by_bound(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
  return x->variant < y->variant ? -1 : 1;
}

static enum pz_status list_loads(struct work *w, uint32_t model, struct candidate **out,
                                 uint32_t *n) {
  const struct pz_portfolio *p = w->e->task->portfolio;
  *n = p->first[model + 1] - p->first[model];
  *out = pz_arena_alloc(&w->arena, *n, sizeof **out);
  for (uint32_t i = 0; i < *n && *out; i++) {
    struct candidate *c = &(*out)[i];
    c->variant = p->first[model] + i;
    c->times = pz_arena_alloc(&w->arena, p->variants[c->variant].w->n_layers, sizeof *c->times);
    c->tried = pz_arena_alloc(&w->arena, p->variants[c->variant].w->n_layers, sizeof *c->tried);
    c->time_s = c->least_s = HUGE_VAL;
    if (!c->times || !c->tried) *out = NULL;
    if (*out && bounded(w))
      c->bound_s = fmin(pz_bounds_variant_s(w->e->at, c->variant, false, HUGE_VAL),
                        pz_bounds_variant_s(w->e->at, c->variant, true, HUGE_VAL));
  }
  if (!*out) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the search");
  qsort(*out, *n, sizeof **out, by_bound);
  return PZ_OK;
}

/* A first look at every variant that may be the best. */
static enum pz_status look(struct work *w, struct candidate *list, uint32_t n) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    bool may;
    if (list[i].bound_s >= w->best->time_s) continue;
    w->e->n_variants++;
    status = look_within(w, &list[i], w->best->time_s, &may);
    if (status == PZ_OK && may) status = place_both(w, &list[i]);
  }
  return status;
}

/* May any variant have a plan below limit_s?  What is scheduled on the way stays known. */
static enum pz_status may_be_below(struct work *w, struct candidate *list, uint32_t n,
                                   double limit_s, bool *may) {
  enum pz_status status = PZ_OK;
  *may = !bounded(w);
  for (uint32_t i = 0; i < n && status == PZ_OK && !*may; i++) {
    if (list[i].bound_s >= limit_s) continue;
    w->e->n_variants++;
    status = look_within(w, &list[i], limit_s, may);
  }
  return status;
}

/* Again those whose open schedules might still make them the best. */
static enum pz_status look_closer(struct work *w, struct candidate *list, uint32_t n) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    struct candidate *c = &list[i];
    if (!c->n_open || c->least_s >= w->best->time_s) continue;
    status = schedule(w, c, w->e->task->o.steps);
    if (status == PZ_OK) status = place_both(w, c);
  }
  return status;
}

static void conclude(struct work *w, const struct candidate *list, uint32_t n) {
  struct pz_evaluation *b = w->best;
  b->least_s = b->time_s;
  for (uint32_t i = 0; i < n; i++) {
    b->least_s = fmin(b->least_s, list[i].least_s);
    if (list[i].least_s < b->time_s) b->n_open += list[i].n_open;
  }
}

/* The stages of the best plan, found anew without a limit: so they do not depend on what else was
 * looked at, and in which order. */
static enum pz_status keep_plan(struct work *w, const struct candidate *list, uint32_t n) {
  struct pz_plan_record *r = &w->best->plan;
  struct pz_place_width width;
  struct pz_plan plan;
  if (!(w->best->time_s < HUGE_VAL)) return PZ_OK;
  uint32_t i = 0;
  while (i + 1 < n && list[i].variant != r->variant) i++;
  enum pz_status status = chain(w, &list[i], false, &width);
  if (status == PZ_OK) status = place(w, r->variant, &width, r->recompute, DBL_MAX, &plan);
  if (status != PZ_OK) return status;
  uint16_t *layers = pz_arena_alloc(&w->e->arena, plan.n_stages, sizeof *layers);
  if (!layers) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the plan");
  for (uint32_t k = 0; k < plan.n_stages; k++) layers[k] = (uint16_t)plan.stages[k].n;
  r->d = plan.d;
  r->n_stages = plan.n_stages;
  r->layers = layers;
  w->best->time_s = plan.time_s;
  return PZ_OK;
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

static enum pz_status best_of(struct work *w, struct candidate *list, uint32_t n,
                              enum pz_effort effort) {
  enum pz_status status = look(w, list, n);
  if (status == PZ_OK && effort == PZ_EFFORT_FULL) status = look_closer(w, list, n);
  if (status == PZ_OK) status = keep_plan(w, list, n);
  if (status == PZ_OK) conclude(w, list, n);
  return status;
}

/* On the chip at hand. */
static enum pz_status evaluate(struct pz_evaluator *e, uint32_t model, double hbm_gib,
                               enum pz_effort effort, double limit_s, struct pz_evaluation *out,
                               struct pz_error *err) {
  struct pz_evaluation best = {.effort = effort, .time_s = HUGE_VAL};
  struct work w = {.e = e, .hbm_gib = hbm_gib, .best = &best, .err = err};
  struct candidate *list = NULL;
  uint32_t n = 0;
  bool may = true;
  pz_arena_init(&w.arena, NULL);
  for (int d = 0; d < 2; d++)
    w.layer_s[d] = pz_arena_alloc(&w.arena, e->task->portfolio->most_layers, sizeof(double));
  enum pz_status status = w.layer_s[0] && w.layer_s[1]
                              ? list_loads(&w, model, &list, &n)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for the search");
  if (status == PZ_OK && list && limit_s < HUGE_VAL)
    status = may_be_below(&w, list, n, limit_s, &may);
  if (status == PZ_OK && list && may) status = best_of(&w, list, n, effort);
  if (status == PZ_OK)
    *out = may ? best : (struct pz_evaluation){.time_s = HUGE_VAL, .least_s = limit_s};
  pz_arena_release(&w.arena);
  return status;
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

static void describe(const struct work *w, const struct candidate *c, bool recompute,
                     struct pz_place_model *out) {
  const struct pz_portfolio *p = w->e->task->portfolio;
  const struct pz_variant *l = &p->variants[c->variant];
  *out = (struct pz_place_model){.p = pz_task_problem(w->e->task, l, w->hbm_gib, recompute),
                                 .mbs = l->mbs,
                                 .seq = p->seq[l->model],
                                 .sample_flop = p->sample_flop[l->model],
                                 .n_open = c->n_open};
  for (uint32_t i = 0; i < l->w->n_layers; i++)
    for (int d = 0; d < 2; d++)
      out->worst_gap = fmax(
          out->worst_gap, c->times[i][d].s > 0 ? 1 - c->times[i][d].least_s / c->times[i][d].s : 0);
}

static bool same_plan(const struct pz_evaluation *v, const struct pz_plan *plan) {
  if (v->time_s != plan->time_s || v->plan.d != plan->d || v->plan.n_stages != plan->n_stages)
    return false;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    if (v->plan.layers[k] != plan->stages[k].n) return false;
  return true;
}

/* The plan with schedules tried this hard. */
static enum pz_status plan_with(struct work *w, const struct pz_evaluation *v, struct candidate *c,
                                int64_t steps, struct pz_arena *arena, struct pz_place_model *model,
                                struct pz_plan *plan) {
  struct pz_place_width *width = pz_arena_alloc(arena, 1, sizeof *width);
  if (!width) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the plan");
  enum pz_status status = schedule(w, c, steps);
  if (status != PZ_OK) return status;
  describe(w, c, v->plan.recompute, model);
  model->p.widths = width;
  status = pz_place_chain(workload_of(w, c), (const struct pz_layer_time(*)[2])c->times, arena,
                          width, &model->parts, w->err);
  if (status != PZ_OK) return status;
  status = pz_place_solve(&model->p, pz_task_semantics(w->e->task), arena, plan, w->err);
  if (status == PZ_OK) model->p.bytes_per_s = pz_place_within(&model->p, plan->domain).bytes_per_s;
  return status;
}

/* With a first look, or as an evaluation with full effort may have done, again where it left
 * schedules open. */
static enum pz_status find_plan(struct work *w, const struct pz_evaluation *v,
                                struct pz_arena *arena, struct pz_place_model *model,
                                struct pz_plan *plan) {
  struct candidate c = {.variant = v->plan.variant};
  uint32_t n = workload_of(w, &c)->n_layers;
  c.times = pz_arena_alloc(&w->arena, n, sizeof *c.times);
  c.tried = pz_arena_alloc(&w->arena, n, sizeof *c.tried);
  if (!c.times || !c.tried) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the plan");
  enum pz_status status = plan_with(w, v, &c, w->e->task->o.quick_steps, arena, model, plan);
  if (status == PZ_OK && v->effort == PZ_EFFORT_FULL && c.n_open && !same_plan(v, plan))
    status = plan_with(w, v, &c, w->e->task->o.steps, arena, model, plan);
  return status;
}

enum pz_status pz_evaluation_plan(struct pz_evaluator *e, const struct pz_chip *chip,
                                  double hbm_gib, const struct pz_evaluation *v,
                                  struct pz_arena *arena, struct pz_place_model *model,
                                  struct pz_plan *plan, struct pz_error *err) {
  struct work w = {.e = e, .hbm_gib = hbm_gib, .err = err};
  pz_arena_init(&w.arena, NULL);
  go(e, chip, NULL);
  enum pz_status status = find_plan(&w, v, arena, model, plan);
  if (status == PZ_OK) status = pz_plan_check(&model->p, pz_task_semantics(e->task), plan, err);
  if (status == PZ_OK && !same_plan(v, plan))
    status = pz_fail(err, PZ_INTERNAL, "%s: the plan of %.9g s is not the recorded one of %.9g s",
                     chip->name, plan->time_s, v->time_s);
  pz_arena_release(&w.arena);
  return status;
}
