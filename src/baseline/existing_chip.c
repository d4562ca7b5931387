/* Baselines that use an existing chip: with the experts' plans, or with the best plans. */
#include "baseline/baseline.h"

/* Evaluates the built-in chip of this name with the experts' plans, or if `expert` is false, with the
 * best plans. */
static struct pz_baseline_answer evaluate_chip(struct pz_call *call,
                                               const struct pz_baseline_question *question,
                                               const char *name, bool expert) {
  struct pz_chip chip;
  pz_chip_read(call, name, &chip);
  pz_chip_remove_measurements(&chip);
  return expert ? pz_baseline_expert(call, question, &chip)
                : pz_baseline_place(call, question, &chip);
}

struct pz_baseline_answer pz_baseline_tpuv4_expert(struct pz_call *call,
                                                   const struct pz_baseline_question *question) {
  return evaluate_chip(call, question, "tpuv4", true);
}

struct pz_baseline_answer
pz_baseline_tpuv4_real_expert(struct pz_call *call, const struct pz_baseline_question *question) {
  return evaluate_chip(call, question, "tpuv4-real", true);
}

struct pz_baseline_answer pz_baseline_tpuv4_placed(struct pz_call *call,
                                                   const struct pz_baseline_question *question) {
  return evaluate_chip(call, question, "tpuv4", false);
}

struct pz_baseline_answer
pz_baseline_tpuv4_real_placed(struct pz_call *call, const struct pz_baseline_question *question) {
  return evaluate_chip(call, question, "tpuv4-real", false);
}
