/* A table of operators that ran for seconds, with the power they took: columns op, b (or batch), m, n,
 * k; call_us, watts, sm_mhz, joules_per_call as measured (each may be absent or empty); flop for the
 * heads of attention. */
#ifndef PZ_COST_POWER_TABLE_H
#define PZ_COST_POWER_TABLE_H

#include "core/csv.h"
#include "cost/power.h"

enum { PZ_POWER_MOST_ROWS = 100000 };

/* Rows in the arena, csv->rows of them. */
PZ_NODISCARD enum pz_status pz_power_predict(const struct pz_chip *chip, const char *name,
                                             const struct pz_csv *csv, struct pz_arena *arena,
                                             struct pz_power_row **rows, struct pz_error *err);

#endif
