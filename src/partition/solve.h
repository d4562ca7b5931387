/* The optimal plan: a dynamic program over stages from the last to the first, for every
 * tensor-parallel degree, after J. Tarnawski, D. Narayanan, A. Phanishayee, "Piper:
 * Multidimensional Planner for DNN Parallelization", NeurIPS 2021. */
#ifndef PZ_PARTITION_SOLVE_H
#define PZ_PARTITION_SOLVE_H

#include "partition/problem.h"

/* Of plans that take at most limit_s (DBL_MAX: all), the fastest; of equally fast plans a limit may
 * give another.  PZ_NO_ANSWER when there is none.  Errors: no memory; a graph with too many cuts into
 * two parts. */
PZ_NODISCARD enum pz_status pz_place_solve(const struct pz_place_problem *p, double limit_s,
                                           struct pz_arena *arena, struct pz_place_solution *out,
                                           struct pz_error *err);

/* For infeasible problems: the least memory with which a plan would be feasible. */
struct pz_fit {
  double hbm_bytes;         /* the least that would do, to a thousandth; DBL_MAX: no amount would */
  uint32_t stage, n_stages; /* of the plan that fits it: the stage that takes most (from 0) */
  uint32_t n_layers;        /* of that stage ... */
  int64_t first, last;      /* ... and their ids */
  double param_bytes, memory_bytes;
};

struct pz_fit pz_fit_least(const struct pz_place_problem *p);

#endif
