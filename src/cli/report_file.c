#include "cli/report_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/file.h"
#include "report/page.h"
#include "report/report_data.h"

enum pz_status pz_report_path(const char *dir, char *buf, size_t size, struct pz_error *err) {
  int n = snprintf(buf, size, "%s/report.html", dir);
  return n > 0 && (size_t)n < size ? PZ_OK
                                   : pz_fail(err, PZ_BAD_INPUT, "%s: the name is too long", dir);
}

enum pz_status pz_report_write(const struct pz_result *r, const char *path, const char *csv,
                               json_t **document, struct pz_error *err) {
  json_t *made = NULL;
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_report_data(r, &made, err);
  if (status == PZ_OK) status = pz_page_text("report_page", made, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  if (status == PZ_OK && csv)
    status = pz_dataset_write(json_object_get(made, "datasets"), csv, err);
  pz_free(text);
  if (status == PZ_OK && document)
    *document = made;
  else
    json_decref(made);
  return status;
}

/* ---- a page that may stand there ------------------------------------------------------------ */

static enum pz_status compare(const char *path, const char *text, size_t bytes, bool *there,
                              bool *same, struct pz_error *err) {
  char *old = NULL;
  size_t n = 0;
  *same = false;
  *there = access(path, F_OK) == 0;
  if (!*there) return PZ_OK;
  struct pz_error why = {0};
  enum pz_status status = pz_file_read(path, bytes, &old, &n, &why);
  *same = status == PZ_OK && n == bytes && memcmp(old, text, n) == 0;
  pz_free(old);
  if (status == PZ_OK || status == PZ_LIMIT) return PZ_OK; /* a larger one is another */
  return pz_fail(err, status, "%s", why.message);
}

enum pz_status pz_report_same(const struct pz_result *r, const char *path, bool *there, bool *same,
                              struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_result_text(r, PZ_RESULT_PAGE, &text, &bytes, err);
  if (status == PZ_OK) status = compare(path, text, bytes, there, same, err);
  pz_free(text);
  return status;
}

enum pz_status pz_report_update(const struct pz_result *r, const char *path, bool *written,
                                struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  bool there, same = false;
  enum pz_status status = pz_result_text(r, PZ_RESULT_PAGE, &text, &bytes, err);
  if (status == PZ_OK) status = compare(path, text, bytes, &there, &same, err);
  *written = status == PZ_OK && !same;
  if (*written) status = pz_file_output(path, NULL, 0, err);
  if (*written && status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  pz_free(text);
  return status;
}
