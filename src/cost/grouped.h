/* Products of experts: one kernel for many products that share n and k and differ in their rows,
 * and the permutation of tokens to experts. */
#ifndef PZ_COST_GROUPED_H
#define PZ_COST_GROUPED_H

#include "cost/cost.h"

struct pz_grouped {
  int64_t experts;
  int64_t tokens; /* rows of all of them */
  int64_t n, k;
  int64_t largest; /* rows of the largest expert; 0: all alike */
  bool warm;       /* as in pz_product */
};

/* Start-up and part of the HBM rate are those of kernel "grouped" where the chip has one, else of a
 * batched product.  Errors as pz_cost_product. */
PZ_NODISCARD enum pz_status pz_cost_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                                            struct pz_mapping *out, struct pz_error *err);

#endif
