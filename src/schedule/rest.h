/* Schedules at rest: nothing runs.
 *
 * Between rests tasks run beside others, in phases, or one runs alone, in its fastest mode.  One
 * that runs alone may as well run at the first rest at which all that must come before it is done;
 * one that nothing waits for, at the end.  So at rest every task that is ready and that others wait
 * for either runs alone, now, or is promised to run in a phase; then a phase begins, with two tasks
 * or more.
 *
 * The delay of a rest is its time less that of all it has done, had each task run alone.  A rest is
 * no better than one with no more delay, no more done and no more promised: there what it has done
 * more can run alone.
 *
 * Nothing is lost by what is left out: of a best schedule, as far as it is still to come, every
 * step of the search leaves no more tasks that start in phases, and every start fewer. */
#ifndef PZ_SCHEDULE_REST_H
#define PZ_SCHEDULE_REST_H

#include "core/vec.h"
#include "schedule/partial.h"

struct pz_rest {
  struct pz_growth *g;
  bool often;             /* most tasks leave no room beside them: worth the trouble */
  bool slow;              /* so are phases, by far: their bound is worth its trouble too */
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

/* phase.c: for what n, in a phase since such a rest, can grow to.  What was promised before that
 * rest is owed: a phase that runs some of it need save nothing. */
double pz_rest_phase_bound(const struct pz_rest *x, const struct pz_partial *n,
                           const struct pz_bits *owed, double delay_s);

/* The first task that runs alone now or is promised; PZ_NONE: there is no more. */
uint32_t pz_rest_next(const struct pz_rest *x, const struct pz_partial *n);

#endif
