/* Chooses the best plan among the variants of a model.
 *
 * The variants are candidates, ordered by the caller's lower bounds.  place_candidates() goes through them, first with few
 * schedule steps and then with more for those whose open schedules may still make them the best: schedule_layers() finds
 * the times of the layers, and place_candidate() the best plan for these times (solve.c), or for their lower bounds.  The
 * plans that are found are ranked as incumbents; a candidate that bounds show to be no better is skipped.  The winner is
 * solved once more without a limit, in solve_in_full(), so that it does not depend on the other candidates. */
#include "partition/best.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/num.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

/* A variant with the times of its layers, as far as they are known. */
struct candidate {
  uint32_t variant; /* index of the variant in the inputs */
  const struct pz_workload *workload;
  double bound_s; /* lower bound on the step time of its plans, by the caller's bounds */
  double least_s; /* lower bound on the step time of its plans, by the bounds of its schedules */
  struct pz_layer_time (*times)[2]; /* by layer and direction */
  int64_t *tried_steps; /* by layer: effort limit of its schedules, or 0 if it is not scheduled */
  uint32_t n_open;      /* number of open schedules: those that are not proven optimal */
};

/* The time of the best plan of a variant that was found, with or without recompute. */
struct ranked_plan {
  double time_s;
  uint32_t variant;
  bool recompute;
};

struct variant_search {
  const struct pz_plan_inputs *inputs;
  double *layer_s[2];             /* by direction and layer: times for the caller's bounds */
  struct candidate *candidates;   /* all variants, the lowest bound first */
  struct ranked_plan *incumbents; /* the best plans found so far, the fastest first */
  uint32_t n_incumbents, most_incumbents; /* number so far, and number that the caller asks for */
  uint64_t n_scheduled;                   /* number of candidates of which layers were scheduled */
};

/* Returns whether the inputs ask for plans that recompute activations, or for those that do not. */
static bool tries_recompute(const struct pz_plan_inputs *inputs, bool recompute) {
  return inputs->recompute != (recompute ? PZ_RECOMPUTATION_NONE : PZ_RECOMPUTATION_FULL);
}

/* Returns the index of the layer that is repeated most. */
static uint32_t main_layer(const struct pz_workload *workload) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < workload->n_layers; i++)
    if (workload->layers[i].count > workload->layers[most].count) most = i;
  return most;
}

/* ---- incumbents ----------------------------------------------------------------------------- */

/* Returns whether plan a is faster, or in a tie has an earlier variant, or then saves
 * activations. */
static bool is_better_plan(const struct ranked_plan *a, const struct ranked_plan *b) {
  if (a->time_s != b->time_s) return a->time_s < b->time_s;
  if (a->variant != b->variant) return a->variant < b->variant;
  return a->recompute < b->recompute;
}

/* Returns the time of the slowest incumbent, or HUGE_VAL while there are fewer than asked for. */
static double incumbent_s(const struct variant_search *search) {
  uint32_t n = search->n_incumbents;
  return n < search->most_incumbents ? HUGE_VAL : search->incumbents[n - 1].time_s;
}

/* Returns the time that a plan of the variant must be below to become an incumbent.  If the plan
 * would win a tie with the last incumbent, this is the next number above the incumbent's time. */
static double cutoff_s(const struct variant_search *search, uint32_t variant, bool recompute) {
  double time_s = incumbent_s(search);
  struct ranked_plan tie = {time_s, variant, recompute};
  if (!(time_s < HUGE_VAL)) return time_s;
  bool wins = is_better_plan(&tie, &search->incumbents[search->n_incumbents - 1]);
  return wins ? nextafter(time_s, HUGE_VAL) : time_s;
}

/* Inserts a plan into the list of incumbents if it is better than the last one.  The list has at most
 * one plan for each variant with, and one without recompute. */
static void update_incumbents(struct variant_search *search, struct ranked_plan found) {
  struct ranked_plan *list = search->incumbents;
  uint32_t i = 0, n = search->n_incumbents;
  while (i < n && (list[i].variant != found.variant || list[i].recompute != found.recompute)) i++;
  if (i == n && n == search->most_incumbents) i--; /* the plan may replace the last one */
  bool replaces = i < n; /* entry i, or else the plan is a new entry at the end */
  if (replaces && !is_better_plan(&found, &list[i])) return;
  if (!replaces) search->n_incumbents++;
  /* Move the plan forward to its place by time. */
  for (; i > 0 && is_better_plan(&found, &list[i - 1]); i--) list[i] = list[i - 1];
  list[i] = found;
}

/* ---- schedules ------------------------------------------------------------------------------ */

/* Schedules a layer in one direction.  Returns its makespan, a lower bound, and its collectives' time. */
struct pz_layer_time pz_layer_time_of(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_ops *ops, int64_t steps) {
  struct pz_call work = pz_scratch(call);
  struct pz_layer_options layer_options = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options effort = {.steps = steps};
  struct pz_problem problem = pz_layer_problem_build(&work, cost, ops, &layer_options);
  struct pz_schedule schedule = pz_schedule_find(&work, &problem, &effort);
  struct pz_layer_time time = {.s = schedule.makespan,
                               .least_s = schedule.lower_bound,
                               .open = schedule.outcome != PZ_OUTCOME_OPTIMAL};
  for (uint32_t i = 0; i < problem.n; i++) {
    const struct pz_slot *slot = &schedule.slots[i];
    if (problem.tasks[i].modes[slot->mode].use[PZ_LINK]) time.link_s += slot->end - slot->start;
  }
  pz_scratch_end(&work);
  return time;
}

/* Schedules one layer in both directions with an effort limit of `steps`, unless the layer had this
 * limit before.  A schedule that is proven optimal is not computed again; otherwise the shorter
 * schedule and the higher bound of both attempts are kept. */
static void schedule_layer(struct pz_call *call, const struct variant_search *search,
                           struct candidate *candidate, uint32_t layer, int64_t steps) {
  if (candidate->tried_steps[layer] >= steps) return;
  for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    struct pz_layer_time *time = &candidate->times[layer][direction];
    bool is_scheduled = candidate->tried_steps[layer] > 0;
    if (is_scheduled && !time->open) continue;
    const struct pz_ops *ops = &candidate->workload->layers[layer].ops[direction];
    struct pz_layer_time retried = pz_layer_time_of(call, search->inputs->cost, ops, steps);
    double least_s = fmax(time->least_s, retried.least_s);
    if (!time->open || retried.s < time->s)
      *time = retried; /* the first schedule, or a shorter one */
    time->least_s = fmin(least_s, time->s);
    time->open = time->least_s < time->s;
  }
  candidate->tried_steps[layer] = steps;
}

/* Schedules all layers of a candidate with this number of steps, and counts the open schedules. */
static void schedule_layers(struct pz_call *call, const struct variant_search *search,
                            struct candidate *candidate, int64_t steps) {
  candidate->n_open = 0;
  for (uint32_t i = 0; i < candidate->workload->n_layers; i++) {
    schedule_layer(call, search, candidate, i, steps);
    candidate->n_open +=
        candidate->times[i][PZ_FORWARD].open + candidate->times[i][PZ_BACKWARD].open;
  }
}

/* Sets search->layer_s to the times of the candidate's schedules, or if `least` is set, to lower
 * bounds on them: of the schedules, or of the caller for layers not scheduled yet. */
static void set_layer_s(struct variant_search *search, const struct candidate *candidate,
                        bool least) {
  const struct pz_plan_bounds *bounds = search->inputs->bounds;
  for (uint32_t i = 0; i < candidate->workload->n_layers; i++)
    for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
      double s = candidate->times[i][direction].s;
      if (least && candidate->tried_steps[i]) s = candidate->times[i][direction].least_s;
      if (least && !candidate->tried_steps[i])
        s = bounds->layer_s(bounds->ctx, candidate->variant, i, (enum pz_direction)direction);
      search->layer_s[direction][i] = s;
    }
}

/* Returns whether a plan of the candidate may be below limit_s, by the bounds on its layers. */
static bool may_be_below(struct variant_search *search, const struct candidate *candidate,
                         double limit_s) {
  const struct pz_plan_bounds *bounds = search->inputs->bounds;
  const double *fwd_s = search->layer_s[PZ_FORWARD], *bwd_s = search->layer_s[PZ_BACKWARD];
  set_layer_s(search, candidate, true);
  for (int recompute = 0; recompute < 2; recompute++)
    if (tries_recompute(search->inputs, recompute) &&
        bounds->plan_s(bounds->ctx, candidate->variant, recompute, fwd_s, bwd_s, limit_s) < limit_s)
      return true;
  return false;
}

/* ---- plans of one candidate ----------------------------------------------------------------- */

/* Returns the placement problem of a candidate. */
static struct pz_place_problem candidate_problem(const struct pz_plan_inputs *inputs,
                                                 const struct candidate *candidate,
                                                 const struct pz_place_width *width,
                                                 bool recompute) {
  struct pz_place_problem problem = pz_place_problem_on(&inputs->cost->net, inputs->devices);
  problem.hbm_bytes = inputs->hbm_bytes;
  problem.microbatches = inputs->variants[candidate->variant].microbatches;
  problem.state = inputs->state;
  problem.recompute = recompute;
  problem.semantics = inputs->semantics;
  problem.widths = width;
  return problem;
}

/* Finds the best plan of at most limit_s, or evaluates the stages that the inputs give.  Returns
 * false if there is no plan. */
static bool place_layers(struct pz_call *call, const struct pz_plan_inputs *inputs,
                         const struct candidate *candidate, const struct pz_place_problem *problem,
                         double limit_s, struct pz_place_solution *plan) {
  if (inputs->given) {
    struct pz_fixed fixed = *inputs->given;
    uint32_t repeated = main_layer(candidate->workload);
    for (uint32_t i = 0; i < repeated; i++) fixed.first += candidate->workload->layers[i].count;
    fixed.layers = candidate->workload->layers[repeated].count;
    fixed.tp = problem->widths[0].tp;
    fixed.replicas = pz_min(problem->devices / (fixed.stages * fixed.tp), problem->microbatches);
    return fixed.replicas >= 1 && !pz_fixed_plan_evaluate(call, problem, &fixed, plan) &&
           plan->time_s < HUGE_VAL;
  }
  if (!pz_place_find_fastest(call, problem, limit_s, plan)) return false;
  if (inputs->check) pz_place_check(call, problem, plan);
  return true;
}

/* Finds the best plan of a candidate, and returns its step time, or HUGE_VAL if no plan may become
 * an incumbent. If `least` is false, layers take the times of their schedules, and the plan becomes
 * an incumbent if it is fast enough; only if a single plan is asked for, the incumbent limits the
 * search. If `least` is true, layers take the lower bounds on these times. */
static double place_candidate(struct pz_call *call, struct variant_search *search,
                              const struct candidate *candidate, bool least) {
  const struct pz_plan_inputs *inputs = search->inputs;
  const struct pz_plan_bounds *bounds = inputs->bounds;
  const struct pz_place_width width =
      pz_place_layer_chain(call, candidate->workload, candidate->times, least);
  double best_s = HUGE_VAL;
  for (int recompute = 0; recompute < 2; recompute++) {
    if (!tries_recompute(inputs, recompute)) continue;
    double limit_s = cutoff_s(search, candidate->variant, recompute);
    if (bounds) set_layer_s(search, candidate, least);
    bool ruled_out =
        bounds && bounds->plan_s(bounds->ctx, candidate->variant, recompute, search->layer_s[0],
                                 search->layer_s[1], limit_s) >= limit_s;
    if (ruled_out) continue;
    struct pz_place_problem problem = candidate_problem(inputs, candidate, &width, recompute);
    struct pz_place_solution plan;
    bool is_limited = least || search->most_incumbents == 1;
    double solver_limit_s = is_limited ? incumbent_s(search) : DBL_MAX;
    if (!place_layers(call, inputs, candidate, &problem, solver_limit_s, &plan)) continue;
    bool recomputes_nothing = recompute && plan.n_stages == 1; /* the last stage never recomputes */
    if (!least && recomputes_nothing && tries_recompute(inputs, false)) continue;
    best_s = fmin(best_s, plan.time_s);
    if (!least)
      update_incumbents(search, (struct ranked_plan){plan.time_s, candidate->variant, recompute});
  }
  return best_s;
}

/* ---- all candidates ------------------------------------------------------------------------- */

/* Schedules the layers of a candidate with the effort limit quick_steps.  Returns whether it may
 * have a plan below limit_s.  If the caller has bounds, the layer that is repeated most is
 * scheduled first, because it may exclude such plans. */
static bool schedule_quickly(struct pz_call *call, struct variant_search *search,
                             struct candidate *candidate, double limit_s) {
  const struct pz_plan_inputs *inputs = search->inputs;
  search->n_scheduled++;
  if (inputs->bounds) {
    schedule_layer(call, search, candidate, main_layer(candidate->workload), inputs->quick_steps);
    if (!may_be_below(search, candidate, limit_s)) return false;
  }
  schedule_layers(call, search, candidate, inputs->quick_steps);
  return !inputs->bounds || may_be_below(search, candidate, limit_s);
}

/* Finds the plans of all candidates that may be the best: in a first pass with few schedule steps,
 * and in a second one with more steps if a candidate has open schedules (not proven optimal) and
 * with their lower bounds would be faster than the incumbents. */
static void place_candidates(struct pz_call *call, struct variant_search *search) {
  const struct pz_plan_inputs *inputs = search->inputs;
  int n_passes = inputs->steps > inputs->quick_steps ? 2 : 1;
  for (int pass = 0; pass < n_passes; pass++)
    for (uint32_t i = 0; i < inputs->n_variants; i++) {
      struct candidate *candidate = &search->candidates[i];
      double limit_s = cutoff_s(search, candidate->variant, false);
      if (pass == 0) {
        if (candidate->bound_s >= limit_s) continue;
        if (!schedule_quickly(call, search, candidate, limit_s)) continue;
      } else {
        if (!candidate->n_open || candidate->least_s >= limit_s) continue;
        schedule_layers(call, search, candidate, inputs->steps);
      }
      candidate->least_s = place_candidate(call, search, candidate, false);
      if (candidate->n_open) candidate->least_s = place_candidate(call, search, candidate, true);
    }
}

/* Returns a lower bound on the step time of all plans.  Sets *n_open to the number of open
 * schedules (not proven optimal) of candidates whose bound is below the time of the best plan. */
static double search_bound_s(const struct variant_search *search, uint32_t *n_open) {
  double best_s = search->n_incumbents ? search->incumbents[0].time_s : HUGE_VAL;
  double bound_s = best_s;
  *n_open = 0;
  for (uint32_t i = 0; i < search->inputs->n_variants; i++) {
    const struct candidate *candidate = &search->candidates[i];
    bound_s = fmin(bound_s, candidate->least_s);
    if (candidate->least_s < best_s) *n_open += candidate->n_open;
  }
  return bound_s;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Compares two candidates for qsort(): the lower bound first, then the variant listed first. */
static int compare_bounds(const void *left, const void *right) {
  const struct candidate *first = left, *second = right;
  if (first->bound_s != second->bound_s) return first->bound_s < second->bound_s ? -1 : 1;
  return first->variant < second->variant ? -1 : 1;
}

/* Returns a candidate whose layers are not scheduled yet, with the caller's bound on its plans. */
static struct candidate candidate_new(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                      uint32_t variant) {
  const struct pz_plan_bounds *bounds = inputs->bounds;
  const struct pz_workload *workload = inputs->variants[variant].w;
  struct candidate candidate = {
      .variant = variant,
      .workload = workload,
      .bound_s = bounds ? HUGE_VAL : 0,
      .least_s = HUGE_VAL,
      .times = pz_alloc(call, workload->n_layers, sizeof *candidate.times),
      .tried_steps = pz_alloc(call, workload->n_layers, sizeof *candidate.tried_steps)};
  for (int recompute = 0; bounds && recompute < 2; recompute++)
    if (tries_recompute(inputs, recompute))
      candidate.bound_s =
          fmin(candidate.bound_s, bounds->variant_s(bounds->ctx, variant, recompute));
  return candidate;
}

/* Returns a search over all variants, the lowest bound first. */
static struct variant_search variant_search_new(struct pz_call *call,
                                                const struct pz_plan_inputs *inputs,
                                                uint32_t most_incumbents) {
  struct variant_search search = {.inputs = inputs, .most_incumbents = most_incumbents};
  uint32_t most_layers = 0;
  for (uint32_t i = 0; i < inputs->n_variants; i++) {
    const struct pz_workload *workload = inputs->variants[i].w;
    if (workload->totals.layers > PZ_PLACE_MOST_LAYERS)
      pz_raise(call, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", workload->model,
               (long long)workload->totals.layers, PZ_PLACE_MOST_LAYERS);
    if (workload->n_layers > most_layers) most_layers = workload->n_layers;
  }
  for (int direction = 0; direction < 2; direction++)
    search.layer_s[direction] = pz_alloc(call, most_layers, sizeof(double));
  search.incumbents = pz_alloc(call, most_incumbents, sizeof *search.incumbents);
  search.candidates = pz_alloc(call, inputs->n_variants, sizeof *search.candidates);
  for (uint32_t i = 0; i < inputs->n_variants; i++)
    search.candidates[i] = candidate_new(call, inputs, i);
  qsort(search.candidates, inputs->n_variants, sizeof *search.candidates, compare_bounds);
  return search;
}

/* Returns the candidate of a variant. */
static struct candidate *candidate_of(const struct variant_search *search, uint32_t variant) {
  uint32_t i = 0;
  while (search->candidates[i].variant != variant) i++;
  return &search->candidates[i];
}

/* Builds the placement problem of a candidate from the times of its scheduled layers, and solves it
 * without a limit on the step time. */
static struct pz_place_model solve_in_full(struct pz_call *call,
                                           const struct pz_plan_inputs *inputs,
                                           const struct candidate *candidate, bool recompute) {
  struct pz_place_width *width = pz_alloc(call, 1, sizeof *width);
  *width = pz_place_layer_chain(call, candidate->workload, candidate->times, false);
  struct pz_place_model model = {.problem = candidate_problem(inputs, candidate, width, recompute),
                                 .mbs = inputs->variants[candidate->variant].mbs,
                                 .seq = candidate->workload->options.seq,
                                 .batch = inputs->batch,
                                 .sample_flop = inputs->sample_flop,
                                 .peak_flop_per_s = pz_chip_tensor_flop_per_s(&inputs->cost->chip),
                                 .n_open = candidate->n_open};
  for (uint32_t i = 0; i < candidate->workload->n_layers; i++)
    for (int direction = 0; direction < 2; direction++) {
      const struct pz_layer_time *time = &candidate->times[i][direction];
      if (time->s > 0) model.worst_gap = fmax(model.worst_gap, 1 - time->least_s / time->s);
    }
  const double no_limit_s = DBL_MAX;
  if (!place_layers(call, inputs, candidate, &model.problem, no_limit_s, &model.plan))
    pz_raise(call, PZ_NO_ANSWER, "no feasible plan");
  model.problem.bytes_per_s = pz_place_within(&model.problem, model.plan.domain).bytes_per_s;
  return model;
}

/* Finds the best plan over all variants, or sets choice.below to false if the caller's bounds show
 * that no plan takes less than limit_s (HUGE_VAL for no limit). */
struct pz_plan_choice pz_plan_find_best(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                        double limit_s) {
  struct pz_plan_choice choice = {.time_s = HUGE_VAL, .lower_bound_s = HUGE_VAL};
  struct pz_call work = pz_scratch(call);
  struct variant_search search = variant_search_new(&work, inputs, 1);
  /* First look for a variant that the bounds do not exclude. */
  bool has_limit = limit_s < HUGE_VAL;
  bool can_exclude = inputs->bounds && has_limit;
  choice.below = !can_exclude;
  for (uint32_t i = 0; i < inputs->n_variants && !choice.below; i++) {
    struct candidate *candidate = &search.candidates[i];
    if (candidate->bound_s < limit_s)
      choice.below = schedule_quickly(&work, &search, candidate, limit_s);
  }
  /* If there is one, find the best plan, which is solved again and recorded. */
  if (choice.below) {
    place_candidates(&work, &search);
    choice.lower_bound_s = search_bound_s(&search, &choice.n_open);
  }
  if (search.n_incumbents) {
    const struct ranked_plan *best = &search.incumbents[0];
    const struct candidate *candidate = candidate_of(&search, best->variant);
    struct pz_place_solution plan = solve_in_full(&work, inputs, candidate, best->recompute).plan;
    uint16_t *layers = pz_alloc(call, plan.n_stages, sizeof *layers);
    for (uint32_t k = 0; k < plan.n_stages; k++) layers[k] = (uint16_t)plan.stages[k].n;
    choice.time_s = plan.time_s;
    choice.n_open_here = candidate->n_open;
    choice.plan = (struct pz_plan_record){best->variant, best->recompute, plan.replicas,
                                          plan.n_stages, layers};
  }
  choice.n_scheduled = search.n_scheduled;
  pz_scratch_end(&work);
  return choice;
}

/* Rebuilds a recorded plan, with few schedule steps and then with more, because it may have been
 * found with either. */
struct pz_place_model pz_plan_rebuild(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                      const struct pz_plan_record *record, double time_s) {
  struct pz_plan_inputs rebuild_inputs = *inputs;
  rebuild_inputs.bounds = NULL;
  rebuild_inputs.check = true;
  struct pz_call work = pz_scratch(call);
  struct variant_search search = {.inputs = &rebuild_inputs};
  struct candidate candidate = candidate_new(&work, &rebuild_inputs, record->variant);
  struct pz_place_model model;
  for (int64_t steps = inputs->quick_steps;; steps = inputs->steps) {
    schedule_layers(&work, &search, &candidate, steps);
    model = solve_in_full(call, &rebuild_inputs, &candidate, record->recompute);
    const struct pz_place_solution *plan = &model.plan;
    bool as_recorded = time_s == plan->time_s && record->replicas == plan->replicas &&
                       record->n_stages == plan->n_stages;
    for (uint32_t k = 0; as_recorded && k < plan->n_stages; k++)
      as_recorded = record->layers[k] == plan->stages[k].n;
    if (as_recorded) break;
    if (steps >= inputs->steps || !candidate.n_open)
      pz_raise(call, PZ_INTERNAL, "%s: the plan of %.9g s is not the recorded one of %.9g s",
               inputs->cost->chip.name, model.plan.time_s, time_s);
  }
  pz_scratch_end(&work);
  return model;
}

/* Finds the best plans, or if none fits, the least memory with which one would. */
struct pz_plan_list pz_plan_list_best(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                      uint32_t n_next) {
  struct pz_call work = pz_scratch(call);
  struct variant_search search = variant_search_new(&work, inputs, 1 + n_next);
  struct pz_plan_list list = {0};
  uint32_t n_open;
  place_candidates(&work, &search);
  list.fit.hbm_bytes = DBL_MAX;
  for (uint32_t variant = 0; variant < inputs->n_variants; variant++) {
    /* if no plan fits, find the variant that needs the least memory */
    if (search.n_incumbents || inputs->given) break;
    struct candidate *candidate = candidate_of(&search, variant);
    schedule_layers(&work, &search, candidate, inputs->quick_steps);
    struct pz_place_width width =
        pz_place_layer_chain(&work, candidate->workload, candidate->times, false);
    for (int recompute = 0; recompute < 2; recompute++) {
      if (!tries_recompute(inputs, recompute)) continue;
      struct pz_place_problem problem = candidate_problem(inputs, candidate, &width, recompute);
      struct pz_fit fit = pz_place_least_memory(&work, &problem);
      if (fit.hbm_bytes >= list.fit.hbm_bytes) continue;
      list.fit = fit;
      list.fit_variant = variant;
      list.fit_recompute = recompute;
    }
  }
  list.lower_bound_s = search_bound_s(&search, &n_open);
  list.n = search.n_incumbents;
  list.plans = pz_alloc(call, list.n, sizeof *list.plans);
  for (uint32_t i = 0; i < list.n; i++) {
    const struct ranked_plan *incumbent = &search.incumbents[i];
    list.plans[i] = solve_in_full(call, inputs, candidate_of(&search, incumbent->variant),
                                  incumbent->recompute);
  }
  pz_scratch_end(&work);
  return list;
}
