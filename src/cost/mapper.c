#include "cost/mapper.h"

#include <float.h>
#include <stdio.h>

#include "chip/tech.h"
#include "core/num.h"

enum { MOST_CANDIDATES = 96, MOST_PLANS = 128 };

/* Values of an operand stay exact in doubles (2^53), and tiles, of which there are no more than
 * multiplications, stay within an int64_t.  2^62 multiplications are the 2^63 FLOP a graph counts.
 */
static const double MOST_VALUES = 0x1p53, MOST_MACS = 0x1p62;

/* fmax and fmin without the call: nothing here is NaN. */
static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* ceil for the non-negative values here, which stay far below 2^63: no call, unlike ceil() itself.
 */
static double up(double x) {
  double whole = (double)(int64_t)x;
  return whole < x ? whole + 1 : whole;
}

/* The two dimensions of the operand that stays, and the one that streams past it. */
static const enum pz_dim stay_first[] = {PZ_DIM_M, PZ_DIM_K, PZ_DIM_M};
static const enum pz_dim stay_second[] = {PZ_DIM_N, PZ_DIM_N, PZ_DIM_K};

/* The six ways to lie on the array. */
static const struct {
  enum pz_dim rows, cols, streams;
} lay[] = {{PZ_DIM_K, PZ_DIM_N, PZ_DIM_M}, {PZ_DIM_N, PZ_DIM_K, PZ_DIM_M},
           {PZ_DIM_M, PZ_DIM_N, PZ_DIM_K}, {PZ_DIM_N, PZ_DIM_M, PZ_DIM_K},
           {PZ_DIM_M, PZ_DIM_K, PZ_DIM_N}, {PZ_DIM_K, PZ_DIM_M, PZ_DIM_N}};
enum { LAYS = sizeof lay / sizeof *lay };

/* Tile sizes of one dimension, ascending, with what the inner loops need of each. */
struct candidates {
  int n;
  double size[MOST_CANDIDATES];
  double tiles[MOST_CANDIDATES];                             /* how many cover the dimension */
  double on_rows[MOST_CANDIDATES], on_cols[MOST_CANDIDATES]; /* steps along an axis of the array */
  double stream[MOST_CANDIDATES]; /* cycles to stream it past, at least a new operand's load */
};

struct mapper {
  const struct pz_chip *c;
  double size[PZ_DIMS], batch, macs, cores;
  double per_share;                  /* 1 / cores that share a read from the global buffer */
  double per_core, per_row, per_col; /* 1 / cores; 1 / rows and columns, a hair less for bounds */
  double ideal_s;                    /* arithmetic at peak */
  double inputs, weights, results;   /* values, over the batch */
  struct candidates cand[PZ_DIMS];   /* of an item */
  struct candidates whole[PZ_DIMS];  /* of the tile in the global buffer */
  double e, a;                       /* bytes of an operand, of a partial sum */
  double slice, copies;
  double cycle_s, item_s; /* of one cycle; of an item at least: filling the array and the like */
  bool duplex;
  double glb, hbm_read, hbm_write; /* seconds per byte */
  double local_own, local_total;   /* the same of one core's buffer, of all; 0: no limit */
  double local_least;              /* of all cores' buffers at best */
  double unaligned;                /* arithmetic is slower by this */
  double startup_s;
  const struct pz_tech_info *tech;
  bool local_limited;
  /* Fitting is monotone: the largest index of the other dimension says it all; -1: none. */
  int most_m_by_n[MOST_CANDIDATES]; /* results stay */
  int most_m_by_k[MOST_CANDIDATES]; /* inputs stay */
  int most_k_by_n[MOST_CANDIDATES]; /* weights stay: any m will do */
  /* by n and k: the largest m that fits, and a bound on the time of any; see find_bounds */
  struct pair {
    double bound_s;
    int top;
  } pair[MOST_CANDIDATES * MOST_CANDIDATES]; /* n by n without gaps: few are touched */
};

/* ---- candidates ----------------------------------------------------------------------------- */

static void insert(double *v, int *n, double x) {
  int at = *n;
  while (at > 0 && v[at - 1] > x) at--;
  if (at > 0 && v[at - 1] == x) return;
  for (int i = *n; i > at; i--) v[i] = v[i - 1];
  v[at] = x;
  (*n)++;
}

/* The dimension whole, halved again and again, and in powers of two of the array's shorter side.
 * Less than that side only pays where filling the array is free. */
static void any_tiles(struct candidates *l, int64_t size, const struct pz_chip *c) {
  int64_t rows = c->tensor.rows, cols = c->tensor.cols, side = rows < cols ? rows : cols;
  int64_t least = size <= side ? 1 : pz_chip_least_tile(c);
  insert(l->size, &l->n, (double)size);
  for (int64_t q = 2; pz_ceil_div(size, q) >= least && q < 2 * size; q *= 2)
    insert(l->size, &l->n, (double)pz_ceil_div(size, q));
  for (int64_t t = side; t < size && l->n < MOST_CANDIDATES; t *= 2)
    insert(l->size, &l->n, (double)t);
}

/* The tiles a library has kernels for; the inner dimension whole, or in a few parts that are not
 * too short. */
static void library_tiles(struct candidates *l, int64_t size, enum pz_dim d,
                          const struct pz_calibration *c) {
  for (int i = 0; d != PZ_DIM_K && i < c->n_tiles; i++) insert(l->size, &l->n, (double)c->tiles[i]);
  for (int64_t q = 1; d == PZ_DIM_K && q <= c->most_splits; q *= 2)
    if (q == 1 || size / q >= c->least_split_k)
      insert(l->size, &l->n, (double)pz_ceil_div(size, q));
}

static void list_candidates(struct candidates *l, int64_t size, enum pz_dim d,
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

/* What the global buffer holds is not bound to the library's tiles. */
static void list_glb_candidates(struct candidates *l, int64_t size, const struct pz_chip *c) {
  l->n = 0;
  any_tiles(l, size, c);
  for (int i = 0; i < l->n; i++) l->tiles[i] = (double)pz_ceil_div(size, (int64_t)l->size[i]);
}

/* Bytes a buffer holds when an operand of u x v values stays and the other two stream past it. */
static double resident(const struct mapper *m, enum pz_stay stay, double u, double v) {
  double e = m->e, a = m->a, s = m->copies * m->slice;
  switch (stay) {
  case PZ_STAY_RESULTS: return a * u * v + s * e * (u + v);
  case PZ_STAY_WEIGHTS: return e * u * v + s * (e * u + a * v);
  default: return e * u * v + s * (a * u + e * v);
  }
}

/* The largest of the three parts, for a buffer that is divided among the operands. */
static double largest_part(const struct mapper *m, enum pz_stay stay, double u, double v) {
  double s = m->copies * m->slice;
  bool results = stay == PZ_STAY_RESULTS, weights = stay == PZ_STAY_WEIGHTS;
  double whole = (results ? m->a : m->e) * u * v;
  double first = (weights || results ? m->e : m->a) * s * u;
  double second = (weights ? m->a : m->e) * s * v;
  return larger(whole, larger(first, second));
}

static bool fits_in(const struct mapper *m, enum pz_stay stay, double u, double v, double bytes,
                    bool partitioned) {
  return (partitioned ? largest_part(m, stay, u, v) : resident(m, stay, u, v)) <= bytes;
}

/* The largest candidate u that fits a local buffer with v. */
static int most_first(const struct mapper *m, enum pz_stay stay, int v) {
  const struct candidates *cu = &m->cand[stay_first[stay]], *cv = &m->cand[stay_second[stay]];
  double bytes = (double)m->c->tensor.local_bytes;
  const struct pz_calibration *lib = &m->c->calibration;
  int u = cu->n - 1;
  if (lib->n_tiles && stay != PZ_STAY_RESULTS) return -1; /* libraries keep results */
  while (u >= 0 && (!fits_in(m, stay, cu->size[u], cv->size[v], bytes, m->c->rules.partitioned) ||
                    (lib->n_tiles && cu->size[u] * cv->size[v] > (double)lib->most_tile_values)))
    u--;
  return u;
}

static void find_fits(struct mapper *m) {
  for (int n = 0; n < m->cand[PZ_DIM_N].n; n++) {
    m->most_m_by_n[n] = most_first(m, PZ_STAY_RESULTS, n);
    m->most_k_by_n[n] = most_first(m, PZ_STAY_WEIGHTS, n);
  }
  for (int k = 0; k < m->cand[PZ_DIM_K].n; k++)
    m->most_m_by_k[k] = most_first(m, PZ_STAY_INPUTS, k);
}

/* The largest tile of m that fits with these of n and k; all smaller ones do too.  -1: none. */
static int most_m(const struct mapper *m, int n, int k) {
  if (k <= m->most_k_by_n[n]) return m->cand[PZ_DIM_M].n - 1;
  return m->most_m_by_n[n] > m->most_m_by_k[k] ? m->most_m_by_n[n] : m->most_m_by_k[k];
}

static enum pz_stay what_stays(const struct mapper *m, const int at[PZ_DIMS]) {
  if (at[PZ_DIM_M] <= m->most_m_by_n[at[PZ_DIM_N]]) return PZ_STAY_RESULTS;
  return at[PZ_DIM_K] <= m->most_k_by_n[at[PZ_DIM_N]] ? PZ_STAY_WEIGHTS : PZ_STAY_INPUTS;
}

/* ---- one mapping ---------------------------------------------------------------------------- */

struct traffic {
  double reads, writes;
};

static double seconds(const struct mapper *m, struct traffic t, double s_per_byte) {
  return (m->duplex ? larger(t.reads, t.writes) : t.reads + t.writes) * s_per_byte;
}

static double hbm_seconds(const struct mapper *m, struct traffic t) {
  double reads = t.reads * m->hbm_read, writes = t.writes * m->hbm_write;
  return m->duplex ? larger(reads, writes) : reads + writes;
}

/* Traffic of the whole product over a boundary.  An operand crosses once for each step in the
 * dimension it lacks; partial sums go out at each step in k and come back at all but the `fresh`
 * ones. */
static struct traffic cross(const struct mapper *m, const double step[PZ_DIMS], double fresh,
                            double result_bytes) {
  double sums = m->results * m->a;
  return (struct traffic){m->e * (m->inputs * step[PZ_DIM_N] + m->weights * step[PZ_DIM_M]) +
                              sums * (step[PZ_DIM_K] - fresh),
                          sums * (step[PZ_DIM_K] - 1) + m->results * result_bytes};
}

/* Between HBM and the global buffer: steps are tiles. */
static struct traffic hbm_boundary(const struct mapper *m, const double tiles[PZ_DIMS]) {
  return cross(m, tiles, 1, m->e);
}

/* Reads of an operand from the global buffer: one for each tile that wants it, or for each group of
 * cores that share a read. */
static double shared(const struct mapper *m, double tiles) {
  return larger(1, tiles * m->per_share);
}

/* Between global and local buffers. */
static struct traffic boundary(const struct mapper *m, const double tiles[PZ_DIMS]) {
  const double step[PZ_DIMS] = {shared(m, tiles[PZ_DIM_M]), shared(m, tiles[PZ_DIM_N]),
                                tiles[PZ_DIM_K]};
  return cross(m, step, 1, m->e);
}

/* Between local buffers and arrays; sums start anew in each tile of k. */
static struct traffic array_boundary(const struct mapper *m, const double step[PZ_DIMS],
                                     double tiles_k) {
  return cross(m, step, tiles_k, m->a);
}

/* One way to use the array: how the tile lies on it and what its registers keep. */
struct plan {
  int l;
  double keep_rows, keep_cols;
  double per_rows, per_cols; /* 1 / what is kept */
  double local_s, energy_j;  /* no tile does better */
};

/* Steps over a whole dimension when tiles of candidate i lie on the array as `p` says.  What is
 * kept is a power of two, and ceil(ceil(size / rows) / 2^j) = ceil(size / (rows 2^j)): nothing is
 * divided here. */
static double steps(const struct mapper *m, const struct plan *p, enum pz_dim d, int i) {
  const struct candidates *c = &m->cand[d];
  if (d == lay[p->l].rows) return c->tiles[i] * up(c->on_rows[i] * p->per_rows);
  if (d == lay[p->l].cols) return c->tiles[i] * up(c->on_cols[i] * p->per_cols);
  return c->tiles[i];
}

/* The fewest steps a dimension can take, with tiles that fit the array exactly. */
static double fewest(const struct mapper *m, const struct plan *p, enum pz_dim d) {
  if (d == lay[p->l].rows) return larger(1, m->size[d] * m->per_row * p->per_rows);
  if (d == lay[p->l].cols) return larger(1, m->size[d] * m->per_col * p->per_cols);
  return 1;
}

/* Values of the operand that stays which fit a multiplier's registers. */
static double keeps(const struct mapper *m, int l) {
  double bytes = lay[l].streams == PZ_DIM_K ? m->a : m->e;
  return (double)m->c->tensor.register_bytes / bytes;
}

static double items_of(const struct mapper *m, const int at[PZ_DIMS]) {
  return m->batch * m->cand[PZ_DIM_M].tiles[at[PZ_DIM_M]] * m->cand[PZ_DIM_N].tiles[at[PZ_DIM_N]] *
         m->cand[PZ_DIM_K].tiles[at[PZ_DIM_K]];
}

/* ceil(items / cores), exactly: the product with 1 / cores may be off by one. */
static double rounds_of(const struct mapper *m, double items) {
  double r = (double)(int64_t)(items * m->per_core);
  if (r * m->cores < items) r++;
  return r > 1 && (r - 1) * m->cores >= items ? r - 1 : r;
}

static double cycles_of(const struct mapper *m, int l, const int at[PZ_DIMS]) {
  return m->cand[lay[l].rows].on_rows[at[lay[l].rows]] *
         m->cand[lay[l].cols].on_cols[at[lay[l].cols]] *
         m->cand[lay[l].streams].stream[at[lay[l].streams]];
}

/* Arithmetic of an item and what its ends cost, over the rounds; long work loses its boost. */
static double compute_seconds(const struct mapper *m, const int at[PZ_DIMS], double cycles,
                              double rounds) {
  const struct pz_calibration *c = &m->c->calibration;
  double values = m->cand[PZ_DIM_M].size[at[PZ_DIM_M]] * m->cand[PZ_DIM_N].size[at[PZ_DIM_N]];
  double s = rounds * (cycles * m->cycle_s + m->item_s + values * c->tile_value_s * m->unaligned);
  bool slows = s > c->boost_s && m->unaligned <= 1;
  return slows ? c->boost_s + (s - c->boost_s) * c->throttle : s;
}

static struct traffic glb_traffic(const struct mapper *m, const int at[PZ_DIMS]) {
  double tiles[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) tiles[d] = m->cand[d].tiles[at[d]];
  return boundary(m, tiles);
}

static struct traffic local_traffic(const struct mapper *m, const struct plan *p,
                                    const int at[PZ_DIMS]) {
  double step[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) step[d] = steps(m, p, (enum pz_dim)d, at[d]);
  return array_boundary(m, step, m->cand[PZ_DIM_K].tiles[at[PZ_DIM_K]]);
}

/* A core's own buffer serves its items one after another; the sum over all cores may have a limit
 * too. */
static double local_seconds(const struct mapper *m, struct traffic all, double items,
                            double rounds) {
  double own = seconds(m, all, m->local_own) * rounds / items;
  return larger(own, seconds(m, all, m->local_total));
}

static double core_energy(const struct mapper *m, struct traffic local, struct traffic glb) {
  return (local.reads + local.writes) * m->tech->local_j +
         (glb.reads + glb.writes) * m->tech->glb_j;
}

/* ---- plans ---------------------------------------------------------------------------------- */

struct plans {
  struct plan plan[MOST_PLANS];
  int n;
};

/* Seconds that any mapping needs for this local traffic; each core's own limit cannot be passed by
 * all. */
static double local_bound(const struct mapper *m, double reads, double writes) {
  return seconds(m, (struct traffic){reads, writes}, m->local_least);
}

/* What a plan can reach at best, from the fewest steps. */
static void bound_plan(const struct mapper *m, struct plan *p) {
  static const double whole[PZ_DIMS] = {1, 1, 1};
  double step[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) step[d] = fewest(m, p, (enum pz_dim)d);
  struct traffic local = array_boundary(m, step, step[PZ_DIM_K]);
  p->local_s = local_bound(m, local.reads, local.writes);
  p->energy_j = core_energy(m, local, boundary(m, whole));
}

/* All plans, those first that promise most.  What the registers keep changes local traffic alone.
 */
static void list_plans(const struct mapper *m, bool by_energy, struct plans *list) {
  list->n = 0;
  for (int l = 0; l < LAYS; l++)
    for (double r = 1, most = keeps(m, l); r <= most && list->n < MOST_PLANS; r *= 2) {
      struct plan p = {.l = l, .keep_rows = r, .keep_cols = 1};
      while (r * p.keep_cols * 2 <= most) p.keep_cols *= 2;
      p.per_rows = 1 / p.keep_rows;
      p.per_cols = 1 / p.keep_cols;
      bound_plan(m, &p);
      int at = list->n++;
      for (; at > 0; at--) {
        const struct plan *q = &list->plan[at - 1];
        if (by_energy ? q->energy_j <= p.energy_j : q->local_s <= p.local_s) break;
        list->plan[at] = *q;
      }
      list->plan[at] = p;
    }
}

/* The candidates of a dimension by what they cost in a sum over dimensions, cheapest first. */
struct ranking {
  double cost[MOST_CANDIDATES];
  int at[MOST_CANDIDATES];
  int n;
};

static void rank(struct ranking *r, double cost, int at) {
  int i = r->n++;
  for (; i > 0 && r->cost[i - 1] > cost; i--) {
    r->cost[i] = r->cost[i - 1];
    r->at[i] = r->at[i - 1];
  }
  r->cost[i] = cost;
  r->at[i] = at;
}

/* ---- first pass: the least time of arithmetic, local and global traffic ---------------------- */

struct best {
  double core_s;   /* the fastest core part found, or the limit in the second pass */
  double energy_j; /* of the cheapest within the limit */
  int at[PZ_DIMS];
  struct plan plan;
};

/* No tile of m up to `top` with these of n and k is faster: its global traffic, and arithmetic
 * without waste but for filling the array for every item. */
static double fast_bound(const struct mapper *m, int top, int n, int k) {
  double tiles[PZ_DIMS] = {m->cand[PZ_DIM_M].tiles[top], m->cand[PZ_DIM_N].tiles[n],
                           m->cand[PZ_DIM_K].tiles[k]};
  double items = m->batch * tiles[PZ_DIM_M] * tiles[PZ_DIM_N] * tiles[PZ_DIM_K];
  double fill_s = items * m->per_core * m->item_s;
  return larger(seconds(m, boundary(m, tiles), m->glb), m->ideal_s + fill_s);
}

/* The bounds of all pairs, once: every plan asks for them. */
static void find_bounds(struct mapper *m) {
  for (int n = 0; n < m->cand[PZ_DIM_N].n; n++)
    for (int k = 0; k < m->cand[PZ_DIM_K].n; k++) {
      int top = most_m(m, n, k);
      m->pair[n * m->cand[PZ_DIM_K].n + k] =
          (struct pair){top < 0 ? DBL_MAX : fast_bound(m, top, n, k), top};
    }
}

static struct pair pair_of(const struct mapper *m, const int at[PZ_DIMS]) {
  return m->pair[at[PZ_DIM_N] * m->cand[PZ_DIM_K].n + at[PZ_DIM_K]];
}

static double least_cycles(const struct mapper *m, const int at[PZ_DIMS]) {
  double least = cycles_of(m, 0, at);
  for (int l = 1; l < LAYS; l++) least = smaller(least, cycles_of(m, l, at));
  return least;
}

/* Where local buffers feed their arrays, the best way to lie decides by itself. */
static void visit_fast(const struct mapper *m, const int at[PZ_DIMS], struct best *b) {
  double rounds = rounds_of(m, items_of(m, at));
  double s = larger(compute_seconds(m, at, least_cycles(m, at), rounds),
                    seconds(m, glb_traffic(m, at), m->glb));
  if (s < b->core_s) b->core_s = s;
}

/* Large tiles first: they are good ones, and make the bounds tight early.  Below `enough` nothing
 * is gained. */
static void scan_fast(const struct mapper *m, double enough, struct best *b) {
  int at[PZ_DIMS];
  for (at[PZ_DIM_K] = m->cand[PZ_DIM_K].n - 1; at[PZ_DIM_K] >= 0; at[PZ_DIM_K]--)
    for (at[PZ_DIM_N] = m->cand[PZ_DIM_N].n - 1; at[PZ_DIM_N] >= 0; at[PZ_DIM_N]--) {
      struct pair pair = pair_of(m, at);
      if (pair.bound_s >= b->core_s) continue;
      for (at[PZ_DIM_M] = pair.top; at[PZ_DIM_M] >= 0; at[PZ_DIM_M]--) {
        if (fast_bound(m, at[PZ_DIM_M], at[PZ_DIM_N], at[PZ_DIM_K]) >= b->core_s) break;
        visit_fast(m, at, b);
        if (b->core_s <= enough) return;
      }
    }
}

/* Local reads are a sum of one part for each dimension, writes follow from k alone. */
static void split_local(const struct mapper *m, const struct plan *p, struct ranking reads[PZ_DIMS],
                        double writes[MOST_CANDIDATES]) {
  const double of[PZ_DIMS] = {m->e * m->weights, m->e * m->inputs, m->a * m->results};
  for (int d = 0; d < PZ_DIMS; d++) {
    reads[d].n = 0;
    for (int i = m->cand[d].n - 1; i >= 0; i--) {
      double step = steps(m, p, (enum pz_dim)d, i);
      if (d == PZ_DIM_K) writes[i] = of[d] * step;
      rank(&reads[d], of[d] * (d == PZ_DIM_K ? step - m->cand[d].tiles[i] : step), i);
    }
  }
}

static void visit_limited(const struct mapper *m, const struct plan *p, const int at[PZ_DIMS],
                          struct traffic local, struct best *b) {
  double items = items_of(m, at), rounds = rounds_of(m, items);
  double s = larger(compute_seconds(m, at, cycles_of(m, p->l, at), rounds),
                    seconds(m, glb_traffic(m, at), m->glb));
  if (s >= b->core_s) return;
  s = larger(s, local_seconds(m, local, items, rounds));
  if (s < b->core_s) b->core_s = s;
}

static void scan_limited(const struct mapper *m, const struct plan *p, double enough,
                         struct best *b) {
  struct ranking r[PZ_DIMS], *rm = &r[PZ_DIM_M], *rn = &r[PZ_DIM_N], *rk = &r[PZ_DIM_K];
  double writes[MOST_CANDIDATES];
  int at[PZ_DIMS];
  split_local(m, p, r, writes);
  if (!rm->n || !rn->n) return; /* there is always a candidate */
  for (int k = 0; k < rk->n; k++) {
    double w = writes[at[PZ_DIM_K] = rk->at[k]];
    if (local_bound(m, rk->cost[k] + rm->cost[0] + rn->cost[0], w) >= b->core_s) continue;
    for (int n = 0; n < rn->n; n++) {
      double kn = rk->cost[k] + rn->cost[n];
      at[PZ_DIM_N] = rn->at[n];
      if (local_bound(m, kn + rm->cost[0], w) >= b->core_s) break;
      struct pair pair = pair_of(m, at);
      if (pair.bound_s >= b->core_s) continue;
      for (int i = 0; i < rm->n; i++) {
        struct traffic local = {kn + rm->cost[i], w};
        at[PZ_DIM_M] = rm->at[i];
        if (local_bound(m, local.reads, w) >= b->core_s) break;
        if (at[PZ_DIM_M] <= pair.top) visit_limited(m, p, at, local, b);
        if (b->core_s <= enough) return;
      }
    }
  }
}

static void find_fastest(struct mapper *m, double enough, struct best *b) {
  find_bounds(m);
  if (!m->local_limited) {
    scan_fast(m, enough, b);
    return;
  }
  struct plans list;
  list_plans(m, false, &list);
  for (int i = 0; i < list.n && list.plan[i].local_s < b->core_s && b->core_s > enough; i++)
    scan_limited(m, &list.plan[i], enough, b);
}

/* ---- second pass: the least energy among those no slower than b->core_s ---------------------- */

/* Energy is a sum of one part for each dimension, its traffic at both boundaries, and the results'
 * way out. */
static void split_energy(const struct mapper *m, const struct plan *p,
                         struct ranking joules[PZ_DIMS]) {
  const double of[PZ_DIMS] = {m->e * m->weights, m->e * m->inputs, m->a * m->results};
  for (int d = 0; d < PZ_DIMS; d++) {
    joules[d].n = 0;
    for (int i = m->cand[d].n - 1; i >= 0; i--) {
      double step = steps(m, p, (enum pz_dim)d, i), tiles = m->cand[d].tiles[i];
      /* sums go out at each step and come back at all but the first of a tile */
      double local = d == PZ_DIM_K ? 2 * step - tiles : step;
      double glb = d == PZ_DIM_K ? 2 * (tiles - 1) : shared(m, tiles);
      rank(&joules[d], of[d] * (local * m->tech->local_j + glb * m->tech->glb_j), i);
    }
  }
}

static bool fast_enough(const struct mapper *m, const struct plan *p, const int at[PZ_DIMS],
                        double limit_s) {
  double items = items_of(m, at), rounds = rounds_of(m, items);
  if (compute_seconds(m, at, cycles_of(m, p->l, at), rounds) > limit_s) return false;
  if (seconds(m, glb_traffic(m, at), m->glb) > limit_s) return false;
  return !m->local_limited || local_seconds(m, local_traffic(m, p, at), items, rounds) <= limit_s;
}

static void scan_cheap(const struct mapper *m, const struct plan *p, struct best *b) {
  struct ranking r[PZ_DIMS], *rm = &r[PZ_DIM_M], *rn = &r[PZ_DIM_N], *rk = &r[PZ_DIM_K];
  double fixed = m->results * m->e * m->tech->glb_j;
  int at[PZ_DIMS];
  split_energy(m, p, r);
  if (!rm->n || !rn->n) return; /* there is always a candidate */
  for (int k = 0; k < rk->n; k++) {
    at[PZ_DIM_K] = rk->at[k];
    if (fixed + rk->cost[k] + rm->cost[0] + rn->cost[0] >= b->energy_j) break;
    for (int n = 0; n < rn->n; n++) {
      double kn = fixed + rk->cost[k] + rn->cost[n];
      at[PZ_DIM_N] = rn->at[n];
      if (kn + rm->cost[0] >= b->energy_j) break;
      struct pair pair = pair_of(m, at);
      if (pair.bound_s > b->core_s) continue;
      for (int i = 0; i < rm->n && kn + rm->cost[i] < b->energy_j; i++) {
        at[PZ_DIM_M] = rm->at[i];
        if (at[PZ_DIM_M] > pair.top || !fast_enough(m, p, at, b->core_s)) continue;
        b->energy_j = kn + rm->cost[i];
        b->plan = *p;
        for (int d = 0; d < PZ_DIMS; d++) b->at[d] = at[d];
      }
    }
  }
}

static void find_cheapest(const struct mapper *m, struct best *b) {
  struct plans list;
  list_plans(m, true, &list);
  for (int i = 0; i < list.n && list.plan[i].energy_j < b->energy_j; i++)
    if (list.plan[i].local_s <= b->core_s) scan_cheap(m, &list.plan[i], b);
}

/* ---- the global buffer ---------------------------------------------------------------------- */

struct glb_choice {
  double bytes, s;
  int u, v;
  enum pz_stay stay;
};

/* One choice for the global buffer: an operand stays with these tiles of its two dimensions. */
static struct glb_choice glb_at(const struct mapper *m, enum pz_stay s, int u, int v) {
  double tiles[PZ_DIMS] = {1, 1, 1};
  tiles[stay_first[s]] = m->whole[stay_first[s]].tiles[u];
  tiles[stay_second[s]] = m->whole[stay_second[s]].tiles[v];
  struct traffic t = hbm_boundary(m, tiles);
  return (struct glb_choice){t.reads + t.writes, hbm_seconds(m, t), u, v, s};
}

/* The fastest choice (limit_s < 0), or the one with the least traffic that takes no longer than
 * limit_s.  For each size of the one dimension the largest of the other that fits is the best. */
static struct glb_choice choose_glb(const struct mapper *m, double glb_bytes, double limit_s) {
  struct glb_choice best = {.bytes = DBL_MAX, .s = DBL_MAX};
  for (enum pz_stay s = 0; s < PZ_STAYS; s++) {
    const struct candidates *cu = &m->whole[stay_first[s]], *cv = &m->whole[stay_second[s]];
    for (int u = 0, v = cv->n - 1; u < cu->n; u++) {
      while (v >= 0 && !fits_in(m, s, cu->size[u], cv->size[v], glb_bytes, false)) v--;
      if (v < 0) break;
      struct glb_choice g = glb_at(m, s, u, v);
      if (limit_s < 0 ? g.s < best.s : g.s <= limit_s && g.bytes < best.bytes) best = g;
    }
  }
  return best;
}

/* ---- putting it together -------------------------------------------------------------------- */

static enum pz_status check(const struct pz_product *p, struct pz_error *err) {
  const int64_t v[] = {p->batch, p->m, p->n, p->k};
  static const char *const name[] = {"batch", "m", "n", "k"};
  for (int i = 0; i < 4; i++)
    if (v[i] < 1 || v[i] > 1LL << 40)
      return pz_fail(err, PZ_BAD_INPUT, "product: %s is %lld; accepted: 1 to 2^40", name[i],
                     (long long)v[i]);
  double b = (double)p->batch, m = (double)p->m, n = (double)p->n, k = (double)p->k;
  double values = b * larger(m * n, larger(m * k, n * k)), macs = b * m * n * k;
  if (values > MOST_VALUES)
    return pz_fail(err, PZ_BAD_INPUT,
                   "product: an operand has %.4g values; accepted: at most 2^53 (%.4g)", values,
                   MOST_VALUES);
  if (macs > MOST_MACS)
    return pz_fail(err, PZ_BAD_INPUT,
                   "product: %.4g multiplications; accepted: at most 2^62 (%.4g)", macs, MOST_MACS);
  return PZ_OK;
}

/* Rows that are not whole multiples of a load fall off the fast path of the library. */
static double alignment(const struct pz_product *p, const struct pz_calibration *c) {
  if (p->n % 8 == 0 && p->k % 8 == 0) return 1;
  return p->n % 2 == 0 && p->k % 2 == 0 ? c->even_rows : c->odd_rows;
}

static double inverse(double rate) { return rate > 0 ? 1 / rate : 0; }

static void set_cores(struct mapper *m, double cores) {
  m->per_share = 1 / smaller(m->c->calibration.multicast, cores);
  m->local_least = larger(m->local_own / cores, m->local_total);
  m->cores = cores;
  m->per_core = 1 / cores;
  m->ideal_s = m->macs * m->cycle_s / (cores * (double)(m->c->tensor.rows * m->c->tensor.cols));
}

static void prepare(struct mapper *m, const struct pz_product *p, const struct pz_chip *c) {
  const int64_t size[PZ_DIMS] = {p->m, p->n, p->k};
  m->c = c;
  m->batch = (double)p->batch;
  m->macs = m->batch;
  for (int d = 0; d < PZ_DIMS; d++) {
    m->size[d] = (double)size[d];
    m->macs *= m->size[d];
    list_candidates(&m->cand[d], size[d], (enum pz_dim)d, c);
    if (c->calibration.n_tiles)
      list_glb_candidates(&m->whole[d], size[d], c);
    else
      m->whole[d] = m->cand[d];
  }
  m->inputs = m->batch * m->size[PZ_DIM_M] * m->size[PZ_DIM_K];
  m->weights = m->batch * m->size[PZ_DIM_K] * m->size[PZ_DIM_N];
  m->results = m->batch * m->size[PZ_DIM_M] * m->size[PZ_DIM_N];
  m->e = (double)c->rules.operand_bytes;
  m->a = (double)c->rules.sum_bytes;
  m->slice = (double)(c->tensor.rows < PZ_CHIP_SLICE ? c->tensor.rows : PZ_CHIP_SLICE);
  m->copies = c->rules.double_buffer ? 2 : 1;
  double fill_cycles = c->rules.fill ? (double)(c->tensor.rows + c->tensor.cols) : 0;
  m->unaligned = alignment(p, &c->calibration);
  m->cycle_s = m->unaligned / (c->clock_hz * c->calibration.tensor_efficiency);
  m->item_s = fill_cycles * m->cycle_s + c->calibration.item_s;
  m->glb = 1 / (c->glb_bytes_per_s * c->calibration.glb_efficiency);
  m->hbm_read = 1 / (pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_read_efficiency);
  m->hbm_write = 1 / (pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_write_efficiency);
  m->startup_s = p->batch > 1 ? c->calibration.batched_startup_s : c->calibration.startup_s;
  m->duplex = c->rules.duplex;
  m->per_row = (1 - 1e-12) / (double)c->tensor.rows;
  m->per_col = (1 - 1e-12) / (double)c->tensor.cols;
  m->local_own = inverse(c->tensor.local_bytes_per_s);
  m->local_total = inverse(c->tensor.local_total_bytes_per_s);
  set_cores(m, (double)c->tensor.cores);
  m->tech = pz_tech_at(c->tech);
  m->local_limited = c->tensor.local_bytes_per_s > 0 || c->tensor.local_total_bytes_per_s > 0;
  find_fits(m);
}

static enum pz_bound bound_of(const struct pz_mapping *o) {
  double worst = larger(larger(o->compute_s, o->hbm_s), larger(o->glb_s, o->local_s));
  if (o->startup_s > worst) return PZ_BOUND_STARTUP;
  if (o->compute_s >= worst) return PZ_BOUND_COMPUTE;
  if (o->hbm_s >= worst) return PZ_BOUND_HBM;
  return o->glb_s >= worst ? PZ_BOUND_GLB : PZ_BOUND_LOCAL;
}

static void describe_core(const struct mapper *m, const struct best *b, struct pz_mapping *o) {
  const struct plan *p = &b->plan;
  struct traffic local = local_traffic(m, p, b->at), glb = glb_traffic(m, b->at);
  double items = items_of(m, b->at), rounds = rounds_of(m, items);
  for (int d = 0; d < PZ_DIMS; d++) o->tile[d] = (int64_t)m->cand[d].size[b->at[d]];
  o->items = (int64_t)items;
  o->rounds = (int64_t)rounds;
  o->along_rows = lay[p->l].rows;
  o->along_cols = lay[p->l].cols;
  o->keep_rows = (int64_t)p->keep_rows;
  o->keep_cols = (int64_t)p->keep_cols;
  o->local_stay = what_stays(m, b->at);
  o->compute_s = compute_seconds(m, b->at, cycles_of(m, p->l, b->at), rounds);
  o->local_s = local_seconds(m, local, items, rounds);
  o->local_bytes = local.reads + local.writes;
  o->glb_bytes = glb.reads + glb.writes;
  o->glb_s = seconds(m, glb, m->glb);
}

static void describe_glb(const struct mapper *m, const struct glb_choice *g, struct pz_mapping *o) {
  for (int d = 0; d < PZ_DIMS; d++) o->glb_tile[d] = (int64_t)m->size[d];
  o->glb_tile[stay_first[g->stay]] = (int64_t)m->whole[stay_first[g->stay]].size[g->u];
  o->glb_tile[stay_second[g->stay]] = (int64_t)m->whole[stay_second[g->stay]].size[g->v];
  o->glb_stay = g->stay;
  o->hbm_bytes = g->bytes;
  o->hbm_s = g->s;
}

static void conclude(const struct mapper *m, struct pz_mapping *o) {
  o->startup_s = m->startup_s;
  double work = larger(larger(o->compute_s, o->hbm_s), larger(o->glb_s, o->local_s));
  o->latency_s = m->startup_s + work;
  o->energy_j = m->macs * m->tech->mac_j + o->local_bytes * m->tech->local_j +
                o->glb_bytes * m->tech->glb_j + o->hbm_bytes * m->tech->hbm_j;
  o->utilisation = 2 * m->macs / (pz_chip_tensor_flop_per_s(m->c) * o->latency_s);
  o->bound = bound_of(o);
}

static enum pz_status no_tile(const struct pz_chip *c, struct pz_error *err) {
  return pz_fail(err, PZ_BAD_INPUT,
                 "chip %s: no tile fits its buffers of %lld bytes in a core and %lld in all; "
                 "accepted: at least %lld and %lld",
                 c->name, (long long)c->tensor.local_bytes, (long long)c->glb_bytes,
                 (long long)pz_chip_least_local_bytes(c), (long long)pz_chip_least_glb_bytes(c));
}

double pz_cold_part(const struct pz_chip *c, double bytes) {
  const struct pz_calibration *w = &c->calibration;
  if (bytes <= w->warm_from_bytes) return 0;
  return bytes >= w->warm_to_bytes
             ? 1
             : (bytes - w->warm_from_bytes) / (w->warm_to_bytes - w->warm_from_bytes);
}

static double cold_part(const struct mapper *m, const struct pz_product *p) {
  return p->warm ? pz_cold_part(m->c, m->e * (m->inputs + m->weights + m->results)) : 1;
}

enum pz_status pz_map_product(const struct pz_product *p, const struct pz_chip *c,
                              struct pz_mapping *out, struct pz_error *err) {
  enum pz_status status = check(p, err);
  if (status != PZ_OK) return status;
  struct mapper m;
  prepare(&m, p, c);
  double cold = cold_part(&m, p);
  double hbm_s = choose_glb(&m, (double)c->glb_bytes, -1).s * cold;
  struct best b = {.core_s = DBL_MAX, .energy_j = DBL_MAX};
  find_fastest(&m, hbm_s, &b);
  if (b.core_s == DBL_MAX || hbm_s == DBL_MAX) return no_tile(c, err);
  /* the two passes add the same numbers in different order */
  b.core_s = larger(b.core_s, hbm_s) * (1 + 1e-12);
  find_cheapest(&m, &b);
  struct glb_choice glb =
      choose_glb(&m, (double)c->glb_bytes, cold > 0 ? b.core_s / cold : DBL_MAX);
  glb.s *= cold;
  glb.bytes *= cold;
  struct pz_mapping o = {0};
  describe_core(&m, &b, &o);
  describe_glb(&m, &glb, &o);
  conclude(&m, &o);
  *out = o;
  return PZ_OK;
}

enum pz_status pz_map_sweep(const struct pz_product *p, const struct pz_chip *c,
                            const struct pz_sweep *sweep, double *core_s, double *hbm_s,
                            double *startup_s, struct pz_error *err) {
  enum pz_status status = check(p, err);
  if (status != PZ_OK) return status;
  struct mapper m;
  prepare(&m, p, c);
  double cold = cold_part(&m, p);
  for (size_t j = 0; j < sweep->n_glb; j++) {
    double s = choose_glb(&m, (double)sweep->glb_bytes[j], -1).s;
    if (s == DBL_MAX) return no_tile(c, err);
    hbm_s[j] = s * cold;
  }
  for (size_t i = 0; i < sweep->n_cores; i++) {
    struct best b = {.core_s = DBL_MAX, .energy_j = DBL_MAX};
    set_cores(&m, (double)sweep->cores[i]);
    find_fastest(&m, 0, &b);
    if (b.core_s == DBL_MAX) return no_tile(c, err); /* for the first count or for none */
    core_s[i] = b.core_s;
  }
  *startup_s = m.startup_s;
  return PZ_OK;
}

const char *pz_bound_name(enum pz_bound b) {
  static const char *const name[] = {"compute", "hbm", "glb", "local", "startup", "link"};
  return name[b];
}

const char *pz_dim_name(enum pz_dim d) {
  static const char *const name[] = {"m", "n", "k"};
  return name[d];
}

const char *pz_stay_name(enum pz_stay s) {
  static const char *const name[] = {"results", "weights", "inputs"};
  return name[s];
}
