/* Lower bounds on the makespan of every completion of a partial schedule. */
#ifndef PZ_SCHEDULE_TREE_PARTIAL_BOUND_H
#define PZ_SCHEDULE_TREE_PARTIAL_BOUND_H

#include "schedule/tree/partial.h"

/* Bounds by dual values, by paths, by paths within the residual capacity, and by energy.  If a
 * technique is switched off, the bound is weaker, down to the time of the partial schedule. */
double pz_partial_dual_bound(const struct pz_branching *tree, const struct pz_partial *node);
double pz_partial_path_bound(const struct pz_branching *tree, const struct pz_partial *node);
double pz_partial_residual_bound(const struct pz_branching *tree, const struct pz_partial *node);
double pz_partial_energy_bound(const struct pz_branching *tree, const struct pz_partial *node);

/* Residual capacity over time: the amount of each resource that the running tasks leave free,
 * which grows at every end. */
struct pz_residual {
  uint32_t n;                          /* number of running tasks */
  double time[PZ_TREE_MOST_TASKS + 1]; /* [0] is now; then the end of each, latest last */
  int32_t free[PZ_TREE_MOST_TASKS + 1][PZ_RESOURCES]; /* [i]: amount that is free from time[i] on */
};

/* Sets the residual capacity from now on, and from the end of each running task on. */
void pz_residual_find(const struct pz_branching *tree, const struct pz_partial *node,
                      struct pz_residual *out);

/* Returns the time from which on the mode fits, as long as nothing else starts. */
static inline double pz_residual_earliest(const struct pz_residual *residual,
                                          const struct pz_mode *mode) {
  uint32_t k = 0;
  while (k < residual->n && !pz_mode_fits(residual->free[k], mode)) k++;
  return residual->time[k];
}

#endif
