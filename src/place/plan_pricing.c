/* Prices plans and keeps the best (plan_pricing.h).
 *
 * pz_plan_pricing_grid() visits the plans of a grid, price_plan() goes through the ways of a plan, and price_way()
 * decides one way: by the bound of its relaxation, by memory, by its own bound, or by simulation.  is_before() is the
 * order of plans; it also compares bounds, so that a plan whose bounds do not come before the worst of the best plans can
 * be excluded. */
#include "place/plan_pricing.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

/* ---- the best plans ------------------------------------------------------------------------- */

/* Of two plans with the same value, the one with less to set up comes first. */
static bool is_simpler(const struct pz_plan *a, const struct pz_plan *b) {
  if (pz_plan_cp(a) != pz_plan_cp(b)) return pz_plan_cp(a) < pz_plan_cp(b);
  if (pz_plan_ep(a) != pz_plan_ep(b)) return pz_plan_ep(a) < pz_plan_ep(b);
  if (a->halves != b->halves) return a->halves < b->halves;
  if (a->vpp != b->vpp) return a->vpp < b->vpp;
  if (a->pp != b->pp) return a->pp < b->pp;
  if (a->tp != b->tp) return a->tp < b->tp;
  if (a->zero != b->zero) return a->zero < b->zero;
  bool a_recomputes = a->recompute != PZ_RECOMPUTATION_NONE;
  bool b_recomputes = b->recompute != PZ_RECOMPUTATION_NONE;
  if (a_recomputes != b_recomputes) return b_recomputes;
  return a->offload < b->offload;
}

/* Whether plan a is better than plan b.  The order is monotone in step and bytes: a plan that comes before another one
 * also does so with lower bounds in their place. */
static bool is_before(const struct pz_plan_pricing *s, const struct pz_found_plan *a,
                      const struct pz_found_plan *b) {
  double x = pz_plan_value(s->space, &a->plan, a->p.step_s, a->p.needed_bytes);
  double y = pz_plan_value(s->space, &b->plan, b->p.step_s, b->p.needed_bytes);
  if (x != y) return x < y;
  if (a->p.step_s != b->p.step_s) return a->p.step_s < b->p.step_s;
  return is_simpler(&a->plan, &b->plan);
}

/* Whether a plan with these bounds of its step and its bytes could be among the best. */
static bool could_be_best(const struct pz_plan_pricing *s, const struct pz_plan *p, double bound_s,
                          double bytes) {
  if (s->cutoff_s > 0 && bound_s >= s->cutoff_s) return false;
  if (s->found.n < s->top) return true;
  struct pz_found_plan one = {.plan = *p, .p = {.step_s = bound_s, .needed_bytes = bytes}};
  return is_before(s, &one, &s->found.list[s->found.n - 1]);
}

struct pz_found_plan pz_plan_pricing_copy(struct pz_call *call, const struct pz_plan_pricing *s,
                                          const struct pz_found_plan *one) {
  struct pz_call results = pz_call_in(call, s->results);
  struct pz_found_plan copy = *one;
  if (one->plan.stage_recompute)
    copy.plan.stage_recompute = pz_copy(&results, one->plan.stage_recompute, (size_t)one->plan.pp,
                                        sizeof *one->plan.stage_recompute);
  return copy;
}

void pz_plan_pricing_add(struct pz_call *call, struct pz_plan_pricing *s, struct pz_step_shape *x,
                         const struct pz_plan *p) {
  struct pz_found_plan one = {.plan = *p};
  one.p = pz_step_price(call, x->model, p, NULL);
  s->found.certificate.solved++;
  if (!could_be_best(s, p, one.p.step_s, one.p.needed_bytes)) return;
  one = pz_plan_pricing_copy(call, s, &one);
  uint32_t at = s->found.n < s->top ? s->found.n++ : s->found.n - 1;
  for (; at > 0 && is_before(s, &one, &s->found.list[at - 1]); at--)
    s->found.list[at] = s->found.list[at - 1];
  s->found.list[at] = one;
}

/* ---- one plan ------------------------------------------------------------------------------- */

/* The bytes above which a plan is not of interest: those of the device; as long as no plan fits, those of the plan that
 * needs least; for the objective "memory" those of the worst of the best plans. */
static double cutoff_bytes(const struct pz_plan_pricing *s) {
  const struct pz_found_plans *f = &s->found;
  double hbm_bytes = s->memory->hbm_bytes;
  if (s->memory->caches) return hbm_bytes;
  if (!f->n) return f->has_least ? pz_fmax(hbm_bytes, f->least.p.needed_bytes) : HUGE_VAL;
  bool by_memory = s->space->q->objective == PZ_PLAN_MEMORY && f->n == s->top;
  return by_memory ? f->list[f->n - 1].p.needed_bytes : hbm_bytes;
}

/* As long as no plan fits, remembers the plan that needs the least memory. */
static void note_least(struct pz_plan_pricing *s, struct pz_step_shape *x, const struct pz_plan *p,
                       double bytes) {
  if (s->memory->caches || s->found.n || bytes == HUGE_VAL) return;
  if (s->found.has_least && bytes >= s->found.least.p.needed_bytes) return;
  s->found.has_least = true;
  s->found.least = (struct pz_found_plan){.plan = *p, .p = {.needed_bytes = bytes}};
  s->least_shape = x;
  if (!p->stage_recompute) return;
  memcpy(s->least_stages, p->stage_recompute, (size_t)p->pp * sizeof *s->least_stages);
  s->found.least.plan.stage_recompute = s->least_stages;
}

double pz_plan_pricing_bound_s(struct pz_call *call, struct pz_plan_pricing *s,
                               struct pz_step_shape *x, const struct pz_plan *relaxed) {
  const struct pz_plan *first = &s->first_relaxed;
  bool same = s->first_bound_s >= 0 && first->recompute == relaxed->recompute &&
              first->overlap == relaxed->overlap && first->offload == relaxed->offload &&
              first->offload_fraction == relaxed->offload_fraction;
  if (same) return s->first_bound_s;
  double bound_s = pz_step_bound(call, x->model, relaxed);
  if (s->first_bound_s < 0) {
    s->first_relaxed = *relaxed;
    s->first_bound_s = bound_s;
  }
  return bound_s;
}

/* Prices a plan in one way.  It is excluded by the bound of its relaxation, by its memory, or by the bound with the
 * recomputation and offload that memory requires; otherwise it is simulated. */
static void price_way(struct pz_call *call, struct pz_plan_pricing *s, struct pz_step_shape *x,
                      struct pz_plan *p, bool full_overlap) {
  struct pz_plan_certificate *certificate = &s->found.certificate;
  const struct pz_plan_question *q = s->space->q;
  bool by_memory = q->objective == PZ_PLAN_MEMORY;
  bool memory_chooses = p->recompute == PZ_RECOMPUTATION_FULL || pz_plan_offload_is_open(q, p);
  bool has_rival = s->found.n == s->top || s->cutoff_s > 0;
  if (!by_memory && has_rival) {
    struct pz_plan relaxed = pz_plan_relaxed(p);
    bool excluded =
        s->full_overlap_bound_s >= 0 && !could_be_best(s, &relaxed, s->full_overlap_bound_s, 0);
    if (!excluded) {
      double bound_s = pz_plan_pricing_bound_s(call, s, x, &relaxed);
      if (full_overlap) s->full_overlap_bound_s = bound_s;
      excluded = !could_be_best(s, &relaxed, bound_s, 0);
    }
    if (excluded) {
      certificate->by_bound++;
      return;
    }
  }
  s->memory->cutoff_bytes = cutoff_bytes(s);
  s->memory->seeks_least = !s->found.n && !s->memory->caches;
  double bytes = pz_plan_memory_bytes(call, s->memory, x, p);
  if (bytes > s->memory->hbm_bytes) note_least(s, x, p, bytes);
  if (bytes > pz_fmin(s->memory->hbm_bytes, cutoff_bytes(s))) {
    certificate->by_memory++;
    return;
  }
  if ((memory_chooses || by_memory) && has_rival) {
    double bound_s = pz_step_bound(call, x->model, p);
    if (!could_be_best(s, p, bound_s, bytes)) {
      certificate->by_bound++;
      return;
    }
  }
  pz_plan_pricing_add(call, s, x, p);
}

/* Prices a plan in all its ways.  If it fits in the first way, which recomputes and offloads nothing, the others are only
 * slower. */
static void price_plan(struct pz_call *call, void *ctx, struct pz_step_shape *x,
                       struct pz_plan *p) {
  struct pz_plan_pricing *s = ctx;
  struct pz_plan_certificate *certificate = &s->found.certificate;
  const struct pz_plan_question *q = s->space->q;
  uint64_t by_memory_before = certificate->by_memory;
  bool saves_anyway = q->pinned & PZ_PLAN_PIN(RECOMPUTE) || s->space->way[0].activations ||
                      q->objective == PZ_PLAN_MEMORY;
  s->first_bound_s = -1;
  pz_progress_add(q->progress, 0);
  pz_plan_space_check_stop(call, s->space);
  for (size_t i = 0; i < pz_plan_space_ways(s->space); i++) {
    bool first = i < s->space->n_overlaps, full_overlap = i % s->space->n_overlaps == 0;
    if (full_overlap) s->full_overlap_bound_s = -1;
    if (!pz_plan_apply_way(s->space, p, i)) continue;
    if (s->wanted_kind >= 0 && pz_plan_kind(p) != s->wanted_kind) continue;
    certificate->plans++;
    bool first_fits = s->space->ways.allowed[0] && certificate->by_memory == by_memory_before;
    if (!first && first_fits && !saves_anyway)
      certificate->by_bound++;
    else
      price_way(call, s, x, p, full_overlap);
  }
}

/* ---- grids ---------------------------------------------------------------------------------- */

bool pz_plan_pricing_promises(const struct pz_plan_pricing *s, const struct pz_plan_grid *g) {
  struct pz_plan p = pz_plan_grid_plan(s->space, g);
  return could_be_best(s, &p, g->bound_s, 0);
}

void pz_plan_pricing_grid(struct pz_call *call, struct pz_plan_pricing *s,
                          const struct pz_plan_grid *g) {
  if (pz_plan_pricing_promises(s, g)) {
    pz_plan_grid_visit(call, s->space, g, false, price_plan, s);
    return;
  }
  pz_plan_space_check_stop(call, s->space);
  uint64_t plans = pz_plan_grid_count(call, s->space, g);
  s->found.certificate.plans += plans;
  s->found.certificate.by_bound += plans;
}

void pz_plan_pricing_init(struct pz_call *call, struct pz_plan_pricing *s,
                          struct pz_plan_space *space, struct pz_plan_memory *memory,
                          struct pz_arena *results) {
  const struct pz_plan_question *q = space->q;
  *s = (struct pz_plan_pricing){
      .space = space, .memory = memory, .results = results, .wanted_kind = -1};
  s->top = q->top ? q->top : 1;
  if (q->deadline_s > 0) {
    double step_tokens = (double)(q->plan.batch * space->seq);
    s->cutoff_s = q->deadline_s / ceil(q->tokens / step_tokens);
  }
  s->least_stages = pz_alloc(call, (size_t)space->n_blocks + 2, sizeof *s->least_stages);
  s->found.list = pz_alloc(call, s->top, sizeof *s->found.list);
}
