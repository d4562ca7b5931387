/* Frontiers: the plans of a grid, or of a shape, that may be the fastest on some chip with a given
 * HBM size.
 *
 * The lower bound of a pipeline is the largest, over its stages, of a sum of terms
 * (place/step_terms.h).  A plan dominates another one if each of its stages runs every term at most
 * as often as some stage of the other: then it is never slower, whatever the chip.  A frontier has
 * the plans that no other plan dominates.  Frontiers are computed when they are first asked for,
 * and shared with the finders of other threads and ranks. */
#ifndef PZ_PLACE_PLAN_FRONTIER_H
#define PZ_PLACE_PLAN_FRONTIER_H

#include "place/plan_memory.h"
#include "place/step_terms.h"

/* The fields in which a plan differs from the other plans of its grid.  In the frontier of a shape
 * only the counts are set. */
struct pz_frontier_plan {
  uint32_t first_count, n_counts; /* a row of counts for each stage that none dominates */
  /* index of its recomputed layers by stage, or PZ_NONE if all stages have the same number */
  uint32_t first_stage;
  int32_t vpp, first_layers, last_layers, recompute_layers;
  uint8_t zero, pipeline, recompute;
};

/* A frontier is one piece of memory without pointers, because other processes may have made it.
 * The header is followed by n_plans plans, n_counts counts of the terms that a model with this many
 * kinds of layers has (double, pz_term_at), and n_stages numbers of recomputed layers (int64_t). */
struct pz_frontier {
  uint32_t n_plans, n_counts, n_stages, kinds;
};

/* Returns the plans of a frontier, which follow its header in memory. */
static inline const struct pz_frontier_plan *pz_frontier_plans(const struct pz_frontier *frontier) {
  return (const struct pz_frontier_plan *)(frontier + 1);
}

/* Returns the whole plan of a packed plan.  Its stage_recompute points into the frontier. */
struct pz_plan pz_frontier_unpack(const struct pz_frontier *frontier,
                                  const struct pz_frontier_plan *frontier_plan,
                                  const struct pz_plan_space *space,
                                  const struct pz_plan_grid *grid);

/* Returns a lower bound of the seconds of the pipeline of one plan, if its terms take these times
 * and transfers between stages take none. */
double pz_frontier_plan_s(const struct pz_frontier *frontier,
                          const struct pz_frontier_plan *frontier_plan,
                          const struct pz_term_seconds *seconds);

/* Returns the least pz_frontier_plan_s() of all plans of a frontier. */
double pz_frontier_least_s(const struct pz_frontier *frontier,
                           const struct pz_term_seconds *seconds);

/* The frontiers that a finder has computed or found in the shared table. */
struct pz_plan_frontiers {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena arena;
  struct pz_map index; /* from struct frontier_key to the index in `stored` */
  /* const struct pz_frontier *, in the arena or in the table that finders share */
  struct pz_vec stored;
};

/* Makes an empty store, whose arena the caller releases. */
void pz_plan_frontiers_init(struct pz_plan_frontiers *frontiers, struct pz_plan_space *space,
                            struct pz_plan_memory *memory);

/* Discards all frontiers if they use more than a limit of memory. */
void pz_plan_frontiers_trim(struct pz_plan_frontiers *frontiers);

/* Returns the frontier of a grid or of a shape.  It is valid until frontiers are trimmed. */
const struct pz_frontier *pz_plan_frontier_grid(struct pz_call *call,
                                                struct pz_plan_frontiers *frontiers, uint32_t grid);
const struct pz_frontier *
pz_plan_frontier_shape(struct pz_call *call, struct pz_plan_frontiers *frontiers, uint32_t shape);

#endif
