/* Prices plans one after another and keeps the best.
 *
 * Each plan is excluded by a lower bound of its step or by its memory, or else its step is simulated.  The certificate in
 * `found` counts which. */
#ifndef PZ_PLACE_PLAN_PRICING_H
#define PZ_PLACE_PLAN_PRICING_H

#include "place/plan_memory.h"

struct pz_plan_pricing {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena *results; /* holds the stages of the plans in `found` */
  struct pz_found_plans found;
  uint32_t top;
  int wanted_kind;                   /* only plans of this kind are priced; -1: all */
  double cutoff_s;                   /* longer steps are not of interest; 0: all are */
  struct pz_step_shape *least_shape; /* the shape of found.least, which is not priced yet */
  int64_t *least_stages;

  /* Bounds that the ways of the current plan share; below 0: not known. */
  struct pz_plan
      first_relaxed;    /* the relaxation (pz_plan_relaxed) of the way that was bounded first, */
  double first_bound_s; /* and its bound */
  double full_overlap_bound_s; /* bound of the current way with all overlap */
};

/* Begins the pricing of a listed space.  The call's memory holds the list of found plans, and `results` their stages. */
void pz_plan_pricing_init(struct pz_call *call, struct pz_plan_pricing *s,
                          struct pz_plan_space *space, struct pz_plan_memory *memory,
                          struct pz_arena *results);

/* Whether a plan of the grid could be among the best, by the grid's bound. */
bool pz_plan_pricing_promises(const struct pz_plan_pricing *s, const struct pz_plan_grid *g);

/* Prices all plans of a grid.  If it promises nothing, its plans are only counted as excluded by a bound.  Raises
 * PZ_STOPPED when the search has to stop. */
void pz_plan_pricing_grid(struct pz_call *call, struct pz_plan_pricing *s,
                          const struct pz_plan_grid *g);

/* A lower bound of the step of a relaxed plan.  Most ways of a plan have the same relaxation, so that the bound of the
 * first one is remembered. */
double pz_plan_pricing_bound_s(struct pz_call *call, struct pz_plan_pricing *s,
                               struct pz_step_shape *x, const struct pz_plan *relaxed);

/* Simulates a plan that fits, and keeps it if it is among the best. */
void pz_plan_pricing_add(struct pz_call *call, struct pz_plan_pricing *s, struct pz_step_shape *x,
                         const struct pz_plan *p);

/* A copy of a plan whose stages are in the memory of the results. */
struct pz_found_plan pz_plan_pricing_copy(struct pz_call *call, const struct pz_plan_pricing *s,
                                          const struct pz_found_plan *one);

#endif
