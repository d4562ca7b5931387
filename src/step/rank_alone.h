/* One rank of a plan as a rehearsal measures it: the time in which it computes its microbatches
 * and updates its weights, without network and without waiting for other stages, and the memory
 * that it holds. */
#ifndef PZ_STEP_RANK_ALONE_H
#define PZ_STEP_RANK_ALONE_H

#include "step/predict.h"

struct pz_rank_alone {
  double compute_s;
  double static_bytes;   /* between two steps: weights, gradients, optimizer state */
  double peak_bytes;     /* of tensors */
  double reserved_bytes; /* by the allocator and the libraries */
  int64_t microbatches;  /* that the rank has in the plan */
};

/* Returns a rank of this stage that runs so many microbatches in a step.  Cost: that of a
 * prediction. */
struct pz_rank_alone pz_rank_alone(struct pz_call *call, const struct pz_job *job,
                                   const struct pz_plan *plan, int64_t stage, int64_t microbatches);

#endif
