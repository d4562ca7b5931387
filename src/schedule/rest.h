/* Schedules at rest: nothing runs.
 *
 * Between rests tasks run beside others, in phases, or one runs alone, in its fastest mode.  One
 * that runs alone may as well run at the first rest at which all that must come before it is done;
 * one that nothing waits for, at the end.  So at rest every task that is ready and that others wait
 * for either runs alone, or not now; then a phase begins, with two tasks or more.
 *
 * The delay of a rest is its time less that of all it has done, had each task run alone.  A rest is
 * no better than one with no more delay and no more done: there what it has done more can run
 * alone.
 *
 * Nothing is lost by what is left out.  Follow a best schedule through the search: where it is left
 * out another one, no worse, goes on from a state that is there, with no more tasks that start in
 * phases still to come, and mostly fewer.  As many they are only where the other one has a task
 * more started, or stands at rest; and from a rest the next start is never one that could have been
 * made before.  So the search gets to the end of one of them.  A rule that forbade a task to
 * run alone later, because it did not run alone here, would break this: the schedule that takes
 * over from one that is left out may want just that. */
#ifndef PZ_SCHEDULE_REST_H
#define PZ_SCHEDULE_REST_H

#include "core/vec.h"
#include "schedule/partial.h"

struct pz_rest {
  struct pz_growth *g;
  bool often;             /* most tasks leave no room beside them: worth the trouble */
  bool slow;              /* phases are, by far, against running alone: their bound is worth it */
  struct pz_bits inner;   /* tasks that others wait for */
  struct pz_bits joining; /* tasks that leave room in some mode */
  bool *joins;            /* by mode: it leaves room, so it may run in a phase */
  struct pz_vec past;     /* rests seen */
};

/* False: no memory. */
bool pz_rest_init(struct pz_rest *x, struct pz_growth *g, struct pz_arena *arena);

/* Is it no better than one seen before?  If not, it is seen now. */
bool pz_rest_seen(struct pz_rest *x, const struct pz_partial *rest);

/* Since a rest of this delay: would all that has started be done at the next end if each had run
 * alone?  Then what follows can follow the rest. */
bool pz_rest_is_better(const struct pz_rest *x, double delay_s, const struct pz_partial *n,
                       double next);

/* phase.c: for what n, in a phase since such a rest, can grow to. */
double pz_rest_phase_bound(const struct pz_rest *x, const struct pz_partial *n, double delay_s);

/* The first task of which it is not decided whether it runs alone now; PZ_NONE: there is no more.
 */
uint32_t pz_rest_next(const struct pz_rest *x, const struct pz_partial *n);

#endif
