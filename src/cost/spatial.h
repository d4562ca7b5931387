/* The spatial mappings that the mapper tries, with lower bounds. */
#ifndef PZ_COST_SPATIAL_H
#define PZ_COST_SPATIAL_H

#include "cost/mapspace.h"

enum { PZ_SPATIAL_MOST = 128 };

struct pz_spatial_list {
  struct pz_spatial item[PZ_SPATIAL_MOST];
  int n;
};

/* All of them, in the order of the bounds on energy, or on the time of local traffic. */
void pz_spatial_all(const struct pz_mapspace *m, bool by_energy, struct pz_spatial_list *list);

#endif
