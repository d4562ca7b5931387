/* phaze tune: its settings and its output. */
#ifndef PZ_CLI_TUNE_OPTIONS_H
#define PZ_CLI_TUNE_OPTIONS_H

#include "cli/predict_options.h"

enum { PZ_TUNE_MOST_CHANGES = 8 };

struct pz_tune_settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, vocab, threads;
  double measured_s, seconds;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
};

/* A run that was read, and the answer. */
struct pz_tuned {
  const struct pz_tune_settings *s;
  const char *name; /* of the file, for messages */
  struct pz_run_plan *run;
  const struct pz_machine *machine;
  const struct pz_plan_tuning *t;
  double measured_s; /* 0: not measured */
};

/* Prints the notes on a run that was read and the arguments that were ignored, as warnings. */
void pz_tune_warn(bool quiet, const struct pz_run_plan *r);

/* Prints the answer as tables, or as JSON with more details. */
void pz_tune_print(struct pz_call *call, const struct pz_tuned *x);
void pz_tune_print_json(struct pz_call *call, const struct pz_tuned *x);

#endif
