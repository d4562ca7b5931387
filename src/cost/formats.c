/* GEMMs with narrow operands are estimated as 16-bit GEMMs on a chip that is changed accordingly:
 * with operands of one byte and a higher rate.  Two 4-bit values count as one 8-bit value at half
 * the rate.  Simplifications: the tiles are those of 16-bit GEMMs, and scales of blocks add bytes
 * to casts but not to the operands of GEMMs. */
#include "cost/formats.h"

#include <math.h>

#include "core/num.h"
#include "workload/op.h"

/* The traffic of a cast for each 16-bit value.  `reads` is how often the value is read: once for
 * the cast, and once more if the largest value of the tensor is found first; norms find part of it
 * on the way.  Transformer Engine's Hadamard transform is in the same passes
 * (hadamard_transform_amax, hadamard_transform_cast_fusion).  `bytes` is the size of the value in
 * one of its two copies, along rows and along columns, with its share of the scale of its block: 4
 * bytes for 1 x 128 values, and one byte for 1 x 32 and 1 x 16 values (Transformer Engine,
 * common/recipe; arXiv 2209.05433, 2310.10537, 2509.25149). */
static const struct {
  double reads, bytes;
} casts[] = {[PZ_FORMAT_16BIT] = {0, 2},
             [PZ_FORMAT_FP8_DELAYED] = {1, 1},
             [PZ_FORMAT_FP8_CURRENT] = {1.87, 1},
             [PZ_FORMAT_FP8_BLOCK] = {1, 1 + 4.0 / 128},
             [PZ_FORMAT_MXFP8] = {1, 1 + 1.0 / 32},
             [PZ_FORMAT_NVFP4] = {2, 0.5 + 1.0 / 16}};

/* Returns the bytes of a value in one copy, with its share of the scale of its block. */
double pz_format_bytes(enum pz_format format) { return casts[format].bytes; }

/* Returns the bytes that a cast of a weight moves for each value: 16-bit reads, and one copy that
 * it writes.  The number of reads is rounded up.  It is fractional because norms find the largest
 * value of some activations on the way; no norm precedes a weight, whose largest value takes a
 * whole second read. */
double pz_format_weight_bytes(enum pz_format format) {
  return 2 * ceil(casts[format].reads) + casts[format].bytes;
}

/* Returns the rate of GEMMs with narrow operands over that of 16-bit ones.  A chip without a rate
 * for 4-bit operands has the 8-bit rate for them.  If a power limit slows 16-bit GEMMs, narrow
 * operands gain at most the factor by which they save energy. */
static double narrow_speedup(const struct pz_calibration *calibration, enum pz_format format) {
  double speedup = calibration->fp8_speedup;
  if (format == PZ_FORMAT_FP8_BLOCK && calibration->fp8_block_speedup > 0)
    speedup = calibration->fp8_block_speedup;
  if (format == PZ_FORMAT_NVFP4 && calibration->nvfp4_speedup > 0)
    speedup = calibration->nvfp4_speedup;
  bool is_power_limited = calibration->throttle * calibration->training_throttle > 1;
  return is_power_limited ? fmin(speedup, 1 / pz_power_width_part(format)) : speedup;
}

/* Returns the slowdown of a GEMM by the power limit, from the slowdown of 16-bit GEMMs. */
double pz_format_slowdown(const struct pz_chip *chip, enum pz_format format,
                          double slowdown_16bit) {
  bool scales_on_lanes = format == PZ_FORMAT_FP8_BLOCK && chip->calibration.fp8_block_speedup > 0;
  if (format == PZ_FORMAT_16BIT || scales_on_lanes) return slowdown_16bit;
  double watts_over_limit =
      slowdown_16bit * narrow_speedup(&chip->calibration, format) * pz_power_width_part(format);
  return slowdown_16bit > 1 ? fmax(1, watts_over_limit) : 1;
}

/* Returns the chip on which a GEMM of a narrow format takes the time of an 8-bit GEMM with
 * values_per_byte values in each byte. */
static struct pz_chip narrow_chip(const struct pz_chip *chip, enum pz_format format,
                                  int64_t values_per_byte) {
  struct pz_chip narrow = *chip;
  struct pz_calibration *calibration = &narrow.calibration;
  narrow.rules.operand_bytes = 1;
  calibration->throttle = pz_format_slowdown(chip, format, chip->calibration.throttle);
  calibration->tensor_efficiency *=
      narrow_speedup(&chip->calibration, format) / (double)values_per_byte;
  if (format == PZ_FORMAT_NVFP4 && chip->calibration.nvfp4_tile_value_s > 0)
    calibration->tile_value_s = chip->calibration.nvfp4_tile_value_s;
  return narrow;
}

/* Returns the fastest mapping of a grouped GEMM with narrow operands. */
struct pz_mapping pz_estimate_narrow_grouped(struct pz_call *call, struct pz_cost *cost,
                                             const struct pz_chip *chip, enum pz_format format,
                                             const struct pz_grouped *grouped) {
  int64_t values_per_byte = 8 / pz_format_bits(format);
  struct pz_chip narrow = narrow_chip(chip, format, values_per_byte);
  struct pz_grouped packed = *grouped;
  packed.k = pz_ceil_div(grouped->k, values_per_byte);
  struct pz_mapping mapping = pz_estimate_grouped(call, cost, &narrow, &packed);
  double macs = (double)grouped->tokens * (double)grouped->n * (double)grouped->k;
  pz_cost_within_watts(&cost->power, chip, macs, format, &mapping);
  return mapping;
}

/* Returns the fastest mapping of a GEMM with narrow operands.  Results have 16 bits, so HBM traffic
 * is one byte for each result more than that of the narrow chip, whose values have 8 bits. */
struct pz_mapping pz_estimate_narrow_product(struct pz_call *call, struct pz_cost *cost,
                                             enum pz_format format,
                                             const struct pz_product *product) {
  const struct pz_chip *chip = &cost->chip;
  int64_t values_per_byte = 8 / pz_format_bits(format);
  struct pz_chip narrow = narrow_chip(chip, format, values_per_byte);
  struct pz_product packed = *product;
  packed.k = pz_ceil_div(product->k, values_per_byte);
  struct pz_mapping mapping = pz_estimate_product(call, cost, &narrow, &packed);

  double results = (double)product->batch * (double)product->m * (double)product->n;
  double operand_bytes = pz_format_bits(format) / 8.0; /* of one value */
  double call_bytes = 2 * results + operand_bytes * (double)product->batch * (double)product->k *
                                        (double)(product->m + product->n);
  double cold = product->warm ? pz_cold_part(chip, call_bytes) : 1;
  double rate = pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_write_efficiency;
  mapping.hbm_s += results / rate * cold;
  mapping.hbm_bytes += results;
  mapping.latency_s = mapping.startup_s + fmax(fmax(mapping.compute_s, mapping.hbm_s),
                                               fmax(mapping.glb_s, mapping.local_s));
  pz_cost_within_watts(&cost->power, chip, (double)product->k * results, format, &mapping);
  return mapping;
}

/* Sets *out to the time of the casts of rows x cols values in a training step.  Tensor cores before
 * Blackwell and AMD's libraries read 8-bit operands along the rows only.  There, a tensor with one
 * scale is gathered in one copy and transposed afterwards (Transformer Engine:
 * nvte_is_non_tn_fp8_gemm_supported, and _create_transpose in pytorch/tensor). */
void pz_cost_format_cast(const struct pz_chip *chip, enum pz_format format, int64_t rows,
                         int64_t cols, int64_t devices, bool frozen, struct pz_vector_time *out) {
  double read_bytes = 2 * casts[format].reads, copy_bytes = casts[format].bytes;
  bool one_scale = format == PZ_FORMAT_FP8_DELAYED || format == PZ_FORMAT_FP8_CURRENT;
  bool reads_any_order = pz_chip_has_nvfp4(chip); /* true from Blackwell on */
  bool transposes_later = devices > 1 && one_scale && !reads_any_order && !frozen;
  bool has_one_copy = frozen || (one_scale && (transposes_later || reads_any_order));
  double copies = has_one_copy ? 1 : 2;
  double transpose_bytes = transposes_later ? 2 * copy_bytes : 0; /* read and written */
  double value_bytes = (read_bytes + copies * copy_bytes) / (double)devices + transpose_bytes;
  double bytes = (double)rows * (double)cols * value_bytes;
  struct pz_vector_work work = {PZ_OP_CAST, PZ_FORWARD, rows, cols, bytes, false};
  pz_vector_time(chip, &work, out);
}

/* Sets *out to the time in which an inference framework quantises the activations of one GEMM. */
void pz_cost_serving_cast(const struct pz_chip *chip, enum pz_format format, int64_t rows,
                          int64_t cols, struct pz_vector_time *out) {
  const char *kernel = "fp8_block_cast";
  if (format == PZ_FORMAT_FP8_CURRENT) kernel = "fp8_dynamic_cast";
  if (format == PZ_FORMAT_NVFP4) kernel = "nvfp4_cast";
  double bytes = (double)rows * (double)cols * (2 + casts[format].bytes);
  struct pz_vector_work work = {PZ_OP_CAST, PZ_FORWARD, rows, cols, bytes, true};
  pz_vector_named(chip, kernel, &work, out);
}
