/* Constant data of the search over partial schedules (partial.h): orders of tasks, their
 * predecessors and successors, symmetries, and measures of energy. */
#ifndef PZ_SCHEDULE_TREE_BRANCHING_H
#define PZ_SCHEDULE_TREE_BRANCHING_H

#include "schedule/model/bits.h"
#include "schedule/model/context.h"

enum { PZ_TREE_MOST_TASKS = 256 };
_Static_assert((int)PZ_TREE_MOST_TASKS <= (int)PZ_BITS, "sets hold every task");

/* Tuned: for larger disjunctive sets, energy bounds are as good. */
enum { PZ_LARGEST_DISJUNCTIVE = 8 };

struct pz_branching {
  struct pz_context *context;
  const struct pz_problem *problem;
  struct pz_slot *slots; /* by task: the current partial schedule, or a complete one */
  /* The tail of a task is a lower bound on the time from its end to the end of the schedule. */
  uint32_t *by_tail; /* tasks by descending tail, the order in which bounds visit them */
  uint32_t *by_path; /* tasks by descending tail plus duration, the order of branching */
  uint32_t *rank;    /* by task: its index in by_path */
  struct pz_bits *predecessors, *successors; /* by task: direct and indirect */
  struct pz_bits *interchangeable;    /* by task: tasks that start before it if both are ready */
  int n_measures;                     /* measures of energy: surrogate resources and dual values */
  double (*energy)[PZ_MEASURES];      /* by index in by_tail: least energy of the task's modes */
  double (*energy_rate)[PZ_MEASURES]; /* by mode: energy per unit of time */
  struct pz_bits all, milestones;     /* all tasks, and those that can have zero duration */
  uint32_t disjunctive[PZ_LARGEST_DISJUNCTIVE]; /* no two run concurrently; longest tail first */
  uint32_t n_disjunctive;
  uint32_t n_waits;    /* waits numbered so far (struct pz_partial) */
  bool milestones_use; /* whether some milestone uses a resource */
  int words;           /* number of words that sets of tasks use */
};

/* Derives the data from the context; heads, tails and duals must be up to date. */
void pz_branching_init(struct pz_call *call, struct pz_branching *tree, struct pz_context *context);

/* Adds tasks that an automorphism of the problem exchanges to tree->interchangeable.  Deferred
 * tasks (NULL if there are none) are left out. */
void pz_automorphisms(struct pz_branching *tree, const bool *deferred);

/* Returns whether two sets of tasks are equal. */
static inline bool pz_branching_same(const struct pz_branching *tree, const struct pz_bits *a,
                                     const struct pz_bits *b) {
  for (int w = 0; w < tree->words; w++)
    if (a->words[w] != b->words[w]) return false;
  return true;
}

/* Returns whether all tasks of a are in b. */
static inline bool pz_branching_within(const struct pz_branching *tree, const struct pz_bits *a,
                                       const struct pz_bits *b) {
  for (int w = 0; w < tree->words; w++)
    if (a->words[w] & ~b->words[w]) return false;
  return true;
}

#endif
