/* Plans that may be the fastest on some chip, by grid or by shape, for the HBM at hand.  The pipeline's lower bound is the
 * largest, over the stages, of a sum of parts (place/plan_parts.h); a plan none of whose stages runs more of a part than
 * another's is never slower than that one. */
#ifndef PZ_PLACE_PLAN_FRONTIER_H
#define PZ_PLACE_PLAN_FRONTIER_H

#include "place/frontier.h"
#include "place/plan_memory.h"

enum { PZ_FRONTIER_MOST_COUNTS = 64 };

struct pz_plan_frontiers {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena arena;
  struct pz_map at;    /* by grid or shape and HBM */
  struct pz_vec known; /* const struct pz_frontier *: in the arena, or in what finders share */
  struct pz_frontier_list *collect; /* the one that is being made */
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
