/* Fits the table of expected errors (step/expected_error.h) to validated runs.  The squared error
 * of a run is a sum of variances of at least 0, one for every feature of its plan.  Runs of one
 * source count as a few at most, and the variance of a feature with few runs is shrunk towards 0.
 * The error of an unseen feature and the width of the interval follow from leaving out one source
 * at a time, whose runs are compared with the interval that the other sources give. */
#ifndef PZ_STUDY_ERROR_FIT_H
#define PZ_STUDY_ERROR_FIT_H

#include <stdio.h>

#include "study/points.h"

/* Writes the fitted table (CSV). */
void pz_error_fit_write_csv(struct pz_call *call, const struct pz_validation_point *points,
                            uint32_t n, FILE *out);

/* Prints for every feature the runs that have it, their mean error, what the feature adds to the
 * expected error, and the fraction of runs within the interval of the built-in table. */
void pz_error_fit_print(struct pz_call *call, const struct pz_validation_point *points, uint32_t n,
                        FILE *out);

#endif
