/* CSV files: a header and rows with as many cells, quoted as in RFC 4180. */
#ifndef PZ_CORE_CSV_H
#define PZ_CORE_CSV_H

#include <stdio.h>

#include "core/vec.h"

enum { PZ_CSV_MOST_COLUMNS = 256, PZ_CSV_MOST_ROWS = 1 << 20, PZ_CSV_MOST_BYTES = 64 << 20 };

struct pz_csv {
  const char *const *cells; /* the header, then row by row */
  const uint32_t *lines;    /* line of each row in the file, from 1, for messages */
  uint32_t columns, rows;
};

/* Reads a table from the text of a file; `name` stands for the file in messages.  A row with
 * another number of cells than the header is an error with its line. */
struct pz_csv *pz_csv_read(struct pz_call *call, const char *name, const char *text, size_t bytes);

/* Returns the column with this header, or PZ_NONE. */
uint32_t pz_csv_column(const struct pz_csv *csv, const char *header);

/* Returns the cell of a row, which counts from 0 after the header. */
const char *pz_csv_cell(const struct pz_csv *csv, uint32_t row, uint32_t column);

/* Returns the number in a cell, from 0 to `most`; an empty cell is 0.  Anything else is an error
 * with its line. */
double pz_csv_real(struct pz_call *call, const char *name, const struct pz_csv *csv, uint32_t row,
                   uint32_t column, double most);

/* Writes a cell, quoted if necessary.  A spreadsheet would execute a text that begins like a
 * formula, so such a text, unless it is a number, gets the apostrophe that marks texts in
 * spreadsheets. */
void pz_csv_put(const char *text, FILE *out);

/* The tables that a path names, with NULL behind the last: the path itself, or the files of a
 * folder whose names end with .csv or _perf.txt, sorted. */
const char *const *pz_csv_list(struct pz_call *call, const char *path);

#endif
