/* Deferred tasks: short tasks without successors.  Tree search leaves them out of its tree and
 * inserts them into each complete schedule where they fit.  It then proves that no schedule of the
 * others is better than the shortest one into which the deferred tasks did not fit. */
#ifndef PZ_SCHEDULE_TREE_DEFERRED_H
#define PZ_SCHEDULE_TREE_DEFERRED_H

#include "schedule/model/profile.h"
#include "schedule/tree/partial.h"

struct pz_deferred {
  bool *is;       /* by task */
  bool *failed;   /* by task: it did not fit once */
  double unfit_s; /* the shortest schedule into which they did not fit */
  struct pz_profile profile;
};

/* A search that proves the incumbent (bound_s = best_s), or stops after `steps` steps.  Deferred
 * tasks, if there are any, are fitted into the schedules of the others, and the bound is that of
 * the others. */
typedef enum pz_status pz_searcher(struct pz_context *c, int64_t steps,
                                   struct pz_deferred *deferred, struct pz_error *err);
/* Depth-first and best-first branch and bound over schedules in order of time. */
PZ_NODISCARD pz_searcher pz_depth_first_search, pz_best_first_search;

/* A search first without short tasks that nothing waits for, as long as those that do not fit are
 * few, then with all.  Does nothing for more than PZ_TREE_MOST_TASKS tasks. */
PZ_NODISCARD enum pz_status pz_deferred_search(struct pz_context *c, pz_searcher *search,
                                               int64_t steps, struct pz_error *err);

/* Put them into the complete schedule in g->slots; returns its makespan then. */
double pz_deferred_insert(struct pz_deferred *x, const struct pz_branching *g, double makespan);

#endif
