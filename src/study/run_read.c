#include "study/run_read.h"

#include <string.h>

#include "core/alloc.h"

static enum pz_status check_version(const json_t *inputs, struct pz_error *err) {
  const char *version = json_string_value(json_object_get(inputs, "version"));
  if (version && strcmp(version, pz_version()) == 0) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT, "the run was made by version %s, this is %s",
                 version ? version : "?", pz_version());
}

typedef enum pz_status read_text(struct pz_run_file *f, char **text, struct pz_error *err);

/* A text of the run as JSON; NULL where there is none. */
static enum pz_status read_json(struct pz_run_file *f, read_text *read, const char *name,
                                json_t **out, struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = read(f, &text, err);
  if (status == PZ_OK && text) status = pz_json_parse(name, text, strlen(text), out, err);
  pz_free(text);
  return status;
}

enum pz_status pz_finished_result(struct pz_run_file *f, json_t **out, struct pz_error *err) {
  return read_json(f, pz_run_file_result, "the result", out, err);
}

enum pz_status pz_finished_comparison(struct pz_run_file *f, json_t **out, struct pz_error *err) {
  return read_json(f, pz_run_file_comparison, "the comparison", out, err);
}

enum pz_status pz_finished_read(struct pz_run_file *f, struct pz_finished *out,
                                struct pz_error *err) {
  const char *inputs = pz_run_file_inputs(f);
  enum pz_status status = pz_json_parse("inputs", inputs, strlen(inputs), &out->inputs, err);
  if (status == PZ_OK) status = pz_finished_result(f, &out->result, err);
  if (status == PZ_OK && !out->result)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "the run is not finished; run the same search command to resume it");
  if (status == PZ_OK) status = pz_finished_comparison(f, &out->comparison, err);
  return status == PZ_OK ? check_version(out->inputs, err) : status;
}

void pz_finished_release(struct pz_finished *run) {
  json_decref(run->inputs);
  json_decref(run->result);
  json_decref(run->comparison);
  *run = (struct pz_finished){0};
}
