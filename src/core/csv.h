/* CSV files: a header line and rows with as many cells, quoted as in RFC 4180. */
#ifndef PZ_CORE_CSV_H
#define PZ_CORE_CSV_H

#include <stdio.h>

#include "core/vec.h"

enum { PZ_CSV_MOST_COLUMNS = 256, PZ_CSV_MOST_ROWS = 1 << 20, PZ_CSV_MOST_BYTES = 64 << 20 };

struct pz_csv {
  const char *const *cells; /* the header, then row by row */
  const uint32_t *lines;    /* of the rows, from 1, for messages */
  uint32_t columns, rows;
};

/* Parse; cells live in the arena.  A row with more or fewer cells than the header is an error with
 * its line. */
PZ_NODISCARD enum pz_status pz_csv_parse(const char *name, const char *text, size_t bytes,
                                         struct pz_arena *arena, struct pz_csv *out,
                                         struct pz_error *err);

/* Column of a header, or PZ_NONE. */
uint32_t pz_csv_column(const struct pz_csv *csv, const char *head);

/* Cell of row r (from 0, after the header). */
const char *pz_csv_cell(const struct pz_csv *csv, uint32_t r, uint32_t column);

/* The number in a cell, from 0 to `most`; an empty cell is 0.  Anything else is PZ_BAD_INPUT with its
 * line.  `name` stands for the file in messages. */
PZ_NODISCARD enum pz_status pz_csv_number(const char *name, const struct pz_csv *csv, uint32_t r,
                                          uint32_t column, double most, double *out,
                                          struct pz_error *err);

/* Write a cell, quoted where it must be.  A spreadsheet would take a text that begins like a formula
 * for one, and run it: unless it is a number, it gets the apostrophe that marks texts there. */
void pz_csv_put(const char *text, FILE *out);

/* Tables that a path names: the path itself, or the files of a directory that end with .csv or _perf.txt, by name; NULL
 * behind the last.  In the arena. */
PZ_NODISCARD enum pz_status pz_csv_files(const char *path, struct pz_arena *arena,
                                         const char *const **files, struct pz_error *err);

/* Like pz_csv_parse(), in the memory of the call. */
struct pz_csv *pz_csv_read(struct pz_call *call, const char *name, const char *text, size_t bytes);

/* Like pz_csv_number(). */
double pz_csv_real(struct pz_call *call, const char *name, const struct pz_csv *csv, uint32_t r,
                   uint32_t column, double most);

/* Like pz_csv_files(). */
const char *const *pz_csv_list(struct pz_call *call, const char *path);

#endif
