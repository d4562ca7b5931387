/* A prediction for people and programs: the terms of its time and memory by name (pz_time_part_at), which tables, JSON and
 * CSV go through, so that a term is named once; the constants that count for it. */
#ifndef PZ_STEP_PREDICTION_H
#define PZ_STEP_PREDICTION_H

#include "cost/constants.h"
#include "step/predict.h"

/* What a caller gave, checked: the plan filled, the network wide enough (`wide` may hold it). */
PZ_NODISCARD enum pz_status pz_training_question(struct pz_job *job, const struct pz_plan *plan,
                                                 const void *out, struct pz_plan *p,
                                                 struct pz_cluster *wide, struct pz_error *err);

/* Copies of what the plan points to. */
PZ_NODISCARD enum pz_status pz_training_own_plan(struct pz_plan *p, struct pz_arena *arena,
                                                 struct pz_error *err);

/* A filled plan with its detail, all but the refusal; the arena holds it. */
PZ_NODISCARD enum pz_status pz_training_run_make(const struct pz_job *job,
                                                 const struct pz_plan *plan, bool events,
                                                 struct pz_arena *arena,
                                                 struct pz_training_run *out, struct pz_error *err);

/* Do launches take longer than the kernels they start?  Such steps differ by up to 1.9 times between runs of the
 * same code. */
bool pz_launch_bound(const struct pz_training_parts *x);

/* Which constants of the model count for a plan: each is raised by a tenth, alone, and the plan is predicted again.  Those
 * that change anything, in the order of constants.def; the plan is filled, as a run has it.  The arena holds the list.
 * Cost: a prediction for each constant. */
PZ_NODISCARD enum pz_status pz_constant_effects(const struct pz_job *job,
                                                const struct pz_plan *plan, struct pz_arena *arena,
                                                struct pz_constant_effect **list, uint32_t *n,
                                                struct pz_error *err);

#endif
