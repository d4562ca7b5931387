/* Sheets: the tables behind a report's charts, as JSON for the page and as CSV files.  Charts use
 * no other data, so the CSV files hold everything that is plotted. */
#ifndef PZ_REPORT_SHEET_H
#define PZ_REPORT_SHEET_H

#include "core/json.h"

/* A new sheet in `sheets`: {name: {columns: [...], rows: []}}; `columns` with commas between.
 * Returns its rows, which belong to it; NULL when out of memory. */
json_t *pz_sheet_add(json_t *sheets, const char *name, const char *columns);

/* The rows of a sheet that was added; NULL: there is none. */
json_t *pz_sheet_rows(const json_t *sheets, const char *name);

/* Append a row, an array with a value for each column; takes over the reference.  False when it is
 * NULL or cannot be kept. */
bool pz_sheet_row(json_t *rows, json_t *row);

/* One sheet as CSV (RFC 4180, but with line feeds; a text that spreadsheets would run as a formula
 * begins with an apostrophe) into *text: malloc'd, the caller's to free. */
PZ_NODISCARD enum pz_status pz_sheet_csv(const json_t *sheet, char **text, struct pz_error *err);

/* Every sheet as DIR/NAME.csv; the directory is made if missing. */
PZ_NODISCARD enum pz_status pz_sheet_write(const json_t *sheets, const char *dir,
                                           struct pz_error *err);

#endif
