/* Gaussian process regression with a linear kernel, k(x, x') = 1 + x.x' (both terms with a prior variance of 1), and
 * noise.  With f features this is Bayesian linear regression on f + 1 weights (Rasmussen and Williams, Gaussian
 * Processes for Machine Learning, 2006, section 2.1): a fit costs n f^2 for n samples, and a prediction f^2.
 *
 * Features should be of order one; values are standardised here. */
#ifndef PZ_BASELINE_LINEAR_GP_H
#define PZ_BASELINE_LINEAR_GP_H

#include <stddef.h>

enum { PZ_GP_FEATURES = 5, PZ_GP_WEIGHTS = PZ_GP_FEATURES + 1 };

/* All zeroes is a process without samples. */
struct pz_linear_gp {
  /* Sums over the samples, with z = (1, x). */
  double gram[PZ_GP_WEIGHTS][PZ_GP_WEIGHTS]; /* of z z' */
  double zy[PZ_GP_WEIGHTS], y, yy;           /* of z y, y, y^2 */
  size_t n;
  /* Set by a fit. */
  double mean, sd; /* of the values */
  double factor[PZ_GP_WEIGHTS]
               [PZ_GP_WEIGHTS]; /* lower Cholesky factor of the posterior precision */
  double weight[PZ_GP_WEIGHTS]; /* posterior mean, for standardised values */
};

void pz_linear_gp_add(struct pz_linear_gp *process, const double x[PZ_GP_FEATURES], double y);

/* `noise` is the variance of the noise relative to that of the values; it must be above 0. */
void pz_linear_gp_fit(struct pz_linear_gp *process, double noise);

/* Mean and standard deviation of the function, without noise, at x. */
void pz_linear_gp_predict(const struct pz_linear_gp *process, const double x[PZ_GP_FEATURES],
                          double *mean, double *sd);

#endif
