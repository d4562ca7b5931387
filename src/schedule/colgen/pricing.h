/* Feasible subsets, the columns of the linear program in column_generation.c, and the pricing
 * problem.
 *
 * A feasible subset is a set of tasks in modes that can run concurrently: no two are ordered by
 * precedence, and together they fit the capacities.  Its value is the sum of its modes' rates (dual
 * value per time).  The pricing problem asks for the subset of largest value.
 *
 * Branch and bound adds tasks in modes of decreasing rate.  What can be added is bounded by
 * Lagrangian relaxation of the capacities (Fisher 1981): multipliers per resource, computed for the
 * remaining choices only; with wide modes among them the bound would be weak. */
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

/* Of the order of choices: each part has multipliers for the choices from it on. */
enum { PZ_PRICING_PARTS = 4 };

/* A task in a mode. */
struct pz_choice {
  double rate;
  double reduced[PZ_PRICING_PARTS]; /* by part: the rate less the multipliers of the mode */
  struct pz_mode of;                /* at hand */
  uint32_t task, mode, chain;
};

struct pz_extension {
  uint32_t choice;     /* in the order */
  bool by_multipliers; /* these say so */
  double most;         /* that it and those after it can add */
};

struct pz_pricing {
  const struct pz_problem *p;
  const struct pz_techniques *o;
  const uint32_t *mode_at;         /* as in the context */
  double *rate;                    /* by mode, set by the caller */
  struct pz_bits *incompatible;    /* by task: those that never run beside it, and itself */
  struct pz_bits *interchangeable; /* by task: those with the same modes */
  struct pz_bits *preferred;       /* by task: of these, those that dominate it */
  uint32_t *chain;                 /* by task: tasks of one chain never run beside each other */
  uint32_t n_chains;
  struct pz_choice *order; /* choices by falling rate, with rates above 0 */
  uint32_t n_order;
  struct pz_bits priced;           /* tasks that have choices */
  double *best_value;              /* by task: of subsets with it as first choice; or 1 */
  uint32_t part[PZ_PRICING_PARTS]; /* where each begins */
  double multiplier[PZ_PRICING_PARTS][PZ_RESOURCES]; /* of the whole capacity of each resource */
  double unit[PZ_RESOURCES];                         /* 1 / capacity */
  bool used[PZ_RESOURCES];
  double *most_of, *reduced_of; /* by chain: of those looked at */
  struct pz_extension *more;    /* by number of tasks in the subset: what may be added */
  struct pz_subset now, best;
  double most;               /* no subset has a larger value */
  int64_t nodes, most_nodes; /* of a search; the latter set by the caller */
  int64_t n_cut, n_replaced; /* by multipliers, by dominance; since the caller set them to 0 */
};

/* False: no memory. */
bool pz_pricing_init(struct pz_pricing *x, const struct pz_context *c, struct pz_arena *arena);

/* Make ready for the rates as they are now. */
void pz_pricing_begin(struct pz_pricing *x);
/* Search anew: as if nothing had been found. */
void pz_pricing_reset(struct pz_pricing *x);
/* The subset of largest value whose first choice is order[k], in `best`, if its value is above 1
 * and above those found so far whose first choice is the same task (n = 0: none). */
void pz_pricing_solve(struct pz_pricing *x, uint32_t k);

#endif
