/* The best plan of a model on a chip, with its energy: static power of all devices over the step, and the dynamic energy
 * of its operations.  Chips of a library without static power and links have no power at full load. */
#include "study/training_answer.h"

#include "chip/chip.h"

struct pz_training_answer pz_training_answer(struct pz_call *call, struct pz_evaluator *e,
                                             const struct pz_chip *chip, uint32_t model,
                                             double limit_watts) {
  const struct pz_training_question *q = pz_training_asked(e);
  struct pz_found_plan found;
  double dynamic_j = 0, static_watts = pz_chip_taken(chip).static_watts;
  bool fits = false;
  pz_must(call,
          pz_training_plan(e, 0, chip, model, &found, &dynamic_j, &fits, pz_call_error(call)));
  if (!fits) pz_raise(call, PZ_BAD_INPUT, "no plan of %s fits on %s", q->models[model], chip->name);
  double joules = (double)q->devices * static_watts * found.p.step_s + dynamic_j;
  bool library = pz_tech_is_library(pz_tech_at(chip->tech));
  struct pz_training_answer answer = {
      .plan = found.plan,
      .step_s = found.p.step_s,
      .mfu = found.p.mfu,
      .mfu_conventional = found.p.mfu_conventional,
      .joules = joules,
      .full_watts = library ? 0 : joules / ((double)q->devices * found.p.step_s),
      .peak_bytes = found.p.peak_bytes,
      .usable_bytes = found.p.usable_bytes,
      .parts = found.p.parts,
      .limit_watts = limit_watts};
  if (found.plan.stage_recompute) /* belongs to the evaluator, until its next call */
    answer.plan.stage_recompute = pz_copy(call, found.plan.stage_recompute, (size_t)found.plan.pp,
                                          sizeof *found.plan.stage_recompute);
  return answer;
}
