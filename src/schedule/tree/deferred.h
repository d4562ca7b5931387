/* Deferred tasks: short tasks without successors.
 *
 * Tree search leaves them out of its tree and inserts them into each complete schedule where they fit.  It then proves
 * that no schedule of the other tasks is better than the shortest one into which the deferred tasks did not fit. */
#ifndef PZ_SCHEDULE_TREE_DEFERRED_H
#define PZ_SCHEDULE_TREE_DEFERRED_H

#include "schedule/model/profile.h"
#include "schedule/tree/partial.h"

struct pz_deferred {
  bool *is_deferred; /* by task */
  bool *failed;      /* by task: it did not fit into some schedule */
  double unfit_s; /* makespan of the shortest schedule into which the deferred tasks did not fit */
  struct pz_profile profile;
};

/* A search that proves the incumbent (raises the lower bound to it) or stops after `steps` steps.
 * If tasks are deferred (`deferred` is not NULL), they are inserted into the schedules of the other
 * tasks, and the bound is that of the other tasks. */
typedef void pz_searcher(struct pz_context *context, int64_t steps, struct pz_deferred *deferred);

/* Depth-first and best-first branch and bound over schedules in order of time. */
pz_searcher pz_depth_first_search, pz_best_first_search;

/* Searches first without the deferred tasks, then repeatedly with those that did not fit, and finally
 * with all tasks.  Does nothing for more than PZ_TREE_MOST_TASKS tasks. */
void pz_deferred_search(struct pz_context *context, pz_searcher *search, int64_t steps);

/* Inserts the deferred tasks into the complete schedule in tree->slots.  Returns its makespan
 * with them. */
double pz_deferred_insert(struct pz_deferred *deferred, const struct pz_branching *tree,
                          double makespan);

#endif
