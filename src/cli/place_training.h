/* phaze place --semantics training: the best plan as training frameworks execute it, or how the
 * best plan scales over a list of numbers of devices. */
#ifndef PZ_CLI_PLACE_TRAINING_H
#define PZ_CLI_PLACE_TRAINING_H

#include "cli/place_model.h"
#include "cli/predict_options.h"

/* Options of the training semantics.  Those of all semantics are in struct pz_place_settings. */
struct pz_place_training_settings {
  struct pz_plan plan;      /* given fields, except devices, batch, mbs, tp, seq and recompute */
  int64_t batch_per_device; /* samples per device and step, or 0 if not given */
  int64_t top;
  int objective, risk, without;
  bool all_devices;
  const char *tokens, *deadline; /* NULL if not given */
  double price;
  const char *report; /* HTML page of the plans, or NULL if none */
  double seconds;     /* limit of a search, or 0 if none */

  const char *compare; /* file of the user's plan, or NULL */
  int64_t vocab;
  const char *set[PZ_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_MOST_SETS + 1];
  char compared_devices[24]; /* number of devices of the user's plan, as text */
};

/* The question that `phaze place` asks, and its answer. */
struct pz_place_job {
  const struct pz_place_settings *settings; /* a batch of 0 was not given */
  const struct pz_place_training_settings *training;
  const char *model;
  struct pz_choices devices;          /* several numbers ask for a table of scaling */
  const struct pz_run_plan *compared; /* the user's plan, or NULL if none is compared */
  bool json;

  /* pz_place_training() sets the members below. */
  struct pz_machine *machine;
  struct pz_training_place_options options;
  struct pz_predict_settings priced; /* --tokens and --price, for the cost of a run */
  struct pz_run_cost cost;           /* cost of a run with the best plan, if --tokens is given */
  const struct pz_plan_diff *diff;   /* from the user's plan to the best one, or NULL if none */
  bool late;                         /* no plan ends by the deadline */
};

/* Searches and prints the answer.  Returns PZ_EXIT_NO_ANSWER if no plan ends by the deadline,
 * and PZ_EXIT_STOPPED if a signal ended the search; the answer is printed in both cases. */
enum pz_exit pz_place_training(struct pz_call *call, struct pz_place_job *job);

/* Reads the user's plan to compare.  Chip, devices, batch, sequence length, framework and
 * precision come from it unless options give them. */
struct pz_run_plan *pz_place_read_compared(struct pz_call *call, struct pz_place_settings *settings,
                                           struct pz_place_training_settings *training,
                                           bool devices_given);

#endif
