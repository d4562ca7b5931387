/* One rank of a plan as a rehearsal measures it: the time in which it computes its microbatches
 * and updates its weights, without waiting for the network or other stages, and its memory. */
#ifndef PZ_STEP_RANK_ALONE_H
#define PZ_STEP_RANK_ALONE_H

#include "step/predict.h"

struct pz_rank_alone {
  double compute_s;
  double static_bytes;   /* weights, gradients and optimizer state between two steps */
  double peak_bytes;     /* peak of allocated tensors */
  double reserved_bytes; /* reserved by the allocator and the libraries */
  int64_t microbatches;  /* microbatches of the rank in a step of the plan */
};

/* Returns the time and memory of a rank of a stage that runs `microbatches` in a step. */
struct pz_rank_alone pz_rank_alone(struct pz_call *call, const struct pz_job *job,
                                   const struct pz_plan *plan, int64_t stage, int64_t microbatches);

#endif
