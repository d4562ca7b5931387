#include "cli/report_file.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/file.h"
#include "report/page.h"
#include "report/report_data.h"

enum pz_status pz_report_path(const char *dir, char *buf, size_t size, struct pz_error *err) {
  int n = snprintf(buf, size, "%s/report.html", dir);
  return n > 0 && (size_t)n < size ? PZ_OK
                                   : pz_fail(err, PZ_BAD_INPUT, "%s: the name is too long", dir);
}

static enum pz_status write_files(const json_t *document, const char *path, const char *csv,
                                  struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_page_text("template", document, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  pz_free(text);
  if (status != PZ_OK || !csv) return status;
  return pz_dataset_write(json_object_get(document, "datasets"), csv, err);
}

enum pz_status pz_report_write(const struct pz_result *r, const char *path, const char *csv,
                               json_t **document, struct pz_error *err) {
  json_t *made = NULL;
  enum pz_status status = pz_report_data(r, &made, err);
  if (status == PZ_OK) status = write_files(made, path, csv, err);
  if (status == PZ_OK && document)
    *document = made;
  else
    json_decref(made);
  return status;
}
