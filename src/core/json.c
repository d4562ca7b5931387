#include "core/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum pz_status pz_json_parse(const char *name, const char *text, size_t bytes, json_t **out,
                             struct pz_error *err) {
  json_error_t where = {.line = -1};
  json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
  if (!value) {
    enum pz_status status = pz_fail(err, PZ_BAD_INPUT, "%s:%d:%d: not valid JSON: %s", name,
                                    where.line, where.column, where.text);
    pz_error_at(err, name, where.line, where.column);
    return status;
  }
  if (!json_is_object(value)) {
    enum pz_status status =
        pz_fail(err, PZ_BAD_INPUT, "%s: found %s at the top; accepted: a JSON object", name,
                pz_json_type(value));
    json_decref(value);
    return status;
  }
  *out = value;
  return PZ_OK;
}

enum pz_status pz_json_text(const json_t *value, char **text, struct pz_error *err) {
  char *body = json_dumps(value, JSON_INDENT(1) | JSON_ENCODE_ANY);
  size_t n = body ? strlen(body) : 0;
  char *line = body ? realloc(body, n + 2) : NULL;
  if (!line) {
    free(body);
    return pz_fail(err, PZ_NO_MEMORY, "out of memory while writing JSON");
  }
  memcpy(line + n, "\n", 2);
  *text = line;
  return PZ_OK;
}

char *pz_json_brief(const json_t *value, char *buf, size_t size) {
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  snprintf(buf, size, "%s", text ? text : "?");
  if (text && strlen(text) >= size && size > 4) memcpy(buf + size - 4, "...", 4);
  free(text);
  return buf;
}

const char *pz_json_type(const json_t *value) {
  static const char *const name[] = {
      [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
      [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real number", [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",        [JSON_NULL] = "null"};
  return value ? name[json_typeof(value)] : "nothing";
}
