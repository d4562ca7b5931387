/* Errors of "cold" predictions: runs on existing chips that are predicted by the data sheet of
 * the chip alone (chip/cold.h).
 *
 * Two questions are answered: how large are the errors on each chip, and how large are they on a
 * family of chips if the constants are fitted on all other families. */
#ifndef PZ_STUDY_COLD_VALIDATION_H
#define PZ_STUDY_COLD_VALIDATION_H

#include "study/points.h"

/* Errors by chip, of points that were predicted by data sheets.  The families are left empty. */
struct pz_cold_errors pz_cold_chip_errors(struct pz_call *call, const struct pz_vec *points);

/* Fills the families of `errors`, a result of pz_cold_chip_errors().  `points` are the rows of
 * `tables` (struct pz_run_table) in order.  It costs about ten thousand predictions. */
void pz_cold_leave_out_families(struct pz_call *call, const struct pz_vec *tables,
                                const struct pz_vec *points, unsigned threads,
                                struct pz_cold_errors *errors);

#endif
