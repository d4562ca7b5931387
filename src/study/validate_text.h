/* A validation as JSON and as CSV. */
#ifndef PZ_STUDY_VALIDATE_TEXT_H
#define PZ_STUDY_VALIDATE_TEXT_H

#include "core/json.h"
#include "study/validate.h"

/* {groups, apart, totals, plans, plan_means, broken_limits}, and with `rows` every point.  New
 * reference; NULL: out of memory. */
json_t *pz_validation_json(const struct pz_validation *v, bool rows);

/* A line a group, total and model with several plans; or, with `rows`, a line a point.  *text is the
 * caller's to pz_free.  PZ_NO_MEMORY is the only error. */
PZ_NODISCARD enum pz_status pz_validation_csv(const struct pz_validation *v, bool rows, char **text,
                                              size_t *bytes, struct pz_error *err);

/* Limits that hold now, as the text of a table for pz_limits_read: mean errors rounded up with a
 * little room, the numbers of rows that are not predicted as they are. */
PZ_NODISCARD enum pz_status pz_validation_limits(const struct pz_validation *v, char **text,
                                                 size_t *bytes, struct pz_error *err);

/* Errors of the runs of quality ok by chip line, framework and one node or several: the table behind
 * step/expected_error.h. */
PZ_NODISCARD enum pz_status pz_validation_expected(const struct pz_validation *v, char **text,
                                                   size_t *bytes, struct pz_error *err);

#endif
