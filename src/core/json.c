#include "core/json.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

/* Did memory run out while jansson was reading?  Its reader then continues with a character missing or calls the text invalid, so
 * its result cannot be relied on. */
static bool ran_out_of_memory(const json_t *value, const json_error_t *where) {
  return pz_json_lost() ||
         (!value && (!where->text[0] || json_error_code(where) == json_error_out_of_memory));
}

struct source {
  const char *at, *end;
};

/* Hands jansson the next byte, or none at the end of the text and after an allocation has failed. */
static size_t next_byte(void *buffer, size_t size, void *source) {
  struct source *s = source;
  if (size == 0 || s->at == s->end || pz_json_lost()) return 0;
  *(char *)buffer = *s->at++;
  return 1;
}

/* Parses a text.  jansson 2.14 ignores that the buffer of the current token could not grow, and if the lost byte is a closing quote
 * it copies past the end of the buffer.  Therefore the first allocation that fails gets a reserved block, twice as large as the
 * longest token, and the text ends there. */
static json_t *parse_text(const char *text, size_t bytes, json_error_t *where) {
  enum { LEAST = 64 };
  struct source source = {text, text + bytes};
  size_t most;
  if (__builtin_mul_overflow(bytes, 2, &most) || __builtin_add_overflow(most, LEAST, &most) ||
      !pz_json_reserve(most))
    return NULL;
  json_t *value = json_load_callback(next_byte, &source, JSON_REJECT_DUPLICATES, where);
  pz_json_reserve_end();
  return value;
}

/* What is accepted instead of the text that caused the error. */
static const char *accepted_instead(const json_error_t *where) {
  switch (json_error_code(where)) {
  case json_error_duplicate_key: return "each key once";
  case json_error_invalid_utf8: return "UTF-8";
  case json_error_stack_overflow: return "arrays and objects nested at most 2048 deep";
  case json_error_end_of_input_expected: return "one JSON object, and nothing behind it";
  case json_error_numeric_overflow: return "integers of 64 bits, numbers up to 1e308";
  default: return "a JSON object";
  }
}

enum pz_status pz_json_parse(const char *name, const char *text, size_t bytes, json_t **out,
                             struct pz_error *err) {
  json_error_t where = {.line = -1};
  json_t *value = parse_text(text, bytes, &where);
  if (ran_out_of_memory(value, &where)) {
    json_decref(value);
    return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", name);
  }
  if (!value) {
    enum pz_status status =
        pz_fail(err, PZ_BAD_INPUT, "%s:%d:%d: not valid JSON: %s; accepted: %s", name, where.line,
                where.column, where.text, accepted_instead(&where));
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

static int append(const char *text, size_t bytes, void *buffer) {
  return pz_buffer_append(buffer, text, bytes) ? 0 : -1;
}

/* The text with `end` after it, in memory of ours whatever jansson allocates with.  jansson passes
 * over a key that was not appended; the buffer does not forget. */
static char *dump(const json_t *value, size_t flags, const char *end) {
  struct pz_buffer b = {0};
  if (json_dump_callback(value, append, &b, flags) == 0 && pz_buffer_append(&b, end, strlen(end)))
    return b.text;
  pz_free(b.text);
  return NULL;
}

static char *dump_whole(const json_t *value, size_t flags, const char *end) {
  char *text = dump(value, flags, end);
  if (!pz_json_lost()) return text;
  pz_free(text);
  return NULL;
}

char *pz_json_dump(const json_t *value, size_t flags) { return dump_whole(value, flags, ""); }

enum pz_status pz_json_text(const json_t *value, char **text, struct pz_error *err) {
  char *whole = dump_whole(value, JSON_INDENT(1) | JSON_ENCODE_ANY | JSON_ENSURE_ASCII, "\n");
  if (!whole) return pz_fail(err, PZ_NO_MEMORY, "out of memory while writing JSON");
  *text = whole;
  return PZ_OK;
}

char *pz_json_brief(const json_t *value, char *buf, size_t size) {
  bool before = pz_json_lost();
  char *text = dump(value, JSON_ENCODE_ANY | JSON_COMPACT, "");
  if (!before) pz_json_lost_set(false); /* by the message that it is for */
  snprintf(buf, size, "%s", text ? text : "?");
  if (text && strlen(text) >= size && size > 4) memcpy(buf + size - 4, "...", 4);
  pz_free(text);
  return buf;
}

const char *pz_json_type(const json_t *value) {
  static const char *const name[] = {
      [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
      [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real number", [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",        [JSON_NULL] = "null"};
  return value ? name[json_typeof(value)] : "nothing";
}

/* ---- raising -------------------------------------------------------------------------------- */

static void release_value(void *value) { json_decref(value); }

json_t *pz_json_read(struct pz_call *call, const char *name, const char *text, size_t bytes) {
  json_t *value = NULL;
  pz_must(call, pz_json_parse(name, text, bytes, &value, pz_call_error(call)));
  pz_defer(call, release_value, value);
  return value;
}

json_t *pz_json_built(struct pz_call *call, json_t *value) {
  if (value) pz_defer(call, release_value, value);
  if (!value || pz_json_lost()) pz_raise(call, PZ_NO_MEMORY, "out of memory while building JSON");
  return value;
}

void pz_json_print(struct pz_call *call, struct pz_buffer *b, const json_t *value) {
  size_t flags = JSON_INDENT(1) | JSON_ENCODE_ANY | JSON_ENSURE_ASCII;
  bool whole = json_dump_callback(value, append, b, flags) == 0 && !pz_json_lost();
  if (!whole) pz_raise(call, PZ_NO_MEMORY, "out of memory while writing JSON");
  pz_buffer_add(call, b, "\n", 1);
}
