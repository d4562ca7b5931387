/* CSV files: a header and rows with as many cells, quoted as in RFC 4180. */
#ifndef PZ_CORE_CSV_H
#define PZ_CORE_CSV_H

#include <stdio.h>

#include "core/vec.h"

enum { PZ_CSV_MOST_COLUMNS = 256, PZ_CSV_MOST_ROWS = 1 << 20, PZ_CSV_MOST_BYTES = 64 << 20 };

struct pz_csv {
  const char *const *cells; /* cells of the header, then those of all rows */
  const uint32_t *lines;    /* line of each row in the file, counted from 1, for messages */
  uint32_t columns, rows;
};

/* Reads a table from the text of a file, whose name is for messages.  Raises PZ_BAD_INPUT, with the
 * line, for a row that has not as many cells as the header. */
struct pz_csv *pz_csv_read(struct pz_call *call, const char *name, const char *text, size_t bytes);

/* Returns the column with this header, or PZ_NONE. */
uint32_t pz_csv_column(const struct pz_csv *csv, const char *header);

/* Returns the cell of a row, which counts from 0 after the header. */
const char *pz_csv_cell(const struct pz_csv *csv, uint32_t row, uint32_t column);

/* Returns the number in a cell, or 0 if the cell is empty.  Raises PZ_BAD_INPUT, with the line, if
 * it is not a number from 0 to `most`. */
double pz_csv_real(struct pz_call *call, const char *name, const struct pz_csv *csv, uint32_t row,
                   uint32_t column, double most);

/* Writes a cell, quoted if necessary.  A text that begins like a formula, unless it is a number,
 * gets the apostrophe that keeps spreadsheets from executing it. */
void pz_csv_put(const char *text, FILE *out);

/* Returns the path itself or, if it is a folder, the sorted paths of its files that end with
 * .csv or _perf.txt.  NULL ends the list. */
const char *const *pz_csv_list(struct pz_call *call, const char *path);

#endif
