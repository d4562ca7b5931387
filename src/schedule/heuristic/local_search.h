/* Local search over modes and priorities. */
#ifndef PZ_SCHEDULE_HEURISTIC_LOCAL_SEARCH_H
#define PZ_SCHEDULE_HEURISTIC_LOCAL_SEARCH_H

#include "schedule/model/context.h"

enum { PZ_LOCAL_MOST_TASKS = 512 };

/* Serial list scheduling and local search from the incumbent, up to `steps` steps; larger problems
 * get a few list schedules.  PZ_NO_MEMORY is the only error. */
PZ_NODISCARD enum pz_status pz_local_search(struct pz_context *c, int64_t steps,
                                            struct pz_error *err);
/* Parallel list scheduling, one pass with these modes, for problems of any size; a better schedule
 * becomes the incumbent.  PZ_NO_MEMORY is the only error. */
PZ_NODISCARD enum pz_status pz_list_schedule(struct pz_context *c, const uint32_t *mode,
                                             struct pz_error *err);
/* One schedule: these modes, tasks by decreasing priority.  Returns its makespan. */
double pz_serial_schedule(struct pz_context *c, const uint32_t *mode, const double *priority);

/* Everything in the incumbent as early as what starts before it allows. */
void pz_left_shift_incumbent(struct pz_context *c);

#endif
