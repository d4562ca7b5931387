/* The tile of a product in the global buffer, and its stationary operand: traffic with HBM. */
#ifndef PZ_COST_GLB_MAPPING_H
#define PZ_COST_GLB_MAPPING_H

#include "cost/mapspace.h"

struct pz_glb_mapping {
  double bytes, s; /* of HBM; DBL_MAX where nothing fits */
  int u, v;        /* tiles of the two dimensions of the stationary operand; the third is whole */
  enum pz_stationary stationary;
};

/* The fastest with a buffer of so many bytes (limit_s < 0), or the one with the least traffic that
 * takes no longer than limit_s. */
struct pz_glb_mapping pz_glb_mapping_best(const struct pz_mapspace *m, double glb_bytes,
                                          double limit_s);

#endif
