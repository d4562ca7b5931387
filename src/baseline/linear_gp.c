/* The regression of linear_gp.h in sums over the samples: pz_linear_gp_add() updates them,
 * pz_linear_gp_fit() factors the posterior precision A = L L' and solves for the weights, and
 * pz_linear_gp_predict() uses both. */
#include "baseline/linear_gp.h"

#include <math.h>
#include <string.h>

enum { N = PZ_GP_WEIGHTS };

/* Sets z = (1, x). */
static void prepend_one(const double x[PZ_GP_FEATURES], double z[N]) {
  z[0] = 1;
  memcpy(z + 1, x, PZ_GP_FEATURES * sizeof *x);
}

/* Adds a sample with features x and value y to the sums. */
void pz_linear_gp_add(struct pz_linear_gp *process, const double x[PZ_GP_FEATURES], double y) {
  double z[N];
  prepend_one(x, z);
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < N; k++) process->gram[i][k] += z[i] * z[k];
    process->zy[i] += z[i] * y;
  }
  process->y += y;
  process->yy += y * y;
  process->n++;
}

/* Replaces v by the solution of L x = v, where L is the lower Cholesky factor. */
static void solve_lower(const struct pz_linear_gp *process, double v[N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) v[i] -= process->factor[i][j] * v[j];
    v[i] /= process->factor[i][i];
  }
}

/* Fits mean, scale and weights to the samples. */
void pz_linear_gp_fit(struct pz_linear_gp *process, double noise) {
  double n = process->n ? (double)process->n : 1;
  process->mean = process->y / n;
  double variance = process->yy / n - process->mean * process->mean;
  process->sd = variance > 0 ? sqrt(variance) : 1;
  /* The posterior precision is A = I + Z'Z / noise = L L', which is positive definite. */
  for (int i = 0; i < N; i++)
    for (int k = 0; k <= i; k++) {
      double s = (i == k) + process->gram[i][k] / noise;
      for (int j = 0; j < k; j++) s -= process->factor[i][j] * process->factor[k][j];
      process->factor[i][k] = i == k ? sqrt(s) : s / process->factor[k][k];
    }
  /* The weights are A^-1 Z'y / noise, with standardised values y: solve with L, then with L'. */
  double *weight = process->weight;
  for (int i = 0; i < N; i++)
    weight[i] = (process->zy[i] - process->gram[i][0] * process->mean) / process->sd / noise;
  solve_lower(process, weight);
  for (int i = N - 1; i >= 0; i--) {
    for (int j = i + 1; j < N; j++) weight[i] -= process->factor[j][i] * weight[j];
    weight[i] /= process->factor[i][i];
  }
}

/* Sets mean and standard deviation of the function at x. */
void pz_linear_gp_predict(const struct pz_linear_gp *process, const double x[PZ_GP_FEATURES],
                          double *mean, double *sd) {
  double z[N], m = 0, variance = 0;
  prepend_one(x, z);
  for (int i = 0; i < N; i++) m += z[i] * process->weight[i];
  solve_lower(process, z);
  for (int i = 0; i < N; i++) variance += z[i] * z[i];
  *mean = process->mean + process->sd * m;
  *sd = process->sd * sqrt(variance);
}
