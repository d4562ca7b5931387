/* What is known of a real chip's dies, from its preset: to judge the bill. */

#include <string.h>

#include "core/fields.h"
#include "core/text.h"

enum pz_status pz_known_load(const char *chip, struct pz_known *out, struct pz_error *err) {
  const char *text = pz_chip_preset_text(chip);
  json_t *root = NULL;
  *out = (struct pz_known){0};
  if (!text) return PZ_OK;
  enum pz_status status = pz_json_parse(chip, text, strlen(text), &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = chip, .root = json_object_get(root, "known"), .err = err};
  struct pz_known k = {0};
  if (f.root) {
    pz_text_copy(k.die, sizeof k.die, pz_fields_text_or(&f, "die", ""));
    k.mm2 = pz_fields_real_or(&f, "mm2", 1, 1e6, 0);
    k.watts = pz_fields_real_or(&f, "watts", 1, 1e6, 0);
    k.fitted = pz_fields_bool_or(&f, "fitted", false);
    status = pz_fields_finish(&f);
  }
  json_decref(root);
  if (status == PZ_OK) *out = k;
  return status;
}
