/* Reads measured operators from a table or a directory, whichever of the two kinds of tables they
 * are in, and selects the rows of one chip. */
#include "cost/measured_ops.h"

#include <string.h>

#include "core/file.h"
#include "cost/silicon_table.h"

/* Returns the rows of one table, of either kind. */
struct pz_measured pz_measured_read_csv(struct pz_call *call, const char *name,
                                        const struct pz_csv *csv) {
  if (csv->rows == 0 || csv->rows > PZ_OPS_MOST_ROWS)
    pz_raise(call, PZ_BAD_INPUT, "%s: %u rows; accepted: 1 to %d", name, csv->rows,
             PZ_OPS_MOST_ROWS);
  struct pz_measured measured = {.name = name, .n = csv->rows};
  if (pz_silicon_is(csv)) {
    measured.rows = pz_silicon_read_csv(call, name, csv);
    return measured;
  }
  /* The other kind of tables has the columns op and kernel_us. */
  uint32_t column = pz_csv_column(csv, "kernel_us");
  char list[700];
  if (column == PZ_NONE)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:1: no column 'kernel_us'; accepted: a table with op, batch, m, n, k, "
             "kernel_us; or of %s",
             name, pz_silicon_accepted(list, sizeof list));
  struct pz_ops_row *rows = pz_ops_read_csv(call, name, csv);
  for (uint32_t i = 0; i < csv->rows; i++) {
    const struct pz_ops_cell cell = {name, csv->lines[i], "kernel_us", pz_csv_cell(csv, i, column)};
    rows[i].us = pz_ops_read_time(call, &cell, false);
  }
  measured.rows = rows;
  return measured;
}

/* Reads a CSV file into the call's arena. */
static const struct pz_csv *load_csv(struct pz_call *call, const char *path) {
  size_t bytes;
  char *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
  const struct pz_csv *csv = pz_csv_read(call, path, text, bytes);
  pz_close(call, text);
  return csv;
}

/* Returns the rows of a table, or of all tables of a directory. */
struct pz_measured pz_measured_load_path(struct pz_call *call, const char *path) {
  if (!pz_file_is_directory(path)) return pz_measured_read_csv(call, path, load_csv(call, path));
  struct pz_vec rows, skipped;
  pz_vec_init(&rows, call->arena, sizeof(struct pz_ops_row));
  pz_vec_init(&skipped, call->arena, sizeof(const char *));
  for (const char *const *file = pz_csv_list(call, path); *file; file++) {
    bool is_regular = pz_file_is_regular(*file);
    const struct pz_csv *csv = is_regular ? load_csv(call, *file) : NULL;
    if (!csv || csv->rows == 0) {
      const char *note = pz_format(call, "%s is skipped: %s", *file,
                                   csv ? "it has no rows" : "it is not a regular file");
      pz_append(call, &skipped, &note);
      continue;
    }
    struct pz_measured table = pz_measured_read_csv(call, *file, csv);
    if (rows.n + table.n > PZ_OPS_MOST_ROWS_IN_ALL)
      pz_raise(call, PZ_BAD_INPUT, "%s: more than %d rows in all tables", *file,
               PZ_OPS_MOST_ROWS_IN_ALL);
    for (uint32_t i = 0; i < table.n; i++) pz_append(call, &rows, &table.rows[i]);
  }
  if (rows.n == 0)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: no table of operators; accepted: files with rows that end with .csv or "
             "_perf.txt",
             path);
  return (struct pz_measured){path, rows.items, rows.n, skipped.items, skipped.n};
}

/* Returns the rows that are of a chip, can run on it, and are predicted. */
struct pz_measured pz_measured_select_chip(struct pz_call *call, const struct pz_measured *measured,
                                           const struct pz_chip *chip) {
  bool all_name_one_chip = true;
  for (uint32_t i = 0; i < measured->n; i++) {
    const char *first_chip = measured->rows[0].chip, *row_chip = measured->rows[i].chip;
    if (!first_chip || !row_chip || strcmp(row_chip, first_chip) != 0) all_name_one_chip = false;
  }
  struct pz_ops_row *rows = pz_alloc(call, measured->n, sizeof *rows);
  uint32_t n = 0;
  for (uint32_t i = 0; i < measured->n; i++) {
    const struct pz_ops_row *row = &measured->rows[i];
    bool is_of_chip = all_name_one_chip || !row->chip || strcmp(row->chip, chip->name) == 0;
    bool is_usable = !row->reason && !row->slow && !pz_ops_not_on(chip, row);
    if (is_of_chip && is_usable) rows[n++] = *row;
  }
  if (n == 0)
    pz_raise(call, PZ_BAD_INPUT, "%s: none of %u rows is of %s and predicted", measured->name,
             measured->n, chip->name);
  return (struct pz_measured){.name = measured->name, .rows = rows, .n = n};
}
