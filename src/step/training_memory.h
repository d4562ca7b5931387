/* What a training plan holds on a device at its peak: weights, gradients, optimizer state, activations
 * of the microbatches in flight, the layer at hand, logits, buffers, and what libraries keep.
 *
 * The peak is the worst moment of a stage while one microbatch goes forward and backward through it and
 * the others in flight wait: bytes live at each operator come from the layers' graphs. */
#ifndef PZ_STEP_TRAINING_MEMORY_H
#define PZ_STEP_TRAINING_MEMORY_H

#include "plan/plan.h"
#include "step/layer_kinds.h"

/* The model in the bytes of one device. */
struct pz_memory_model {
  const struct pz_workload *w;
  const struct pz_layer_kinds *kinds; /* of repeated layers */
  double placeholder_bytes;           /* a 16-bit gradient of every matrix of a repeated layer */
};

struct pz_memory_model pz_memory_model_of(const struct pz_workload *w,
                                          const struct pz_layer_kinds *kinds);

/* What the attention core of a layer keeps: tensors of the size of the scores. */
double pz_core_bytes(const struct pz_workload *w, const struct pz_layer *l);

/* Of a stage at its worst moment; `rounds` microbatches of a replica. */
struct pz_training_memory pz_training_memory(const struct pz_memory_model *m,
                                             const struct pz_plan *plan, int64_t rounds,
                                             int64_t stage);

double pz_training_memory_sum(const struct pz_training_memory *m);

#endif
