#include "cost/nested_mapping.h"

#include <float.h>
#include <string.h>

#include "cost/mapping_cost.h"

/* The sizes of one dimension of the global buffer's tile, ascending. */
struct extents {
  int n;
  double size[PZ_TILE_MOST_SIZES];
  double per[PZ_TILE_MOST_SIZES];   /* core tiles in it */
  double tiles[PZ_TILE_MOST_SIZES]; /* how many cover the dimension */
};

struct scan {
  const struct pz_mapspace *m;
  const int *at;
  struct extents extent[PZ_DIMS];
  double core_tiles[PZ_DIMS]; /* core tiles that cover each dimension */
  double items, least_rounds, most_rounds;
  double cycles, glb_s;
  struct pz_traffic local;
  bool least_time; /* or least traffic within limit_s */
  double limit_s;
  double best;   /* seconds, or bytes of HBM */
  double enough; /* the least there can be */
  struct pz_nested_mapping found;
};

/* Multiples of the core tile: the smallest that reaches a size of the list and covers the dimension
 * in as many tiles as that does. */
static void find_extents(const struct pz_mapspace *m, enum pz_dim d, int tile, struct extents *e) {
  const struct pz_tile_sizes *l = &m->tile[d];
  double all = l->tiles[tile], core = l->size[tile], before = 0;
  e->n = 0;
  for (int i = tile; i < l->n; i++) {
    double per = pz_fmin(all, pz_ceil_small(l->size[i] / core));
    if (per == before || pz_ceil_small(all / per) != l->tiles[i]) continue;
    e->size[e->n] = pz_fmin(m->size[d], per * core);
    e->tiles[e->n] = l->tiles[i];
    e->per[e->n++] = before = per;
  }
}

/* Tiles of the global buffer that have equally many items. */
struct alike {
  double n, items;
};

/* Rounds of all tiles of the global buffer.  Along each dimension, the batch among them, each has
 * as many core tiles but the last, which has what is left: no more than 16 kinds. */
static double nested_rounds(const struct scan *s, const double per[PZ_DIMS], double batch) {
  struct alike kind[1 << (PZ_DIMS + 1)] = {{1, 1}};
  double sum = 0;
  for (int d = 0, n = 1; d <= PZ_DIMS; d++) {
    double all = d < PZ_DIMS ? s->core_tiles[d] : s->m->batch, p = d < PZ_DIMS ? per[d] : batch;
    double whole = p == all ? 1 : (double)(int64_t)(all / p), rest = all - whole * p;
    for (int i = 0; i < n; i++) {
      if (rest > 0) kind[n + i] = (struct alike){kind[i].n, kind[i].items * rest};
      kind[i] = (struct alike){kind[i].n * whole, kind[i].items * p};
    }
    if (rest > 0) n *= 2;
    if (d < PZ_DIMS) continue;
    for (int i = 0; i < n; i++) sum += kind[i].n * pz_mapping_rounds(s->m, kind[i].items);
  }
  return sum;
}

static bool core_keeps(const struct scan *s, enum pz_stationary stationary) {
  const struct pz_mapspace *m = s->m;
  const int *at = s->at;
  switch (stationary) {
  case PZ_STATIONARY_RESULTS: return at[PZ_DIM_M] <= m->most_m_by_n[at[PZ_DIM_N]];
  case PZ_STATIONARY_WEIGHTS: return at[PZ_DIM_K] <= m->most_k_by_n[at[PZ_DIM_N]];
  default: return at[PZ_DIM_M] <= m->most_m_by_k[at[PZ_DIM_K]];
  }
}

/* The fewest rounds with a stationary operand of extents u and v, over what is held of the third
 * dimension and how many products are at work. */
static bool fewest_rounds(const struct scan *s, enum pz_stationary stationary, int u, int v,
                          struct pz_nested_mapping *out) {
  const struct pz_mapspace *m = s->m;
  enum pz_dim first = pz_stationary_first(stationary), second = pz_stationary_second(stationary);
  enum pz_dim third = (enum pz_dim)(PZ_DIMS - first - second);
  const struct extents *t = &s->extent[third];
  double size_u = s->extent[first].size[u], size_v = s->extent[second].size[v];
  double own = pz_mapspace_bytes(m, stationary, size_u, size_v, 0);
  double streams = pz_mapspace_bytes(m, stationary, size_u, size_v, 1) - own; /* for each of t */
  double per[PZ_DIMS], others = s->extent[first].tiles[u] * s->extent[second].tiles[v];
  bool keeps = core_keeps(s, stationary), found = false;
  per[first] = s->extent[first].per[u];
  per[second] = s->extent[second].per[v];
  out->rounds = s->most_rounds;
  for (int b = 0; b < m->n_batches; b++) {
    double batch = m->batches[b], bytes = (double)m->chip->glb_bytes;
    if (batch * (own + m->slice * streams) > bytes) continue;
    for (int i = t->n - 1; i >= -1; i--) {
      bool in_step = i < 0;
      if (in_step && (!keeps || per[first] * per[second] * batch > m->cores)) break;
      double depth = in_step ? m->slice : pz_fmax(m->slice, t->size[i]);
      if (batch * (own + depth * streams) > bytes) continue;
      double tiles = in_step ? s->core_tiles[third] : t->tiles[i];
      if (others * tiles * pz_ceil_small(m->batch / batch) >= out->rounds) break; /* one each */
      per[third] = in_step ? 1 : t->per[i];
      double rounds = nested_rounds(s, per, batch);
      if (rounds >= out->rounds) continue;
      out->rounds = rounds;
      out->batch = batch;
      out->in_step = in_step;
      for (int d = 0; d < PZ_DIMS; d++) out->per[d] = per[d];
      found = true;
      if (rounds <= s->least_rounds) return true;
    }
  }
  return found;
}

static double core_s(const struct scan *s, double rounds) {
  const struct pz_mapspace *m = s->m;
  double time = pz_fmax(s->glb_s, pz_mapping_compute_s(m, s->at, s->cycles, rounds));
  return m->local_limited ? pz_fmax(time, pz_local_s(m, s->local, s->items, rounds)) : time;
}

/* So many rounds take longer than this by arithmetic alone. */
static void limit_rounds(struct scan *s, double limit_s) {
  double round_s = s->cycles * s->m->cycle_s + s->m->item_s;
  s->most_rounds = limit_s / round_s * (1 + 1e-9) + 1;
}

/* One tile of the stationary operand.  False: it moves too much, and so do all smaller ones. */
static bool visit(struct scan *s, enum pz_stationary stationary, int u, int v) {
  const struct pz_mapspace *m = s->m;
  enum pz_dim first = pz_stationary_first(stationary), second = pz_stationary_second(stationary);
  double tiles[PZ_DIMS] = {1, 1, 1};
  struct pz_nested_mapping g = {.stationary = stationary};
  tiles[first] = s->extent[first].tiles[u];
  tiles[second] = s->extent[second].tiles[v];
  struct pz_traffic hbm = pz_boundary_traffic(m, tiles, 1, m->operand_bytes);
  g.hbm_s = pz_hbm_s(m, hbm) * m->cold;
  g.hbm_bytes = (hbm.reads + hbm.writes) * m->cold;
  if (s->least_time ? g.hbm_s >= s->best : g.hbm_s > s->limit_s || g.hbm_bytes >= s->best)
    return false;
  if (!fewest_rounds(s, stationary, u, v, &g)) return true;
  double time = core_s(s, g.rounds);
  if (s->least_time ? time >= s->best : time > s->limit_s) return true;
  s->best = s->least_time ? pz_fmax(time, g.hbm_s) : g.hbm_bytes;
  s->found = g;
  if (s->least_time) limit_rounds(s, s->best);
  return true;
}

/* The smaller the one extent, the larger the other may be; the largest come first. */
static void scan_stationary(struct scan *s, enum pz_stationary stationary) {
  const struct extents *first = &s->extent[pz_stationary_first(stationary)],
                       *second = &s->extent[pz_stationary_second(stationary)];
  double bytes = (double)s->m->chip->glb_bytes;
  for (int u = first->n - 1, top = -1; u >= 0; u--) {
    while (top + 1 < second->n &&
           pz_mapspace_fits(s->m, stationary, first->size[u], second->size[top + 1], bytes, false))
      top++;
    for (int v = top; v >= 0 && s->best > s->enough; v--)
      if (!visit(s, stationary, u, v)) break;
  }
}

static void scan_all(struct scan *s, const struct pz_mapspace *m, const struct pz_nested_work *w) {
  s->m = m;
  s->at = w->at;
  for (int d = 0; d < PZ_DIMS; d++) {
    find_extents(m, (enum pz_dim)d, w->at[d], &s->extent[d]);
    s->core_tiles[d] = m->tile[d].tiles[w->at[d]];
  }
  s->items = pz_mapping_items(m, w->at);
  s->least_rounds = pz_mapping_rounds(m, s->items);
  s->glb_s = pz_traffic_s(m, pz_mapping_glb_traffic(m, w->at), m->glb);
  s->cycles = w->spatial      ? pz_mapping_cycles(m, w->spatial->way, w->at)
              : w->cycles > 0 ? w->cycles
                              : pz_mapping_least_cycles(m, w->at);
  s->local =
      w->spatial ? pz_mapping_local_traffic(m, w->spatial, w->at) : (struct pz_traffic){0, 0};
  limit_rounds(s, s->least_time ? s->best : s->limit_s);
  s->enough =
      s->least_time ? pz_fmax(w->least_hbm_s, core_s(s, s->least_rounds)) : w->least_hbm_bytes;
  for (enum pz_stationary st = 0; st < PZ_STATIONARITIES; st++) scan_stationary(s, st);
}

void pz_nested_memo_clear(struct pz_nested_memo *memo) { memset(memo->key, 0, sizeof memo->key); }

/* The place of these tiles in this way, or in any (PZ_SPATIAL_WAYS).  Known: their value is there. */
static uint32_t memo_slot(const struct pz_mapspace *m, const int at[PZ_DIMS], int way,
                          struct pz_nested_memo *memo, bool *known) {
  int tile = at[PZ_DIM_M] * m->tile[PZ_DIM_N].n + at[PZ_DIM_N];
  tile = tile * m->tile[PZ_DIM_K].n + at[PZ_DIM_K];
  uint32_t key = 1 + (uint32_t)(tile * (PZ_SPATIAL_WAYS + 1) + way), slot = key % PZ_NESTED_MEMO;
  *known = memo->key[slot] == key;
  memo->key[slot] = key;
  return slot;
}

static double fastest_s(const struct pz_mapspace *m, const struct pz_nested_work *w,
                        double below_s) {
  struct scan s;
  s.least_time = true;
  s.best = below_s;
  scan_all(&s, m, w);
  return s.best;
}

double pz_nested_fastest_s(const struct pz_mapspace *m, const struct pz_nested_work *w,
                           double below_s, struct pz_nested_memo *memo) {
  if (w->spatial) { /* of many with the same tiles */
    struct pz_nested_work any = *w;
    bool known;
    uint32_t slot = memo_slot(m, w->at, PZ_SPATIAL_WAYS, memo, &known);
    any.spatial = NULL;
    if (!known) memo->least[slot] = fastest_s(m, &any, DBL_MAX);
    if (memo->least[slot] >= below_s) return below_s;
  }
  return fastest_s(m, w, below_s);
}

static bool cheapest(const struct pz_mapspace *m, const struct pz_nested_work *w, double limit_s,
                     double below_bytes, struct pz_nested_mapping *out) {
  struct scan s;
  s.least_time = false;
  s.limit_s = limit_s;
  s.best = below_bytes;
  scan_all(&s, m, w);
  if (s.best >= below_bytes) return false;
  *out = s.found;
  return true;
}

/* The least bytes of these tiles in this way, or in any (PZ_SPATIAL_WAYS), where local buffers do
 * not limit; DBL_MAX where none is fast enough. */
static double least_bytes(const struct pz_mapspace *m, const struct pz_nested_work *w, int way,
                          double limit_s, struct pz_nested_memo *memo) {
  bool known;
  uint32_t slot = memo_slot(m, w->at, way, memo, &known);
  if (known) return memo->least[slot];
  struct pz_nested_work any = *w;
  struct pz_nested_mapping g = {.hbm_bytes = DBL_MAX};
  any.spatial = NULL;
  any.cycles = way < PZ_SPATIAL_WAYS ? pz_mapping_cycles(m, way, w->at) : 0;
  if (!cheapest(m, &any, limit_s, DBL_MAX, &g)) g.hbm_bytes = DBL_MAX;
  return memo->least[slot] = g.hbm_bytes;
}

/* Few mappings to the cores pass, and many spatial mappings share their tiles: most are refused by
 * what is known of those. */
bool pz_nested_cheapest(const struct pz_mapspace *m, const struct pz_nested_work *w,
                        struct pz_nested_limit limit, struct pz_nested_memo *memo,
                        struct pz_nested_mapping *out) {
  if (least_bytes(m, w, PZ_SPATIAL_WAYS, limit.s, memo) >= limit.bytes) return false;
  if (pz_mapping_cycles(m, w->spatial->way, w->at) > pz_mapping_least_cycles(m, w->at) &&
      least_bytes(m, w, w->spatial->way, limit.s, memo) >= limit.bytes)
    return false;
  return cheapest(m, w, limit.s, limit.bytes, out);
}
