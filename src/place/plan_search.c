/* Searches the best training plan (place/plan_question.h).
 *
 * search_space() lists the space of plans and prices its grids in the order of their lower bounds
 * (price_grids), so that the best plans found first exclude most grids.  Then it searches the
 * simplest plan that ties with the best (find_simplest), and the best plans of other kinds
 * (find_kinds).  Each of these phases may be stopped by the user or by the time limit: then the
 * plans found so far are the answer.
 *
 * A plan is simpler than another one by a list of numbers, compared in this order: features that no
 * validated run has, if expected errors count; kinds of parallelism (tensor, context, expert,
 * pipeline); degrees; pipeline order; division of layers; recomputation; offload; microbatch size;
 * ZeRO stage. */
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "place/plan_pricing.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"

const char *const pz_plan_objective_names[] = {"time", "memory", "cost", NULL};
const char *const pz_plan_risk_names[] = {"counted", "none", NULL};
const char *const pz_software_names[] = {"te", "deepep", "hybridep", "cuda-graphs", NULL};

/* A kind of plans (a set of techniques, pz_plan_kind) is listed if its best step is within this
 * factor of the best; a choice. */
static const double KIND_STEP_FACTOR = 1.25;

/* Returns a question for the plans that have the fields of `plan`, with the framework's defaults
 * for unset fields that are not searched. */
struct pz_plan_question pz_plan_question_make(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_plan *plan, uint64_t pinned) {
  struct pz_plan_question question = {.job = *job, .plan = *plan, .pinned = pinned, .top = 1};
  /* defaults are derived from the plan with all fields unset that the search decides */
  struct pz_plan defaults = *plan, none = pz_plan_default();
  uint64_t searched = pz_plan_searched();
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_kind type = pz_plan_field((enum pz_plan_field)i)->kind;
    bool has_no_default = type == PZ_PLAN_KIND_COUNT || type >= PZ_PLAN_KIND_LIST;
    if (has_no_default) searched |= UINT64_C(1) << i;
    if (searched >> i & 1) pz_plan_field_copy(&defaults, &none, (enum pz_plan_field)i);
  }
  defaults.recompute_modules = 0;
  pz_fill_plan(call, &defaults, job->chip);
  const struct pz_framework *framework = pz_plan_framework(&defaults);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (!(searched >> i & 1) && pz_plan_is_unset(plan, (enum pz_plan_field)i))
      pz_plan_field_copy(&question.plan, &defaults, (enum pz_plan_field)i);
  if (plan->overlap < 0) question.plan.overlap = framework->plan.overlap | framework->free_overlap;
  if (!(pinned & PZ_PLAN_PIN(RECOMPUTE)) || plan->recompute != PZ_RECOMPUTATION_SELECTIVE)
    question.plan.recompute_modules = 0;
  return question;
}

/* Raises PZ_BAD_USE if a number of the question is out of its range. */
static void check_question(struct pz_call *call, const struct pz_plan_question *question) {
  const struct pz_plan *plan = &question->plan;
  pz_require_range(call, "devices", plan->devices, 1, 1 << 24);
  pz_require_range(call, "batch", plan->batch, 1, 1 << 24);
  pz_require_range(call, "top", question->top, 0, 1000);
  if (plan->shard < 0 || plan->shard > plan->devices)
    pz_raise(call, PZ_BAD_USE, "sharding over %lld replicas; accepted: 0 (all) to %lld",
             (long long)plan->shard, (long long)plan->devices);
  if (plan->offload_layers && !(plan->offload & PZ_OFFLOAD_ACTIVATIONS))
    pz_raise(call, PZ_BAD_USE, "offload_layers without offload activations; accepted: with it");
  if (!(question->tie >= 0 && question->tie <= 1))
    pz_raise(call, PZ_BAD_USE, "tie %g; accepted: 0 to 1", question->tie);
  if (!(question->deadline_s >= 0 && question->deadline_s <= 1e30))
    pz_raise(call, PZ_BAD_USE, "deadline_s %g; accepted: 0 (none) to 1e30", question->deadline_s);
  if (question->deadline_s > 0 && !(question->tokens >= 1 && question->tokens <= 1e30))
    pz_raise(call, PZ_BAD_USE, "tokens %g with a deadline; accepted: 1 to 1e30", question->tokens);
}

/* ---- simplicity ----------------------------------------------------------------------------- */

enum {
  KEY_NUMBERS = 13,
  KEY_GRID_NUMBERS = 4,      /* how many numbers of a plan are at least those of its grid */
  KEY_RECOMPUTATION = 7,     /* index of the rank of the recomputation */
  KEY_OFFLOADED_LAYERS = 10, /* index of the number of offloaded layers */
};

/* The numbers by which plans are compared for simplicity, most important first; less is simpler. */
struct simplicity {
  int64_t number[KEY_NUMBERS];
};

/* Returns the numbers that decide how simple a plan is, in the order of this file's head. */
static struct simplicity plan_simplicity(const struct pz_plan_space *space,
                                         const struct pz_plan *plan) {
  static const int64_t recompute_rank[PZ_RECOMPUTATIONS] = {[PZ_RECOMPUTATION_SELECTIVE] = 1,
                                                            [PZ_RECOMPUTATION_ALTERNATE] = 2,
                                                            [PZ_RECOMPUTATION_HALF] = 3,
                                                            [PZ_RECOMPUTATION_FULL] = 4};
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  int64_t unvalidated = 0, recomputed = 0, offloaded = 0; /* features; layers of all chunks */
  if (space->question->counts_risk)
    unvalidated = pz_risk_unseen(&space->risk, pz_plan_features(plan, &space->features), NULL);
  for (int64_t chunk = 0; plan->offload && chunk < plan->pp * plan->vpp; chunk++)
    offloaded += pz_plan_offloaded_layers(plan, pz_plan_chunk_layers(plan, space->n_layers, chunk));
  for (int64_t chunk = 0; plan->recompute == PZ_RECOMPUTATION_FULL && chunk < plan->pp * plan->vpp;
       chunk++)
    recomputed += pz_plan_recomputed_layers(plan, pz_pipeline_stage_of(&shape, (uint32_t)chunk),
                                            pz_plan_chunk_layers(plan, space->n_layers, chunk));
  /* the fraction of the optimizer on the host is counted in millionths */
  return (struct simplicity){
      {unvalidated,
       (plan->tp > 1) + (pz_plan_cp(plan) > 1) + (pz_plan_ep(plan) > 1) + (plan->pp > 1),
       plan->tp * pz_plan_cp(plan) * plan->pp, pz_plan_ep(plan), plan->vpp,
       plan->pipeline > PZ_PIPELINE_INTERLEAVED, plan->first_layers || plan->last_layers,
       recompute_rank[plan->recompute], recomputed,
       (int64_t)(1e6 * pz_plan_host_optimizer_fraction(plan)), offloaded, plan->mbs, plan->zero}};
}

/* Compares the first n numbers of two plans.  Returns a negative number if a is simpler, 0 if they
 * are equal, otherwise a positive one. */
static int compare_simplicity(const struct simplicity *a, const struct simplicity *b, int n) {
  for (int i = 0; i < n; i++)
    if (a->number[i] != b->number[i]) return a->number[i] < b->number[i] ? -1 : 1;
  return 0;
}

/* A search for the simplest plan whose value is within the limit. */
struct tie_search {
  struct pz_plan_pricing *pricing;
  double limit_value;         /* largest value that ties with the best plan */
  struct simplicity simplest; /* of the simplest plan so far */
};

/* Returns whether a plan with this step, in seconds, meets the deadline and ties with the best
 * plan. */
static bool ties_with_best(const struct tie_search *ties, const struct pz_plan *plan,
                           double step_s) {
  double cutoff_s = ties->pricing->cutoff_s;
  bool in_time = !(cutoff_s > 0) || step_s <= cutoff_s;
  return in_time && pz_plan_value(ties->pricing->space, plan, step_s, 0) <= ties->limit_value;
}

/* Tries a plan with one way to save memory.  Keeps it if it is simpler than the simplest plan so
 * far, ties with the best plan, and fits.  Tests that cost least come first. */
static void try_simpler_way(struct pz_call *call, struct tie_search *ties,
                            struct pz_step_shape *shape, struct pz_plan *plan) {
  struct pz_plan_pricing *pricing = ties->pricing;
  struct pz_plan_memory *memory = pricing->memory;
  const struct pz_plan_question *question = pricing->space->question;
  /* numbers of layers that are open until the memory is computed */
  bool open_offload = pz_plan_offload_is_open(question, plan);
  bool open_recompute = plan->recompute == PZ_RECOMPUTATION_FULL && !open_offload;
  struct simplicity simplicity = plan_simplicity(pricing->space, plan);
  /* Only the numbers before the open layers are known.  A recomputation has a rank of at least 1,
   * because none is another way, unless full recomputation is pinned. */
  int n_known = KEY_NUMBERS;
  if (open_recompute) {
    simplicity.number[KEY_RECOMPUTATION] = !(question->pinned & PZ_PLAN_PIN(RECOMPUTE));
    n_known = KEY_RECOMPUTATION + 1;
  } else if (open_offload) {
    n_known = KEY_OFFLOADED_LAYERS;
  }
  if (compare_simplicity(&simplicity, &ties->simplest, n_known) > 0) return;
  struct pz_plan relaxed = pz_plan_relaxed(plan);
  if (!ties_with_best(ties, plan, pz_plan_pricing_bound_s(call, pricing, shape, &relaxed))) return;
  memory->cutoff_bytes = memory->hbm_bytes;
  memory->seeks_least = false;
  if (pz_plan_memory_bytes(call, memory, shape, plan) > memory->hbm_bytes) return;
  simplicity = plan_simplicity(pricing->space, plan);
  if (compare_simplicity(&simplicity, &ties->simplest, KEY_NUMBERS) >= 0) return;
  struct pz_found_plan found = {.plan = *plan};
  found.p = pz_step_price(call, shape->model, plan, NULL);
  if (!ties_with_best(ties, plan, found.p.step_s)) return;
  ties->simplest = simplicity;
  pricing->found.simplest = pz_plan_pricing_copy(call, pricing, &found);
}

/* Tries a plan of a grid with all ways to save memory and all overlaps. */
static void try_simpler_plan(struct pz_call *call, void *ctx, struct pz_step_shape *shape,
                             struct pz_plan *plan) {
  struct tie_search *ties = ctx;
  struct pz_plan_space *space = ties->pricing->space;
  ties->pricing->first_bound_s = -1; /* not known yet: the stored one is that of the last plan */
  pz_progress_add(space->question->progress, 0); /* lets the user cancel */
  pz_plan_space_check_stop(call, space);
  for (size_t i = 0; i < space->n_ways * space->n_overlaps; i++)
    if (pz_plan_apply_way(space, plan, i)) try_simpler_way(call, ties, shape, plan);
}

/* A grid with plans that may tie with the best, and the simplicity of its simplest plan. */
struct tie_grid {
  struct simplicity key;
  uint32_t grid;
};

/* Compares two grids for qsort(): by the simplicity of their degrees, then by index. */
static int by_simplicity(const void *a, const void *b) {
  const struct tie_grid *first = a, *second = b;
  int order = compare_simplicity(&first->key, &second->key, KEY_GRID_NUMBERS);
  return order ? order : (first->grid > second->grid) - (first->grid < second->grid);
}

/* Finds the simplest plan that ties with the best.  Grids, sets of plans with the same parallel
 * degrees and microbatch size, are visited from the simplest degrees on, and the visit ends where
 * the degrees alone are less simple than the simplest plan so far. */
static void find_simplest(struct pz_call *call, void *ctx) {
  struct pz_plan_pricing *pricing = ctx;
  struct pz_plan_space *space = pricing->space;
  const struct pz_plan_question *question = space->question;
  const struct pz_found_plan *best = &pricing->found.list[0];
  double best_value = pz_plan_value(space, &best->plan, best->p.step_s, best->p.needed_bytes);
  struct tie_search ties = {.pricing = pricing,
                            .limit_value = best_value * (1 + question->tie),
                            .simplest = plan_simplicity(space, &best->plan)};
  struct tie_grid *tie_grids = pz_alloc(call, space->grids.n, sizeof *tie_grids);
  uint32_t n_ties = 0;
  for (uint32_t i = 0; i < space->grids.n; i++) {
    const struct pz_plan_grid *grid = pz_grid_at(space, i);
    if (grid->bound > ties.limit_value) continue;
    struct pz_plan plan = pz_plan_grid_plan(space, grid);
    tie_grids[n_ties++] = (struct tie_grid){plan_simplicity(space, &plan), i};
  }
  qsort(tie_grids, n_ties, sizeof *tie_grids, by_simplicity);
  pz_plan_begin_progress(call, question, "simplest", "grids", n_ties);
  for (uint32_t i = 0; i < n_ties; i++) {
    if (compare_simplicity(&tie_grids[i].key, &ties.simplest, KEY_GRID_NUMBERS) > 0) break;
    pz_plan_grid_visit(call, space, pz_grid_at(space, tie_grids[i].grid), PZ_VISIT_ALL,
                       try_simpler_plan, &ties);
    pz_progress_add(question->progress, 1);
  }
}

/* ---- the best plans ------------------------------------------------------------------------- */

/* The loop that prices all grids. */
struct grid_loop {
  struct pz_plan_pricing *pricing;
  const struct pz_plan_grid *grid; /* the grid that is being priced */
};

/* Prices the grids of the space, sets of plans with the same parallel degrees and microbatch size,
 * lowest bound first: price_grids() has sorted them. */
static void price_sorted_grids(struct pz_call *call, void *ctx) {
  struct grid_loop *loop = ctx;
  struct pz_plan_space *space = loop->pricing->space;
  pz_plan_begin_progress(call, space->question, "plans", "grids", space->grids.n);
  for (uint32_t i = 0; i < space->grids.n; i++) {
    loop->grid = pz_grid_at(space, i);
    pz_plan_pricing_grid(call, loop->pricing, loop->grid);
    pz_progress_add(space->question->progress, 1);
  }
}

/* Runs a phase of the search.  Returns false if the user or the time limit stopped it, so that the
 * best plans so far are the answer.  Raises PZ_STOPPED if there are none. */
static bool run_phase(struct pz_call *call, struct pz_plan_pricing *pricing, pz_call_fn *phase,
                      void *ctx) {
  struct pz_error err = {0};
  enum pz_status status = pz_border(phase, ctx, &err);
  if (status == PZ_OK) return true;
  if (status != PZ_STOPPED || !pricing->found.n) pz_raise_again(call, &err);
  return false;
}

/* Prices all grids, lowest bound first.  If this is stopped, the gap of the certificate is that to
 * the bound of the current grid, because no plan of this grid or a later one is better.  If no plan
 * fits, prices the one that needs the least memory. */
static void price_grids(struct pz_call *call, struct pz_plan_pricing *pricing) {
  struct pz_plan_space *space = pricing->space;
  struct pz_found_plans *found = &pricing->found;
  struct grid_loop loop = {.pricing = pricing};
  qsort(space->grids.items, space->grids.n, sizeof(struct pz_plan_grid), pz_plan_grid_order);
  if (!run_phase(call, pricing, price_sorted_grids, &loop)) {
    const struct pz_found_plan *best = &found->list[0];
    double value = pz_plan_value(space, &best->plan, best->p.step_s, best->p.needed_bytes);
    found->stopped = true;
    found->certificate.gap = pz_fmax(0, 1 - loop.grid->bound / value);
  }
  if (!found->certificate.plans) pz_plan_space_refuse(call, space); /* the space is empty */
  if (found->n) found->has_least = false;
  if (found->has_least)
    found->least.p = pz_step_price(call, pricing->least_shape->model, &found->least.plan, NULL);
}

/* Appends to the found plans the best plan of each other kind (set of techniques, pz_plan_kind)
 * than the simplest plan, best first, if its step is at most KIND_STEP_FACTOR times the best. */
static void find_kinds(struct pz_call *call, void *ctx) {
  struct pz_plan_pricing *pricing = ctx;
  struct pz_plan_space *space = pricing->space;
  struct pz_found_plans *found = &pricing->found;
  struct pz_call results = pz_call_in(call, pricing->results);
  struct pz_found_plan *list = pz_alloc(&results, found->n + PZ_PLAN_KINDS, sizeof *list);
  double limit_s = KIND_STEP_FACTOR * found->list[0].p.step_s;
  if (pricing->cutoff_s > 0) limit_s = pz_fmin(pricing->cutoff_s, limit_s);
  memcpy(list, found->list, found->n * sizeof *list); /* a copy with room for the other kinds */
  found->list = list;
  for (int kind = 0; kind < PZ_PLAN_KINDS; kind++) {
    bool offloads = kind & PZ_OFFLOAD_KIND;
    if (kind == pz_plan_kind(&found->simplest.plan)) continue;
    if (offloads && !space->question->plan.offload) continue;
    /* search the best plan of this kind among the grids that may have it */
    struct pz_found_plan best;
    struct pz_plan_pricing of_kind = *pricing;
    of_kind.found = (struct pz_found_plans){.list = &best};
    of_kind.top = 1;
    of_kind.wanted_kind = kind;
    of_kind.cutoff_s = limit_s;
    for (uint32_t i = 0; i < space->grids.n; i++) {
      const struct pz_plan_grid *grid = pz_grid_at(space, i);
      struct pz_plan plan = pz_plan_grid_plan(space, grid);
      bool can_have_degrees = (pz_plan_kind(&plan) & PZ_GRID_KINDS) == (kind & PZ_GRID_KINDS);
      if (!can_have_degrees || !pz_plan_pricing_promises(&of_kind, grid)) continue;
      if (kind & PZ_ZERO_3_KIND) { /* the framework may lack ZeRO 3 for the degrees of the grid */
        plan.zero = 3;
        pz_plan_set_derived(space, &plan);
        if (!pz_rules_allow(&space->rules, PZ_RULE_SHARDS, &plan, &space->model, NULL)) continue;
      }
      pz_plan_pricing_grid(call, &of_kind, grid);
    }
    if (!of_kind.found.n) continue;
    /* insert it behind the plans of other kinds that are better */
    double value = pz_plan_value(space, &best.plan, best.p.step_s, best.p.needed_bytes);
    uint32_t at = found->n + found->n_kinds;
    for (; at > found->n; at--) {
      const struct pz_found_plan *previous = &list[at - 1];
      const struct pz_prediction *p = &previous->p;
      if (value >= pz_plan_value(space, &previous->plan, p->step_s, p->needed_bytes)) break;
      list[at] = *previous;
    }
    list[at] = best;
    found->n_kinds++;
  }
}

/* ---- the search ----------------------------------------------------------------------------- */

/* The arguments and the result of search_space(). */
struct space_search {
  const struct pz_plan_question *question;
  struct pz_arena *results;
  struct pz_found_plans *found;
};

/* Searches the whole space of a question: the best plans, the simplest one that ties with the best,
 * and the best plans of other kinds. */
static void search_space(struct pz_call *call, void *ctx) {
  struct space_search *search = ctx;
  const struct pz_plan_question *question = search->question;
  struct pz_call results = pz_call_in(call, search->results);
  struct pz_plan_space *space = pz_alloc(call, 1, sizeof *space);
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  check_question(call, question);
  pz_plan_space_init(space, question, call->arena);
  pz_defer(call, pz_plan_space_release, space);
  pz_plan_space_list(call, space);
  pz_plan_memory_init(call, &memory, space, false); /* without a cache for other chips */
  pz_plan_memory_set_chip(&memory, question->job.chip);
  pz_plan_pricing_init(&results, &pricing, space, &memory, search->results);
  struct pz_found_plans *found = &pricing.found;
  price_grids(call, &pricing);
  if (found->n) found->simplest = found->list[0];
  bool seeks_ties = question->tie > 0 && question->objective == PZ_PLAN_TIME;
  if (found->n && seeks_ties && !found->stopped)
    found->stopped = !run_phase(call, &pricing, find_simplest, &pricing);
  if (found->n && question->n_alternatives && !found->stopped) {
    /* If this is stopped, the best plans of some kinds (sets of techniques) are missing.  The
     * search still counts as finished, because price_grids() has proved which plan is the best. */
    (void)run_phase(call, &pricing, find_kinds, &pricing);
    found->n_kinds = (uint32_t)pz_min(found->n_kinds, question->n_alternatives);
  }
  found->experts = space->model.experts;
  pz_text_copy(found->warning, sizeof found->warning, space->warning);
  *search->found = *found;
}

/* Finds the best plans.  If none meets the deadline, finds the fastest ones. */
struct pz_found_plans *pz_find_plans(struct pz_call *call,
                                     const struct pz_plan_question *question) {
  struct pz_found_plans *found = pz_alloc(call, 1, sizeof *found);
  /* the border releases the working memory of the search, but not the results */
  struct space_search search = {question, call->arena, found};
  struct pz_error err = {0};
  enum pz_status status = pz_border(search_space, &search, &err);
  bool out_of_time =
      status == PZ_STOPPED && !question->ending && !pz_progress_stopped(question->progress);
  if (out_of_time)
    pz_raise(call, PZ_NO_ANSWER,
             "the time was over before a plan was found that fits; accepted: more seconds");
  if (status != PZ_OK) pz_raise_again(call, &err);
  if (found->n || !(question->deadline_s > 0)) return found;
  /* no plan meets the deadline: search the fastest plans that fit */
  struct pz_plan_question fastest = *question;
  fastest.deadline_s = 0;
  fastest.objective = PZ_PLAN_TIME;
  search.question = &fastest;
  if (pz_border(search_space, &search, &err) != PZ_OK) pz_raise_again(call, &err);
  found->late = found->n > 0;
  return found;
}
