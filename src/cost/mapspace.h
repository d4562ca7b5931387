/* The mappings of one product to one chip that the mapper tries: tile sizes, stationarities that
 * fit the buffers, and the product's and the chip's numbers as the inner loops need them. */
#ifndef PZ_COST_MAPSPACE_H
#define PZ_COST_MAPSPACE_H

#include "chip/chip.h"

enum { PZ_TILE_MOST_SIZES = 96 };

/* Ascending, with what the inner loops need of each. */
struct pz_tile_sizes {
  int n;
  double size[PZ_TILE_MOST_SIZES];
  double tiles[PZ_TILE_MOST_SIZES];   /* how many cover the dimension */
  double on_rows[PZ_TILE_MOST_SIZES]; /* steps along the rows of the array ... */
  double on_cols[PZ_TILE_MOST_SIZES]; /* ... and along its columns */
  double stream[PZ_TILE_MOST_SIZES];  /* cycles to stream it past, at least a new operand's load */
};

struct pz_mapspace {
  const struct pz_chip *chip;
  const struct pz_tech_info *tech;
  double size[PZ_DIMS], batch, macs, cores;
  double inputs, weights, results;        /* values, over the batch */
  struct pz_tile_sizes tile[PZ_DIMS];     /* of an item: the work of a core at a time */
  struct pz_tile_sizes glb_tile[PZ_DIMS]; /* of the tile in the global buffer */
  double operand_bytes, sum_bytes;        /* of an input or result, of a partial sum */
  double slice, copies;                   /* of what streams: values of a slice, times it stands */
  double ideal_s;                         /* arithmetic at peak */
  double cycle_s, item_s;                 /* of one cycle; of an item at least: filling the array */
  double unaligned;                       /* arithmetic is slower by this */
  double startup_s;
  double per_core, per_row, per_col; /* 1 / cores; 1 / rows and columns, rounded down */
  double per_share;                  /* 1 / cores that share a read from the global buffer */
  bool duplex, local_limited;
  bool nested;        /* the tile of the global buffer contains those of the cores */
  double cold;        /* the part of the data that comes from HBM */
  double batches[64]; /* products in the global buffer at a time, descending */
  int n_batches;
  double glb, hbm_read, hbm_write; /* seconds per byte */
  double local_own, local_total;   /* the same of one core's buffer, of all; 0: no limit */
  double local_least;              /* of all cores' buffers at best */
  /* Fitting is monotone: the largest index of the other dimension says it all; -1: none. */
  int most_m_by_n[PZ_TILE_MOST_SIZES]; /* results stationary */
  int most_m_by_k[PZ_TILE_MOST_SIZES]; /* inputs stationary */
  int most_k_by_n[PZ_TILE_MOST_SIZES]; /* weights stationary: any m will do */
};

/* The six ways to assign a dimension to the rows of the array and another to its columns; the third
 * streams past. */
static const struct {
  enum pz_dim rows, cols, streams;
} pz_spatial_way[] = {{PZ_DIM_K, PZ_DIM_N, PZ_DIM_M}, {PZ_DIM_N, PZ_DIM_K, PZ_DIM_M},
                      {PZ_DIM_M, PZ_DIM_N, PZ_DIM_K}, {PZ_DIM_N, PZ_DIM_M, PZ_DIM_K},
                      {PZ_DIM_M, PZ_DIM_K, PZ_DIM_N}, {PZ_DIM_K, PZ_DIM_M, PZ_DIM_N}};
enum { PZ_SPATIAL_WAYS = sizeof pz_spatial_way / sizeof *pz_spatial_way };

/* A spatial mapping: the way a tile lies on the array, and how many values of the operand on it the
 * registers of a multiplier keep. */
struct pz_spatial {
  int way;
  double keep_rows, keep_cols; /* values that the registers keep along rows and columns */
  double per_rows, per_cols;   /* 1 / what is kept */
  double local_s, energy_j;    /* lower bounds over all tiles */
};

/* The product is one that the mapper accepts.  `c` must outlive the mapspace. */
void pz_mapspace_init(struct pz_mapspace *m, const struct pz_product *p, const struct pz_chip *c);

/* Go on with another number of cores. */
void pz_mapspace_set_cores(struct pz_mapspace *m, double cores);

/* The two dimensions of a stationary operand. */
enum pz_dim pz_stationary_first(enum pz_stationary s);
enum pz_dim pz_stationary_second(enum pz_stationary s);

/* Bytes a buffer holds when an operand of u x v values is stationary and so many of the third
 * dimension stand there of the other two. */
double pz_mapspace_bytes(const struct pz_mapspace *m, enum pz_stationary s, double u, double v,
                         double depth);

/* Does a stationary operand of u x v values fit into so many bytes, with what streams past it? */
bool pz_mapspace_fits(const struct pz_mapspace *m, enum pz_stationary s, double u, double v,
                      double bytes, bool partitioned);

/* The largest tile of m that fits with these of n and k; all smaller ones do too.  -1: none. */
int pz_mapspace_most_m(const struct pz_mapspace *m, int n, int k);

/* The operand that is stationary in a core's buffer with these tiles. */
enum pz_stationary pz_mapspace_stationary(const struct pz_mapspace *m, const int at[PZ_DIMS]);

#endif
