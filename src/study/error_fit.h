/* The table that errors to expect are found in (step/expected_error.h), fitted to validated runs.
 *
 * Squared errors of the runs are explained by features that add up and are not negative; runs of one source count as at most a few, and
 * a feature of few runs is drawn towards nothing.  What a feature without a validated run adds, and how wide the interval
 * is, follow from leaving out one source after another: its runs have features that no other source has, and their errors
 * are compared with what the other sources say. */
#ifndef PZ_STUDY_ERROR_FIT_H
#define PZ_STUDY_ERROR_FIT_H

#include <stdio.h>

#include "study/points.h"

/* For people: of each feature the runs that have it, their mean error, what it adds to the error to expect, and the part of
 * the runs whose step is within the interval that is printed with predictions.  Both by the built-in table.  False: out of
 * memory. */
bool pz_error_fit_tell(const struct pz_validation_point *points, uint32_t n, FILE *out);

/* Writes the table (CSV).  False: out of memory. */
bool pz_error_fit_put(const struct pz_validation_point *points, uint32_t n, FILE *out);

#endif
