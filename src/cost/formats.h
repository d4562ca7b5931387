/* GEMMs with 8-bit and 4-bit operands and 16-bit results, and the casts that they need. */
#ifndef PZ_COST_FORMATS_H
#define PZ_COST_FORMATS_H

#include "cost/cost.h"

/* Returns the factor by which the chip's power limit slows a GEMM of a format down, if it slows
 * 16-bit GEMMs down by slowdown_16bit, because these would draw slowdown_16bit times the limit.
 * Other formats draw in proportion to their rate and their energy per operation: fp8 takes 0.52 of
 * the time of bf16 for 8192^3 on an H200.  fp8_block_speedup, the rate of GEMMs whose blocks are
 * scaled on the vector lanes, was fitted with the slowdown of 16-bit GEMMs. */
double pz_format_slowdown(const struct pz_chip *chip, enum pz_format format, double slowdown_16bit);

/* Returns the bytes of a value in one copy, including its share of the scale of its block. */
double pz_format_bytes(enum pz_format format);

/* Returns the bytes that are read and written per value to cast a weight along one direction. */
double pz_format_weight_bytes(enum pz_format format);

/* Estimates a GEMM with operands in an 8-bit or 4-bit format: at the rate of the format on the chip
 * (fp8_speedup, fp8_block_speedup or nvfp4_speedup times that of 16 bits), with the bytes of its
 * operands, at the clock that the power limit allows.  Raises the errors of
 * pz_estimate_product(). */
struct pz_mapping pz_estimate_narrow_product(struct pz_call *call, struct pz_cost *cost,
                                             enum pz_format format,
                                             const struct pz_product *product);

/* Estimates a grouped GEMM with narrow operands on cost->chip or a variant of it, `chip`. */
struct pz_mapping pz_estimate_narrow_grouped(struct pz_call *call, struct pz_cost *cost,
                                             const struct pz_chip *chip, enum pz_format format,
                                             const struct pz_grouped *grouped);

/* Sets *out to the time in which a training step casts rows x cols activations or gradients, for
 * the GEMM at hand and for the gradient of the weights, as Transformer Engine does.  If `devices`
 * is above 1, each of these devices casts a part of the rows and gathers the others.  If the weight
 * is `frozen`, the copy for its gradient is not needed (Transformer Engine, backward_needs_input in
 * pytorch/module/linear.py). */
void pz_cost_format_cast(const struct pz_chip *chip, enum pz_format format, int64_t rows,
                         int64_t cols, int64_t devices, bool frozen, struct pz_vector_time *out);

/* Sets *out to the time in which an inference framework quantises activations for one GEMM, in a
 * benchmark loop whose data may stay in the global buffer.  PZ_FORMAT_FP8_CURRENT needs two
 * kernels, one that finds the scale from the largest value and one that casts: 3 bytes a value, of
 * which 2 are read twice (the kernel's bytes_per_value).  Other formats need one kernel. */
void pz_cost_serving_cast(const struct pz_chip *chip, enum pz_format format, int64_t rows,
                          int64_t cols, struct pz_vector_time *out);

#endif
