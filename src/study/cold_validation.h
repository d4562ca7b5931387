/* Runs on built chips, predicted by the chips' data sheets alone (chip/cold.h): errors by chip, and with constants that
 * were fitted on the runs of other lines of chips. */
#ifndef PZ_STUDY_COLD_VALIDATION_H
#define PZ_STUDY_COLD_VALIDATION_H

#include "study/points.h"

/* Errors by chip of points that were predicted so.  Makes *out, but for the families; the points' arena holds it.
 * PZ_NO_MEMORY is the only error. */
PZ_NODISCARD enum pz_status pz_cold_chips(const struct pz_vec *points, struct pz_cold_errors *out);

/* The families of chips, each left out of a fit: constants are fitted on runs of the others.  `tables`: struct
 * pz_run_table, read with the usual constants; `points`: their rows, one after another; e: of pz_cold_chips.  Cost: that
 * of some ten thousand predictions. */
PZ_NODISCARD enum pz_status pz_cold_families(const struct pz_vec *tables,
                                             const struct pz_vec *points, unsigned threads,
                                             struct pz_cold_errors *e, struct pz_error *err);

#endif
