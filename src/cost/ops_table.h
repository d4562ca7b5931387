/* A table of single operators, with the predicted latency of each. */
#ifndef PZ_COST_OPS_TABLE_H
#define PZ_COST_OPS_TABLE_H

#include "core/csv.h"
#include "cost/cost.h"

/* Predicted microseconds of every row (columns op, batch, m, n, k; others are left alone) as a
 * benchmark loop would measure them: repeated calls, so that data which fits in the global buffer
 * stays there.  *us lives in the arena. */
PZ_NODISCARD enum pz_status pz_ops_predict(struct pz_cost *cost, const char *name,
                                           const struct pz_csv *csv, struct pz_arena *arena,
                                           const double **us, struct pz_error *err);

#endif
