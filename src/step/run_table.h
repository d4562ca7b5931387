/* Tables of training runs: each row is a run that is predicted, and compared with its
 * measurement if there is one.  A model's name and a chip are enough.  Absent columns and empty
 * cells stand for the framework's defaults. */
#ifndef PZ_STEP_RUN_TABLE_H
#define PZ_STEP_RUN_TABLE_H

#include "chip/cold.h"
#include "core/csv.h"
#include "core/progress.h"
#include "step/predict.h"

struct pz_run_table {
  struct pz_csv csv; /* the text of the table */
  struct pz_run_row *rows;
  uint32_t n_rows;
  struct pz_run_request *requests; /* model, plan, chip and network of each row */
};

/* How the rows of a table are predicted.  A zero means the default. */
struct pz_run_terms {
  const struct pz_constants *constants; /* constants of the model, or NULL for the defaults */
  /* Constants to predict chips from their data sheets, or NULL to use their measurements. */
  const struct pz_cold *cold;
  const char *chip;    /* for rows without a chip, or NULL if each row must have one */
  const char *cluster; /* for rows without a cluster, or NULL for the standard one of the chip */
  bool no_network;     /* collectives and transfers take no time */
  unsigned threads;
  struct pz_progress *progress; /* may be NULL */
};

/* Reads the text of a table and predicts every row, in parallel.  Raises errors for unknown
 * columns and for cells that are not numbers, with their line.  A run that the model does not
 * cover is a row with a reason.  Raises PZ_STOPPED if the progress is cancelled. */
void pz_run_table_read(struct pz_call *call, const struct pz_run_terms *terms, const char *name,
                       const char *text, size_t bytes, struct pz_run_table *out);

/* Returns the job of a row; rows[row].plan is its plan. */
const struct pz_job *pz_run_table_job(const struct pz_run_table *table, uint32_t row);

/* Predicts the rows with a true `wanted` again, with other constants of unmeasured chips.  Sets
 * step_s of a row to 0 if it is not wanted or cannot be predicted.  Requires terms.cold. */
void pz_run_table_again(struct pz_call *call, const struct pz_run_table *table,
                        const struct pz_cold *chip_constants, const bool *wanted, unsigned threads,
                        double *step_s);

/* Sums up the errors of a group, predicted / measured - 1: pz_errors_time() and pz_errors_memory()
 * add one error, and pz_errors_finish() turns the sums into means. */
void pz_errors_time(struct pz_errors *group, const char *id, double error);
void pz_errors_memory(struct pz_errors *group, double error);
void pz_errors_finish(struct pz_errors *group);

#endif
