/* phaze place --semantics training: the best plan as training frameworks run it, or for a list of
 * numbers of devices how it scales. */
#ifndef PZ_CLI_PLACE_TRAINING_H
#define PZ_CLI_PLACE_TRAINING_H

#include "cli/place_model.h"
#include "cli/predict_options.h"

/* What only these plans have; the rest is in pz_place_settings. */
struct pz_place_training_settings {
  struct pz_plan
      plan; /* fields that are given; devices, batch, mbs, tp, seq, recompute: in pz_place_settings */
  int64_t batch_per_device; /* 0: none */
  int64_t top;
  int objective, risk, without;
  bool all_devices;
  const char *tokens, *deadline; /* NULL: not asked for */
  double price;
  const char *report; /* page of the plans found; NULL: none */
  double seconds;     /* of a search; 0: until all is decided */

  const char
      *compare; /* file of the user's own plan, NULL: none; the rest is what it leaves open */
  int64_t vocab;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
  char own_devices[24]; /* its devices, as text */
};

struct pz_place_question {
  const struct pz_place_settings *s; /* batch 0: not given */
  const struct pz_place_training_settings *t;
  const char *model;
  struct pz_choices devices;          /* several: how it scales */
  const struct pz_run_plan *compared; /* NULL: none */
  bool json;
};

/* *code: PZ_EXIT_NO_ANSWER where no plan ends by the deadline and PZ_EXIT_STOPPED where a signal ended the search, both
 * after the answer was printed. */
PZ_NODISCARD enum pz_status pz_place_training(const struct pz_place_question *q, enum pz_exit *code,
                                              struct pz_error *err);

/* ---- its parts ------------------------------------------------------------------------------ */

/* A question with its machine and options. */
struct pz_place_job {
  const struct pz_place_question *q;
  struct pz_machine machine;
  struct pz_training_place_options options;
  int emit;  /* of pz_launch_names; 0: none */
  bool late; /* no plan ends by the deadline */
  struct pz_progress progress;
  struct pz_predict_settings cost_asked; /* --tokens, --price */
  struct pz_run_cost cost;               /* of the best plan, with --tokens */
  struct pz_plan_diff *diff;             /* from the compared plan to the best; NULL: none */
  struct pz_arena arena;                 /* of tables */
  struct pz_error *err;
};

/* What the run costs with a plan; with --tokens. */
PZ_NODISCARD enum pz_status pz_place_cost(struct pz_place_job *j, struct pz_training_run *run,
                                          struct pz_run_cost *out);

/* The best plan, its time and memory, the next best. */
PZ_NODISCARD enum pz_status pz_place_print(struct pz_place_job *j,
                                           const struct pz_training_plans *p);

/* Reads the plan to compare.  What the settings leave open (chip, devices, batch, sequence length, framework, precision)
 * becomes as it has it.  On success *out is the caller's to free. */
PZ_NODISCARD enum pz_status pz_place_read_compared(struct pz_place_settings *s,
                                                   struct pz_place_training_settings *t,
                                                   bool devices_given, struct pz_run_plan **out,
                                                   struct pz_error *err);

/* Sets j->diff.  PZ_BAD_USE: the compared plan is of another model. */
PZ_NODISCARD enum pz_status pz_place_compare(struct pz_place_job *j,
                                             const struct pz_training_run *best);
PZ_NODISCARD enum pz_status pz_place_print_compared(struct pz_place_job *j); /* if there is one */
json_t *pz_place_compared_json(const struct pz_place_job *j); /* new reference; NULL: none */

/* A search for each number of devices, told as a table or as JSON. */
PZ_NODISCARD enum pz_status pz_place_scaling(struct pz_place_job *j);

#endif
