/* Constant data of the search over partial schedules (partial.h): orders of tasks, their predecessors and successors,
 * symmetries, and measures of energy. */
#ifndef PZ_SCHEDULE_TREE_BRANCHING_H
#define PZ_SCHEDULE_TREE_BRANCHING_H

#include "schedule/model/bits.h"
#include "schedule/model/context.h"

enum { PZ_TREE_MOST_TASKS = 256 };
_Static_assert((int)PZ_TREE_MOST_TASKS <= (int)PZ_BITS, "sets hold every task");

/* Tuned: for larger sets energy bounds are as good. */
enum { PZ_LARGEST_DISJUNCTIVE = 8 };

struct pz_branching {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_slot *slots; /* of the current partial schedule */
  uint32_t *by_tail;     /* tasks, longest tail first: for bounds */
  uint32_t *by_path;     /* tasks, longest tail plus own time first: the order of branching */
  uint32_t *rank;        /* by task: its index in by_path */
  struct pz_bits *before, *after; /* by task: all its predecessors, and all its successors */
  struct pz_bits
      *interchangeable; /* by task: tasks that, if both are ready, start no later without loss */
  int n_measures;       /* of energy: by surrogate resource and by dual values */
  double (*work)[PZ_MEASURES];    /* by index in by_tail: the least energy */
  double (*rates)[PZ_MEASURES];   /* by mode: energy per second */
  struct pz_bits all, milestones; /* all tasks, and those that can have zero duration */
  uint32_t disjunctive
      [PZ_LARGEST_DISJUNCTIVE]; /* tasks of which no two run at once, longest tail first */
  uint32_t n_disjunctive, n_waits;
  bool milestones_use; /* some milestone uses a resource */
  int words;
};

/* Returns false if there is no memory. */
bool pz_branching_init(struct pz_branching *g, struct pz_context *c, struct pz_arena *arena);

/* Adds tasks that an automorphism of the problem exchanges to g->interchangeable.  Deferred tasks (NULL: none) are left
 * out. */
void pz_automorphisms(struct pz_branching *g, const bool *deferred);

/* Whether two sets of tasks are equal. */
static inline bool pz_branching_same(const struct pz_branching *g, const struct pz_bits *a,
                                     const struct pz_bits *b) {
  for (int w = 0; w < g->words; w++)
    if (a->w[w] != b->w[w]) return false;
  return true;
}

/* Whether all tasks of a are in b. */
static inline bool pz_branching_within(const struct pz_branching *g, const struct pz_bits *a,
                                       const struct pz_bits *b) {
  for (int w = 0; w < g->words; w++)
    if (a->w[w] & ~b->w[w]) return false;
  return true;
}

#endif
