/* Plans that may be the fastest on some chip, by grid or by shape, for the HBM at hand.  The pipeline's lower bound is the
 * largest, over the stages, of a sum of parts (place/plan_parts.h); a plan none of whose stages runs more of a part than
 * another's is never slower than that one. */
#ifndef PZ_PLACE_PLAN_FRONTIER_H
#define PZ_PLACE_PLAN_FRONTIER_H

#include "place/plan_memory.h"
#include "place/plan_parts.h"

enum { PZ_FRONTIER_MOST_COUNTS = 64 };

struct pz_frontier_plan {
  struct pz_training_plan plan;
  double params; /* of the largest stage */
  uint32_t first_count, n_counts;
};

struct pz_frontier {
  struct pz_vec plans;  /* struct pz_frontier_plan: none is never slower than another */
  struct pz_vec counts; /* struct pz_part_counts, of their stages */
};

struct pz_plan_frontiers {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena arena;
  struct pz_map at;            /* by grid or shape and HBM */
  struct pz_vec list;          /* struct pz_frontier */
  struct pz_frontier *collect; /* the one that is being made */
};

void pz_plan_frontiers_init(struct pz_plan_frontiers *s, struct pz_plan_space *space,
                            struct pz_plan_memory *memory);
void pz_plan_frontiers_release(struct pz_plan_frontiers *s);

/* Forgets all, if there is much. */
void pz_plan_frontiers_trim(struct pz_plan_frontiers *s);

/* Each made when it is first asked for; *out until the next call. */
PZ_NODISCARD enum pz_status pz_plan_frontier_grid(struct pz_plan_frontiers *s, uint32_t grid,
                                                  const struct pz_frontier **out);
PZ_NODISCARD enum pz_status pz_plan_frontier_shape(struct pz_plan_frontiers *s, uint32_t shape,
                                                   const struct pz_frontier **out);

/* No pipeline of the plan, or of any, is faster when parts take so long; nothing for transfers. */
double pz_frontier_plan_s(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          const struct pz_part_seconds *t);
double pz_frontier_least_s(const struct pz_frontier *f, const struct pz_part_seconds *t);

#endif
