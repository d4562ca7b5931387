/* Partial schedules in order of time, the nodes of depth_first.c and best_first.c.
 *
 * A partial schedule is a time `now` with some tasks finished and some running.  It is extended by starting a task now in
 * some mode (pz_partial_start), by advancing to the next end (pz_partial_advance), or by running tasks alone
 * (pz_partial_alone). */
#ifndef PZ_SCHEDULE_TREE_PARTIAL_H
#define PZ_SCHEDULE_TREE_PARTIAL_H

#include "schedule/tree/branching.h"

/* This many comparisons of partial schedules count as one step of the effort limit. */
enum { PZ_LOOKS_PER_STEP = 16 };

struct pz_running {
  uint32_t task, mode;
  double end;
};

struct pz_partial {
  struct pz_bits started, finished;
  struct pz_bits ready; /* not started, with all predecessors finished */
  double now;
  int32_t residual[PZ_RESOURCES];        /* capacity that the running tasks leave */
  double previous;                       /* the decision time before `now` */
  int32_t residual_before[PZ_RESOURCES]; /* residual capacity from then until now */
  struct pz_bits ready_before;           /* tasks that could have started then, or earlier */
  double remaining_dual;                 /* dual value of the tasks that run or have not started */
  double serial;                         /* time of all started tasks if each had run alone */
  struct pz_bits postponed; /* at an idle point: ready tasks that do not run alone here */
  uint32_t last_rank;       /* rank of the last task started now, or PZ_NONE */
  uint32_t wait; /* number of the current wait: equal for nodes between which only time advances */
  uint32_t n_running;
  struct pz_running running[];
};

/* An array of partial schedules, each with room for all tasks in running[]. */
struct pz_partials {
  char *nodes;
  size_t node_bytes;
};
struct pz_partials pz_partials_new(struct pz_call *call, uint32_t n_tasks, size_t n_partials);

/* Returns the k-th partial schedule of the array. */
static inline struct pz_partial *pz_partial_at(const struct pz_partials *partials, uint32_t k) {
  return (struct pz_partial *)(void *)(partials->nodes + k * partials->node_bytes);
}

/* Sets the partial schedule at time 0, in which only milestones are started.  Deferred tasks
 * (NULL if there are none) count as finished. */
void pz_partial_begin(struct pz_branching *tree, const bool *deferred, struct pz_partial *out);

/* Copies a partial schedule without the unused part of running[]. */
void pz_partial_copy(struct pz_partial *to, const struct pz_partial *from);

/* Iterates over tasks and modes that may start now and come after the last one started, so that starts at one time have
 * only one order:
 *     for (start = pz_partial_starts(tree, node); pz_partial_next(tree, node, &start);)
 * Starts after which no schedule is better than the incumbent are skipped. */
struct pz_start {
  uint32_t task, mode;
  uint32_t next_mode, n_modes;  /* modes of the task that are left */
  struct pz_bits untried_ranks; /* ranks of the ready tasks that have not been tried */
};
struct pz_start pz_partial_starts(const struct pz_branching *tree, const struct pz_partial *node);
bool pz_partial_next(const struct pz_branching *tree, const struct pz_partial *node,
                     struct pz_start *start);

/* Returns whether one more task could run from now on and be done at the next end.  Then a
 * schedule in which nothing starts until then is no better (it is not active).  Returns false if
 * a milestone uses a resource. */
bool pz_partial_wait_dominated(const struct pz_branching *tree, const struct pz_partial *node);

/* Sets `to`, which may be `from`, to the partial schedule in which a task starts now in a mode. */
void pz_partial_start(struct pz_branching *tree, const struct pz_partial *from, uint32_t task,
                      uint32_t mode, struct pz_partial *to);

/* Returns the fastest mode of a task that is not eliminated. */
uint32_t pz_partial_fastest(const struct pz_branching *tree, uint32_t task);

/* Runs these tasks one after another, each in its fastest mode.  Nothing else may run, and the
 * tasks must include their predecessors that are not finished. */
void pz_partial_alone(struct pz_branching *tree, struct pz_partial *node,
                      const struct pz_bits *tasks);

/* Advances to the next end of a running task, and finishes the tasks that end then. */
void pz_partial_advance(struct pz_branching *tree, const struct pz_partial *from,
                        struct pz_partial *to);

/* Returns the last end of the started tasks. */
double pz_partial_end(const struct pz_partial *node);

/* The part of a partial schedule on which its completions depend, apart from the set of started tasks:
 * when the next task may start, and the running tasks. */
struct pz_going {
  double next_start;
  const struct pz_running *running;
  uint32_t n;
};

/* Returns whether `by`, which has the same tasks started, dominates `a` (cutset dominance,
 * Demeulemeester and Herroelen 1992): its tasks end no later and use no more, so that every
 * completion of `a` is possible from `by`. */
bool pz_partial_dominated(const struct pz_branching *tree, const struct pz_going *a,
                          const struct pz_going *by);

#endif
