/* Lower bounds for the whole problem, and elimination of modes. */
#ifndef PZ_SCHEDULE_BOUND_ROOT_BOUND_H
#define PZ_SCHEDULE_BOUND_ROOT_BOUND_H

#include "schedule/model/context.h"

/* Raises the lower bound by critical paths, energy and dual values, and eliminates modes that no
 * schedule better than the incumbent uses. */
void pz_bound_tighten(struct pz_context *context);

/* Sets the tails to those of the problem without the tasks i for which left_out[i] is true, until
 * bounds are tightened again.  No other task may wait for a task that is left out. */
void pz_bound_tails(struct pz_context *context, const bool *left_out);

/* Returns the sum over tasks of the least value (rate times duration) of the modes that are not
 * eliminated, and sets the least value of each task unless `least` is NULL. */
double pz_duals_sum(const struct pz_context *context, const double *rate, double *least);

/* Raises the lower bound by the two-machine partition bound (two_machine.c) if a resource has
 * capacity 2 and durations are integers. */
void pz_two_machine_bound(struct pz_context *context);

#endif
