/* The scheduling problem of a model's layer on a chip, forward or backward. */
#ifndef PZ_SCHEDULE_MODEL_LAYER_H
#define PZ_SCHEDULE_MODEL_LAYER_H

#include "cost/cost.h"
#include "schedule/model/instance.h"

struct pz_layer_options {
  enum pz_mode_set modes;
  enum pz_exclusive exclusive; /* used with PZ_MODES_TWO */
};

/* Builds the problem of a layer's operators.  The cost of every mode comes from `cost`, whose
 * chip is the whole chip; it is changed to parts of the chip meanwhile and restored, also after
 * an error.  A fused operator may use any number of vector cores besides its tensor cores.  With
 * PZ_MODES_ALL, operators may also run at lower rates than they could (rate_modes.h). */
struct pz_problem pz_layer_problem_build(struct pz_call *call, struct pz_cost *cost,
                                         const struct pz_ops *ops,
                                         const struct pz_layer_options *options);

#endif
