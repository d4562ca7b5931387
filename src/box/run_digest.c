#include "box/run_digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"

enum pz_status pz_run_digest(const json_t *result, const char *boxes, char out[PZ_RUN_DIGEST_TEXT],
                             struct pz_error *err) {
  json_t *without = json_copy((json_t *)(uintptr_t)result);
  char *text = NULL;
  json_object_del(without, "digest");
  enum pz_status status = pz_json_text(without, &text, err);
  json_decref(without);
  if (status != PZ_OK) return status;
  uint64_t both[] = {pz_hash(text, strlen(text)), pz_hash(boxes, strlen(boxes))};
  snprintf(out, PZ_RUN_DIGEST_TEXT, "%016" PRIx64, pz_hash(both, sizeof both));
  pz_free(text);
  return PZ_OK;
}

enum pz_status pz_run_digest_check(const char *dir, const json_t *result, const char *boxes,
                                   struct pz_error *err) {
  char digest[PZ_RUN_DIGEST_TEXT];
  const char *own = json_string_value(json_object_get(result, "digest"));
  enum pz_status status = pz_run_digest(result, boxes, digest, err);
  if (status == PZ_OK && !(own && strcmp(own, digest) == 0))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%.200s: result.json or boxes.csv changed since the search wrote them", dir);
  return status;
}
