/* Lower bounds on the makespan of every completion of a partial schedule. */
#ifndef PZ_SCHEDULE_TREE_PARTIAL_BOUND_H
#define PZ_SCHEDULE_TREE_PARTIAL_BOUND_H

#include "schedule/tree/partial.h"

/* By dual values, paths, paths within the residual capacity, and energy; the time of the partial
 * schedule where the technique is switched off. */
double pz_partial_dual_bound(const struct pz_branching *g, const struct pz_partial *n);
double pz_partial_path_bound(const struct pz_branching *g, const struct pz_partial *n);
double pz_partial_residual_bound(const struct pz_branching *g, const struct pz_partial *n);
double pz_partial_energy_bound(const struct pz_branching *g, const struct pz_partial *n);

#endif
