/* Lower bounds for the whole problem, and elimination of modes. */
#ifndef PZ_SCHEDULE_BOUND_ROOT_BOUND_H
#define PZ_SCHEDULE_BOUND_ROOT_BOUND_H

#include "schedule/model/context.h"

/* Raises the bound by critical paths, energy and dual values, and eliminates modes that no better schedule has. */
void pz_bound_tighten(struct pz_context *c);

/* Sets the tails that tasks have without some tasks that no other task waits for, until bounds are tightened again. */
void pz_bound_tails(struct pz_context *c, const bool *without);

/* Returns the sum over tasks of the least value (rate times duration) of the modes that are left, and sets the least value
 * of each task unless `least` is NULL. */
double pz_duals_sum(const struct pz_context *c, const double *rate, double *least);

/* Raises the bound by two-machine partition (two_machine.c) if a resource has capacity 2 and times are integers. */
void pz_two_machine_bound(struct pz_context *c);

#endif
