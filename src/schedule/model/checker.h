/* Independent checker of a schedule: durations, precedence, capacities and makespan.  Shares only
 * the types with the solvers. */
#ifndef PZ_SCHEDULE_MODEL_CHECKER_H
#define PZ_SCHEDULE_MODEL_CHECKER_H

#include "schedule/model/problem.h"

/* PZ_OK, or PZ_INTERNAL with what is wrong: a mode that is none, a duration, precedence, a capacity
 * at some instant, or the makespan.  Times are compared with a relative slack of 1e-9. */
PZ_NODISCARD enum pz_status pz_schedule_check(const struct pz_problem *p,
                                              const struct pz_slot *slots, double makespan,
                                              struct pz_error *err);

#endif
