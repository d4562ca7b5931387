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

/* The text of a file, to be given back with pz_free; NULL: the run has none. */
static enum pz_status text_of(const struct pz_result *r, int i, char **text, struct pz_error *err) {
  const struct pz_study_options *o = &r->inputs.options;
  const struct pz_chip *c = pz_result_best(r)->chip;
  *text = NULL;
  if (i == 0) return pz_chip_text(c, text, err);
  if (o->evaluator != PZ_EVALUATOR_TRAINING) return PZ_OK;
  struct pz_training_question q = {
      .devices = o->devices, .scale_up = o->scale_up, .outer_bytes_per_s = o->outer_bytes_per_s};
  struct pz_cluster net = pz_training_cluster(&q, c);
  json_t *json = pz_cluster_json(&net);
  enum pz_status status = pz_json_text(json, text, err);
  json_decref(json);
  return status;
}

static enum pz_status path_of(const char *dir, int i, char path[4096], struct pz_error *err) {
  int n = snprintf(path, 4096, "%s/%s", dir, pz_export_names[i]);
  return n > 0 && n < 4096 ? PZ_OK : pz_fail(err, PZ_BAD_USE, "%.200s: the name is too long", dir);
}

/* What stands there under the name, a link too, is kept: as chip-1.json, chip-2.json ... */
static enum pz_status move_aside(const char *path, struct pz_error *err) {
  char to[4200];
  size_t stem = strlen(path) - strlen(".json");
  struct stat s;
  int n = 0;
  if (lstat(path, &s) != 0) return PZ_OK;
  do snprintf(to, sizeof to, "%.*s-%d.json", (int)stem, path, ++n);
  while (lstat(to, &s) == 0);
  return rename(path, to) == 0 ? PZ_OK
                               : pz_fail(err, PZ_IO, "cannot rename %s: %s", path, strerror(errno));
}

enum pz_status pz_exports_write(const char *dir, const struct pz_result *r, struct pz_error *err) {
  char path[4096];
  enum pz_status status = PZ_OK;
  for (int i = 0; i < PZ_EXPORTS && status == PZ_OK; i++) {
    char *text = NULL;
    bool there = false, same = false;
    status = text_of(r, i, &text, err);
    if (status == PZ_OK) status = path_of(dir, i, path, err);
    if (status == PZ_OK) status = pz_export_same(dir, r, i, &there, &same, err);
    if (status == PZ_OK && text && !same) status = move_aside(path, err);
    if (status == PZ_OK && text && !same) status = pz_file_write(path, text, strlen(text), err);
    pz_free(text);
  }
  return status;
}

enum pz_status pz_export_same(const char *dir, const struct pz_result *r, int i, bool *there,
                              bool *same, struct pz_error *err) {
  enum { MOST_BYTES = 1 << 20 };
  char path[4096], *text = NULL, *own = NULL;
  size_t bytes = 0;
  enum pz_status status = path_of(dir, i, path, err);
  if (status == PZ_OK) status = text_of(r, i, &text, err);
  *same = false;
  *there = status == PZ_OK && text && access(path, F_OK) == 0;
  if (*there) {
    enum pz_status read = pz_file_read(path, MOST_BYTES, &own, &bytes, NULL);
    *same = read == PZ_OK && strcmp(own, text) == 0;
    if (read == PZ_NO_MEMORY) status = pz_fail(err, read, "out of memory for %s", path);
  }
  pz_free(own);
  pz_free(text);
  return status;
}
