/* A schedule of a problem, its lower bound, and statistics of the techniques that found them. */
#ifndef PZ_SCHEDULE_MODEL_SCHEDULE_H
#define PZ_SCHEDULE_MODEL_SCHEDULE_H

#include "schedule/model/problem.h"
#include "schedule/options.h"

enum pz_outcome { PZ_OUTCOME_OPTIMAL, PZ_OUTCOME_FEASIBLE };

struct pz_schedule {
  struct pz_slot *slots; /* by task */
  double makespan, lower_bound;
  enum pz_outcome outcome;
  enum pz_stop stop; /* why the search ended */
  int64_t steps;     /* effort spent */
  struct pz_solve_statistics statistics;
};

/* ---- the independent checker: shares only the types with the solvers ------------------------- */

/* Raises PZ_INTERNAL unless modes, durations, precedence, capacities at every instant, and the
 * makespan are right, with a relative tolerance of 1e-9. */
void pz_schedule_check(struct pz_call *call, const struct pz_problem *problem,
                       const struct pz_slot *slots, double makespan);

/* ---- utilisation, for reports ---------------------------------------------------------------- */

/* Returns the amount of a resource that a task uses in a mode.  Cores that an operator holds
 * only to be alone on the chip (PZ_EXCLUSIVE_ALL) do not count. */
int32_t pz_task_use(const struct pz_task *task, uint32_t mode, enum pz_resource resource);

/* Sets the utilisation of each resource: the integral of its use over time / (capacity x
 * makespan), from 0 to 1.  It is 0 if there is no such resource or the makespan is 0. */
void pz_schedule_use(const struct pz_problem *problem, const struct pz_slot *slots, double makespan,
                     double share[PZ_RESOURCES]);

/* Returns the time of all tasks one after another, each in its fastest mode. */
double pz_problem_serial(const struct pz_problem *problem);

#endif
