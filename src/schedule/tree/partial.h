/* Partial schedules in order of time, the nodes of depth_first.c and best_first.c.
 *
 * A partial schedule is a time t with some tasks finished and some running.  It is extended by starting a task at t in
 * some mode (pz_partial_start), by advancing to the next end (pz_partial_advance), or by running tasks alone
 * (pz_partial_alone). */
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
  struct pz_bits ready; /* not started, with all predecessors finished */
  double t;
  int32_t free[PZ_RESOURCES];
  /* the interval that ended at t: */
  double t_before;
  int32_t free_before[PZ_RESOURCES];
  struct pz_bits could_before; /* tasks that were eligible at its beginning, or earlier */
  double left_s;               /* dual value of the tasks that run or have not started */
  double alone_s;              /* time of all started tasks if each had run alone */
  struct pz_bits not_now;      /* at an idle point: ready tasks that do not run alone here */
  uint32_t last_rank;          /* of the last task started at t, or PZ_NONE */
  uint32_t
      wait; /* the same number for all nodes of one wait, in which time advances and nothing starts */
  uint32_t n_running;
  struct pz_running run[];
};

/* An array of partial schedules of a problem, each with room for all tasks running (pz_partial_at). */
struct pz_partials {
  char *nodes;
  size_t node_bytes;
};
/* Allocates n of them.  Returns false if there is no memory. */
bool pz_partials_init(struct pz_partials *x, uint32_t tasks, size_t n, struct pz_arena *arena);

static inline struct pz_partial *pz_partial_at(const struct pz_partials *x, uint32_t k) {
  return (struct pz_partial *)(void *)(x->nodes + k * x->node_bytes);
}

/* The beginning: only milestones are started.  Deferred tasks (NULL: none) count as done. */
void pz_partial_begin(struct pz_branching *g, const bool *deferred, struct pz_partial *out);

/* Copies a partial schedule without the unused part of run[]. */
void pz_partial_copy(struct pz_partial *to, const struct pz_partial *from);

/* Iterates over tasks and modes that may start now and come after the last one started, so that starts at one time have
 * only one order:
 *     for (k = pz_partial_starts(g, n); pz_partial_next(g, n, &k);)
 * Those with which no schedule is better than the incumbent are left out. */
struct pz_start {
  uint32_t task, mode;
  uint32_t next, n_modes; /* modes of the task that are left */
  struct pz_bits ranks;   /* ranks of the tasks that are left */
};
struct pz_start pz_partial_starts(const struct pz_branching *g, const struct pz_partial *n);
bool pz_partial_next(const struct pz_branching *g, const struct pz_partial *n, struct pz_start *k);

/* Whether one more task could run from now on and be done at the next end.  Then a schedule in which nothing starts until
 * then is no better (it is not active).  Returns false if a milestone uses a resource. */
bool pz_partial_wait_dominated(const struct pz_branching *g, const struct pz_partial *n);
void pz_partial_start(struct pz_branching *g, const struct pz_partial *from, uint32_t i,
                      uint32_t mode, struct pz_partial *to);

/* The fastest mode of a task that is not eliminated. */
uint32_t pz_partial_fastest(const struct pz_branching *g, uint32_t i);

/* Runs these tasks one after another, each in its fastest mode.  Nothing else may run, and the tasks must include their
 * predecessors that are not finished. */
void pz_partial_alone(struct pz_branching *g, struct pz_partial *n, const struct pz_bits *tasks);

/* Advances to the next end of a running task. */
void pz_partial_advance(struct pz_branching *g, const struct pz_partial *from,
                        struct pz_partial *to);

bool pz_partial_complete(const struct pz_branching *g, const struct pz_partial *n);
double pz_partial_end(const struct pz_partial *n); /* the last end of started tasks */

/* The part of a partial schedule that decides what may follow it: when the next task may start, and the running tasks. */
struct pz_going {
  double t;
  const struct pz_running *run;
  uint32_t n;
};

/* Cutset dominance (Demeulemeester and Herroelen 1992): whether `a` is dominated by `by`, which has the same tasks started.
 * It is if the tasks of `by` are done no later and use no more, so that whatever follows `a` can follow `by`. */
bool pz_partial_dominated(const struct pz_branching *g, const struct pz_going *a,
                          const struct pz_going *by);

#endif
