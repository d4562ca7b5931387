/* Pipelines in a V, event by event: each stage runs the passes of v_order.h in their order, each as soon as its input
 * is there.
 *
 * DualPipe is two such pipelines in one another.  Its stages k and p - 1 - k have the same chunks and run the same
 * passes at the same times, each for its own half of the microbatches: what the one does in a microbatch's first half
 * of the model, the other does for the other direction.  So it is the V of p/2 stages and half of the microbatches,
 * but for the turn of the V, where a microbatch goes to the next stage. */
#ifndef PZ_STEP_V_PIPELINE_H
#define PZ_STEP_V_PIPELINE_H

#include "step/pipeline_model.h"

/* As pz_pipeline_simulate, for these orders; the pipeline was checked.  Events have the slot as chunk; DualPipe: slot 0
 * and the first half of the microbatches come in at stage 0, slot 1 and the other half at the last stage.  A backward
 * pass in two parts is two events; a forward and a backward that run as one have the same times. */
PZ_NODISCARD enum pz_status pz_v_simulate(const struct pz_pipeline *p, bool keep,
                                          struct pz_arena *arena, struct pz_pipeline_run *out,
                                          struct pz_error *err);

/* Never above the simulation.  Linear in the stages. */
double pz_v_bound_s(const struct pz_pipeline *p);

#endif
