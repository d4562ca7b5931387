/* The page of `phaze explore`: settings to begin with, the files that it needs, and the program as WebAssembly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/json.h"
#include "core/status.h"
#include "core/text.h"
#include "plan/plan_fields.h"
#include "report/page.h"

enum { MOST_MODEL_BYTES = 1 << 20, MOST_WASM_BYTES = 5 << 20, MOST_NAME = 200 };

struct pz_explore_options pz_explore_options_default(void) {
  struct pz_explore_options o = {.size = sizeof o, .plan = pz_plan_default()};
  o.plan.devices = 64;
  o.plan.batch = 512;
  return o;
}

/* ---- what the page begins with -------------------------------------------------------------- */

/* The name in the list that a word is in other letters, or the word. */
static const char *own_name(const char *word, const char *(*at)(size_t)) {
  for (size_t i = 0; word && at(i); i++)
    if (pz_text_same(at(i), word)) return at(i);
  return word;
}

static const char *model_word(const char *word) {
  const char *known = pz_preset_named(word);
  return known ? known : word;
}

/* Fields of a plan that the page has: counts and words. */
static const enum pz_plan_field counts[] = {PZ_PLAN_DEVICES, PZ_PLAN_BATCH, PZ_PLAN_SEQ, PZ_PLAN_TP,
                                            PZ_PLAN_PP,      PZ_PLAN_VPP,   PZ_PLAN_DP,  PZ_PLAN_CP,
                                            PZ_PLAN_EP,      PZ_PLAN_MBS},
                                words[] = {PZ_PLAN_RECOMPUTE, PZ_PLAN_ZERO,       PZ_PLAN_SP,
                                           PZ_PLAN_PRECISION, PZ_PLAN_FP8_RECIPE, PZ_PLAN_PEFT,
                                           PZ_PLAN_OFFLOAD,   PZ_PLAN_FRAMEWORK};

static enum pz_status check_fields(const struct pz_plan *p, struct pz_error *err) {
  struct pz_lora lora;
  uint64_t other = pz_plan_given(p);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) other &= ~(UINT64_C(1) << counts[i]);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) other &= ~(UINT64_C(1) << words[i]);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (other >> f & 1)
      return pz_fail(err, PZ_BAD_USE,
                     "a page has no field '%s' of a plan; it can be given to 'phaze predict'",
                     pz_plan_field_name((enum pz_plan_field)f));
  enum pz_status status = pz_plan_check_ranges(p, err);
  return status == PZ_OK ? pz_lora_parse(p->peft, &lora, err) : status;
}

/* Settings by name, as the page's address has them: counts as numbers, the others as texts. */
static json_t *state_json(const struct pz_explore_options *o) {
  uint64_t given = pz_plan_given(&o->plan);
  char value[PZ_FIELD_TEXT_MOST];
  json_t *j = json_pack("{s:s,s:s,s:s?}", "model", model_word(o->models[0]), "chip", o->chip,
                        "cluster", o->cluster);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (given >> counts[i] & 1)
      json_object_set_new(
          j, pz_plan_field_name(counts[i]),
          json_integer(
              strtoll(pz_plan_field_text(&o->plan, counts[i], value, sizeof value), NULL, 10)));
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (given >> words[i] & 1)
      json_object_set_new(j, pz_plan_field_name(words[i]),
                          json_string(pz_plan_field_text(&o->plan, words[i], value, sizeof value)));
  return j;
}

/* A file that the page needs, by the path that the user gave. */
static enum pz_status add_file(json_t *files, const char *path, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0, n = strlen(path);
  if (!pz_file_named(path)) return PZ_OK;
  if (n > MOST_NAME)
    return pz_fail(err, PZ_LIMIT, "%s: a path of %zu bytes; accepted: at most %d", path, n,
                   MOST_NAME);
  if (n > 5 && strcmp(path + n - 5, ".onnx") == 0)
    return pz_fail(err, PZ_BAD_USE, "%s: a page reads no ONNX files; accepted: a config.json",
                   path);
  enum pz_status status = pz_file_read(path, MOST_MODEL_BYTES, &text, &bytes, err);
  if (status == PZ_OK && json_object_set_new(files, path, json_stringn(text, bytes)) != 0)
    status = pz_fail(err, PZ_BAD_INPUT, "%s: path or text is not UTF-8", path);
  pz_free(text);
  return status;
}

static enum pz_status check_model(const char *model, int64_t seq, struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.seq = seq;
  enum pz_status status = pz_workload_load(model, &o, &w, err);
  pz_workload_free(w);
  return status;
}

/* Chip and cluster are as they should be, and every file that the page reads is in it. */
static enum pz_status add_inputs(const struct pz_explore_options *o, json_t *models, json_t *files,
                                 struct pz_error *err) {
  struct pz_chip chip;
  struct pz_cluster net;
  enum pz_status status = pz_chip_read(o->chip, &chip, err);
  if (status == PZ_OK && o->cluster) status = pz_cluster_load(o->cluster, &net, err);
  for (size_t i = 0; o->models[i] && status == PZ_OK; i++) {
    const char *model = model_word(o->models[i]);
    status = add_file(files, model, err);
    if (status == PZ_OK) status = check_model(model, o->plan.seq, err);
    if (status == PZ_OK) json_array_append_new(models, json_string(model));
  }
  if (status == PZ_OK) status = add_file(files, o->chip, err);
  if (status == PZ_OK && o->cluster) status = add_file(files, o->cluster, err);
  return status;
}

/* Names that the page offers to choose from. */
static json_t *names_json(const char *(*at)(size_t)) {
  json_t *list = json_array();
  for (size_t i = 0; at(i); i++) json_array_append_new(list, json_string(at(i)));
  return list;
}

static const char *framework_at(size_t i) { return pz_framework_names[i]; }
static const char *launch_at(size_t i) { return pz_launch_names[i + 1]; } /* the first is none */

/* Names of the values of a choice or a set. */
static json_t *values_json(enum pz_plan_field f) {
  json_t *list = json_array();
  for (const char *const *name = pz_plan_field(f)->names; *name; name++)
    json_array_append_new(list, json_string(*name));
  return list;
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Base64 (RFC 4648); to be freed. */
static char *base64(const unsigned char *bytes, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = pz_malloc((n + 2) / 3 * 4 + 1), *to = text;
  for (size_t i = 0; text && i < n; i += 3) {
    size_t left = n - i;
    unsigned v = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                 (left > 2 ? (unsigned)bytes[i + 2] : 0);
    *to++ = digits[v >> 18];
    *to++ = digits[v >> 12 & 63];
    *to++ = left > 1 ? digits[v >> 6 & 63] : '=';
    *to++ = left > 2 ? digits[v & 63] : '=';
  }
  if (text) *to = '\0';
  return text;
}

/* Is it a module of this version?  One of ours has its name and version as text (src/wasm/page.c). */
static enum pz_status check_wasm(const char *path, const char *bytes, size_t n,
                                 struct pz_error *err) {
  char mark[80];
  int size = snprintf(mark, sizeof mark, "phaze page %s", pz_version());
  if (n < 8 || memcmp(bytes, "\0asm", 4) != 0)
    return pz_fail(err, PZ_BAD_INPUT, "%s: not a WebAssembly module", path);
  for (const char *at = bytes; (at = memchr(at, 'p', n - (size_t)(at - bytes))); at++)
    if (n - (size_t)(at - bytes) > (size_t)size && memcmp(at, mark, (size_t)size + 1) == 0)
      return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%s: not of phaze %s; build it with 'cmake --build --preset "
                 "wasm'",
                 path, pz_version());
}

/* It as base64, to be freed. */
static enum pz_status read_wasm(const char *path, char **text, struct pz_error *err) {
  char *bytes = NULL;
  size_t n = 0;
  enum pz_status status = pz_file_read(path, MOST_WASM_BYTES, &bytes, &n, err);
  if (status == PZ_OK) status = check_wasm(path, bytes, n, err);
  if (status == PZ_OK) *text = base64((const unsigned char *)bytes, n);
  pz_free(bytes);
  if (status == PZ_OK && !*text) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  return status;
}

enum pz_status pz_explore_page(const struct pz_explore_options *options, char **text, size_t *bytes,
                               struct pz_error *err) {
  struct pz_explore_options o = pz_explore_options_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_explore_options_default", err);
  if (status == PZ_OK)
    status = pz_need_each(err, {o.models ? o.models[0] : NULL, "models"}, {o.chip, "chip"},
                          {o.wasm, "wasm"}, {text, "text"}, {bytes, "bytes"});
  if (status != PZ_OK) return status;
  o.chip = own_name(o.chip, pz_chip_preset_name);
  o.cluster = own_name(o.cluster, pz_cluster_preset_name);
  json_t *models = json_array(), *files = json_object(), *document = NULL;
  char *wasm = NULL;
  status = check_fields(&o.plan, err);
  if (status == PZ_OK) status = add_inputs(&o, models, files, err);
  if (status == PZ_OK) status = read_wasm(o.wasm, &wasm, err);
  if (status == PZ_OK) {
    document =
        json_pack("{s:s,s:O,s:O,s:o,s:o,s:o,s:o,s:o,s:o,s:{},s:s}", "version", pz_version(),
                  "models", models, "files", files, "state", state_json(&o), "presets",
                  names_json(pz_preset_name), "frameworks", names_json(framework_at), "precisions",
                  values_json(PZ_PLAN_PRECISION), "recipes", values_json(PZ_PLAN_FP8_RECIPE),
                  "launches", names_json(launch_at), "datasets", "wasm", wasm);
    status = document ? pz_page_text("explore_page", document, text, bytes, err)
                      : pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  }
  pz_free(wasm);
  json_decref(document);
  json_decref(models);
  json_decref(files);
  return status;
}
