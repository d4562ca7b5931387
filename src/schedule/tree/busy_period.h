/* Lower bound for busy periods between idle points. */
#ifndef PZ_SCHEDULE_TREE_BUSY_PERIOD_H
#define PZ_SCHEDULE_TREE_BUSY_PERIOD_H

#include "schedule/tree/idle_point.h"

/* For the completions of n, in a busy period since an idle point of this regret. */
double pz_busy_period_bound(const struct pz_idle *x, const struct pz_partial *n, double regret_s);

#endif
