#include "cost/grouped.h"

#include <math.h>

#include "core/num.h"

/* Rows of a tile of a grouped kernel: two cores share the weights of a tile of twice 128 rows; with
 * no more rows than that for each expert, one core has them.  As measured on an H200 (PyTorch
 * 2.11). */
static const double TILE = 256, SMALL_TILE = 128;

static bool is_even(const struct pz_grouped *g) {
  return (double)g->largest * (double)g->experts <= (double)g->tokens;
}

/* Tiles of all experts: the largest, and the others alike, each with half of a tile to spare. */
static double tiles_of(const struct pz_grouped *g, double tile) {
  double experts = (double)g->experts, tokens = (double)g->tokens, largest = (double)g->largest;
  if (is_even(g)) return experts * ceil(tokens / experts / tile);
  double others = experts > 1 ? (tokens - largest) / (experts - 1) : 0;
  return ceil(largest / tile) + (experts - 1) * fmax(others / tile + 0.5, 1);
}

enum pz_status pz_cost_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                               struct pz_mapping *out, struct pz_error *err) {
  const struct pz_chip *c = &cost->chip;
  double tile =
      is_even(g) && (double)g->tokens / (double)g->experts <= SMALL_TILE ? SMALL_TILE : TILE;
  struct pz_product p = {g->experts, pz_max(1, pz_ceil_div(g->tokens, g->experts)), g->n, g->k,
                         g->warm};
  if (c->calibration.n_tiles) {
    p.batch = pz_max(1, (int64_t)ceil(tiles_of(g, tile)));
    p.m = (int64_t)tile;
  }
  enum pz_status status = pz_cost_product(cost, &p, out, err);
  if (status != PZ_OK) return status;
  double operand = (double)c->rules.operand_bytes, tokens = (double)g->tokens;
  double read = operand * (double)g->k * (tokens + (double)g->experts * (double)g->n),
         written = operand * tokens * (double)g->n;
  const struct pz_kernel *own = pz_chip_kernel(c, "grouped");
  double read_rate = own ? own->hbm_efficiency : c->calibration.hbm_read_efficiency,
         write_rate = own ? own->hbm_efficiency : c->calibration.hbm_write_efficiency;
  double rate = pz_chip_hbm_bytes_per_s(c), cold = g->warm ? pz_cold_part(c, read + written) : 1;
  if (own) out->startup_s = own->startup_s;
  out->hbm_bytes = cold * (read + written);
  out->hbm_s = cold * (read / read_rate + written / write_rate) / rate;
  out->latency_s =
      out->startup_s + fmax(fmax(out->compute_s, out->hbm_s), fmax(out->glb_s, out->local_s));
  out->utilisation =
      2 * tokens * (double)g->n * (double)g->k / (pz_chip_tensor_flop_per_s(c) * out->latency_s);
  return PZ_OK;
}
