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
};

struct pz_place_question {
  const struct pz_place_settings *s; /* batch 0: not given */
  const struct pz_place_training_settings *t;
  const char *model;
  struct pz_choices devices; /* several: how it scales */
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
  struct pz_arena arena;                 /* of tables */
  struct pz_error *err;
};

/* What the run costs with a plan; with --tokens. */
PZ_NODISCARD enum pz_status pz_place_cost(struct pz_place_job *j, struct pz_training_run *run,
                                          struct pz_run_cost *out);

/* The best plan, its time and memory, the next best. */
PZ_NODISCARD enum pz_status pz_place_print(struct pz_place_job *j,
                                           const struct pz_training_plans *p);

/* A search for each number of devices, told as a table or as JSON. */
PZ_NODISCARD enum pz_status pz_place_scaling(struct pz_place_job *j);

#endif
