/* Idle points: moments of a schedule at which nothing runs.
 *
 * Between idle points tasks run concurrently, in busy periods, or one runs alone, in its fastest
 * mode.  A task that runs alone may as well run at the first idle point at which its predecessors
 * are done; one without successors, at the end.  So at an idle point every ready task with
 * successors either runs alone or not now; then a busy period begins, with two tasks or more.
 *
 * The regret of an idle point is its time minus that of all finished tasks run alone.  An idle
 * point is dominated by one with no more regret and no more tasks done: the missing tasks can run
 * alone there.
 *
 * The search stays exact.  Follow an optimal schedule through the search: where it is pruned,
 * another one, no worse, continues from a state that is kept, with no more tasks that start in busy
 * periods still to come, and usually fewer.  The number is equal only if the other schedule has one
 * more task started, or is at an idle point; and from an idle point the next start is never one
 * that was possible before.  So the search reaches the end of one of them.  A rule that forbade a
 * task to run alone later because it did not run alone here would break this argument: the schedule
 * that replaces a pruned one may need exactly that. */
#ifndef PZ_SCHEDULE_TREE_IDLE_POINT_H
#define PZ_SCHEDULE_TREE_IDLE_POINT_H

#include "core/vec.h"
#include "schedule/tree/partial.h"

struct pz_idle {
  struct pz_branching *g;
  bool frequent;          /* most tasks leave no capacity beside them: idle points pay */
  bool slow;              /* busy periods are, by far, against running alone: their bound pays */
  struct pz_bits inner;   /* tasks that others wait for */
  struct pz_bits joining; /* tasks that leave capacity in some mode */
  bool *joins;            /* by mode: it may run in a busy period */
  struct pz_vec past;     /* idle points seen */
};

/* False: no memory. */
bool pz_idle_init(struct pz_idle *x, struct pz_branching *g, struct pz_arena *arena);

/* Is it dominated by one seen before?  If not, it is kept. */
bool pz_idle_dominated(struct pz_idle *x, const struct pz_partial *idle);

/* Since an idle point of this regret: would all that has started be done at the next end if each
 * had run alone?  Then what follows can follow the idle point. */
bool pz_idle_dominates(const struct pz_idle *x, double regret_s, const struct pz_partial *n,
                       double next);

/* The first task of which it is not decided whether it runs alone now; PZ_NONE: there is none. */
uint32_t pz_idle_undecided(const struct pz_idle *x, const struct pz_partial *n);

/* A lower bound for the completions of n, in a busy period since an idle point of this regret. */
double pz_busy_period_bound(const struct pz_idle *x, const struct pz_partial *n, double regret_s);

#endif
