#include "cost/beside.h"

#include <math.h>

#include "chip/chip.h"
#include "cost/constants.h"

/* Of a GEMM's result, that one core works on. */
static const double TILE_ROWS = 128, TILE_COLS = 256;

/* Tiles run in rounds of one for each core; with fewer cores there is a round more, at most half of two. */
static const double LEAST_ROUNDS = 2;

double pz_beside_cores(const struct pz_constants *k, const struct pz_chip *c) {
  if (c->execution != PZ_CHIP_STREAM || c->tensor.cores < 1) return 0;
  return pz_fmin(k->communication_cores / (double)c->tensor.cores, 0.5);
}

double pz_beside_gemm(const struct pz_constants *k, const struct pz_chip *c,
                      const struct pz_dims *d, double part) {
  if (!(part > 0)) return 1;
  double tiles = (double)d->batch * ceil((double)d->m / TILE_ROWS) * ceil((double)d->n / TILE_COLS);
  double rounds = pz_fmax(LEAST_ROUNDS, ceil(tiles / (double)c->tensor.cores));
  return (1 + 1 / rounds) * pow(1 - part, -k->beside_compute);
}

double pz_beside_attention(const struct pz_constants *k, double part) {
  return pow(1 - part, -k->beside_compute);
}

double pz_beside_elementwise(const struct pz_constants *k, double part) {
  return pow(1 - part, -k->beside_memory);
}
