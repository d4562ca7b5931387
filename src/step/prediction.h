/* A prediction for people and programs: the terms of its time and memory by name
 * (pz_time_part_at), which tables, JSON and CSV go through, so that a term is named once; the
 * constants that count for it. */
#ifndef PZ_STEP_PREDICTION_H
#define PZ_STEP_PREDICTION_H

#include "cost/constants.h"
#include "step/predict.h"

/* Checks a question of a caller: fills in the plan into *filled, and makes the job's network wide
 * enough (*wide may hold it). */
void pz_training_question(struct pz_call *call, struct pz_job *job, const struct pz_plan *plan,
                          struct pz_plan *filled, struct pz_cluster *wide);

/* Replaces what the plan points to by copies in the arena of the call. */
void pz_training_own_plan(struct pz_call *call, struct pz_plan *plan);

/* Predicts a plan without unset fields, with all details of a run, in the arena of the call. */
struct pz_training_run pz_training_run_make(struct pz_call *call, const struct pz_job *job,
                                            const struct pz_plan *plan, bool events);

/* Returns whether launches take longer than the kernels that they start.  Such steps differ by up
 * to 1.9 times between runs of the same code. */
bool pz_launch_bound(const struct pz_training_parts *parts);

/* Returns the constants of the model that make a difference for a plan without unset fields, in
 * the order of constants.def: each constant is raised by a tenth, alone, and the plan is predicted
 * again. */
struct pz_constant_effect *pz_constant_effects(struct pz_call *call, const struct pz_job *job,
                                               const struct pz_plan *plan, uint32_t *n);

#endif
