/* Time, traffic and energy of one mapping, and lower bounds over several.  Inline: the searches
 * over mappings (mapping_search.c) spend their time here.
 *
 * A mapping is given by `at`, the index of a tile size for each dimension, and a spatial
 * mapping. */
#ifndef PZ_COST_MAPPING_COST_H
#define PZ_COST_MAPPING_COST_H

#include "core/num.h"
#include "cost/mapspace.h"

struct pz_traffic {
  double reads, writes; /* bytes */
};

static inline double pz_traffic_s(const struct pz_mapspace *m, struct pz_traffic t,
                                  double s_per_byte) {
  return (m->duplex ? pz_fmax(t.reads, t.writes) : t.reads + t.writes) * s_per_byte;
}

/* Traffic of the whole product over a boundary.  An operand crosses once for each step in the
 * dimension it lacks; partial sums go out at each step in k and come back at all but the `fresh`
 * ones. */
static inline struct pz_traffic pz_boundary_traffic(const struct pz_mapspace *m,
                                                    const double step[PZ_DIMS], double fresh,
                                                    double result_bytes) {
  double e = m->operand_bytes, sums = m->results * m->sum_bytes;
  return (struct pz_traffic){e * (m->inputs * step[PZ_DIM_N] + m->weights * step[PZ_DIM_M]) +
                                 sums * (step[PZ_DIM_K] - fresh),
                             sums * (step[PZ_DIM_K] - 1) + m->results * result_bytes};
}

static inline double pz_hbm_s(const struct pz_mapspace *m, struct pz_traffic t) {
  double reads = t.reads * m->hbm_read, writes = t.writes * m->hbm_write;
  return m->duplex ? pz_fmax(reads, writes) : reads + writes;
}

/* ---- global buffer -------------------------------------------------------------------------- */

/* Reads of an operand from the global buffer: one for each tile that wants it, or for each group of
 * cores that share a read. */
static inline double pz_shared_reads(const struct pz_mapspace *m, double tiles) {
  return pz_fmax(1, tiles * m->per_share);
}

/* Between global and local buffers, with so many tiles of each dimension. */
static inline struct pz_traffic pz_glb_traffic(const struct pz_mapspace *m,
                                               const double tiles[PZ_DIMS]) {
  const double step[PZ_DIMS] = {pz_shared_reads(m, tiles[PZ_DIM_M]),
                                pz_shared_reads(m, tiles[PZ_DIM_N]), tiles[PZ_DIM_K]};
  return pz_boundary_traffic(m, step, 1, m->operand_bytes);
}

static inline struct pz_traffic pz_mapping_glb_traffic(const struct pz_mapspace *m,
                                                       const int at[PZ_DIMS]) {
  double tiles[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) tiles[d] = m->tile[d].tiles[at[d]];
  return pz_glb_traffic(m, tiles);
}

/* ---- local buffers -------------------------------------------------------------------------- */

/* Between local buffers and arrays; sums start anew in each tile of k. */
static inline struct pz_traffic pz_local_traffic(const struct pz_mapspace *m,
                                                 const double step[PZ_DIMS], double tiles_k) {
  return pz_boundary_traffic(m, step, tiles_k, m->sum_bytes);
}

/* ceil for the non-negative values here, which stay far below 2^63: no call, unlike ceil() itself.
 */
static inline double pz_ceil_small(double x) {
  double whole = (double)(int64_t)x;
  return whole < x ? whole + 1 : whole;
}

/* Steps over a whole dimension with tiles of size i.  What is kept is a power of two, and
 * ceil(ceil(size / rows) / 2^j) = ceil(size / (rows 2^j)): nothing is divided here. */
static inline double pz_spatial_steps(const struct pz_mapspace *m, const struct pz_spatial *p,
                                      enum pz_dim d, int i) {
  const struct pz_tile_sizes *t = &m->tile[d];
  if (d == pz_spatial_way[p->way].rows)
    return t->tiles[i] * pz_ceil_small(t->on_rows[i] * p->per_rows);
  if (d == pz_spatial_way[p->way].cols)
    return t->tiles[i] * pz_ceil_small(t->on_cols[i] * p->per_cols);
  return t->tiles[i];
}

static inline struct pz_traffic pz_mapping_local_traffic(const struct pz_mapspace *m,
                                                         const struct pz_spatial *p,
                                                         const int at[PZ_DIMS]) {
  double step[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) step[d] = pz_spatial_steps(m, p, (enum pz_dim)d, at[d]);
  return pz_local_traffic(m, step, m->tile[PZ_DIM_K].tiles[at[PZ_DIM_K]]);
}

/* Lower bound on the time of this local traffic: each core's own limit cannot be passed by all. */
static inline double pz_local_bound_s(const struct pz_mapspace *m, double reads, double writes) {
  return pz_traffic_s(m, (struct pz_traffic){reads, writes}, m->local_least);
}

/* A core's own buffer serves its items one after another; the sum over all cores may have a limit
 * too. */
static inline double pz_local_s(const struct pz_mapspace *m, struct pz_traffic all, double items,
                                double rounds) {
  double own = pz_traffic_s(m, all, m->local_own) * rounds / items;
  return pz_fmax(own, pz_traffic_s(m, all, m->local_total));
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static inline double pz_mapping_items(const struct pz_mapspace *m, const int at[PZ_DIMS]) {
  return m->batch * m->tile[PZ_DIM_M].tiles[at[PZ_DIM_M]] * m->tile[PZ_DIM_N].tiles[at[PZ_DIM_N]] *
         m->tile[PZ_DIM_K].tiles[at[PZ_DIM_K]];
}

/* ceil(items / cores), exactly: the product with 1 / cores may be off by one. */
static inline double pz_mapping_rounds(const struct pz_mapspace *m, double items) {
  double r = (double)(int64_t)(items * m->per_core);
  if (r * m->cores < items) r++;
  return r > 1 && (r - 1) * m->cores >= items ? r - 1 : r;
}

/* Cycles of an item that lies on the array in this way. */
static inline double pz_mapping_cycles(const struct pz_mapspace *m, int way,
                                       const int at[PZ_DIMS]) {
  enum pz_dim rows = pz_spatial_way[way].rows, cols = pz_spatial_way[way].cols,
              streams = pz_spatial_way[way].streams;
  return m->tile[rows].on_rows[at[rows]] * m->tile[cols].on_cols[at[cols]] *
         m->tile[streams].stream[at[streams]];
}

/* The fewest cycles of any way. */
static inline double pz_mapping_least_cycles(const struct pz_mapspace *m, const int at[PZ_DIMS]) {
  double least = pz_mapping_cycles(m, 0, at);
  for (int way = 1; way < PZ_SPATIAL_WAYS; way++)
    least = pz_fmin(least, pz_mapping_cycles(m, way, at));
  return least;
}

/* Arithmetic of an item and what its ends cost, over the rounds; long work loses its boost. */
static inline double pz_mapping_compute_s(const struct pz_mapspace *m, const int at[PZ_DIMS],
                                          double cycles, double rounds) {
  const struct pz_calibration *c = &m->chip->calibration;
  double values = m->tile[PZ_DIM_M].size[at[PZ_DIM_M]] * m->tile[PZ_DIM_N].size[at[PZ_DIM_N]];
  double s = rounds * (cycles * m->cycle_s + m->item_s + values * c->tile_value_s * m->unaligned);
  bool slows = s > c->boost_s && m->unaligned <= 1;
  return slows ? c->boost_s + (s - c->boost_s) * c->throttle : s;
}

#endif
