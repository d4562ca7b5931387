/* Products with 8-bit operands and 16-bit results, and the casts they need. */
#ifndef PZ_COST_FP8_H
#define PZ_COST_FP8_H

#include "cost/cost.h"

/* At fp8_speedup times the rate of a 16-bit product, with half the bytes of the operands.  Errors
 * as pz_cost_product. */
PZ_NODISCARD enum pz_status pz_cost_fp8_product(struct pz_cost *cost, const struct pz_product *p,
                                                struct pz_mapping *out, struct pz_error *err);

/* The same with a scale for each block of 128 x 128 weights and 128 values of a token, at fp8_block_speedup. */
PZ_NODISCARD enum pz_status pz_cost_fp8_block_product(struct pz_cost *cost,
                                                      const struct pz_product *p,
                                                      struct pz_mapping *out, struct pz_error *err);

/* The same of the products of experts. */
PZ_NODISCARD enum pz_status pz_cost_fp8_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                                                struct pz_mapping *out, struct pz_error *err);

/* A scale found from the largest value, then the cast, in two kernels, as inference frameworks quantise
 * activations; again and again, with data that may stay in the global buffer: 3 bytes a value, of which 2 are read twice
 * (bytes_per_value of the kernel). */
void pz_cost_fp8_dynamic_cast(const struct pz_chip *c, int64_t rows, int64_t cols,
                              struct pz_vector_time *out);

/* One fused pass that scales and casts 16-bit values; transposed: a second copy is written. */
void pz_cost_fp8_cast(const struct pz_chip *c, int64_t rows, int64_t cols, bool transposed,
                      struct pz_vector_time *out);

#endif
