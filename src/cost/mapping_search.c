#include "cost/mapping_search.h"

#include <float.h>

#include "cost/mapping_cost.h"

/* ---- the spatial mappings that are tried, with lower bounds ------------------------------------- */

enum { MOST_SPATIAL = 128 };

struct spatial_list {
  struct pz_spatial item[MOST_SPATIAL];
  int n;
};

/* The fewest steps a dimension can take, with tiles that fit the array exactly. */
static double fewest_steps(const struct pz_mapspace *m, const struct pz_spatial *p, enum pz_dim d) {
  if (d == pz_spatial_way[p->way].rows) return pz_fmax(1, m->size[d] * m->per_row * p->per_rows);
  if (d == pz_spatial_way[p->way].cols) return pz_fmax(1, m->size[d] * m->per_col * p->per_cols);
  return 1;
}

/* Values of the operand on the array that fit a multiplier's registers. */
static double register_values(const struct pz_mapspace *m, int way) {
  double bytes = pz_spatial_way[way].streams == PZ_DIM_K ? m->sum_bytes : m->operand_bytes;
  return (double)m->chip->tensor.register_bytes / bytes;
}

/* The lower bounds, from the fewest steps. */
static void set_bounds(const struct pz_mapspace *m, struct pz_spatial *p) {
  static const double whole[PZ_DIMS] = {1, 1, 1};
  double step[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) step[d] = fewest_steps(m, p, (enum pz_dim)d);
  struct pz_traffic local = pz_local_traffic(m, step, step[PZ_DIM_K]);
  struct pz_traffic glb = pz_glb_traffic(m, whole);
  p->local_s = pz_local_bound_s(m, local.reads, local.writes);
  p->energy_j =
      (local.reads + local.writes) * m->tech->local_j + (glb.reads + glb.writes) * m->tech->glb_j;
}

/* All of them, in the order of the bounds on energy, or on the time of local traffic.  What the registers keep changes local traffic alone: all of it is used. */
static void list_spatial(const struct pz_mapspace *m, bool by_energy, struct spatial_list *list) {
  list->n = 0;
  for (int way = 0; way < PZ_SPATIAL_WAYS; way++)
    for (double r = 1, most = register_values(m, way); r <= most && list->n < MOST_SPATIAL;
         r *= 2) {
      struct pz_spatial p = {.way = way, .keep_rows = r, .keep_cols = 1};
      while (r * p.keep_cols * 2 <= most) p.keep_cols *= 2;
      p.per_rows = 1 / p.keep_rows;
      p.per_cols = 1 / p.keep_cols;
      set_bounds(m, &p);
      int at = list->n++;
      for (; at > 0; at--) {
        const struct pz_spatial *q = &list->item[at - 1];
        if (by_energy ? q->energy_j <= p.energy_j : q->local_s <= p.local_s) break;
        list->item[at] = *q;
      }
      list->item[at] = p;
    }
}

/* ---- tiles by what they cost -------------------------------------------------------------------- */

/* The tile sizes of a dimension by what they cost in a sum over dimensions, cheapest first. */
struct ranking {
  double cost[PZ_TILE_MOST_SIZES];
  int at[PZ_TILE_MOST_SIZES];
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

/* Lower bound on the time with any tile of m up to `top` and these of n and k: global traffic, and
 * arithmetic without waste but for filling the array for every item. */
static double tiles_bound(const struct pz_mapspace *m, int top, int n, int k) {
  double tiles[PZ_DIMS] = {m->tile[PZ_DIM_M].tiles[top], m->tile[PZ_DIM_N].tiles[n],
                           m->tile[PZ_DIM_K].tiles[k]};
  double items = m->batch * tiles[PZ_DIM_M] * tiles[PZ_DIM_N] * tiles[PZ_DIM_K];
  double fill_s = items * m->per_core * m->item_s;
  return pz_fmax(pz_traffic_s(m, pz_glb_traffic(m, tiles), m->glb), m->ideal_s + fill_s);
}

/* The bounds of all pairs, once: every spatial mapping asks for them. */
static void find_bounds(const struct pz_mapspace *m, struct pz_mapping_search *b) {
  for (int n = 0; n < m->tile[PZ_DIM_N].n; n++)
    for (int k = 0; k < m->tile[PZ_DIM_K].n; k++) {
      int top = pz_mapspace_most_m(m, n, k);
      b->pair[n * m->tile[PZ_DIM_K].n + k] =
          (struct pz_tile_pair){top < 0 ? DBL_MAX : tiles_bound(m, top, n, k), top};
    }
}

static struct pz_tile_pair pair_of(const struct pz_mapspace *m, const struct pz_mapping_search *b,
                                   const int at[PZ_DIMS]) {
  return b->pair[at[PZ_DIM_N] * m->tile[PZ_DIM_K].n + at[PZ_DIM_K]];
}

/* A mapping to the cores that takes s with a global buffer of any size. */
static void improve(const struct pz_mapspace *m, const int at[PZ_DIMS], const struct pz_spatial *p,
                    double s, struct pz_mapping_search *b) {
  if (s >= b->core_s) return;
  if (m->nested) {
    struct pz_nested_work w = {at, p, 0, b->least_hbm_s, b->least_hbm_bytes};
    s = pz_nested_fastest_s(m, &w, b->core_s, &b->memo);
  }
  b->core_s = s;
}

/* Where local buffers feed their arrays, the fewest cycles decide on the spatial mapping. */
static void visit_fast(const struct pz_mapspace *m, const int at[PZ_DIMS],
                       struct pz_mapping_search *b) {
  double rounds = pz_mapping_rounds(m, pz_mapping_items(m, at));
  double s = pz_fmax(pz_mapping_compute_s(m, at, pz_mapping_least_cycles(m, at), rounds),
                     pz_traffic_s(m, pz_mapping_glb_traffic(m, at), m->glb));
  improve(m, at, NULL, s, b);
}

/* Large tiles first: they are good ones, and make the bounds tight early. */
static void scan_fast(const struct pz_mapspace *m, double enough, struct pz_mapping_search *b) {
  int at[PZ_DIMS];
  for (at[PZ_DIM_K] = m->tile[PZ_DIM_K].n - 1; at[PZ_DIM_K] >= 0; at[PZ_DIM_K]--)
    for (at[PZ_DIM_N] = m->tile[PZ_DIM_N].n - 1; at[PZ_DIM_N] >= 0; at[PZ_DIM_N]--) {
      struct pz_tile_pair pair = pair_of(m, b, at);
      if (pair.bound_s >= b->core_s) continue;
      for (at[PZ_DIM_M] = pair.top; at[PZ_DIM_M] >= 0; at[PZ_DIM_M]--) {
        if (tiles_bound(m, at[PZ_DIM_M], at[PZ_DIM_N], at[PZ_DIM_K]) >= b->core_s) break;
        visit_fast(m, at, b);
        if (b->core_s <= enough) return;
      }
    }
}

/* Local reads are a sum of one part for each dimension, writes follow from k alone. */
static void split_local(const struct pz_mapspace *m, const struct pz_spatial *p,
                        struct ranking reads[PZ_DIMS], double writes[PZ_TILE_MOST_SIZES]) {
  const double of[PZ_DIMS] = {m->operand_bytes * m->weights, m->operand_bytes * m->inputs,
                              m->sum_bytes * m->results};
  for (int d = 0; d < PZ_DIMS; d++) {
    reads[d].n = 0;
    for (int i = m->tile[d].n - 1; i >= 0; i--) {
      double step = pz_spatial_steps(m, p, (enum pz_dim)d, i);
      if (d == PZ_DIM_K) writes[i] = of[d] * step;
      rank(&reads[d], of[d] * (d == PZ_DIM_K ? step - m->tile[d].tiles[i] : step), i);
    }
  }
}

static void visit_limited(const struct pz_mapspace *m, const struct pz_spatial *p,
                          const int at[PZ_DIMS], struct pz_traffic local,
                          struct pz_mapping_search *b) {
  double items = pz_mapping_items(m, at), rounds = pz_mapping_rounds(m, items);
  double s = pz_fmax(pz_mapping_compute_s(m, at, pz_mapping_cycles(m, p->way, at), rounds),
                     pz_traffic_s(m, pz_mapping_glb_traffic(m, at), m->glb));
  if (s >= b->core_s) return;
  improve(m, at, p, pz_fmax(s, pz_local_s(m, local, items, rounds)), b);
}

static void scan_limited(const struct pz_mapspace *m, const struct pz_spatial *p, double enough,
                         struct pz_mapping_search *b) {
  struct ranking r[PZ_DIMS], *rm = &r[PZ_DIM_M], *rn = &r[PZ_DIM_N], *rk = &r[PZ_DIM_K];
  double writes[PZ_TILE_MOST_SIZES];
  int at[PZ_DIMS];
  split_local(m, p, r, writes);
  if (!rm->n || !rn->n) return; /* there is always a tile size */
  for (int k = 0; k < rk->n; k++) {
    double w = writes[at[PZ_DIM_K] = rk->at[k]];
    if (pz_local_bound_s(m, rk->cost[k] + rm->cost[0] + rn->cost[0], w) >= b->core_s) continue;
    for (int n = 0; n < rn->n; n++) {
      double kn = rk->cost[k] + rn->cost[n];
      at[PZ_DIM_N] = rn->at[n];
      if (pz_local_bound_s(m, kn + rm->cost[0], w) >= b->core_s) break;
      struct pz_tile_pair pair = pair_of(m, b, at);
      if (pair.bound_s >= b->core_s) continue;
      for (int i = 0; i < rm->n; i++) {
        struct pz_traffic local = {kn + rm->cost[i], w};
        at[PZ_DIM_M] = rm->at[i];
        if (pz_local_bound_s(m, local.reads, w) >= b->core_s) break;
        if (at[PZ_DIM_M] <= pair.top) visit_limited(m, p, at, local, b);
        if (b->core_s <= enough) return;
      }
    }
  }
}

void pz_mapping_fastest(const struct pz_mapspace *m, double enough, struct pz_mapping_search *s) {
  s->core_s = s->energy_j = DBL_MAX;
  s->least_hbm_s = enough;
  s->least_hbm_bytes = 0;
  if (m->nested && m->local_limited) pz_nested_memo_clear(&s->memo);
  s->spatial = (struct pz_spatial){0};
  for (int d = 0; d < PZ_DIMS; d++) s->at[d] = 0;
  find_bounds(m, s);
  if (!m->local_limited) {
    scan_fast(m, enough, s);
    return;
  }
  struct spatial_list list;
  list_spatial(m, false, &list);
  for (int i = 0; i < list.n && list.item[i].local_s < s->core_s && s->core_s > enough; i++)
    scan_limited(m, &list.item[i], enough, s);
}

/* ---- second pass: the least energy among those no slower than core_s ------------------------- */

/* Energy is a sum of one part for each dimension, its traffic at both boundaries, and the results'
 * way out. */
static void split_energy(const struct pz_mapspace *m, const struct pz_spatial *p,
                         struct ranking joules[PZ_DIMS]) {
  const double of[PZ_DIMS] = {m->operand_bytes * m->weights, m->operand_bytes * m->inputs,
                              m->sum_bytes * m->results};
  for (int d = 0; d < PZ_DIMS; d++) {
    joules[d].n = 0;
    for (int i = m->tile[d].n - 1; i >= 0; i--) {
      double step = pz_spatial_steps(m, p, (enum pz_dim)d, i), tiles = m->tile[d].tiles[i];
      /* sums go out at each step and come back at all but the first of a tile */
      double local = d == PZ_DIM_K ? 2 * step - tiles : step;
      double glb = d == PZ_DIM_K ? 2 * (tiles - 1) : pz_shared_reads(m, tiles);
      rank(&joules[d], of[d] * (local * m->tech->local_j + glb * m->tech->glb_j), i);
    }
  }
}

static bool fast_enough(const struct pz_mapspace *m, const struct pz_spatial *p,
                        const int at[PZ_DIMS], double limit_s) {
  double items = pz_mapping_items(m, at), rounds = pz_mapping_rounds(m, items);
  if (pz_mapping_compute_s(m, at, pz_mapping_cycles(m, p->way, at), rounds) > limit_s) return false;
  if (pz_traffic_s(m, pz_mapping_glb_traffic(m, at), m->glb) > limit_s) return false;
  return !m->local_limited ||
         pz_local_s(m, pz_mapping_local_traffic(m, p, at), items, rounds) <= limit_s;
}

/* A mapping to the cores that is fast enough.  Where tiles nest, `joules` has the least of HBM and
 * what a tile of the global buffer takes comes in its place. */
static void improve_energy(const struct pz_mapspace *m, const struct pz_spatial *p,
                           const int at[PZ_DIMS], double joules, struct pz_mapping_search *b) {
  if (m->nested) {
    struct pz_nested_work w = {at, p, 0, b->least_hbm_s, b->least_hbm_bytes};
    double hbm_j = m->tech->hbm_j, rest = joules - b->least_hbm_bytes * hbm_j;
    struct pz_nested_limit limit = {b->core_s, (b->energy_j - rest) / hbm_j};
    if (!pz_nested_cheapest(m, &w, limit, &b->memo, &b->nested)) return;
    joules = rest + b->nested.hbm_bytes * hbm_j;
  }
  b->energy_j = joules;
  b->spatial = *p;
  for (int d = 0; d < PZ_DIMS; d++) b->at[d] = at[d];
}

static void scan_cheap(const struct pz_mapspace *m, const struct pz_spatial *p,
                       struct pz_mapping_search *b) {
  struct ranking r[PZ_DIMS], *rm = &r[PZ_DIM_M], *rn = &r[PZ_DIM_N], *rk = &r[PZ_DIM_K];
  double fixed =
      m->results * m->operand_bytes * m->tech->glb_j + b->least_hbm_bytes * m->tech->hbm_j;
  int at[PZ_DIMS];
  split_energy(m, p, r);
  if (!rm->n || !rn->n) return; /* there is always a tile size */
  for (int k = 0; k < rk->n; k++) {
    at[PZ_DIM_K] = rk->at[k];
    if (fixed + rk->cost[k] + rm->cost[0] + rn->cost[0] >= b->energy_j) break;
    for (int n = 0; n < rn->n; n++) {
      double kn = fixed + rk->cost[k] + rn->cost[n];
      at[PZ_DIM_N] = rn->at[n];
      if (kn + rm->cost[0] >= b->energy_j) break;
      struct pz_tile_pair pair = pair_of(m, b, at);
      if (pair.bound_s > b->core_s) continue;
      for (int i = 0; i < rm->n && kn + rm->cost[i] < b->energy_j; i++) {
        at[PZ_DIM_M] = rm->at[i];
        if (at[PZ_DIM_M] <= pair.top && fast_enough(m, p, at, b->core_s))
          improve_energy(m, p, at, kn + rm->cost[i], b);
      }
    }
  }
}

void pz_mapping_cheapest(const struct pz_mapspace *m, struct pz_mapping_search *s) {
  struct spatial_list list;
  double least_hbm_j = s->least_hbm_bytes * m->tech->hbm_j;
  list_spatial(m, true, &list);
  if (m->nested) pz_nested_memo_clear(&s->memo);
  for (int i = 0; i < list.n && list.item[i].energy_j + least_hbm_j < s->energy_j; i++)
    if (list.item[i].local_s <= s->core_s) scan_cheap(m, &list.item[i], s);
}
