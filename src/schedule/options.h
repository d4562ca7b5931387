/* Options of the scheduler. */
#ifndef PZ_SCHEDULE_OPTIONS_H
#define PZ_SCHEDULE_OPTIONS_H

#include <stdint.h>

enum pz_solver {
  PZ_SOLVER_EXACT, /* local search, bounds and tree search */
  PZ_SOLVER_ILP    /* the integer program, by CBC: an oracle */
};

/* Why a solver left a gap open. */
enum pz_stop { PZ_STOP_PROVED, PZ_STOP_STEPS, PZ_STOP_TIME };

/* Effort is counted in steps (a task placed, or a node of the search), so that the same input gives
 * the same answer everywhere; some millions a second. */
struct pz_solve_options {
  enum pz_solver solver;
  int64_t steps;  /* of the exact solver; 0: the default */
  double seconds; /* of the ILP; 0: the default */
};

#endif
