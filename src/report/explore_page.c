/* The page of `phaze explore`, one HTML file that computes by itself: pz_explore_page() inserts the
 * initial settings, the files that it needs and the program as WebAssembly into the template. */
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/file.h"
#include "core/text.h"
#include "plan/plan_fields.h"
#include "report/page.h"

/* Limits of the files that a page embeds, in bytes, and of the length of their paths. */
enum { MOST_MODEL_BYTES = 1 << 20, MOST_WASM_BYTES = 5 << 20, LONGEST_PATH = 200 };

struct pz_explore_options pz_explore_options_default(void) {
  struct pz_explore_options options = {.size = sizeof options, .plan = pz_plan_default()};
  options.plan.devices = 64;
  options.plan.batch = 512;
  return options;
}

/* ---- initial settings ----------------------------------------------------------------------- */

/* Returns the preset that equals `word` (or NULL) regardless of case, or else `word`. */
static const char *preset_spelling(const char *word, const char *(*preset_at)(size_t)) {
  for (size_t i = 0; word && preset_at(i); i++)
    if (pz_text_same(preset_at(i), word)) return preset_at(i);
  return word;
}

/* The fields of a plan that the page can set.  Their values are counts or words. */
static const struct {
  enum pz_plan_field field;
  bool is_count;
} page_fields[] = {{PZ_PLAN_DEVICES, true}, {PZ_PLAN_BATCH, true},      {PZ_PLAN_SEQ, true},
                   {PZ_PLAN_TP, true},      {PZ_PLAN_PP, true},         {PZ_PLAN_VPP, true},
                   {PZ_PLAN_DP, true},      {PZ_PLAN_CP, true},         {PZ_PLAN_EP, true},
                   {PZ_PLAN_MBS, true},     {PZ_PLAN_RECOMPUTE, false}, {PZ_PLAN_ZERO, false},
                   {PZ_PLAN_SP, false},     {PZ_PLAN_PRECISION, false}, {PZ_PLAN_FP8_RECIPE, false},
                   {PZ_PLAN_PEFT, false},   {PZ_PLAN_OFFLOAD, false},   {PZ_PLAN_FRAMEWORK, false}};
enum { PAGE_FIELDS = sizeof page_fields / sizeof *page_fields };

/* Returns the initial settings as the URL of the page stores them: counts and texts. */
static json_t *state_json(const struct pz_explore_options *options) {
  uint64_t given = pz_plan_given(&options->plan);
  char value[PZ_FIELD_TEXT_MOST];
  const char *preset = pz_preset_named(options->models[0]);
  json_t *state = json_pack("{s:s,s:s,s:s?}", "model", preset ? preset : options->models[0], "chip",
                            options->chip, "cluster", options->cluster);
  for (size_t i = 0; i < PAGE_FIELDS; i++) {
    enum pz_plan_field field = page_fields[i].field;
    if ((given >> field & 1) == 0) continue;
    const char *text = pz_plan_field_text(&options->plan, field, value, sizeof value);
    json_object_set_new(state, pz_plan_field_name(field),
                        page_fields[i].is_count ? json_integer(strtoll(text, NULL, 10))
                                                : json_string(text));
  }
  return state;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Adds the text of a file under the path that the user gave, unless it names a preset. */
static void add_file(struct pz_call *call, json_t *files, const char *path) {
  size_t bytes = 0, length = strlen(path);
  if (!pz_file_named(path)) return;
  if (length > LONGEST_PATH)
    pz_raise(call, PZ_LIMIT, "%s: a path of %zu bytes; accepted: at most %d", path, length,
             LONGEST_PATH);
  if (length > 5 && strcmp(path + length - 5, ".onnx") == 0)
    pz_raise(call, PZ_BAD_USE, "%s: a page reads no ONNX files; accepted: a config.json", path);
  char *text = pz_file_text(call, path, MOST_MODEL_BYTES, &bytes);
  if (json_object_set_new(files, path, json_stringn(text, bytes)) != 0)
    pz_raise(call, PZ_BAD_INPUT, "%s: path or text is not UTF-8", path);
}

/* Adds the models and all files that the page reads, which are first loaded as a check. */
static void add_inputs(struct pz_call *call, const struct pz_explore_options *options,
                       json_t *models, json_t *files) {
  struct pz_error *err = pz_call_error(call);
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_cluster *cluster = pz_alloc(call, 1, sizeof *cluster);
  pz_chip_read(call, options->chip, chip);
  if (options->cluster) pz_must(call, pz_cluster_load(options->cluster, cluster, err));
  for (size_t i = 0; options->models[i]; i++) {
    const char *preset = pz_preset_named(options->models[i]);
    const char *model = preset ? preset : options->models[i];
    struct pz_workload_options workload_options = pz_workload_options_default();
    struct pz_workload *workload = NULL;
    workload_options.seq = options->plan.seq;
    add_file(call, files, model);
    pz_must(call, pz_workload_load(model, &workload_options, &workload, err));
    pz_workload_free(workload);
    json_array_append_new(models, json_string(model));
  }
  add_file(call, files, options->chip);
  if (options->cluster) add_file(call, files, options->cluster);
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Returns a module in base64 (RFC 4648) if it contains the text "phaze page VERSION". */
static char *read_wasm(struct pz_call *call, const char *path) {
  size_t n = 0;
  char *bytes = pz_file_text(call, path, MOST_WASM_BYTES, &n);
  if (n < 8 || memcmp(bytes, "\0asm", 4) != 0)
    pz_raise(call, PZ_BAD_INPUT, "%s: not a WebAssembly module", path);
  const char *version_mark = pz_format(call, "phaze page %s", pz_version()), *end = bytes + n;
  size_t version_bytes = strlen(version_mark) + 1;
  bool has_own_version = false;
  for (const char *position = memchr(bytes, 'p', n); position;
       position = memchr(position, 'p', (size_t)(end - position))) {
    if ((size_t)(end - position) >= version_bytes &&
        memcmp(position, version_mark, version_bytes) == 0)
      has_own_version = true;
    position++;
  }
  if (!has_own_version)
    pz_raise(call, PZ_BAD_INPUT, "%s: not of phaze %s; build it with 'cmake --build --preset wasm'",
             path, pz_version());
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *input = (const unsigned char *)bytes;
  char *text = pz_alloc(call, (n + 2) / 3 * 4 + 1, 1), *output = text;
  for (size_t i = 0; i < n; i += 3) {
    size_t left = n - i;
    unsigned second = left > 1 ? input[i + 1] : 0, third = left > 2 ? input[i + 2] : 0;
    unsigned group = (unsigned)input[i] << 16 | second << 8 | third;
    *output++ = digits[group >> 18];
    *output++ = digits[group >> 12 & 63];
    *output++ = left > 1 ? digits[group >> 6 & 63] : '=';
    *output++ = left > 2 ? digits[group & 63] : '=';
  }
  pz_close(call, bytes);
  return text;
}

/* ---- the page ------------------------------------------------------------------------------- */

/* Returns a list of names that ends with NULL as a JSON array. */
static json_t *names_json(const char *const *names) {
  json_t *list = json_array();
  for (; *names; names++) json_array_append_new(list, json_string(*names));
  return list;
}

struct explore_page {
  const struct pz_explore_options *options;
  char **text;
  size_t *bytes;
};

/* Checks the options and writes the page with its settings, files and WebAssembly module. */
static void write_explore_page(struct pz_call *call, void *ctx) {
  struct explore_page *args = ctx;
  struct pz_explore_options options = pz_explore_options_default();
  pz_require_options(call, &options, sizeof options, args->options, "pz_explore_options_default");
  pz_require(call, options.models ? options.models[0] : NULL, "models");
  pz_require(call, options.chip, "chip");
  pz_require(call, options.wasm, "wasm");
  pz_require(call, args->text, "text");
  pz_require(call, args->bytes, "bytes");
  options.chip = preset_spelling(options.chip, pz_chip_preset_name);
  options.cluster = preset_spelling(options.cluster, pz_cluster_preset_name);
  /* Raises PZ_BAD_USE if the plan has a field that the page cannot set, or a value out of range. */
  const struct pz_plan *plan = &options.plan;
  struct pz_lora lora;
  uint64_t unsupported = pz_plan_given(plan);
  for (size_t i = 0; i < PAGE_FIELDS; i++) unsupported &= ~(UINT64_C(1) << page_fields[i].field);
  for (int field = 0; field < PZ_PLAN_FIELDS; field++)
    if ((unsupported >> field & 1) != 0)
      pz_raise(call, PZ_BAD_USE,
               "a page has no field '%s' of a plan; it can be given to 'phaze predict'",
               pz_plan_field_name((enum pz_plan_field)field));
  pz_require_plan_ranges(call, plan);
  pz_must(call, pz_lora_parse(plan->peft, &lora, pz_call_error(call)));
  json_t *models = pz_json_built(call, json_array()), *files = pz_json_built(call, json_object());
  add_inputs(call, &options, models, files);
  const char *wasm = read_wasm(call, options.wasm);
  json_t *presets = json_array();
  for (size_t i = 0; pz_preset_name(i); i++)
    json_array_append_new(presets, json_string(pz_preset_name(i)));
  json_t *document = pz_json_built(
      call, json_pack("{s:s,s:O,s:O,s:o,s:o,s:o,s:o,s:o,s:o,s:{},s:s}", "version", pz_version(),
                      "models", models, "files", files, "state", state_json(&options), "presets",
                      presets, "frameworks", names_json(pz_framework_names), "precisions",
                      names_json(pz_plan_field(PZ_PLAN_PRECISION)->names), "recipes",
                      names_json(pz_plan_field(PZ_PLAN_FP8_RECIPE)->names), "launches",
                      names_json(pz_launch_names + 1), /* without the first name, "none" */
                      "datasets", "wasm", wasm));
  struct pz_buffer *html = pz_page_html(call, "explore_page", document);
  *args->text = pz_buffer_take(call, html);
  *args->bytes = html->bytes;
}

enum pz_status pz_explore_page(const struct pz_explore_options *options, char **text, size_t *bytes,
                               struct pz_error *err) {
  struct explore_page args = {options, text, bytes};
  return pz_border(write_explore_page, &args, err);
}
