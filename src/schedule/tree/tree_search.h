/* Tree search for a proof, by the technique that is preferred or, where that is switched off, by
 * the other. */
#ifndef PZ_SCHEDULE_TREE_TREE_SEARCH_H
#define PZ_SCHEDULE_TREE_TREE_SEARCH_H

#include "schedule/model/context.h"

enum pz_tree_order { PZ_DEPTH_FIRST, PZ_BEST_FIRST };

/* Up to `steps` steps, first without deferred tasks.  Does nothing for more than PZ_TREE_MOST_TASKS
 * tasks, and where both are switched off. */
PZ_NODISCARD enum pz_status pz_tree_search(struct pz_context *c, enum pz_tree_order preferred,
                                           int64_t steps, struct pz_error *err);

#endif
