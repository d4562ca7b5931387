/* 'phaze compare --chips': built chips and searched ones beside each other, under the same models and the same bill. */
#ifndef PZ_CLI_COMPARE_CHIPS_H
#define PZ_CLI_COMPARE_CHIPS_H

#include "cli/command.h"
#include "study/chip_comparison.h"

struct pz_chips_call {
  const struct pz_common *common;
  const char *chips; /* comma-separated */
  char **models;
  int n_models;
  struct pz_comparison_question q; /* without models */
};

PZ_NODISCARD enum pz_status pz_compare_chips(struct pz_chips_call *call, struct pz_error *err);

#endif
