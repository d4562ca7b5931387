/* Zero-bubble pipelines: backward is two passes, gradients of inputs, which the stage before waits for, and of weights,
 * which fill the time in which a stage would wait (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024).
 *
 * ZB-H1 keeps as many microbatches as 1F1B, ZB-2P (the paper's H2) about twice as many. */
#ifndef PZ_STEP_ZERO_BUBBLE_H
#define PZ_STEP_ZERO_BUBBLE_H

#include "step/pipeline_model.h"

/* As pz_pipeline_simulate, for these orders; the pipeline was checked.  Each stage takes at any time a gradient of
 * inputs before a forward before a gradient of weights, whichever is ready first. */
PZ_NODISCARD enum pz_status pz_zero_bubble_simulate(const struct pz_pipeline *p, bool keep,
                                                    struct pz_arena *arena,
                                                    struct pz_pipeline_run *out,
                                                    struct pz_error *err);

#endif
