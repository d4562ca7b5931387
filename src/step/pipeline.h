/* Simulates a pipeline event by event: when every stage runs every microbatch, in the order in
 * which training frameworks issue them.
 *
 * GPipe runs all forward passes, then all backward passes (Huang et al., NeurIPS 2019).  1F1B
 * warms up with one forward pass for each later stage and then alternates (Narayanan et al.,
 * PipeDream-Flush, ICML 2021).  Interleaved 1F1B gives each stage several chunks of layers
 * (Narayanan et al., Megatron-LM, SC 2021).
 *
 * Zero-bubble orders split backward passes into gradients of inputs, for which the previous stage
 * waits, and gradients of weights, which fill the time in which a stage would wait (Qi et al.,
 * Zero Bubble Pipeline Parallelism, ICLR 2024). ZB-H1 has as many microbatches in flight as 1F1B,
 * ZB-2P (the paper's H2) about twice as many.
 *
 * In a V each stage has a near chunk, which microbatches pass on the way to the turn of the V, and
 * a far chunk on the way back.  ZB-V follows section 6 of the same paper and the code of its
 * authors.  DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1) is two pipelines in one
 * another, in opposite directions: stages k and p - 1 - k have the same chunks and run the same
 * passes at the same times, each for its own half of the microbatches.  It is therefore the V of
 * p/2 stages and half of the microbatches, except that at the turn a microbatch goes to the next
 * stage.  DualPipeV bends one of the two pipelines into a V (the code of its authors).
 *
 * No order depends on the times, so that a shorter pass never makes the step longer. */
#ifndef PZ_STEP_PIPELINE_H
#define PZ_STEP_PIPELINE_H

#include "core/call.h"

/* A pipeline with the times of one microbatch by chunk of the model.  A chunk is the group of
 * layers that a stage runs in one pass; without a V, chunk c of stage k has index c * stages +
 * k. */
struct pz_pipeline {
  uint32_t stages, chunks; /* chunks of each stage; 1 unless interleaved or in a V */
  uint32_t microbatches;
  enum pz_pipeline_order order;
  const double *forward_s, *backward_s;
  const double *weight_s; /* part of backward_s for weight gradients, or NULL for 0 */
  const double *paired_s; /* a forward with a backward pass (DualPipe), or NULL for the sum */
  double transfer_s;      /* between neighbouring chunks; the sender does not wait */
};

struct pz_pipeline_run {
  double end_s; /* end of the last event */
  /* Events stage by stage, each in its order; NULL unless they are kept.  In a V and in DualPipe,
   * `chunk` is the slot.  In DualPipe, slot 0 and the first half of the microbatches enter at
   * stage 0, slot 1 and the other half at the last stage.  A split backward pass is two events; a
   * forward and a backward pass that run together have the same times. */
  struct pz_pipeline_event *events;
  uint32_t n_events;
};

/* Simulates a pipeline, in time linear in the number of events.  Raises the errors of
 * pz_require_pipeline().  Allocates events with `events` unless NULL, and other data with
 * `call`. */
struct pz_pipeline_run pz_pipeline_simulate(struct pz_call *call,
                                            const struct pz_pipeline *pipeline,
                                            struct pz_call *events);

/* Returns a lower bound of the simulated time of a pipeline: for one stage, the time of its passes
 * for all microbatches plus that of the passes before and after them, and of this the maximum over
 * all stages.  Takes time linear in the number of stages. */
double pz_pipeline_bound_s(const struct pz_pipeline *pipeline);

#endif
