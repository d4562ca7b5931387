/* Chooses the best plan among the variants of a model.
 *
 * The variants are candidates, ordered by the caller's lower bounds.  place_candidates() goes through them, first with few
 * schedule steps and then with more for those whose open schedules may still make them the best: schedule_layers() finds
 * the times of the layers, and place_candidate() the best plan for these times (solve.c), or for their lower bounds.  The
 * plans that are found are ranked as incumbents; a candidate that bounds show to be no better is skipped.  The winner is
 * solved once more without a limit, in solve_in_full(), so that it does not depend on what else was looked at. */
#include "partition/best.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/num.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

/* A variant with the times of its layers, as far as they are known. */
struct candidate {
  uint32_t variant;
  const struct pz_workload *w;
  double bound_s;                   /* on its plans, by the caller's bounds */
  double least_s;                   /* on its plans, by the bounds of its schedules */
  struct pz_layer_time (*times)[2]; /* by layer */
  int64_t *tried_steps;             /* by layer: steps of its schedule; 0 if not scheduled */
  uint32_t n_open;                  /* schedules that are not proven optimal */
};

/* The best plan found of a variant, with or without recompute. */
struct ranked_plan {
  double time_s;
  uint32_t variant;
  bool recompute;
};

struct variant_search {
  const struct pz_plan_inputs *in;
  double *layer_s[2];             /* scratch by direction and layer */
  struct candidate *candidates;   /* all variants, the lowest bound first */
  struct ranked_plan *incumbents; /* the best first */
  uint32_t n_incumbents, most_incumbents;
  uint64_t n_looked;
};

/* Are plans that recompute (or that do not) wanted? */
static bool tries_recompute(const struct pz_plan_inputs *in, bool recompute) {
  return in->recompute != (recompute ? PZ_RECOMPUTATION_NONE : PZ_RECOMPUTATION_FULL);
}

/* The layer that is repeated most. */
static uint32_t main_layer(const struct pz_workload *w) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < w->n_layers; i++)
    if (w->layers[i].count > w->layers[most].count) most = i;
  return most;
}

/* ---- incumbents ----------------------------------------------------------------------------- */

/* Ties go to the variant listed first, then to saved activations. */
static bool is_better_plan(const struct ranked_plan *a, const struct ranked_plan *b) {
  if (a->time_s != b->time_s) return a->time_s < b->time_s;
  if (a->variant != b->variant) return a->variant < b->variant;
  return a->recompute < b->recompute;
}

/* The time of the last incumbent; HUGE_VAL while there are fewer than asked for. */
static double incumbent_s(const struct variant_search *search) {
  uint32_t n = search->n_incumbents;
  return n < search->most_incumbents ? HUGE_VAL : search->incumbents[n - 1].time_s;
}

/* A plan of this time or longer does not become an incumbent.  If the plan would win a tie, only a longer one does not. */
static double cutoff_s(const struct variant_search *search, uint32_t variant, bool recompute) {
  double time_s = incumbent_s(search);
  struct ranked_plan tie = {time_s, variant, recompute};
  if (!(time_s < HUGE_VAL)) return time_s;
  bool wins = is_better_plan(&tie, &search->incumbents[search->n_incumbents - 1]);
  return wins ? nextafter(time_s, HUGE_VAL) : time_s;
}

static void update_incumbents(struct variant_search *search, struct ranked_plan found) {
  struct ranked_plan *list = search->incumbents;
  uint32_t i = 0, n = search->n_incumbents;
  while (i < n && (list[i].variant != found.variant || list[i].recompute != found.recompute)) i++;
  if (i == n && n == search->most_incumbents) i--; /* it may replace the last */
  if (i < n && !is_better_plan(&found, &list[i])) return;
  if (i == n) search->n_incumbents++;
  for (; i > 0 && is_better_plan(&found, &list[i - 1]); i--) list[i] = list[i - 1];
  list[i] = found;
}

/* ---- schedules ------------------------------------------------------------------------------ */

struct pz_layer_time pz_layer_time_of(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_ops *ops, int64_t steps) {
  struct pz_call work = pz_scratch(call);
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options effort = {.steps = steps};
  struct pz_problem p = pz_layer_problem_build(&work, cost, ops, &kind);
  struct pz_schedule made = pz_schedule_find(&work, &p, &effort);
  struct pz_layer_time time = {
      .s = made.makespan, .least_s = made.lower_bound, .open = made.outcome != PZ_OUTCOME_OPTIMAL};
  for (uint32_t i = 0; i < p.n; i++) {
    const struct pz_slot *slot = &made.slots[i];
    if (p.tasks[i].modes[slot->mode].use[PZ_LINK]) time.link_s += slot->end - slot->start;
  }
  pz_scratch_end(&work);
  return time;
}

/* Schedules one layer in both directions, unless it is proven optimal or was tried with as many steps.  Of two tries it
 * keeps the shorter schedule and the higher bound. */
static void schedule_layer(struct pz_call *call, const struct variant_search *search,
                           struct candidate *c, uint32_t layer, int64_t steps) {
  if (c->tried_steps[layer] >= steps) return;
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct pz_layer_time *t = &c->times[layer][d];
    if (c->tried_steps[layer] && !t->open) continue;
    const struct pz_ops *ops = &c->w->layers[layer].ops[d];
    struct pz_layer_time more = pz_layer_time_of(call, search->in->cost, ops, steps);
    double least_s = fmax(t->least_s, more.least_s);
    if (!t->open || more.s < t->s) *t = more; /* the first schedule, or a shorter one */
    t->least_s = fmin(least_s, t->s);
    t->open = t->least_s < t->s;
  }
  c->tried_steps[layer] = steps;
}

static void schedule_layers(struct pz_call *call, const struct variant_search *search,
                            struct candidate *c, int64_t steps) {
  c->n_open = 0;
  for (uint32_t i = 0; i < c->w->n_layers; i++) {
    schedule_layer(call, search, c, i, steps);
    c->n_open += c->times[i][PZ_FORWARD].open + c->times[i][PZ_BACKWARD].open;
  }
}

/* ---- the caller's bounds -------------------------------------------------------------------- */

/* Writes the times of the layers to the scratch: those found, or lower bounds on them.  The bounds of layers that are not
 * scheduled yet are the caller's. */
static void set_layer_s(struct variant_search *search, const struct candidate *c, bool least) {
  const struct pz_plan_bounds *b = search->in->bounds;
  for (uint32_t i = 0; i < c->w->n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
      double s = c->times[i][d].s;
      if (least && c->tried_steps[i]) s = c->times[i][d].least_s;
      if (least && !c->tried_steps[i]) s = b->layer_s(b->ctx, c->variant, i, (enum pz_direction)d);
      search->layer_s[d][i] = s;
    }
}

/* A lower bound on the plans of a candidate, from what is known about its layers. */
static double known_bound_s(struct variant_search *search, const struct candidate *c,
                            double limit_s) {
  const struct pz_plan_bounds *b = search->in->bounds;
  double bound_s = HUGE_VAL, *fwd_s = search->layer_s[0], *bwd_s = search->layer_s[1];
  set_layer_s(search, c, true);
  for (int r = 0; r < 2; r++)
    if (tries_recompute(search->in, r))
      bound_s = fmin(bound_s, b->plan_s(b->ctx, c->variant, r, fwd_s, bwd_s, limit_s));
  return bound_s;
}

/* Do the caller's bounds show that no plan with these times, or with their lower bounds, becomes an incumbent? */
static bool is_ruled_out(struct variant_search *search, const struct candidate *c, bool least,
                         bool recompute) {
  const struct pz_plan_bounds *b = search->in->bounds;
  double limit_s = cutoff_s(search, c->variant, recompute);
  if (!b) return false;
  set_layer_s(search, c, least);
  return b->plan_s(b->ctx, c->variant, recompute, search->layer_s[0], search->layer_s[1],
                   limit_s) >= limit_s;
}

/* ---- plans of one candidate ----------------------------------------------------------------- */

static struct pz_place_problem candidate_problem(const struct pz_plan_inputs *in,
                                                 const struct candidate *c,
                                                 const struct pz_place_width *width,
                                                 bool recompute) {
  struct pz_place_problem p = pz_place_problem_on(&in->cost->net, in->devices);
  p.hbm_bytes = in->hbm_bytes;
  p.microbatches = in->variants[c->variant].microbatches;
  p.state = in->state;
  p.recompute = recompute;
  p.semantics = in->semantics;
  p.widths = width;
  return p;
}

/* Finds the best plan of at most limit_s.  Returns false if there is none. */
static bool place_layers(struct pz_call *call, const struct pz_plan_inputs *in,
                         const struct candidate *c, const struct pz_place_problem *p,
                         double limit_s, struct pz_place_solution *plan) {
  if (in->given) {
    struct pz_fixed f = *in->given;
    uint32_t repeated = main_layer(c->w);
    for (uint32_t i = 0; i < repeated; i++) f.first += c->w->layers[i].count;
    f.layers = c->w->layers[repeated].count;
    f.t = p->widths[0].t;
    f.d = pz_min(p->devices / (f.stages * f.t), p->microbatches);
    return f.d >= 1 && !pz_fixed_plan_evaluate(call, p, &f, plan) && plan->time_s < HUGE_VAL;
  }
  if (!pz_place_find_fastest(call, p, limit_s, plan)) return false;
  if (in->check) pz_place_check(call, p, plan);
  return true;
}

/* Places a candidate with the times found, or with their lower bounds.  Returns the time of its best plan, or HUGE_VAL if
 * there is none that matters.  With the times found, the plan becomes an incumbent; if runners-up are asked for, too, the
 * incumbents do not limit the solver. */
static double place_candidate(struct pz_call *call, struct variant_search *search,
                              const struct candidate *c, bool least) {
  const struct pz_plan_inputs *in = search->in;
  const struct pz_place_width width = pz_place_layer_chain(call, c->w, c->times, least);
  double best_s = HUGE_VAL;
  for (int r = 0; r < 2; r++) {
    if (!tries_recompute(in, r) || is_ruled_out(search, c, least, r)) continue;
    struct pz_place_problem p = candidate_problem(in, c, &width, r);
    struct pz_place_solution plan;
    bool limited = least || search->most_incumbents == 1;
    if (!place_layers(call, in, c, &p, limited ? incumbent_s(search) : DBL_MAX, &plan)) continue;
    bool recomputes_nothing = r && plan.n_stages == 1; /* the last stage never recomputes */
    if (!least && recomputes_nothing && tries_recompute(in, false)) continue;
    best_s = fmin(best_s, plan.time_s);
    if (!least) update_incumbents(search, (struct ranked_plan){plan.time_s, c->variant, r});
  }
  return best_s;
}

/* ---- all candidates ------------------------------------------------------------------------- */

/* Schedules a candidate with few steps.  With bounds, the repeated layer goes first, because it may rule out plans below
 * limit_s by itself.  Returns whether there may be a plan below limit_s. */
static bool schedule_quickly(struct pz_call *call, struct variant_search *search,
                             struct candidate *c, double limit_s) {
  const struct pz_plan_inputs *in = search->in;
  search->n_looked++;
  if (in->bounds) {
    schedule_layer(call, search, c, main_layer(c->w), in->quick_steps);
    if (!(known_bound_s(search, c, limit_s) < limit_s)) return false;
  }
  schedule_layers(call, search, c, in->quick_steps);
  return !in->bounds || known_bound_s(search, c, limit_s) < limit_s;
}

/* Places every candidate that may be the best. */
static void place_candidates(struct pz_call *call, struct variant_search *search) {
  const struct pz_plan_inputs *in = search->in;
  int n_passes = in->steps > in->quick_steps ? 2 : 1;
  for (int pass = 0; pass < n_passes; pass++)
    for (uint32_t i = 0; i < in->n_variants; i++) {
      struct candidate *c = &search->candidates[i];
      double limit_s = cutoff_s(search, c->variant, false);
      if (pass == 0) {
        if (c->bound_s >= limit_s) continue;
        if (!schedule_quickly(call, search, c, limit_s)) continue;
      } else {
        if (!c->n_open || c->least_s >= limit_s) continue;
        schedule_layers(call, search, c, in->steps);
      }
      c->least_s = place_candidate(call, search, c, false);
      if (c->n_open) c->least_s = place_candidate(call, search, c, true);
    }
}

/* A lower bound on all plans.  *n_open is the number of schedules because of which it is below the best plan. */
static double search_bound_s(const struct variant_search *search, uint32_t *n_open) {
  double best_s = search->n_incumbents ? search->incumbents[0].time_s : HUGE_VAL;
  double bound_s = best_s;
  *n_open = 0;
  for (uint32_t i = 0; i < search->in->n_variants; i++) {
    const struct candidate *c = &search->candidates[i];
    bound_s = fmin(bound_s, c->least_s);
    if (c->least_s < best_s) *n_open += c->n_open;
  }
  return bound_s;
}

/* ---- the search ----------------------------------------------------------------------------- */

static int compare_bounds(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
  return x->variant < y->variant ? -1 : 1;
}

static struct candidate candidate_new(struct pz_call *call, const struct pz_plan_inputs *in,
                                      uint32_t variant) {
  const struct pz_plan_bounds *b = in->bounds;
  const struct pz_workload *w = in->variants[variant].w;
  struct candidate c = {.variant = variant,
                        .w = w,
                        .bound_s = b ? HUGE_VAL : 0,
                        .least_s = HUGE_VAL,
                        .times = pz_alloc(call, w->n_layers, sizeof *c.times),
                        .tried_steps = pz_alloc(call, w->n_layers, sizeof *c.tried_steps)};
  for (int r = 0; b && r < 2; r++)
    if (tries_recompute(in, r)) c.bound_s = fmin(c.bound_s, b->variant_s(b->ctx, variant, r));
  return c;
}

static struct variant_search variant_search_new(struct pz_call *call,
                                                const struct pz_plan_inputs *in,
                                                uint32_t most_incumbents) {
  struct variant_search search = {.in = in, .most_incumbents = most_incumbents};
  uint32_t most_layers = 0;
  for (uint32_t i = 0; i < in->n_variants; i++) {
    const struct pz_workload *w = in->variants[i].w;
    if (w->totals.layers > PZ_PLACE_MOST_LAYERS)
      pz_raise(call, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", w->model,
               (long long)w->totals.layers, PZ_PLACE_MOST_LAYERS);
    if (w->n_layers > most_layers) most_layers = w->n_layers;
  }
  for (int d = 0; d < 2; d++) search.layer_s[d] = pz_alloc(call, most_layers, sizeof(double));
  search.incumbents = pz_alloc(call, most_incumbents, sizeof *search.incumbents);
  search.candidates = pz_alloc(call, in->n_variants, sizeof *search.candidates);
  for (uint32_t i = 0; i < in->n_variants; i++) search.candidates[i] = candidate_new(call, in, i);
  qsort(search.candidates, in->n_variants, sizeof *search.candidates, compare_bounds);
  return search;
}

static struct candidate *candidate_of(const struct variant_search *search, uint32_t variant) {
  uint32_t i = 0;
  while (search->candidates[i].variant != variant) i++;
  return &search->candidates[i];
}

/* The problem of a candidate with the schedules found, and its best plan without a limit. */
static struct pz_place_model solve_in_full(struct pz_call *call, const struct pz_plan_inputs *in,
                                           const struct candidate *c, bool recompute) {
  struct pz_place_width *width = pz_alloc(call, 1, sizeof *width);
  *width = pz_place_layer_chain(call, c->w, c->times, false);
  struct pz_place_model m = {.p = candidate_problem(in, c, width, recompute),
                             .mbs = in->variants[c->variant].mbs,
                             .seq = c->w->options.seq,
                             .batch = in->batch,
                             .sample_flop = in->sample_flop,
                             .peak_flop_per_s = pz_chip_tensor_flop_per_s(&in->cost->chip),
                             .n_open = c->n_open};
  for (uint32_t i = 0; i < c->w->n_layers; i++)
    for (int d = 0; d < 2; d++) {
      const struct pz_layer_time *t = &c->times[i][d];
      if (t->s > 0) m.worst_gap = fmax(m.worst_gap, 1 - t->least_s / t->s);
    }
  if (!place_layers(call, in, c, &m.p, DBL_MAX, &m.plan))
    pz_raise(call, PZ_NO_ANSWER, "no feasible plan");
  m.p.bytes_per_s = pz_place_within(&m.p, m.plan.domain).bytes_per_s;
  return m;
}

struct pz_plan_choice pz_plan_find_best(struct pz_call *call, const struct pz_plan_inputs *in,
                                        double limit_s) {
  struct pz_plan_choice choice = {.time_s = HUGE_VAL, .lower_bound_s = HUGE_VAL};
  struct pz_call work = pz_scratch(call);
  struct variant_search search = variant_search_new(&work, in, 1);
  choice.below = !in->bounds || !(limit_s < HUGE_VAL);
  for (uint32_t i = 0; i < in->n_variants && !choice.below; i++) {
    struct candidate *c = &search.candidates[i];
    if (c->bound_s < limit_s) choice.below = schedule_quickly(&work, &search, c, limit_s);
  }
  if (choice.below) {
    place_candidates(&work, &search);
    choice.lower_bound_s = search_bound_s(&search, &choice.n_open);
  }
  if (search.n_incumbents) {
    const struct ranked_plan *best = &search.incumbents[0];
    const struct candidate *c = candidate_of(&search, best->variant);
    struct pz_place_solution plan = solve_in_full(&work, in, c, best->recompute).plan;
    uint16_t *layers = pz_alloc(call, plan.n_stages, sizeof *layers);
    for (uint32_t k = 0; k < plan.n_stages; k++) layers[k] = (uint16_t)plan.stages[k].n;
    choice.time_s = plan.time_s;
    choice.n_open_here = c->n_open;
    choice.plan =
        (struct pz_plan_record){best->variant, best->recompute, plan.d, plan.n_stages, layers};
  }
  choice.n_looked = search.n_looked;
  pz_scratch_end(&work);
  return choice;
}

static bool is_as_recorded(const struct pz_plan_record *r, double time_s,
                           const struct pz_place_solution *plan) {
  if (time_s != plan->time_s || r->d != plan->d || r->n_stages != plan->n_stages) return false;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    if (r->layers[k] != plan->stages[k].n) return false;
  return true;
}

/* The choice may have been made with few steps, or with more if those left schedules open.  Tries both. */
struct pz_place_model pz_plan_rebuild(struct pz_call *call, const struct pz_plan_inputs *in,
                                      const struct pz_plan_record *record, double time_s) {
  struct pz_plan_inputs alone = *in;
  alone.bounds = NULL;
  alone.check = true;
  struct pz_call work = pz_scratch(call);
  struct variant_search search = {.in = &alone};
  struct candidate c = candidate_new(&work, &alone, record->variant);
  struct pz_place_model model;
  for (int64_t steps = in->quick_steps;; steps = in->steps) {
    schedule_layers(&work, &search, &c, steps);
    model = solve_in_full(call, &alone, &c, record->recompute);
    if (is_as_recorded(record, time_s, &model.plan)) break;
    if (steps >= in->steps || !c.n_open)
      pz_raise(call, PZ_INTERNAL, "%s: the plan of %.9g s is not the recorded one of %.9g s",
               in->cost->chip.name, model.plan.time_s, time_s);
  }
  pz_scratch_end(&work);
  return model;
}

/* If nothing fits: the variant that needs the least memory. */
static void find_least_memory(struct pz_call *call, const struct variant_search *search,
                              struct pz_plan_list *out) {
  const struct pz_plan_inputs *in = search->in;
  out->fit.hbm_bytes = DBL_MAX;
  for (uint32_t v = 0; v < in->n_variants && !in->given; v++) {
    struct candidate *c = candidate_of(search, v);
    schedule_layers(call, search, c, in->quick_steps);
    struct pz_place_width width = pz_place_layer_chain(call, c->w, c->times, false);
    for (int r = 0; r < 2; r++) {
      if (!tries_recompute(in, r)) continue;
      struct pz_place_problem p = candidate_problem(in, c, &width, r);
      struct pz_fit fit = pz_place_least_memory(call, &p);
      if (fit.hbm_bytes >= out->fit.hbm_bytes) continue;
      out->fit = fit;
      out->fit_variant = v;
      out->fit_recompute = r;
    }
  }
}

struct pz_plan_list pz_plan_list_best(struct pz_call *call, const struct pz_plan_inputs *in,
                                      uint32_t n_next) {
  struct pz_call work = pz_scratch(call);
  struct variant_search search = variant_search_new(&work, in, 1 + n_next);
  struct pz_plan_list list = {0};
  uint32_t n_open;
  place_candidates(&work, &search);
  if (!search.n_incumbents) find_least_memory(&work, &search, &list);
  list.lower_bound_s = search_bound_s(&search, &n_open);
  list.n = search.n_incumbents;
  list.plans = pz_alloc(call, list.n, sizeof *list.plans);
  for (uint32_t i = 0; i < list.n; i++) {
    const struct ranked_plan *r = &search.incumbents[i];
    list.plans[i] = solve_in_full(call, in, candidate_of(&search, r->variant), r->recompute);
  }
  pz_scratch_end(&work);
  return list;
}
