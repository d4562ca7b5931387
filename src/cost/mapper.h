/* The mapper: finds the fastest mapping of a GEMM batch x (m x k)(k x n) to a chip's tensor cores.
 * It is exact over the mapspace that is declared here (see doc/cost.md).
 *
 * A mapping chooses
 *  - the core tile: m x n results over a part of the inner dimension, the work of one core at a
 *    time, called an item.  Items are assigned to the cores in rounds.  Candidate sizes for a
 *    dimension D are D, ceil(D / 2^i), and side * 2^i with side = min(rows, cols) of the array;
 *    none is below side if D is above it (an eighth of it where filling the array is free).  A chip
 *    may bring its library's own list of tiles instead;
 *  - the stationary operand: the one that stays in the core's buffer while the others stream
 *    through it, among those that fit;
 *  - the spatial mapping: one dimension along the rows of the array, another along its columns,
 *    while the third streams (six ways), and how many values of the operand on the array each
 *    multiplier keeps in registers (powers of two);
 *  - the tile of the GEMM in the global buffer, and its stationary operand.
 * The latency is the largest of arithmetic and of local, global and HBM traffic over their rates,
 * plus a start-up time.  Among the fastest mappings the one with the least energy is chosen.
 *
 * Nested mappings (rules.nested_mapping).  The tile of the global buffer is bG GEMMs of the batch
 * of mG x nG results over kG, and contains the core tiles:
 *  - along each dimension it is the whole, or a multiple of the core tile: the smallest that
 *    reaches a candidate size and covers the dimension with as many tiles as that size does;
 *  - bG is one of ceil(batch / 2^i);
 *  - for each of the bG GEMMs the buffer holds the tile of the stationary operand and, twice where
 *    rules.double_buffer is set, those of the other two (at least a slice of the third dimension).
 *    Partial sums are among them, with sum_bytes each, whatever is stationary;
 *  - only a slice of the third dimension is held where the items of the tile are one round, with
 *    one item along that dimension, and the cores keep the same operand: they stream in step;
 *  - tiles of the global buffer follow each other, those of the third dimension innermost.  The
 *    items of each are assigned to the cores in rounds of their own;
 *  - a stationary tile is loaded from HBM once, and partial sums go out and come back between tiles
 *    of k; the other two operands stream past it as a whole.
 * Every chip that pz_chip_check() accepts has a nested mapping of every GEMM.
 *
 * The relaxation.  Without that rule the tile of the global buffer is chosen independently of the
 * core tiles, and slices of what streams suffice.  It is never slower than a nested mapping and
 * serves as the bound of searches (pz_sweep_mappings).  Chips with a library's tiles
 * (calibration.tiles) always use it: their global buffer is a cache, and measured constants say
 * what reaches HBM. */
#ifndef PZ_COST_MAPPER_H
#define PZ_COST_MAPPER_H

#include "chip/chip.h"

/* Finds the best mapping, in some microseconds.  Raises PZ_BAD_INPUT for a GEMM with sizes beyond
 * 2^40, operands beyond 2^53 values or more than 2^62 multiply-accumulates, and for a chip whose
 * buffers are too small for any tile. */
struct pz_mapping pz_find_mapping(struct pz_call *call, const struct pz_product *product,
                                  const struct pz_chip *chip);

/* The core counts and sizes of the global buffer for which pz_sweep_mappings() computes bounds. */
struct pz_sweep {
  const int64_t *cores, *glb_bytes;
  size_t n_cores, n_glb;
};

/* Bounds one GEMM on chips that differ from *chip only in core count and size of the global buffer.
 * Its latency with cores[i] and glb_bytes[j] is at least startup_s + max(core_s[i], hbm_s[j]), the
 * latency of the relaxation (except for sizes that change what stays warm).  Returns startup_s. */
double pz_sweep_mappings(struct pz_call *call, const struct pz_product *product,
                         const struct pz_chip *chip, const struct pz_sweep *sweep, double *core_s,
                         double *hbm_s);

/* Returns the part of the data of a repeated call that is read from HBM, because a call that uses
 * `bytes` displaces it from the global buffer. */
double pz_cold_part(const struct pz_chip *chip, double bytes);

#endif
