/* A model by its name or path, as any command takes it.  What reads a kind of file has one row
 * here; nothing below this folder knows of the others. */
#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "onnx/import.h"
#include "workload/workload.h"

struct importer {
  const char *suffix; /* of the paths that it reads */
  enum pz_status (*load)(const char *path, const struct pz_workload_options *options,
                         struct pz_workload **out, struct pz_error *err);
};

/* The first whose suffix fits; a configuration may have any name. */
static const struct importer importers[] = {
    {".onnx", pz_onnx_load},
    {"", pz_workload_load_config},
};

static const struct importer *find_importer(const char *path) {
  size_t n = strlen(path);
  const struct importer *i = importers;
  for (;; i++) {
    size_t suffix = strlen(i->suffix);
    if (suffix == 0 || (n > suffix && strcmp(path + n - suffix, i->suffix) == 0)) return i;
  }
}

/* Of a word with a slash the names on Hugging Face. */
static const char *preset_name(const void *word, size_t i) {
  const char *hub = strchr(word, '/') ? pz_preset_hub_name(i) : NULL;
  return hub ? hub : pz_preset_name(i);
}

/* What is neither a preset nor looks like a file. */
static enum pz_status unknown_model(const char *model, struct pz_error *err) {
  char meant[240];
  return pz_fail(
      err, PZ_BAD_INPUT,
      "unknown model '%s'%s; accepted: a name listed by 'phaze models', or the path of a "
      "config.json or an .onnx file",
      model, pz_text_meant(meant, sizeof meant, model, preset_name, model));
}

enum pz_status pz_workload_load(const char *model, const struct pz_workload_options *options,
                                struct pz_workload **out, struct pz_error *err) {
  struct pz_workload_options o;
  enum pz_status status = pz_need_each(err, {model, "model"}, {out, "out"});
  if (status == PZ_OK) status = pz_workload_options_take(options, &o, err);
  if (status != PZ_OK) return status;
  const struct pz_preset *p = pz_preset_find(model);
  if (p) return pz_workload_parse(p->name, p->config, strlen(p->config), &o, out, err);
  if (!pz_file_named(model) || pz_preset_hub_like(model)) return unknown_model(model, err);
  return find_importer(model)->load(model, &o, out, err);
}
