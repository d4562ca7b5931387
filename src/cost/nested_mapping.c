/* Search over the tiles of the global buffer that contain given core tiles.  An item is the work of
 * one core on one core tile, and a round is one item on each core.
 *
 * For each stationary operand, scan_stationary() visits the pairs of extents of its two dimensions
 * from large to small: the larger they are, the less HBM traffic.  For each pair,
 * find_fewest_rounds() chooses what is held of the third dimension and how many GEMMs of the batch
 * are in the buffer, so that the items of the tiles take few rounds.  A pair is left out if its HBM
 * traffic alone is no better than the incumbent.  Results over many spatial mappings with the same
 * core tiles are kept in a memo as lower bounds. */
#include "cost/nested_mapping.h"

#include <float.h>

#include "cost/mapping_cost.h"

/* The sizes that the tile of the global buffer may have along one dimension, ascending. */
struct extents {
  int n;
  double size[PZ_TILE_MOST_SIZES];
  double per[PZ_TILE_MOST_SIZES];   /* core tiles in a tile of the global buffer */
  double count[PZ_TILE_MOST_SIZES]; /* tiles of the global buffer that cover the dimension */
};

/* At most t / round_s rounds are within time t; the factor covers rounding errors. */
static const double ROUNDING = 1 + 1e-9;

struct nested_search {
  const struct pz_mapspace *space;
  const int *choice; /* index of the core tile of each dimension */
  struct extents extent[PZ_DIMS];
  double core_tiles[PZ_DIMS];       /* number of core tiles that cover each dimension */
  double items;                     /* number of items in the whole GEMM */
  double least_rounds, most_rounds; /* a better mapping has at least, and below */
  double cycles;                    /* cycles of an item */
  double round_s;                   /* time of the arithmetic of a round */
  double glb_s;                     /* time of the global buffer's traffic */
  struct pz_traffic local_traffic;  /* traffic between local buffers and arrays */
  bool minimise_time;               /* minimise time, or else HBM traffic within limit_s */
  double limit_s;                   /* time limit if HBM traffic is minimised */
  double incumbent;                 /* seconds or bytes of the best mapping so far */
  double lower_bound;               /* seconds or bytes at which the search ends */
  struct pz_nested_mapping incumbent_mapping;
};

/* Lists the extents of dimension d for the core tile of index `tile`: for each size of the list the
 * smallest multiple of it that reaches the size, if it covers the dimension with as many tiles. */
static void list_extents(const struct pz_mapspace *space, enum pz_dim d, int tile,
                         struct extents *extents) {
  const struct pz_tile_sizes *sizes = &space->core_tile[d];
  double all_tiles = sizes->count[tile], core_size = sizes->size[tile], previous = 0;
  extents->n = 0;
  for (int i = tile; i < sizes->n; i++) {
    double per = pz_fmin(all_tiles, pz_ceil_small(sizes->size[i] / core_size));
    if (per == previous || pz_ceil_small(all_tiles / per) != sizes->count[i]) continue;
    int extent = extents->n++;
    extents->size[extent] = pz_fmin(space->size[d], per * core_size);
    extents->count[extent] = sizes->count[i];
    extents->per[extent] = per;
    previous = per;
  }
}

/* Returns the number of rounds in which the cores finish all tiles of the global buffer, which have
 * per[d] core tiles in dimension d and `batch` GEMMs.  Along each dimension and the batch, only the
 * last tile may have fewer core tiles.  So at most 2^4 kinds of tiles differ in items. */
static double count_rounds(const struct nested_search *search, const double per[PZ_DIMS],
                           double batch) {
  struct {
    double tiles, items; /* tiles of the kind, and items of each */
  } kind[1 << (PZ_DIMS + 1)] = {{1, 1}};
  int n = 1; /* number of kinds; each dimension splits them into whole and last tiles */
  for (int d = 0; d <= PZ_DIMS; d++) {
    bool is_batch = d == PZ_DIMS;
    double all_items = is_batch ? search->space->batch : search->core_tiles[d];
    double tile_items = is_batch ? batch : per[d];
    double whole = tile_items == all_items ? 1 : (double)(int64_t)(all_items / tile_items);
    double rest = all_items - whole * tile_items;
    for (int i = 0; i < n; i++) {
      if (rest > 0) {
        kind[n + i].tiles = kind[i].tiles;
        kind[n + i].items = kind[i].items * rest;
      }
      kind[i].tiles *= whole;
      kind[i].items *= tile_items;
    }
    if (rest > 0) n *= 2;
  }
  double rounds = 0;
  for (int i = 0; i < n; i++)
    rounds += kind[i].tiles * pz_mapping_rounds(search->space, kind[i].items);
  return rounds;
}

/* Sets *out to the tile of the global buffer whose items take the fewest rounds, with a stationary
 * operand whose extents have the indices u and v, over all extents of the third dimension and
 * numbers of GEMMs in the buffer.  Returns false if none has fewer rounds than search->most_rounds.
 * Index -1 of the third dimension: cores work in step and need only slices of it. */
static bool find_fewest_rounds(const struct nested_search *search, enum pz_stationary stationary,
                               int u, int v, struct pz_nested_mapping *out) {
  const struct pz_mapspace *space = search->space;
  enum pz_dim first = pz_stationary_dims[stationary].first;
  enum pz_dim second = pz_stationary_dims[stationary].second;
  enum pz_dim third = (enum pz_dim)(PZ_DIMS - first - second);
  const struct extents *depths = &search->extent[third];
  double size_u = search->extent[first].size[u], size_v = search->extent[second].size[v];
  double own_bytes = pz_mapspace_bytes(space, stationary, size_u, size_v, 0);
  double depth_bytes = pz_mapspace_bytes(space, stationary, size_u, size_v, 1) - own_bytes;
  double glb_bytes = (double)space->chip->glb_bytes;
  double per[PZ_DIMS], tiles_uv = search->extent[first].count[u] * search->extent[second].count[v];
  const int *choice = search->choice;
  bool found = false;
  /* Whether the core tiles fit the local buffer with this stationary operand: inputs at first. */
  bool can_keep = choice[PZ_DIM_M] <= space->most_m_by_k[choice[PZ_DIM_K]];
  if (stationary == PZ_STATIONARY_RESULTS)
    can_keep = choice[PZ_DIM_M] <= space->most_m_by_n[choice[PZ_DIM_N]];
  if (stationary == PZ_STATIONARY_WEIGHTS)
    can_keep = choice[PZ_DIM_K] <= space->most_k_by_n[choice[PZ_DIM_N]];
  per[first] = search->extent[first].per[u];
  per[second] = search->extent[second].per[v];
  out->rounds = search->most_rounds;
  for (int b = 0; b < space->n_batches; b++) {
    double batch = space->batches[b];
    if (batch * (own_bytes + space->slice * depth_bytes) > glb_bytes) continue;
    for (int i = depths->n - 1; i >= -1; i--) {
      bool in_step = i < 0;
      bool is_one_round = per[first] * per[second] * batch <= space->cores;
      if (in_step && (!can_keep || !is_one_round)) break;
      double depth = in_step ? space->slice : pz_fmax(space->slice, depths->size[i]);
      if (batch * (own_bytes + depth * depth_bytes) > glb_bytes) continue;
      double tiles = in_step ? search->core_tiles[third] : depths->count[i];
      /* Each tile takes at least one round, and smaller extents have more tiles. */
      double least_rounds = tiles_uv * tiles * pz_ceil_small(space->batch / batch);
      if (least_rounds >= out->rounds) break;
      per[third] = in_step ? 1 : depths->per[i];
      double rounds = count_rounds(search, per, batch);
      if (rounds >= out->rounds) continue;
      out->rounds = rounds;
      out->batch = batch;
      out->in_step = in_step;
      for (int d = 0; d < PZ_DIMS; d++) out->per[d] = per[d];
      found = true;
      if (rounds <= search->least_rounds) return true;
    }
  }
  return found;
}

/* Returns the longest of arithmetic, global and local traffic, if the items take this many
 * rounds. */
static double core_s(const struct nested_search *search, double rounds) {
  const struct pz_mapspace *space = search->space;
  double time =
      pz_fmax(search->glb_s, pz_mapping_compute_s(space, search->choice, search->cycles, rounds));
  if (!space->local_limited) return time;
  return pz_fmax(time, pz_local_s(space, search->local_traffic, search->items, rounds));
}

/* Evaluates the tile of the global buffer whose stationary operand has the extents of index u and
 * v, and makes it the incumbent if it is better.  Returns false if its HBM traffic is too high,
 * which then holds for all smaller extents too. */
static bool visit_extents(struct nested_search *search, enum pz_stationary stationary, int u,
                          int v) {
  const struct pz_mapspace *space = search->space;
  enum pz_dim first = pz_stationary_dims[stationary].first;
  enum pz_dim second = pz_stationary_dims[stationary].second;
  double tiles[PZ_DIMS] = {1, 1, 1};
  struct pz_nested_mapping mapping = {.stationary = stationary};
  tiles[first] = search->extent[first].count[u];
  tiles[second] = search->extent[second].count[v];
  struct pz_traffic hbm = pz_boundary_traffic(space, tiles, 1, space->operand_bytes);
  mapping.hbm_s = pz_hbm_s(space, hbm) * space->cold_part;
  mapping.hbm_bytes = (hbm.reads + hbm.writes) * space->cold_part;
  bool has_low_traffic = search->minimise_time ? mapping.hbm_s < search->incumbent
                                               : mapping.hbm_s <= search->limit_s &&
                                                     mapping.hbm_bytes < search->incumbent;
  if (!has_low_traffic) return false;
  if (!find_fewest_rounds(search, stationary, u, v, &mapping)) return true;
  double time = core_s(search, mapping.rounds);
  bool is_better = search->minimise_time ? time < search->incumbent : time <= search->limit_s;
  if (!is_better) return true;
  search->incumbent = search->minimise_time ? pz_fmax(time, mapping.hbm_s) : mapping.hbm_bytes;
  search->incumbent_mapping = mapping;
  if (search->minimise_time)
    search->most_rounds = search->incumbent / search->round_s * ROUNDING + 1;
  return true;
}

/* Evaluates the pairs of extents of a stationary operand that fit the buffer, largest first. */
static void scan_stationary(struct nested_search *search, enum pz_stationary stationary) {
  const struct extents *first = &search->extent[pz_stationary_dims[stationary].first];
  const struct extents *second = &search->extent[pz_stationary_dims[stationary].second];
  double glb_bytes = (double)search->space->chip->glb_bytes;
  int most_v = -1; /* the largest second extent that fits; it grows while the first one shrinks */
  for (int u = first->n - 1; u >= 0; u--) {
    while (most_v + 1 < second->n && pz_mapspace_fits(search->space, stationary, first->size[u],
                                                      second->size[most_v + 1], glb_bytes, false))
      most_v++;
    for (int v = most_v; v >= 0 && search->incumbent > search->lower_bound; v--)
      if (!visit_extents(search, stationary, u, v)) break;
  }
}

static const double MINIMISE_TIME = -1; /* see search_nested() */

/* Finds the best tile of the global buffer, with any stationary operand, for given core tiles.  If
 * limit_s is MINIMISE_TIME, it is the tile with which the GEMM takes the least time, and otherwise
 * the one with the fewest bytes of HBM traffic among those that take at most limit_s.  Returns
 * these seconds or bytes, and sets *out to the tile if `out` is not NULL.  If no tile has less than
 * `below`, which is in the same unit, returns `below` and leaves *out alone. */
static double search_nested(const struct pz_mapspace *space, const struct pz_nested_work *work,
                            double limit_s, double below, struct pz_nested_mapping *out) {
  struct nested_search nested_search, *search = &nested_search;
  search->space = space;
  search->minimise_time = limit_s < 0;
  search->limit_s = limit_s;
  search->incumbent = below;
  search->choice = work->choice;
  /* The numbers that do not depend on the tile of the global buffer. */
  for (int d = 0; d < PZ_DIMS; d++) {
    list_extents(space, (enum pz_dim)d, work->choice[d], &search->extent[d]);
    search->core_tiles[d] = space->core_tile[d].count[work->choice[d]];
  }
  search->items = pz_mapping_items(space, work->choice);
  search->least_rounds = pz_mapping_rounds(space, search->items);
  search->glb_s =
      pz_traffic_s(space, pz_mapping_glb_traffic(space, work->choice), space->glb_byte_s);
  search->local_traffic = (struct pz_traffic){0, 0};
  if (work->spatial) {
    search->cycles = pz_mapping_cycles(space, work->spatial->way, work->choice);
    search->local_traffic = pz_mapping_local_traffic(space, work->spatial, work->choice);
  } else {
    search->cycles = work->cycles > 0 ? work->cycles : pz_mapping_least_cycles(space, work->choice);
  }
  search->round_s = search->cycles * space->cycle_s + space->item_s;
  double most_s = search->minimise_time ? below : limit_s;
  search->most_rounds = most_s / search->round_s * ROUNDING + 1;
  search->lower_bound = search->minimise_time
                            ? pz_fmax(work->least_hbm_s, core_s(search, search->least_rounds))
                            : work->least_hbm_bytes;
  for (enum pz_stationary operand = 0; operand < PZ_STATIONARITIES; operand++)
    scan_stationary(search, operand);
  if (out && search->incumbent < below) *out = search->incumbent_mapping;
  return search->incumbent;
}

/* ---- the memo and the two searches ----------------------------------------------------------- */

/* Returns the index of the memo's entry for core tiles that are laid on the array as in
 * pz_spatial_way[way], or in any of these ways if `way` is PZ_SPATIAL_WAYS. Sets *is_known to
 * whether the entry has their bound; if not, the caller must store it. */
static uint32_t find_memo_slot(const struct pz_mapspace *space, const int choice[PZ_DIMS], int way,
                               struct pz_nested_memo *memo, bool *is_known) {
  int tiles = choice[PZ_DIM_M] * space->core_tile[PZ_DIM_N].n + choice[PZ_DIM_N];
  tiles = tiles * space->core_tile[PZ_DIM_K].n + choice[PZ_DIM_K];
  uint32_t key = 1 + (uint32_t)(tiles * (PZ_SPATIAL_WAYS + 1) + way), slot = key % PZ_NESTED_MEMO;
  *is_known = memo->key[slot] == key;
  memo->key[slot] = key;
  return slot;
}

/* Returns the least seconds of a mapping to the cores with any tile of the global buffer, or
 * below_s if none takes less.  Spatial mappings with the same core tiles share a lower bound, which
 * the memo keeps: the time with unlimited local buffers. */
double pz_nested_fastest_s(const struct pz_mapspace *space, const struct pz_nested_work *work,
                           double below_s, struct pz_nested_memo *memo) {
  if (work->spatial) {
    bool is_known;
    uint32_t slot = find_memo_slot(space, work->choice, PZ_SPATIAL_WAYS, memo, &is_known);
    if (!is_known) {
      struct pz_nested_work any = *work;
      any.spatial = NULL;
      memo->least[slot] = search_nested(space, &any, MINIMISE_TIME, DBL_MAX, NULL);
    }
    if (memo->least[slot] >= below_s) return below_s;
  }
  return search_nested(space, work, MINIMISE_TIME, below_s, NULL);
}

/* Returns a lower bound on the bytes of HBM traffic of core tiles that are laid on the array as in
 * pz_spatial_way[way], or in any of these ways if `way` is PZ_SPATIAL_WAYS: the least bytes with
 * unlimited local buffers, or DBL_MAX if no mapping takes at most limit_s.  The memo keeps it. */
static double least_hbm_bytes(const struct pz_mapspace *space, const struct pz_nested_work *work,
                              int way, double limit_s, struct pz_nested_memo *memo) {
  bool is_known;
  uint32_t slot = find_memo_slot(space, work->choice, way, memo, &is_known);
  if (is_known) return memo->least[slot];
  struct pz_nested_work any = *work;
  any.spatial = NULL;
  any.cycles = way < PZ_SPATIAL_WAYS ? pz_mapping_cycles(space, way, work->choice) : 0;
  memo->least[slot] = search_nested(space, &any, limit_s, DBL_MAX, NULL);
  return memo->least[slot];
}

/* Finds the tile of the global buffer with the least HBM traffic within the limit, and returns
 * whether there is one.  Few mappings are within it, and many share their core tiles, so the memo's
 * lower bounds, over all ways to lay the tiles on the array and for this way, exclude most. */
bool pz_nested_cheapest(const struct pz_mapspace *space, const struct pz_nested_work *work,
                        struct pz_nested_limit limit, struct pz_nested_memo *memo,
                        struct pz_nested_mapping *out) {
  int way = work->spatial->way;
  if (least_hbm_bytes(space, work, PZ_SPATIAL_WAYS, limit.s, memo) >= limit.bytes) return false;
  double cycles = pz_mapping_cycles(space, way, work->choice);
  if (cycles > pz_mapping_least_cycles(space, work->choice) &&
      least_hbm_bytes(space, work, way, limit.s, memo) >= limit.bytes)
    return false;
  return search_nested(space, work, limit.s, limit.bytes, out) < limit.bytes;
}
