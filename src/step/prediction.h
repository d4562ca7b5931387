/* Predictions for people and programs: checks of a question, the terms of time and memory by
 * name (pz_time_part_at) for tables, JSON and CSV, and the effects of constants. */
#ifndef PZ_STEP_PREDICTION_H
#define PZ_STEP_PREDICTION_H

#include "cost/constants.h"
#include "step/predict.h"

/* Checks the arguments of a caller.  Fills in the plan into *filled.  Extends the job's network
 * to all devices, in *wide if it is too small. */
void pz_training_question(struct pz_call *call, struct pz_job *job, const struct pz_plan *plan,
                          struct pz_plan *filled, struct pz_cluster *wide);

/* Replaces what the plan points to by copies in the arena of the call. */
void pz_training_own_plan(struct pz_call *call, struct pz_plan *plan);

/* Predicts a plan without unset fields, with all details of a run, in the arena of the call. */
struct pz_training_run pz_training_run_make(struct pz_call *call, const struct pz_job *job,
                                            const struct pz_plan *plan, bool events);

/* Like pz_training_run_make(), with a step model that other plans may share. */
struct pz_step_model;
struct pz_training_run pz_training_run_price(struct pz_call *call, const struct pz_job *job,
                                             struct pz_step_model *model,
                                             const struct pz_plan *plan, bool events);

/* Returns whether kernel launches take longer than the kernels.  The times of such steps differ
 * by up to 1.9 times between runs of the same code. */
bool pz_launch_bound(const struct pz_training_parts *parts);

/* Returns the effects of the constants that change the prediction of a plan without unset fields,
 * in the order of constants.def.  Each constant is raised by a tenth, with the others unchanged. */
struct pz_constant_effect *pz_constant_effects(struct pz_call *call, const struct pz_job *job,
                                               const struct pz_plan *plan, uint32_t *n);

#endif
