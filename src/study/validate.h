/* Validation: compares predictions with measurements, by group, and checks limits on the errors.
 * The shipped data (study/measured.h) are the regression test of the model's accuracy: a change
 * that makes a group worse than its limit appears in `broken` of struct pz_validation.
 * pz_validate() of phaze/phaze.h does all of it; the parts below are for tests. */
#ifndef PZ_STUDY_VALIDATE_H
#define PZ_STUDY_VALIDATE_H

#include "study/points.h"

/* Returns the groups, totals and plan orders of points.  The rest of the result is empty. */
struct pz_validation pz_validation_summarize(struct pz_call *call,
                                             const struct pz_validation_point *points, uint32_t n);

/* Column titles of a table of limits. */
extern const char *const pz_limit_heads[PZ_LIMITEDS + 1];

/* Reads limits from a CSV text with the columns pz_limit_heads; empty cells set none. */
void pz_limits_parse(struct pz_call *call, const char *name, const char *text, size_t bytes,
                     struct pz_validation *validation);

/* Finds the broken limits of a validation.  A limit on a group that does not exist is broken. */
void pz_limits_compare(struct pz_call *call, struct pz_validation *validation);

/* Returns the limit of a group, a total, a model or a mean, or NaN if it has none. */
double pz_limit_of(const struct pz_validation *validation, const char *name, enum pz_limited what);

#endif
