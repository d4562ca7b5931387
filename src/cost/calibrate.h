/* Fits the constants of a chip's calibration to operators that were measured on it. */
#ifndef PZ_COST_CALIBRATE_H
#define PZ_COST_CALIBRATE_H

#include "core/progress.h"
#include "cost/measured_ops.h"

/* One kernel is fitted to at most this many rows, an evenly spaced sample of larger tables. */
enum { PZ_CALIBRATE_MOST_ROWS = 300 };

/* Fits *chip to the rows i with is_used[i], or to all rows if `is_used` is NULL.  Constants that no
 * row depends on keep their values.  A fit takes some thousand predictions of each row. */
void pz_calibration_fit(struct pz_call *call, struct pz_chip *chip,
                        const struct pz_measured *measured, const bool *is_used);

/* Returns the relative error of each row: its predicted over its measured time, less 1. */
const double *pz_calibration_errors(struct pz_call *call, const struct pz_chip *chip,
                                    const struct pz_measured *measured);

/* Fits the chip to every second row of each operator, validates that fit with the other rows, and
 * then fits to all rows.  A group of constants is rejected, and keeps its values, if the fit to one
 * half does not lower the mean error of the group's other rows, or raises that of one operator by
 * more than a tenth.  The result has no notes.  `progress` may be NULL.  Raises PZ_BAD_INPUT for a
 * measured time that is 50 times longer or shorter than predicted. */
struct pz_calibrated pz_calibration_validated_fit(struct pz_call *call, const struct pz_chip *chip,
                                                  const struct pz_measured *measured,
                                                  struct pz_progress *progress);

#endif
