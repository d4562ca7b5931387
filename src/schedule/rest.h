/* Schedules at rest: nothing runs.
 *
 * A task that runs alone, from one rest to the next, may as well run later, just before something
 * that must come after it, or at the end.  So from rest two tasks or more start together, a phase
 * begins, once all that they and those that join them before the next rest need has run alone, each
 * task in its fastest mode; and at the end what is left runs alone.
 *
 * The delay of a rest is its time less that of all it has done, had each task run alone.  A rest is
 * no better than one with no more delay that has done no more: there what it has done more can run
 * alone.
 *
 * Nothing is lost by what is left out: of a best schedule, as far as it is still to come, every
 * step of the search leaves no more tasks that start in phases, and every start fewer. */
#ifndef PZ_SCHEDULE_REST_H
#define PZ_SCHEDULE_REST_H

#include "core/vec.h"
#include "schedule/partial.h"

struct pz_picked {
  uint32_t task, mode;
};

struct pz_rest {
  struct pz_growth *g;
  bool often;   /* most tasks leave no room beside them: worth the trouble */
  bool stopped; /* by a visitor */
  bool *alone;  /* by mode: it leaves no room for any other task */
  /* by number of tasks picked */
  char *nodes; /* struct pz_partial, each of node_bytes */
  size_t node_bytes;
  struct pz_picked *picked;
  struct pz_bits *needs; /* what must run before them */
  struct pz_bits *apart; /* what cannot run beside them */
  int32_t (*room)[PZ_RESOURCES];
  struct pz_vec past; /* rests seen */
};

/* False: no memory. */
bool pz_rest_init(struct pz_rest *x, struct pz_growth *g, struct pz_arena *arena);

double pz_rest_delay(const struct pz_rest *x, double t, const struct pz_bits *done);

/* Is it no better than one seen before?  If not, it is seen now. */
bool pz_rest_seen(struct pz_rest *x, const struct pz_partial *rest);

/* Since a rest of this delay: would all that was started have been done at the next end if each had
 * run alone?  Then what follows can follow the rest. */
bool pz_rest_is_better(const struct pz_rest *x, double delay_s, const struct pz_bits *started,
                       double next);

/* What is left runs alone. */
const struct pz_partial *pz_rest_finish(struct pz_rest *x, const struct pz_partial *rest);

/* Every set of tasks, of one or more, that may start together from the rest, with what is needed
 * later too from two on: the visitor says whether to go on to those that have it as a part. */
typedef bool pz_rest_visitor(void *to, const struct pz_partial *n, uint32_t picked);
void pz_rest_starts(struct pz_rest *x, const struct pz_partial *rest, pz_rest_visitor *visit,
                    void *to);

#endif
