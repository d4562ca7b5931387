/* phaze predict: its settings, and the parts of the command that stand in files of their own. */
#ifndef PZ_CLI_PREDICT_OPTIONS_H
#define PZ_CLI_PREDICT_OPTIONS_H

#include "cli/machine_options.h"

struct pz_predict_settings {
  struct pz_common common;
  struct pz_machine_options machine;
  struct pz_training_options plan; /* tp, pp, vpp, mbs 0: not given */
  bool sp, no_sp, explain;
  const char *overlap, *runs, *csv, *trace;
  int64_t threads;
};

/* A prediction and what it is of. */
struct pz_predicted {
  const struct pz_predict_settings *s;
  const char *model;
  struct pz_machine machine;
  struct pz_training_options asked; /* before it was filled in */
  struct pz_training_run *run;
};

/* The prediction as tables. */
PZ_NODISCARD enum pz_status pz_predict_print(const struct pz_predicted *x, struct pz_error *err);

/* Where every field of the plan comes from, and the constants that count. */
PZ_NODISCARD enum pz_status pz_predict_explain(const struct pz_predicted *x, struct pz_error *err);

/* Every run of a table. */
PZ_NODISCARD enum pz_status pz_predict_runs(const struct pz_predict_settings *s,
                                            struct pz_error *err);

#endif
