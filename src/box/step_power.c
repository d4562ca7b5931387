#include "box/step_power.h"

#include <math.h>

#include "core/num.h"
#include "step/step_energy.h"

static enum pz_status model_power(const struct pz_judge_question *q, const struct pz_chip *chip,
                                  const struct pz_cluster *net, const struct pz_found_plan *plan,
                                  uint32_t i, struct pz_step_power *out, struct pz_error *err) {
  struct pz_plan_question one;
  struct pz_throttled_step step;
  enum pz_status status = pz_judge_plan_question(q, i, &one, err);
  if (status != PZ_OK) return status;
  one.job.chip = chip;
  one.job.net = net;
  status = pz_step_throttle(&one.job, &plan->plan, &plan->p, out->limit_watts, &step, err);
  if (status != PZ_OK) return status;
  out->full_watts[i] = step.full_watts;
  out->clock_hz[i] = step.clock_hz;
  out->step_s[i] = step.p.step_s;
  return PZ_OK;
}

enum pz_status pz_step_power(const struct pz_judge_question *q, const struct pz_chip *chip,
                             const struct pz_found_plan *plans, double limit_watts,
                             struct pz_step_power *out, struct pz_error *err) {
  struct pz_cluster net = pz_judge_cluster(q, chip);
  struct pz_step_power x = {.known = !pz_tech_is_library(pz_tech_at(chip->tech)),
                            .limit_watts = limit_watts};
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < q->n_models && x.known && status == PZ_OK; i++)
    status = model_power(q, chip, &net, &plans[i], i, &x, err);
  return *out = x, status;
}

double pz_step_power_ratio(const struct pz_judge_question *q, const struct pz_step_power *x,
                           const struct pz_step_power *to) {
  double sum = 0;
  for (uint32_t i = 0; i < q->n_models; i++) sum += log(to->step_s[i] / x->step_s[i]);
  return exp(sum / q->n_models);
}

double pz_step_power_most_watts(const struct pz_judge_question *q, const struct pz_step_power *x) {
  double most = 0;
  for (uint32_t i = 0; i < q->n_models; i++) most = pz_fmax(most, x->full_watts[i]);
  return most;
}

double pz_step_power_least_clock(const struct pz_judge_question *q, const struct pz_step_power *x) {
  double least = HUGE_VAL;
  for (uint32_t i = 0; i < q->n_models; i++) least = pz_fmin(least, x->clock_hz[i]);
  return least;
}
