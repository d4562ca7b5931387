/* The evaluator `original`: the layers of a model are scheduled on the cores of a chip and divided into the stages of a
 * pipeline, as the original system does; the best plan (partition/best.h) over the portfolio's variants, with tables of
 * bounds (evaluate/bounds.h). */
#ifndef PZ_EVALUATE_ORIGINAL_H
#define PZ_EVALUATE_ORIGINAL_H

#include "cost/cost.h"
#include "evaluate/bounds.h"
#include "evaluate/evaluator.h"

/* One thread's means: caches and work space. */
struct pz_original_worker {
  const struct pz_original_task *task;
  bool unbounded; /* look at every variant, whatever the bounds say */
  bool outside;   /* the chip at hand is not of the space: there are no bounds for it */
  struct pz_cost cost;
  struct pz_bounds_at *at;
  struct pz_box box; /* where the bounds stand, if in_box */
  bool in_box;
  struct pz_arena arena; /* holds the plans */
  uint64_t n_variants;   /* evaluated so far */
};

/* Tables and workers for the threads of a pool.  `exhaustive`: bounds save nothing.  The task is borrowed; its space has
 * several values on the axes of cores, lanes and global buffer alone (else PZ_BAD_USE).  PZ_STOPPED when stopped. */
PZ_NODISCARD enum pz_status pz_original_new(const struct pz_original_task *task, bool exhaustive,
                                            struct pz_pool *pool, struct pz_watch watch,
                                            struct pz_evaluator **out, struct pz_error *err);

struct pz_original_worker *pz_original_worker(struct pz_evaluator *e, unsigned worker);
uint64_t pz_original_variants(const struct pz_evaluator *e); /* evaluated by all workers */

/* The best plan of a model on the chip at a point with so much memory, unless bounds show on the way that no plan is below
 * limit_s: then the effort is PZ_EFFORT_NONE.  The plan lives as long as the evaluator. */
PZ_NODISCARD enum pz_status pz_original_value(struct pz_original_worker *w,
                                              const struct pz_point *p, uint32_t model,
                                              double hbm_gib, enum pz_effort effort, double limit_s,
                                              struct pz_evaluation *out, struct pz_error *err);

/* The same for any chip, without bounds. */
PZ_NODISCARD enum pz_status pz_original_value_of_chip(struct pz_original_worker *w,
                                                      const struct pz_chip *chip, uint32_t model,
                                                      double hbm_gib, enum pz_effort effort,
                                                      struct pz_evaluation *out,
                                                      struct pz_error *err);

/* The plan of an evaluation in full: made again from its record, as the plain struct that results keep, and checked by code
 * that shares nothing with the solver.  PZ_INTERNAL when it is not what the evaluation says. */
PZ_NODISCARD enum pz_status pz_original_plan(struct pz_original_worker *w,
                                             const struct pz_chip *chip, double hbm_gib,
                                             const struct pz_evaluation *v, struct pz_arena *arena,
                                             struct pz_partition *out, struct pz_error *err);

/* The inputs of the plans of a model on the chip at hand; without bounds.  They point into the worker and live as long. */
struct pz_plan_inputs pz_original_inputs(struct pz_original_worker *w, uint32_t model,
                                         double hbm_gib, enum pz_effort effort);

#endif
