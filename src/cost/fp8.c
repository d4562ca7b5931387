#include "cost/fp8.h"

#include <math.h>

#include "core/num.h"
#include "workload/op.h"

enum pz_status pz_cost_fp8_product(struct pz_cost *cost, const struct pz_product *p,
                                   struct pz_mapping *out, struct pz_error *err) {
  struct pz_chip chip = cost->chip, half = chip;
  uint64_t key = cost->chip_key;
  struct pz_mapping o;
  half.rules.operand_bytes = 1;
  half.calibration.tensor_efficiency *= half.calibration.fp8_speedup;
  struct pz_cluster net = cost->net;
  pz_cost_set_chip(cost, &half, &net);
  enum pz_status status = pz_cost_product(cost, p, &o, err);
  cost->chip = chip;
  cost->chip_key = key;
  if (status != PZ_OK) return status;
  /* results are twice as wide as the operands */
  double results = (double)p->batch * (double)p->m * (double)p->n;
  double rate = pz_chip_hbm_bytes_per_s(&chip) * chip.calibration.hbm_write_efficiency;
  double all = results + (double)p->batch * (double)p->k * (double)(p->m + p->n);
  o.hbm_s += results / rate * (p->warm ? pz_cold_part(&chip, all + results) : 1);
  o.hbm_bytes += results;
  o.latency_s = o.startup_s + fmax(fmax(o.compute_s, o.hbm_s), fmax(o.glb_s, o.local_s));
  *out = o;
  return PZ_OK;
}

void pz_cost_fp8_cast(const struct pz_chip *c, int64_t rows, int64_t cols, bool transposed,
                      struct pz_vector_time *out) {
  double bytes = (double)rows * (double)cols * (transposed ? 4 : 3);
  struct pz_vector_work w = {PZ_OP_CAST, PZ_FORWARD, rows, cols, bytes, false};
  pz_vector_time(c, &w, out);
}
