/* A table of operators that ran for seconds, with the power they took: columns op, b (or batch), m, n,
 * k; call_us, watts, sm_mhz, joules_per_call as measured (each may be absent or empty); flop for the
 * heads of attention. */
#ifndef PZ_COST_POWER_TABLE_H
#define PZ_COST_POWER_TABLE_H

#include "core/csv.h"
#include "cost/power.h"

enum { PZ_POWER_MOST_ROWS = 100000 };

struct pz_power_row {
  const char *op;
  int64_t m, n, k;
  double call_s, watts, clock_hz, joules; /* as measured; 0: not */
  struct pz_work work;
  /* `sustained`: calls one after the other; `called`: not more often than they were measured to come,
   * since the host could not launch more */
  struct pz_power sustained, called;
  double throttled_s; /* latency by the calibration's fitted slower rate of long products */
};

/* Rows in the arena, csv->rows of them. */
PZ_NODISCARD enum pz_status pz_power_predict(const struct pz_chip *chip, const char *name,
                                             const struct pz_csv *csv, struct pz_arena *arena,
                                             const struct pz_power_row **rows,
                                             struct pz_error *err);

#endif
