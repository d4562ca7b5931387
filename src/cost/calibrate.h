/* Fits the constants of a chip's calibration to operators measured on it. */
#ifndef PZ_COST_CALIBRATE_H
#define PZ_COST_CALIBRATE_H

#include "cost/measured_ops.h"

/* Rows of one kernel that a fit is made to, at most: of more, a sample spread over the table. */
enum { PZ_CALIBRATE_MOST_ROWS = 300 };

/* Fit *chip to the rows with use[i] (NULL: all), group by group: products, fp8 products, each
 * kernel, the link.  What no row shows stays.  Minimises the mean squared logarithm of predicted over
 * measured time, beyond 0.3 a line, by coordinate search with shrinking steps, within the ranges a
 * chip file accepts; no draws.  Cost: some thousand predictions of each row. */
PZ_NODISCARD enum pz_status pz_calibrate_fit(struct pz_chip *chip, const struct pz_measured *m,
                                             const bool *use, struct pz_error *err);

/* Relative errors, predicted over measured less 1, of all rows. */
PZ_NODISCARD enum pz_status pz_calibrate_errors(const struct pz_chip *chip,
                                                const struct pz_measured *m, double *errors,
                                                struct pz_error *err);

/* The rows of one operator: how many, how many of them were held back from the first fit, and mean
 * errors: of the chip as it was, of both halves after the fit to one, and after the fit to all. */
struct pz_residual {
  uint32_t op, rows, held;
  double before, fitted_half, held_half, after;
};

struct pz_constant_change {
  char name[64];
  double before, after;
  bool at_bound; /* of the range that a chip file accepts: other values were better still */
};

/* A group whose constants stay, because those of the fit to one half predict the other no better: mean errors of its rows
 * there, or of all rows after the fit to all. */
struct pz_rejected_fit {
  const char *name; /* as in `kept` */
  double before, fitted;
};

struct pz_calibrated {
  struct pz_chip chip;
  const struct pz_residual *residuals; /* in the order of pz_ops_name */
  uint32_t n_residuals;
  struct pz_residual all;
  const struct pz_constant_change *changes;
  uint32_t n_changes;
  const char *const *kept; /* kernels, products, fp8 products that no row shows */
  uint32_t n_kept;
  const struct pz_rejected_fit *rejected;
  uint32_t n_rejected;
};

/* Fit to every second row of each operator, judge with the others, then fit to all.  A group whose mean error over the
 * others does not fall, or of which an operator's rises by more than a tenth, keeps its constants.  *out lives in the arena.  PZ_BAD_INPUT for a time that is 50 times longer or shorter than predicted. */
PZ_NODISCARD enum pz_status pz_calibrate(const struct pz_chip *chip, const struct pz_measured *m,
                                         struct pz_arena *arena, struct pz_calibrated *out,
                                         struct pz_error *err);

#endif
