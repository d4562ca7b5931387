/* Solving a scheduling problem: heuristic schedules by list scheduling and local search, lower
 * bounds, then exact search. */
#ifndef PZ_SCHEDULE_SOLVE_H
#define PZ_SCHEDULE_SOLVE_H

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

PZ_NODISCARD enum pz_status pz_schedule_solve(const struct pz_problem *p,
                                              const struct pz_solve_options *options,
                                              struct pz_arena *arena, struct pz_schedule *out,
                                              struct pz_error *err);

#endif
