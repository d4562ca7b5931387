/* The regression of linear_gp.h in sums over the samples: pz_linear_gp_add() updates them, pz_linear_gp_fit() factors
 * the posterior precision A = L L' and solves for the weights, and pz_linear_gp_predict() uses both. */
#include "baseline/linear_gp.h"

#include <math.h>
#include <string.h>

enum { N = PZ_GP_WEIGHTS };

static void prepend_one(const double x[PZ_GP_FEATURES], double z[N]) {
  z[0] = 1;
  memcpy(z + 1, x, PZ_GP_FEATURES * sizeof *x);
}

void pz_linear_gp_add(struct pz_linear_gp *g, const double x[PZ_GP_FEATURES], double y) {
  double z[N];
  prepend_one(x, z);
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < N; k++) g->gram[i][k] += z[i] * z[k];
    g->zy[i] += z[i] * y;
  }
  g->y += y;
  g->yy += y * y;
  g->n++;
}

/* v := L^-1 v */
static void solve_lower(const struct pz_linear_gp *g, double v[N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) v[i] -= g->factor[i][j] * v[j];
    v[i] /= g->factor[i][i];
  }
}

void pz_linear_gp_fit(struct pz_linear_gp *g, double noise) {
  double n = g->n ? (double)g->n : 1;
  g->mean = g->y / n;
  double variance = g->yy / n - g->mean * g->mean;
  g->sd = variance > 0 ? sqrt(variance) : 1;
  /* The posterior precision is A = I + Z'Z / noise = L L', which is positive definite. */
  for (int i = 0; i < N; i++)
    for (int k = 0; k <= i; k++) {
      double s = (i == k) + g->gram[i][k] / noise;
      for (int j = 0; j < k; j++) s -= g->factor[i][j] * g->factor[k][j];
      g->factor[i][k] = i == k ? sqrt(s) : s / g->factor[k][k];
    }
  /* The weights are A^-1 Z'y / noise, with standardised values y: solve with L, then with L'. */
  double *weight = g->weight;
  for (int i = 0; i < N; i++) weight[i] = (g->zy[i] - g->gram[i][0] * g->mean) / g->sd / noise;
  solve_lower(g, weight);
  for (int i = N - 1; i >= 0; i--) {
    for (int j = i + 1; j < N; j++) weight[i] -= g->factor[j][i] * weight[j];
    weight[i] /= g->factor[i][i];
  }
}

void pz_linear_gp_predict(const struct pz_linear_gp *g, const double x[PZ_GP_FEATURES],
                          double *mean, double *sd) {
  double z[N], m = 0, variance = 0;
  prepend_one(x, z);
  for (int i = 0; i < N; i++) m += z[i] * g->weight[i];
  solve_lower(g, z);
  for (int i = 0; i < N; i++) variance += z[i] * z[i];
  *mean = g->mean + g->sd * m;
  *sd = g->sd * sqrt(variance);
}
