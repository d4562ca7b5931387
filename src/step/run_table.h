/* Training runs as a table: one run a row, to be predicted and compared with what was measured, if it
 * was.  A model's name and a chip are enough; a column that is absent, or a cell that is empty, is as the
 * framework does it. */
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
  struct pz_run_request *requests; /* of the rows, as they were asked */
};

/* Other than as usual. */
struct pz_run_terms {
  const struct pz_constants *constants; /* of the model; NULL: as usual */
  const struct pz_cold
      *cold; /* chips by their data sheets, with these constants; NULL: as they were measured */
  const char *chip, *cluster; /* of rows that name none; NULL: they must, or need none */
  bool no_network;            /* collectives and transfers take no time */
  unsigned threads;
  struct pz_progress *progress; /* NULL: none */
};

/* Read the text of a table and predict every row, on all threads.  Columns that are not known, and
 * values that are no numbers, are errors with their line; a run that the model does not cover is a
 * row with a reason.  Raises PZ_STOPPED when cancelled. */
void pz_run_table_read(struct pz_call *call, const struct pz_run_terms *terms, const char *name,
                       const char *text, size_t bytes, struct pz_run_table *out);

/* What a row asks for; its plan is the row's. */
const struct pz_job *pz_run_table_job(const struct pz_run_table *t, uint32_t row);

/* Steps of the rows that are wanted, with other constants of chips that nobody measured: the table was read on such
 * terms.  0: not predicted, or not wanted. */
void pz_run_table_again(struct pz_call *call, const struct pz_run_table *t,
                        const struct pz_cold *cold, const bool *wanted, unsigned threads,
                        double *step_s);

/* Errors of a group, predicted over measured minus 1: one of the time, one of the memory added to the sums; then means made
 * of these. */
void pz_errors_time(struct pz_errors *g, const char *id, double e);
void pz_errors_memory(struct pz_errors *g, double e);
void pz_errors_finish(struct pz_errors *g);

#endif
