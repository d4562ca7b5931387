/* Idle points: moments of a schedule at which nothing runs.
 *
 * Between two idle points either tasks run concurrently, in a busy period, or one task runs alone in its fastest mode.  A
 * task that runs alone may as well run at the first idle point at which its predecessors are done, or at the end if it has
 * no successors.  Therefore, at an idle point, every ready task with successors either runs alone or is postponed; then a
 * busy period of two or more tasks begins.
 *
 * The regret of an idle point is its time minus the time of all finished tasks run alone.  An idle point is dominated by
 * one with no more regret and no more tasks done, because the missing tasks can run alone there.
 *
 * The search remains exact.  Follow an optimal schedule through the search.  Where it is pruned, another schedule that is
 * no worse continues from a state that is kept, and the number of tasks that have yet to start in busy periods does not
 * grow.  It stays equal only if the other schedule has one more task started or is at an idle point, and from an idle
 * point the next start is never one that was possible before.  Therefore the search reaches the end of one of these
 * schedules.  A rule that forbids a task to run alone later because it did not run alone here would break this argument:
 * the schedule that replaces a pruned one may need exactly that. */
#ifndef PZ_SCHEDULE_TREE_IDLE_POINT_H
#define PZ_SCHEDULE_TREE_IDLE_POINT_H

#include "core/vec.h"
#include "schedule/tree/partial.h"

struct pz_idle {
  struct pz_branching *tree;
  /* whether branching on idle points pays, because most tasks leave no capacity for others */
  bool frequent;
  /* whether the bound of busy periods pays, because tasks are much slower in them than alone */
  bool period_bound_pays;
  struct pz_bits inner;   /* tasks with successors, which an idle point decides on */
  struct pz_bits joining; /* tasks that leave capacity for others in some mode */
  bool *joins;            /* by mode: it leaves capacity, so that it may run in a busy period */
  struct pz_vec past;     /* struct past_idle_point: idle points that were visited */
};

/* Finds the modes and tasks that leave capacity for other tasks, and whether idle points pay. */
void pz_idle_init(struct pz_call *call, struct pz_idle *idle, struct pz_branching *tree);

/* Returns whether an idle point is dominated by one that was visited before.  If not, it is
 * stored. */
bool pz_idle_dominated(struct pz_call *call, struct pz_idle *idle, const struct pz_partial *node);

/* Returns a lower bound on the completions of a node that has been in a busy period since an
 * idle point with this regret. */
double pz_busy_period_bound(const struct pz_idle *idle, const struct pz_partial *node,
                            double regret_s);

#endif
