/* Partial schedules in order of time, the nodes of depth_first.c and best_first.c: a time t with
 * some tasks finished and some running.  One is extended by starting a task at t in some mode, or
 * by advancing to the next end. */
#ifndef PZ_SCHEDULE_TREE_PARTIAL_H
#define PZ_SCHEDULE_TREE_PARTIAL_H

#include "schedule/tree/branching.h"

/* Comparisons of partial schedules in one step. */
enum { PZ_LOOKS_PER_STEP = 16 };

struct pz_running {
  uint32_t task, mode;
  double end;
};

struct pz_partial {
  struct pz_bits started, finished;
  struct pz_bits ready; /* not started, and all that must come before is finished */
  double t;
  int32_t free[PZ_RESOURCES];
  /* of the interval that ended at t */
  double t_before;
  int32_t free_before[PZ_RESOURCES];
  struct pz_bits could_before; /* tasks that were eligible at its beginning, or earlier */
  double left_s;               /* dual value of what runs or has not started */
  double alone_s;              /* all that has started, had each task run alone */
  struct pz_bits not_now;      /* at an idle point: ready, and not to run alone here */
  uint32_t last_rank;          /* of the last task started at t, or PZ_NONE */
  uint32_t wait;               /* those of one wait share this: time advances, nothing starts */
  uint32_t n_running;
  struct pz_running run[];
};

/* Room for partial schedules of a problem: `n` of them, each for all tasks running.  pz_partial_at
 * is one of them. */
struct pz_partials {
  char *nodes;
  size_t node_bytes;
};
bool pz_partials_init(struct pz_partials *x, uint32_t tasks, size_t n, struct pz_arena *arena);

static inline struct pz_partial *pz_partial_at(const struct pz_partials *x, uint32_t k) {
  return (struct pz_partial *)(void *)(x->nodes + k * x->node_bytes);
}

/* Nothing started but milestones; `deferred` tasks, where not NULL, count as done. */
void pz_partial_begin(struct pz_branching *g, const bool *deferred, struct pz_partial *out);
/* All but the part of run that is not used. */
void pz_partial_copy(struct pz_partial *to, const struct pz_partial *from);

/* Tasks and modes that may start now, after the last one started, so that there is one order: for
 * (k = pz_partial_starts(g, n); pz_partial_next(g, n, &k);).  Left out are those with which no
 * schedule is better than the incumbent. */
struct pz_start {
  uint32_t task, mode;
  uint32_t next, n_modes; /* modes of the task still to come */
  struct pz_bits ranks;   /* of tasks still to come */
};
struct pz_start pz_partial_starts(const struct pz_branching *g, const struct pz_partial *n);
bool pz_partial_next(const struct pz_branching *g, const struct pz_partial *n, struct pz_start *k);
/* Could one more task run from now on, and be done at the next end?  Then a schedule in which
 * nothing starts until then is no better (it is not active).  Never where a milestone uses a
 * resource. */
bool pz_partial_wait_dominated(const struct pz_branching *g, const struct pz_partial *n);
void pz_partial_start(struct pz_branching *g, const struct pz_partial *from, uint32_t i,
                      uint32_t mode, struct pz_partial *to);
uint32_t pz_partial_fastest(const struct pz_branching *g, uint32_t i);
/* Nothing runs: these tasks, with all that must come before them, one after another, each in its
 * fastest mode. */
void pz_partial_alone(struct pz_branching *g, struct pz_partial *n, const struct pz_bits *tasks);
/* To the next end. */
void pz_partial_advance(struct pz_branching *g, const struct pz_partial *from,
                        struct pz_partial *to);

bool pz_partial_complete(const struct pz_branching *g, const struct pz_partial *n);
double pz_partial_end(const struct pz_partial *n); /* of what has been started */

/* What counts of a partial schedule for what may follow it: when the next task may start, and what
 * runs. */
struct pz_going {
  double t;
  const struct pz_running *run;
  uint32_t n;
};

/* Cutset dominance, with the same tasks started: are those of `by` done no later than those of `a`,
 * with no more in use?  Then what follows a can follow it (Demeulemeester and Herroelen 1992). */
bool pz_partial_dominated(const struct pz_branching *g, const struct pz_going *a,
                          const struct pz_going *by);

#endif
