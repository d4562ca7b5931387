/* A grouped GEMM takes the time of a batched GEMM with as many tiles; its HBM traffic is that of
 * its own operands.  Simplifications: all experts but the largest have the same number of rows;
 * weights are read once. */
#include "cost/grouped.h"

#include <math.h>

#include "core/num.h"
#include "cost/mapper.h"

/* Returns the batch of GEMMs with as many tiles as a grouped GEMM, one tile in each GEMM.  In
 * training libraries, two cores share the weights of a tile of 2 x 128 rows; if no expert has more
 * than 128 rows, one core has a tile of its own (measured on an H200, PyTorch 2.11).  Uneven
 * experts are the largest one and others with equal rows, which waste half a tile on average. */
struct pz_product pz_grouped_product(const struct pz_chip *chip, const struct pz_grouped *grouped,
                                     int64_t tile_rows) {
  static const double TILE = 256, SMALL_TILE = 128;
  double experts = (double)grouped->experts, tokens = (double)grouped->tokens;
  double largest = (double)grouped->largest;
  bool is_even = largest * experts <= tokens;
  struct pz_product product = {grouped->experts,
                               pz_max(1, pz_ceil_div(grouped->tokens, grouped->experts)),
                               grouped->n, grouped->k, grouped->warm};
  if (!chip->calibration.n_tiles) return product;
  double tile = is_even && tokens / experts <= SMALL_TILE ? SMALL_TILE : TILE;
  if (tile_rows) tile = (double)tile_rows;
  double tiles;
  if (is_even) {
    tiles = experts * ceil(tokens / experts / tile);
  } else {
    double others = experts > 1 ? (tokens - largest) / (experts - 1) : 0;
    tiles = ceil(largest / tile) + (experts - 1) * fmax(others / tile + 0.5, 1);
  }
  product.batch = pz_max(1, (int64_t)ceil(tiles));
  product.m = (int64_t)tile;
  return product;
}

/* Returns the rows of an expert over which its weight gradient sums: a multiple of 64. */
int64_t pz_grouped_gradient_rows(int64_t rows) {
  static const int64_t STEP = 64;
  return pz_ceil_div(pz_max(1, rows), STEP) * STEP;
}

/* Replaces the HBM traffic of a batched GEMM by that of the grouped one, and its latency
 * accordingly.  `cold` is the part of the data of a repeated call that is read from HBM. */
void pz_grouped_set_hbm_traffic(const struct pz_chip *chip, const struct pz_grouped *grouped,
                                struct pz_mapping *mapping) {
  static const double RESULT_BYTES = 2; /* results have 16 bits, whatever the operands have */
  const struct pz_grouped_tuned *tuned = grouped->tuned;
  const struct pz_kernel *kernel = tuned ? NULL : pz_chip_kernel(chip, "grouped");
  double operand_bytes = (double)chip->rules.operand_bytes, tokens = (double)grouped->tokens;
  double n = (double)grouped->n, k = (double)grouped->k;
  double read = operand_bytes * k * (tokens + (double)grouped->experts * n);
  double written = fmax(RESULT_BYTES, operand_bytes) * tokens * n;
  double read_efficiency = chip->calibration.hbm_read_efficiency;
  double write_efficiency = chip->calibration.hbm_write_efficiency;
  double kernel_efficiency = 0;
  if (tuned) kernel_efficiency = tuned->hbm_efficiency;
  if (kernel) kernel_efficiency = kernel->hbm_efficiency;
  if (kernel_efficiency > 0) read_efficiency = write_efficiency = kernel_efficiency;
  double call_bytes = read + written + (tuned ? tuned->beside_bytes : 0);
  double rate = pz_chip_hbm_bytes_per_s(chip);
  double cold = grouped->warm ? pz_cold_part(chip, call_bytes) : 1;
  if (kernel) mapping->startup_s = kernel->startup_s;
  mapping->hbm_bytes = cold * (read + written);
  mapping->hbm_s = cold * (read / read_efficiency + written / write_efficiency) / rate;
  double core_s = fmax(mapping->compute_s, fmax(mapping->glb_s, mapping->local_s));
  double smooth = tuned ? tuned->smooth : 0, work_s = fmax(core_s, mapping->hbm_s);
  if (smooth > 0) work_s = pow(pow(core_s, smooth) + pow(mapping->hbm_s, smooth), 1 / smooth);
  mapping->latency_s = mapping->startup_s + work_s;
  mapping->utilisation =
      2 * tokens * n * k / (pz_chip_tensor_flop_per_s(chip) * mapping->latency_s);
}
