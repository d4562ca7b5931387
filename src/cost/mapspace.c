#include "cost/mapspace.h"

#include "core/num.h"

/* ---- tile sizes that are tried for one dimension ------------------------------------------------ */

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

/* Of a core: those of the chip's library where it has one, any otherwise. */
static void core_tile_sizes(struct pz_tile_sizes *l, int64_t size, enum pz_dim d,
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

/* Of the global buffer, which is not bound to the library's tiles: size and tiles alone. */
static void glb_tile_sizes(struct pz_tile_sizes *l, int64_t size, const struct pz_chip *c) {
  l->n = 0;
  any_tiles(l, size, c);
  for (int i = 0; i < l->n; i++) l->tiles[i] = (double)pz_ceil_div(size, (int64_t)l->size[i]);
}

/* ---- the mapspace ------------------------------------------------------------------------------- */

/* ---- stationarity --------------------------------------------------------------------------- */

enum pz_dim pz_stationary_first(enum pz_stationary s) {
  return s == PZ_STATIONARY_WEIGHTS ? PZ_DIM_K : PZ_DIM_M;
}

enum pz_dim pz_stationary_second(enum pz_stationary s) {
  return s == PZ_STATIONARY_INPUTS ? PZ_DIM_K : PZ_DIM_N;
}

double pz_mapspace_bytes(const struct pz_mapspace *m, enum pz_stationary st, double u, double v,
                         double depth) {
  double e = m->operand_bytes, a = m->sum_bytes, s = m->copies * depth;
  switch (st) {
  case PZ_STATIONARY_RESULTS: return a * u * v + s * e * (u + v);
  case PZ_STATIONARY_WEIGHTS: return e * u * v + s * (e * u + a * v);
  default: return e * u * v + s * (a * u + e * v);
  }
}

/* The largest of the three parts, for a buffer that is divided among the operands. */
static double largest_part(const struct pz_mapspace *m, enum pz_stationary st, double u, double v) {
  double e = m->operand_bytes, a = m->sum_bytes, s = m->copies * m->slice;
  bool results = st == PZ_STATIONARY_RESULTS, weights = st == PZ_STATIONARY_WEIGHTS;
  double whole = (results ? a : e) * u * v;
  double first = (weights || results ? e : a) * s * u;
  double second = (weights ? a : e) * s * v;
  return pz_fmax(whole, pz_fmax(first, second));
}

bool pz_mapspace_fits(const struct pz_mapspace *m, enum pz_stationary s, double u, double v,
                      double bytes, bool partitioned) {
  return (partitioned ? largest_part(m, s, u, v) : pz_mapspace_bytes(m, s, u, v, m->slice)) <=
         bytes;
}

/* The largest tile u of the first dimension that fits a local buffer with v of the second. */
static int most_first(const struct pz_mapspace *m, enum pz_stationary s, int v) {
  const struct pz_tile_sizes *tu = &m->tile[pz_stationary_first(s)],
                             *tv = &m->tile[pz_stationary_second(s)];
  double bytes = (double)m->chip->tensor.local_bytes;
  const struct pz_calibration *lib = &m->chip->calibration;
  int u = tu->n - 1;
  if (lib->n_tiles && s != PZ_STATIONARY_RESULTS) return -1; /* libraries keep results */
  while (u >= 0 &&
         (!pz_mapspace_fits(m, s, tu->size[u], tv->size[v], bytes, m->chip->rules.partitioned) ||
          (lib->n_tiles && tu->size[u] * tv->size[v] > (double)lib->most_tile_values)))
    u--;
  return u;
}

static void find_fits(struct pz_mapspace *m) {
  for (int n = 0; n < m->tile[PZ_DIM_N].n; n++) {
    m->most_m_by_n[n] = most_first(m, PZ_STATIONARY_RESULTS, n);
    m->most_k_by_n[n] = most_first(m, PZ_STATIONARY_WEIGHTS, n);
  }
  for (int k = 0; k < m->tile[PZ_DIM_K].n; k++)
    m->most_m_by_k[k] = most_first(m, PZ_STATIONARY_INPUTS, k);
}

int pz_mapspace_most_m(const struct pz_mapspace *m, int n, int k) {
  if (k <= m->most_k_by_n[n]) return m->tile[PZ_DIM_M].n - 1;
  return m->most_m_by_n[n] > m->most_m_by_k[k] ? m->most_m_by_n[n] : m->most_m_by_k[k];
}

enum pz_stationary pz_mapspace_stationary(const struct pz_mapspace *m, const int at[PZ_DIMS]) {
  if (at[PZ_DIM_M] <= m->most_m_by_n[at[PZ_DIM_N]]) return PZ_STATIONARY_RESULTS;
  return at[PZ_DIM_K] <= m->most_k_by_n[at[PZ_DIM_N]] ? PZ_STATIONARY_WEIGHTS
                                                      : PZ_STATIONARY_INPUTS;
}

/* ---- the numbers ---------------------------------------------------------------------------- */

/* Rows that are not whole multiples of a load fall off the fast path of the library. */
static double alignment(const struct pz_product *p, const struct pz_calibration *c) {
  if (p->n % 8 == 0 && p->k % 8 == 0) return 1;
  return p->n % 2 == 0 && p->k % 2 == 0 ? c->even_rows : c->odd_rows;
}

static double inverse(double rate) { return rate > 0 ? 1 / rate : 0; }

void pz_mapspace_set_cores(struct pz_mapspace *m, double cores) {
  const struct pz_tensor_cores *t = &m->chip->tensor;
  m->per_share = 1 / pz_fmin(m->chip->calibration.multicast, cores);
  m->local_least = pz_fmax(m->local_own / cores, m->local_total);
  m->cores = cores;
  m->per_core = 1 / cores;
  m->ideal_s = m->macs * m->cycle_s / (cores * (double)(t->rows * t->cols));
}

static void set_sizes(struct pz_mapspace *m, const struct pz_product *p, const struct pz_chip *c) {
  const int64_t size[PZ_DIMS] = {p->m, p->n, p->k};
  m->batch = (double)p->batch;
  m->macs = m->batch;
  for (int d = 0; d < PZ_DIMS; d++) {
    m->size[d] = (double)size[d];
    m->macs *= m->size[d];
    core_tile_sizes(&m->tile[d], size[d], (enum pz_dim)d, c);
    if (c->calibration.n_tiles)
      glb_tile_sizes(&m->glb_tile[d], size[d], c);
    else
      m->glb_tile[d] = m->tile[d];
  }
  m->n_batches = 0;
  for (int64_t q = 1, b = 0; b != 1; q *= 2) {
    b = pz_ceil_div(p->batch, q);
    m->batches[m->n_batches++] = (double)b;
  }
  m->inputs = m->batch * m->size[PZ_DIM_M] * m->size[PZ_DIM_K];
  m->weights = m->batch * m->size[PZ_DIM_K] * m->size[PZ_DIM_N];
  m->results = m->batch * m->size[PZ_DIM_M] * m->size[PZ_DIM_N];
}

static void set_rates(struct pz_mapspace *m, const struct pz_product *p, const struct pz_chip *c) {
  const struct pz_calibration *lib = &c->calibration;
  double fill_cycles = c->rules.fill ? (double)(c->tensor.rows + c->tensor.cols) : 0;
  m->unaligned = alignment(p, lib);
  m->cycle_s = m->unaligned / (c->clock_hz * lib->tensor_efficiency);
  m->item_s = fill_cycles * m->cycle_s + lib->item_s;
  m->glb = 1 / (c->glb_bytes_per_s * lib->glb_efficiency);
  m->hbm_read = 1 / (pz_chip_hbm_bytes_per_s(c) * lib->hbm_read_efficiency);
  m->hbm_write = 1 / (pz_chip_hbm_bytes_per_s(c) * lib->hbm_write_efficiency);
  m->startup_s = p->batch > 1 ? lib->batched_startup_s : lib->startup_s;
  m->duplex = c->rules.duplex;
  m->per_row = (1 - 1e-12) / (double)c->tensor.rows;
  m->per_col = (1 - 1e-12) / (double)c->tensor.cols;
  m->local_own = inverse(c->tensor.local_bytes_per_s);
  m->local_total = inverse(c->tensor.local_total_bytes_per_s);
  m->local_limited = c->tensor.local_bytes_per_s > 0 || c->tensor.local_total_bytes_per_s > 0;
}

void pz_mapspace_init(struct pz_mapspace *m, const struct pz_product *p, const struct pz_chip *c) {
  m->chip = c;
  m->nested = false;
  m->cold = 1;
  m->tech = pz_tech_at(c->tech);
  m->operand_bytes = (double)c->rules.operand_bytes;
  m->sum_bytes = (double)c->rules.sum_bytes;
  m->slice = (double)pz_min(c->tensor.rows, PZ_CHIP_SLICE);
  m->copies = c->rules.double_buffer ? 2 : 1;
  set_sizes(m, p, c);
  set_rates(m, p, c);
  pz_mapspace_set_cores(m, (double)c->tensor.cores);
  find_fits(m);
}
