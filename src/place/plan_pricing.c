/* Prices plans and keeps the best ones (plan_pricing.h).
 *
 * pz_plan_pricing_grid() visits the plans of a grid, price_plan() tries the ways of a plan, and
 * price_way() decides one way: it is excluded by the lower bound of its relaxation, by memory, or
 * by its own lower bound, or else it is simulated. is_before() orders plans.  It also compares a
 * plan with lower bounds of its step and bytes: if not even these come before the worst of the best
 * plans, the plan is excluded. */
#include "place/plan_pricing.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

/* ---- the best plans ------------------------------------------------------------------------- */

/* Returns whether plan a is better than plan b: by value, then by step, and then because it is
 * simpler to set up.  If `a` has lower bounds instead of a step and bytes, false means that the
 * plan itself is not better either. */
static bool is_before(const struct pz_plan_pricing *pricing, const struct pz_found_plan *a,
                      const struct pz_found_plan *b) {
  double a_value = pz_plan_value(pricing->space, &a->plan, a->p.step_s, a->p.needed_bytes);
  double b_value = pz_plan_value(pricing->space, &b->plan, b->p.step_s, b->p.needed_bytes);
  if (a_value != b_value) return a_value < b_value;
  if (a->p.step_s != b->p.step_s) return a->p.step_s < b->p.step_s;
  const struct pz_plan *p = &a->plan, *q = &b->plan;
  if (pz_plan_cp(p) != pz_plan_cp(q)) return pz_plan_cp(p) < pz_plan_cp(q);
  if (pz_plan_ep(p) != pz_plan_ep(q)) return pz_plan_ep(p) < pz_plan_ep(q);
  if (p->halves != q->halves) return p->halves < q->halves;
  if (p->vpp != q->vpp) return p->vpp < q->vpp;
  if (p->pp != q->pp) return p->pp < q->pp;
  if (p->tp != q->tp) return p->tp < q->tp;
  if (p->zero != q->zero) return p->zero < q->zero;
  bool p_recomputes = p->recompute != PZ_RECOMPUTATION_NONE;
  bool q_recomputes = q->recompute != PZ_RECOMPUTATION_NONE;
  return p_recomputes != q_recomputes ? q_recomputes : p->offload < q->offload;
}

/* Returns whether a plan with these lower bounds of its step and bytes could be among the best
 * plans (at most pricing->top) and shorter than the cutoff. */
static bool could_be_best(const struct pz_plan_pricing *pricing, const struct pz_plan *plan,
                          double bound_s, double bound_bytes) {
  if (pricing->cutoff_s > 0 && bound_s >= pricing->cutoff_s) return false;
  if (pricing->found.n < pricing->top) return true;
  struct pz_found_plan bound = {.plan = *plan,
                                .p = {.step_s = bound_s, .needed_bytes = bound_bytes}};
  return is_before(pricing, &bound, &pricing->found.list[pricing->found.n - 1]);
}

/* Returns a copy of a found plan whose recomputed layers are in the memory of the results. */
struct pz_found_plan pz_plan_pricing_copy(struct pz_call *call,
                                          const struct pz_plan_pricing *pricing,
                                          const struct pz_found_plan *found) {
  struct pz_call results = pz_call_in(call, pricing->results);
  struct pz_found_plan copy = *found;
  if (found->plan.stage_recompute)
    copy.plan.stage_recompute =
        pz_copy(&results, found->plan.stage_recompute, (size_t)found->plan.pp,
                sizeof *found->plan.stage_recompute);
  return copy;
}

/* Simulates a plan, and inserts it into the sorted list of the best plans if it is among them. */
void pz_plan_pricing_add(struct pz_call *call, struct pz_plan_pricing *pricing,
                         struct pz_step_shape *shape, const struct pz_plan *plan) {
  struct pz_found_plan found = {.plan = *plan};
  found.p = pz_step_price(call, shape->model, plan, NULL);
  pricing->found.certificate.solved++;
  if (!could_be_best(pricing, plan, found.p.step_s, found.p.needed_bytes)) return;
  found = pz_plan_pricing_copy(call, pricing, &found);
  uint32_t rank = pricing->found.n < pricing->top ? pricing->found.n++ : pricing->found.n - 1;
  for (; rank > 0 && is_before(pricing, &found, &pricing->found.list[rank - 1]); rank--)
    pricing->found.list[rank] = pricing->found.list[rank - 1];
  pricing->found.list[rank] = found;
}

/* ---- one plan ------------------------------------------------------------------------------- */

/* Returns the bytes above which a plan is not of interest: the usable bytes of the device, or as
 * long as no plan fits, the least that a plan needed, or for the objective "memory", those of the
 * worst of the best plans.  With a cache of results they are the same for every plan. */
static double cutoff_bytes(const struct pz_plan_pricing *pricing) {
  const struct pz_found_plans *found = &pricing->found;
  double hbm_bytes = pricing->memory->hbm_bytes;
  if (pricing->memory->caches) return hbm_bytes;
  if (!found->n && !found->has_least) return HUGE_VAL;
  if (!found->n) return pz_fmax(hbm_bytes, found->least.p.needed_bytes);
  bool by_memory =
      pricing->space->question->objective == PZ_PLAN_MEMORY && found->n == pricing->top;
  return by_memory ? found->list[found->n - 1].p.needed_bytes : hbm_bytes;
}

/* Returns a lower bound, in seconds, of the step of a relaxed plan (pz_plan_relaxed).  The bound of
 * the first relaxation of the current plan is stored, because most ways to save memory share it. */
double pz_plan_pricing_bound_s(struct pz_call *call, struct pz_plan_pricing *pricing,
                               struct pz_step_shape *shape, const struct pz_plan *relaxed) {
  const struct pz_plan *first = &pricing->first_relaxed;
  bool is_same_relaxation = pricing->first_bound_s >= 0 && first->recompute == relaxed->recompute &&
                            first->overlap == relaxed->overlap &&
                            first->offload == relaxed->offload &&
                            first->offload_fraction == relaxed->offload_fraction;
  if (is_same_relaxation) return pricing->first_bound_s;
  double bound_s = pz_step_bound(call, shape->model, relaxed);
  if (pricing->first_bound_s < 0) {
    pricing->first_relaxed = *relaxed;
    pricing->first_bound_s = bound_s;
  }
  return bound_s;
}

/* Returns whether the lower bound of the relaxation of a plan (pz_plan_relaxed) excludes it.  The
 * bound with all overlap, which is that of the first plan of each way, is compared first. */
static bool is_excluded_by_relaxation(struct pz_call *call, struct pz_plan_pricing *pricing,
                                      struct pz_step_shape *shape, const struct pz_plan *plan,
                                      bool full_overlap) {
  struct pz_plan relaxed = pz_plan_relaxed(plan);
  if (pricing->full_overlap_bound_s >= 0 &&
      !could_be_best(pricing, &relaxed, pricing->full_overlap_bound_s, 0))
    return true;
  double bound_s = pz_plan_pricing_bound_s(call, pricing, shape, &relaxed);
  if (full_overlap) pricing->full_overlap_bound_s = bound_s;
  return !could_be_best(pricing, &relaxed, bound_s, 0);
}

/* Prices a plan with one way to save memory.  It is excluded by the lower bound of its relaxation,
 * by memory, or by its own lower bound once its numbers of layers are chosen; otherwise it is
 * simulated.  As long as no plan fits, the plan that needs the least memory is kept. */
static void price_way(struct pz_call *call, struct pz_plan_pricing *pricing,
                      struct pz_step_shape *shape, struct pz_plan *plan, bool full_overlap) {
  struct pz_plan_certificate *certificate = &pricing->found.certificate;
  struct pz_plan_memory *memory = pricing->memory;
  const struct pz_plan_question *question = pricing->space->question;
  bool minimizes_memory = question->objective == PZ_PLAN_MEMORY;
  bool has_open_layers = /* the computation of memory chooses the number of layers */
      plan->recompute == PZ_RECOMPUTATION_FULL || pz_plan_offload_is_open(question, plan);
  bool has_rival = pricing->found.n == pricing->top || pricing->cutoff_s > 0;
  if (has_rival && !minimizes_memory &&
      is_excluded_by_relaxation(call, pricing, shape, plan, full_overlap)) {
    certificate->by_bound++;
    return;
  }
  memory->cutoff_bytes = cutoff_bytes(pricing);
  memory->seeks_least = !pricing->found.n && !memory->caches;
  double bytes = pz_plan_memory_bytes(call, memory, shape, plan);
  struct pz_found_plan *least = &pricing->found.least;
  bool is_least = bytes < HUGE_VAL && (!pricing->found.has_least || bytes < least->p.needed_bytes);
  if (bytes > memory->hbm_bytes && memory->seeks_least && is_least) {
    pricing->found.has_least = true;
    *least = (struct pz_found_plan){.plan = *plan, .p = {.needed_bytes = bytes}};
    pricing->least_shape = shape;
    if (plan->stage_recompute)
      least->plan.stage_recompute = memcpy(pricing->least_stages, plan->stage_recompute,
                                           (size_t)plan->pp * sizeof *pricing->least_stages);
  }
  if (bytes > pz_fmin(memory->hbm_bytes, cutoff_bytes(pricing))) {
    certificate->by_memory++;
    return;
  }
  /* the bound of other plans is that of their relaxation, which was compared above */
  if ((has_open_layers || minimizes_memory) && has_rival) {
    double bound_s = pz_step_bound(call, shape->model, plan);
    if (!could_be_best(pricing, plan, bound_s, bytes)) {
      certificate->by_bound++;
      return;
    }
  }
  pz_plan_pricing_add(call, pricing, shape, plan);
}

/* Prices a plan with all ways to save memory and all overlaps.  If it fits in the first way, which
 * saves no memory, the other ways are only slower and count as excluded by a bound. */
static void price_plan(struct pz_call *call, void *ctx, struct pz_step_shape *shape,
                       struct pz_plan *plan) {
  struct pz_plan_pricing *pricing = ctx;
  struct pz_plan_certificate *certificate = &pricing->found.certificate;
  const struct pz_plan_space *space = pricing->space;
  const struct pz_plan_question *question = space->question;
  uint64_t by_memory_before = certificate->by_memory;
  bool tries_all_ways = question->pinned & PZ_PLAN_PIN(RECOMPUTE) || space->way[0].activations ||
                        question->objective == PZ_PLAN_MEMORY;
  pricing->first_bound_s = -1; /* not known yet: the stored one is that of the last plan */
  pz_progress_add(question->progress, 0); /* lets the user cancel */
  pz_plan_space_check_stop(call, space);
  for (size_t i = 0; i < space->n_ways * space->n_overlaps; i++) {
    bool is_first_way = i < space->n_overlaps; /* overlaps of the same way are consecutive */
    bool full_overlap = i % space->n_overlaps == 0;
    if (full_overlap) pricing->full_overlap_bound_s = -1;
    if (!pz_plan_apply_way(space, plan, i)) continue;
    if (pricing->wanted_kind >= 0 && pz_plan_kind(plan) != pricing->wanted_kind) continue;
    certificate->plans++;
    bool first_fits = space->ways.allowed[0] && certificate->by_memory == by_memory_before;
    if (!is_first_way && first_fits && !tries_all_ways)
      certificate->by_bound++;
    else
      price_way(call, pricing, shape, plan, full_overlap);
  }
}

/* Returns whether a grid may have one of the best plans, as its lower bound shows. */
bool pz_plan_pricing_promises(const struct pz_plan_pricing *pricing,
                              const struct pz_plan_grid *grid) {
  struct pz_plan plan = pz_plan_grid_plan(pricing->space, grid);
  return could_be_best(pricing, &plan, grid->bound_s, 0);
}

/* Prices the plans of a grid, or only counts them if its lower bound excludes them all. */
void pz_plan_pricing_grid(struct pz_call *call, struct pz_plan_pricing *pricing,
                          const struct pz_plan_grid *grid) {
  if (pz_plan_pricing_promises(pricing, grid)) {
    pz_plan_grid_visit(call, pricing->space, grid, PZ_VISIT_ALL, price_plan, pricing);
    return;
  }
  pz_plan_space_check_stop(call, pricing->space);
  uint64_t plans = pz_plan_grid_visit(call, pricing->space, grid, PZ_VISIT_ALL, NULL, NULL);
  pricing->found.certificate.plans += plans;
  pricing->found.certificate.by_bound += plans;
}

/* Prepares the pricing of a space.  A deadline for all tokens becomes a limit of the step. */
void pz_plan_pricing_init(struct pz_call *call, struct pz_plan_pricing *pricing,
                          struct pz_plan_space *space, struct pz_plan_memory *memory,
                          struct pz_arena *results) {
  const struct pz_plan_question *question = space->question;
  *pricing = (struct pz_plan_pricing){
      .space = space, .memory = memory, .results = results, .wanted_kind = -1};
  pricing->top = question->top ? question->top : 1;
  if (question->deadline_s > 0) {
    double step_tokens = (double)(question->plan.batch * space->seq);
    pricing->cutoff_s = question->deadline_s / ceil(question->tokens / step_tokens);
  }
  pricing->least_stages =
      pz_alloc(call, (size_t)space->n_layers + 2, sizeof *pricing->least_stages);
  pricing->found.list = pz_alloc(call, pricing->top, sizeof *pricing->found.list);
}
