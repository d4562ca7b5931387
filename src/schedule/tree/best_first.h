/* Best-first branch and bound over schedules in order of time. */
#ifndef PZ_SCHEDULE_TREE_BEST_FIRST_H
#define PZ_SCHEDULE_TREE_BEST_FIRST_H

#include "schedule/tree/deferred.h"

PZ_NODISCARD pz_searcher pz_best_first_search;

#endif
