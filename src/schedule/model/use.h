/* Utilisation of a chip by a schedule, for reports. */
#ifndef PZ_SCHEDULE_MODEL_USE_H
#define PZ_SCHEDULE_MODEL_USE_H

#include "schedule/model/problem.h"

/* How much of a resource a task works with in a mode.  What an operator on all cores takes only to
 * be alone on the chip (PZ_EXCLUSIVE_ALL) is held, not used, and does not count. */
int32_t pz_task_use(const struct pz_task *t, uint32_t mode, enum pz_resource r);

/* For each resource the integral of its use over time / (capacity x makespan), from 0 to 1; 0 where
 * there is no such resource or the schedule has no length. */
void pz_schedule_use(const struct pz_problem *p, const struct pz_slot *slots, double makespan,
                     double share[PZ_RESOURCES]);

/* How long the tasks take one after another, each in its fastest mode. */
double pz_problem_serial(const struct pz_problem *p);

#endif
