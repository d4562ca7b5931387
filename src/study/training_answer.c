#include "study/training_answer.h"

#include <string.h>

#include "chip/chip.h"

enum pz_status pz_training_answer_make(struct pz_evaluator *e, const struct pz_chip *chip,
                                       uint32_t model, double limit_watts, struct pz_arena *arena,
                                       struct pz_training_answer *out, struct pz_error *err) {
  const struct pz_training_question *q = pz_training_asked(e);
  struct pz_found_plan found;
  double dynamic_j = 0, static_watts = pz_chip_taken(chip).static_watts;
  bool fits = false;
  enum pz_status status = pz_training_plan(e, 0, chip, model, &found, &dynamic_j, &fits, err);
  if (status != PZ_OK) return status;
  if (!fits)
    return pz_fail(err, PZ_BAD_INPUT, "no plan of %s fits on %s", q->models[model], chip->name);
  double joules = (double)q->devices * static_watts * found.p.step_s + dynamic_j;
  bool library = pz_tech_is_library(pz_tech_at(chip->tech)); /* without static power and links */
  *out = (struct pz_training_answer){
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
  if (found.plan.stage_recompute) {
    int64_t *copy = pz_arena_alloc(arena, (size_t)found.plan.pp, sizeof *copy);
    if (!copy) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, found.plan.stage_recompute, (size_t)found.plan.pp * sizeof *copy);
    out->plan.stage_recompute = copy;
  }
  return PZ_OK;
}
