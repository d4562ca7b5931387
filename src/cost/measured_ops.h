/* Operators with what each took: tables of cost/ops_table.h with a column kernel_us, and those of
 * cost/silicon_table.h. */
#ifndef PZ_COST_MEASURED_OPS_H
#define PZ_COST_MEASURED_OPS_H

#include "cost/ops_table.h"

struct pz_measured {
  const char *name; /* for messages; the caller's */
  const struct pz_ops_row *rows;
  uint32_t n;
  const char *const *skipped; /* of a directory: files that are no tables, and why */
  uint32_t n_skipped;
};

/* PZ_BAD_INPUT for what pz_ops_read and pz_silicon_read refuse, no rows, more than PZ_OPS_MOST_ROWS,
 * and times that are not from 0.01 us to 1000 s.  *out lives in the arena. */
PZ_NODISCARD enum pz_status pz_measured_read(const char *name, const struct pz_csv *csv,
                                             struct pz_arena *arena, struct pz_measured *out,
                                             struct pz_error *err);

/* The rows of a table, or of all tables of a directory (pz_csv_files), in which what is no regular file and tables without rows are skipped.  PZ_BAD_INPUT
 * also for more than PZ_OPS_MOST_ROWS_IN_ALL. */
PZ_NODISCARD enum pz_status pz_measured_load(const char *path, struct pz_arena *arena,
                                             struct pz_measured *out, struct pz_error *err);

/* Those rows of m that are of this chip, which can run them, and predicted: rows that name it or no chip, or all where
 * every row names the same one.  PZ_BAD_INPUT where there are none.  *out lives in the arena. */
PZ_NODISCARD enum pz_status pz_measured_of_chip(const struct pz_measured *m,
                                                const struct pz_chip *chip, struct pz_arena *arena,
                                                struct pz_measured *out, struct pz_error *err);

#endif
