#include "study/training_answer.h"

#include <string.h>

#include "chip/chip.h"
#include "step/step_energy.h"

/* A search limits the watts of the bill, which counts arrays at full rate and little traffic beside them; a step whose
 * operators move more takes more, and the chip then lowers its clock (step/step_energy.h). */
static enum pz_status find_power(const struct pz_training_question *q, const struct pz_chip *chip,
                                 uint32_t model, const struct pz_found_plan *found,
                                 struct pz_training_answer *out, struct pz_error *err) {
  struct pz_cluster net = pz_training_cluster(q, chip);
  struct pz_plan_question one;
  struct pz_throttled_step step;
  if (pz_tech_is_library(pz_tech_at(chip->tech))) return PZ_OK; /* no bill of HBM and links */
  enum pz_status status = pz_training_plan_question(q, model, &one, err);
  one.job.chip = chip;
  one.job.net = &net;
  if (status == PZ_OK)
    status = pz_step_throttle(&one.job, &found->plan, &found->p, out->limit_watts, &step, err);
  if (status != PZ_OK) return status;
  out->full_watts = step.full_watts;
  out->clock_hz = step.clock_hz;
  out->within_s = step.p.step_s;
  return PZ_OK;
}

enum pz_status pz_training_answer_make(struct pz_evaluator *e, const struct pz_chip *chip,
                                       uint32_t model, double limit_watts, struct pz_arena *arena,
                                       struct pz_training_answer *out, struct pz_error *err) {
  const struct pz_training_question *q = pz_training_asked(e);
  struct pz_found_plan found;
  double dynamic_j = 0;
  bool fits = false;
  enum pz_status status = pz_training_plan(e, 0, chip, model, &found, &dynamic_j, &fits, err);
  if (status != PZ_OK) return status;
  if (!fits)
    return pz_fail(err, PZ_BAD_INPUT, "no plan of %s fits on %s", q->models[model], chip->name);
  *out = (struct pz_training_answer){
      .plan = found.plan,
      .step_s = found.p.step_s,
      .mfu = found.p.mfu,
      .mfu_conventional = found.p.mfu_conventional,
      .joules = (double)q->devices * pz_chip_taken(chip).static_watts * found.p.step_s + dynamic_j,
      .peak_bytes = found.p.peak_bytes,
      .usable_bytes = found.p.usable_bytes,
      .parts = found.p.parts,
      .limit_watts = limit_watts};
  if (found.plan.stage_recompute) {
    int64_t *copy = pz_arena_alloc(arena, (size_t)found.plan.pp, sizeof *copy);
    if (!copy) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, found.plan.stage_recompute, (size_t)found.plan.pp * sizeof *copy);
    out->plan.stage_recompute = copy;
  }
  return find_power(q, chip, model, &found, out, err);
}
