#include "report/finished.h"

#include <stdlib.h>
#include <string.h>

static enum pz_status check_version(const json_t *inputs, struct pz_error *err) {
  const char *version = json_string_value(json_object_get(inputs, "version"));
  if (version && strcmp(version, pz_version()) == 0) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT, "the run was made by version %s, this is %s",
                 version ? version : "?", pz_version());
}

enum pz_status pz_finished_read(struct pz_run_file *f, json_t **inputs, json_t **result,
                                struct pz_error *err) {
  const char *made_with = pz_run_file_inputs(f);
  char *found = NULL;
  enum pz_status status = pz_json_parse("inputs", made_with, strlen(made_with), inputs, err);
  if (status == PZ_OK) status = pz_run_file_result(f, &found, err);
  if (status != PZ_OK) return status;
  if (!found)
    return pz_fail(err, PZ_BAD_INPUT, "the run has not finished; the same search goes on");
  status = pz_json_parse("result", found, strlen(found), result, err);
  free(found);
  return status == PZ_OK ? check_version(*inputs, err) : status;
}
