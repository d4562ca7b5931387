/* Depth-first branch and bound over schedules in order of time. */
#ifndef PZ_SCHEDULE_TREE_DEPTH_FIRST_H
#define PZ_SCHEDULE_TREE_DEPTH_FIRST_H

#include "schedule/tree/deferred.h"

PZ_NODISCARD pz_searcher pz_depth_first_search;

#endif
