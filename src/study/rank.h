/* How well predictions order plans, which is what matters to someone who chooses one of several. */
#ifndef PZ_STUDY_RANK_H
#define PZ_STUDY_RANK_H

#include "core/arena.h"

/* Spearman's rank correlation of two lists of n numbers (Spearman 1904): 1 if both have the same
 * order, -1 if one has the opposite order of the other.  Equal numbers share the mean of their
 * ranks.  Returns NaN if n is below 2 or all numbers of a list are equal.  `ranks` is scratch
 * space for 2 n numbers.  The time is quadratic in n, which is meant to be small. */
double pz_spearman(const double *a, const double *b, uint32_t n, double *ranks);

/* Returns the cost of following the prediction: the measured time of the plan with the shortest
 * predicted time, divided by the shortest measured time, minus 1.  Of equal predictions the
 * earlier plan counts.  n must be at least 1 and all measured times above 0. */
double pz_regret(const double *predicted, const double *measured, uint32_t n);

/* Returns the median of n numbers, which are sorted in place; n must be at least 1. */
double pz_median(double *x, uint32_t n);

#endif
