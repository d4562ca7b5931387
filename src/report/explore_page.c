/* The page of `phaze explore`, one HTML file that computes by itself.  pz_explore_page() checks the settings that the page
 * begins with, reads the files that it needs and the program as WebAssembly, and inserts all of them into the template. */
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/file.h"
#include "core/text.h"
#include "plan/plan_fields.h"
#include "report/page.h"

enum { MOST_MODEL_BYTES = 1 << 20, MOST_WASM_BYTES = 5 << 20, LONGEST_PATH = 200 };

struct pz_explore_options pz_explore_options_default(void) {
  struct pz_explore_options o = {.size = sizeof o, .plan = pz_plan_default()};
  o.plan.devices = 64;
  o.plan.batch = 512;
  return o;
}

/* ---- initial settings ----------------------------------------------------------------------- */

/* Returns the preset that `word` names in any case of letters, or else `word`, which may be NULL. */
static const char *preset_spelling(const char *word, const char *(*preset_at)(size_t)) {
  for (size_t i = 0; word && preset_at(i); i++)
    if (pz_text_same(preset_at(i), word)) return preset_at(i);
  return word;
}

static const char *model_spelling(const char *word) {
  const char *preset = pz_preset_named(word);
  return preset ? preset : word;
}

/* The fields of a plan that the page can set: some are counts, the others are words. */
static const enum pz_plan_field count_fields[] = {
    PZ_PLAN_DEVICES, PZ_PLAN_BATCH, PZ_PLAN_SEQ, PZ_PLAN_TP, PZ_PLAN_PP,
    PZ_PLAN_VPP,     PZ_PLAN_DP,    PZ_PLAN_CP,  PZ_PLAN_EP, PZ_PLAN_MBS};
static const enum pz_plan_field word_fields[] = {
    PZ_PLAN_RECOMPUTE,  PZ_PLAN_ZERO, PZ_PLAN_SP,      PZ_PLAN_PRECISION,
    PZ_PLAN_FP8_RECIPE, PZ_PLAN_PEFT, PZ_PLAN_OFFLOAD, PZ_PLAN_FRAMEWORK};
enum {
  COUNT_FIELDS = sizeof count_fields / sizeof *count_fields,
  WORD_FIELDS = sizeof word_fields / sizeof *word_fields
};

static bool is_given(uint64_t given, enum pz_plan_field f) { return (given >> f & 1) != 0; }

static void check_plan(struct pz_call *call, const struct pz_plan *p) {
  struct pz_lora lora;
  uint64_t unsupported = pz_plan_given(p);
  for (size_t i = 0; i < COUNT_FIELDS; i++) unsupported &= ~(UINT64_C(1) << count_fields[i]);
  for (size_t i = 0; i < WORD_FIELDS; i++) unsupported &= ~(UINT64_C(1) << word_fields[i]);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (is_given(unsupported, (enum pz_plan_field)f))
      pz_raise(call, PZ_BAD_USE,
               "a page has no field '%s' of a plan; it can be given to 'phaze predict'",
               pz_plan_field_name((enum pz_plan_field)f));
  pz_require_plan_ranges(call, p);
  pz_must(call, pz_lora_parse(p->peft, &lora, pz_call_error(call)));
}

/* Returns the settings by name, as the address of the page stores them: counts as numbers, the others as texts. */
static json_t *state_json(const struct pz_explore_options *o) {
  uint64_t given = pz_plan_given(&o->plan);
  char value[PZ_FIELD_TEXT_MOST];
  json_t *state = json_pack("{s:s,s:s,s:s?}", "model", model_spelling(o->models[0]), "chip",
                            o->chip, "cluster", o->cluster);
  for (size_t i = 0; i < COUNT_FIELDS; i++) {
    if (!is_given(given, count_fields[i])) continue;
    const char *text = pz_plan_field_text(&o->plan, count_fields[i], value, sizeof value);
    json_object_set_new(state, pz_plan_field_name(count_fields[i]),
                        json_integer(strtoll(text, NULL, 10)));
  }
  for (size_t i = 0; i < WORD_FIELDS; i++) {
    if (!is_given(given, word_fields[i])) continue;
    const char *text = pz_plan_field_text(&o->plan, word_fields[i], value, sizeof value);
    json_object_set_new(state, pz_plan_field_name(word_fields[i]), json_string(text));
  }
  return state;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Adds a file that the page needs, under the path that the user gave.  Does nothing for the name of a preset. */
static void add_file(struct pz_call *call, json_t *files, const char *path) {
  size_t bytes = 0, n = strlen(path);
  if (!pz_file_named(path)) return;
  if (n > LONGEST_PATH)
    pz_raise(call, PZ_LIMIT, "%s: a path of %zu bytes; accepted: at most %d", path, n,
             LONGEST_PATH);
  if (n > 5 && strcmp(path + n - 5, ".onnx") == 0)
    pz_raise(call, PZ_BAD_USE, "%s: a page reads no ONNX files; accepted: a config.json", path);
  char *text = pz_file_text(call, path, MOST_MODEL_BYTES, &bytes);
  if (json_object_set_new(files, path, json_stringn(text, bytes)) != 0)
    pz_raise(call, PZ_BAD_INPUT, "%s: path or text is not UTF-8", path);
}

/* Adds the models and all files that the page reads, after a check that each of them can be loaded. */
static void add_inputs(struct pz_call *call, const struct pz_explore_options *o, json_t *models,
                       json_t *files) {
  struct pz_error *err = pz_call_error(call);
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_cluster *net = pz_alloc(call, 1, sizeof *net);
  pz_must(call, pz_chip_read(o->chip, chip, err));
  if (o->cluster) pz_must(call, pz_cluster_load(o->cluster, net, err));
  for (size_t i = 0; o->models[i]; i++) {
    const char *model = model_spelling(o->models[i]);
    struct pz_workload_options options = pz_workload_options_default();
    struct pz_workload *workload = NULL;
    options.seq = o->plan.seq;
    add_file(call, files, model);
    pz_must(call, pz_workload_load(model, &options, &workload, err));
    pz_workload_free(workload);
    json_array_append_new(models, json_string(model));
  }
  add_file(call, files, o->chip);
  if (o->cluster) add_file(call, files, o->cluster);
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Returns base64 text (RFC 4648). */
static char *encode_base64(struct pz_call *call, const unsigned char *bytes, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = pz_alloc(call, (n + 2) / 3 * 4 + 1, 1), *to = text;
  for (size_t i = 0; i < n; i += 3) {
    size_t left = n - i;
    unsigned second = left > 1 ? bytes[i + 1] : 0, third = left > 2 ? bytes[i + 2] : 0;
    unsigned v = (unsigned)bytes[i] << 16 | second << 8 | third;
    *to++ = digits[v >> 18];
    *to++ = digits[v >> 12 & 63];
    *to++ = left > 1 ? digits[v >> 6 & 63] : '=';
    *to++ = left > 2 ? digits[v & 63] : '=';
  }
  return text;
}

/* Returns whether the module contains "phaze page VERSION" as a text, as modules of this version do (src/wasm/page.c). */
static bool has_own_version(const char *bytes, size_t n) {
  char mark[80];
  size_t size = (size_t)snprintf(mark, sizeof mark, "phaze page %s", pz_version()) + 1;
  const char *end = bytes + n;
  for (const char *at = memchr(bytes, 'p', n); at; at = memchr(at, 'p', (size_t)(end - at))) {
    if ((size_t)(end - at) >= size && memcmp(at, mark, size) == 0) return true;
    at++;
  }
  return false;
}

static char *read_wasm(struct pz_call *call, const char *path) {
  size_t n = 0;
  char *bytes = pz_file_text(call, path, MOST_WASM_BYTES, &n);
  if (n < 8 || memcmp(bytes, "\0asm", 4) != 0)
    pz_raise(call, PZ_BAD_INPUT, "%s: not a WebAssembly module", path);
  if (!has_own_version(bytes, n))
    pz_raise(call, PZ_BAD_INPUT, "%s: not of phaze %s; build it with 'cmake --build --preset wasm'",
             path, pz_version());
  char *text = encode_base64(call, (const unsigned char *)bytes, n);
  pz_close(call, bytes);
  return text;
}

/* ---- the page ------------------------------------------------------------------------------- */

/* Lists of names that the page offers to choose from: presets, or the values of a plan field. */
static json_t *names_json(const char *(*name_at)(size_t)) {
  json_t *list = json_array();
  for (size_t i = 0; name_at(i); i++) json_array_append_new(list, json_string(name_at(i)));
  return list;
}

static json_t *list_json(const char *const *names) {
  json_t *list = json_array();
  for (; *names; names++) json_array_append_new(list, json_string(*names));
  return list;
}

struct explore_page {
  const struct pz_explore_options *options;
  char **text;
  size_t *bytes;
};

static void write_explore_page(struct pz_call *call, void *ctx) {
  struct explore_page *x = ctx;
  struct pz_explore_options o = pz_explore_options_default();
  pz_require_options(call, &o, sizeof o, x->options, "pz_explore_options_default");
  pz_require(call, o.models ? o.models[0] : NULL, "models");
  pz_require(call, o.chip, "chip");
  pz_require(call, o.wasm, "wasm");
  pz_require(call, x->text, "text");
  pz_require(call, x->bytes, "bytes");
  o.chip = preset_spelling(o.chip, pz_chip_preset_name);
  o.cluster = preset_spelling(o.cluster, pz_cluster_preset_name);
  check_plan(call, &o.plan);
  json_t *models = pz_json_built(call, json_array()), *files = pz_json_built(call, json_object());
  add_inputs(call, &o, models, files);
  const char *wasm = read_wasm(call, o.wasm);
  json_t *document = pz_json_built(
      call, json_pack("{s:s,s:O,s:O,s:o,s:o,s:o,s:o,s:o,s:o,s:{},s:s}", "version", pz_version(),
                      "models", models, "files", files, "state", state_json(&o), "presets",
                      names_json(pz_preset_name), "frameworks", list_json(pz_framework_names),
                      "precisions", list_json(pz_plan_field(PZ_PLAN_PRECISION)->names), "recipes",
                      list_json(pz_plan_field(PZ_PLAN_FP8_RECIPE)->names), "launches",
                      list_json(pz_launch_names + 1), /* the first name is none */
                      "datasets", "wasm", wasm));
  struct pz_buffer *html = pz_page_html(call, "explore_page", document);
  *x->text = pz_buffer_take(call, html);
  *x->bytes = html->bytes;
}

enum pz_status pz_explore_page(const struct pz_explore_options *options, char **text, size_t *bytes,
                               struct pz_error *err) {
  struct explore_page x = {options, text, bytes};
  return pz_border(write_explore_page, &x, err);
}
