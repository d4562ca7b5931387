/* Plans priced one after another, and the best of them: each is excluded by a lower bound or by its memory, or its step is
 * simulated. */
#ifndef PZ_PLACE_PLAN_PRICING_H
#define PZ_PLACE_PLAN_PRICING_H

#include "place/plan_memory.h"

struct pz_plan_pricing {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena *arena; /* of what is found */
  struct pz_found_plans found;
  uint32_t top;
  int kind;                                /* of plans that are wanted; below 0: any */
  double cutoff_s;                         /* longer steps do not matter; 0: all do */
  const struct pz_step_shape *least_shape; /* of found.least, which is not priced yet */
  int64_t *least_stages;
  struct pz_plan first;  /* of the plan at hand the way whose bound was found first, unburdened */
  double first_s;        /* below 0: not known */
  double most_overlap_s; /* the bound of the way at hand with all overlap; below 0: not known */
};

/* For a space that is listed; the arena holds what is found. */
PZ_NODISCARD enum pz_status pz_plan_pricing_begin(struct pz_plan_pricing *s,
                                                  struct pz_plan_space *space,
                                                  struct pz_plan_memory *memory,
                                                  struct pz_arena *arena);

/* Could a plan of the grid be among the best? */
bool pz_plan_pricing_promises(const struct pz_plan_pricing *s, const struct pz_plan_grid *g);

/* All plans of a grid; where it promises nothing their number, excluded by its bound. */
PZ_NODISCARD enum pz_status pz_plan_pricing_grid(struct pz_plan_pricing *s,
                                                 const struct pz_plan_grid *g);

/* A lower bound of the step of a plan that is unburdened: that of the way looked at first, where it is the same plan. */
PZ_NODISCARD enum pz_status pz_plan_pricing_least_s(struct pz_plan_pricing *s,
                                                    const struct pz_step_shape *x,
                                                    const struct pz_plan *least, double *bound_s);

/* One plan that fits, simulated. */
PZ_NODISCARD enum pz_status pz_plan_pricing_add(struct pz_plan_pricing *s,
                                                const struct pz_step_shape *x,
                                                const struct pz_plan *p);

/* A copy whose stages the arena holds. */
PZ_NODISCARD enum pz_status pz_plan_pricing_copy(struct pz_plan_pricing *s,
                                                 const struct pz_found_plan *one,
                                                 struct pz_found_plan *out);

#endif
