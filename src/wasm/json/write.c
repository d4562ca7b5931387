/* Values as text. */
#include <stdio.h>
#include <string.h>

#include "wasm/json/values.h"

struct writer {
  json_dump_callback_t put;
  void *data;
  size_t flags;
};

static bool put(const struct writer *w, const char *text) {
  return w->put(text, strlen(text), w->data) == 0;
}

static bool put_value(const struct writer *w, const json_t *v, int depth);

/* A new line at this depth; without lines a space, where one is wanted. */
static bool put_indent(const struct writer *w, int depth, bool space) {
  size_t width = JSON_INDENT(w->flags);
  if (!width) return !space || w->flags & JSON_COMPACT || put(w, " ");
  bool good = put(w, "\n");
  for (size_t i = 0; i < width * (size_t)depth && good; i++) good = put(w, " ");
  return good;
}

/* ---- strings -------------------------------------------------------------------------------- */

static bool put_escape(const struct writer *w, int32_t code) {
  static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
  const char *letter = code && code < 128 ? strchr(letters, (int)code) : NULL;
  char text[16];
  if (letter)
    snprintf(text, sizeof text, "\\%c", names[letter - letters]);
  else if (code < 0x10000)
    snprintf(text, sizeof text, "\\u%04X", (unsigned)code);
  else
    snprintf(text, sizeof text, "\\u%04X\\u%04X", 0xD800u | (unsigned)(code - 0x10000) >> 10,
             0xDC00u | ((unsigned)(code - 0x10000) & 0x3FF));
  return put(w, text);
}

static bool put_string(const struct writer *w, const char *text, size_t bytes) {
  const char *end = text + bytes, *plain = text;
  bool good = put(w, "\"");
  while (good && text < end) {
    int32_t code = 0;
    size_t n = utf8_at(text, end, &code);
    if (!n) return false;
    if (code < 0x20 || code == '"' || code == '\\' ||
        (code > 0x7F && w->flags & JSON_ENSURE_ASCII)) {
      good = w->put(plain, (size_t)(text - plain), w->data) == 0 && put_escape(w, code);
      plain = text + n;
    }
    text += n;
  }
  return good && w->put(plain, (size_t)(end - plain), w->data) == 0 && put(w, "\"");
}

/* ---- numbers -------------------------------------------------------------------------------- */

static bool put_integer(const struct writer *w, json_int_t value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", value);
  return put(w, text);
}

/* 17 digits bring a double back; an exponent has neither plus nor leading zeros. */
static bool put_real(const struct writer *w, double value) {
  int digits = (int)(w->flags >> 11 & 0x1F);
  char text[64];
  snprintf(text, sizeof text, "%.*g", digits ? digits : 17, value);
  char *exponent = strchr(text, 'e');
  if (!exponent && !strchr(text, '.')) strcat(text, ".0");
  if (exponent) {
    char *to = exponent + 1, *from = exponent + 2;
    if (*to == '-') to++;
    while (*from == '0') from++;
    memmove(to, from, strlen(from) + 1);
  }
  return put(w, text);
}

/* ---- values --------------------------------------------------------------------------------- */

static bool put_array(const struct writer *w, const json_t *v, int depth) {
  size_t n = json_array_size(v);
  if (!n) return put(w, "[]");
  bool good = put(w, "[");
  for (size_t i = 0; i < n && good; i++)
    good = (!i || put(w, ",")) && put_indent(w, depth + 1, i > 0) &&
           put_value(w, json_array_get(v, i), depth + 1);
  return good && put_indent(w, depth, false) && put(w, "]");
}

static bool put_object(const struct writer *w, const json_t *v, int depth) {
  const struct object *o = (const struct object *)v;
  if (!o->n) return put(w, "{}");
  bool good = put(w, "{");
  for (size_t i = 0; i < o->n && good; i++)
    good = (!i || put(w, ",")) && put_indent(w, depth + 1, i > 0) &&
           put_string(w, o->list[i].key, strlen(o->list[i].key)) &&
           put(w, w->flags & JSON_COMPACT ? ":" : ": ") &&
           put_value(w, o->list[i].value, depth + 1);
  return good && put_indent(w, depth, false) && put(w, "}");
}

static bool put_value(const struct writer *w, const json_t *v, int depth) {
  switch (v->type) {
  case JSON_OBJECT: return put_object(w, v, depth);
  case JSON_ARRAY: return put_array(w, v, depth);
  case JSON_STRING: return put_string(w, json_string_value(v), json_string_length(v));
  case JSON_INTEGER: return put_integer(w, json_integer_value(v));
  case JSON_REAL: return put_real(w, json_real_value(v));
  case JSON_TRUE: return put(w, "true");
  case JSON_FALSE: return put(w, "false");
  case JSON_NULL: return put(w, "null");
  }
  return false;
}

int json_dump_callback(const json_t *json, json_dump_callback_t callback, void *data,
                       size_t flags) {
  struct writer w = {callback, data, flags};
  if (!json) return -1;
  if (!(flags & JSON_ENCODE_ANY) && !json_is_object(json) && !json_is_array(json)) return -1;
  return put_value(&w, json, 0) ? 0 : -1;
}
