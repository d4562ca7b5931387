/* Fits the constants of a chip's calibration to operators measured on it. */
#ifndef PZ_COST_CALIBRATE_H
#define PZ_COST_CALIBRATE_H

#include "core/progress.h"
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

/* Fit to every second row of each operator, judge with the others, then fit to all.  A group whose mean error over the
 * others does not fall, or of which an operator's rises by more than a tenth, keeps its constants.  *out lives in the arena, without notes.  `progress` may be NULL.  PZ_BAD_INPUT for a time that is 50 times longer or shorter than predicted. */
PZ_NODISCARD enum pz_status pz_calibrate_to(const struct pz_chip *chip, const struct pz_measured *m,
                                            struct pz_progress *progress, struct pz_arena *arena,
                                            struct pz_calibrated *out, struct pz_error *err);

#endif
