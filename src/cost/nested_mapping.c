/* Search over the tiles of the global buffer that contain given core tiles.
 *
 * For each stationary operand, scan_stationary() visits the pairs of extents of its two dimensions
 * from large to small: the larger they are, the less HBM traffic.  For each pair,
 * find_fewest_rounds() chooses what is held of the third dimension and how many GEMMs of the batch
 * are in the buffer, so that the items of the tiles take few rounds.  A pair is left out if its HBM
 * traffic alone is no better than the incumbent.  Results over many spatial mappings with the same
 * core tiles are kept in a memo as lower bounds. */
#include "cost/nested_mapping.h"

#include <float.h>
#include <string.h>

#include "cost/mapping_cost.h"

/* The sizes that the tile of the global buffer may have along one dimension, ascending. */
struct extents {
  int n;
  double size[PZ_TILE_MOST_SIZES];
  double per[PZ_TILE_MOST_SIZES];   /* core tiles in a tile of the global buffer */
  double count[PZ_TILE_MOST_SIZES]; /* tiles of the global buffer that cover the dimension */
};

struct nested_search {
  const struct pz_mapspace *space;
  const int *choice;
  struct extents extent[PZ_DIMS];
  double core_tiles[PZ_DIMS]; /* core tiles that cover each dimension */
  double items;
  double least_rounds, most_rounds; /* lower bound, and more than a better mapping can have */
  double cycles, glb_s;             /* of an item, of all */
  struct pz_traffic local;
  bool least_time; /* minimise time; otherwise HBM traffic within limit_s */
  double limit_s;
  double best;   /* seconds or bytes of the incumbent */
  double enough; /* a lower bound: the search ends when it is reached */
  struct pz_nested_mapping found;
};

/* Lists the extents of one dimension: multiples of the core tile, each the smallest that reaches a
 * tile size of the list and covers the dimension with as many tiles as that size does. */
static void list_extents(const struct pz_mapspace *space, enum pz_dim d, int tile,
                         struct extents *extents) {
  const struct pz_tile_sizes *sizes = &space->core_tile[d];
  double all = sizes->count[tile], core = sizes->size[tile], before = 0;
  extents->n = 0;
  for (int i = tile; i < sizes->n; i++) {
    double per = pz_fmin(all, pz_ceil_small(sizes->size[i] / core));
    if (per == before || pz_ceil_small(all / per) != sizes->count[i]) continue;
    int at = extents->n++;
    extents->size[at] = pz_fmin(space->size[d], per * core);
    extents->count[at] = sizes->count[i];
    extents->per[at] = per;
    before = per;
  }
}

/* Returns the rounds of all tiles of the global buffer.  Along each dimension, the batch among
 * them, every tile has as many core tiles except the last one, which has the rest.  So there are at
 * most 16 kinds of tiles with different numbers of items. */
static double count_rounds(const struct nested_search *nested_search, const double per[PZ_DIMS],
                           double batch) {
  struct {
    double tiles, items; /* tiles of the kind, and items of each */
  } kind[1 << (PZ_DIMS + 1)] = {{1, 1}};
  int n = 1;
  for (int d = 0; d <= PZ_DIMS; d++) {
    double all = d < PZ_DIMS ? nested_search->core_tiles[d] : nested_search->space->batch,
           p = d < PZ_DIMS ? per[d] : batch;
    double whole = p == all ? 1 : (double)(int64_t)(all / p), rest = all - whole * p;
    for (int i = 0; i < n; i++) {
      if (rest > 0) {
        kind[n + i].tiles = kind[i].tiles;
        kind[n + i].items = kind[i].items * rest;
      }
      kind[i].tiles *= whole;
      kind[i].items *= p;
    }
    if (rest > 0) n *= 2;
  }
  double rounds = 0;
  for (int i = 0; i < n; i++)
    rounds += kind[i].tiles * pz_mapping_rounds(nested_search->space, kind[i].items);
  return rounds;
}

/* Returns whether the core tiles fit the local buffer with this stationary operand. */
static bool core_can_keep(const struct nested_search *nested_search,
                          enum pz_stationary stationary) {
  const struct pz_mapspace *space = nested_search->space;
  const int *choice = nested_search->choice;
  switch (stationary) {
  case PZ_STATIONARY_RESULTS: return choice[PZ_DIM_M] <= space->most_m_by_n[choice[PZ_DIM_N]];
  case PZ_STATIONARY_WEIGHTS: return choice[PZ_DIM_K] <= space->most_k_by_n[choice[PZ_DIM_N]];
  default: return choice[PZ_DIM_M] <= space->most_m_by_k[choice[PZ_DIM_K]];
  }
}

/* Finds the fewest rounds with a stationary operand of extents u and v, over what is held of the
 * third dimension and how many GEMMs are in the buffer.  Returns false if there are not fewer than
 * s->most_rounds.  Index -1 of the third dimension stands for cores that work in step, for which
 * only slices are held. */
static bool find_fewest_rounds(const struct nested_search *nested_search,
                               enum pz_stationary stationary, int u, int v,
                               struct pz_nested_mapping *out) {
  const struct pz_mapspace *space = nested_search->space;
  enum pz_dim first = pz_stationary_first(stationary), second = pz_stationary_second(stationary);
  enum pz_dim third = (enum pz_dim)(PZ_DIMS - first - second);
  const struct extents *depths = &nested_search->extent[third];
  double size_u = nested_search->extent[first].size[u],
         size_v = nested_search->extent[second].size[v];
  double own_bytes = pz_mapspace_bytes(space, stationary, size_u, size_v, 0);
  double depth_bytes = pz_mapspace_bytes(space, stationary, size_u, size_v, 1) - own_bytes;
  double glb_bytes = (double)space->chip->glb_bytes;
  double per[PZ_DIMS],
      tiles_uv = nested_search->extent[first].count[u] * nested_search->extent[second].count[v];
  bool can_keep = core_can_keep(nested_search, stationary), found = false;
  per[first] = nested_search->extent[first].per[u];
  per[second] = nested_search->extent[second].per[v];
  out->rounds = nested_search->most_rounds;
  for (int b = 0; b < space->n_batches; b++) {
    double batch = space->batches[b];
    if (batch * (own_bytes + space->slice * depth_bytes) > glb_bytes) continue;
    for (int i = depths->n - 1; i >= -1; i--) {
      bool in_step = i < 0;
      bool is_one_round = per[first] * per[second] * batch <= space->cores;
      if (in_step && (!can_keep || !is_one_round)) break;
      double depth = in_step ? space->slice : pz_fmax(space->slice, depths->size[i]);
      if (batch * (own_bytes + depth * depth_bytes) > glb_bytes) continue;
      double tiles = in_step ? nested_search->core_tiles[third] : depths->count[i];
      double least_rounds = tiles_uv * tiles * pz_ceil_small(space->batch / batch);
      if (least_rounds >= out->rounds) break;
      per[third] = in_step ? 1 : depths->per[i];
      double rounds = count_rounds(nested_search, per, batch);
      if (rounds >= out->rounds) continue;
      out->rounds = rounds;
      out->batch = batch;
      out->in_step = in_step;
      for (int d = 0; d < PZ_DIMS; d++) out->per[d] = per[d];
      found = true;
      if (rounds <= nested_search->least_rounds) return true;
    }
  }
  return found;
}

/* Returns the time of a mapping to the cores with so many rounds, without HBM traffic. */
static double core_s(const struct nested_search *nested_search, double rounds) {
  const struct pz_mapspace *space = nested_search->space;
  double time = pz_fmax(nested_search->glb_s, pz_mapping_compute_s(space, nested_search->choice,
                                                                   nested_search->cycles, rounds));
  if (!space->local_limited) return time;
  return pz_fmax(time, pz_local_s(space, nested_search->local, nested_search->items, rounds));
}

/* Sets most_rounds: so many rounds take longer than limit_s by their arithmetic alone. */
static void limit_rounds(struct nested_search *nested_search, double limit_s) {
  double round_s =
      nested_search->cycles * nested_search->space->cycle_s + nested_search->space->item_s;
  nested_search->most_rounds = limit_s / round_s * (1 + 1e-9) + 1;
}

/* Visits one pair of extents.  Returns false if its HBM traffic is too much, which is then so for
 * all smaller extents too. */
static bool visit_extents(struct nested_search *nested_search, enum pz_stationary stationary, int u,
                          int v) {
  const struct pz_mapspace *space = nested_search->space;
  enum pz_dim first = pz_stationary_first(stationary), second = pz_stationary_second(stationary);
  double tiles[PZ_DIMS] = {1, 1, 1};
  struct pz_nested_mapping mapping = {.stationary = stationary};
  tiles[first] = nested_search->extent[first].count[u];
  tiles[second] = nested_search->extent[second].count[v];
  struct pz_traffic hbm = pz_boundary_traffic(space, tiles, 1, space->operand_bytes);
  mapping.hbm_s = pz_hbm_s(space, hbm) * space->cold;
  mapping.hbm_bytes = (hbm.reads + hbm.writes) * space->cold;
  if (nested_search->least_time) {
    if (mapping.hbm_s >= nested_search->best) return false;
  } else if (mapping.hbm_s > nested_search->limit_s || mapping.hbm_bytes >= nested_search->best) {
    return false;
  }
  if (!find_fewest_rounds(nested_search, stationary, u, v, &mapping)) return true;
  double time = core_s(nested_search, mapping.rounds);
  bool is_better =
      nested_search->least_time ? time < nested_search->best : time <= nested_search->limit_s;
  if (!is_better) return true;
  nested_search->best =
      nested_search->least_time ? pz_fmax(time, mapping.hbm_s) : mapping.hbm_bytes;
  nested_search->found = mapping;
  if (nested_search->least_time) limit_rounds(nested_search, nested_search->best);
  return true;
}

/* Visits the pairs of extents of a stationary operand that fit the global buffer, large ones
 * first. */
static void scan_stationary(struct nested_search *nested_search, enum pz_stationary stationary) {
  const struct extents *first = &nested_search->extent[pz_stationary_first(stationary)];
  const struct extents *second = &nested_search->extent[pz_stationary_second(stationary)];
  double glb_bytes = (double)nested_search->space->chip->glb_bytes;
  int most_v = -1; /* the largest second extent that fits; it grows while the first one shrinks */
  for (int u = first->n - 1; u >= 0; u--) {
    while (most_v + 1 < second->n &&
           pz_mapspace_fits(nested_search->space, stationary, first->size[u],
                            second->size[most_v + 1], glb_bytes, false))
      most_v++;
    for (int v = most_v; v >= 0 && nested_search->best > nested_search->enough; v--)
      if (!visit_extents(nested_search, stationary, u, v)) break;
  }
}

/* Searches all stationary operands.  least_time, best and (for the least traffic) limit_s of *s are
 * set. */
static void search_nested(struct nested_search *nested_search, const struct pz_mapspace *space,
                          const struct pz_nested_work *work) {
  nested_search->space = space;
  nested_search->choice = work->choice;
  for (int d = 0; d < PZ_DIMS; d++) {
    list_extents(space, (enum pz_dim)d, work->choice[d], &nested_search->extent[d]);
    nested_search->core_tiles[d] = space->core_tile[d].count[work->choice[d]];
  }
  nested_search->items = pz_mapping_items(space, work->choice);
  nested_search->least_rounds = pz_mapping_rounds(space, nested_search->items);
  nested_search->glb_s =
      pz_traffic_s(space, pz_mapping_glb_traffic(space, work->choice), space->glb);
  nested_search->local = (struct pz_traffic){0, 0};
  if (work->spatial) {
    nested_search->cycles = pz_mapping_cycles(space, work->spatial->way, work->choice);
    nested_search->local = pz_mapping_local_traffic(space, work->spatial, work->choice);
  } else {
    nested_search->cycles =
        work->cycles > 0 ? work->cycles : pz_mapping_least_cycles(space, work->choice);
  }
  limit_rounds(nested_search,
               nested_search->least_time ? nested_search->best : nested_search->limit_s);
  nested_search->enough =
      nested_search->least_time
          ? pz_fmax(work->least_hbm_s, core_s(nested_search, nested_search->least_rounds))
          : work->least_hbm_bytes;
  for (enum pz_stationary st = 0; st < PZ_STATIONARITIES; st++) scan_stationary(nested_search, st);
}

/* ---- the memo and the two searches ----------------------------------------------------------- */

void pz_nested_memo_clear(struct pz_nested_memo *memo) { memset(memo->key, 0, sizeof memo->key); }

/* Returns the slot of core tiles in one spatial way, or with PZ_SPATIAL_WAYS in any.  *is_known is
 * set if it holds their value; otherwise the slot is reserved for them. */
static uint32_t find_memo_slot(const struct pz_mapspace *space, const int choice[PZ_DIMS], int way,
                               struct pz_nested_memo *memo, bool *is_known) {
  int tiles = choice[PZ_DIM_M] * space->core_tile[PZ_DIM_N].n + choice[PZ_DIM_N];
  tiles = tiles * space->core_tile[PZ_DIM_K].n + choice[PZ_DIM_K];
  uint32_t key = 1 + (uint32_t)(tiles * (PZ_SPATIAL_WAYS + 1) + way), slot = key % PZ_NESTED_MEMO;
  *is_known = memo->key[slot] == key;
  memo->key[slot] = key;
  return slot;
}

/* Returns the least time of a mapping to the cores; below_s if none takes less. */
static double search_fastest_s(const struct pz_mapspace *space, const struct pz_nested_work *work,
                               double below_s) {
  struct nested_search nested_search;
  nested_search.least_time = true;
  nested_search.best = below_s;
  search_nested(&nested_search, space, work);
  return nested_search.best;
}

/* Many spatial mappings share their core tiles: the time without the local buffers is a lower bound
 * for all of them. */
double pz_nested_fastest_s(const struct pz_mapspace *space, const struct pz_nested_work *work,
                           double below_s, struct pz_nested_memo *memo) {
  if (work->spatial) {
    bool is_known;
    uint32_t slot = find_memo_slot(space, work->choice, PZ_SPATIAL_WAYS, memo, &is_known);
    if (!is_known) {
      struct pz_nested_work any = *work;
      any.spatial = NULL;
      memo->least[slot] = search_fastest_s(space, &any, DBL_MAX);
    }
    if (memo->least[slot] >= below_s) return below_s;
  }
  return search_fastest_s(space, work, below_s);
}

/* Finds the tile of the global buffer with the least HBM traffic within limit_s and below_bytes;
 * returns false if there is none. */
static bool search_cheapest(const struct pz_mapspace *space, const struct pz_nested_work *work,
                            double limit_s, double below_bytes, struct pz_nested_mapping *out) {
  struct nested_search nested_search;
  nested_search.least_time = false;
  nested_search.limit_s = limit_s;
  nested_search.best = below_bytes;
  search_nested(&nested_search, space, work);
  if (nested_search.best >= below_bytes) return false;
  *out = nested_search.found;
  return true;
}

/* Returns the least HBM traffic of core tiles in one spatial way, or with PZ_SPATIAL_WAYS in any,
 * if the local buffers do not limit.  DBL_MAX if none is within limit_s. */
static double least_hbm_bytes(const struct pz_mapspace *space, const struct pz_nested_work *work,
                              int way, double limit_s, struct pz_nested_memo *memo) {
  bool is_known;
  uint32_t slot = find_memo_slot(space, work->choice, way, memo, &is_known);
  if (is_known) return memo->least[slot];
  struct pz_nested_work any = *work;
  struct pz_nested_mapping mapping;
  any.spatial = NULL;
  any.cycles = way < PZ_SPATIAL_WAYS ? pz_mapping_cycles(space, way, work->choice) : 0;
  bool found = search_cheapest(space, &any, limit_s, DBL_MAX, &mapping);
  memo->least[slot] = found ? mapping.hbm_bytes : DBL_MAX;
  return memo->least[slot];
}

/* Few mappings to the cores are within the limit, and many share their core tiles: the bounds of
 * the memo exclude most of them. */
bool pz_nested_cheapest(const struct pz_mapspace *space, const struct pz_nested_work *work,
                        struct pz_nested_limit limit, struct pz_nested_memo *memo,
                        struct pz_nested_mapping *out) {
  int way = work->spatial->way;
  if (least_hbm_bytes(space, work, PZ_SPATIAL_WAYS, limit.s, memo) >= limit.bytes) return false;
  double cycles = pz_mapping_cycles(space, way, work->choice);
  if (cycles > pz_mapping_least_cycles(space, work->choice) &&
      least_hbm_bytes(space, work, way, limit.s, memo) >= limit.bytes)
    return false;
  return search_cheapest(space, work, limit.s, limit.bytes, out);
}
