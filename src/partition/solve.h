/* The optimal plan: a dynamic program over stages from the last to the first, for every
 * tensor-parallel degree, after J. Tarnawski, D. Narayanan, A. Phanishayee, "Piper:
 * Multidimensional Planner for DNN Parallelization", NeurIPS 2021. */
#ifndef PZ_PARTITION_SOLVE_H
#define PZ_PARTITION_SOLVE_H

#include "partition/problem.h"

/* PZ_NO_ANSWER when no plan fits; `err` then says what is too large. */
PZ_NODISCARD enum pz_status pz_place_solve(const struct pz_place_problem *p,
                                           enum pz_semantics semantics, struct pz_arena *arena,
                                           struct pz_place_solution *out, struct pz_error *err);

/* The same, for plans that take at most limit_s; PZ_NO_ANSWER when there is none.  Of equally fast
 * plans it may find another. */
PZ_NODISCARD enum pz_status
pz_place_solve_within(const struct pz_place_problem *p, enum pz_semantics semantics, double limit_s,
                      struct pz_arena *arena, struct pz_place_solution *out, struct pz_error *err);

#endif
