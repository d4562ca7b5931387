/* The mapper: the fastest mapping of a matrix product batch x (m x k)(k x n) to a chip's tensor
 * cores, exact over the mapspace declared here (see doc/cost.md).
 *
 * A mapping chooses
 *  - the tile: mC x nC results over kC of the inner dimension, the work of one core at a time;
 * tiles are assigned to the cores in rounds.  Candidates for a dimension D are D, ceil(D / 2^i) and
 *    side * 2^i with side = min(rows, cols); none below side if D is above it (an eighth of it
 * where filling the array is free).  A chip may bring its library's own list of tiles;
 *  - the stationary operand: the one that stays in the core's buffer while the others stream
 * through it, among those that fit;
 *  - the spatial mapping: one dimension along the rows of the array, another along the columns, the
 *    third streams (six ways), and how many values of the stationary operand each multiplier keeps
 *    (powers of two);
 *  - the tile of the product in the global buffer, and its stationary operand.
 * The last choice is independent: the core's tiles need not nest in it, and partial sums between
 * tiles of k need not fit in the global buffer.  With a global buffer that holds the product's
 * operands that changes nothing; with a smaller one the latency is a lower bound on that of a
 * nested mapping.  Latency is the largest of arithmetic, local, global and HBM traffic over their
 * rates, plus start-up.  Among the fastest mappings the one with the least energy is chosen. */
#ifndef PZ_COST_MAPPER_H
#define PZ_COST_MAPPER_H

#include "chip/chip.h"
#include "cost/product.h"

/* The best mapping.  PZ_BAD_INPUT for a product outside the limits of pz_product_check, and when a
 * buffer is too small for any tile.  Cost: some microseconds. */
PZ_NODISCARD enum pz_status pz_map_product(const struct pz_product *p, const struct pz_chip *c,
                                           struct pz_mapping *out, struct pz_error *err);

/* Core counts and sizes of the global buffer. */
struct pz_sweep {
  const int64_t *cores, *glb_bytes;
  size_t n_cores, n_glb;
};

/* One product on chips that differ from *c in core count and GLB size alone.  Its latency with
 * cores[i] and glb_bytes[j] is startup_s + max(core_s[i], hbm_s[j]), equal to pz_map_product's (but
 * for GLB sizes that change what stays warm), with the work shared. */
PZ_NODISCARD enum pz_status pz_map_sweep(const struct pz_product *p, const struct pz_chip *c,
                                         const struct pz_sweep *sweep, double *core_s,
                                         double *hbm_s, double *startup_s, struct pz_error *err);

/* The part of a repeated call's data that comes from HBM again. */
double pz_cold_part(const struct pz_chip *c, double bytes);

#endif
