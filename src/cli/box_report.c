#include "cli/box_report.h"

#include <string.h>
#include <unistd.h>

#include "box/box_details.h"
#include "cli/chip_bill.h"
#include "core/alloc.h"
#include "core/file.h"
#include "report/dataset.h"
#include "report/page.h"

/* ---- datasets ------------------------------------------------------------------------------- */

/* A list of flat objects as a table: in each row what the columns name. */
static bool tell_list(json_t *datasets, const char *name, const char *columns, const json_t *list) {
  json_t *rows = pz_dataset_add(datasets, name, columns);
  bool good = rows && json_is_array(list);
  for (size_t i = 0; good && i < json_array_size(list); i++) {
    const json_t *from = json_array_get(list, i);
    json_t *row = json_array();
    for (const char *at = columns; row && *at;) {
      size_t n = strcspn(at, ",");
      json_t *v = json_object_getn(from, at, n);
      if (json_array_append_new(row, v ? json_incref(v) : json_null()) != 0) break;
      at += n + (at[n] == ',');
    }
    good = pz_dataset_row(rows, row);
  }
  return good;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && strcmp(text + n - k, end) == 0;
}

/* Which sum of a bill a part belongs to; NULL: it is none. */
static const char *sum_of(const char *key) {
  if (ends_with(key, "_mm2")) return strcmp(key, "area_mm2") ? "area" : NULL;
  if (ends_with(key, "_watts")) return "watts";
  return ends_with(key, "_dollars") ? "dollars" : NULL;
}

static bool tell_bill(json_t *rows, const char *role, const struct pz_chip *c) {
  json_t *bill = pz_bill_json(c), *value;
  const char *key;
  bool good = bill != NULL;
  json_object_foreach(bill, key, value) {
    const char *sum = sum_of(key);
    if (!good || !sum || !(json_number_value(value) > 0)) continue;
    good = pz_dataset_row(
        rows, json_pack("[s,s,s,s,f]", role, c->name, sum, key, json_number_value(value)));
  }
  json_decref(bill);
  return good;
}

static enum pz_status tell_bills(const struct pz_box_run *r, json_t *datasets,
                                 struct pz_error *err) {
  struct pz_chip best, reference;
  json_t *rows = pz_dataset_add(datasets, "bills", "role,chip,sum,part,amount");
  enum pz_status status = pz_box_reference_chip(&reference, err);
  if (status != PZ_OK) return status;
  pz_box_lo(&r->in->space, &r->best, &best);
  return rows && tell_bill(rows, "best", &best) && tell_bill(rows, "reference", &reference)
             ? PZ_OK
             : pz_fail(err, PZ_NO_MEMORY, "out of memory for the report");
}

/* Parts of each model's step on the best chip. */
static bool tell_parts(const json_t *result, json_t *datasets) {
  const json_t *models = json_object_get(json_object_get(result, "best"), "models");
  json_t *rows = pz_dataset_add(datasets, "parts", "model,part,seconds"), *value;
  const char *key;
  bool good = rows;
  for (size_t i = 0; good && i < json_array_size(models); i++) {
    const json_t *m = json_array_get(models, i);
    json_object_foreach(json_object_get(m, "parts"), key, value) if (good) good =
        pz_dataset_row(rows, json_pack("[O,s,O]", json_object_get(m, "model"), key, value));
  }
  return good;
}

/* The result, without what is told elsewhere and the values of the space. */
static json_t *search_json(const json_t *result) {
  json_t *o = json_deep_copy(result), *inputs = json_object_get(o, "inputs");
  json_t *space = json_object_get(inputs, "space");
  json_object_set(inputs, "space", json_object_get(space, "name"));
  return o;
}

static bool tell_details(const json_t *details, json_t *datasets) {
  return tell_list(datasets, "sensitivity", "axis,from,to,change,breaks,area_mm2,watts,dollars",
                   json_object_get(details, "sensitivity")) &&
         tell_list(datasets, "chips",
                   "chip,role,model,step_s,samples_per_s,mfu,mfu_conventional,watts,joules_per_"
                   "sample,value,area_mm2,"
                   "peak_watts,dollars,plan",
                   json_object_get(details, "chips")) &&
         tell_list(datasets, "front",
                   "chip,throughput,area_mm2,watts,dollars,limit_watts,limit_dollars,gap",
                   json_object_get(details, "front")) &&
         tell_list(datasets, "operators",
                   "model,layer,operator,direction,flop,hbm_bytes,seconds,bound,times",
                   json_object_get(details, "operators"));
}

static enum pz_status make_data(struct pz_box_run *r, unsigned threads, json_t **out,
                                struct pz_error *err) {
  json_t *details = NULL, *datasets = json_object();
  r->in->options.threads = threads;
  enum pz_status status = pz_box_details(&r->in->space, &r->in->options, &r->best, &details, err);
  if (status == PZ_OK) status = tell_bills(r, datasets, err);
  if (status == PZ_OK && !(tell_details(details, datasets) && tell_parts(r->result, datasets)))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the report");
  if (status == PZ_OK) {
    *out = json_pack("{s:s,s:o,s:O}", "version", pz_version(), "search", search_json(r->result),
                     "datasets", datasets);
    if (!*out) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the report");
  }
  json_decref(datasets);
  json_decref(details);
  return status;
}

enum pz_status pz_box_report_data(const char *dir, unsigned threads, json_t **out,
                                  struct pz_error *err) {
  struct pz_box_run r;
  enum pz_status status = pz_box_run_read(dir, &r, err);
  if (status == PZ_OK) status = make_data(&r, threads, out, err);
  pz_box_run_release(&r);
  return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

enum pz_status pz_box_report_write(const json_t *data, const char *path, const char *csv,
                                   struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_page_text("box_page", data, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  pz_free(text);
  if (status != PZ_OK || !csv) return status;
  return pz_dataset_write(json_object_get(data, "datasets"), csv, err);
}

static enum pz_status compare(const char *path, const json_t *data, bool *same,
                              struct pz_error *err) {
  char *text = NULL, *old = NULL;
  size_t bytes = 0, n = 0;
  enum pz_status status = pz_page_text("box_page", data, &text, &bytes, err);
  if (status == PZ_OK) {
    struct pz_error why = {0};
    status = pz_file_read(path, bytes, &old, &n, &why);
    *same = status == PZ_OK && n == bytes && memcmp(old, text, n) == 0;
    if (status == PZ_LIMIT) status = PZ_OK; /* a larger one is another */
    if (status != PZ_OK) (void)pz_fail(err, status, "%s", why.message);
  }
  pz_free(old);
  pz_free(text);
  return status;
}

enum pz_status pz_box_report_same(const char *dir, const char *path, unsigned threads, bool *there,
                                  bool *same, struct pz_error *err) {
  json_t *data = NULL;
  *same = false;
  *there = access(path, F_OK) == 0;
  if (!*there) return PZ_OK;
  enum pz_status status = pz_box_report_data(dir, threads, &data, err);
  if (status == PZ_OK) status = compare(path, data, same, err);
  json_decref(data);
  return status;
}
