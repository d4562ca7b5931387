/* Baseline: an existing chip with the expert plans. */
#include "baseline/baseline.h"

#include "chip/chip.h"

static enum pz_status on(const char *name, const struct pz_baseline_question *q,
                         struct pz_baseline_answer *out, struct pz_error *err) {
  struct pz_chip chip;
  enum pz_status status = pz_chip_load_described(name, &chip, err);
  return status == PZ_OK ? pz_baseline_expert(q, &chip, out, err) : status;
}

enum pz_status pz_baseline_tpuv4_expert(const struct pz_baseline_question *q,
                                        struct pz_baseline_answer *out, struct pz_error *err) {
  return on("tpuv4", q, out, err);
}

enum pz_status pz_baseline_tpuv4_real_expert(const struct pz_baseline_question *q,
                                             struct pz_baseline_answer *out, struct pz_error *err) {
  return on("tpuv4-real", q, out, err);
}
