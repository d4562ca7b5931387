/* GEMMs with operands of 8 and 4 bit and 16-bit results, and the casts they need. */
#ifndef PZ_COST_FORMATS_H
#define PZ_COST_FORMATS_H

#include "cost/cost.h"

/* Time of GEMMs at the chip's power limit over that without it, where 16-bit ones take `of_16bit` times as long: these would
 * draw so many times the limit, others what their rate and the energy of an operation make of it (8192^3 on an H200: fp8 takes
 * 0.52 of the time of bf16).  GEMMs whose blocks are scaled on the lanes were fitted as 16-bit ones (fp8_block_speedup). */
double pz_format_slowdown(const struct pz_chip *c, enum pz_format f, double of_16bit);

/* Bytes of a value in one copy, with the scales of its block. */
double pz_format_bytes(enum pz_format f);

/* Read and written to cast a weight along one direction. */
double pz_format_weight_bytes(enum pz_format f);

/* At the format's rate on the chip (fp8_speedup, fp8_block_speedup, nvfp4_speedup times that of a 16-bit product), with
 * the bytes of its operands.  Errors as pz_cost_product. */
PZ_NODISCARD enum pz_status pz_cost_format_product(struct pz_cost *cost, enum pz_format format,
                                                   const struct pz_product *p,
                                                   struct pz_mapping *out, struct pz_error *err);

/* Like pz_cost_format_product(), but raises errors. */
struct pz_mapping pz_estimate_narrow_product(struct pz_call *call, struct pz_cost *cost,
                                             enum pz_format format,
                                             const struct pz_product *product);

/* The same of the products of experts. */
PZ_NODISCARD enum pz_status pz_cost_format_grouped(struct pz_cost *cost, enum pz_format format,
                                                   const struct pz_grouped *g,
                                                   struct pz_mapping *out, struct pz_error *err);

/* Activations or gradients of a training step, for the product at hand and for the weights' gradient: what Transformer
 * Engine reads and writes for a 16-bit value.  `parts` above 1: so many devices cast a part of the rows each, and gather
 * them.  `frozen`: of a weight that is not trained, which needs no copy along the columns for its gradient (Transformer
 * Engine, backward_needs_input in pytorch/module/linear.py). */
void pz_cost_format_cast(const struct pz_chip *c, enum pz_format format, int64_t rows, int64_t cols,
                         int64_t parts, bool frozen, struct pz_vector_time *out);

/* Activations as inference frameworks quantise them, for one product, again and again, with data that may stay in the
 * global buffer.  PZ_FORMAT_FP8_CURRENT: a scale found from the largest value, then the cast, in two kernels: 3 bytes a
 * value, of which 2 are read twice (bytes_per_value of the kernel); others in one. */
void pz_cost_serving_cast(const struct pz_chip *c, enum pz_format format, int64_t rows,
                          int64_t cols, struct pz_vector_time *out);

#endif
