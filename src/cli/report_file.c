/* Writing reports, and comparing a report that exists with the one that a run gives. */
#include "cli/report_file.h"

#include <string.h>
#include <unistd.h>

#include "cli/owned.h"
#include "core/file.h"
#include "report/page.h"
#include "report/report_data.h"

enum { LONGEST_PATH = 4096 };

const char *pz_report_path(struct pz_call *call, const char *dir) {
  const char *path = pz_format(call, "%s/report.html", dir);
  if (strlen(path) >= LONGEST_PATH) pz_raise(call, PZ_BAD_INPUT, "%s: the name is too long", dir);
  return path;
}

void pz_report_complete(struct pz_call *call, struct pz_run *run) {
  pz_must(call, pz_run_detail(run, pz_call_error(call)));
  if (!pz_run_result(run)->training_detail)
    pz_must(call, pz_run_compare(run, NULL, pz_call_error(call)));
}

json_t *pz_report_write(struct pz_call *call, const struct pz_result *r, const char *path,
                        const char *csv) {
  json_t *document = pz_report_document(call, r);
  struct pz_buffer *page = pz_page_html(call, "report_page", document);
  pz_file_save(call, path, page->text, page->bytes);
  if (csv) pz_dataset_save(call, json_object_get(document, "datasets"), csv);
  return document;
}

/* ---- a report that exists ------------------------------------------------------------------- */

struct page {
  char *text;
  size_t bytes;
};

static struct page page_of_result(struct pz_call *call, const struct pz_result *r) {
  struct page page = {NULL, 0};
  pz_must(call, pz_result_text(r, PZ_RESULT_PAGE, &page.text, &page.bytes, pz_call_error(call)));
  pz_defer(call, pz_free_text, page.text);
  return page;
}

static bool file_has_text(struct pz_call *call, const char *path, const struct page *page,
                          bool *exists) {
  char *old = NULL;
  size_t n = 0;
  struct pz_error why = {0};
  *exists = access(path, F_OK) == 0;
  if (!*exists) return false;
  enum pz_status status = pz_file_read(path, page->bytes, &old, &n, &why);
  if (status == PZ_LIMIT) return false; /* the file is larger than the page */
  if (status != PZ_OK) pz_raise_again(call, &why);
  pz_defer(call, pz_free_text, old);
  return n == page->bytes && memcmp(old, page->text, n) == 0;
}

bool pz_report_matches(struct pz_call *call, const struct pz_result *r, const char *path,
                       bool *exists) {
  struct page page = page_of_result(call, r);
  return file_has_text(call, path, &page, exists);
}

bool pz_report_update(struct pz_call *call, const struct pz_result *r, const char *path) {
  struct page page = page_of_result(call, r);
  bool exists;
  if (file_has_text(call, path, &page, &exists)) return false;
  pz_file_require_output(call, path, NULL, 0);
  pz_file_save(call, path, page.text, page.bytes);
  return true;
}
