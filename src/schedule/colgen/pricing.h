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

struct pz_subset {
  double value;
  uint32_t n;
  uint32_t task[PZ_SUBSET_MOST_TASKS], mode[PZ_SUBSET_MOST_TASKS]; /* mode: of the task */
};

/* Parts of the order of choices.  Each has multipliers for the choices from its beginning on. */
enum { PZ_PRICING_PARTS = 4 };

/* A task in a mode. */
struct pz_choice {
  double rate;
  double reduced[PZ_PRICING_PARTS]; /* by part: the rate minus the multipliers of the mode's use */
  struct pz_mode of;                /* a copy of the mode */
  uint32_t task, mode, chain;
};

struct pz_extension {
  uint32_t choice;     /* in the order */
  bool by_multipliers; /* whether multipliers give the bound */
  double most;         /* bound of the value that it and the choices after it can add */
};

struct pz_pricing {
  const struct pz_problem *p;
  const struct pz_techniques *o;
  const uint32_t *mode_at;         /* as in the context */
  double *rate;                    /* by mode, set by the caller */
  struct pz_bits *incompatible;    /* by task: tasks that never run beside it, and itself */
  struct pz_bits *interchangeable; /* by task: tasks with the same modes */
  struct pz_bits *preferred;       /* by task: of these, the tasks that dominate it */
  uint32_t *chain;                 /* by task: tasks of one chain never run beside each other */
  uint32_t n_chains;
  struct pz_choice *order; /* choices by falling rate, with rates above 0 */
  uint32_t n_order;
  struct pz_bits priced; /* tasks that have choices */
  double *best_value;    /* by task: the largest value found with it as first choice, at least 1 */
  uint32_t part[PZ_PRICING_PARTS];                   /* where each begins */
  double multiplier[PZ_PRICING_PARTS][PZ_RESOURCES]; /* of the whole capacity of each resource */
  double unit[PZ_RESOURCES];                         /* 1 / capacity */
  bool used[PZ_RESOURCES];
  double *most_of, *reduced_of; /* by chain: largest rates of the choices looked at */
  struct pz_extension *more;    /* by number of tasks in the subset: choices that may be added */
  struct pz_subset now, best;
  double most;               /* no subset has a larger value */
  int64_t nodes, most_nodes; /* of a search, and its limit, which the caller sets */
  int64_t n_cut,
      n_replaced; /* pruned by multipliers and by dominance since the caller set them to 0 */
};

/* Returns false if there is no memory. */
bool pz_pricing_init(struct pz_pricing *x, const struct pz_context *c, struct pz_arena *arena);

/* Prepares searches with the current rates. */
void pz_pricing_begin(struct pz_pricing *x);

/* Forgets the values that were found. */
void pz_pricing_reset(struct pz_pricing *x);

/* Finds in `best` the subset of largest value whose first choice is order[k], if its value is above 1 and above those
 * found before with the same task as first choice.  Otherwise best.n is 0. */
void pz_pricing_solve(struct pz_pricing *x, uint32_t k);

#endif
