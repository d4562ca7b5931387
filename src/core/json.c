/* JSON through jansson.
 *
 * jansson 2.14 ignores some failed allocations.  Our allocator remembers them: pz_json_lost() says
 * whether one has failed in this thread, so that documents may be incomplete.  While jansson reads,
 * a failure ends the text early (next_byte), and the result is discarded.  While it writes, a
 * failure is kept in struct output, because jansson passes over a key that was not appended. */
#include "core/json.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

/* The text that jansson has not read yet. */
struct source {
  const char *at, *end;
};

/* Hands jansson the next byte, or none at the end of the text or after a failed allocation. */
static size_t next_byte(void *buffer, size_t size, void *ctx) {
  struct source *source = ctx;
  if (size == 0 || source->at == source->end || pz_json_lost()) return 0;
  *(char *)buffer = *source->at;
  source->at++;
  return 1;
}

/* Parses a text, or returns NULL.  When the buffer of a token cannot grow, jansson 2.14
 * continues and may copy past its end.  Therefore the first allocation that fails gets a
 * reserved block, twice as large as the longest token, and the text ends there. */
static json_t *parse_text(const char *text, size_t bytes, json_error_t *where) {
  enum { SHORTEST_RESERVE = 64 };
  struct source source = {text, text + bytes};
  if (bytes > SIZE_MAX / 4 || !pz_json_reserve(2 * bytes + SHORTEST_RESERVE)) return NULL;
  json_t *value = json_load_callback(next_byte, &source, JSON_REJECT_DUPLICATES, where);
  pz_json_reserve(0);
  return value;
}

static void release_value(void *value) { json_decref(value); }

/* Parses one JSON object, which is released when the call ends. */
json_t *pz_json_read(struct pz_call *call, const char *name, const char *text, size_t bytes) {
  json_error_t where = {.line = -1};
  json_t *value = parse_text(text, bytes, &where);
  if (value) pz_defer(call, release_value, value);
  /* without memory, jansson's reader drops a character or calls the text invalid */
  bool has_message = value || where.text[0];
  bool no_memory = pz_json_lost() || !has_message ||
                   (!value && json_error_code(&where) == json_error_out_of_memory);
  if (no_memory) pz_raise_memory(call, name);
  const char *accepted = "a JSON object";
  switch (json_error_code(&where)) {
  case json_error_duplicate_key: accepted = "each key once"; break;
  case json_error_invalid_utf8: accepted = "UTF-8"; break;
  case json_error_stack_overflow: accepted = "arrays and objects nested at most 2048 deep"; break;
  case json_error_end_of_input_expected: accepted = "one JSON object, and nothing behind it"; break;
  case json_error_numeric_overflow: accepted = "integers of 64 bits, numbers up to 1e308"; break;
  default: break;
  }
  if (!value)
    pz_raise_at(call, PZ_BAD_INPUT, name, where.line, where.column,
                "%s:%d:%d: not valid JSON: %s; accepted: %s", name, where.line, where.column,
                where.text, accepted);
  if (!json_is_object(value))
    pz_raise(call, PZ_BAD_INPUT, "%s: found %s at the top; accepted: a JSON object", name,
             pz_json_type(value));
  return value;
}

struct output {
  struct pz_buffer *buffer;
  bool failed; /* there was no memory for a part of the text */
};

/* Appends text for json_dump_callback(), where -1 means an error. */
static int append_output(const char *text, size_t bytes, void *ctx) {
  struct output *output = ctx;
  output->failed = output->failed || !pz_buffer_append(output->buffer, text, bytes);
  return output->failed ? -1 : 0;
}

/* Appends the text of a value.  Returns false if there is no memory, or the value has no text. */
static bool append_value(struct pz_buffer *buffer, const json_t *value, size_t flags) {
  struct output output = {buffer, false};
  return json_dump_callback(value, append_output, &output, flags) == 0 && !output.failed;
}

/* Returns a document that was built, or raises an error if memory ran out meanwhile. */
json_t *pz_json_built(struct pz_call *call, json_t *value) {
  if (value) pz_defer(call, release_value, value);
  if (!value || pz_json_lost()) pz_raise_memory(call, "JSON");
  return value;
}

void pz_json_add(struct pz_call *call, struct pz_buffer *buffer, const json_t *value,
                 size_t flags) {
  if (!append_value(buffer, value, flags) || pz_json_lost()) pz_raise_memory(call, "JSON");
}

void pz_json_print(struct pz_call *call, struct pz_buffer *buffer, const json_t *value) {
  pz_json_add(call, buffer, value, JSON_INDENT(1) | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
  pz_buffer_add(call, buffer, "\n", 1);
}

char *pz_json_take(struct pz_call *call, const json_t *value) {
  struct pz_buffer *buffer = pz_buffer_new(call);
  pz_json_print(call, buffer, value);
  return pz_buffer_take(call, buffer);
}

/* Returns the text of a value in the memory of the call, in the layout of json_dumps(). */
char *pz_json_format(struct pz_call *call, const json_t *value, size_t flags) {
  struct pz_buffer *buffer = pz_buffer_new(call);
  pz_json_add(call, buffer, value, flags);
  pz_buffer_add(call, buffer, "", 0);
  char *text = pz_copy(call, buffer->text, buffer->bytes + 1, 1);
  pz_close(call, buffer);
  return text;
}

/* Writes a value to buf as compact text, cut to fit, for a message; "?" if there is no memory.
 * Returns buf. */
char *pz_json_brief(const json_t *value, char *buf, size_t size) {
  struct pz_buffer text = {0};
  bool failed_before = pz_json_lost();
  bool complete = append_value(&text, value, JSON_ENCODE_ANY | JSON_COMPACT);
  /* A failed allocation here costs only the text of the message.  It is forgotten, because
   * otherwise the message would be reported as "out of memory".  An earlier failure is kept. */
  if (!failed_before) pz_json_lost_set(false);
  snprintf(buf, size, "%s", complete ? text.text : "?");
  if (complete && text.bytes >= size && size > 4) memcpy(buf + size - 4, "...", 4);
  pz_free(text.text);
  return buf;
}

const char *pz_json_type(const json_t *value) {
  static const char *const names[] = {
      [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
      [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real number", [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",        [JSON_NULL] = "null"};
  return value ? names[json_typeof(value)] : "nothing";
}

/* Parses a text that is known to be valid.  Returns NULL if there is no memory, and sets
 * pz_json_lost() for callers that build documents without looking at the result. */
json_t *pz_json_parse_again(const char *text) {
  json_error_t where;
  json_t *value = parse_text(text, strlen(text), &where);
  if (!value || pz_json_lost()) {
    json_decref(value);
    pz_json_lost_set(true);
    return NULL;
  }
  return value;
}
