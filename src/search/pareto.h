/* The Pareto front of throughput, area and peak watts.  As in a contest, bounds exclude chips that
 * need not be evaluated. */
#ifndef PZ_SEARCH_PARETO_H
#define PZ_SEARCH_PARETO_H

#include "search/study.h"

struct pz_front_point {
  uint32_t point; /* index */
  double value, area_um2, watts;
};

struct pz_front {
  struct pz_front_point *points; /* by area, in the study's arena */
  uint32_t n, n_evaluated;
};

/* Values are geometric means over the references, whatever the study's objective. */
PZ_NODISCARD enum pz_status pz_front_find(struct pz_study *s, struct pz_front *out,
                                          struct pz_error *err);

#endif
