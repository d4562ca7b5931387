/* Validation: predictions beside measurements, by group, with limits that must hold.
 *
 * The shipped data (study/measured.h) are the regression test of truth: a change of the model that
 * makes a group worse than its limit is found by pz_validation's `broken`.  Sized for thousands of
 * rows. */
#ifndef PZ_STUDY_VALIDATE_H
#define PZ_STUDY_VALIDATE_H

#include "study/points.h"

/* The parts, for tests: groups, totals and orders of points that are there; limits from a CSV text
 * with the columns of pz_limit_heads (an empty cell: no limit). */
extern const char *const pz_limit_heads[PZ_LIMITEDS + 1];
PZ_NODISCARD enum pz_status pz_validation_make(const struct pz_validation_point *points, uint32_t n,
                                               struct pz_arena *arena, struct pz_validation *out);
PZ_NODISCARD enum pz_status pz_limits_read(const char *name, const char *text, size_t bytes,
                                           struct pz_arena *arena, struct pz_validation *out,
                                           struct pz_error *err);

/* The limit of a group, total, model or mean; NaN: none. */
double pz_limit_of(const struct pz_validation *v, const char *name, enum pz_limited what);

/* Compare; fills `broken`.  A limit for a group that is not there is broken. */
PZ_NODISCARD enum pz_status pz_limits_check(struct pz_arena *arena, struct pz_validation *v);

#endif
