/* Exact search for the best mapping by bounded enumeration.
 *
 * pz_find_mapping() searches in two passes.  The first one finds the least time:
 * find_best_glb_tile() that of HBM traffic, and find_fastest() that of arithmetic, local and global
 * traffic, each over its own choices, because in the relaxation they are independent; with nested
 * mappings find_fastest() includes HBM traffic.  The second pass, scan_cheapest(), finds the least
 * energy among the mappings that are no slower.  Both enumerate core tiles for each spatial
 * mapping, and cut the enumeration by lower bounds on time or energy, in an order that makes the
 * bounds effective: tiles are ranked by their share of a sum over dimensions, so that a loop ends
 * at the first tile whose bound is not below the incumbent. */
#include "cost/mapper.h"

#include <float.h>
#include <string.h>

#include "core/num.h"
#include "cost/mapping_cost.h"
#include "cost/nested_mapping.h"

/* A pair of core tiles of n and k. */
struct tile_pair {
  double bound_s; /* lower bound on the time of a mapping with this pair */
  int most_m;     /* index of the largest tile of m that fits with the pair, or -1 if none fits */
};

/* The state of both passes of the search. */
struct search {
  double core_s;       /* time of the incumbent in the first pass, time limit in the second */
  double energy_j;     /* energy of the incumbent of the second pass */
  int choice[PZ_DIMS]; /* index of the incumbent's core tile in each dimension */
  struct pz_spatial spatial;
  /* The next three are set if mappings are nested (rules.nested_mapping, see mapper.h). */
  struct pz_nested_mapping nested;     /* incumbent's tile in the global buffer */
  double least_hbm_s, least_hbm_bytes; /* lower bounds on HBM traffic */
  struct pz_nested_memo memo;          /* lower bounds that were computed before */
  struct tile_pair pair[PZ_TILE_MOST_SIZES * PZ_TILE_MOST_SIZES]; /* by index of n and k */
};

/* ---- the tile in the global buffer ----------------------------------------------------------- */

/* A tile of the relaxation in the global buffer, with the whole third dimension. */
struct glb_tile {
  double hbm_bytes, hbm_s; /* HBM traffic with this tile, or DBL_MAX if no tile fits */
  int first, second;       /* indices of the sizes of the stationary operand's two dimensions */
  enum pz_stationary stationary;
};

static const double MINIMISE_TIME = -1; /* see find_best_glb_tile() */

/* Finds the tile in a global buffer of glb_bytes with the fewest bytes of HBM traffic within
 * limit_s, or with the least HBM time if limit_s is MINIMISE_TIME. Each size of one dimension of
 * the stationary operand is tried with the largest of the other that fits, which causes the least
 * traffic. */
static struct glb_tile find_best_glb_tile(const struct pz_mapspace *space, double glb_bytes,
                                          double limit_s) {
  struct glb_tile best = {.hbm_bytes = DBL_MAX, .hbm_s = DBL_MAX};
  for (enum pz_stationary stationary = 0; stationary < PZ_STATIONARITIES; stationary++) {
    enum pz_dim first = pz_stationary_dims[stationary].first;
    enum pz_dim second = pz_stationary_dims[stationary].second;
    const struct pz_tile_sizes *first_sizes = &space->glb_tile[first],
                               *second_sizes = &space->glb_tile[second];
    int j = second_sizes->n - 1; /* the largest second size that fits; it shrinks as i grows */
    for (int i = 0; i < first_sizes->n; i++) {
      while (j >= 0 && !pz_mapspace_fits(space, stationary, first_sizes->size[i],
                                         second_sizes->size[j], glb_bytes, false))
        j--;
      if (j < 0) break;
      double tiles[PZ_DIMS] = {1, 1, 1};
      tiles[first] = first_sizes->count[i];
      tiles[second] = second_sizes->count[j];
      struct pz_traffic hbm = pz_boundary_traffic(space, tiles, 1, space->operand_bytes);
      struct glb_tile tile = {hbm.reads + hbm.writes, pz_hbm_s(space, hbm), i, j, stationary};
      bool is_faster = tile.hbm_s < best.hbm_s;
      bool is_cheaper = tile.hbm_s <= limit_s && tile.hbm_bytes < best.hbm_bytes;
      bool is_better = limit_s < 0 ? is_faster : is_cheaper;
      if (is_better) best = tile;
    }
  }
  return best;
}

/* ---- spatial mappings ------------------------------------------------------------------------ */

enum { MOST_SPATIAL = 128 };

struct spatial_list {
  struct pz_spatial item[MOST_SPATIAL];
  int n;
};

/* Lists the spatial mappings: which GEMM dimensions lie along the rows and columns of the array,
 * and how many values each multiplier keeps in registers along both.  They are sorted by lower
 * bounds on their energy (by_energy) or on the time of their local traffic.  The bounds hold with
 * any core tiles: they assume one tile for the traffic of the global buffer, and for that of the
 * local buffers the fewest steps of each dimension, those of tiles that fill the array exactly.
 * The registers always keep as many values as they can, which is free. */
static void list_spatial(const struct pz_mapspace *space, bool by_energy,
                         struct spatial_list *list) {
  static const double one_tile[PZ_DIMS] = {1, 1, 1}; /* tiles of each dimension: least traffic */
  const struct pz_traffic glb = pz_glb_traffic(space, one_tile);
  list->n = 0;
  for (int way = 0; way < PZ_SPATIAL_WAYS; way++) {
    /* The dimension that lies along neither side of the array streams by.  If that is k, the
     * registers of the multipliers keep partial sums, otherwise values of an operand. */
    bool sums_stay = pz_spatial_way[way].streams == PZ_DIM_K;
    double most_values = (double)space->chip->tensor.register_bytes /
                         (sums_stay ? space->sum_bytes : space->operand_bytes);
    for (double rows = 1; rows <= most_values && list->n < MOST_SPATIAL; rows *= 2) {
      struct pz_spatial spatial = {.way = way, .keep_rows = rows, .keep_cols = 1};
      while (rows * spatial.keep_cols * 2 <= most_values) spatial.keep_cols *= 2;
      spatial.per_keep_rows = 1 / spatial.keep_rows;
      spatial.per_keep_cols = 1 / spatial.keep_cols;
      double step[PZ_DIMS] = {1, 1, 1}; /* the fewest steps of the array in each dimension */
      enum pz_dim along_rows = pz_spatial_way[way].rows, along_cols = pz_spatial_way[way].cols;
      step[along_rows] =
          pz_fmax(1, space->size[along_rows] * space->per_row * spatial.per_keep_rows);
      step[along_cols] =
          pz_fmax(1, space->size[along_cols] * space->per_col * spatial.per_keep_cols);
      struct pz_traffic local = pz_boundary_traffic(space, step, step[PZ_DIM_K], space->sum_bytes);
      spatial.local_s = pz_traffic_s(space, local, space->least_byte_s);
      spatial.energy_j = (local.reads + local.writes) * space->tech->local_j +
                         (glb.reads + glb.writes) * space->tech->glb_j;
      int position = list->n++; /* insertion sort */
      for (; position > 0; position--) {
        const struct pz_spatial *previous = &list->item[position - 1];
        bool in_order = by_energy ? previous->energy_j <= spatial.energy_j
                                  : previous->local_s <= spatial.local_s;
        if (in_order) break;
        list->item[position] = *previous;
      }
      list->item[position] = spatial;
    }
  }
}

/* The tile sizes of a dimension, ascending by their share of a sum such as traffic or energy. */
struct ranking {
  double cost[PZ_TILE_MOST_SIZES]; /* share of the sum, in bytes or J */
  int tile[PZ_TILE_MOST_SIZES];    /* index of the tile size */
  int n;
};

/* Inserts the tile of index `tile` into a ranking by its cost, after tiles of the same cost. */
static void rank_tile(struct ranking *ranking, double cost, int tile) {
  int i = ranking->n++;
  for (; i > 0 && ranking->cost[i - 1] > cost; i--) {
    ranking->cost[i] = ranking->cost[i - 1];
    ranking->tile[i] = ranking->tile[i - 1];
  }
  ranking->cost[i] = cost;
  ranking->tile[i] = tile;
}

/* ---- the fastest mapping: arithmetic, local and global traffic ------------------------------- */

/* Returns a lower bound on the seconds with the core tiles of index n and k and any tile of m up to
 * index most_m: the time of global traffic, or of arithmetic at the peak rate plus filling the
 * array for each item. */
static double tiles_bound_s(const struct pz_mapspace *space, int most_m, int n, int k) {
  double tiles[PZ_DIMS] = {space->core_tile[PZ_DIM_M].count[most_m],
                           space->core_tile[PZ_DIM_N].count[n],
                           space->core_tile[PZ_DIM_K].count[k]};
  double items = space->batch * tiles[PZ_DIM_M] * tiles[PZ_DIM_N] * tiles[PZ_DIM_K];
  double fill_s = items * space->per_core * space->item_s;
  double glb_s = pz_traffic_s(space, pz_glb_traffic(space, tiles), space->glb_byte_s);
  return pz_fmax(glb_s, space->ideal_s + fill_s);
}

/* Lowers search->core_s, the time of the incumbent, to the time of a mapping if that is less.
 * `core_s` is that time without HBM traffic, which is included if mappings are nested. `spatial` is
 * NULL if the local buffers have no rate limit. */
static void update_fastest(const struct pz_mapspace *space, const int choice[PZ_DIMS],
                           const struct pz_spatial *spatial, double core_s, struct search *search) {
  if (core_s >= search->core_s) return;
  if (space->nested) {
    double cycles = 0; /* the fewest, if `spatial` is NULL */
    struct pz_nested_work work = {choice, spatial, cycles, search->least_hbm_s,
                                  search->least_hbm_bytes};
    core_s = pz_nested_fastest_s(space, &work, search->core_s, &search->memo);
  }
  search->core_s = core_s;
}

/* Lowers search->core_s to the least time over all core tiles, on a chip whose local buffers have
 * no rate limit, so that the spatial mapping with the fewest cycles is the best.  Large tiles come
 * first, because they are usually fast.  The search ends when search->core_s is at most bound_s. */
static void scan_unlimited(const struct pz_mapspace *space, double bound_s, struct search *search) {
  int choice[PZ_DIMS];
  for (int k = space->core_tile[PZ_DIM_K].n - 1; k >= 0; k--)
    for (int n = space->core_tile[PZ_DIM_N].n - 1; n >= 0; n--) {
      struct tile_pair pair = search->pair[n * space->core_tile[PZ_DIM_K].n + k];
      choice[PZ_DIM_K] = k;
      choice[PZ_DIM_N] = n;
      if (pair.bound_s >= search->core_s) continue;
      for (int m = pair.most_m; m >= 0; m--) {
        /* The bound grows as m shrinks, so smaller tiles of m are excluded too. */
        if (tiles_bound_s(space, m, n, k) >= search->core_s) break;
        choice[PZ_DIM_M] = m;
        double rounds = pz_mapping_rounds(space, pz_mapping_items(space, choice));
        double cycles = pz_mapping_least_cycles(space, choice);
        double compute_s = pz_mapping_compute_s(space, choice, cycles, rounds);
        double glb_s =
            pz_traffic_s(space, pz_mapping_glb_traffic(space, choice), space->glb_byte_s);
        update_fastest(space, choice, NULL, pz_fmax(compute_s, glb_s), search);
        if (search->core_s <= bound_s) return;
      }
    }
}

/* Evaluates one mapping on a chip whose local buffers have a rate limit, and makes its time the
 * incumbent's if it is less.  `local` is its traffic between local buffers and arrays. */
static void visit_limited(const struct pz_mapspace *space, const struct pz_spatial *spatial,
                          const int choice[PZ_DIMS], struct pz_traffic local,
                          struct search *search) {
  double items = pz_mapping_items(space, choice), rounds = pz_mapping_rounds(space, items);
  double cycles = pz_mapping_cycles(space, spatial->way, choice);
  double core_s =
      pz_fmax(pz_mapping_compute_s(space, choice, cycles, rounds),
              pz_traffic_s(space, pz_mapping_glb_traffic(space, choice), space->glb_byte_s));
  if (core_s >= search->core_s) return;
  core_s = pz_fmax(core_s, pz_local_s(space, local, items, rounds));
  update_fastest(space, choice, spatial, core_s, search);
}

/* Lowers search->core_s to the least time over all core tiles with one spatial mapping, if local
 * buffers have a rate limit.  Local reads are a sum of one part for each of m, n and k, which
 * depends only on the tile of that dimension and by which its tiles are ranked; local writes depend
 * only on the tile of k.  The search ends when search->core_s is at most bound_s. */
static void scan_limited(const struct pz_mapspace *space, const struct pz_spatial *spatial,
                         double bound_s, struct search *search) {
  struct ranking reads[PZ_DIMS];
  const struct ranking *by_m = &reads[PZ_DIM_M], *by_n = &reads[PZ_DIM_N], *by_k = &reads[PZ_DIM_K];
  double all_writes[PZ_TILE_MOST_SIZES]; /* bytes of local writes by the tile of k */
  int choice[PZ_DIMS], n_k = space->core_tile[PZ_DIM_K].n;
  /* The bytes that one step along each dimension reads: the operand without that dimension. */
  const double bytes[PZ_DIMS] = {space->operand_bytes * space->weights,
                                 space->operand_bytes * space->inputs,
                                 space->sum_bytes * space->results};
  for (int d = 0; d < PZ_DIMS; d++) {
    reads[d].n = 0;
    for (int i = space->core_tile[d].n - 1; i >= 0; i--) {
      double step = pz_spatial_steps(space, spatial, (enum pz_dim)d, i);
      if (d == PZ_DIM_K) all_writes[i] = bytes[d] * step;
      /* The first step of each tile of k begins new sums, which are not read. */
      double read_steps = d == PZ_DIM_K ? step - space->core_tile[d].count[i] : step;
      rank_tile(&reads[d], bytes[d] * read_steps, i);
    }
  }
  if (!by_m->n || !by_n->n) return; /* cannot happen: each dimension has a tile size */
  for (int k = 0; k < by_k->n; k++) {
    choice[PZ_DIM_K] = by_k->tile[k];
    double writes = all_writes[choice[PZ_DIM_K]];
    /* The fewest reads with this tile of k; index 0 has the fewest of a dimension. */
    struct pz_traffic least = {by_k->cost[k] + by_m->cost[0] + by_n->cost[0], writes};
    if (pz_traffic_s(space, least, space->least_byte_s) >= search->core_s) continue;
    for (int n = 0; n < by_n->n; n++) {
      double reads_kn = by_k->cost[k] + by_n->cost[n];
      choice[PZ_DIM_N] = by_n->tile[n];
      least.reads = reads_kn + by_m->cost[0];
      if (pz_traffic_s(space, least, space->least_byte_s) >= search->core_s) break;
      struct tile_pair pair = search->pair[choice[PZ_DIM_N] * n_k + choice[PZ_DIM_K]];
      if (pair.bound_s >= search->core_s) continue;
      for (int i = 0; i < by_m->n; i++) {
        struct pz_traffic local = {reads_kn + by_m->cost[i], writes};
        choice[PZ_DIM_M] = by_m->tile[i];
        if (pz_traffic_s(space, local, space->least_byte_s) >= search->core_s) break;
        if (choice[PZ_DIM_M] <= pair.most_m) visit_limited(space, spatial, choice, local, search);
        if (search->core_s <= bound_s) return;
      }
    }
  }
}

/* Sets search->core_s to the least time of arithmetic, local and global traffic over all mappings,
 * or to DBL_MAX if no tile fits.  If mappings are nested, the time includes HBM traffic.  The
 * search ends at least_hbm_s, the least time of HBM traffic: less on the cores gains nothing. */
static void find_fastest(const struct pz_mapspace *space, double least_hbm_s,
                         struct search *search) {
  search->core_s = search->energy_j = DBL_MAX;
  search->least_hbm_s = least_hbm_s;
  search->least_hbm_bytes = 0;
  if (space->nested && space->local_limited) memset(search->memo.key, 0, sizeof search->memo.key);
  search->spatial = (struct pz_spatial){0};
  for (int d = 0; d < PZ_DIMS; d++) search->choice[d] = 0;
  /* The bounds of all pairs of tiles of n and k hold for every spatial mapping. */
  int n_k = space->core_tile[PZ_DIM_K].n;
  for (int n = 0; n < space->core_tile[PZ_DIM_N].n; n++)
    for (int k = 0; k < n_k; k++) {
      /* The largest tile of m that fits a local buffer with any operand stationary; all smaller
       * ones fit too. Weights do not have dimension m, so that every tile of m fits with them. */
      int most_m = space->most_m_by_n[n];
      if (space->most_m_by_k[k] > most_m) most_m = space->most_m_by_k[k];
      if (k <= space->most_k_by_n[n]) most_m = space->core_tile[PZ_DIM_M].n - 1;
      double bound_s = most_m < 0 ? DBL_MAX : tiles_bound_s(space, most_m, n, k);
      search->pair[n * n_k + k] = (struct tile_pair){bound_s, most_m};
    }
  if (!space->local_limited) {
    scan_unlimited(space, least_hbm_s, search);
    return;
  }
  struct spatial_list list;
  const bool by_energy = false; /* by their lower bound on local time */
  list_spatial(space, by_energy, &list);
  for (int i = 0; i < list.n; i++) {
    if (list.item[i].local_s >= search->core_s || search->core_s <= least_hbm_s) break;
    scan_limited(space, &list.item[i], least_hbm_s, search);
  }
}

/* ---- the cheapest mapping: the least energy among those no slower than search->core_s -------- */

/* Makes a mapping the incumbent of the second pass if it takes at most search->core_s.  Its energy
 * `joules` is below that of the incumbent, but if mappings are nested, it contains only a lower
 * bound on HBM traffic, and must still be lower with that of the best tile. */
static void visit_cheapest(const struct pz_mapspace *space, const struct pz_spatial *spatial,
                           const int choice[PZ_DIMS], double joules, struct search *search) {
  double items = pz_mapping_items(space, choice), rounds = pz_mapping_rounds(space, items);
  double cycles = pz_mapping_cycles(space, spatial->way, choice), limit_s = search->core_s;
  if (pz_mapping_compute_s(space, choice, cycles, rounds) > limit_s) return;
  struct pz_traffic glb = pz_mapping_glb_traffic(space, choice);
  if (pz_traffic_s(space, glb, space->glb_byte_s) > limit_s) return;
  if (space->local_limited) {
    struct pz_traffic local = pz_mapping_local_traffic(space, spatial, choice);
    if (!(pz_local_s(space, local, items, rounds) <= limit_s)) return;
  }
  if (space->nested) {
    struct pz_nested_work work = {.choice = choice,
                                  .spatial = spatial,
                                  .least_hbm_s = search->least_hbm_s,
                                  .least_hbm_bytes = search->least_hbm_bytes};
    double hbm_j = space->tech->hbm_j, buffers_j = joules - search->least_hbm_bytes * hbm_j;
    /* With this many bytes of HBM traffic, the mapping would cost as much as the incumbent. */
    double limit_bytes = (search->energy_j - buffers_j) / hbm_j;
    struct pz_nested_limit limit = {limit_s, limit_bytes};
    if (!pz_nested_cheapest(space, &work, limit, &search->memo, &search->nested)) return;
    joules = buffers_j + search->nested.hbm_bytes * hbm_j;
  }
  search->energy_j = joules;
  search->spatial = *spatial;
  for (int d = 0; d < PZ_DIMS; d++) search->choice[d] = choice[d];
}

/* Searches the core tiles of one spatial mapping for those with less energy than the incumbent that
 * take at most search->core_s (branch and bound).  The energy of traffic is the sum of fixed_j,
 * which all mappings have (results that are written, and the least HBM traffic), and of one part
 * for m, n and k each, which depends only on the tile of that dimension and ranks its tiles. */
static void scan_cheapest(const struct pz_mapspace *space, const struct pz_spatial *spatial,
                          struct search *search) {
  struct ranking joules[PZ_DIMS];
  const struct ranking *by_m = &joules[PZ_DIM_M], *by_n = &joules[PZ_DIM_N],
                       *by_k = &joules[PZ_DIM_K];
  double fixed_j = space->results * space->operand_bytes * space->tech->glb_j +
                   search->least_hbm_bytes * space->tech->hbm_j;
  int choice[PZ_DIMS], n_k = space->core_tile[PZ_DIM_K].n;
  /* The bytes that one step along each dimension moves: the operand without that dimension. */
  const double bytes[PZ_DIMS] = {space->operand_bytes * space->weights,
                                 space->operand_bytes * space->inputs,
                                 space->sum_bytes * space->results};
  /* Rank the tiles of each dimension by the energy of moving these bytes in all of its steps. */
  for (int d = 0; d < PZ_DIMS; d++) {
    joules[d].n = 0;
    for (int i = space->core_tile[d].n - 1; i >= 0; i--) {
      double step = pz_spatial_steps(space, spatial, (enum pz_dim)d, i);
      double tiles = space->core_tile[d].count[i];
      /* Along k, partial sums are moved.  The array writes them at each step and reads them at all
       * but the first of a tile; the global buffer gets and returns them between tiles. */
      double local_moves = d == PZ_DIM_K ? 2 * step - tiles : step;
      double glb_moves = d == PZ_DIM_K ? 2 * (tiles - 1) : pz_shared_reads(space, tiles);
      double byte_j = local_moves * space->tech->local_j + glb_moves * space->tech->glb_j;
      rank_tile(&joules[d], bytes[d] * byte_j, i);
    }
  }
  if (!by_m->n || !by_n->n) return; /* cannot happen: each dimension has a tile size */
  /* Combine the ranked tiles.  Index 0 of a ranking has the least energy. */
  for (int k = 0; k < by_k->n; k++) {
    choice[PZ_DIM_K] = by_k->tile[k];
    if (fixed_j + by_k->cost[k] + by_m->cost[0] + by_n->cost[0] >= search->energy_j) break;
    for (int n = 0; n < by_n->n; n++) {
      double joules_kn = fixed_j + by_k->cost[k] + by_n->cost[n];
      choice[PZ_DIM_N] = by_n->tile[n];
      if (joules_kn + by_m->cost[0] >= search->energy_j) break;
      struct tile_pair pair = search->pair[choice[PZ_DIM_N] * n_k + choice[PZ_DIM_K]];
      if (pair.bound_s > search->core_s) continue; /* too slow with any tile of m */
      for (int i = 0; i < by_m->n && joules_kn + by_m->cost[i] < search->energy_j; i++) {
        choice[PZ_DIM_M] = by_m->tile[i];
        bool fits = choice[PZ_DIM_M] <= pair.most_m;
        if (fits) visit_cheapest(space, spatial, choice, joules_kn + by_m->cost[i], search);
      }
    }
  }
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Initialises the mapspace of a GEMM.  Raises an error unless its sizes can be computed with: the
 * values of an operand are exact in doubles (2^53), and the number of tiles, which is at most that
 * of multiply-accumulates, fits into an int64_t.  2^62 multiply-accumulates are the 2^63 FLOP that
 * a graph can count. */
static void init_space(struct pz_call *call, const struct pz_product *product,
                       const struct pz_chip *chip, struct pz_mapspace *space) {
  static const double MOST_VALUES = 0x1p53, MOST_MACS = 0x1p62;
  const int64_t sizes[] = {product->batch, product->m, product->n, product->k};
  static const char *const names[] = {"batch", "m", "n", "k"};
  for (int i = 0; i < 4; i++)
    if (sizes[i] < 1 || sizes[i] > 1LL << 40)
      pz_raise(call, PZ_BAD_INPUT, "product: %s is %lld; accepted: 1 to 2^40", names[i],
               (long long)sizes[i]);
  double batch = (double)product->batch, m = (double)product->m, n = (double)product->n,
         k = (double)product->k;
  double values = batch * pz_fmax(m * n, pz_fmax(m * k, n * k)), macs = batch * m * n * k;
  if (values > MOST_VALUES)
    pz_raise(call, PZ_BAD_INPUT,
             "product: an operand has %.4g values; accepted: at most 2^53 (%.4g)", values,
             MOST_VALUES);
  if (macs > MOST_MACS)
    pz_raise(call, PZ_BAD_INPUT, "product: %.4g multiplications; accepted: at most 2^62 (%.4g)",
             macs, MOST_MACS);
  pz_mapspace_init(space, product, chip);
  double all_bytes = space->operand_bytes * (space->inputs + space->weights + space->results);
  if (product->warm) space->cold_part = pz_cold_part(chip, all_bytes);
}

/* Raises an error that says that the buffers of a chip are too small for every tile. */
static _Noreturn void raise_no_tile(struct pz_call *call, const struct pz_chip *chip) {
  pz_raise(call, PZ_BAD_INPUT,
           "chip %s: no tile fits its buffers of %lld bytes in a core and %lld in all; "
           "accepted: at least %lld and %lld",
           chip->name, (long long)chip->tensor.local_bytes, (long long)chip->glb_bytes,
           (long long)pz_chip_least_local_bytes(chip), (long long)pz_chip_least_glb_bytes(chip));
}

/* Returns the part of the data of a repeated call that is read from HBM.  It grows linearly from 0
 * at warm_from_bytes to 1 at warm_to_bytes. */
double pz_cold_part(const struct pz_chip *chip, double bytes) {
  double warm_bytes = chip->calibration.warm_from_bytes;
  double cold_bytes = chip->calibration.warm_to_bytes;
  if (bytes <= warm_bytes) return 0;
  return bytes >= cold_bytes ? 1 : (bytes - warm_bytes) / (cold_bytes - warm_bytes);
}

/* Copies the incumbent of the search to *out: tiles, spatial mapping, traffic, and the time of each
 * resource.  Does not set latency, energy and bottleneck (conclude() does), nor in the relaxation
 * the tile of the global buffer and its HBM traffic. */
static void describe_mapping(const struct pz_mapspace *space, const struct search *search,
                             struct pz_mapping *out) {
  const struct pz_spatial *spatial = &search->spatial;
  const int *choice = search->choice;
  struct pz_traffic local = pz_mapping_local_traffic(space, spatial, choice);
  struct pz_traffic glb = pz_mapping_glb_traffic(space, choice);
  double items = pz_mapping_items(space, choice);
  double rounds = space->nested ? search->nested.rounds : pz_mapping_rounds(space, items);
  for (int d = 0; d < PZ_DIMS; d++) out->tile[d] = (int64_t)space->core_tile[d].size[choice[d]];
  out->items = (int64_t)items;
  out->rounds = (int64_t)rounds;
  out->along_rows = pz_spatial_way[spatial->way].rows;
  out->along_cols = pz_spatial_way[spatial->way].cols;
  out->keep_rows = (int64_t)spatial->keep_rows;
  out->keep_cols = (int64_t)spatial->keep_cols;
  /* The stationary operand of a core is the first of results, weights and inputs that fits. */
  int n = choice[PZ_DIM_N];
  bool weights_fit = choice[PZ_DIM_K] <= space->most_k_by_n[n];
  out->local_stationary = weights_fit ? PZ_STATIONARY_WEIGHTS : PZ_STATIONARY_INPUTS;
  if (choice[PZ_DIM_M] <= space->most_m_by_n[n]) out->local_stationary = PZ_STATIONARY_RESULTS;
  if (space->nested && search->nested.in_step) out->local_stationary = search->nested.stationary;
  double cycles = pz_mapping_cycles(space, spatial->way, choice);
  out->compute_s = pz_mapping_compute_s(space, choice, cycles, rounds);
  out->local_s = pz_local_s(space, local, items, rounds);
  out->local_bytes = local.reads + local.writes;
  out->glb_bytes = glb.reads + glb.writes;
  out->glb_s = pz_traffic_s(space, glb, space->glb_byte_s);
  if (!space->nested) return;
  const struct pz_nested_mapping *nested = &search->nested;
  for (int d = 0; d < PZ_DIMS; d++) {
    double size = nested->per[d] * space->core_tile[d].size[choice[d]];
    bool is_third = d != (int)pz_stationary_dims[nested->stationary].first &&
                    d != (int)pz_stationary_dims[nested->stationary].second;
    /* Cores that work in step need only a slice of the third dimension. */
    if (nested->in_step && is_third) size = pz_fmin(size, space->slice);
    out->glb_tile[d] = (int64_t)pz_fmin(space->size[d], size);
  }
  out->glb_stationary = nested->stationary;
  out->glb_batch = (int64_t)nested->batch;
  out->hbm_bytes = nested->hbm_bytes;
  out->hbm_s = nested->hbm_s;
}

/* Sets latency, energy, utilisation and bottleneck of a mapping from its times and traffic.  The
 * bottleneck is the resource with the longest time, or the start-up if that is longer than all. */
static void conclude(const struct pz_mapspace *space, struct pz_mapping *out) {
  double longest_s =
      pz_fmax(pz_fmax(out->compute_s, out->hbm_s), pz_fmax(out->glb_s, out->local_s));
  out->startup_s = space->startup_s;
  out->latency_s = space->startup_s + longest_s;
  out->energy_j = space->macs * space->tech->mac_j + out->local_bytes * space->tech->local_j +
                  out->glb_bytes * space->tech->glb_j + out->hbm_bytes * space->tech->hbm_j;
  out->utilisation = 2 * space->macs / (pz_chip_tensor_flop_per_s(space->chip) * out->latency_s);
  if (out->startup_s > longest_s)
    out->bound = PZ_BOUND_STARTUP;
  else if (out->compute_s >= longest_s)
    out->bound = PZ_BOUND_COMPUTE;
  else if (out->hbm_s >= longest_s)
    out->bound = PZ_BOUND_HBM;
  else
    out->bound = out->glb_s >= longest_s ? PZ_BOUND_GLB : PZ_BOUND_LOCAL;
}

/* Finds the fastest mapping, and among the fastest the one with the least energy.  A repeated call
 * reads only the part cold_part of its data from HBM; the rest is still in the global buffer. */
struct pz_mapping pz_find_mapping(struct pz_call *call, const struct pz_product *product,
                                  const struct pz_chip *chip) {
  struct pz_mapspace space;
  struct search search;
  init_space(call, product, chip, &space);
  double glb_bytes = (double)chip->glb_bytes;
  /* The first pass finds the least time.  Without nesting, the tile of the global buffer is
   * independent of the core tiles; else this is a bound. */
  double least_hbm_s = find_best_glb_tile(&space, glb_bytes, MINIMISE_TIME).hbm_s * space.cold_part;
  space.nested = chip->rules.nested_mapping && !chip->calibration.n_tiles;
  find_fastest(&space, least_hbm_s, &search);
  if (search.core_s == DBL_MAX || least_hbm_s == DBL_MAX) raise_no_tile(call, chip);
  /* The two passes add the same numbers in a different order, so the limit has a tolerance. */
  search.core_s = pz_fmax(search.core_s, least_hbm_s) * (1 + 1e-12);
  /* The tile with the fewest HBM bytes in this time; with nesting, a lower bound. */
  double limit_s = space.cold_part > 0 ? search.core_s / space.cold_part : DBL_MAX;
  struct glb_tile tile = find_best_glb_tile(&space, glb_bytes, limit_s);
  tile.hbm_s *= space.cold_part;
  tile.hbm_bytes *= space.cold_part;
  if (space.nested) search.least_hbm_bytes = tile.hbm_bytes;
  /* The second pass: the least energy among the mappings that take at most search.core_s. */
  struct spatial_list list;
  double least_hbm_j = search.least_hbm_bytes * space.tech->hbm_j;
  const bool by_energy = true;
  list_spatial(&space, by_energy, &list);
  /* The memo has bounds in seconds from the first pass, and the second stores bytes. */
  if (space.nested) memset(search.memo.key, 0, sizeof search.memo.key);
  for (int i = 0; i < list.n; i++) {
    if (list.item[i].energy_j + least_hbm_j >= search.energy_j) break;
    if (list.item[i].local_s <= search.core_s) scan_cheapest(&space, &list.item[i], &search);
  }
  struct pz_mapping mapping = {.least_hbm_s = least_hbm_s};
  describe_mapping(&space, &search, &mapping);
  if (!space.nested) {
    /* In the relaxation, the tile has two sizes of its own and the whole third dimension. */
    enum pz_dim first = pz_stationary_dims[tile.stationary].first;
    enum pz_dim second = pz_stationary_dims[tile.stationary].second;
    for (int d = 0; d < PZ_DIMS; d++) mapping.glb_tile[d] = (int64_t)space.size[d];
    mapping.glb_tile[first] = (int64_t)space.glb_tile[first].size[tile.first];
    mapping.glb_tile[second] = (int64_t)space.glb_tile[second].size[tile.second];
    mapping.glb_stationary = tile.stationary;
    mapping.glb_batch = 1;
    mapping.hbm_bytes = tile.hbm_bytes;
    mapping.hbm_s = tile.hbm_s;
  }
  conclude(&space, &mapping);
  return mapping;
}

/* Sets core_s[i] and hbm_s[j], lower bounds on the time with each core count and with each size of
 * the global buffer, and returns the start-up seconds.  The mapspace is not nested. */
double pz_sweep_mappings(struct pz_call *call, const struct pz_product *product,
                         const struct pz_chip *chip, const struct pz_sweep *sweep, double *core_s,
                         double *hbm_s) {
  struct pz_mapspace space;
  struct search search;
  init_space(call, product, chip, &space);
  for (size_t j = 0; j < sweep->n_glb; j++) {
    double s = find_best_glb_tile(&space, (double)sweep->glb_bytes[j], MINIMISE_TIME).hbm_s;
    if (s == DBL_MAX) raise_no_tile(call, chip);
    hbm_s[j] = s * space.cold_part;
  }
  for (size_t i = 0; i < sweep->n_cores; i++) {
    pz_mapspace_set_cores(&space, (double)sweep->cores[i]);
    const double no_hbm_s = 0; /* the time on the cores alone is searched to its minimum */
    find_fastest(&space, no_hbm_s, &search);
    if (search.core_s == DBL_MAX) raise_no_tile(call, chip);
    core_s[i] = search.core_s;
  }
  return space.startup_s;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *pz_bound_name(enum pz_bound bound) {
  static const char *const names[] = {"compute", "hbm", "glb", "local", "startup", "link"};
  return (size_t)bound < PZ_BOUNDS ? names[bound] : "unknown";
}

const char *pz_dim_name(enum pz_dim dim) {
  static const char *const names[] = {"m", "n", "k"};
  return (size_t)dim < PZ_DIMS ? names[dim] : "unknown";
}

const char *pz_stationary_name(enum pz_stationary stationary) {
  static const char *const names[] = {"results", "weights", "inputs"};
  return (size_t)stationary < PZ_STATIONARITIES ? names[stationary] : "unknown";
}
