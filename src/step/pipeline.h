/* A pipeline, event by event: when every stage runs every microbatch, in the order in which training frameworks issue
 * them.
 *
 * GPipe runs all forwards, then all backwards (Huang et al., NeurIPS 2019).  1F1B warms up with one forward for each
 * later stage and then alternates (Narayanan et al., PipeDream-Flush, ICML 2021); interleaved 1F1B gives each stage
 * several chunks of layers (Narayanan et al., Megatron-LM, SC 2021).
 *
 * Zero-bubble orders part backward into gradients of inputs, which the stage before waits for, and of weights, which
 * fill the time in which a stage would wait (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024).  ZB-H1 has as many
 * microbatches in flight as 1F1B, ZB-2P (the paper's H2) about twice as many.
 *
 * The order of all of them does not depend on the times: no pass that takes less makes the step longer.
 *
 * In a V each stage has a near chunk, which microbatches pass on the way to the turn of the V, and a far one on the way
 * back.  ZB-V: section 6 of the same paper, with the code of its authors.  DualPipe: DeepSeek-V3, arXiv 2412.19437,
 * section 3.2.1; DualPipeV: each half of it bent into a V, with the code of its authors.  DualPipe is two such pipelines
 * in one another: stages k and p - 1 - k have the same chunks and run the same passes at the same times, each for its own
 * half of the microbatches.  So it is the V of p/2 stages and half of the microbatches, but for the turn of the V, where a
 * microbatch goes to the next stage. */
#ifndef PZ_STEP_PIPELINE_H
#define PZ_STEP_PIPELINE_H

#include "core/call.h"

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
  double end_s; /* of the last event */
  /* Stage by stage, each in its order; NULL: not asked for.  In a V and in DualPipe `chunk` is the slot; DualPipe: slot 0
   * and the first half of the microbatches come in at stage 0, slot 1 and the other half at the last stage.  A backward
   * pass in two parts is two events; a forward and a backward that run as one have the same times. */
  struct pz_pipeline_event *events;
  uint32_t n_events;
};

/* Run it.  Errors as pz_require_pipeline.  Every event is kept in the arena of `events` unless that is NULL.  Cost: linear
 * in the events. */
struct pz_pipeline_run pz_pipeline_simulate(struct pz_call *call, const struct pz_pipeline *p,
                                            struct pz_call *events);

/* No order of the 1F1B kind ends earlier: max over stages k of M L_k + the passes before it, where L is forward and
 * backward of a stage's chunks; in a V never above the simulation.  Linear in the stages. */
double pz_pipeline_bound_s(const struct pz_pipeline *p);

#endif
