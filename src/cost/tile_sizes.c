#include "cost/tile_sizes.h"

#include "core/num.h"

static void insert(struct pz_tile_sizes *l, double x) {
  double *v = l->size;
  int at = l->n;
  while (at > 0 && v[at - 1] > x) at--;
  if (at > 0 && v[at - 1] == x) return;
  for (int i = l->n; i > at; i--) v[i] = v[i - 1];
  v[at] = x;
  l->n++;
}

/* The dimension whole, halved again and again, and in powers of two of the array's shorter side.
 * Less than that side only pays where filling the array is free. */
static void any_tiles(struct pz_tile_sizes *l, int64_t size, const struct pz_chip *c) {
  int64_t side = pz_min(c->tensor.rows, c->tensor.cols);
  int64_t least = size <= side ? 1 : pz_chip_least_tile(c);
  insert(l, (double)size);
  for (int64_t q = 2; pz_ceil_div(size, q) >= least && q < 2 * size; q *= 2)
    insert(l, (double)pz_ceil_div(size, q));
  for (int64_t t = side; t < size && l->n < PZ_TILE_MOST_SIZES; t *= 2) insert(l, (double)t);
}

/* The tiles a library has kernels for; the inner dimension whole, or in a few parts that are not
 * too short. */
static void library_tiles(struct pz_tile_sizes *l, int64_t size, enum pz_dim d,
                          const struct pz_calibration *c) {
  for (int i = 0; d != PZ_DIM_K && i < c->n_tiles; i++) insert(l, (double)c->tiles[i]);
  for (int64_t q = 1; d == PZ_DIM_K && q <= c->most_splits; q *= 2)
    if (q == 1 || size / q >= c->least_split_k) insert(l, (double)pz_ceil_div(size, q));
}

void pz_tile_sizes_core(struct pz_tile_sizes *l, int64_t size, enum pz_dim d,
                        const struct pz_chip *c) {
  l->n = 0;
  c->calibration.n_tiles ? library_tiles(l, size, d, &c->calibration) : any_tiles(l, size, c);
  for (int i = 0; i < l->n; i++) {
    int64_t t = (int64_t)l->size[i];
    l->tiles[i] = (double)pz_ceil_div(size, t);
    l->on_rows[i] = (double)pz_ceil_div(t, c->tensor.rows);
    l->on_cols[i] = (double)pz_ceil_div(t, c->tensor.cols);
    l->stream[i] = c->rules.fill && t < c->tensor.rows ? (double)c->tensor.rows : l->size[i];
  }
}

void pz_tile_sizes_glb(struct pz_tile_sizes *l, int64_t size, const struct pz_chip *c) {
  l->n = 0;
  any_tiles(l, size, c);
  for (int i = 0; i < l->n; i++) l->tiles[i] = (double)pz_ceil_div(size, (int64_t)l->size[i]);
}
