/* A prediction for people and programs: the terms of its time and memory by name (pz_time_part_at), which tables, JSON and
 * CSV go through, so that a term is named once; the constants that count for it. */
#ifndef PZ_STEP_PREDICTION_H
#define PZ_STEP_PREDICTION_H

#include "cost/constants.h"
#include "step/predict.h"

/* What a caller gave, checked: the plan filled, the network wide enough (`wide` may hold it). */
void pz_training_question(struct pz_call *call, struct pz_job *job, const struct pz_plan *plan,
                          struct pz_plan *p, struct pz_cluster *wide);

/* Copies of what the plan points to. */
void pz_training_own_plan(struct pz_call *call, struct pz_plan *p);

/* A filled plan with its detail, all but the refusal; in the arena of the call. */
struct pz_training_run pz_training_run_make(struct pz_call *call, const struct pz_job *job,
                                            const struct pz_plan *plan, bool events);

/* Do launches take longer than the kernels they start?  Such steps differ by up to 1.9 times between runs of the
 * same code. */
bool pz_launch_bound(const struct pz_training_parts *x);

/* Which constants of the model count for a plan: each is raised by a tenth, alone, and the plan is predicted again.  Those
 * that change anything, in the order of constants.def; the plan is filled, as a run has it.
 * Cost: a prediction for each constant. */
struct pz_constant_effect *pz_constant_effects(struct pz_call *call, const struct pz_job *job,
                                               const struct pz_plan *plan, uint32_t *n);

#endif
