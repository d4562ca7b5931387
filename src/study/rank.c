/* Rank statistics: rank_list() ranks a list, pz_spearman() correlates the ranks of two. */
#include "study/rank.h"

#include <math.h>
#include <stdlib.h>

/* Sets the rank of each value, from 1: the number of smaller values plus (1 + equal ones) / 2. */
static void rank_list(const double *values, uint32_t n, double *rank) {
  for (uint32_t i = 0; i < n; i++) {
    rank[i] = 0.5;
    for (uint32_t j = 0; j < n; j++) {
      if (values[j] < values[i]) rank[i] += 1;
      if (values[j] == values[i]) rank[i] += 0.5;
    }
  }
}

/* Returns the (Pearson) correlation of the ranks of two lists; `middle` is the mean of n ranks. */
double pz_spearman(const double *first, const double *second, uint32_t n, double *ranks) {
  double *first_ranks = ranks, *second_ranks = ranks + n, middle = 0.5 * ((double)n + 1);
  double sum_xx = 0, sum_yy = 0, sum_xy = 0;
  rank_list(first, n, first_ranks);
  rank_list(second, n, second_ranks);
  for (uint32_t i = 0; i < n; i++) {
    double dx = first_ranks[i] - middle, dy = second_ranks[i] - middle;
    sum_xx += dx * dx;
    sum_yy += dy * dy;
    sum_xy += dx * dy;
  }
  return sum_xx > 0 && sum_yy > 0 ? sum_xy / sqrt(sum_xx * sum_yy) : (double)NAN;
}

/* Returns how much slower the plan that is predicted to be fastest is than the fastest one. */
double pz_regret(const double *predicted, const double *measured, uint32_t n) {
  uint32_t chosen = 0, best = 0;
  for (uint32_t i = 1; i < n; i++) {
    if (predicted[i] < predicted[chosen]) chosen = i;
    if (measured[i] < measured[best]) best = i;
  }
  return measured[chosen] / measured[best] - 1;
}

static int compare_numbers(const void *a, const void *b) {
  const double *first = a, *second = b;
  return (*first > *second) - (*first < *second);
}

double pz_median(double *values, uint32_t n) {
  qsort(values, n, sizeof *values, compare_numbers);
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}
