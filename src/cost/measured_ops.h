/* Measured operators with their times: tables of ops_table.h with a column kernel_us, or of
 * silicon_table.h. */
#ifndef PZ_COST_MEASURED_OPS_H
#define PZ_COST_MEASURED_OPS_H

#include "cost/ops_table.h"

struct pz_measured {
  const char *name; /* name of the table or directory in messages, which the caller owns */
  const struct pz_ops_row *rows;
  uint32_t n;
  const char *const *skipped; /* sentences about the files of a directory that are no tables */
  uint32_t n_skipped;
};

/* Reads the rows of one table.  A table without rows or with more than PZ_OPS_MOST_ROWS is an
 * error, and so is a time that is not between 0.01 us and 1000 s. */
struct pz_measured pz_measured_read_csv(struct pz_call *call, const char *name,
                                        const struct pz_csv *csv);

/* Reads a table, or all tables of a directory (pz_csv_list), of which it skips files that are not
 * regular or have no rows.  More than PZ_OPS_MOST_ROWS_IN_ALL rows are an error. */
struct pz_measured pz_measured_load_path(struct pz_call *call, const char *path);

/* Returns the rows that are of this chip, can run on it, and are predicted.  A row is of the chip
 * if it names it or no chip, or if all rows name the same chip.  No rows are an error. */
struct pz_measured pz_measured_select_chip(struct pz_call *call, const struct pz_measured *measured,
                                           const struct pz_chip *chip);

#endif
