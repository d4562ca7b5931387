/* Plans that may be the fastest on some chip, by grid or by shape, for the HBM at hand.  The pipeline's lower bound is the
 * largest, over the stages, of a sum of terms (place/step_terms.h); a plan none of whose stages runs more of a term than
 * another's is never slower than that one. */
#ifndef PZ_PLACE_PLAN_FRONTIER_H
#define PZ_PLACE_PLAN_FRONTIER_H

#include "place/plan_memory.h"
#include "place/step_terms.h"

/* What differs from the other plans of a grid; of a shape's frontier the counts alone. */
struct pz_frontier_plan {
  uint32_t first_count, n_counts;
  uint32_t first_stage; /* recomputed layers by stage; PZ_NONE: of all alike */
  int32_t vpp, first_layers, last_layers, recompute_layers;
  uint8_t zero, pipeline, recompute;
};

/* In one piece without pointers, so that other processes may have made it: plans follow, then counts of the terms that a
 * model with so many kinds of layers has (double, pz_term_at), then recomputed layers of stages (int64_t). */
struct pz_frontier {
  uint32_t n_plans, n_counts, n_stages, kinds;
};

static inline const struct pz_frontier_plan *pz_frontier_plans(const struct pz_frontier *f) {
  return (const struct pz_frontier_plan *)(f + 1);
}

/* A plan of the grid's frontier; its layers by stage lie in the piece. */
struct pz_plan pz_frontier_unpack(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                                  const struct pz_plan_space *space, const struct pz_plan_grid *g);

/* No pipeline of the plan, or of any, is faster when terms take so long; nothing for transfers. */
double pz_frontier_plan_s(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          const struct pz_term_seconds *t);
double pz_frontier_least_s(const struct pz_frontier *f, const struct pz_term_seconds *t);

struct pz_plan_frontiers {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena arena;
  struct pz_map at;    /* by grid or shape and HBM */
  struct pz_vec known; /* const struct pz_frontier *: in the arena, or in what finders share */
};

void pz_plan_frontiers_init(struct pz_plan_frontiers *s, struct pz_plan_space *space,
                            struct pz_plan_memory *memory);
void pz_plan_frontiers_release(struct pz_plan_frontiers *s);

/* Forgets all, if there is much. */
void pz_plan_frontiers_trim(struct pz_plan_frontiers *s);

/* Each made when it is first asked for, unless a finder that shares its table has made it; *out until all is forgotten. */
PZ_NODISCARD enum pz_status pz_plan_frontier_grid(struct pz_plan_frontiers *s, uint32_t grid,
                                                  const struct pz_frontier **out);
PZ_NODISCARD enum pz_status pz_plan_frontier_shape(struct pz_plan_frontiers *s, uint32_t shape,
                                                   const struct pz_frontier **out);

#endif
