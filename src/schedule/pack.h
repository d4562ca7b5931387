/* Packs: tasks in modes that may run at the same time, and the search for the dearest one.
 *
 * No two of a pack must come one before the other, and together they fit.  A pack costs the sum of
 * its modes' rates. */
#ifndef PZ_SCHEDULE_PACK_H
#define PZ_SCHEDULE_PACK_H

#include "schedule/bits.h"
#include "schedule/context.h"

enum { PZ_PACK_MOST_TASKS = PZ_BITS };

struct pz_pack {
  double price;
  uint32_t n;
  uint32_t task[PZ_PACK_MOST_TASKS], mode[PZ_PACK_MOST_TASKS]; /* mode: of the task */
};

struct pz_more {
  uint32_t task;
  double dear, most;
};

struct pz_packer {
  const struct pz_problem *p;
  const uint32_t *mode_at; /* as in the context */
  double *rate;            /* by mode, set by the caller */
  struct pz_bits *apart;   /* by task: those that never run beside it, itself too */
  struct pz_bits *alike;   /* by task: those with the same modes that run beside all that it does */
  struct pz_bits *rather;  /* by task: of these, those before it in `order` and no cheaper */
  uint32_t *chain;         /* by task: tasks of one chain never run beside each other */
  uint32_t n_chains;
  double *dear;    /* by task: its dearest mode's rate */
  uint32_t *order; /* tasks by falling dear, with dear > 0 */
  uint32_t n_order;
  double toll[PZ_RESOURCES]; /* a price of the whole of each resource, and */
  double *over;              /* by task: the most by which a rate is over its mode's tolls */
  double *most_of, *over_of; /* by chain: of those looked at */
  struct pz_more *more;      /* by tasks in the pack: what may come after them */
  struct pz_pack now, best;
  double most;           /* no pack costs more */
  int looks, most_looks; /* of a search; set by the caller */
};

/* False: no memory. */
bool pz_packer_init(struct pz_packer *x, const struct pz_context *c, struct pz_arena *arena);

/* Make ready for the rates as they are now. */
void pz_packer_begin(struct pz_packer *x);
/* The dearest pack in which order[k] comes first, in `best`, if there is one dearer than 1 (n = 0:
 * none); `most` is kept. */
void pz_packer_dearest(struct pz_packer *x, uint32_t k);

#endif
