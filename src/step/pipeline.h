/* A pipeline, event by event: when every stage runs every microbatch, in the order in which training
 * frameworks issue them.
 *
 * Orders: GPipe runs all forwards, then all backwards (Huang et al., NeurIPS 2019); 1F1B warms up
 * with one forward for each later stage and then alternates (Narayanan et al., PipeDream-Flush, ICML
 * 2021); interleaved 1F1B gives each stage several chunks of layers (Narayanan et al., Megatron-LM,
 * SC 2021); zero_bubble.h and v_pipeline.h have those that find gradients of weights apart. */
#ifndef PZ_STEP_PIPELINE_H
#define PZ_STEP_PIPELINE_H

#include "step/pipeline_model.h"

/* Run it.  PZ_BAD_USE: stages, chunks or microbatches that the order does not run
 * (pz_pipeline_check); PZ_LIMIT: more than
 * PZ_PIPELINE_MOST_EVENTS.  With `keep` the arena holds every event.  Cost: linear in the events. */
PZ_NODISCARD enum pz_status pz_pipeline_simulate(const struct pz_pipeline *p, bool keep,
                                                 struct pz_arena *arena,
                                                 struct pz_pipeline_run *out, struct pz_error *err);

/* No order of the 1F1B kind ends earlier: max over stages k of M L_k + the passes before it, where
 * L is forward and backward of a stage's chunks.  Cheap. */
double pz_pipeline_bound_s(const struct pz_pipeline *p);

#endif
