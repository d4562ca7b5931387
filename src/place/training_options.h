/* Options of a training run as a plan: what is not told is filled in, by the framework's habits or
 * from the other options, and what cannot be is refused. */
#ifndef PZ_PLACE_TRAINING_OPTIONS_H
#define PZ_PLACE_TRAINING_OPTIONS_H

#include "place/training.h"

/* Fill in what is left open in *o (seq 0 stays: it is the model's).  PZ_BAD_USE for numbers out of
 * range, an unknown framework, devices that the degrees do not divide, and a batch that replicas
 * and microbatches do not divide. */
PZ_NODISCARD enum pz_status pz_training_options_fill(struct pz_training_options *o,
                                                     struct pz_error *err);

/* Devices over which each expert is divided, where the options say nothing too. */
int64_t pz_options_etp(const struct pz_training_options *o);

/* The overlap without what the plan has nothing of: the all-to-all of experts without expert parallelism. */
unsigned pz_options_overlap(const struct pz_training_options *o);

/* Modules that selective recomputation of filled options finds again; 0: the attention core alone, or
 * another recomputation. */
unsigned pz_options_modules(const struct pz_training_options *o);

/* The plan and the model of filled options. */
struct pz_training_plan pz_training_plan_of(const struct pz_training_options *o);
struct pz_training_model pz_training_model_of(const char *model,
                                              const struct pz_training_options *o);

#endif
