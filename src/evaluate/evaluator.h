/* The interface between a search and the ways to evaluate a model on a chip.  An evaluator is
 * one file that fills in struct pz_evaluator_ops.  The entries of a portfolio may have different
 * evaluators.  A box is a range of the space's chips: all chips between a lowest and a highest value
 * on each axis (space/box.h). */
#ifndef PZ_EVALUATE_EVALUATOR_H
#define PZ_EVALUATE_EVALUATOR_H

#include "partition/best.h"
#include "space/box.h"

/* Effort of an evaluation: quick at first, and full if the quick evaluation left a gap between
 * the bound and the best plan. */
enum pz_effort { PZ_EFFORT_NONE, PZ_EFFORT_QUICK, PZ_EFFORT_FULL };

/* One training step of a model on all devices. */
struct pz_step_cost {
  double step_s, dynamic_j; /* duration, and energy without static power, or 0 if unknown */
};

/* The best plan that an evaluator found for a model on a chip. */
struct pz_evaluation {
  /* PZ_EFFORT_NONE if no plan is below the limit; then the other members are undefined */
  enum pz_effort effort;
  double step_s;   /* step with the best plan, or HUGE_VAL if no plan fits */
  double least_s;  /* lower bound on the step; below step_s if the plan is not proved optimal */
  uint32_t n_open; /* number of schedules that are not proved optimal */
  double dynamic_j;
  /* plan of the evaluator `original`, whose layers live as long as the evaluator */
  struct pz_plan_record plan;
};

struct pz_evaluator {
  const struct pz_evaluator_ops *ops;
};

/* The operations of an evaluator.  `worker` is the index of one of the threads that the evaluator was
 * made for, each of which has its own caches.  Results do not depend on the worker. */
struct pz_evaluator_ops {
  const char *name;
  /* Bounds of level 0 cost only microseconds, so that a search may use them often. */
  bool has_cheap_bounds;
  void (*free)(struct pz_evaluator *evaluator);

  /* Returns a lower bound on the step of every chip of the box; it may stop at a bound above
   * enough_s.  `level` is 0 for a cheap bound and 1 for a tighter, slower one. */
  double (*bound)(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                  const struct pz_boxed *box, uint32_t model, int level, double enough_s);
  /* Returns a lower bound on the dynamic energy of all chips of the box; NULL if it is unknown. */
  double (*least_j)(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                    const struct pz_boxed *box, uint32_t model);
  /* Estimates the step of the best chip of a box.  Must follow a call of bound() with level 1 for a
   * box that contains it.  NULL if the evaluator cannot estimate steps. */
  double (*estimate)(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                     const struct pz_boxed *box, uint32_t model);
  /* Finds the best plan with a step below limit_s on the chip of a box that has only one. */
  struct pz_evaluation (*evaluate)(struct pz_call *call, struct pz_evaluator *evaluator,
                                   unsigned worker, const struct pz_boxed *chip, uint32_t model,
                                   enum pz_effort effort, double limit_s);
};

/* Frees a struct pz_evaluator, which may be NULL; for pz_defer(), too. */
static inline void pz_evaluator_free(void *evaluator) {
  if (evaluator) ((struct pz_evaluator *)evaluator)->ops->free(evaluator);
}

#endif
