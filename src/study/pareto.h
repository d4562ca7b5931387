/* The Pareto front of throughput, area and peak watts.  As in an objective run, bounds exclude
 * chips that need not be evaluated. */
#ifndef PZ_STUDY_PARETO_H
#define PZ_STUDY_PARETO_H

#include "study/study.h"

struct pz_front_point {
  uint32_t point; /* index */
  double value, area_um2, watts;
  bool knee; /* at most one is */
  bool kept; /* while the front is thinned */
};

struct pz_front {
  struct pz_front_point *points; /* by area, in the study's arena */
  uint32_t n, n_evaluated;
  uint32_t n_full; /* before it was thinned */
};

/* All of it, the knee marked: of throughput against area, each scaled to 0 .. 1 between the
 * smallest chip and the fastest, the point farthest above the chord between these two.  There is
 * none where no point lies above.  Values are geometric means over the references, whatever the
 * study's objective. */
PZ_NODISCARD enum pz_status pz_front_find(struct pz_study *s, struct pz_watch watch,
                                          struct pz_front *out, struct pz_error *err);

/* Thin a front to a subset such that every point of it has one in the subset that is worse by at
 * most the tolerance in each criterion (additive epsilon-dominance: Laumanns, Thiele, Deb and
 * Zitzler, Evolutionary Computation 10(3), 2002).  The tolerance is a part of the criterion's
 * largest value on the front.  The fastest chip and the knee stay.  0: nothing is left out.
 * Quadratic in the points. */
void pz_front_thin(struct pz_front *f, double tolerance);

#endif
