/* A model on a chip by the evaluator training, as results tell it. */
#ifndef PZ_STUDY_TRAINING_ANSWER_H
#define PZ_STUDY_TRAINING_ANSWER_H

#include "evaluate/training.h"

/* Its best plan, energy, and power within limit_watts; the arena holds lists of the plan.  PZ_BAD_INPUT where none fits. */
PZ_NODISCARD enum pz_status pz_training_answer_make(struct pz_evaluator *e,
                                                    const struct pz_chip *chip, uint32_t model,
                                                    double limit_watts, struct pz_arena *arena,
                                                    struct pz_training_answer *out,
                                                    struct pz_error *err);

#endif
