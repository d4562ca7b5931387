#include "place/plan_question.h"

const char *const pz_plan_objective_names[] = {"time", "memory", "cost", NULL};

struct pz_plan_question pz_plan_question_default(void) {
  return (struct pz_plan_question){.tp = PZ_FREE,
                                   .cp = PZ_FREE,
                                   .ep = PZ_FREE,
                                   .sp = PZ_FREE,
                                   .pp = PZ_FREE,
                                   .vpp = PZ_FREE,
                                   .dp = PZ_FREE,
                                   .mbs = PZ_FREE,
                                   .zero = PZ_FREE,
                                   .recompute = PZ_FREE,
                                   .top = 1};
}

enum pz_status pz_plan_question_check(const struct pz_plan_question *q, struct pz_error *err) {
  if (q->devices < 1 || q->devices > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "%lld devices; accepted: 1 to 2^24", (long long)q->devices);
  if (q->batch < 1 || q->batch > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "a batch of %lld; accepted: 1 to 2^24", (long long)q->batch);
  if (q->common.shard < 0 || q->common.shard > q->devices)
    return pz_fail(err, PZ_BAD_USE, "sharding over %lld replicas; accepted: 0 (all) to %lld",
                   (long long)q->common.shard, (long long)q->devices);
  if (q->cp < PZ_FREE || q->cp > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "cp %lld; accepted: 1 to 2^24", (long long)q->cp);
  if (q->ep < PZ_FREE || q->ep > 1 << 16)
    return pz_fail(err, PZ_BAD_USE, "ep %lld; accepted: 1 to 2^16", (long long)q->ep);
  if (q->top > 1000)
    return pz_fail(err, PZ_BAD_USE, "%u best plans; accepted: at most 1000", q->top);
  return PZ_OK;
}

double pz_plan_value(const struct pz_plan_question *q, const struct pz_training_plan *p,
                     double step_s, double peak_bytes) {
  switch (q->objective) {
  case PZ_PLAN_MEMORY: return peak_bytes;
  case PZ_PLAN_COST: return step_s * (double)pz_plan_devices(p);
  default: return step_s;
  }
}
