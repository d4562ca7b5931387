/* Heuristic schedules: list scheduling, and local search over modes and priorities. */
#ifndef PZ_SCHEDULE_HEURISTIC_LOCAL_SEARCH_H
#define PZ_SCHEDULE_HEURISTIC_LOCAL_SEARCH_H

#include "schedule/model/context.h"

enum { PZ_LOCAL_MOST_TASKS = 512 };

/* Improves the incumbent by serial list scheduling and local search in about this number of steps, or
 * generates the first incumbent if there is none.  Problems with more than PZ_LOCAL_MOST_TASKS tasks
 * get a few list schedules instead. */
void pz_local_search(struct pz_context *context, int64_t steps);

/* Parallel list scheduling with these modes, for problems of any size.  A better schedule
 * becomes the incumbent. */
void pz_list_schedule(struct pz_context *context, const uint32_t *mode);

/* Serial list scheduling with these modes, tasks in the order of descending priority.  A better
 * schedule becomes the incumbent.  Does nothing for more than PZ_LOCAL_MOST_TASKS tasks. */
void pz_serial_schedule(struct pz_context *context, const uint32_t *mode, const double *priority);

/* Moves every task of the incumbent to the earliest start that the tasks that start before it
 * allow. */
void pz_left_shift_incumbent(struct pz_context *context);

#endif
