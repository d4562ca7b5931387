/* Cost of one stage from its layers, for given plans and for the checker.  The solver has its own
 * table (stages.h), so that each can test the other. */
#ifndef PZ_PARTITION_STAGE_SUM_H
#define PZ_PARTITION_STAGE_SUM_H

#include "partition/problem.h"

struct pz_stage_sum {
  double forward_s, backward_s, recompute_s; /* with waiting for what comes from outside */
  double param_bytes, act_bytes, in_bytes;
  bool tensor_parallel;
};

/* stage[i]: which stage layer i is in; the sum of stage k. */
struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *p, const struct pz_place_width *w,
                                 const uint32_t *stage, uint32_t k);

/* Load and memory of the i-th stage from the end. */
double pz_stage_sum_load_s(const struct pz_place_problem *p, const struct pz_stage_sum *s,
                           uint32_t i);
double pz_stage_sum_memory(const struct pz_place_problem *p, const struct pz_stage_sum *s,
                           uint32_t i);

#endif
