/* Time, traffic and energy of one mapping, and lower bounds over several mappings.  The functions
 * are inline because the searches over mappings spend their time in them.
 *
 * A mapping is given by `choice`, the index of a tile size in space->core_tile for each dimension,
 * and by a spatial mapping.
 *
 * Traffic is counted over the whole GEMM and each boundary between two levels of memory.  An
 * operand crosses a boundary once for each step in the dimension that it does not have; partial
 * sums go out at each step in k and come back at all steps but the first (data reuse of a loop nest
 * with one stationary operand: Chen et al., Eyeriss, ISCA 2016). */
#ifndef PZ_COST_MAPPING_COST_H
#define PZ_COST_MAPPING_COST_H

#include "core/num.h"
#include "cost/mapspace.h"

/* The traffic between two levels of memory. */
struct pz_traffic {
  double reads, writes; /* bytes from the outer to the inner level, and back */
};

/* Returns the seconds of traffic.  Reads and writes share a rate unless the chip is duplex. */
static inline double pz_traffic_s(const struct pz_mapspace *space, struct pz_traffic traffic,
                                  double s_per_byte) {
  double bytes =
      space->duplex ? pz_fmax(traffic.reads, traffic.writes) : traffic.reads + traffic.writes;
  return bytes * s_per_byte;
}

/* Returns the traffic between two memory levels with step[d] steps in dimension d.  first_steps of
 * the steps in k begin a new sum, which is not read.  A complete result has result_bytes. */
static inline struct pz_traffic pz_boundary_traffic(const struct pz_mapspace *space,
                                                    const double step[PZ_DIMS], double first_steps,
                                                    double result_bytes) {
  double operand_bytes = space->operand_bytes, sum_bytes = space->results * space->sum_bytes;
  return (struct pz_traffic){
      operand_bytes * (space->inputs * step[PZ_DIM_N] + space->weights * step[PZ_DIM_M]) +
          sum_bytes * (step[PZ_DIM_K] - first_steps),
      sum_bytes * (step[PZ_DIM_K] - 1) + space->results * result_bytes};
}

/* Returns the seconds of HBM traffic, whose reads and writes have efficiencies of their own. */
static inline double pz_hbm_s(const struct pz_mapspace *space, struct pz_traffic traffic) {
  double reads_s = traffic.reads * space->hbm_read_byte_s;
  double writes_s = traffic.writes * space->hbm_write_byte_s;
  return space->duplex ? pz_fmax(reads_s, writes_s) : reads_s + writes_s;
}

/* ---- global buffer --------------------------------------------------------------------------- */

/* Returns how often an operand is read from the global buffer if `tiles` tiles need it.  Cores that
 * share a read (calibration.multicast) count once. */
static inline double pz_shared_reads(const struct pz_mapspace *space, double tiles) {
  return pz_fmax(1, tiles * space->per_share);
}

/* Returns the traffic between global and local buffers with tiles[d] tiles in dimension d. */
static inline struct pz_traffic pz_glb_traffic(const struct pz_mapspace *space,
                                               const double tiles[PZ_DIMS]) {
  const double step[PZ_DIMS] = {pz_shared_reads(space, tiles[PZ_DIM_M]),
                                pz_shared_reads(space, tiles[PZ_DIM_N]), tiles[PZ_DIM_K]};
  return pz_boundary_traffic(space, step, 1, space->operand_bytes);
}

/* Returns the traffic between the global and the local buffers with the chosen core tiles. */
static inline struct pz_traffic pz_mapping_glb_traffic(const struct pz_mapspace *space,
                                                       const int choice[PZ_DIMS]) {
  double tiles[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) tiles[d] = space->core_tile[d].count[choice[d]];
  return pz_glb_traffic(space, tiles);
}

/* ---- local buffers --------------------------------------------------------------------------- */

/* Returns the ceiling of a non-negative number far below 2^63, without a function call. */
static inline double pz_ceil_small(double x) {
  double whole = (double)(int64_t)x;
  return whole < x ? whole + 1 : whole;
}

/* Returns the steps of the array over dimension d with tiles of index i.  Registers keep 2^j
 * values, so that ceil(ceil(size / rows) / 2^j) = ceil(size / (rows 2^j)) needs no division. */
static inline double pz_spatial_steps(const struct pz_mapspace *space,
                                      const struct pz_spatial *spatial, enum pz_dim d, int i) {
  const struct pz_tile_sizes *tile = &space->core_tile[d];
  if (d == pz_spatial_way[spatial->way].rows)
    return tile->count[i] * pz_ceil_small(tile->row_steps[i] * spatial->per_keep_rows);
  if (d == pz_spatial_way[spatial->way].cols)
    return tile->count[i] * pz_ceil_small(tile->col_steps[i] * spatial->per_keep_cols);
  return tile->count[i];
}

/* Returns the traffic between local buffers and arrays.  Each tile of k begins new sums. */
static inline struct pz_traffic pz_mapping_local_traffic(const struct pz_mapspace *space,
                                                         const struct pz_spatial *spatial,
                                                         const int choice[PZ_DIMS]) {
  double step[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++)
    step[d] = pz_spatial_steps(space, spatial, (enum pz_dim)d, choice[d]);
  double tiles_k = space->core_tile[PZ_DIM_K].count[choice[PZ_DIM_K]];
  return pz_boundary_traffic(space, step, tiles_k, space->sum_bytes);
}

/* Returns the seconds of the local traffic of all items (the tiles of the cores).  The buffer of a
 * core serves its items one after another, and all buffers together may have a limit too. */
static inline double pz_local_s(const struct pz_mapspace *space, struct pz_traffic traffic,
                                double items, double rounds) {
  double own_s = pz_traffic_s(space, traffic, space->core_byte_s) * rounds / items;
  return pz_fmax(own_s, pz_traffic_s(space, traffic, space->all_cores_byte_s));
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Returns the number of items, which are the tiles that the cores work on. */
static inline double pz_mapping_items(const struct pz_mapspace *space, const int choice[PZ_DIMS]) {
  return space->batch * space->core_tile[PZ_DIM_M].count[choice[PZ_DIM_M]] *
         space->core_tile[PZ_DIM_N].count[choice[PZ_DIM_N]] *
         space->core_tile[PZ_DIM_K].count[choice[PZ_DIM_K]];
}

/* Returns exactly ceil(items / cores), the rounds in which the cores work on the items.  The
 * estimate items * per_core may be off by one. */
static inline double pz_mapping_rounds(const struct pz_mapspace *space, double items) {
  double rounds = (double)(int64_t)(items * space->per_core);
  if (rounds * space->cores < items) rounds++;
  bool is_one_too_many = rounds > 1 && (rounds - 1) * space->cores >= items;
  return is_one_too_many ? rounds - 1 : rounds;
}

/* Returns the cycles of an item that is laid on the array as in pz_spatial_way[way]. */
static inline double pz_mapping_cycles(const struct pz_mapspace *space, int way,
                                       const int choice[PZ_DIMS]) {
  enum pz_dim rows = pz_spatial_way[way].rows, cols = pz_spatial_way[way].cols,
              streams = pz_spatial_way[way].streams;
  return space->core_tile[rows].row_steps[choice[rows]] *
         space->core_tile[cols].col_steps[choice[cols]] *
         space->core_tile[streams].stream_cycles[choice[streams]];
}

/* Returns the fewest cycles of an item over all rows of pz_spatial_way[]. */
static inline double pz_mapping_least_cycles(const struct pz_mapspace *space,
                                             const int choice[PZ_DIMS]) {
  double least = pz_mapping_cycles(space, 0, choice);
  for (int way = 1; way < PZ_SPATIAL_WAYS; way++)
    least = pz_fmin(least, pz_mapping_cycles(space, way, choice));
  return least;
}

/* Returns the seconds of the arithmetic of all rounds: the cycles of an item, filling the array,
 * and writing the tile's results.  Work beyond boost_s, in which a chip runs at its boost clock, is
 * slower by `throttle`, unless its rows are unaligned and draw less power. */
static inline double pz_mapping_compute_s(const struct pz_mapspace *space,
                                          const int choice[PZ_DIMS], double cycles, double rounds) {
  const struct pz_calibration *calibration = &space->chip->calibration;
  double values = space->core_tile[PZ_DIM_M].size[choice[PZ_DIM_M]] *
                  space->core_tile[PZ_DIM_N].size[choice[PZ_DIM_N]];
  double item_s = cycles * space->cycle_s + space->item_s +
                  values * calibration->tile_value_s * space->unaligned;
  double s = rounds * item_s;
  bool is_throttled = s > calibration->boost_s && space->unaligned <= 1;
  return is_throttled ? calibration->boost_s + (s - calibration->boost_s) * calibration->throttle
                      : s;
}

#endif
