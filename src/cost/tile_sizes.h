/* Tile sizes that the mapper tries for one dimension of a product. */
#ifndef PZ_COST_TILE_SIZES_H
#define PZ_COST_TILE_SIZES_H

#include "chip/chip.h"
#include "cost/product.h"

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

/* Of a core: those of the chip's library where it has one, any otherwise. */
void pz_tile_sizes_core(struct pz_tile_sizes *l, int64_t size, enum pz_dim d,
                        const struct pz_chip *c);

/* Of the global buffer, which is not bound to the library's tiles: size and tiles alone. */
void pz_tile_sizes_glb(struct pz_tile_sizes *l, int64_t size, const struct pz_chip *c);

#endif
