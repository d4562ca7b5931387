/* A scheduling problem (multi-mode RCPSP): operators with precedence constraints, each run in one
 * of its modes on a chip's tensor cores, vector cores and link, without preemption, so that the
 * makespan is minimal.
 *
 * A mode uses an amount of each resource for a time.  Memory bandwidths are resources too, shared
 * by concurrent operators.  The original system's problem is the special case of two modes (one
 * core of the operator's class, or all of them), see instance.h; layer.h builds the problem of a
 * model's layer on a chip. */
#ifndef PZ_SCHEDULE_MODEL_PROBLEM_H
#define PZ_SCHEDULE_MODEL_PROBLEM_H

#include "core/arena.h"

/* p becomes an array of n zeroed items.  False: no memory. */
#define PZ_ARRAY(arena, p, n) (((p) = pz_arena_alloc(arena, n, sizeof *(p))) != NULL)

enum { PZ_RATE_PARTS = 1 << 20 };

/* What the maker of a problem calls a mode: so many cores of its class, or one of these. */
enum { PZ_MODE_NONE = 0, PZ_MODE_SINGLE = -1, PZ_MODE_INTRA = -2 };

struct pz_mode {
  int32_t use[PZ_RESOURCES];
  int32_t label;
  double s, j;
  double hbm_s, glb_s; /* time at the memories, had they nothing else to do, for reports; 0: not
                          known, or none */
};

/* Does it fit within the residual capacity? */
static inline bool pz_mode_fits(const int32_t residual[PZ_RESOURCES], const struct pz_mode *m) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r] > residual[r]) return false;
  return true;
}

/* "single", "intra", "link", "none", or the number of cores, in buf. */
const char *pz_mode_name(const struct pz_mode *m, char buf[16]);

struct pz_task {
  const char *name;
  int64_t id; /* as the input names it */
  const struct pz_mode *modes;
  uint32_t n_modes;
  enum pz_op_class op_class; /* for reports: the solvers look at modes only */
  const uint32_t *pred, *succ;
  uint32_t n_pred, n_succ;
};

/* Built in an arena; tasks stand in topological order. */
struct pz_problem {
  int32_t capacity[PZ_RESOURCES];
  const struct pz_task *tasks;
  uint32_t n;
};

struct pz_edge {
  uint32_t before, after;
};

/* A problem from tasks (without edges) and edges between their indices.  Checks: no cycle, times
 * finite and not negative, every task has a mode that fits the capacities (others are left out).
 * Everything is copied. */
PZ_NODISCARD enum pz_status pz_problem_make(struct pz_arena *arena,
                                            const int32_t capacity[PZ_RESOURCES],
                                            const struct pz_task *tasks, uint32_t n,
                                            const struct pz_edge *edges, uint32_t n_edges,
                                            struct pz_problem *out, struct pz_error *err);

/* Can it be a milestone (of zero duration) and use a resource?  Then it needs capacity at its
 * instant. */
bool pz_milestone_uses(const struct pz_task *t);

/* Same durations and uses, in the same order. */
bool pz_same_modes(const struct pz_task *a, const struct pz_task *b);

/* Where a task runs. */
struct pz_slot {
  double start, end;
  uint32_t mode;
};

#endif
