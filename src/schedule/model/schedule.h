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

#endif
