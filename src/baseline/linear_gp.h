/* A Gaussian process with a linear kernel, k(x, x') = 1 + x.x' (both with a prior variance of 1),
 * and noise.  With f features that is Bayesian linear regression on f + 1 weights: a fit costs
 * n f^2, whatever the number of samples n, and a prediction f^2.  Sized for a handful of features.
 *
 * Features should be of order one; the values are standardised here. */
#ifndef PZ_BASELINE_LINEAR_GP_H
#define PZ_BASELINE_LINEAR_GP_H

#include <stddef.h>

enum { PZ_GP_FEATURES = 5, PZ_GP_WEIGHTS = PZ_GP_FEATURES + 1 };

/* Zero is a process without samples. */
struct pz_linear_gp {
  double gram[PZ_GP_WEIGHTS][PZ_GP_WEIGHTS]; /* sum of z z', z = (1, x) */
  double zy[PZ_GP_WEIGHTS], y, yy;           /* sums of z y, y, y^2 */
  size_t n;
  /* After a fit: */
  double mean, sd;                             /* of the values */
  double factor[PZ_GP_WEIGHTS][PZ_GP_WEIGHTS]; /* lower Cholesky factor of the precision */
  double weight[PZ_GP_WEIGHTS];                /* of standardised values */
};

void pz_linear_gp_add(struct pz_linear_gp *g, const double x[PZ_GP_FEATURES], double y);

/* noise: its variance, where that of the values is 1; above 0. */
void pz_linear_gp_fit(struct pz_linear_gp *g, double noise);

/* The expectation and standard deviation of the function (without noise) at x. */
void pz_linear_gp_predict(const struct pz_linear_gp *g, const double x[PZ_GP_FEATURES],
                          double *mean, double *sd);

#endif
