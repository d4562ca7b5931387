/* The memory that a plan needs on a device and on the host, and the least recomputation and offload
 * with which it fits.
 *
 * A plan needs the bytes that its memory allocator may reserve (pz_step_needed_bytes).  These grow
 * with the peak of allocated bytes, on which the bisection over recomputed layers relies.  Time
 * plays no role here. */
#ifndef PZ_PLACE_PLAN_MEMORY_H
#define PZ_PLACE_PLAN_MEMORY_H

#include "core/map.h"
#include "place/plan_space.h"

/* The computation of the memory of plans, one after another. */
struct pz_plan_memory {
  const struct pz_plan_space *space;
  double hbm_bytes;      /* usable bytes of a device (pz_usable_bytes) */
  double host_bytes;     /* usable bytes of the host per device */
  double cutoff_bytes;   /* if more bytes are needed, a lower bound above this is sufficient */
  bool seeks_least;      /* the least bytes are of interest even if the plan does not fit */
  int64_t *stage_layers; /* number of recomputed layers of each stage of the current plan */

  /* A cache of results by plan and memory size, for searches over many chips. */
  bool caches;
  struct pz_arena cache_arena;
  struct pz_map cache_index; /* from the key of a plan to the index in `cache` */
  struct pz_vec cache;       /* struct cached_memory */
};

/* Prepares the computation for plans of a listed space, with a cache if many chips
 * follow.  The caller releases cache_arena then. */
void pz_plan_memory_init(struct pz_call *call, struct pz_plan_memory *memory,
                         const struct pz_plan_space *space, bool caches);

/* Sets the usable memory of device and host to those of a chip. */
void pz_plan_memory_set_chip(struct pz_plan_memory *memory, const struct pz_chip *chip);

/* Returns the bytes that the fullest stage of a plan needs; if they exceed the cutoff, a lower
 * bound above it.  Returns HUGE_VAL if the plan exceeds the memory of the host, or does not fit and
 * its bytes are not of interest (seeks_least).
 *
 * Chooses what the plan leaves open: with full recomputation, the fewest recomputed layers with
 * which it fits, or those that need the least memory; with offloaded activations, their number of
 * layers in the same way.  If both are open, all layers are recomputed. */
double pz_plan_memory_bytes(struct pz_call *call, struct pz_plan_memory *memory,
                            const struct pz_step_shape *shape, struct pz_plan *plan);

/* Like pz_plan_memory_bytes(), but without the cache. */
double pz_plan_memory_once(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                           struct pz_plan *plan);

#endif
