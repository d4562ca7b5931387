/* Prices plans one after another and keeps the best ones.
 *
 * Each plan is excluded by a lower bound of its step or by its memory, or else its step is
 * simulated.  The certificate of the found plans counts how many plans were decided in which
 * way. */
#ifndef PZ_PLACE_PLAN_PRICING_H
#define PZ_PLACE_PLAN_PRICING_H

#include "place/plan_memory.h"

struct pz_plan_pricing {
  struct pz_plan_space *space;
  struct pz_plan_memory *memory;
  struct pz_arena *results;    /* holds the recomputed layers by stage of the plans in `found` */
  struct pz_found_plans found; /* the best plans so far, best first */
  uint32_t top;                /* maximum number of best plans */
  int wanted_kind; /* the kind of the plans that are priced (pz_plan_kind), or -1 for all kinds */
  double cutoff_s; /* steps of this length or more are not of interest, or 0 if no limit */
  struct pz_step_shape *least_shape; /* shape of found.least, which has not been priced */
  int64_t *least_stages;             /* recomputed layers by stage of found.least */

  /* Lower bounds that the ways of the current plan share; negative if they are not known yet. */
  struct pz_plan first_relaxed; /* relaxation (pz_plan_relaxed) of the way that was bounded first */
  double first_bound_s;         /* the bound of first_relaxed */
  double full_overlap_bound_s;  /* bound of the current way with all overlap */
};

/* Begins pricing the plans of a listed space.  The list of found plans is in the memory of the
 * call, and their recomputed layers by stage are in `results`. */
void pz_plan_pricing_init(struct pz_call *call, struct pz_plan_pricing *pricing,
                          struct pz_plan_space *space, struct pz_plan_memory *memory,
                          struct pz_arena *results);

/* Returns whether a grid may have one of the best plans, as its lower bound shows. */
bool pz_plan_pricing_promises(const struct pz_plan_pricing *pricing,
                              const struct pz_plan_grid *grid);

/* Prices all plans of a grid.  If none could be among the best, they are only counted as excluded
 * by a bound.  Raises PZ_STOPPED if the search has to stop. */
void pz_plan_pricing_grid(struct pz_call *call, struct pz_plan_pricing *pricing,
                          const struct pz_plan_grid *grid);

/* Returns a lower bound of the step of a relaxed plan.  Most ways of a plan have the same
 * relaxation, so that the bound of the first one is stored. */
double pz_plan_pricing_bound_s(struct pz_call *call, struct pz_plan_pricing *pricing,
                               struct pz_step_shape *shape, const struct pz_plan *relaxed);

/* Simulates a plan that fits in memory, and keeps it if it is among the best. */
void pz_plan_pricing_add(struct pz_call *call, struct pz_plan_pricing *pricing,
                         struct pz_step_shape *shape, const struct pz_plan *plan);

/* Returns a copy of a found plan whose stage_recompute is in the memory of the results. */
struct pz_found_plan pz_plan_pricing_copy(struct pz_call *call,
                                          const struct pz_plan_pricing *pricing,
                                          const struct pz_found_plan *one);

#endif
