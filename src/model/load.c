/* Loading a model by its name or path, as every command accepts it: a preset, a config.json, or an
 * ONNX file.
 *
 * A path that ends with .onnx is an ONNX file, and any other path is a configuration. */
#include <string.h>

#include "core/call.h"
#include "core/file.h"
#include "core/text.h"
#include "onnx/import.h"
#include "workload/workload.h"

/* Returns the name of preset i, or NULL after the last one, to find a name similar to `word`: the
 * name on Hugging Face if `word` contains a slash and the preset has one. */
static const char *preset_name(const void *word, size_t i) {
  const char *hub = strchr(word, '/') ? pz_preset_hub_name(i) : NULL;
  return hub ? hub : pz_preset_name(i);
}

struct load_arguments {
  const char *model;
  const struct pz_workload_options *options;
  struct pz_workload **out;
};

/* Loads a preset, or else the file at the path `model` (a callback of pz_border). */
static void load_model(struct pz_call *call, void *ctx) {
  const struct load_arguments *args = ctx;
  struct pz_workload_options options;
  pz_require(call, args->model, "model");
  pz_require(call, args->out, "out");
  pz_copy_workload_options(call, &options, args->options);
  const char *model = args->model;
  const struct pz_preset *preset = pz_preset_find(model);
  if (preset) {
    size_t bytes = strlen(preset->config);
    *args->out = pz_workload_build(call, preset->name, preset->config, bytes, &options);
    return;
  }
  if (!pz_file_named(model) || pz_preset_hub_like(model)) {
    char meant[240];
    pz_raise(call, PZ_BAD_INPUT,
             "unknown model '%s'%s; accepted: a name listed by 'phaze models', or the path of a "
             "config.json or an .onnx file",
             model, pz_text_meant(meant, sizeof meant, model, preset_name, model));
  }
  const char *extension = strrchr(model, '.');
  bool is_onnx = extension && extension > model && strcmp(extension, ".onnx") == 0;
  if (is_onnx) {
    *args->out = pz_onnx_load(call, model, &options);
  } else {
    size_t bytes;
    const char *config = pz_file_text(call, model, PZ_CONFIG_MOST_BYTES, &bytes);
    *args->out = pz_workload_build(call, model, config, bytes, &options);
  }
}

enum pz_status pz_workload_load(const char *model, const struct pz_workload_options *options,
                                struct pz_workload **out, struct pz_error *err) {
  struct load_arguments args = {model, options, out};
  return pz_border(load_model, &args, err);
}
