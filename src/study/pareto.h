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

/* Returns the whole front.  Values are geometric means over the references, whatever the objective
 * of the study is.  The knee is the point farthest above the chord from the smallest to the fastest
 * chip, with throughput and area scaled to 0 .. 1 between these two, if any point is above it. */
struct pz_front pz_pareto_front(struct pz_call *call, struct pz_study *study,
                                struct pz_watch watch);

/* Thins a front to a subset that has for every point one that is worse by at most the tolerance in
 * each criterion, a fraction of its largest value on the front (additive epsilon-dominance:
 * Laumanns, Thiele, Deb and Zitzler, Evolutionary Computation 10(3), 2002).  The fastest chip and
 * the knee stay; a tolerance of 0 keeps all points.  The time is quadratic in their number. */
void pz_front_thin(struct pz_front *front, double tolerance);

#endif
