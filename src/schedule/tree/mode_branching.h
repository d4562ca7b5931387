/* Branch and bound over modes. */
#ifndef PZ_SCHEDULE_TREE_MODE_BRANCHING_H
#define PZ_SCHEDULE_TREE_MODE_BRANCHING_H

#include "schedule/colgen/column_generation.h"

/* Up to `steps` steps; without column generation (NULL) depth-first search alone. */
PZ_NODISCARD enum pz_status pz_mode_branching(struct pz_context *c, struct pz_colgen *colgen,
                                              int64_t steps, struct pz_error *err);

#endif
