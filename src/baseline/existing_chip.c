/* Baselines that use an existing chip: with plans of human experts (expert_plan.h), or with the
 * best plans. */
#include "baseline/baseline.h"

/* Evaluates the built-in chip of the baseline, as it is known from its data sheet alone. */
struct pz_baseline_answer pz_baseline_existing_chip(struct pz_call *call,
                                                    const struct pz_baseline *baseline,
                                                    const struct pz_baseline_question *question) {
  struct pz_chip chip;
  pz_chip_read(call, baseline->chip, &chip);
  pz_chip_remove_measurements(&chip);
  return baseline->expert ? pz_baseline_expert(call, question, &chip)
                          : pz_baseline_place(call, question, &chip, NULL);
}
