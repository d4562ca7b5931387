/* phaze explore: one HTML page that computes predictions and plans by itself. */
#include <inttypes.h>
#include <string.h>

#include "cli/machine_options.h"
#include "cli/shared_file.h"
#include "core/alloc.h"
#include "core/file.h"
#include "report/explore_page.h"

enum { MOST_MODELS = 64, MOST_MODEL_BYTES = 1 << 20, MOST_WASM_BYTES = 5 << 20, MOST_NAME = 200 };

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, batch, seq, tp, pp, vpp, dp, cp, ep, mbs; /* 0: not pinned */
  int recompute, zero, precision;                            /* of their names; NOT_GIVEN */
  const char *framework, *out, *wasm;
};

enum { NOT_GIVEN = -1 };
static const struct settings defaults = {
    .recompute = NOT_GIVEN, .zero = NOT_GIVEN, .precision = NOT_GIVEN, .out = "explore.html"};
static const char *const zero_names[] = {"0", "1", "2", "3", NULL};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    {.name = "devices", .type = PZ_OPTION_INT, .offset = AT(devices), .arg = "N", .min = 1, .max = 1 << 24, .help = "Number of devices to begin with (default: 64)"},
    {.name = "batch", .type = PZ_OPTION_INT, .offset = AT(batch), .arg = "B", .min = 1, .max = 1 << 24, .help = "Global batch size to begin with, samples (default: 512)"},
    {.name = "seq", .type = PZ_OPTION_INT, .offset = AT(seq), .arg = "S", .min = 1, .max = 1 << 24, .help = "Sequence length to begin with, tokens per sample (default: the model's, at most 8192)"},
    {.name = "tp", .type = PZ_OPTION_INT, .offset = AT(tp), .arg = "N", .min = 1, .max = 1 << 20, .help = "Begin with this tensor-parallel degree pinned (default: searched)"},
    {.name = "pp", .type = PZ_OPTION_INT, .offset = AT(pp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for pipeline stages"},
    {.name = "vpp", .type = PZ_OPTION_INT, .offset = AT(vpp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for chunks of layers per stage"},
    {.name = "dp", .type = PZ_OPTION_INT, .offset = AT(dp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for data-parallel replicas"},
    {.name = "cp", .type = PZ_OPTION_INT, .offset = AT(cp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for the context-parallel degree"},
    {.name = "ep", .type = PZ_OPTION_INT, .offset = AT(ep), .arg = "N", .min = 1, .max = 1 << 16, .help = "The same for the expert-parallel degree"},
    {.name = "mbs", .type = PZ_OPTION_INT, .offset = AT(mbs), .arg = "B", .min = 1, .max = 1 << 20, .help = "The same for the microbatch size, samples"},
    {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = AT(recompute), .choices = pz_recomputation_names, .help = "The same for recomputation of activations"},
    {.name = "zero", .type = PZ_OPTION_CHOICE, .offset = AT(zero), .choices = zero_names, .help = "The same for the ZeRO stage"},
    {.name = "precision", .type = PZ_OPTION_CHOICE, .offset = AT(precision), .choices = pz_precision_names, .help = "Precision of the layers' products"},
    {.name = "framework", .type = PZ_OPTION_TEXT, .offset = AT(framework), .arg = "NAME", .help = "Training framework, as for 'phaze predict'"},
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(out), .arg = "PAGE.html", .help = "Where to write the page"},
    {.name = "wasm", .type = PZ_OPTION_TEXT, .offset = AT(wasm), .arg = "FILE.wasm", .help = "WebAssembly of the page (default: explore.wasm of the installation)"},
};
/* clang-format on */

/* ---- what the page begins with -------------------------------------------------------------- */

static void set_count(json_t *state, const char *key, int64_t v) {
  if (v) json_object_set_new(state, key, json_integer((json_int_t)v));
}

static void set_name(json_t *state, const char *key, const char *const *names, int i) {
  if (i != NOT_GIVEN) json_object_set_new(state, key, json_string(names[i]));
}

static json_t *state_json(const struct settings *s, const char *model) {
  json_t *j = json_pack("{s:s,s:s,s:s?}", "model", model, "chip", s->machine.chip, "cluster",
                        s->machine.cluster);
  set_count(j, "devices", s->devices ? s->devices : 64);
  set_count(j, "batch", s->batch ? s->batch : 512);
  set_count(j, "seq", s->seq);
  set_count(j, "tp", s->tp);
  set_count(j, "pp", s->pp);
  set_count(j, "vpp", s->vpp);
  set_count(j, "dp", s->dp);
  set_count(j, "cp", s->cp);
  set_count(j, "ep", s->ep);
  set_count(j, "mbs", s->mbs);
  set_name(j, "recompute", pz_recomputation_names, s->recompute);
  set_name(j, "zero", zero_names, s->zero);
  set_name(j, "precision", pz_precision_names, s->precision);
  if (s->framework) json_object_set_new(j, "framework", json_string(s->framework));
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

static enum pz_status check_model(const struct settings *s, const char *model,
                                  struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.seq = s->seq;
  enum pz_status status = pz_workload_load(model, &o, &w, err);
  pz_workload_free(w);
  return status;
}

static enum pz_status check_framework(const char *name, struct pz_error *err) {
  return name && pz_framework_find(name) < 0
             ? pz_fail(err, PZ_BAD_USE, "--framework '%.60s' is not known; see 'phaze predict'",
                       name)
             : PZ_OK;
}

/* Names that the page offers to choose from. */
static json_t *names_json(const char *(*at)(size_t)) {
  json_t *list = json_array();
  for (size_t i = 0; at(i); i++) json_array_append_new(list, json_string(at(i)));
  return list;
}

static const char *framework_at(size_t i) { return pz_framework_names[i]; }

static enum pz_status page_inputs(const struct settings *s, char **models, int n,
                                  struct pz_explore *page, struct pz_error *err) {
  struct pz_machine machine;
  struct pz_machine_use use = {"devices", s->devices ? s->devices : 1, s->common.quiet, false};
  enum pz_status status = pz_machine_load(&s->machine, use, &machine, err);
  if (status == PZ_OK) status = check_framework(s->framework, err);
  for (int i = 0; i < n && status == PZ_OK; i++) {
    status = add_file(page->files, models[i], err);
    if (status == PZ_OK) status = check_model(s, models[i], err);
    if (status == PZ_OK) json_array_append_new(page->models, json_string(models[i]));
  }
  if (status == PZ_OK) status = add_file(page->files, s->machine.chip, err);
  if (status == PZ_OK && s->machine.cluster)
    status = add_file(page->files, s->machine.cluster, err);
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

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

static enum pz_status read_wasm(const struct settings *s, char **bytes, size_t *n,
                                struct pz_error *err) {
  char path[4096];
  if (!s->wasm && !pz_shared_file("explore.wasm", path, sizeof path))
    return pz_fail(err, PZ_IO,
                   "explore.wasm, the WebAssembly of the page, is not installed; build it with "
                   "'cmake --preset wasm && cmake --build --preset wasm' (Debian's emscripten), or "
                   "name one with --wasm FILE");
  const char *file = s->wasm ? s->wasm : path;
  enum pz_status status = pz_file_read(file, MOST_WASM_BYTES, bytes, n, err);
  return status == PZ_OK ? check_wasm(file, *bytes, *n, err) : status;
}

static enum pz_status explore(const struct settings *s, char **models, int n,
                              struct pz_error *err) {
  struct pz_explore page = {.models = json_array(), .files = json_object()};
  char *wasm = NULL, *text = NULL;
  size_t bytes = 0;
  enum pz_status status = page_inputs(s, models, n, &page, err);
  page.state = state_json(s, models[0]);
  page.presets = names_json(pz_preset_name);
  page.frameworks = names_json(framework_at);
  if (status == PZ_OK) status = pz_file_writable(s->out, err);
  if (status == PZ_OK) status = read_wasm(s, &wasm, &page.wasm_bytes, err);
  page.wasm = wasm;
  if (status == PZ_OK) status = pz_explore_page(&page, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(s->out, text, bytes, err);
  if (status == PZ_OK && !s->common.quiet)
    pz_command_say("wrote %s, %.1f MB; it opens offline", s->out, (double)bytes / 1e6);
  pz_free(text);
  pz_free(wasm);
  json_decref(page.models);
  json_decref(page.files);
  json_decref(page.state);
  json_decref(page.presets);
  json_decref(page.frameworks);
  return status;
}

static const char *misuse(const struct settings *s, char **models, int n) {
  if (n < 1 || n > MOST_MODELS) return "expected 1 to 64 MODELs";
  if (!s->machine.chip) return "--chip is required";
  if (s->common.json) return "--json does not apply: the page has its answers as JSON";
  for (int i = 0; i < n; i++)
    if (pz_file_same(s->out, models[i])) return "--output would overwrite the input file";
  if (pz_machine_reads(&s->machine, s->out) || (s->wasm && pz_file_same(s->out, s->wasm)))
    return "--output would overwrite the input file";
  if (pz_file_behind_link(s->out)) return "--output would overwrite a file through a link";
  return NULL;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_call call;
  if (!pz_call_begin(&call, &pz_cmd_explore, argc, argv, &s)) return call.code;
  const char *wrong = misuse(&s, argv + 1, call.n_args);
  if (wrong) return pz_command_misuse(&pz_cmd_explore, wrong);
  return pz_call_end(&call, explore(&s, argv + 1, call.n_args, &call.err));
}

const struct pz_command pz_cmd_explore = {
    .name = "explore",
    .synopsis = "MODEL... --chip CHIP [--cluster NET] [options] [-o PAGE.html]",
    .summary = "Write a page that finds plans by itself while chip and run are changed",
    .detail =
        "The page opens offline in a browser and computes with phaze itself, compiled to\n"
        "WebAssembly: sliders for the chip, its network and the run, pins for the plan.\n"
        "The best plan, its time, memory and pipeline follow. Each answer has the command\n"
        "line that prints the same numbers, and the address of the page keeps the\n"
        "settings. The options are what it begins with.\n"
        "\n"
        "Examples:\n"
        "  phaze explore llama3-70b --chip h100 --cluster dgx-h100 --devices 1024 --batch 2048\n"
        "  phaze explore llama3-8b mixtral-8x7b --chip ./mine.json -o mine.html\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .argument = "MODEL",
    .run = run,
};
