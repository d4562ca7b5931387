/* phaze tune: its settings, and what it prints. */
#ifndef PZ_CLI_TUNE_OPTIONS_H
#define PZ_CLI_TUNE_OPTIONS_H

#include "cli/predict_options.h"
#include "launch/megatron_args.h"
#include "place/plan_tuning.h"

enum { PZ_TUNE_MOST_SETS = 32, PZ_TUNE_MOST_CHANGES = 8 };

struct pz_tune_settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, vocab, threads;
  double measured_s;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
};

/* A run that was read, and what was found. */
struct pz_tuned {
  const struct pz_tune_settings *s;
  const char *name;         /* of the file */
  bool megatron;            /* its arguments were read; else a plan file */
  bool flags;               /* changes can be told as Megatron's arguments */
  struct pz_megatron_run m; /* .run alone of a plan file */
  struct pz_machine machine;
  struct pz_tuning t;
  struct pz_arena *arena;
};

PZ_NODISCARD enum pz_status pz_tune_print(const struct pz_tuned *x, struct pz_error *err);

/* The same and more as JSON, a new reference. */
PZ_NODISCARD enum pz_status pz_tune_json(const struct pz_tuned *x, json_t **out,
                                         struct pz_error *err);

#endif
