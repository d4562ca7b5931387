/* Independent checker of a plan: recomputed from the layers; shares only the formula of the time
 * with the solver. */
#ifndef PZ_PARTITION_CHECKER_H
#define PZ_PARTITION_CHECKER_H

#include "partition/problem.h"

/* PZ_INTERNAL, with what is wrong. */
PZ_NODISCARD enum pz_status pz_partition_check(const struct pz_place_problem *p,
                                               const struct pz_place_solution *plan,
                                               struct pz_error *err);

#endif
