#include "report/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"

json_t *pz_dataset_add(json_t *datasets, const char *name, const char *columns) {
  json_t *heads = json_array(), *rows = json_array();
  for (const char *at = columns; *at; at += strcspn(at, ","), at += *at == ',')
    json_array_append_new(heads, json_stringn(at, strcspn(at, ",")));
  json_t *dataset = json_pack("{s:o,s:o}", "columns", heads, "rows", rows);
  return dataset && json_object_set_new(datasets, name, dataset) == 0 ? rows : NULL;
}

json_t *pz_dataset_rows(const json_t *datasets, const char *name) {
  return json_object_get(json_object_get(datasets, name), "rows");
}

bool pz_dataset_row(json_t *rows, json_t *row) { return json_array_append_new(rows, row) == 0; }

/* ---- CSV ------------------------------------------------------------------------------------ */

static void put_cell(const json_t *v, FILE *out) {
  if (json_is_string(v))
    pz_csv_put(json_string_value(v), out);
  else if (json_is_integer(v))
    fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
  else if (json_is_real(v))
    fprintf(out, "%.9g", json_real_value(v));
  else if (json_is_boolean(v))
    fputs(json_is_true(v) ? "yes" : "no", out);
}

static void put_row(const json_t *row, FILE *out) {
  for (size_t i = 0; i < json_array_size(row); i++) {
    if (i) fputc(',', out);
    put_cell(json_array_get(row, i), out);
  }
  fputc('\n', out);
}

enum pz_status pz_dataset_csv(const json_t *dataset, char **text, struct pz_error *err) {
  struct pz_buffer b = {0};
  const json_t *rows = json_object_get(dataset, "rows");
  FILE *out = pz_buffer_stream(&b);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for a table");
  put_row(json_object_get(dataset, "columns"), out);
  for (size_t i = 0; i < json_array_size(rows); i++) put_row(json_array_get(rows, i), out);
  if (pz_buffer_close(out)) {
    *text = b.text;
    return PZ_OK;
  }
  pz_free(b.text);
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for a table");
}

static enum pz_status write_one(const json_t *dataset, const char *name, const char *dir,
                                struct pz_error *err) {
  char path[4096], *text = NULL;
  int n = snprintf(path, sizeof path, "%s/%s.csv", dir, name);
  if (n < 0 || (size_t)n >= sizeof path)
    return pz_fail(err, PZ_BAD_INPUT, "%s: the path is too long", dir);
  enum pz_status status = pz_dataset_csv(dataset, &text, err);
  if (status == PZ_OK && text) status = pz_file_output(path, NULL, 0, err);
  if (status == PZ_OK && text) status = pz_file_write(path, text, strlen(text), err);
  pz_free(text);
  return status;
}

enum pz_status pz_dataset_write(const json_t *datasets, const char *dir, struct pz_error *err) {
  const char *name;
  json_t *dataset;
  enum pz_status status = PZ_OK;
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return pz_fail(err, PZ_IO, "%s: cannot create the directory: %s", dir, strerror(errno));
  json_object_foreach((json_t *)(uintptr_t)datasets, name, dataset) if (status == PZ_OK) status =
      write_one(dataset, name, dir, err);
  return status;
}
