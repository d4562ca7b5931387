/* Loading a model by its name or path, as every command accepts it: a preset, or a file.
 * A path that ends with .onnx is an ONNX file; a
 * configuration may have any name.  Nothing below this folder knows of the importers. */
#include <string.h>

#include "core/call.h"
#include "core/file.h"
#include "core/text.h"
#include "onnx/import.h"
#include "workload/workload.h"

static bool has_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), length = strlen(suffix);
  return n > length && strcmp(path + n - length, suffix) == 0;
}

/* Preset i by the kind of name that the word is: with a slash, the name on Hugging Face if there is one. */
static const char *preset_name(const void *word, size_t i) {
  const char *hub = strchr(word, '/') ? pz_preset_hub_name(i) : NULL;
  return hub ? hub : pz_preset_name(i);
}

struct load_arguments {
  const char *model;
  const struct pz_workload_options *options;
  struct pz_workload **out;
};

static void load_model(struct pz_call *call, void *ctx) {
  const struct load_arguments *x = ctx;
  struct pz_workload_options o;
  struct pz_error *err = pz_call_error(call);
  pz_require(call, x->model, "model");
  pz_require(call, x->out, "out");
  pz_copy_workload_options(call, &o, x->options);
  const struct pz_preset *preset = pz_preset_find(x->model);
  if (preset) {
    size_t bytes = strlen(preset->config);
    pz_must(call, pz_workload_parse(preset->name, preset->config, bytes, &o, x->out, err));
    return;
  }
  if (!pz_file_named(x->model) || pz_preset_hub_like(x->model)) {
    char meant[240];
    pz_raise(call, PZ_BAD_INPUT,
             "unknown model '%s'%s; accepted: a name listed by 'phaze models', or the path of a "
             "config.json or an .onnx file",
             x->model, pz_text_meant(meant, sizeof meant, x->model, preset_name, x->model));
  }
  if (has_suffix(x->model, ".onnx"))
    pz_must(call, pz_onnx_load(x->model, &o, x->out, err));
  else
    pz_must(call, pz_workload_load_config(x->model, &o, x->out, err));
}

enum pz_status pz_workload_load(const char *model, const struct pz_workload_options *options,
                                struct pz_workload **out, struct pz_error *err) {
  struct load_arguments x = {model, options, out};
  return pz_border(load_model, &x, err);
}
