/* A model on a chip by the evaluator training, in the form of results. */
#ifndef PZ_STUDY_TRAINING_ANSWER_H
#define PZ_STUDY_TRAINING_ANSWER_H

#include "core/call.h"
#include "evaluate/training.h"

/* The best plan of a model on a chip with its time, energy and power.  Raises PZ_BAD_INPUT if no plan fits. */
struct pz_training_answer pz_training_answer(struct pz_call *call, struct pz_evaluator *e,
                                             const struct pz_chip *chip, uint32_t model,
                                             double limit_watts);

#endif
