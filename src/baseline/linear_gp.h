/* Gaussian process regression with a linear kernel, k(x, x') = 1 + x.x' (both terms with a prior variance of 1), and
 * noise.  With f features this is Bayesian linear regression on f + 1 weights (Rasmussen and Williams, Gaussian
 * Processes for Machine Learning, 2006, section 2.1): a fit costs n f^2 for n samples, and a prediction f^2.
 *
 * Callers scale the features to about 1.  Values are standardised in a fit. */
#ifndef PZ_BASELINE_LINEAR_GP_H
#define PZ_BASELINE_LINEAR_GP_H

#include <stddef.h>

enum { PZ_GP_FEATURES = 5, PZ_GP_WEIGHTS = PZ_GP_FEATURES + 1 };

/* The state of a regression.  All zeroes stand for no samples. */
struct pz_linear_gp {
  /* sums over the samples, where z = (1, features) */
  double gram[PZ_GP_WEIGHTS][PZ_GP_WEIGHTS]; /* sum of z z' */
  double sum_z_value[PZ_GP_WEIGHTS], sum_value, sum_squared_value;
  size_t n; /* number of samples */
  /* results of a fit */
  double mean, deviation; /* mean and standard deviation of the values */
  /* lower Cholesky factor of the posterior precision matrix of the weights */
  double factor[PZ_GP_WEIGHTS][PZ_GP_WEIGHTS];
  double weight[PZ_GP_WEIGHTS]; /* posterior mean of the weights, for standardised values */
};

void pz_linear_gp_add(struct pz_linear_gp *process, const double features[PZ_GP_FEATURES],
                      double value);

/* Fits mean, scale and weights to the samples.  `noise` is the variance of the noise relative to
 * that of the values, and must be above 0. */
void pz_linear_gp_fit(struct pz_linear_gp *process, double noise);

/* Sets the mean and the standard deviation of the function, without noise, at these features. */
void pz_linear_gp_predict(const struct pz_linear_gp *process, const double features[PZ_GP_FEATURES],
                          double *mean, double *deviation);

#endif
