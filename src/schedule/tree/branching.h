/* Branching: constant data of the search over partial schedules (partial.h): orders of tasks,
 * predecessors and successors of each, measures of work. */
#ifndef PZ_SCHEDULE_TREE_BRANCHING_H
#define PZ_SCHEDULE_TREE_BRANCHING_H

#include "schedule/model/bits.h"
#include "schedule/model/context.h"

enum { PZ_TREE_MOST_TASKS = 256 };
_Static_assert((int)PZ_TREE_MOST_TASKS <= (int)PZ_BITS, "sets hold every task");

/* Tuned: of larger sets energy says as much. */
enum { PZ_LARGEST_DISJUNCTIVE = 8 };

struct pz_branching {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_slot *slots; /* of the partial schedule at hand */
  uint32_t *by_tail;     /* tasks, longest tail first: for bounds */
  uint32_t *by_path;     /* longest tail with the task itself first: the order of branching */
  uint32_t *rank;        /* in by_path */
  struct pz_bits *before, *after;  /* by task: all that must come before it, and after it */
  struct pz_bits *interchangeable; /* by task: interchangeable ones that start no later, if ready */
  int n_measures;                  /* of energy, by surrogate resource and by dual values */
  double (*work)[PZ_MEASURES];     /* by place in by_tail: the least */
  double (*rates)[PZ_MEASURES];    /* by mode: work in a second */
  struct pz_bits all, milestones;  /* tasks; those that can take no time (milestones) */
  uint32_t disjunctive[PZ_LARGEST_DISJUNCTIVE]; /* no two run at once, longest tail first */
  uint32_t n_disjunctive, n_waits;
  bool milestones_use; /* some milestone uses a resource */
  int words;
};

/* False: no memory. */
bool pz_branching_init(struct pz_branching *g, struct pz_context *c, struct pz_arena *arena);

/* Adds tasks that an automorphism of the problem exchanges to g->interchangeable; `deferred` tasks,
 * if not NULL, are not there. */
void pz_automorphisms(struct pz_branching *g, const bool *deferred);

/* Are the sets of tasks the same? */
static inline bool pz_branching_same(const struct pz_branching *g, const struct pz_bits *a,
                                     const struct pz_bits *b) {
  for (int w = 0; w < g->words; w++)
    if (a->w[w] != b->w[w]) return false;
  return true;
}

/* Are all tasks of a in b? */
static inline bool pz_branching_within(const struct pz_branching *g, const struct pz_bits *a,
                                       const struct pz_bits *b) {
  for (int w = 0; w < g->words; w++)
    if (a->w[w] & ~b->w[w]) return false;
  return true;
}

#endif
