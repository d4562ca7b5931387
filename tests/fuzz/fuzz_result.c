/* Texts of a run file: any bytes give a result, or an error with a message. */
#include <stdlib.h>
#include <string.h>

#include "study/result_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_result r;
  struct pz_arena arena;
  struct pz_error errors[4] = {{0}};
  json_t *json = NULL;
  if (pz_json_parse("x", (const char *)data, bytes, &json, &errors[0]) != PZ_OK) {
    require(errors[0].message[0]);
    return 0;
  }
  pz_arena_init(&arena, NULL);
  pz_result_init(&r, &arena);
  enum pz_status status = pz_result_read(json, &r, &errors[1]);
  require(status == PZ_OK || errors[1].message[0]);
  if (status == PZ_OK) {
    require(r.n_answers > 0 && pz_result_best(&r)->n_models == r.inputs.options.n_models);
    json_t *again = pz_result_json(&r);
    require(again != NULL);
    json_decref(again);
  }
  if (pz_comparison_read(json, &r, &errors[2]) != PZ_OK) require(errors[2].message[0]);
  if (pz_detail_read(json, &r, &errors[3]) != PZ_OK) require(errors[3].message[0]);
  pz_arena_release(&arena);
  json_decref(json);
  return 0;
}
