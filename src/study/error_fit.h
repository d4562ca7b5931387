/* Fits the table of expected errors (step/expected_error.h) to validated runs.
 *
 * The squared error of a run is explained as a sum of variances, one for every feature of its
 * plan.  Variances are not negative, runs of one source count as a few at most, and the variance
 * of a feature with few runs is shrunk towards 0.  The error of a feature without a validated
 * run, and the width of the interval, follow from leaving out one source at a time: the runs of
 * that source have features that no other source has, and their errors are compared with the
 * interval that the other sources give. */
#ifndef PZ_STUDY_ERROR_FIT_H
#define PZ_STUDY_ERROR_FIT_H

#include <stdio.h>

#include "study/points.h"

/* Writes the fitted table (CSV). */
void pz_error_fit_write_csv(struct pz_call *call, const struct pz_validation_point *points,
                            uint32_t n, FILE *out);

/* Prints, for every feature: the runs that have it, their mean error, what the feature adds to
 * the expected error, and the part of the runs whose step is within the interval that is printed
 * with predictions.  The last two are from the built-in table. */
void pz_error_fit_print(struct pz_call *call, const struct pz_validation_point *points, uint32_t n,
                        FILE *out);

#endif
