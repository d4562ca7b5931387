/* What a training plan holds on a device at its peak: weights, gradients, optimizer state, activations
 * of the microbatches in flight, logits, and what the framework keeps for itself. */
#ifndef PZ_PLACE_TRAINING_MEMORY_H
#define PZ_PLACE_TRAINING_MEMORY_H

#include "place/training.h"

/* The model in the bytes of one device. */
struct pz_memory_model {
  const struct pz_workload *w;
  uint32_t block; /* the repeated layer */
  int64_t n_blocks;
  double core_bytes; /* of a block's activations: those of the attention core */
};

/* Of stage k; `rounds` microbatches of a replica, `blocks` of the stage. */
struct pz_training_memory pz_training_memory(const struct pz_memory_model *m,
                                             const struct pz_training_plan *plan, int64_t rounds,
                                             int64_t stage, double blocks);

double pz_training_memory_sum(const struct pz_training_memory *m);

#endif
