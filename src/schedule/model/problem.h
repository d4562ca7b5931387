/* A scheduling problem (multi-mode RCPSP): operators with precedence constraints are run without preemption, each in one
 * of its modes, on the tensor cores, vector cores and link of a chip, so that the makespan is minimal.
 *
 * A mode uses an amount of each resource for a time.  Memory bandwidths and power are resources too, which concurrent
 * operators share.  The problem of the original system is the special case of two modes, one core of the operator's class
 * or all of them (instance.h).  layer.h builds the problem of a model's layer on a chip. */
#ifndef PZ_SCHEDULE_MODEL_PROBLEM_H
#define PZ_SCHEDULE_MODEL_PROBLEM_H

#include "core/call.h"

/* The capacity of a memory bandwidth or of power.  A task's share of it is a number of such units. */
enum { PZ_RATE_PARTS = 1 << 20 };

/* The label of a mode for reports: its number of cores, or one of these. */
enum { PZ_MODE_NONE = 0, PZ_MODE_SINGLE = -1, PZ_MODE_INTRA = -2 };

struct pz_mode {
  int32_t use[PZ_RESOURCES]; /* amount of each resource that it holds */
  int32_t label;
  double duration; /* in seconds in the problem of a layer */
  double energy_j;
  double hbm_s, glb_s; /* time to move its bytes at full bandwidth, for reports; 0 if unknown */
};

/* Returns whether the mode fits within the residual capacity. */
static inline bool pz_mode_fits(const int32_t residual[PZ_RESOURCES], const struct pz_mode *mode) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (mode->use[r] > residual[r]) return false;
  return true;
}

/* Returns "single", "intra", "link", "none" or the number of cores, which is written to
 * `buffer`. */
const char *pz_mode_name(const struct pz_mode *mode, char buffer[16]);

struct pz_task {
  const char *name;
  int64_t id; /* its number in the input */
  const struct pz_mode *modes;
  uint32_t n_modes;
  enum pz_op_class op_class;   /* for reports; solvers use the modes only */
  const uint32_t *pred, *succ; /* direct predecessors and successors, as indices of tasks */
  uint32_t n_pred, n_succ;
};

/* A scheduling problem.  The tasks are in topological order. */
struct pz_problem {
  int32_t capacity[PZ_RESOURCES];
  const struct pz_task *tasks;
  uint32_t n; /* number of tasks */
};

/* The task `before` must end before the task `after` starts. */
struct pz_edge {
  uint32_t before, after;
};

/* Builds a problem from copies of the tasks, to whose indices the edges refer.  Modes that exceed the
 * capacities or that another mode dominates are left out.  Raises PZ_BAD_INPUT if the edges have a
 * cycle, a time is negative or infinite, or no mode of a task fits. */
struct pz_problem pz_problem_build(struct pz_call *call, const int32_t capacity[PZ_RESOURCES],
                                   const struct pz_task *tasks, uint32_t n,
                                   const struct pz_edge *edges, uint32_t n_edges);

/* Returns whether some mode of the task has zero duration (a milestone) and uses a resource, so
 * that it needs free capacity at that instant. */
bool pz_milestone_uses(const struct pz_task *task);

/* Returns whether two tasks have the same durations and uses, in the same order. */
bool pz_same_modes(const struct pz_task *a, const struct pz_task *b);

/* When a task runs, and in which mode. */
struct pz_slot {
  double start, end;
  uint32_t mode;
};

#endif
