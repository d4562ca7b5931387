/* The mappings of one GEMM to one chip that the mapper considers (declared in mapper.h): tile
 * sizes, stationary operands that fit the buffers, and the numbers of the GEMM and the chip in the
 * form that the inner loops of the search need. */
#ifndef PZ_COST_MAPSPACE_H
#define PZ_COST_MAPSPACE_H

#include "chip/chip.h"

enum { PZ_TILE_MOST_SIZES = 96 };

/* The tile sizes of one dimension, ascending.  The last three are known for tiles of a core
 * only. */
struct pz_tile_sizes {
  int n;
  double size[PZ_TILE_MOST_SIZES];
  double count[PZ_TILE_MOST_SIZES];         /* tiles that cover the dimension */
  double row_steps[PZ_TILE_MOST_SIZES];     /* steps of a tile that lies along the array's rows, */
  double col_steps[PZ_TILE_MOST_SIZES];     /* or along its columns */
  double stream_cycles[PZ_TILE_MOST_SIZES]; /* to stream it through the array; not less than
                                               loading the next operand takes */
};

/* Rates are seconds per byte.  A partial sum of results has sum_bytes, other values have
 * operand_bytes. */
struct pz_mapspace {
  const struct pz_chip *chip;
  const struct pz_tech_info *tech;
  double size[PZ_DIMS], batch, macs, cores;
  double inputs, weights, results;         /* number of values, over the batch */
  struct pz_tile_sizes core_tile[PZ_DIMS]; /* of an item, which is the work of a core at a time */
  struct pz_tile_sizes glb_tile[PZ_DIMS];  /* of the tile in the global buffer */
  double operand_bytes, sum_bytes;
  double slice, copies;   /* of an operand that streams through a buffer: values of a slice along
                              the third dimension, and copies (2: double buffering) */
  double ideal_s;         /* arithmetic at the peak rate */
  double cycle_s, item_s; /* of one cycle; of an item besides its cycles (filling the array) */
  double unaligned;       /* factor by which unaligned rows slow the arithmetic; 1: aligned */
  double startup_s;
  double per_core;         /* 1 / cores */
  double per_row, per_col; /* 1 / rows and 1 / columns of the array, rounded down */
  double per_share;        /* 1 / cores that share a read from the global buffer */
  bool duplex;             /* reads and writes have a full rate each */
  bool local_limited;      /* the local buffers have a rate */
  bool nested;             /* the tile of the global buffer contains those of the cores */
  double cold; /* the part of the data that is read from HBM; less than 1 if calls are warm */
  double batches[64]; /* GEMMs of the batch in the global buffer at a time, descending */
  int n_batches;
  double glb, hbm_read, hbm_write;
  double local_own, local_total; /* of one core's local buffer, of all of them, or 0 if unlimited */
  double local_least;            /* of all local buffers if their work is balanced */
  /* Whether a tile fits is monotone in both dimensions of its stationary operand, so that the
   * largest index of one dimension for each index of the other describes it, or -1 if none fits. */
  int most_m_by_n[PZ_TILE_MOST_SIZES]; /* with stationary results */
  int most_m_by_k[PZ_TILE_MOST_SIZES]; /* with stationary inputs */
  int most_k_by_n[PZ_TILE_MOST_SIZES]; /* with stationary weights, and any m */
};

/* The six ways to lay a tile on the array: one dimension along its rows, another along its columns,
 * while the third streams. */
static const struct {
  enum pz_dim rows, cols, streams;
} pz_spatial_way[] = {{PZ_DIM_K, PZ_DIM_N, PZ_DIM_M}, {PZ_DIM_N, PZ_DIM_K, PZ_DIM_M},
                      {PZ_DIM_M, PZ_DIM_N, PZ_DIM_K}, {PZ_DIM_N, PZ_DIM_M, PZ_DIM_K},
                      {PZ_DIM_M, PZ_DIM_K, PZ_DIM_N}, {PZ_DIM_K, PZ_DIM_M, PZ_DIM_N}};
enum { PZ_SPATIAL_WAYS = sizeof pz_spatial_way / sizeof *pz_spatial_way };

/* A spatial mapping: the way in which tiles lie on the array, and how many values of the operand on
 * it the registers of a multiplier keep along rows and columns. */
struct pz_spatial {
  int way;
  double keep_rows, keep_cols;
  double per_keep_rows, per_keep_cols; /* 1 / keep_rows and 1 / keep_cols */
  double local_s, energy_j;            /* lower bounds over all tiles */
};

/* Initialises the mapspace of a GEMM that the mapper accepts.  The chip must outlive it. */
void pz_mapspace_init(struct pz_mapspace *space, const struct pz_product *product,
                      const struct pz_chip *chip);

/* Changes the number of cores. */
void pz_mapspace_set_cores(struct pz_mapspace *space, double cores);

/* Returns the two dimensions of a stationary operand: the results are m x n, the weights k x n, the
 * inputs m x k. */
enum pz_dim pz_stationary_first(enum pz_stationary stationary);
enum pz_dim pz_stationary_second(enum pz_stationary stationary);

/* Returns the bytes that a buffer needs for a stationary operand of u x v values, and of the other
 * two operands `depth` values along the third dimension. */
double pz_mapspace_bytes(const struct pz_mapspace *space, enum pz_stationary stationary, double u,
                         double v, double depth);

/* Returns whether a stationary operand of u x v values fits into a buffer with slices of the other
 * two.  In a partitioned buffer each operand has `bytes` of its own. */
bool pz_mapspace_fits(const struct pz_mapspace *space, enum pz_stationary stationary, double u,
                      double v, double bytes, bool partitioned);

/* Returns the index of the largest tile of m that fits a local buffer with tiles n and k; -1 if
 * none fits.  All smaller tiles fit too. */
int pz_mapspace_most_m(const struct pz_mapspace *space, int n, int k);

/* Returns the operand that is stationary in the local buffer of a core with these tiles (indices
 * for each dimension). */
enum pz_stationary pz_mapspace_stationary(const struct pz_mapspace *space,
                                          const int choice[PZ_DIMS]);

#endif
