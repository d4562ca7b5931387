/* Heuristic schedules: list scheduling, and local search over modes and priorities. */
#ifndef PZ_SCHEDULE_HEURISTIC_LOCAL_SEARCH_H
#define PZ_SCHEDULE_HEURISTIC_LOCAL_SEARCH_H

#include "core/call.h"
#include "schedule/model/context.h"

enum { PZ_LOCAL_MOST_TASKS = 512 };

/* Improves the incumbent by serial list scheduling and local search in up to `steps` steps; makes the first incumbent if
 * there is none.  Problems with more than PZ_LOCAL_MOST_TASKS tasks get a few list schedules. */
void pz_local_search(struct pz_call *call, struct pz_context *c, int64_t steps);

/* Parallel list scheduling with these modes, for problems of any size.  A better schedule becomes the incumbent. */
void pz_list_schedule(struct pz_call *call, struct pz_context *c, const uint32_t *mode);

/* Serial list scheduling with these modes, tasks in the order of descending priority.  Returns the makespan; a better
 * schedule becomes the incumbent.  DBL_MAX: the problem is too large, or there is no memory. */
double pz_serial_schedule(struct pz_context *c, const uint32_t *mode, const double *priority);

/* Lets every task of the incumbent start as early as the tasks that start before it allow. */
void pz_left_shift_incumbent(struct pz_context *c);

#endif
