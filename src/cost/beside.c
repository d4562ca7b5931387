/* Slowdown of compute beside communication: with a part x of the cores occupied, a kernel takes (1
 * - x)^-n times as long, with an exponent n for compute and another for memory. */
#include "cost/beside.h"

#include <math.h>

#include "chip/chip.h"
#include "cost/constants.h"

/* Returns the part of the cores that collectives occupy, at most half of them. */
double pz_beside_cores(const struct pz_constants *constants, const struct pz_chip *chip) {
  static const double MOST_PART = 0.5;
  if (chip->execution != PZ_CHIP_STREAM || chip->tensor.cores < 1) return 0;
  return pz_fmin(constants->communication_cores / (double)chip->tensor.cores, MOST_PART);
}

/* Returns the slowdown of a GEMM.  Its tiles run in rounds of one tile on each core, and fewer
 * cores need one more round.  A GEMM has at least two here, so one more adds at most half. */
double pz_beside_gemm(const struct pz_constants *constants, const struct pz_chip *chip,
                      const struct pz_dims *dims, double occupied) {
  static const double TILE_ROWS = 128, TILE_COLS = 256, LEAST_ROUNDS = 2;
  if (!(occupied > 0)) return 1;
  double tiles =
      (double)dims->batch * ceil((double)dims->m / TILE_ROWS) * ceil((double)dims->n / TILE_COLS);
  double rounds = pz_fmax(LEAST_ROUNDS, ceil(tiles / (double)chip->tensor.cores));
  return (1 + 1 / rounds) * pow(1 - occupied, -constants->beside_compute);
}

/* Returns the slowdown of attention, which is bound by compute. */
double pz_beside_attention(const struct pz_constants *constants, double occupied) {
  return pow(1 - occupied, -constants->beside_compute);
}

/* Returns the slowdown of an element-wise kernel, which is bound by memory. */
double pz_beside_elementwise(const struct pz_constants *constants, double occupied) {
  return pow(1 - occupied, -constants->beside_memory);
}
