/* The mappings of one GEMM to one chip that the mapper considers (declared in mapper.h): tile
 * sizes, stationary operands that fit the buffers, and the numbers of the GEMM and the chip in the
 * form that the inner loops of the search need. */
#ifndef PZ_COST_MAPSPACE_H
#define PZ_COST_MAPSPACE_H

#include "chip/chip.h"

enum { PZ_TILE_MOST_SIZES = 96 };

/* The tile sizes of a dimension, ascending.  The last three arrays are set for core tiles only. */
struct pz_tile_sizes {
  int n;
  double size[PZ_TILE_MOST_SIZES];
  double count[PZ_TILE_MOST_SIZES];     /* number of tiles that cover the dimension */
  double row_steps[PZ_TILE_MOST_SIZES]; /* steps of a tile along the rows of the array */
  double col_steps[PZ_TILE_MOST_SIZES]; /* steps of a tile along the columns of the array */
  /* Cycles to stream a tile through the array, no fewer than loading the next operand takes */
  double stream_cycles[PZ_TILE_MOST_SIZES];
};

/* The mapspace of one GEMM on one chip.  The members *_byte_s are seconds per byte, 0 if
 * unlimited.  A partial sum of results has sum_bytes, and all other values have operand_bytes. */
struct pz_mapspace {
  const struct pz_chip *chip;
  const struct pz_tech_info *tech;
  double size[PZ_DIMS], batch, macs, cores;
  double inputs, weights, results;         /* values of each operand over the whole batch */
  struct pz_tile_sizes core_tile[PZ_DIMS]; /* tiles of an item, the work of a core at a time */
  struct pz_tile_sizes glb_tile[PZ_DIMS];  /* tiles in the global buffer */
  double operand_bytes, sum_bytes;
  double slice;            /* values along the third dimension of a slice that streams by */
  double copies;           /* copies of a slice in a buffer: 2 with double buffering */
  double ideal_s;          /* time of the arithmetic at the peak rate */
  double cycle_s, item_s;  /* time of a cycle, and fixed time of an item (filling the array) */
  double unaligned;        /* factor by which unaligned rows slow the arithmetic, or 1 */
  double startup_s;        /* start-up time of the GEMM */
  double per_core;         /* 1 / cores */
  double per_row, per_col; /* 1 / rows and 1 / columns of the array, rounded down */
  double per_share;        /* 1 / number of cores that share a read from the global buffer */
  bool duplex;             /* reads and writes have a full rate each */
  bool local_limited;      /* the local buffers have a rate limit */
  bool nested;             /* the tile of the global buffer contains those of the cores */
  double cold_part;        /* part of the data that is read from HBM, below 1 for repeated calls */
  double batches[64];      /* numbers of GEMMs that may share the global buffer, descending */
  int n_batches;
  double glb_byte_s, hbm_read_byte_s, hbm_write_byte_s;
  double core_byte_s, all_cores_byte_s; /* local buffer of one core, and of all cores together */
  double least_byte_s;                  /* all local buffers if their work is balanced */
  /* Which stationary operands fit a local buffer, by indices of core_tile.  For each index of one
   * dimension of the operand: the largest index of its other dimension with which it fits, or -1 if
   * none does.  All smaller tiles fit too. */
  int most_m_by_n[PZ_TILE_MOST_SIZES]; /* stationary results: index of m for each index of n */
  int most_m_by_k[PZ_TILE_MOST_SIZES]; /* stationary inputs: index of m for each index of k */
  /* stationary weights: index of k for each index of n; any m fits, as weights do not have it */
  int most_k_by_n[PZ_TILE_MOST_SIZES];
};

/* Six ways to lay a tile on the array: a dimension along rows, another along columns; a third
 * streams. */
static const struct {
  enum pz_dim rows, cols, streams;
} pz_spatial_way[] = {{PZ_DIM_K, PZ_DIM_N, PZ_DIM_M}, {PZ_DIM_N, PZ_DIM_K, PZ_DIM_M},
                      {PZ_DIM_M, PZ_DIM_N, PZ_DIM_K}, {PZ_DIM_N, PZ_DIM_M, PZ_DIM_K},
                      {PZ_DIM_M, PZ_DIM_K, PZ_DIM_N}, {PZ_DIM_K, PZ_DIM_M, PZ_DIM_N}};
enum { PZ_SPATIAL_WAYS = sizeof pz_spatial_way / sizeof *pz_spatial_way };

/* A spatial mapping of tiles to the array. */
struct pz_spatial {
  int way;                     /* index of pz_spatial_way */
  double keep_rows, keep_cols; /* values that a multiplier keeps in registers along each side */
  double per_keep_rows, per_keep_cols; /* 1 / keep_rows and 1 / keep_cols */
  double local_s, energy_j;            /* lower bounds on local traffic and energy with any tiles */
};

/* Initialises the mapspace of a GEMM that the mapper accepts, whose data all come from HBM.  The
 * chip must outlive it. */
void pz_mapspace_init(struct pz_mapspace *space, const struct pz_product *product,
                      const struct pz_chip *chip);

/* Sets the number of cores, and the members of the mapspace that follow from it. */
void pz_mapspace_set_cores(struct pz_mapspace *space, double cores);

/* The two dimensions of each operand that may be stationary; the third streams past it. */
static const struct {
  enum pz_dim first, second;
} pz_stationary_dims[PZ_STATIONARITIES] = {[PZ_STATIONARY_RESULTS] = {PZ_DIM_M, PZ_DIM_N},
                                           [PZ_STATIONARY_WEIGHTS] = {PZ_DIM_K, PZ_DIM_N},
                                           [PZ_STATIONARY_INPUTS] = {PZ_DIM_M, PZ_DIM_K}};

/* Returns the bytes that a buffer needs for a stationary operand of u x v values and for slices of
 * the other two operands, which are `depth` values long in the third dimension. */
double pz_mapspace_bytes(const struct pz_mapspace *space, enum pz_stationary stationary, double u,
                         double v, double depth);

/* Returns whether a stationary operand of u x v values fits into a buffer of `bytes` with slices of
 * the other two.  In a partitioned buffer each operand has `bytes` of its own. */
bool pz_mapspace_fits(const struct pz_mapspace *space, enum pz_stationary stationary, double u,
                      double v, double bytes, bool partitioned);

#endif
