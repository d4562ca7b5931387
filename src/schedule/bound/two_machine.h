/* Partition bound for two cores of a kind. */
#ifndef PZ_SCHEDULE_BOUND_TWO_MACHINE_H
#define PZ_SCHEDULE_BOUND_TWO_MACHINE_H

#include "schedule/model/context.h"

/* Updates the bound where a resource has capacity 2 and times are integers. */
void pz_two_machine_bound(struct pz_context *c);

#endif
