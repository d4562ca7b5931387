#include "core/text.h"
#include "place/plan_pricing.h"
#include "plan/plan_fill.h"

const char *const pz_plan_objective_names[] = {"time", "memory", "cost", NULL};

/* ---- the question --------------------------------------------------------------------------- */

enum pz_status pz_plan_question_of(const struct pz_job *job, const struct pz_plan *plan,
                                   uint64_t pinned, struct pz_plan_question *out,
                                   struct pz_error *err) {
  struct pz_plan_question q = {.job = *job, .plan = *plan, .pinned = pinned, .top = 1};
  /* the framework's defaults are those of one device: degrees are for the search */
  struct pz_plan one = *plan;
  one.devices = one.batch = one.mbs = one.dp = 1;
  one.tp = one.cp = one.ep = one.etp = one.pp = one.vpp = one.shard = 0;
  one.first_layers = one.last_layers = one.recompute_layers = one.recompute_modules = 0;
  one.pipeline = one.recompute = one.zero = one.sp = -1;
  one.stage_recompute = NULL;
  enum pz_status status = pz_plan_fill(&one, job->chip, err);
  if (status != PZ_OK) return status;
  const struct pz_framework *f = pz_plan_framework(&one);
  q.plan.framework = one.framework;
  q.plan.cp_form = one.cp_form;
  q.plan.imbalance = one.imbalance;
  q.plan.attention = one.attention;
  q.plan.attention_library = one.attention_library;
  q.plan.execution = one.execution;
  q.plan.precision = one.precision;
  q.plan.grad_bytes = one.grad_bytes;
  if (plan->overlap < 0) q.plan.overlap = f->plan.overlap | f->turns_on;
  if (!(pinned & PZ_PLAN_PIN(RECOMPUTE)) || plan->recompute != PZ_RECOMPUTATION_SELECTIVE)
    q.plan.recompute_modules = 0;
  return *out = q, PZ_OK;
}

static enum pz_status check_question(const struct pz_plan_question *q, struct pz_error *err) {
  const struct pz_plan *p = &q->plan;
  enum pz_status status = pz_need_range("devices", p->devices, 1, 1 << 24, err);
  if (status == PZ_OK) status = pz_need_range("batch", p->batch, 1, 1 << 24, err);
  if (status == PZ_OK) status = pz_need_range("top", q->top, 0, 1000, err);
  if (status == PZ_OK && (p->shard < 0 || p->shard > p->devices))
    status = pz_fail(err, PZ_BAD_USE, "sharding over %lld replicas; accepted: 0 (all) to %lld",
                     (long long)p->shard, (long long)p->devices);
  if (status == PZ_OK && !(q->tie >= 0 && q->tie <= 1))
    status = pz_fail(err, PZ_BAD_USE, "tie %g; accepted: 0 to 1", q->tie);
  return status;
}

double pz_plan_value(const struct pz_plan_question *q, const struct pz_plan *p, double step_s,
                     double peak_bytes) {
  switch (q->objective) {
  case PZ_PLAN_MEMORY: return peak_bytes;
  case PZ_PLAN_COST: return step_s * (double)pz_plan_devices(p);
  default: return step_s;
  }
}

/* ---- the search ----------------------------------------------------------------------------- */

static enum pz_status price_grids(struct pz_plan_pricing *s) {
  struct pz_plan_space *space = s->space;
  enum pz_status status = PZ_OK;
  pz_plan_grids_sort(&space->grids);
  for (uint32_t i = 0; i < space->grids.n && status == PZ_OK; i++) {
    const struct pz_plan_grid *g = pz_vec_at(&space->grids, struct pz_plan_grid, i);
    status =
        pz_plan_pricing_promises(s, g) ? pz_plan_pricing_grid(s, g) : pz_plan_pricing_exclude(s, g);
  }
  if (status == PZ_OK && !s->found.certificate.plans) return pz_plan_space_empty(space);
  return status == PZ_OK ? pz_plan_pricing_least(s) : status;
}

enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                              struct pz_found_plans *out, struct pz_error *err) {
  struct pz_arena work;
  struct pz_plan_space space;
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  enum pz_status status = check_question(q, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&work, NULL);
  pz_plan_space_init(&space, q, &work);
  pz_plan_memory_init(&memory, &space, false);
  pz_plan_memory_set_chip(&memory, q->job.chip);
  status = pz_plan_space_list(&space, err);
  if (status == PZ_OK) status = pz_plan_memory_begin(&memory, &work);
  if (status == PZ_OK) status = pz_plan_pricing_begin(&pricing, &space, &memory, arena);
  if (status == PZ_OK) status = price_grids(&pricing);
  if (status == PZ_OK && pricing.found.n) status = pz_plan_pricing_ties(&pricing);
  if (status == PZ_OK) {
    pricing.found.experts = space.model.experts;
    pz_text_copy(pricing.found.warning, sizeof pricing.found.warning, space.warning);
    *out = pricing.found;
  }
  pz_plan_memory_release(&memory);
  pz_plan_space_release(&space);
  pz_arena_release(&work);
  return status;
}
