/* What a model does on a chip, told by one of several ways: the interface that a search knows.  An evaluator is one file
 * that fills in struct pz_evaluator_ops; entries of one portfolio may have different ones. */
#ifndef PZ_EVALUATE_EVALUATOR_H
#define PZ_EVALUATE_EVALUATOR_H

#include "partition/best.h"
#include "space/box.h"

/* How hard a value is tried: a first look, and again where that left an interval. */
enum pz_effort { PZ_EFFORT_NONE, PZ_EFFORT_QUICK, PZ_EFFORT_FULL };

/* A model's step on all devices. */
struct pz_step_cost {
  double step_s, dynamic_j; /* energy without static power; 0: not known */
};

struct pz_evaluation {
  enum pz_effort effort; /* PZ_EFFORT_NONE: no plan is below the limit, and nothing else is told */
  double step_s;         /* with the best plan; HUGE_VAL: none fits */
  double least_s;        /* no plan is faster; below step_s only for schedules left open ... */
  uint32_t n_open;       /* ... so many of them */
  double dynamic_j;
  struct pz_plan_record
      plan; /* of the evaluator `original`; its layers live as long as the evaluator */
};

struct pz_evaluator {
  const struct pz_evaluator_ops *ops;
};

/* `worker`: one of the threads that the evaluator was made for, each of which uses its own caches.  The answer depends on
 * nothing but the other arguments. */
struct pz_evaluator_ops {
  const char *name;
  bool
      cheap; /* bounds of level 0 cost some microseconds: boxes are cut, and good chips found, by them */
  void (*free)(struct pz_evaluator *e);

  /* No chip of the box has a shorter step, or one shorter than enough_s.  Level 1 is tighter. */
  enum pz_status (*bound)(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                          uint32_t model, int level, double enough_s, double *step_s,
                          struct pz_error *err);
  /* None takes less energy; NULL: energy is not known. */
  enum pz_status (*least_j)(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                            uint32_t model, double *joules, struct pz_error *err);
  /* About how long the step of the best chip is, after a bound of level 1 of a box around it; NULL: not known. */
  enum pz_status (*estimate)(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                             uint32_t model, double *step_s, struct pz_error *err);
  /* The best plan on the chip of a box of one with a step below limit_s. */
  enum pz_status (*value)(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *chip,
                          uint32_t model, enum pz_effort effort, double limit_s,
                          struct pz_evaluation *out, struct pz_error *err);
};

static inline void pz_evaluator_free(struct pz_evaluator *e) {
  if (e) e->ops->free(e);
}

#endif
