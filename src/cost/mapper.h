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
 * Latency is the largest of arithmetic, local, global and HBM traffic over their rates, plus
 * start-up.  Among the fastest mappings the one with the least energy is chosen.
 *
 * Nested mappings (rules.nested_mapping).  The tile of the global buffer is bG products of mG x nG
 * results over kG, and contains the tiles of the cores:
 *  - along each dimension it is the whole, or a multiple of the core tile: the smallest that
 *    reaches a candidate size and covers the dimension in as many tiles as that size does;
 *  - bG is one of ceil(batch / 2^i);
 *  - the buffer holds for each of the bG products the stationary operand's tile and, twice where
 *    rules.double_buffer, those of the other two (at least a slice of the third dimension).
 *    Partial sums are among them, sum_bytes each, whatever is stationary;
 *  - only a slice of the third dimension is held where the items of the tile are one round, one
 *    item along that dimension, and the cores keep the same operand: they stream in step;
 *  - tiles of the global buffer come one after another, those of the third dimension innermost.
 *    The items of one are assigned to the cores in rounds of their own;
 *  - a stationary tile crosses to HBM once, with partial sums out and back between tiles of k; the
 *    other two operands pass it whole.
 * Every chip that pz_chip_check accepts has a nested mapping of every product.
 *
 * The relaxation, without that rule: the tile of the global buffer is chosen apart, the core tiles
 * need not nest in it, and slices of what streams suffice.  It is never slower than nested
 * mappings, and serves as the bound of searches (pz_map_sweep).  Chips with a library's tiles
 * (calibration.tiles) have it always: their buffer is a cache, and measured constants say what
 * reaches HBM. */
#ifndef PZ_COST_MAPPER_H
#define PZ_COST_MAPPER_H

#include "chip/chip.h"

/* The best mapping.  PZ_BAD_INPUT for a product with sizes beyond 2^40, operands beyond 2^53 values or more than 2^62
 * multiplications, and when a buffer is too small for any tile.  Cost: some microseconds. */
PZ_NODISCARD enum pz_status pz_map_product(const struct pz_product *p, const struct pz_chip *c,
                                           struct pz_mapping *out, struct pz_error *err);

/* Core counts and sizes of the global buffer. */
struct pz_sweep {
  const int64_t *cores, *glb_bytes;
  size_t n_cores, n_glb;
};

/* One product on chips that differ from *c in core count and GLB size alone.  Its latency with
 * cores[i] and glb_bytes[j] is at least startup_s + max(core_s[i], hbm_s[j]), that of the relaxation
 * (but for GLB sizes that change what stays warm), with the work shared. */
PZ_NODISCARD enum pz_status pz_map_sweep(const struct pz_product *p, const struct pz_chip *c,
                                         const struct pz_sweep *sweep, double *core_s,
                                         double *hbm_s, double *startup_s, struct pz_error *err);

/* The part of a repeated call's data that comes from HBM again. */
double pz_cold_part(const struct pz_chip *c, double bytes);

#endif
