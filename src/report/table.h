/* Aligned text tables for the terminal.  Create a table with pz_table_new(), add its cells row
 * by row, and print it with pz_table_print().  A table that is wider than the terminal is
 * printed in several parts, each with the first column. */
#ifndef PZ_REPORT_TABLE_H
#define PZ_REPORT_TABLE_H

#include <stdio.h>

#include "core/vec.h"

enum { PZ_TABLE_MOST_COLUMNS = 16 };

/* A table belongs to the call that made it. */
struct pz_table {
  struct pz_call call;
  struct pz_vec cells; /* const char *, row by row; the first row has the column titles */
  int columns;
  bool right_aligned[PZ_TABLE_MOST_COLUMNS];
};

/* Makes a table with titles that '|' separates, of which those that begin with '>' are
 * right-aligned: pz_table_new(call, "model|>layers"). */
struct pz_table *pz_table_new(struct pz_call *call, const char *titles);

/* Like pz_table_new(), with the titles as a list that ends with NULL. */
struct pz_table *pz_table_with(struct pz_call *call, const char *const *titles);

/* Adds one cell; rows are filled from left to right. */
void pz_table_cell(struct pz_table *table, const char *format, ...) PZ_PRINTF(2, 3);

/* Adds cells that '|' separates in the format: pz_table_cells(table, "%s|%d", name, n). */
void pz_table_cells(struct pz_table *table, const char *format, ...) PZ_PRINTF(2, 3);

/* Adds `n` cells with a dash, for values that are unknown. */
void pz_table_dashes(struct pz_table *table, int n);

/* Adds a cell with the formatted text if the value is known, otherwise a dash. */
void pz_table_known(struct pz_table *table, bool known, const char *format, ...) PZ_PRINTF(3, 4);

/* Adds a number: from 10,000 on in full with commas, otherwise with four digits. */
void pz_table_number(struct pz_table *table, double value);

/* Returns the width of the printed rows without indentation, in terminal columns. */
int pz_table_width(const struct pz_table *table);

/* Prints the table; every row begins with `indent` spaces. */
void pz_table_print(const struct pz_table *table, int indent, FILE *out);

#endif
