/* Aligned text tables for the terminal.  A table wider than the terminal is split into parts, each
 * with the first column. */
#ifndef PZ_REPORT_TABLE_H
#define PZ_REPORT_TABLE_H

#include <stdio.h>

#include "core/vec.h"

enum { PZ_TABLE_MOST_COLUMNS = 16 };

struct pz_table {
  struct pz_arena *arena;
  struct pz_vec cells; /* const char *, row by row */
  int columns;
  bool right[PZ_TABLE_MOST_COLUMNS];
  enum pz_status status;
};

/* `heads` are column titles, NULL-ended; one that begins with '>' is right-aligned. */
void pz_table_init(struct pz_table *t, struct pz_arena *arena, const char *const *heads);

/* Add one cell; rows fill from left to right. */
void pz_table_cell(struct pz_table *t, const char *format, ...) PZ_PRINTF(2, 3);

/* Columns on a terminal that the rows take when printed without indent. */
int pz_table_width(const struct pz_table *t);

/* A large number in full with commas, a small one with a decimal. */
void pz_table_number(struct pz_table *t, double v);

/* Print; every row starts with `indent` spaces.  PZ_NO_MEMORY if a cell could not be kept. */
PZ_NODISCARD enum pz_status pz_table_print(const struct pz_table *t, int indent, FILE *out);

#endif
