/* A matrix product batch x (m x k)(k x n): its sizes, its dimensions and its operands. */
#ifndef PZ_COST_PRODUCT_H
#define PZ_COST_PRODUCT_H

#include "core/status.h"

/* Sizes of 1 to 2^40, operands of at most 2^53 values, at most 2^62 multiplications; PZ_BAD_INPUT
 * otherwise. */
PZ_NODISCARD enum pz_status pz_product_check(const struct pz_product *p, struct pz_error *err);

#endif
