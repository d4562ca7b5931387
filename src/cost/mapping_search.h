/* The search for the best tiles and spatial mapping of a product on the cores: exact, by bounded
 * enumeration.  The global buffer and HBM are apart (glb_mapping.h). */
#ifndef PZ_COST_MAPPING_SEARCH_H
#define PZ_COST_MAPPING_SEARCH_H

#include "cost/nested_mapping.h"

/* Of a tile of n and one of k: the largest tile of m that fits with them (-1: none), and a lower
 * bound on the time of any. */
struct pz_tile_pair {
  double bound_s;
  int top;
};

struct pz_mapping_search {
  double core_s;   /* the incumbent's time, or the limit when energy is minimised */
  double energy_j; /* of the incumbent within the limit */
  int at[PZ_DIMS]; /* its tiles */
  struct pz_spatial spatial;
  struct pz_nested_mapping nested;     /* its tile in the global buffer, where that is nested */
  double least_hbm_s, least_hbm_bytes; /* lower bounds, where that is nested */
  struct pz_nested_memo memo;
  struct pz_tile_pair
      pair[PZ_TILE_MOST_SIZES * PZ_TILE_MOST_SIZES]; /* n by n without gaps: few are touched */
};

/* Set core_s to the least time of arithmetic, local and global traffic, where tiles nest of HBM
 * too; DBL_MAX where no tile fits.  At `enough`, the least time of HBM, or below it the search
 * ends: nothing is gained. */
void pz_mapping_fastest(const struct pz_mapspace *m, double enough, struct pz_mapping_search *s);

/* After pz_mapping_fastest: the mapping of least energy, where tiles nest with that of HBM, among
 * those that take no longer than s->core_s, which may have been raised.  least_hbm_bytes is set by
 * the caller. */
void pz_mapping_cheapest(const struct pz_mapspace *m, struct pz_mapping_search *s);

#endif
