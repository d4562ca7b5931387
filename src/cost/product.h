/* A matrix product batch x (m x k)(k x n): its sizes, its dimensions and its operands. */
#ifndef PZ_COST_PRODUCT_H
#define PZ_COST_PRODUCT_H

#include "core/status.h"

struct pz_product {
  int64_t batch, m, n, k;
  bool warm; /* a call repeated on the same data, as benchmarks do: what fits stays in the global
                buffer */
};

enum pz_dim { PZ_DIM_M, PZ_DIM_N, PZ_DIM_K, PZ_DIMS };

/* Stationarity: which operand is kept in a buffer while the other two stream through it: the
 * results (output-stationary), the second operand (weight-stationary) or the first
 * (input-stationary).  Terms of Chen et al., Eyeriss, ISCA 2016. */
enum pz_stationary {
  PZ_STATIONARY_RESULTS,
  PZ_STATIONARY_WEIGHTS,
  PZ_STATIONARY_INPUTS,
  PZ_STATIONARITIES
};

/* Sizes of 1 to 2^40, operands of at most 2^53 values, at most 2^62 multiplications; PZ_BAD_INPUT
 * otherwise. */
PZ_NODISCARD enum pz_status pz_product_check(const struct pz_product *p, struct pz_error *err);

const char *pz_dim_name(enum pz_dim d);
const char *pz_stationary_name(enum pz_stationary s);

#endif
