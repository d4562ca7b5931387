/* Training runs as a table: one run a row, to be predicted and compared with what was measured, if it
 * was.  A model's name and a chip are enough; a column that is absent, or a cell that is empty, is as the
 * framework does it. */
#ifndef PZ_STEP_RUN_TABLE_H
#define PZ_STEP_RUN_TABLE_H

#include "core/csv.h"
#include "step/predict.h"

/* What was asked and found of one row. */
struct pz_run_row {
  const char *id, *group, *quality;
  double measured_s, measured_bytes; /* 0: not told */
  bool predicted;
  char reason[200]; /* why not */
  int64_t devices;
  double hbm_bytes; /* of a device */
  struct pz_prediction p;
  const struct pz_plan *plan; /* that was predicted */
};

struct pz_run_table {
  struct pz_csv csv; /* as it was read */
  struct pz_run_row *rows;
  uint32_t n_rows;
};

/* Read the text of a table and predict every row, on all threads.  Columns that are not known, and
 * values that are no numbers, are errors with their line; a run that the model does not cover is a
 * row with a reason.  The arena holds the table. */
PZ_NODISCARD enum pz_status pz_run_table_read(const char *name, const char *text, size_t bytes,
                                              unsigned threads, struct pz_arena *arena,
                                              struct pz_run_table *out, struct pz_error *err);

/* The same with other constants of the model. */
PZ_NODISCARD enum pz_status pz_run_table_with(const struct pz_constants *constants,
                                              const char *name, const char *text, size_t bytes,
                                              unsigned threads, struct pz_arena *arena,
                                              struct pz_run_table *out, struct pz_error *err);

/* Is it a column of results, which `predict --csv` writes?  A table that has them already is read without them. */
bool pz_run_table_is_result(const char *column);

#endif
