/* Builds the mapspace of a GEMM: lists the tile sizes that are tried, finds which of them fit the
 * local buffers, and converts the chip's rates into seconds per byte or cycle. */
#include "cost/mapspace.h"

#include "core/num.h"

/* ---- tile sizes of one dimension ------------------------------------------------------------- */

/* Inserts a size into the ascending list, unless the list contains it already. */
static void insert_size(struct pz_tile_sizes *sizes, double size) {
  double *list = sizes->size;
  int position = sizes->n;
  while (position > 0 && list[position - 1] > size) position--;
  if (position > 0 && list[position - 1] == size) return;
  for (int i = sizes->n; i > position; i--) list[i] = list[i - 1];
  list[position] = size;
  sizes->n++;
}

/* Adds tile sizes of a dimension of `size` values to a list: the whole dimension, its halves,
 * quarters and so on, and the powers of two times the array's shorter side.  Sizes below that side
 * are added only if filling the array is free. */
static void list_any_tiles(struct pz_tile_sizes *sizes, int64_t size, const struct pz_chip *chip) {
  int64_t side = pz_min(chip->tensor.rows, chip->tensor.cols);
  int64_t least = size <= side ? 1 : pz_chip_least_tile(chip);
  insert_size(sizes, (double)size);
  for (int64_t parts = 2; pz_ceil_div(size, parts) >= least && parts < 2 * size; parts *= 2)
    insert_size(sizes, (double)pz_ceil_div(size, parts));
  for (int64_t tile = side; tile < size && sizes->n < PZ_TILE_MOST_SIZES; tile *= 2)
    insert_size(sizes, (double)tile);
}

/* Lists the sizes that tiles of a core and of the global buffer may have in dimension d.  If the
 * chip has a library of measured kernels, core tiles are those of its kernels, which leave the
 * inner dimension k whole or split it into at most most_splits parts of at least least_split_k
 * values.  Otherwise both lists are equal. */
static void list_tile_sizes(struct pz_mapspace *space, enum pz_dim d, int64_t size,
                            const struct pz_chip *chip) {
  const struct pz_calibration *library = &chip->calibration;
  bool has_library = library->n_tiles > 0;
  struct pz_tile_sizes *core = &space->core_tile[d], *glb = &space->glb_tile[d];
  core->n = 0;
  if (!has_library)
    list_any_tiles(core, size, chip);
  else if (d != PZ_DIM_K)
    for (int i = 0; i < library->n_tiles; i++) insert_size(core, (double)library->tiles[i]);
  else
    for (int64_t parts = 1; parts <= library->most_splits; parts *= 2)
      if (parts == 1 || size / parts >= library->least_split_k)
        insert_size(core, (double)pz_ceil_div(size, parts));
  for (int i = 0; i < core->n; i++) {
    int64_t tile = (int64_t)core->size[i];
    /* While a short tile streams, loading the next operand into the rows takes longer. */
    bool loads_longer = chip->rules.fill && tile < chip->tensor.rows;
    core->count[i] = (double)pz_ceil_div(size, tile);
    core->row_steps[i] = (double)pz_ceil_div(tile, chip->tensor.rows);
    core->col_steps[i] = (double)pz_ceil_div(tile, chip->tensor.cols);
    core->stream_cycles[i] = loads_longer ? (double)chip->tensor.rows : core->size[i];
  }
  if (!has_library) {
    *glb = *core;
    return;
  }
  glb->n = 0;
  list_any_tiles(glb, size, chip);
  for (int i = 0; i < glb->n; i++) glb->count[i] = (double)pz_ceil_div(size, (int64_t)glb->size[i]);
}

/* ---- stationary operands --------------------------------------------------------------------- */

/* Returns the bytes of a stationary operand of u x v values and of slices of the other two. */
double pz_mapspace_bytes(const struct pz_mapspace *space, enum pz_stationary stationary, double u,
                         double v, double depth) {
  double operand_bytes = space->operand_bytes, sum = space->sum_bytes,
         copies = space->copies * depth;
  switch (stationary) {
  case PZ_STATIONARY_RESULTS: return sum * u * v + copies * operand_bytes * (u + v);
  case PZ_STATIONARY_WEIGHTS: return operand_bytes * u * v + copies * (operand_bytes * u + sum * v);
  default: return operand_bytes * u * v + copies * (sum * u + operand_bytes * v);
  }
}

/* Returns whether a stationary operand of u x v values fits with slices of the other two, of which
 * the first has dimension u and the second v: all in one buffer of `bytes`, or if `partitioned`,
 * each operand in one. Values of partial sums (the results) have sum_bytes. */
bool pz_mapspace_fits(const struct pz_mapspace *space, enum pz_stationary stationary, double u,
                      double v, double bytes, bool partitioned) {
  if (!partitioned) return pz_mapspace_bytes(space, stationary, u, v, space->slice) <= bytes;
  double operand_bytes = space->operand_bytes, sum = space->sum_bytes;
  double copies = space->copies * space->slice;
  bool results = stationary == PZ_STATIONARY_RESULTS, weights = stationary == PZ_STATIONARY_WEIGHTS;
  double stationary_bytes = (results ? sum : operand_bytes) * u * v;
  double first_bytes = (weights || results ? operand_bytes : sum) * copies * u;
  double second_bytes = (weights ? sum : operand_bytes) * copies * v;
  return pz_fmax(stationary_bytes, pz_fmax(first_bytes, second_bytes)) <= bytes;
}

/* Returns the index of the largest core tile of the stationary operand's first dimension with which
 * this operand fits a local buffer, if its second dimension has the core tile of index
 * second_index; -1 if none fits.  On a chip with a library of measured kernels (calibration.n_tiles
 * > 0), only results may be stationary, and a tile has at most most_tile_values of them. */
static int find_most_first(const struct pz_mapspace *space, enum pz_stationary stationary,
                           int second_index) {
  const struct pz_tile_sizes *first = &space->core_tile[pz_stationary_dims[stationary].first];
  const struct pz_tile_sizes *second = &space->core_tile[pz_stationary_dims[stationary].second];
  double second_size = second->size[second_index];
  double local_bytes = (double)space->chip->tensor.local_bytes;
  /* Each operand has a buffer of local_bytes of its own, rather than a part of one buffer. */
  bool partitioned = space->chip->rules.partitioned;
  const struct pz_calibration *library = &space->chip->calibration;
  bool has_library = library->n_tiles > 0;
  if (has_library && stationary != PZ_STATIONARY_RESULTS) return -1;
  for (int i = first->n - 1; i >= 0; i--) {
    bool fits =
        pz_mapspace_fits(space, stationary, first->size[i], second_size, local_bytes, partitioned);
    bool has_kernel =
        !has_library || first->size[i] * second_size <= (double)library->most_tile_values;
    if (fits && has_kernel) return i;
  }
  return -1;
}

/* ---- the numbers of the GEMM and the chip ---------------------------------------------------- */

/* Sets the number of cores, and the times and shares that depend on it. */
void pz_mapspace_set_cores(struct pz_mapspace *space, double cores) {
  const struct pz_tensor_cores *tensor_cores = &space->chip->tensor;
  space->per_share = 1 / pz_fmin(space->chip->calibration.multicast, cores);
  space->least_byte_s = pz_fmax(space->core_byte_s / cores, space->all_cores_byte_s);
  space->cores = cores;
  space->per_core = 1 / cores;
  space->ideal_s =
      space->macs * space->cycle_s / (cores * (double)(tensor_cores->rows * tensor_cores->cols));
}

/* Sets the times of the arithmetic and of a byte at each memory.  Libraries reach their full rate
 * only if the lengths of rows are multiples of a vector load of 8 values.  Other even lengths are
 * slower, and odd lengths have a rate of their own. */
static void set_rates(struct pz_mapspace *space, const struct pz_product *product,
                      const struct pz_chip *chip) {
  const struct pz_calibration *calibration = &chip->calibration;
  const struct pz_tensor_cores *tensor = &chip->tensor;
  double fill_cycles = chip->rules.fill ? (double)(tensor->rows + tensor->cols) : 0;
  bool aligned = product->n % 8 == 0 && product->k % 8 == 0;
  bool even = product->n % 2 == 0 && product->k % 2 == 0;
  space->unaligned = even ? calibration->even_rows : calibration->odd_rows;
  if (aligned) space->unaligned = 1;
  space->cycle_s = space->unaligned / (chip->clock_hz * calibration->tensor_efficiency);
  space->item_s = fill_cycles * space->cycle_s + calibration->item_s;
  space->glb_byte_s = 1 / (chip->glb_bytes_per_s * calibration->glb_efficiency);
  space->hbm_read_byte_s = 1 / (pz_chip_hbm_bytes_per_s(chip) * calibration->hbm_read_efficiency);
  space->hbm_write_byte_s = 1 / (pz_chip_hbm_bytes_per_s(chip) * calibration->hbm_write_efficiency);
  space->startup_s = product->batch > 1 ? calibration->batched_startup_s : calibration->startup_s;
  space->duplex = chip->rules.duplex;
  /* Rounded down, because lower bounds are computed with them. */
  space->per_row = (1 - 1e-12) / (double)tensor->rows;
  space->per_col = (1 - 1e-12) / (double)tensor->cols;
  double core_rate = tensor->local_bytes_per_s, total_rate = tensor->local_total_bytes_per_s;
  space->core_byte_s = core_rate > 0 ? 1 / core_rate : 0;
  space->all_cores_byte_s = total_rate > 0 ? 1 / total_rate : 0;
  space->local_limited = core_rate > 0 || total_rate > 0;
}

/* Sets the mapspace of a GEMM on a chip: its sizes, the tiles that are tried, the rates of the
 * chip, and which tiles fit its buffers. */
void pz_mapspace_init(struct pz_mapspace *space, const struct pz_product *product,
                      const struct pz_chip *chip) {
  space->chip = chip;
  space->nested = false;
  space->tech = pz_tech_at(chip->tech);
  space->operand_bytes = (double)chip->rules.operand_bytes;
  space->sum_bytes = (double)chip->rules.sum_bytes;
  space->slice = (double)pz_min(chip->tensor.rows, PZ_CHIP_SLICE);
  space->copies = chip->rules.double_buffer ? 2 : 1;
  const int64_t size[PZ_DIMS] = {product->m, product->n, product->k};
  space->batch = (double)product->batch;
  space->macs = space->batch;
  for (int d = 0; d < PZ_DIMS; d++) {
    space->size[d] = (double)size[d];
    space->macs *= space->size[d];
    list_tile_sizes(space, (enum pz_dim)d, size[d], chip);
  }
  /* The GEMMs of the batch that may share the global buffer: ceil(batch / 2^i), down to one. */
  space->n_batches = 0;
  for (int64_t parts = 1, batches = 0; batches != 1; parts *= 2) {
    batches = pz_ceil_div(product->batch, parts);
    space->batches[space->n_batches++] = (double)batches;
  }
  space->inputs = space->batch * space->size[PZ_DIM_M] * space->size[PZ_DIM_K];
  space->weights = space->batch * space->size[PZ_DIM_K] * space->size[PZ_DIM_N];
  space->results = space->batch * space->size[PZ_DIM_M] * space->size[PZ_DIM_N];
  space->cold_part = 1;
  set_rates(space, product, chip);
  pz_mapspace_set_cores(space, (double)chip->tensor.cores);
  for (int n = 0; n < space->core_tile[PZ_DIM_N].n; n++) {
    space->most_m_by_n[n] = find_most_first(space, PZ_STATIONARY_RESULTS, n);
    space->most_k_by_n[n] = find_most_first(space, PZ_STATIONARY_WEIGHTS, n);
  }
  for (int k = 0; k < space->core_tile[PZ_DIM_K].n; k++)
    space->most_m_by_k[k] = find_most_first(space, PZ_STATIONARY_INPUTS, k);
}
