/* Datasets of a report: pz_dataset_new() and pz_dataset_append() build them as JSON, pz_dataset_save() writes them as CSV. */
#include "report/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/csv.h"
#include "core/file.h"

json_t *pz_dataset_new(struct pz_call *call, json_t *datasets, const char *name,
                       const char *columns) {
  json_t *heads = json_array(), *rows = json_array();
  for (const char *at = columns; *at;) {
    size_t n = strcspn(at, ",");
    json_array_append_new(heads, json_stringn(at, n));
    at += n;
    if (*at == ',') at++;
  }
  json_t *dataset = json_pack("{s:o,s:o}", "columns", heads, "rows", rows);
  if (json_object_set_new(datasets, name, dataset) != 0)
    pz_raise(call, PZ_NO_MEMORY, "out of memory for the report");
  return rows;
}

json_t *pz_dataset_rows(const json_t *datasets, const char *name) {
  return json_object_get(json_object_get(datasets, name), "rows");
}

void pz_dataset_append(struct pz_call *call, json_t *rows, json_t *row) {
  if (json_array_append_new(rows, row) != 0)
    pz_raise(call, PZ_NO_MEMORY,
             "out of memory for the report, or a number of the run is not finite");
}

/* ---- CSV ------------------------------------------------------------------------------------ */

static void print_csv_row(const json_t *row, FILE *out) {
  for (size_t i = 0; i < json_array_size(row); i++) {
    const json_t *v = json_array_get(row, i);
    if (i) fputc(',', out);
    if (json_is_string(v))
      pz_csv_put(json_string_value(v), out);
    else if (json_is_integer(v))
      fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v))
      fprintf(out, "%.9g", json_real_value(v));
    else if (json_is_boolean(v))
      fputs(json_is_true(v) ? "yes" : "no", out);
  }
  fputc('\n', out);
}

const char *pz_dataset_text(struct pz_call *call, const json_t *dataset) {
  struct pz_buffer *text = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, text);
  const json_t *rows = json_object_get(dataset, "rows");
  print_csv_row(json_object_get(dataset, "columns"), out);
  for (size_t i = 0; i < json_array_size(rows); i++) print_csv_row(json_array_get(rows, i), out);
  pz_buffer_flush(call, out);
  return text->text;
}

void pz_dataset_save(struct pz_call *call, const json_t *datasets, const char *dir) {
  struct pz_error *err = pz_call_error(call);
  const char *name;
  json_t *dataset;
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    pz_raise(call, PZ_IO, "%s: cannot create the directory: %s", dir, strerror(errno));
  json_object_foreach((json_t *)(uintptr_t)datasets, name, dataset) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.csv", dir, name);
    if (n < 0 || (size_t)n >= sizeof path)
      pz_raise(call, PZ_BAD_INPUT, "%s: the path is too long", dir);
    const char *text = pz_dataset_text(call, dataset);
    pz_must(call, pz_file_output(path, NULL, 0, err));
    pz_must(call, pz_file_write(path, text, strlen(text), err));
  }
}
