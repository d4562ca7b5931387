/* Datasets: the tables behind a report's charts, as JSON for the page and as CSV files.  Charts use
 * no other data, so the CSV files hold everything that is plotted. */
#ifndef PZ_REPORT_DATASET_H
#define PZ_REPORT_DATASET_H

#include "core/json.h"

/* A new dataset in `datasets`: {name: {columns: [...], rows: []}}; `columns` with commas between.
 * Returns its rows, which belong to it; NULL when out of memory. */
json_t *pz_dataset_add(json_t *datasets, const char *name, const char *columns);

/* The rows of a dataset that was added; NULL: there is none. */
json_t *pz_dataset_rows(const json_t *datasets, const char *name);

/* Append a row, an array with a value for each column; takes over the reference.  False when it is
 * NULL or cannot be kept. */
bool pz_dataset_row(json_t *rows, json_t *row);

/* One dataset as CSV (RFC 4180, but with line feeds; a text that spreadsheets would run as a
 * formula begins with an apostrophe) into *text: malloc'd, the caller's to free. */
PZ_NODISCARD enum pz_status pz_dataset_csv(const json_t *dataset, char **text,
                                           struct pz_error *err);

/* Every dataset as DIR/NAME.csv; the directory is made if missing. */
PZ_NODISCARD enum pz_status pz_dataset_write(const json_t *datasets, const char *dir,
                                             struct pz_error *err);

#endif
