/* Feasible subsets, the columns of the linear program in column_generation.c, and the pricing problem.
 *
 * A feasible subset is a set of tasks in modes that can run concurrently: no two are ordered by precedence, and together
 * they fit the capacities.  Its value is the sum of its modes' rates (dual value per time).  The pricing problem asks for
 * the subset of largest value.
 *
 * Branch and bound adds tasks in modes of descending rate.  The value that can be added is bounded by Lagrangian
 * relaxation of the capacities (Fisher 1981), with multipliers per resource that are computed for the remaining choices
 * only: with wide modes among them the bound would be weak. */
#ifndef PZ_SCHEDULE_COLGEN_PRICING_H
#define PZ_SCHEDULE_COLGEN_PRICING_H

#include "schedule/model/bits.h"
#include "schedule/model/context.h"

enum { PZ_SUBSET_MOST_TASKS = PZ_BITS };

/* A set of tasks, each in a mode. */
struct pz_subset {
  double value; /* sum of the rates of the modes */
  uint32_t n;   /* number of tasks */
  uint32_t task[PZ_SUBSET_MOST_TASKS], mode[PZ_SUBSET_MOST_TASKS]; /* mode: index within its task */
};

/* Choices are sorted by descending rate and divided into parts.  Each part has its own multipliers,
 * which bound the choices from its beginning on. */
enum { PZ_PRICING_PARTS = 4 };

/* A task in a mode. */
struct pz_choice {
  double rate;
  /* [part]: the rate minus the mode's resource use at the prices (multipliers) of the part */
  double reduced[PZ_PRICING_PARTS];
  struct pz_mode chosen_mode; /* a copy of the mode */
  uint32_t task, mode, chain;
};

/* A choice that may be added to the current subset. */
struct pz_extension {
  uint32_t choice;     /* index in the sorted choices */
  bool by_multipliers; /* whether multipliers give the bound */
  double most;         /* upper bound on the value that this and the following extensions can add */
};

struct pz_pricing {
  const struct pz_problem *problem;
  const struct pz_techniques *techniques;
  const uint32_t *first_mode;      /* as in the context */
  double *rate;                    /* by mode, set by the caller */
  struct pz_bits *incompatible;    /* by task: itself, and tasks that never run concurrently */
  struct pz_bits *interchangeable; /* by task: other tasks with the same modes */
  struct pz_bits *preferred;       /* by task: interchangeable tasks that dominate it */
  uint32_t *chain;                 /* by task: its chain, of which no two tasks run concurrently */
  uint32_t n_chains;
  struct pz_choice *choices; /* modes with rates above 0, by descending rate */
  uint32_t n_choices;
  struct pz_bits priced; /* tasks that have choices */
  double *best_value;    /* by task: largest value found with this first task, at least 1 */
  uint32_t part[PZ_PRICING_PARTS];                   /* index of the first choice of each part */
  double multiplier[PZ_PRICING_PARTS][PZ_RESOURCES]; /* price of the capacity of a resource */
  double unit[PZ_RESOURCES];                         /* 1 / capacity */
  bool used[PZ_RESOURCES];                           /* whether some mode uses the resource */
  double *most_rate, *most_reduced; /* by chain: largest rate and reduced rate seen so far */
  struct pz_extension *extensions;  /* n_choices entries for each number of tasks in the subset */
  struct pz_subset current, best;
  double upper_bound;         /* no subset has a larger value */
  int64_t nodes, most_nodes;  /* nodes of the current search, and their limit, set by the caller */
  int64_t n_cut, n_dominated; /* choices pruned by multipliers and by dominance */
};

/* Allocates the pricing problem and sets everything that does not depend on rates. */
void pz_pricing_init(struct pz_call *call, struct pz_pricing *pricing,
                     const struct pz_context *context);

/* Prepares pz_pricing_solve() for the current rates. */
void pz_pricing_begin(struct pz_pricing *pricing);

/* Resets the largest values that were found for each first task. */
void pz_pricing_reset(struct pz_pricing *pricing);

/* Sets `best` to the subset of largest value that has this first choice and otherwise only later
 * ones.  best.n is 0 if no value is above 1 and above those found before for the same first task. */
void pz_pricing_solve(struct pz_pricing *pricing, uint32_t first);

#endif
