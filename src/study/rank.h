/* Measures of how well predictions order plans, for users who choose one of several. */
#ifndef PZ_STUDY_RANK_H
#define PZ_STUDY_RANK_H

#include "core/arena.h"

/* Returns the rank correlation of two lists of n numbers (Spearman 1904): 1 for the same order, -1
 * for opposite orders, NaN if n is below 2 or all numbers of a list are equal.  Equal numbers share
 * the mean of their ranks.  `ranks` is scratch for 2 n numbers.  The time is quadratic in n. */
double pz_spearman(const double *first, const double *second, uint32_t n, double *ranks);

/* Returns the cost of following the prediction: the measured time of the plan that is predicted to
 * be fastest (the first of equal ones), over the shortest measured time, minus 1. */
double pz_regret(const double *predicted, const double *measured, uint32_t n);

/* Returns the median of n numbers, which are sorted in place; n must be at least 1. */
double pz_median(double *values, uint32_t n);

#endif
