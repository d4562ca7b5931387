/* Writes chip.json and cluster.json of a search.  export_text() makes the text of a file,
 * pz_export_check() compares it with the file in the directory, and pz_exports_write() replaces
 * a file that differs but keeps the old one under a new name. */
#include "study/exports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/json.h"
#include "evaluate/training.h"

const char *const pz_export_names[PZ_EXPORTS] = {"chip.json", "cluster.json"};

/* Returns the text of file i, or NULL if the result does not export it. */
static const char *export_text(struct pz_call *call, const struct pz_result *result, int i) {
  const struct pz_study_options *options = &result->inputs.options;
  const struct pz_chip *chip = pz_result_best(result)->chip;
  char *text = NULL;
  if (i == 0) {
    pz_must(call, pz_chip_text(chip, &text, pz_call_error(call)));
  } else {
    if (options->evaluator != PZ_EVALUATOR_TRAINING) return NULL;
    struct pz_training_question question = {.devices = options->devices,
                                            .scale_up = options->scale_up,
                                            .outer_bytes_per_s = options->outer_bytes_per_s};
    struct pz_cluster net = pz_training_cluster(&question, chip);
    const json_t *json = pz_json_built(call, pz_cluster_json(&net));
    text = pz_json_take(call, json);
  }
  pz_defer(call, pz_free, text);
  return text;
}

/* Returns the path of file i in a directory, which must be shorter than PATH_MAX (4096). */
static const char *export_path(struct pz_call *call, const char *dir, int i) {
  enum { LONGEST_PATH = 4095 };
  const char *path = pz_format(call, "%s/%s", dir, pz_export_names[i]);
  if (strlen(path) > LONGEST_PATH) pz_raise(call, PZ_BAD_USE, "%.200s: the name is too long", dir);
  return path;
}

/* Renames an existing file or link to chip-1.json, chip-2.json ..., the first name that is free. */
static void move_export_aside(struct pz_call *call, const char *path) {
  struct stat file_state;
  if (lstat(path, &file_state) != 0) return;
  int stem = (int)(strlen(path) - strlen(".json"));
  const char *new_path;
  int suffix = 0;
  do {
    suffix++;
    new_path = pz_format(call, "%.*s-%d.json", stem, path, suffix);
  } while (lstat(new_path, &file_state) == 0);
  if (rename(path, new_path) != 0)
    pz_raise(call, PZ_IO, "cannot rename %s: %s", path, strerror(errno));
}

/* Writes the exports of a result, but keeps a file that is equal already. */
void pz_exports_write(struct pz_call *call, const char *dir, const struct pz_result *result) {
  for (int i = 0; i < PZ_EXPORTS; i++) {
    const char *text = export_text(call, result, i), *path = export_path(call, dir, i);
    if (!text || pz_export_check(call, dir, result, i) == PZ_EXPORT_SAME) continue;
    move_export_aside(call, path);
    pz_file_save(call, path, text, strlen(text));
  }
}

struct export_comparison {
  const char *path, *text;
  size_t most_bytes;
  bool same;
};

/* Reads a file within a border, because a file that cannot be read is only another file. */
static void compare_export(struct pz_call *call, void *ctx) {
  struct export_comparison *comparison = ctx;
  size_t bytes;
  const char *found = pz_file_text(call, comparison->path, comparison->most_bytes, &bytes);
  comparison->same = strcmp(found, comparison->text) == 0;
}

/* Returns whether file i is missing, equal to the export of the result, or another one. */
enum pz_export_state pz_export_check(struct pz_call *call, const char *dir,
                                     const struct pz_result *result, int i) {
  enum { MOST_BYTES = 1 << 20 };
  const char *path = export_path(call, dir, i), *text = export_text(call, result, i);
  if (!text || access(path, F_OK) != 0) return PZ_EXPORT_MISSING;
  struct export_comparison comparison = {path, text, MOST_BYTES, false};
  struct pz_error error = {0};
  if (pz_border(compare_export, &comparison, &error) != PZ_OK) pz_raise_if_memory(call, &error);
  return comparison.same ? PZ_EXPORT_SAME : PZ_EXPORT_OTHER;
}
