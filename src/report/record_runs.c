/* Record of a table of runs with its predictions (`phaze predict --runs`). */
#include "report/records.h"

/* ---- predicted tables ----------------------------------------------------------------------- */

#define GROUP struct pz_errors
#define ERROR_ROW(f, key, meaning)                                                                 \
  PZ_ROW_AS(GROUP, f, PZ_FIELD_REAL_OR_NULL, key, "ratio", meaning "; null: no such row")
static const struct pz_field group_fields[] = {
    PZ_ROW_AS(GROUP, name, PZ_FIELD_TEXT, "group", NULL, "Group of rows, or \"all\""),
    PZ_ROW_AS(GROUP, n, PZ_FIELD_COUNT, "runs", NULL, "Rows with a measured and a predicted time"),
    PZ_ROW(GROUP, not_predicted, PZ_FIELD_COUNT, NULL, "Rows that were not predicted"),
    ERROR_ROW(mean, "mean_error", "Mean absolute error of the time"),
    ERROR_ROW(bias, "bias", "Mean error of the time"),
    ERROR_ROW(worst, "worst", "Largest error of the time"),
    PZ_ROW_AS(GROUP, n_memory, PZ_FIELD_COUNT, "memory_runs", NULL,
              "Rows with a measured and a predicted peak memory"),
    ERROR_ROW(memory_mean, "memory_mean_error", "Mean absolute error of the peak memory"),
    ERROR_ROW(memory_bias, "memory_bias", "Mean error of the peak memory"),
    ERROR_ROW(memory_worst, "memory_worst", "Largest error of the peak memory"),
};
static const struct pz_record group_record = PZ_RECORD(group_fields, GROUP);

#define RUN struct pz_run_row
/* Returns whether the plan of a row fits in memory, or null if the row was not predicted. */
static json_t *write_fits(const void *value) {
  const RUN *row = value;
  return row->predicted ? json_boolean(pz_prediction_fits(&row->p)) : json_null();
}
PZ_CODEC(fits, "true or false or null", NULL);

/* The fields of a row.  A row that was not predicted has no predicted step time and no memory. */
static const struct pz_field run_fields[] = {
    PZ_ROW(RUN, id, PZ_FIELD_TEXT, NULL, "Row of the table"),
    PZ_ROW_AS(RUN, p.step_s, PZ_FIELD_REAL_KNOWN, "step_s", "s",
              "Predicted time of a step; null: not predicted"),
    PZ_ROW_AS(RUN, p.peak_bytes, PZ_FIELD_REAL_KNOWN, "peak_bytes", "B",
              "Predicted peak memory of a device"),
    PZ_ROW_MADE("fits", &fits_codec, NULL, "The plan fits in memory"),
    PZ_ROW(RUN, reason, PZ_FIELD_CHARS_KNOWN, NULL, "Why the row was not predicted; null: it was"),
};
static const struct pz_record run_record = PZ_RECORD(run_fields, RUN);

#define RUNS struct pz_runs
static const struct pz_field runs_fields[] = {
    PZ_ROW_MANY(RUNS, groups, n_groups, PZ_FIELD_LIST, "groups", &group_record,
                "Errors of rows whose quality is ok, by group; the last of all of them"),
    PZ_ROW_MANY(RUNS, apart, n_apart, PZ_FIELD_LIST, "other_quality", &group_record,
                "Errors of the other rows"),
    PZ_ROW_MANY(RUNS, rows, n_rows, PZ_FIELD_LIST, "rows", &run_record, "Rows of the table"),
};
const struct pz_record pz_runs_record = PZ_RECORD(runs_fields, RUNS);
