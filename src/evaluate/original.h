/* The evaluator `original`: the layers of a model are scheduled on the cores of a chip and
 * divided into the stages of a pipeline, as the original system does.  It finds the best plan
 * (partition/best.h) over the portfolio's variants, guided by tables of bounds
 * (evaluate/bounds.h). */
#ifndef PZ_EVALUATE_ORIGINAL_H
#define PZ_EVALUATE_ORIGINAL_H

#include "cost/cost.h"
#include "evaluate/bounds.h"
#include "evaluate/evaluator.h"

/* The caches and the work space of one thread. */
struct pz_original_worker {
  const struct pz_original_task *task;
  bool ignores_bounds; /* bounds do not exclude variants */
  bool lacks_bounds;   /* the tables of bounds do not cover the current chip, or are not used */
  struct pz_cost cost;
  struct pz_bounds_at *position; /* bounds of the chip or box that the worker was moved to last */
  bool is_at_box;                /* `position` is at `box`, and not at another chip */
  struct pz_box box;             /* a range of chips (space/box.h), or a single one */
  struct pz_arena arena;         /* holds the records of plans */
  uint64_t n_variants;           /* number of variants evaluated so far */
};

/* Creates an evaluator for the threads of a pool; the caller frees it with pz_evaluator_free().
 * With `exhaustive`, bounds exclude no variant.  The task is borrowed.  Raises PZ_BAD_USE if the space
 * has several values on an axis other than arrays, cores, lanes and the global buffer, and
 * PZ_STOPPED when stopped. */
struct pz_evaluator *pz_original_create(struct pz_call *call, const struct pz_original_task *task,
                                        bool exhaustive, struct pz_pool *pool,
                                        struct pz_watch watch);

struct pz_original_worker *pz_original_worker(struct pz_evaluator *evaluator, unsigned worker);
/* number of variants evaluated by all workers */
uint64_t pz_original_variants(const struct pz_evaluator *evaluator);

/* Returns the best plan of a model on the chip at a point with `hbm_gib` of memory.  The effort is
 * PZ_EFFORT_NONE if bounds exclude all steps below limit_s.  The evaluator holds the plan. */
struct pz_evaluation pz_original_evaluate(struct pz_call *call, struct pz_original_worker *worker,
                                          const struct pz_point *point, uint32_t model,
                                          double hbm_gib, enum pz_effort effort, double limit_s);

/* Like pz_original_evaluate(), for any chip and without bounds. */
struct pz_evaluation pz_original_evaluate_chip(struct pz_call *call,
                                               struct pz_original_worker *worker,
                                               const struct pz_chip *chip, uint32_t model,
                                               double hbm_gib, enum pz_effort effort);

/* Describes the plan of an evaluation in the memory of the call.  The plan is restored from its
 * record and checked by code that is independent of the solver.  Raises PZ_INTERNAL if it is not
 * what the evaluation says. */
void pz_original_restore_plan(struct pz_call *call, struct pz_original_worker *worker,
                              const struct pz_chip *chip, double hbm_gib,
                              const struct pz_evaluation *evaluation, struct pz_partition *out);

/* Returns the inputs of the search for plans of a model on the current chip, without bounds.
 * They point into the worker. */
struct pz_plan_inputs pz_original_inputs(struct pz_original_worker *worker, uint32_t model,
                                         double hbm_gib, enum pz_effort effort);

#endif
