/* Zero-bubble pipelines: backward is two passes, gradients of inputs, which the stage before waits for, and of weights,
 * which fill the time in which a stage would wait (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024).
 *
 * ZB-H1 keeps as many microbatches as 1F1B, ZB-2P (the paper's H2) about twice as many. */
#ifndef PZ_PLACE_ZERO_BUBBLE_H
#define PZ_PLACE_ZERO_BUBBLE_H

#include "place/pipeline_model.h"

bool pz_is_zero_bubble(enum pz_pipeline_order order);

/* Microbatches whose forward a stage may have run before their backward. */
uint32_t pz_zero_bubble_in_flight(enum pz_pipeline_order order, uint32_t stages, uint32_t stage);

/* As pz_pipeline_simulate, for these orders; the pipeline was checked.  Each stage takes at any time a gradient of
 * inputs before a forward before a gradient of weights, whichever is ready first. */
PZ_NODISCARD enum pz_status pz_zero_bubble_simulate(const struct pz_pipeline *p, bool keep,
                                                    struct pz_arena *arena,
                                                    struct pz_pipeline_run *out,
                                                    struct pz_error *err);

#endif
