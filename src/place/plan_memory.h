/* What a plan needs of a device's memory and of the host's, and as little recomputation as brings it within.  It needs the
 * bytes that its allocator may reserve (pz_step_needed_bytes): they fall with the peak, which the bisection over recomputed
 * layers counts on. */
#ifndef PZ_PLACE_PLAN_MEMORY_H
#define PZ_PLACE_PLAN_MEMORY_H

#include "core/map.h"
#include "place/plan_space.h"

struct pz_plan_memory {
  const struct pz_plan_space *space;
  double hbm_bytes;    /* that the device offers (pz_usable_bytes) */
  double host_bytes;   /* of the host's memory for each device, the same */
  double enough_bytes; /* of a plan that needs more no more need be known */
  bool least;          /* of plans that do not fit is sought which needs least */
  int64_t *stages;     /* recomputed layers of every stage */

  /* of many chips: what plans need is kept */
  bool keeps;
  struct pz_arena kept_arena;
  struct pz_map kept_at;
  struct pz_vec kept;
};

void pz_plan_memory_init(struct pz_plan_memory *m, const struct pz_plan_space *space, bool keeps);
void pz_plan_memory_release(struct pz_plan_memory *m);

/* When the space is listed; the arena holds working memory. */
PZ_NODISCARD enum pz_status pz_plan_memory_begin(struct pz_plan_memory *m, struct pz_arena *arena);

void pz_plan_memory_set_chip(struct pz_plan_memory *m, const struct pz_chip *chip);

/* Bytes of the plan's largest stage, or enough of them.  Full recomputation is of as few layers as memory asks for, or as
 * bring the least; the same of activations on the host, where the question leaves the layers open, with all layers
 * recomputed in full then; the plan is told.  HUGE_VAL: more than matters, or more on the host than its memory has. */
PZ_NODISCARD enum pz_status pz_plan_memory_bytes(struct pz_plan_memory *m,
                                                 const struct pz_step_shape *x, struct pz_plan *p,
                                                 double *bytes);

/* The same of a plan that is asked for once: nothing is kept. */
double pz_plan_memory_once(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                           struct pz_plan *p);

#endif
