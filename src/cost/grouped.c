#include "cost/grouped.h"

#include <math.h>

#include "core/num.h"
#include "cost/mapper.h"

/* Rows of a tile of a grouped kernel: two cores share the weights of a tile of twice 128 rows; with
 * no more rows than that for each expert, one core has them.  As measured on an H200 (PyTorch
 * 2.11). */
static const double TILE = 256, SMALL_TILE = 128;

/* Of a result: 16 bit, whatever the operands are. */
static const double RESULT_BYTES = 2;

/* Rows that a kernel of the weights' gradient takes at a time. */
static const int64_t STEP = 64;

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

int64_t pz_grouped_tile(int i) {
  static const int64_t rows[] = {16, 32, 64, 128, 256, 0};
  return rows[i];
}

struct pz_product pz_grouped_product(const struct pz_chip *c, const struct pz_grouped *g,
                                     int64_t rows) {
  bool small = is_even(g) && (double)g->tokens / (double)g->experts <= SMALL_TILE;
  double tile = rows ? (double)rows : small ? SMALL_TILE : TILE;
  struct pz_product p = {g->experts, pz_max(1, pz_ceil_div(g->tokens, g->experts)), g->n, g->k,
                         g->warm};
  if (!c->calibration.n_tiles) return p;
  p.batch = pz_max(1, (int64_t)ceil(tiles_of(g, tile)));
  p.m = (int64_t)tile;
  return p;
}

int64_t pz_grouped_rows(int64_t rows) { return pz_ceil_div(pz_max(1, rows), STEP) * STEP; }

void pz_grouped_bytes(const struct pz_chip *c, const struct pz_grouped *g, struct pz_mapping *o) {
  double operand = (double)c->rules.operand_bytes, tokens = (double)g->tokens;
  double read = operand * (double)g->k * (tokens + (double)g->experts * (double)g->n),
         written = fmax(RESULT_BYTES, operand) * tokens * (double)g->n;
  const struct pz_kernel *own = g->tuned ? NULL : pz_chip_kernel(c, "grouped");
  double same = g->tuned ? g->tuned->hbm_efficiency : own ? own->hbm_efficiency : 0;
  double read_rate = same > 0 ? same : c->calibration.hbm_read_efficiency,
         write_rate = same > 0 ? same : c->calibration.hbm_write_efficiency;
  double all = read + written + (g->tuned ? g->tuned->beside_bytes : 0);
  double rate = pz_chip_hbm_bytes_per_s(c), cold = g->warm ? pz_cold_part(c, all) : 1;
  if (own) o->startup_s = own->startup_s;
  o->hbm_bytes = cold * (read + written);
  o->hbm_s = cold * (read / read_rate + written / write_rate) / rate;
  double core_s = fmax(o->compute_s, fmax(o->glb_s, o->local_s)),
         n = g->tuned ? g->tuned->smooth : 0;
  double both = n > 0 ? pow(pow(core_s, n) + pow(o->hbm_s, n), 1 / n) : fmax(core_s, o->hbm_s);
  o->latency_s = o->startup_s + both;
  o->utilisation =
      2 * tokens * (double)g->n * (double)g->k / (pz_chip_tensor_flop_per_s(c) * o->latency_s);
}
