#include "partition/best.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/num.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

#define NO_MEMORY "out of memory for the plans"

/* A variant with the times of its layers, as far as they are known. */
struct candidate {
  uint32_t variant;
  double bound_s;                   /* of any plan, by the caller's bounds */
  double least_s;                   /* of any plan, by the bounds of its schedules */
  struct pz_layer_time (*times)[2]; /* by layer */
  int64_t *tried;                   /* by layer: scheduled with so many steps; 0: not yet */
  uint32_t n_open;
};

/* The best plan found of a variant with or without recomputation. */
struct ranked {
  double time_s;
  uint32_t variant;
  bool recompute;
};

struct work {
  const struct pz_plan_inputs *in;
  struct pz_arena arena;  /* of this call alone */
  double *layer_s[2];     /* work space, by direction and layer */
  struct candidate *list; /* all variants, the lowest bound first */
  struct ranked *best;    /* so far, the best first */
  uint32_t n_best, most_best;
  uint64_t n_looked;
  struct pz_error *err;
};

static bool wanted(const struct work *w, bool recompute) {
  return w->in->recompute != (recompute ? PZ_RECOMPUTATION_NONE : PZ_RECOMPUTATION_FULL);
}

static const struct pz_workload *workload_of(const struct work *w, const struct candidate *c) {
  return w->in->variants[c->variant].w;
}

/* The one that is repeated most. */
static uint32_t main_layer(const struct pz_workload *l) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < l->n_layers; i++)
    if (l->layers[i].count > l->layers[most].count) most = i;
  return most;
}

/* ---- the best so far ------------------------------------------------------------------------ */

/* Ties go to the variant listed first, then to activations kept. */
static bool precedes(const struct ranked *a, const struct ranked *b) {
  if (a->time_s != b->time_s) return a->time_s < b->time_s;
  if (a->variant != b->variant) return a->variant < b->variant;
  return a->recompute < b->recompute;
}

/* The time of the last plan of interest; HUGE_VAL while there are too few. */
static double incumbent_s(const struct work *w) {
  return w->n_best < w->most_best ? HUGE_VAL : w->best[w->n_best - 1].time_s;
}

/* Plans from this time on are of no interest: where they would win a tie, only longer ones. */
static double cutoff_s(const struct work *w, uint32_t variant, bool recompute) {
  double time_s = incumbent_s(w);
  struct ranked tie = {time_s, variant, recompute};
  if (!(time_s < HUGE_VAL)) return time_s;
  return precedes(&tie, &w->best[w->n_best - 1]) ? nextafter(time_s, HUGE_VAL) : time_s;
}

static void update_incumbents(struct work *w, struct ranked found) {
  uint32_t i = 0, n = w->n_best;
  while (i < n && (w->best[i].variant != found.variant || w->best[i].recompute != found.recompute))
    i++;
  if (i == n && n == w->most_best) i--; /* it may take the place of the last */
  if (i < n && !precedes(&found, &w->best[i])) return;
  if (i == n) w->n_best++;
  for (; i > 0 && precedes(&found, &w->best[i - 1]); i--) w->best[i] = w->best[i - 1];
  w->best[i] = found;
}

/* ---- schedules ------------------------------------------------------------------------------ */

enum pz_status pz_layer_schedule(struct pz_cost *cost, const struct pz_ops *ops, int64_t steps,
                                 const struct pz_mem *mem, struct pz_layer_time *out,
                                 struct pz_error *err) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options effort = {.steps = steps};
  struct pz_problem p;
  struct pz_schedule made;
  struct pz_arena arena;
  pz_arena_init(&arena, mem);
  enum pz_status status = pz_layer_problem(cost, ops, &kind, &arena, &p, err);
  if (status == PZ_OK) status = pz_schedule_solve(&p, &effort, &arena, &made, err);
  if (status == PZ_OK) {
    *out = (struct pz_layer_time){.s = made.makespan,
                                  .least_s = made.lower_bound,
                                  .open = made.outcome != PZ_OUTCOME_OPTIMAL};
    for (uint32_t i = 0; i < p.n; i++) {
      const struct pz_slot *slot = &made.slots[i];
      if (p.tasks[i].modes[slot->mode].use[PZ_LINK]) out->link_s += slot->end - slot->start;
    }
  }
  pz_arena_release(&arena);
  return status;
}

/* One layer, both directions, unless they are closed or were tried as hard: of two tries the shorter
 * schedule and the higher bound. */
static enum pz_status schedule_layer(struct work *w, struct candidate *c, uint32_t layer,
                                     int64_t steps) {
  const struct pz_layer *l = &workload_of(w, c)->layers[layer];
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD && c->tried[layer] < steps; d++) {
    struct pz_layer_time *t = &c->times[layer][d], more;
    if (c->tried[layer] && !t->open) continue;
    enum pz_status status =
        pz_layer_schedule(w->in->cost, &l->ops[d], steps, w->arena.mem, &more, w->err);
    if (status != PZ_OK) return status;
    double least_s = fmax(t->least_s, more.least_s);
    if (!t->open || more.s < t->s) *t = more; /* none yet, or a shorter one */
    t->least_s = fmin(least_s, t->s);
    t->open = t->least_s < t->s;
  }
  c->tried[layer] = steps;
  return PZ_OK;
}

static enum pz_status schedule_layers(struct work *w, struct candidate *c, int64_t steps) {
  enum pz_status status = PZ_OK;
  c->n_open = 0;
  for (uint32_t i = 0; i < workload_of(w, c)->n_layers && status == PZ_OK; i++) {
    status = schedule_layer(w, c, i, steps);
    c->n_open += c->times[i][PZ_FORWARD].open + c->times[i][PZ_BACKWARD].open;
  }
  return status;
}

/* ---- the caller's bounds -------------------------------------------------------------------- */

/* Layers' times into the work space: those found, or bounds: of schedules where they were made, the
 * caller's for the others. */
static void set_layer_s(struct work *w, const struct candidate *c, bool least) {
  const struct pz_plan_bounds *b = w->in->bounds;
  for (uint32_t i = 0; i < workload_of(w, c)->n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      w->layer_s[d][i] = !least        ? c->times[i][d].s
                         : c->tried[i] ? c->times[i][d].least_s
                                       : b->layer_s(b->ctx, c->variant, i, (enum pz_direction)d);
}

/* A bound on the plans of a variant from what is known. */
static double known_bound_s(struct work *w, const struct candidate *c, double limit_s) {
  const struct pz_plan_bounds *b = w->in->bounds;
  double bound_s = HUGE_VAL;
  set_layer_s(w, c, true);
  for (int r = 0; r < 2; r++)
    if (wanted(w, r))
      bound_s =
          fmin(bound_s, b->plan_s(b->ctx, c->variant, r, w->layer_s[0], w->layer_s[1], limit_s));
  return bound_s;
}

/* Is no plan with these times, or their bounds, of interest? */
static bool ruled_out(struct work *w, const struct candidate *c, bool least, bool recompute) {
  const struct pz_plan_bounds *b = w->in->bounds;
  double limit_s = cutoff_s(w, c->variant, recompute);
  if (!b) return false;
  set_layer_s(w, c, least);
  return b->plan_s(b->ctx, c->variant, recompute, w->layer_s[0], w->layer_s[1], limit_s) >= limit_s;
}

/* ---- plans of one variant ------------------------------------------------------------------- */

static struct pz_place_problem variant_problem(const struct work *w, const struct candidate *c,
                                               const struct pz_place_width *width, bool recompute) {
  const struct pz_plan_inputs *in = w->in;
  struct pz_place_problem p = pz_place_problem_on(&in->cost->net, in->devices);
  p.hbm_bytes = in->hbm_bytes;
  p.microbatches = in->variants[c->variant].microbatches;
  p.state = in->state;
  p.recompute = recompute;
  p.semantics = in->semantics;
  p.widths = width;
  return p;
}

/* The stages that are given, if devices are enough. */
static enum pz_status divide_as_given(const struct work *w, const struct candidate *c,
                                      const struct pz_place_problem *p, struct pz_arena *arena,
                                      struct pz_place_solution *plan, struct pz_error *err) {
  const struct pz_workload *l = workload_of(w, c);
  struct pz_fixed f = *w->in->given;
  uint32_t repeated = main_layer(l);
  for (uint32_t i = 0; i < repeated; i++) f.first += l->layers[i].count;
  f.layers = l->layers[repeated].count;
  f.t = p->widths[0].t;
  f.d = pz_min(p->devices / (f.stages * f.t), p->microbatches);
  return f.d < 1 ? PZ_NO_ANSWER : pz_fixed_plan(p, &f, arena, plan, err);
}

/* The best plan if it takes at most limit_s; else a time of HUGE_VAL. */
static enum pz_status place(struct work *w, const struct candidate *c,
                            const struct pz_place_problem *p, double limit_s,
                            struct pz_arena *arena, struct pz_place_solution *plan) {
  struct pz_error why = {0};
  enum pz_status status = w->in->given ? divide_as_given(w, c, p, arena, plan, &why)
                                       : pz_place_solve(p, limit_s, arena, plan, &why);
  if (status == PZ_OK && w->in->check && !w->in->given) status = pz_partition_check(p, plan, &why);
  if (status == PZ_NO_ANSWER) plan->time_s = HUGE_VAL;
  return status == PZ_OK || status == PZ_NO_ANSWER ? PZ_OK
                                                   : pz_fail(w->err, status, "%s", why.message);
}

/* With the schedules found, or with their bounds: the time of its best plan, where it is of interest.
 * Plans found are kept; where runners-up are asked for too, the best so far is no limit to them. */
static enum pz_status place_times(struct work *w, struct candidate *c, bool least, double *time_s) {
  struct pz_place_width width = {0};
  struct pz_place_solution plan;
  enum pz_status status =
      pz_place_chain(workload_of(w, c), c->times, least, &w->arena, &width, w->err);
  *time_s = HUGE_VAL;
  for (int r = 0; r < 2 && status == PZ_OK; r++) {
    if (!wanted(w, r) || ruled_out(w, c, least, r)) continue;
    struct pz_place_problem p = variant_problem(w, c, &width, r);
    double limit_s = least || w->most_best == 1 ? incumbent_s(w) : DBL_MAX;
    status = place(w, c, &p, limit_s, &w->arena, &plan);
    if (status != PZ_OK || !(plan.time_s < HUGE_VAL)) continue;
    if (!least && r && plan.n_stages == 1 && wanted(w, false))
      continue; /* one stage makes nothing again */
    *time_s = fmin(*time_s, plan.time_s);
    if (!least) update_incumbents(w, (struct ranked){plan.time_s, c->variant, r});
  }
  return status;
}

/* ---- all variants --------------------------------------------------------------------------- */

/* Schedule with few steps: the repeated layer before the others, which need not be scheduled when
 * it rules out plans below limit_s by itself. */
static enum pz_status schedule_within(struct work *w, struct candidate *c, double limit_s,
                                      bool *may) {
  int64_t steps = w->in->quick_steps;
  bool bounded = w->in->bounds;
  enum pz_status status = PZ_OK;
  w->n_looked++;
  if (bounded) status = schedule_layer(w, c, main_layer(workload_of(w, c)), steps);
  *may = status == PZ_OK && (!bounded || known_bound_s(w, c, limit_s) < limit_s);
  if (*may) status = schedule_layers(w, c, steps);
  if (status == PZ_OK && *may && bounded) *may = known_bound_s(w, c, limit_s) < limit_s;
  return status;
}

/* Every variant that may be the best, with few steps; then with more those whose open schedules might
 * still make them the best. */
static enum pz_status place_variants(struct work *w) {
  enum pz_status status = PZ_OK;
  for (int deep = 0; deep <= (w->in->steps > w->in->quick_steps); deep++)
    for (uint32_t i = 0; i < w->in->n_variants && status == PZ_OK; i++) {
      struct candidate *c = &w->list[i];
      double limit_s = cutoff_s(w, c->variant, false);
      bool may = true;
      if (deep ? !c->n_open || c->least_s >= limit_s : c->bound_s >= limit_s) continue;
      status = deep ? schedule_layers(w, c, w->in->steps) : schedule_within(w, c, limit_s, &may);
      if (status == PZ_OK && may) status = place_times(w, c, false, &c->least_s);
      if (status == PZ_OK && may && c->n_open) status = place_times(w, c, true, &c->least_s);
    }
  return status;
}

/* May any variant have a plan below limit_s?  What is scheduled on the way stays known. */
static enum pz_status may_be_below(struct work *w, double limit_s, bool *may) {
  enum pz_status status = PZ_OK;
  *may = !w->in->bounds || !(limit_s < HUGE_VAL);
  for (uint32_t i = 0; i < w->in->n_variants && status == PZ_OK && !*may; i++)
    if (w->list[i].bound_s < limit_s) status = schedule_within(w, &w->list[i], limit_s, may);
  return status;
}

/* No plan is faster; `n_open`: schedules that leave it below the best plan found. */
static double lower_bound_s(const struct work *w, uint32_t *n_open) {
  double best_s = w->n_best ? w->best[0].time_s : HUGE_VAL, bound_s = best_s;
  *n_open = 0;
  for (uint32_t i = 0; i < w->in->n_variants; i++) {
    bound_s = fmin(bound_s, w->list[i].least_s);
    if (w->list[i].least_s < best_s) *n_open += w->list[i].n_open;
  }
  return bound_s;
}

/* ---- work space ----------------------------------------------------------------------------- */

static int by_bound(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
  return x->variant < y->variant ? -1 : 1;
}

static bool init_candidate(struct work *w, uint32_t variant, struct candidate *c) {
  const struct pz_plan_bounds *b = w->in->bounds;
  uint32_t n = w->in->variants[variant].w->n_layers;
  *c = (struct candidate){.variant = variant,
                          .bound_s = b ? HUGE_VAL : 0,
                          .least_s = HUGE_VAL,
                          .times = pz_arena_alloc(&w->arena, n, sizeof *c->times),
                          .tried = pz_arena_alloc(&w->arena, n, sizeof *c->tried)};
  for (int r = 0; b && r < 2; r++)
    if (wanted(w, r)) c->bound_s = fmin(c->bound_s, b->variant_s(b->ctx, variant, r));
  return c->times && c->tried;
}

static enum pz_status work_init(struct work *w, const struct pz_plan_inputs *in, uint32_t most_best,
                                const struct pz_mem *mem, struct pz_error *err) {
  uint32_t most_layers = 0;
  *w = (struct work){.in = in, .most_best = most_best, .err = err};
  pz_arena_init(&w->arena, mem);
  for (uint32_t i = 0; i < in->n_variants; i++) {
    const struct pz_workload *l = in->variants[i].w;
    if (l->totals.layers > PZ_PLACE_MOST_LAYERS)
      return pz_fail(err, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", l->model,
                     (long long)l->totals.layers, PZ_PLACE_MOST_LAYERS);
    if (l->n_layers > most_layers) most_layers = l->n_layers;
  }
  for (int d = 0; d < 2; d++)
    w->layer_s[d] = pz_arena_alloc(&w->arena, most_layers, sizeof(double));
  w->best = pz_arena_alloc(&w->arena, most_best, sizeof *w->best);
  w->list = pz_arena_alloc(&w->arena, in->n_variants, sizeof *w->list);
  bool ok = w->layer_s[0] && w->layer_s[1] && w->best && w->list;
  for (uint32_t i = 0; i < in->n_variants && ok; i++) ok = init_candidate(w, i, &w->list[i]);
  if (!ok) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  qsort(w->list, in->n_variants, sizeof *w->list, by_bound);
  return PZ_OK;
}

static struct candidate *candidate_of(const struct work *w, uint32_t variant) {
  uint32_t i = 0;
  while (w->list[i].variant != variant) i++;
  return &w->list[i];
}

/* ---- plans in full -------------------------------------------------------------------------- */

/* The problem with the schedules found, and its best plan, found without a limit: so it does not
 * depend on what else was looked at, and in which order. */
static enum pz_status solve_in_full(struct work *w, const struct candidate *c, bool recompute,
                                    struct pz_arena *arena, struct pz_place_model *out) {
  const struct pz_plan_inputs *in = w->in;
  const struct pz_variant *v = &in->variants[c->variant];
  struct pz_place_width *width = pz_arena_alloc(arena, 1, sizeof *width);
  if (!width) return pz_fail(w->err, PZ_NO_MEMORY, NO_MEMORY);
  *out = (struct pz_place_model){.p = variant_problem(w, c, width, recompute),
                                 .mbs = v->mbs,
                                 .seq = v->w->options.seq,
                                 .batch = in->batch,
                                 .sample_flop = in->sample_flop,
                                 .peak_flop_per_s = pz_chip_tensor_flop_per_s(&in->cost->chip),
                                 .n_open = c->n_open};
  for (uint32_t i = 0; i < v->w->n_layers; i++)
    for (int d = 0; d < 2; d++) {
      const struct pz_layer_time *t = &c->times[i][d];
      if (t->s > 0) out->worst_gap = fmax(out->worst_gap, 1 - t->least_s / t->s);
    }
  enum pz_status status = pz_place_chain(workload_of(w, c), c->times, false, arena, width, w->err);
  if (status == PZ_OK) status = place(w, c, &out->p, DBL_MAX, arena, &out->plan);
  if (status == PZ_OK && !(out->plan.time_s < HUGE_VAL))
    status = pz_fail(w->err, PZ_NO_ANSWER, "no feasible plan");
  if (status == PZ_OK) out->p.bytes_per_s = pz_place_within(&out->p, out->plan.domain).bytes_per_s;
  return status;
}

static enum pz_status record_best(struct work *w, struct pz_arena *arena,
                                  struct pz_plan_choice *out) {
  const struct ranked *best = &w->best[0];
  const struct candidate *c = candidate_of(w, best->variant);
  struct pz_place_model m;
  enum pz_status status = solve_in_full(w, c, best->recompute, &w->arena, &m);
  if (status != PZ_OK) return status;
  uint16_t *layers = pz_arena_alloc(arena, m.plan.n_stages, sizeof *layers);
  if (!layers) return pz_fail(w->err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t k = 0; k < m.plan.n_stages; k++) layers[k] = (uint16_t)m.plan.stages[k].n;
  out->time_s = m.plan.time_s;
  out->n_open_here = c->n_open;
  out->plan =
      (struct pz_plan_record){best->variant, best->recompute, m.plan.d, m.plan.n_stages, layers};
  return PZ_OK;
}

enum pz_status pz_plan_choose(const struct pz_plan_inputs *in, double limit_s,
                              struct pz_arena *arena, struct pz_plan_choice *out,
                              struct pz_error *err) {
  struct pz_plan_choice made = {.time_s = HUGE_VAL, .lower_bound_s = HUGE_VAL};
  struct work w;
  enum pz_status status = work_init(&w, in, 1, arena->mem, err);
  if (status == PZ_OK) status = may_be_below(&w, limit_s, &made.below);
  if (status == PZ_OK && made.below) status = place_variants(&w);
  if (status == PZ_OK && w.n_best) status = record_best(&w, arena, &made);
  if (status == PZ_OK && made.below) made.lower_bound_s = lower_bound_s(&w, &made.n_open);
  made.n_looked = w.n_looked;
  if (status == PZ_OK) *out = made;
  pz_arena_release(&w.arena);
  return status;
}

static bool as_recorded(const struct pz_plan_record *r, double time_s,
                        const struct pz_place_solution *plan) {
  if (time_s != plan->time_s || r->d != plan->d || r->n_stages != plan->n_stages) return false;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    if (r->layers[k] != plan->stages[k].n) return false;
  return true;
}

/* With few steps, or as the choice may have been made, again where they left schedules open. */
enum pz_status pz_plan_restore(const struct pz_plan_inputs *in, const struct pz_plan_record *r,
                               double time_s, struct pz_arena *arena, struct pz_place_model *out,
                               struct pz_error *err) {
  struct pz_plan_inputs alone = *in;
  struct work w = {.in = &alone, .err = err};
  struct candidate c;
  alone.bounds = NULL;
  alone.check = true;
  pz_arena_init(&w.arena, arena->mem);
  enum pz_status status =
      init_candidate(&w, r->variant, &c) ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  bool same = false;
  for (int64_t steps = in->quick_steps; status == PZ_OK && !same; steps = in->steps) {
    status = schedule_layers(&w, &c, steps);
    if (status == PZ_OK) status = solve_in_full(&w, &c, r->recompute, arena, out);
    same = status == PZ_OK && as_recorded(r, time_s, &out->plan);
    if (steps >= in->steps || !c.n_open) break;
  }
  if (status == PZ_OK && !same)
    status = pz_fail(err, PZ_INTERNAL, "%s: the plan of %.9g s is not the recorded one of %.9g s",
                     in->cost->chip.name, out->plan.time_s, time_s);
  pz_arena_release(&w.arena);
  return status;
}

/* Nothing fits: how much memory would do, and with what. */
static enum pz_status find_fit(struct work *w, struct pz_plan_list *out) {
  enum pz_status status = PZ_OK;
  out->fit.hbm_bytes = DBL_MAX;
  for (uint32_t v = 0; v < w->in->n_variants && status == PZ_OK && !w->in->given; v++) {
    struct candidate *c = candidate_of(w, v);
    struct pz_place_width width;
    status = schedule_layers(w, c, w->in->quick_steps);
    if (status == PZ_OK)
      status = pz_place_chain(workload_of(w, c), c->times, false, &w->arena, &width, w->err);
    for (int r = 0; r < 2 && status == PZ_OK; r++) {
      if (!wanted(w, r)) continue;
      struct pz_place_problem p = variant_problem(w, c, &width, r);
      struct pz_fit fit = pz_fit_least(&p);
      if (fit.hbm_bytes >= out->fit.hbm_bytes) continue;
      out->fit = fit;
      out->fit_variant = v;
      out->fit_recompute = r;
    }
  }
  return status;
}

enum pz_status pz_plan_best(const struct pz_plan_inputs *in, uint32_t n_next,
                            struct pz_arena *arena, struct pz_plan_list *out,
                            struct pz_error *err) {
  struct pz_plan_list made = {0};
  struct work w;
  uint32_t n_open;
  enum pz_status status = work_init(&w, in, 1 + n_next, arena->mem, err);
  if (status == PZ_OK) status = place_variants(&w);
  if (status == PZ_OK && !w.n_best) status = find_fit(&w, &made);
  if (status == PZ_OK) {
    made.lower_bound_s = lower_bound_s(&w, &n_open);
    made.plans = pz_arena_alloc(arena, w.n_best, sizeof *made.plans);
    if (!made.plans) status = pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  }
  for (; made.plans && made.n < w.n_best && status == PZ_OK; made.n++) {
    const struct ranked *r = &w.best[made.n];
    const struct candidate *c = candidate_of(&w, r->variant);
    status = solve_in_full(&w, c, r->recompute, arena, &made.plans[made.n]);
  }
  if (status == PZ_OK) *out = made;
  pz_arena_release(&w.arena);
  return status;
}
