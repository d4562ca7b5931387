/* Lower bounds for the whole problem, and elimination of modes. */
#ifndef PZ_SCHEDULE_BOUND_ROOT_BOUND_H
#define PZ_SCHEDULE_BOUND_ROOT_BOUND_H

#include "schedule/model/context.h"

/* Updates bound_s from critical paths, energy and dual values; modes that no better schedule has
 * are eliminated. */
void pz_bound_tighten(struct pz_context *c);
/* Tails as they are without some tasks that no other waits for, until the next time. */
void pz_bound_tails(struct pz_context *c, const bool *without);

/* The sum over tasks of the least value (rate times duration) of the modes that are left; by task in
 * `least`, where not NULL. */
double pz_duals_sum(const struct pz_context *c, const double *rate, double *least);

/* Two-machine partition bound (two_machine.c): updates the bound where a resource has capacity 2
 * and times are integers. */
void pz_two_machine_bound(struct pz_context *c);

#endif
