/* Functions for pz_defer() that free the objects of the public header, so that a subcommand can
 * leave them to its call:
 *     pz_must(call, pz_workload_load(model, &options, &workload, pz_call_error(call)));
 *     pz_defer(call, pz_free_workload, workload); */
#ifndef PZ_CLI_OWNED_H
#define PZ_CLI_OWNED_H

#include "phaze/phaze.h"

static inline void pz_free_cost(void *cost) { pz_cost_free(cost); }
static inline void pz_free_explanation(void *explanation) { pz_explanation_free(explanation); }
static inline void pz_free_instance_plan(void *plan) { pz_instance_plan_free(plan); }
static inline void pz_free_layer_schedule(void *schedule) { pz_layer_schedule_free(schedule); }
static inline void pz_free_op_times(void *times) { pz_op_times_free(times); }
static inline void pz_free_partitions(void *partitions) { pz_partitions_free(partitions); }
static inline void pz_free_plan_changes(void *changes) { pz_plan_changes_free(changes); }
static inline void pz_free_plan_diff(void *diff) { pz_plan_diff_free(diff); }
static inline void pz_free_plan_schedules(void *passes) { pz_plan_schedules_free(passes); }
static inline void pz_free_plan_tuning(void *tuning) { pz_plan_tuning_free(tuning); }
static inline void pz_free_rehearsal(void *rehearsal) { pz_rehearsal_free(rehearsal); }
static inline void pz_free_run_plan(void *run) { pz_run_plan_free(run); }
static inline void pz_free_runs(void *runs) { pz_runs_free(runs); }
static inline void pz_free_scaling(void *scaling) { pz_scaling_free(scaling); }
static inline void pz_free_text(void *text) { pz_text_free(text); }
static inline void pz_free_training_plans(void *plans) { pz_training_plans_free(plans); }
static inline void pz_free_training_run(void *run) { pz_training_run_free(run); }
static inline void pz_free_workload(void *workload) { pz_workload_free(workload); }

#endif
