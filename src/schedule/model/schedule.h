/* A schedule of a problem: what was found, how far it is from optimal, and what the techniques
 * did. */
#ifndef PZ_SCHEDULE_MODEL_SCHEDULE_H
#define PZ_SCHEDULE_MODEL_SCHEDULE_H

#include "schedule/model/problem.h"
#include "schedule/options.h"

enum pz_outcome { PZ_OUTCOME_OPTIMAL, PZ_OUTCOME_FEASIBLE };

struct pz_schedule {
  struct pz_slot *slots; /* one for each task, in the caller's arena */
  double makespan, lower_bound;
  enum pz_outcome outcome;
  enum pz_stop stop;
  int64_t steps;
  struct pz_solve_statistics statistics;
};

/* ---- the independent checker: shares only the types with the solvers ------------------------- */

/* PZ_OK, or PZ_INTERNAL with what is wrong: a mode that is none, a duration, precedence, a capacity
 * at some instant, or the makespan.  Times are compared with a relative slack of 1e-9. */
PZ_NODISCARD enum pz_status pz_schedule_check(const struct pz_problem *p,
                                              const struct pz_slot *slots, double makespan,
                                              struct pz_error *err);

/* ---- utilisation, for reports ---------------------------------------------------------------- */

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
