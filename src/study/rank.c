/* Rank statistics over a few plans: see rank.h.  rank_list() ranks one list; pz_spearman()
 * correlates the ranks of two. */
#include "study/rank.h"

#include <math.h>
#include <stdlib.h>

/* The rank of each number, from 1: the count of smaller numbers, plus half of the equal ones,
 * itself included, plus 1/2. */
static void rank_list(const double *x, uint32_t n, double *rank) {
  for (uint32_t i = 0; i < n; i++) {
    rank[i] = 0.5;
    for (uint32_t j = 0; j < n; j++) {
      if (x[j] < x[i]) rank[i] += 1;
      if (x[j] == x[i]) rank[i] += 0.5;
    }
  }
}

double pz_spearman(const double *a, const double *b, uint32_t n, double *ranks) {
  double *x = ranks, *y = ranks + n, middle = 0.5 * ((double)n + 1);
  double xx = 0, yy = 0, xy = 0;
  rank_list(a, n, x);
  rank_list(b, n, y);
  for (uint32_t i = 0; i < n; i++) {
    double dx = x[i] - middle, dy = y[i] - middle;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

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

double pz_median(double *x, uint32_t n) {
  qsort(x, n, sizeof *x, compare_numbers);
  return (x[(n - 1) / 2] + x[n / 2]) / 2;
}
