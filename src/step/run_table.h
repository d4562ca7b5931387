/* Training runs as a table: one run a row, to be predicted and compared with what was measured, if
 * it was.  A model's name and a chip are enough; a column that is absent, or a cell that is empty,
 * is as the framework does it. */
#ifndef PZ_STEP_RUN_TABLE_H
#define PZ_STEP_RUN_TABLE_H

#include "chip/cold.h"
#include "core/csv.h"
#include "core/progress.h"
#include "step/predict.h"

struct pz_run_table {
  struct pz_csv csv; /* as it was read */
  struct pz_run_row *rows;
  uint32_t n_rows;
  struct pz_run_request *requests; /* by row: model, plan, chip and network */
};

/* How the rows of a table are predicted.  Zeroes stand for the usual. */
struct pz_run_terms {
  const struct pz_constants *constants; /* of the model, or NULL if the usual ones */
  /* Predict chips from their data sheets, with these constants; NULL: from their measurements. */
  const struct pz_cold *cold;
  const char *chip;    /* of rows that name none, or NULL if every row has to */
  const char *cluster; /* of rows that name none, or NULL if the usual one of the chip */
  bool no_network;     /* collectives and transfers take no time */
  unsigned threads;
  struct pz_progress *progress; /* NULL if none */
};

/* Reads the text of a table and predicts every row, in parallel.  Raises errors for unknown
 * columns and for cells that are not numbers, with their line.  A run that the model does not
 * cover is a row with a reason.  Raises PZ_STOPPED if the progress is cancelled. */
void pz_run_table_read(struct pz_call *call, const struct pz_run_terms *terms, const char *name,
                       const char *text, size_t bytes, struct pz_run_table *out);

/* Returns the job of a row; rows[row].plan is its plan. */
const struct pz_job *pz_run_table_job(const struct pz_run_table *table, uint32_t row);

/* Predicts the wanted rows again, with other constants of unmeasured chips, into step_s; 0 if a row
 * is not wanted or cannot be predicted.  The table must have been read with terms.cold. */
void pz_run_table_again(struct pz_call *call, const struct pz_run_table *table,
                        const struct pz_cold *cold, const bool *wanted, unsigned threads,
                        double *step_s);

/* Sums up the errors of a group, predicted / measured - 1: pz_errors_time() and pz_errors_memory()
 * add one error, and pz_errors_finish() turns the sums into means. */
void pz_errors_time(struct pz_errors *group, const char *id, double error);
void pz_errors_memory(struct pz_errors *group, double error);
void pz_errors_finish(struct pz_errors *group);

#endif
