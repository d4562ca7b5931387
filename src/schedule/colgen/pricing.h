/* Packs, the columns of the linear program in price.c, and its pricing problem.
 *
 * A pack is a set of tasks in modes that can run concurrently: no two are ordered by precedence,
 * and together they fit the capacities.  Its value is the sum of its modes' rates (dual value per
 * time).  The pricing problem asks for the pack of largest value.
 *
 * Branch and bound adds tasks in modes of decreasing rate.  The rest is bounded by the residual
 * capacity, valued with surrogate prices per resource ("tolls") that are computed for the remaining
 * choices only; with large modes among them the bound would be weak. */
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

/* Of the order of choices: each has tolls for what comes from it on. */
enum { PZ_PRICING_PARTS = 4 };

/* A task in a mode. */
struct pz_choice {
  double rate, reduced[PZ_PRICING_PARTS]; /* over: by part, the rate less the tolls of the mode */
  struct pz_mode of;                      /* at hand */
  uint32_t task, mode, chain;
};

struct pz_extension {
  uint32_t choice; /* in the order */
  double most;     /* that it and those after it can add */
};

struct pz_pricing {
  const struct pz_problem *p;
  const uint32_t *mode_at;         /* as in the context */
  double *rate;                    /* by mode, set by the caller */
  struct pz_bits *incompatible;    /* by task: those that never run beside it, itself too */
  struct pz_bits *interchangeable; /* by task: those with the same modes */
  struct pz_bits *preferred; /* by task: of these, those to have in its place where possible */
  uint32_t *chain;           /* by task: tasks of one chain never run beside each other */
  uint32_t n_chains;
  struct pz_choice *order; /* choices by falling rate, with rates above 0 */
  uint32_t n_order;
  struct pz_bits priced;           /* tasks that have choices */
  double *best_value;              /* by task: of packs with it as dearest choice; or 1 */
  uint32_t part[PZ_PRICING_PARTS]; /* where each begins */
  double multiplier[PZ_PRICING_PARTS][PZ_RESOURCES]; /* a price of the whole of each resource */
  double unit[PZ_RESOURCES];                         /* 1 / capacity */
  bool used[PZ_RESOURCES];
  double *most_of, *reduced_of; /* by chain: of those looked at */
  struct pz_extension *more;    /* by tasks in the pack, one of a chain: what may come after them */
  struct pz_subset now, best;
  double most;           /* no pack costs more */
  int nodes, most_nodes; /* of a search; set by the caller */
};

/* False: no memory. */
bool pz_pricing_init(struct pz_pricing *x, const struct pz_context *c, struct pz_arena *arena);

/* Make ready for the rates as they are now. */
void pz_pricing_begin(struct pz_pricing *x);
/* Search anew: as if nothing had been found. */
void pz_pricing_reset(struct pz_pricing *x);
/* The dearest pack of which order[k] is the dearest choice, in `best`, if there is one dearer than
 * 1, and than those found so far whose dearest choice is the same task (n = 0: none). */
void pz_pricing_solve(struct pz_pricing *x, uint32_t k);

#endif
