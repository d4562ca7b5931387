/* Solving a scheduling problem: heuristic schedules by list scheduling and local search, lower
 * bounds, then exact search. */
#ifndef PZ_SCHEDULE_SOLVE_H
#define PZ_SCHEDULE_SOLVE_H

#include "schedule/problem.h"

enum pz_outcome { PZ_OUTCOME_OPTIMAL, PZ_OUTCOME_FEASIBLE };
enum pz_stop { PZ_STOP_PROVED, PZ_STOP_STEPS, PZ_STOP_TIME };
enum pz_solver {
  PZ_SOLVER_EXACT, /* local and exact search */
  PZ_SOLVER_ILP    /* ilp.h, by CBC */
};

struct pz_schedule {
  struct pz_slot *slots; /* one for each task, in the caller's arena */
  double makespan, lower_bound;
  enum pz_outcome outcome;
  enum pz_stop stop;
  int64_t steps;
};

/* Effort is counted in steps (a task placed, or a node of the search), so that the same input gives
 * the same answer everywhere; some millions a second. */
struct pz_solve_options {
  enum pz_solver solver;
  int64_t steps;  /* of the exact solver; 0: the default */
  double seconds; /* of the ILP; 0: the default */
};

PZ_NODISCARD enum pz_status pz_schedule_solve(const struct pz_problem *p,
                                              const struct pz_solve_options *options,
                                              struct pz_arena *arena, struct pz_schedule *out,
                                              struct pz_error *err);

#endif
