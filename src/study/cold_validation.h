/* Runs on built chips, predicted by the chips' data sheets alone (chip/cold.h): errors by chip, and with constants that
 * were fitted on the runs of other lines of chips. */
#ifndef PZ_STUDY_COLD_VALIDATION_H
#define PZ_STUDY_COLD_VALIDATION_H

#include "study/points.h"

/* `tables`: struct pz_run_table, read with the usual constants; `points`: their rows, one after another.  The arena holds
 * what is in *out.  Cost: some 30 times that of predicting all runs. */
PZ_NODISCARD enum pz_status pz_cold_validate(const struct pz_vec *tables,
                                             const struct pz_vec *points, unsigned threads,
                                             struct pz_arena *arena, struct pz_cold_errors *out,
                                             struct pz_error *err);

#endif
