/* Datasets of a report: pz_dataset_new() and pz_dataset_append() build them as JSON,
 * pz_dataset_save() writes them as CSV. */
#include "report/dataset.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/csv.h"
#include "core/file.h"

enum { LONGEST_PATH = 4096 };

/* Adds an empty dataset with these columns, which commas separate, and returns its rows. */
json_t *pz_dataset_new(struct pz_call *call, json_t *datasets, const char *name,
                       const char *columns) {
  json_t *heads = json_array(), *rows = json_array();
  for (const char *column = columns; *column;) {
    size_t bytes = strcspn(column, ",");
    json_array_append_new(heads, json_stringn(column, bytes));
    column += bytes;
    if (*column == ',') column++;
  }
  json_t *dataset = json_pack("{s:o,s:o}", "columns", heads, "rows", rows);
  if (json_object_set_new(datasets, name, dataset) != 0) pz_raise_memory(call, "the report");
  return rows;
}

/* Takes over the reference to `row`.  jansson makes no row from a number that is not finite. */
void pz_dataset_append(struct pz_call *call, json_t *rows, json_t *row) {
  if (json_array_append_new(rows, row) != 0)
    pz_raise_memory(call, "the report, or a number of the run is not finite");
}

/* Appends a row of these values, in a format of json_pack(), to the rows of a dataset. */
void pz_dataset_add(struct pz_call *call, json_t *rows, const char *format, ...) {
  va_list values;
  va_start(values, format);
  json_t *row = json_vpack_ex(NULL, 0, format, values);
  va_end(values);
  pz_dataset_append(call, rows, row);
}

json_t *pz_dataset_real(double value) { return isnan(value) ? json_null() : json_real(value); }

/* ---- CSV ------------------------------------------------------------------------------------ */

/* Prints one JSON array as a row of CSV; null is an empty cell. */
static void print_csv_row(const json_t *row, FILE *out) {
  for (size_t i = 0; i < json_array_size(row); i++) {
    const json_t *value = json_array_get(row, i);
    if (i) fputc(',', out);
    if (json_is_string(value))
      pz_csv_put(json_string_value(value), out);
    else if (json_is_integer(value))
      fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
      fprintf(out, "%.9g", json_real_value(value));
    else if (json_is_boolean(value))
      fputs(json_is_true(value) ? "yes" : "no", out);
  }
  fputc('\n', out);
}

/* Returns a dataset as CSV: the names of its columns, then its rows. */
const char *pz_dataset_text(struct pz_call *call, const json_t *dataset) {
  struct pz_buffer *text = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, text);
  const json_t *rows = json_object_get(dataset, "rows");
  print_csv_row(json_object_get(dataset, "columns"), out);
  for (size_t i = 0; i < json_array_size(rows); i++) print_csv_row(json_array_get(rows, i), out);
  pz_buffer_flush(call, out);
  return text->text;
}

/* Writes each dataset to DIR/NAME.csv. */
void pz_dataset_save(struct pz_call *call, const json_t *datasets, const char *dir) {
  const char *name;
  json_t *dataset;
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    pz_raise(call, PZ_IO, "%s: cannot create the directory: %s", dir, strerror(errno));
  json_object_foreach((json_t *)(uintptr_t)datasets, name, dataset) {
    const char *path = pz_format(call, "%s/%s.csv", dir, name);
    if (strlen(path) >= LONGEST_PATH) pz_raise(call, PZ_BAD_INPUT, "%s: the path is too long", dir);
    const char *text = pz_dataset_text(call, dataset);
    pz_file_require_output(call, path, NULL, 0);
    pz_file_save(call, path, text, strlen(text));
  }
}
