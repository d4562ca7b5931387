/* Datasets: the tables behind the charts of a report, as JSON for the page and as CSV files.
 * Charts use no other data, so that the CSV files contain everything that is plotted. */
#ifndef PZ_REPORT_DATASET_H
#define PZ_REPORT_DATASET_H

#include "core/json.h"

/* Adds the dataset {name: {columns: [...], rows: []}} to `datasets`; `columns` are separated by
 * commas.  Returns its rows, which belong to the dataset. */
json_t *pz_dataset_new(struct pz_call *call, json_t *datasets, const char *name,
                       const char *columns);

/* Appends a row in a format of json_pack(): pz_dataset_add(call, rows, "[s,f]", name, value).
 * Raises PZ_NO_MEMORY without memory, or if a number is not finite or a text is not UTF-8. */
void pz_dataset_add(struct pz_call *call, json_t *rows, const char *format, ...);

/* Appends a row and takes over its reference.  Raises PZ_NO_MEMORY if the row is NULL. */
void pz_dataset_append(struct pz_call *call, json_t *rows, json_t *row);

/* Returns a new reference to a real number, or to null if it is NaN: a value of a row. */
json_t *pz_dataset_real(double value);

/* Returns one dataset as CSV (RFC 4180, but with line feeds).  A text that spreadsheets would
 * run as a formula begins with an apostrophe. */
const char *pz_dataset_text(struct pz_call *call, const json_t *dataset);

/* Writes every dataset to DIR/NAME.csv and creates the directory if it does not exist. */
void pz_dataset_save(struct pz_call *call, const json_t *datasets, const char *dir);

#endif
