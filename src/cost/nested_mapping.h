/* The tile of a product in the global buffer that contains the tiles of the cores (mapper.h
 * declares which there are): traffic with HBM, and the rounds that its items take. */
#ifndef PZ_COST_NESTED_MAPPING_H
#define PZ_COST_NESTED_MAPPING_H

#include "cost/mapspace.h"

struct pz_nested_mapping {
  enum pz_stationary stationary;
  bool in_step;        /* slices alone pass through the buffer: its items are one round */
  double per[PZ_DIMS]; /* core tiles in it along each dimension */
  double batch;        /* products in the buffer at a time */
  double rounds;
  double hbm_s, hbm_bytes;
};

/* A mapping to the cores, and lower bounds on the HBM traffic of any. */
struct pz_nested_work {
  const int *at;
  const struct pz_spatial *spatial; /* NULL: the one of fewest cycles */
  double least_hbm_s, least_hbm_bytes;
};

/* The least time of these tiles with any tile of the global buffer, HBM included; `below_s` where
 * none takes less. */
double pz_nested_fastest_s(const struct pz_mapspace *m, const struct pz_nested_work *w,
                           double below_s);

/* The tile of the global buffer of least HBM traffic among those that take no longer than limit_s.
 * False where none has less than below_bytes; *out is untouched then. */
bool pz_nested_cheapest(const struct pz_mapspace *m, const struct pz_nested_work *w, double limit_s,
                        double below_bytes, struct pz_nested_mapping *out);

#endif
