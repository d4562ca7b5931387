/* How well predictions order plans: what matters to someone who picks one of several. */
#ifndef PZ_STUDY_RANK_H
#define PZ_STUDY_RANK_H

#include "core/arena.h"

/* Spearman's rank correlation of two lists of n numbers (Spearman 1904): 1 where they order alike, -1
 * where oppositely; equal numbers share the mean of their ranks.  NaN: n below 2, or all numbers of
 * a list are equal.  `ranks` is scratch for 2 n numbers.  O(n^2), for tens of plans. */
double pz_spearman(const double *a, const double *b, uint32_t n, double *ranks);

/* What following the prediction costs: measured time of the plan that is predicted fastest, over
 * the measured fastest, minus 1.  Equal predictions: the earlier plan.  n at least 1, all measured
 * times above 0. */
double pz_regret(const double *predicted, const double *measured, uint32_t n);

/* The middle of n numbers, or the mean of the two middle ones; n at least 1.  They are sorted. */
double pz_median(double *x, uint32_t n);

#endif
