/* For infeasible problems: the least memory with which a plan would be feasible. */
#ifndef PZ_PARTITION_FIT_H
#define PZ_PARTITION_FIT_H

#include "partition/problem.h"

struct pz_fit {
  double hbm_bytes;         /* the least that would do, to a thousandth; DBL_MAX: no amount would */
  uint32_t stage, n_stages; /* of the plan that fits it: the stage that takes most (from 0) */
  uint32_t n_layers;        /* of that stage ... */
  int64_t first, last;      /* ... and their ids */
  double param_bytes, memory_bytes;
};

struct pz_fit pz_fit_least(const struct pz_place_problem *p, enum pz_semantics semantics);

#endif
