/* The memory that a plan needs on a device and on the host, and the least recomputation and offload that make it fit.
 *
 * A plan needs the bytes that its allocator may reserve (pz_step_needed_bytes).  They fall with the peak, which the
 * bisection over recomputed layers relies on.  pz_plan_memory_bytes() chooses the recomputed or offloaded layers of a
 * plan; it knows nothing about time. */
#ifndef PZ_PLACE_PLAN_MEMORY_H
#define PZ_PLACE_PLAN_MEMORY_H

#include "core/map.h"
#include "place/plan_space.h"

struct pz_plan_memory {
  const struct pz_plan_space *space;
  double hbm_bytes;  /* usable bytes of a device (pz_usable_bytes) */
  double host_bytes; /* usable bytes of the host for each device */
  /* Plans that need more are not of interest, and their exact bytes are not computed. */
  double cutoff_bytes;
  bool seeks_least;      /* of plans that do not fit, the one that needs least is sought */
  int64_t *stage_layers; /* recomputed layers of every stage of the current plan */

  /* For many chips, what plans need is cached by plan and memory size. */
  bool caches;
  struct pz_arena cache_arena;
  struct pz_map cache_index;
  struct pz_vec cache; /* struct cached_memory */
};

/* Begins the memory of the plans of a listed space, for one chip, or for many chips if `caches`. */
void pz_plan_memory_init(struct pz_call *call, struct pz_plan_memory *m,
                         const struct pz_plan_space *space, bool caches);
void pz_plan_memory_release(struct pz_plan_memory *m);

void pz_plan_memory_set_chip(struct pz_plan_memory *m, const struct pz_chip *chip);

/* Returns the bytes of the plan's largest stage; if they exceed the cutoff, a lower bound above it.  With full
 * recomputation, sets the fewest recomputed layers with which the plan fits, or those with the least memory.  If the
 * question leaves the number of offloaded layers open, these are chosen in the same way, with all layers recomputed if
 * recomputation is full.  Returns HUGE_VAL if the plan is not of interest or does not fit in the host's memory. */
double pz_plan_memory_bytes(struct pz_call *call, struct pz_plan_memory *m,
                            const struct pz_step_shape *x, struct pz_plan *p);

/* The same without the cache. */
double pz_plan_memory_once(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                           struct pz_plan *p);

#endif
