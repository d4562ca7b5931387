/* phaze tune: its settings, and what it prints. */
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

/* A run that was read, and what was found. */
struct pz_tuned {
  const struct pz_tune_settings *s;
  const char *name; /* of the file */
  struct pz_run_plan *run;
  struct pz_machine machine;
  struct pz_plan_tuning *t;
  double measured_s; /* 0: not measured */
};

/* What was read and does not count, as warnings. */
void pz_tune_warn(bool quiet, const struct pz_run_plan *r);

PZ_NODISCARD enum pz_status pz_tune_print(const struct pz_tuned *x, struct pz_error *err);

/* The same and more as JSON, a new reference. */
json_t *pz_tune_json(const struct pz_tuned *x);

#endif
