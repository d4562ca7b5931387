#include "cost/formats.h"

#include <math.h>

#include "core/num.h"
#include "workload/op.h"

/* What a cast of a training step moves for a 16-bit value.  `reads`: of the value, once for the cast and once more where
 * the largest value of the tensor comes first; Transformer Engine's Hadamard transform of what the weights' gradient
 * reads is in the same passes (hadamard_transform_amax, hadamard_transform_cast_fusion).  `bytes`: of one of its two
 * copies, along rows and along columns, with the scales of its blocks: 1 x 128 of 4 bytes, 1 x 32 and 1 x 16 of one
 * (Transformer Engine, common/recipe; arXiv 2209.05433, 2310.10537, 2509.25149). */
static const struct {
  double reads, bytes;
} casts[] = {[PZ_FORMAT_16BIT] = {0, 2},
             [PZ_FORMAT_FP8_DELAYED] = {1, 1},
             [PZ_FORMAT_FP8_CURRENT] = {1.87, 1},
             [PZ_FORMAT_FP8_BLOCK] = {1, 1 + 4.0 / 128},
             [PZ_FORMAT_MXFP8] = {1, 1 + 1.0 / 32},
             [PZ_FORMAT_NVFP4] = {2, 0.5 + 1.0 / 16}};

double pz_format_bytes(enum pz_format f) { return casts[f].bytes; }

double pz_format_weight_bytes(enum pz_format f) {
  return 2 * ceil(casts[f].reads) + casts[f].bytes; /* no norm finds its largest value */
}

/* Rate of GEMMs with narrow operands over that of 16-bit ones.  A chip description without a rate for 4-bit operands gives them
 * the 8-bit rate.  Where a power limit slows 16-bit GEMMs, narrow operands gain at most the factor by which they save energy. */
static double speedup_of(const struct pz_calibration *k, enum pz_format format) {
  bool block = format == PZ_FORMAT_FP8_BLOCK && k->fp8_block_speedup > 0;
  double speedup = block ? k->fp8_block_speedup : k->fp8_speedup;
  if (format == PZ_FORMAT_NVFP4 && k->nvfp4_speedup > 0) speedup = k->nvfp4_speedup;
  bool limited = k->throttle * k->training_throttle > 1;
  return limited ? fmin(speedup, 1 / pz_power_width_part(format)) : speedup;
}

double pz_format_slowdown(const struct pz_chip *c, enum pz_format f, double of_16bit) {
  bool on_lanes = f == PZ_FORMAT_FP8_BLOCK && c->calibration.fp8_block_speedup > 0;
  if (f == PZ_FORMAT_16BIT || on_lanes) return of_16bit;
  double watts = of_16bit * speedup_of(&c->calibration, f) * pz_power_width_part(f);
  return of_16bit > 1 ? fmax(1, watts) : 1;
}

/* A product, or one of experts, on a chip with operands of one byte and more of them a second.  Two values of 4 bit are
 * one of 8 at half the rate. */
static enum pz_status on_narrow(struct pz_cost *cost, enum pz_format format,
                                const struct pz_product *p, const struct pz_grouped *g,
                                struct pz_mapping *out, struct pz_error *err) {
  struct pz_chip chip = cost->chip, narrow = chip;
  uint64_t key = cost->chip_key;
  int64_t values = 8 / pz_format_bits(format); /* of a byte */
  narrow.rules.operand_bytes = 1;
  narrow.calibration.throttle = pz_format_slowdown(&chip, format, chip.calibration.throttle);
  narrow.calibration.tensor_efficiency *= speedup_of(&chip.calibration, format) / (double)values;
  if (format == PZ_FORMAT_NVFP4 && chip.calibration.nvfp4_tile_value_s > 0)
    narrow.calibration.tile_value_s = chip.calibration.nvfp4_tile_value_s;
  struct pz_cluster net = cost->net;
  pz_cost_set_chip(cost, &narrow, &net);
  enum pz_status status;
  if (g) {
    struct pz_grouped packed = *g;
    packed.k = pz_ceil_div(g->k, values);
    status = pz_cost_grouped(cost, &packed, out, err);
  } else {
    struct pz_product packed = *p;
    packed.k = pz_ceil_div(p->k, values);
    status = pz_cost_product(cost, &packed, out, err);
  }
  cost->chip = chip;
  cost->chip_key = key;
  return status;
}

/* Results are twice as wide as a byte of operands. */
static void write_results(const struct pz_chip *chip, double results, double cold,
                          struct pz_mapping *o) {
  double rate = pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_write_efficiency;
  o->hbm_s += results / rate * cold;
  o->hbm_bytes += results;
  o->latency_s = o->startup_s + fmax(fmax(o->compute_s, o->hbm_s), fmax(o->glb_s, o->local_s));
}

enum pz_status pz_cost_format_grouped(struct pz_cost *cost, enum pz_format format,
                                      const struct pz_grouped *g, struct pz_mapping *out,
                                      struct pz_error *err) {
  enum pz_status status = on_narrow(cost, format, NULL, g, out, err);
  if (status == PZ_OK)
    pz_cost_within_watts(cost, (double)g->tokens * (double)g->n * (double)g->k, format, out);
  return status;
}

enum pz_status pz_cost_format_product(struct pz_cost *cost, enum pz_format format,
                                      const struct pz_product *p, struct pz_mapping *out,
                                      struct pz_error *err) {
  struct pz_mapping o;
  enum pz_status status = on_narrow(cost, format, p, NULL, &o, err);
  if (status != PZ_OK) return status;
  double results = (double)p->batch * (double)p->m * (double)p->n;
  double operand = pz_format_bits(format) / 8.0;
  double all = 2 * results + operand * (double)p->batch * (double)p->k * (double)(p->m + p->n);
  write_results(&cost->chip, results, p->warm ? pz_cold_part(&cost->chip, all) : 1, &o);
  pz_cost_within_watts(cost, (double)p->k * results, format, &o);
  *out = o;
  return PZ_OK;
}

/* Tensor cores before Blackwell, and AMD's libraries, read 8-bit operands along the rows alone: what was gathered with one
 * scale is transposed behind (Transformer Engine, also ROCm's: nvte_is_non_tn_fp8_gemm_supported, and _create_transpose in
 * pytorch/tensor). */
void pz_cost_format_cast(const struct pz_chip *c, enum pz_format format, int64_t rows, int64_t cols,
                         int64_t parts, bool frozen, struct pz_vector_time *out) {
  double read = 2 * casts[format].reads, copy = casts[format].bytes;
  bool one_scale = format == PZ_FORMAT_FP8_DELAYED || format == PZ_FORMAT_FP8_CURRENT;
  bool behind = parts > 1 && one_scale && !pz_chip_has_nvfp4(c) && !frozen;
  bool one = frozen || (one_scale && (behind || pz_chip_has_nvfp4(c)));
  double value = (read + (one ? 1 : 2) * copy) / (double)parts + (behind ? 2 * copy : 0);
  double bytes = (double)rows * (double)cols * value;
  struct pz_vector_work w = {PZ_OP_CAST, PZ_FORWARD, rows, cols, bytes, false};
  pz_vector_time(c, &w, out);
}

void pz_cost_serving_cast(const struct pz_chip *c, enum pz_format format, int64_t rows,
                          int64_t cols, struct pz_vector_time *out) {
  const char *kernel = format == PZ_FORMAT_FP8_CURRENT ? "fp8_dynamic_cast"
                       : format == PZ_FORMAT_NVFP4     ? "nvfp4_cast"
                                                       : "fp8_block_cast";
  double bytes = (double)rows * (double)cols * (2 + casts[format].bytes);
  struct pz_vector_work w = {PZ_OP_CAST, PZ_FORWARD, rows, cols, bytes, true};
  pz_vector_named(c, kernel, &w, out);
}

struct pz_mapping pz_estimate_narrow_product(struct pz_call *call, struct pz_cost *cost,
                                             enum pz_format format,
                                             const struct pz_product *product) {
  struct pz_mapping mapping;
  pz_must(call, pz_cost_format_product(cost, format, product, &mapping, pz_call_error(call)));
  return mapping;
}
