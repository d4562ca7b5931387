/* Baselines that use an existing chip: with the experts' plans, or with the best plans. */
#include "baseline/baseline.h"
#include "chip/chip.h"

/* Evaluates the experts' plans on the built-in chip of this name. */
static struct pz_baseline_answer
expert_on(struct pz_call *call, const struct pz_baseline_question *question, const char *name) {
  struct pz_chip chip;
  pz_chip_read(call, name, &chip);
  pz_chip_remove_measurements(&chip);
  return pz_baseline_expert(call, question, &chip);
}

/* Finds the best plans for the built-in chip of this name. */
static struct pz_baseline_answer
place_on(struct pz_call *call, const struct pz_baseline_question *question, const char *name) {
  struct pz_chip chip;
  pz_chip_read(call, name, &chip);
  pz_chip_remove_measurements(&chip);
  return pz_baseline_place(call, question, &chip);
}

struct pz_baseline_answer pz_baseline_tpuv4_expert(struct pz_call *call,
                                                   const struct pz_baseline_question *question) {
  return expert_on(call, question, "tpuv4");
}

struct pz_baseline_answer
pz_baseline_tpuv4_real_expert(struct pz_call *call, const struct pz_baseline_question *question) {
  return expert_on(call, question, "tpuv4-real");
}

struct pz_baseline_answer pz_baseline_tpuv4_placed(struct pz_call *call,
                                                   const struct pz_baseline_question *question) {
  return place_on(call, question, "tpuv4");
}

struct pz_baseline_answer
pz_baseline_tpuv4_real_placed(struct pz_call *call, const struct pz_baseline_question *question) {
  return place_on(call, question, "tpuv4-real");
}
