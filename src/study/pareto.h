/* The Pareto front of throughput, area and peak watts.  As in an objective run, bounds exclude
 * chips that need not be evaluated. */
#ifndef PZ_STUDY_PARETO_H
#define PZ_STUDY_PARETO_H

#include "study/study.h"

struct pz_front_point {
  uint32_t point; /* index in the points of the study */
  double value, area_um2, watts;
  bool knee; /* whether this is the knee of the front; at most one point is */
  bool kept; /* used while the front is thinned */
};

struct pz_front {
  struct pz_front_point *points; /* sorted by area, in the arena of the study */
  uint32_t n, n_evaluated;
  uint32_t n_full; /* number of points before the front was thinned */
};

/* Returns the whole front.  Values are geometric means over the references, whatever the
 * objective of the study is.
 *
 * The knee is the point farthest above the chord from the smallest chip to the fastest one, in
 * the plane of throughput and area, each scaled to 0 .. 1 between these two.  There is no knee
 * if no point lies above the chord. */
struct pz_front pz_pareto_front(struct pz_call *call, struct pz_study *study,
                                struct pz_watch watch);

/* Thins a front to a subset such that for every point the subset has one that is worse by at
 * most the tolerance in each criterion (additive epsilon-dominance: Laumanns, Thiele, Deb and
 * Zitzler, Evolutionary Computation 10(3), 2002).  The tolerance is a fraction of the
 * criterion's largest value on the front.  The fastest chip and the knee stay.  A tolerance of 0
 * keeps all points.  The time is quadratic in the number of points. */
void pz_front_thin(struct pz_front *front, double tolerance);

#endif
