/* Parallel list scheduling for problems of any size. */
#ifndef PZ_SCHEDULE_HEURISTIC_LIST_SCHEDULE_H
#define PZ_SCHEDULE_HEURISTIC_LIST_SCHEDULE_H

#include "schedule/model/context.h"

/* One pass with these modes; a better schedule becomes the incumbent.  PZ_NO_MEMORY is the only
 * error. */
PZ_NODISCARD enum pz_status pz_list_schedule(struct pz_context *c, const uint32_t *mode,
                                             struct pz_error *err);

#endif
