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

enum { PZ_PACK_MOST_TASKS = PZ_BITS };

struct pz_pack {
  double price;
  uint32_t n;
  uint32_t task[PZ_PACK_MOST_TASKS], mode[PZ_PACK_MOST_TASKS]; /* mode: of the task */
};

/* Of the order of choices: each has tolls for what comes from it on. */
enum { PZ_PACK_PARTS = 4 };

/* A task in a mode. */
struct pz_choice {
  double rate, over[PZ_PACK_PARTS]; /* over: by part, the rate less the tolls of the mode */
  struct pz_mode of;                /* at hand */
  uint32_t task, mode, chain;
};

struct pz_more {
  uint32_t choice; /* in the order */
  double most;     /* that it and those after it can add */
};

struct pz_packer {
  const struct pz_problem *p;
  const uint32_t *mode_at; /* as in the context */
  double *rate;            /* by mode, set by the caller */
  struct pz_bits *apart;   /* by task: those that never run beside it, itself too */
  struct pz_bits *alike;   /* by task: those with the same modes */
  struct pz_bits *rather;  /* by task: of these, those to have in its place where possible */
  uint32_t *chain;         /* by task: tasks of one chain never run beside each other */
  uint32_t n_chains;
  struct pz_choice *order; /* choices by falling rate, with rates above 0 */
  uint32_t n_order;
  struct pz_bits priced;                    /* tasks that have choices */
  double *dearest;                          /* by task: of packs with it as dearest choice; or 1 */
  uint32_t part[PZ_PACK_PARTS];             /* where each begins */
  double toll[PZ_PACK_PARTS][PZ_RESOURCES]; /* a price of the whole of each resource */
  double unit[PZ_RESOURCES];                /* 1 / capacity */
  bool used[PZ_RESOURCES];
  double *most_of, *over_of; /* by chain: of those looked at */
  struct pz_more *more;      /* by tasks in the pack, one of a chain: what may come after them */
  struct pz_pack now, best;
  double most;           /* no pack costs more */
  int looks, most_looks; /* of a search; set by the caller */
};

/* False: no memory. */
bool pz_packer_init(struct pz_packer *x, const struct pz_context *c, struct pz_arena *arena);

/* Make ready for the rates as they are now. */
void pz_packer_begin(struct pz_packer *x);
/* Search anew: as if nothing had been found. */
void pz_packer_forget(struct pz_packer *x);
/* The dearest pack of which order[k] is the dearest choice, in `best`, if there is one dearer than
 * 1, and than those found so far whose dearest choice is the same task (n = 0: none). */
void pz_packer_dearest(struct pz_packer *x, uint32_t k);

#endif
