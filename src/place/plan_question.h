/* The question of a search for training plans, and its answer. */
#ifndef PZ_PLACE_PLAN_QUESTION_H
#define PZ_PLACE_PLAN_QUESTION_H

#include "place/step_model.h"

struct pz_plan_question {
  struct pz_training_model model;
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL: the chip's own link */
  int64_t devices, batch;
  /* what is the same in every plan: framework, execution, overlap, grad_bytes, attention library, constants */
  struct pz_training_plan common;
  /* PZ_FREE, or pinned */
  int64_t tp, sp, pp, vpp, dp, mbs, zero, recompute;
  int64_t cp;       /* pinned too, 0: to that of `common`; PZ_FREE: powers of two up to 32 */
  int64_t ep;       /* the same; PZ_FREE: powers of two, and the number of experts */
  bool uniform;     /* the same recomputation in every stage */
  bool all_devices; /* none may stay idle */
  bool even;        /* layers divided evenly (pz_plan_blocks) and in no other way */
  enum pz_plan_objective objective;
  uint32_t top;     /* plans to return; 0: 1 */
  unsigned threads; /* 0: one per processor */
  /* of a finder: what it finds out is kept there for finders of other threads and ranks, under a number that those of the
   * same question alone have, whatever chip and network; NULL: nowhere */
  const struct pz_shared_table *shared;
  uint32_t shared_as;
};

struct pz_found_plan {
  struct pz_training_plan plan; /* stage_recompute: in the arena */
  struct pz_prediction p;
};

struct pz_found_plans {
  struct pz_found_plan *list; /* best first */
  uint32_t n;                 /* 0: nothing fits */
  struct pz_plan_certificate certificate;
  struct pz_found_plan
      least; /* where nothing fits: the plan of the space that needs least memory, priced */
  bool has_least;
};

/* Every degree free, one plan; the caller adds model, chip, network, devices, batch, common. */
struct pz_plan_question pz_plan_question_default(void);

/* Numbers in their ranges? */
PZ_NODISCARD enum pz_status pz_plan_question_check(const struct pz_plan_question *q,
                                                   struct pz_error *err);

/* Is a degree free, or pinned to v? */
static inline bool pz_plan_allows(int64_t pin, int64_t v) { return pin == PZ_FREE || pin == v; }

/* What the question's objective makes of a plan; less is better. */
double pz_plan_value(const struct pz_plan_question *q, const struct pz_training_plan *p,
                     double step_s, double peak_bytes);

#endif
