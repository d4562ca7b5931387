/* Throughput of a model on a chip of the search: the best plan (place/best.h) over the portfolio's
 * variants, with the tables of bounds where the chip is of the space. */
#ifndef PZ_SEARCH_EVALUATE_H
#define PZ_SEARCH_EVALUATE_H

#include "cost/cost.h"
#include "partition/best.h"
#include "search/bounds.h"

/* How hard schedules are tried: a first look, and again where they were left open. */
enum pz_effort { PZ_EFFORT_NONE, PZ_EFFORT_QUICK, PZ_EFFORT_FULL };

struct pz_evaluation {
  enum pz_effort effort;
  double time_s;              /* of a batch with the best plan; HUGE_VAL: none fits */
  double least_s;             /* no plan is faster; below time_s only for schedules left open ... */
  uint32_t n_open;            /* ... so many of them */
  struct pz_plan_record plan; /* its variant is one of the portfolio */
};

/* One thread's means: caches and work space. */
struct pz_evaluator {
  const struct pz_search_task *task;
  bool unbounded; /* look at every variant, whatever the bounds say */
  bool outside;   /* the chip at hand is not of the space: there are no bounds for it */
  struct pz_cost cost;
  struct pz_bounds_at *at;
  struct pz_arena arena; /* holds the plans */
  uint64_t n_variants;   /* evaluated so far */
};

PZ_NODISCARD enum pz_status pz_evaluator_init(struct pz_evaluator *e,
                                              const struct pz_search_task *task,
                                              const struct pz_bounds *bounds, bool unbounded,
                                              struct pz_error *err);
void pz_evaluator_release(struct pz_evaluator *e);

/* The best plan of a model on the chip at a point with so much memory.  The answer depends on
 * nothing but the arguments; its plan lives as long as the evaluator. */
PZ_NODISCARD enum pz_status pz_evaluate(struct pz_evaluator *e, const struct pz_point *p,
                                        uint32_t model, double hbm_gib, enum pz_effort effort,
                                        struct pz_evaluation *out, struct pz_error *err);

/* The same, unless bounds show on the way that no plan is below limit_s: then the effort is
 * PZ_EFFORT_NONE and least_s is limit_s. */
PZ_NODISCARD enum pz_status pz_evaluate_within(struct pz_evaluator *e, const struct pz_point *p,
                                               uint32_t model, double hbm_gib,
                                               enum pz_effort effort, double limit_s,
                                               struct pz_evaluation *out, struct pz_error *err);

/* The same for any chip. */
PZ_NODISCARD enum pz_status pz_evaluate_chip(struct pz_evaluator *e, const struct pz_chip *chip,
                                             uint32_t model, double hbm_gib, enum pz_effort effort,
                                             struct pz_evaluation *out, struct pz_error *err);

/* The plan of an evaluation in full: made again from its record, as the plain struct that
 * results keep, and checked by code that shares nothing with the solver.  PZ_INTERNAL when it is
 * not what the evaluation says. */
PZ_NODISCARD enum pz_status
pz_evaluation_model_plan(struct pz_evaluator *e, const struct pz_chip *chip, double hbm_gib,
                         const struct pz_evaluation *v, struct pz_arena *arena,
                         struct pz_partition *out, struct pz_error *err);

/* The inputs of the plans of a model on the chip at hand; without bounds.  They point into the
 * evaluator and live as long. */
struct pz_plan_inputs pz_evaluator_inputs(struct pz_evaluator *e, uint32_t model, double hbm_gib,
                                          enum pz_effort effort);

#endif
