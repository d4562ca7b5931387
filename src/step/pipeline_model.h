/* A pipeline and what its simulation tells: types that all orders share. */
#ifndef PZ_STEP_PIPELINE_MODEL_H
#define PZ_STEP_PIPELINE_MODEL_H

#include "core/arena.h"

enum { PZ_PIPELINE_MOST_EVENTS = 1 << 24 };

/* Times of one microbatch, by chunk of the model: stages * chunks of them (pipeline_order.h).  In orders without a V chunk
 * c of stage k stands at c * stages + k. */
struct pz_pipeline {
  uint32_t stages, chunks; /* chunks of the model for each stage; 1 unless interleaved or in a V */
  uint32_t microbatches;
  enum pz_pipeline_order order;
  const double *forward_s, *backward_s;
  const double
      *weight_s; /* of backward_s: gradients of weights, where the order parts them; NULL: 0 */
  const double *paired_s; /* forward of a chunk run as one with the backward of its stage's other
                             chunk, where the order pairs them (DualPipe); NULL: their sum */
  double
      transfer_s; /* of a microbatch from one chunk to the next, either way; the sender goes on */
};

struct pz_pipeline_run {
  double end_s;                     /* of the last event */
  struct pz_pipeline_event *events; /* stage by stage, each in its order; NULL: not asked for */
  uint32_t n_events;
};

#endif
