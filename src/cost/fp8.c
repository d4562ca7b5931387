#include "cost/fp8.h"

#include <math.h>

#include "core/num.h"
#include "workload/op.h"

/* A product, or one of experts, on a chip with operands of half the width and more of them a second. */
static enum pz_status on_half(struct pz_cost *cost, double speedup, const struct pz_product *p,
                              const struct pz_grouped *g, struct pz_mapping *out,
                              struct pz_error *err) {
  struct pz_chip chip = cost->chip, half = chip;
  uint64_t key = cost->chip_key;
  half.rules.operand_bytes = 1;
  half.calibration.tensor_efficiency *= speedup;
  struct pz_cluster net = cost->net;
  pz_cost_set_chip(cost, &half, &net);
  enum pz_status status =
      g ? pz_cost_grouped(cost, g, out, err) : pz_cost_product(cost, p, out, err);
  cost->chip = chip;
  cost->chip_key = key;
  return status;
}

/* Results are twice as wide as the operands. */
static void write_results(const struct pz_chip *chip, double results, double cold,
                          struct pz_mapping *o) {
  double rate = pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_write_efficiency;
  o->hbm_s += results / rate * cold;
  o->hbm_bytes += results;
  o->latency_s = o->startup_s + fmax(fmax(o->compute_s, o->hbm_s), fmax(o->glb_s, o->local_s));
}

enum pz_status pz_cost_fp8_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                                   struct pz_mapping *out, struct pz_error *err) {
  enum pz_status status = on_half(cost, cost->chip.calibration.fp8_speedup, NULL, g, out, err);
  if (status == PZ_OK)
    pz_cost_within_watts(cost, (double)g->tokens * (double)g->n * (double)g->k, true, out);
  return status;
}

static enum pz_status product(struct pz_cost *cost, double speedup, const struct pz_product *p,
                              struct pz_mapping *out, struct pz_error *err) {
  struct pz_mapping o;
  enum pz_status status = on_half(cost, speedup, p, NULL, &o, err);
  if (status != PZ_OK) return status;
  double results = (double)p->batch * (double)p->m * (double)p->n;
  double all = 2 * results + (double)p->batch * (double)p->k * (double)(p->m + p->n);
  write_results(&cost->chip, results, p->warm ? pz_cold_part(&cost->chip, all) : 1, &o);
  pz_cost_within_watts(cost, (double)p->k * results, true, &o);
  *out = o;
  return PZ_OK;
}

enum pz_status pz_cost_fp8_product(struct pz_cost *cost, const struct pz_product *p,
                                   struct pz_mapping *out, struct pz_error *err) {
  return product(cost, cost->chip.calibration.fp8_speedup, p, out, err);
}

enum pz_status pz_cost_fp8_block_product(struct pz_cost *cost, const struct pz_product *p,
                                         struct pz_mapping *out, struct pz_error *err) {
  const struct pz_calibration *k = &cost->chip.calibration;
  double speedup = k->fp8_block_speedup > 0 ? k->fp8_block_speedup : k->fp8_speedup;
  return product(cost, speedup, p, out, err);
}

void pz_cost_fp8_dynamic_cast(const struct pz_chip *c, int64_t rows, int64_t cols,
                              struct pz_vector_time *out) {
  struct pz_vector_work w = {PZ_OP_CAST, PZ_FORWARD, rows, cols, (double)rows * (double)cols * 3,
                             true};
  pz_vector_named(c, "fp8_dynamic_cast", &w, out);
}

void pz_cost_fp8_cast(const struct pz_chip *c, int64_t rows, int64_t cols, bool transposed,
                      struct pz_vector_time *out) {
  double bytes = (double)rows * (double)cols * (transposed ? 4 : 3);
  struct pz_vector_work w = {PZ_OP_CAST, PZ_FORWARD, rows, cols, bytes, false};
  pz_vector_time(c, &w, out);
}
