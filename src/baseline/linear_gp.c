/* The regression of linear_gp.h in sums over the samples: pz_linear_gp_add() updates them,
 * pz_linear_gp_fit() factors the posterior precision A = L L' and solves for the weights, and
 * pz_linear_gp_predict() uses both. */
#include "baseline/linear_gp.h"

#include <math.h>
#include <string.h>

enum { N = PZ_GP_WEIGHTS };

/* Adds a sample to the sums. */
void pz_linear_gp_add(struct pz_linear_gp *process, const double features[PZ_GP_FEATURES],
                      double value) {
  double z[N] = {1}; /* the constant term and the features */
  memcpy(z + 1, features, PZ_GP_FEATURES * sizeof *features);
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < N; k++) process->gram[i][k] += z[i] * z[k];
    process->sum_z_value[i] += z[i] * value;
  }
  process->sum_value += value;
  process->sum_squared_value += value * value;
  process->n++;
}

/* Solves L x = right, where L is the lower Cholesky factor.  Overwrites `right` with x. */
static void solve_lower(const struct pz_linear_gp *process, double right[N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) right[i] -= process->factor[i][j] * right[j];
    right[i] /= process->factor[i][i];
  }
}

/* Fits mean, scale and weights to the samples. */
void pz_linear_gp_fit(struct pz_linear_gp *process, double noise) {
  double n = process->n ? (double)process->n : 1;
  process->mean = process->sum_value / n;
  double variance = process->sum_squared_value / n - process->mean * process->mean;
  process->deviation = variance > 0 ? sqrt(variance) : 1;
  /* The posterior precision is A = I + Z'Z / noise = L L', which is positive definite. */
  for (int i = 0; i < N; i++)
    for (int k = 0; k <= i; k++) {
      double rest = (i == k) + process->gram[i][k] / noise;
      for (int j = 0; j < k; j++) rest -= process->factor[i][j] * process->factor[k][j];
      process->factor[i][k] = i == k ? sqrt(rest) : rest / process->factor[k][k];
    }
  /* The weights are A^-1 Z'y / noise, where y are the standardised values.  They are found by
   * solving with L and then with its transpose. */
  double *weight = process->weight;
  for (int i = 0; i < N; i++)
    weight[i] = (process->sum_z_value[i] - process->gram[i][0] * process->mean) /
                process->deviation / noise;
  solve_lower(process, weight);
  for (int i = N - 1; i >= 0; i--) {
    for (int j = i + 1; j < N; j++) weight[i] -= process->factor[j][i] * weight[j];
    weight[i] /= process->factor[i][i];
  }
}

/* Sets the mean and the standard deviation of the function at these features. */
void pz_linear_gp_predict(const struct pz_linear_gp *process, const double features[PZ_GP_FEATURES],
                          double *mean, double *deviation) {
  double z[N] = {1}, standardised_mean = 0, variance = 0;
  memcpy(z + 1, features, PZ_GP_FEATURES * sizeof *features);
  for (int i = 0; i < N; i++) standardised_mean += z[i] * process->weight[i];
  solve_lower(process, z);
  for (int i = 0; i < N; i++) variance += z[i] * z[i];
  *mean = process->mean + process->deviation * standardised_mean;
  *deviation = process->deviation * sqrt(variance);
}
