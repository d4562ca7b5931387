/* Values from text.  The text is outside data: bytes and depth are limited, every string is UTF-8. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "wasm/json/values.h"

enum { MOST_DEPTH = 2048, MOST_BYTES = 1 << 26 };

struct reader {
  const char *begin, *at, *end;
  bool reject_duplicates;
  json_error_t *error;
};

static json_t *read_value(struct reader *r, int depth);

/* ---- errors --------------------------------------------------------------------------------- */

/* The first error stays; with its place, columns in characters. */
static json_t *fail(struct reader *r, const char *what) {
  int line = 1, column = 0;
  if (r->error->text[0]) return NULL;
  for (const char *at = r->begin; at < r->at; at++) {
    if (*at == '\n') {
      line++;
      column = 0;
    } else if (((unsigned char)*at & 0xC0) != 0x80) {
      column++;
    }
  }
  r->error->line = line;
  r->error->column = column;
  r->error->position = (int)(r->at - r->begin);
  int near = r->end - r->at < 20 ? (int)(r->end - r->at) : 20;
  if (near)
    snprintf(r->error->text, sizeof r->error->text, "%s near '%.*s'", what, near, r->at);
  else
    snprintf(r->error->text, sizeof r->error->text, "%s near end of file", what);
  return NULL;
}

static void skip_space(struct reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
    r->at++;
}

static bool take(struct reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* ---- strings -------------------------------------------------------------------------------- */

static bool read_hex(struct reader *r, int32_t *out) {
  int32_t x = 0;
  if (r->end - r->at < 4) return false;
  for (int i = 0; i < 4; i++, r->at++) {
    char c = *r->at;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return false;
    x = x << 4 | digit;
  }
  *out = x;
  return true;
}

/* A \u with its partner, where it is half of a pair. */
static bool read_code(struct reader *r, int32_t *out) {
  int32_t high, low;
  if (!read_hex(r, &high)) return false;
  *out = high;
  if (high < 0xD800 || high > 0xDFFF) return high != 0;
  if (high > 0xDBFF || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return false;
  r->at += 2;
  if (!read_hex(r, &low) || low < 0xDC00 || low > 0xDFFF) return false;
  *out = 0x10000 + ((high & 0x3FF) << 10 | (low & 0x3FF));
  return true;
}

static size_t put_code(char *out, int32_t code) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)((0xF0 << (4 - n) & 0xFF) | code);
  return n;
}

static bool read_escape(struct reader *r, char **out) {
  static const char names[] = "\"\\/bfnrt", letters[] = "\"\\/\b\f\n\r\t";
  const char *name = r->at < r->end && *r->at ? strchr(names, *r->at) : NULL;
  int32_t code;
  if (name) {
    *(*out)++ = letters[name - names];
    r->at++;
    return true;
  }
  if (r->at == r->end || *r->at++ != 'u' || !read_code(r, &code)) return false;
  *out += put_code(*out, code);
  return true;
}

/* Behind the first quote; the bytes without escapes, to be freed.  They are fewer than in the text. */
static char *read_text(struct reader *r, size_t *bytes) {
  const char *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' && close + 1 < r->end ? 2 : 1;
  char *text = pz_malloc((size_t)(close - r->at) + 1), *to = text;
  while (text && r->at < r->end && *r->at != '"') {
    int32_t code;
    size_t n = utf8_at(r->at, r->end, &code);
    const char *wrong = !n ? "unable to decode byte" : code < 0x20 ? "control character" : NULL;
    if (!wrong && code == '\\') {
      r->at++;
      if (!read_escape(r, &to)) wrong = "invalid escape";
    } else if (!wrong) {
      memcpy(to, r->at, n);
      r->at += n;
      to += n;
    }
    if (!wrong) continue;
    fail(r, wrong);
    pz_free(text);
    return NULL;
  }
  if (!text) return NULL;
  if (r->at == r->end) {
    fail(r, "premature end of input");
    pz_free(text);
    return NULL;
  }
  r->at++;
  *to = '\0';
  *bytes = (size_t)(to - text);
  return text;
}

static json_t *read_string(struct reader *r) {
  size_t bytes;
  char *text = read_text(r, &bytes);
  json_t *s = text ? json_stringn(text, bytes) : NULL;
  pz_free(text);
  return s;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static size_t digits(const struct reader *r, const char *at) {
  size_t n = 0;
  while (at + n < r->end && at[n] >= '0' && at[n] <= '9') n++;
  return n;
}

/* The end of a number as JSON writes it, NULL: there is none; *real: it has a fraction or an exponent. */
static const char *number_end(const struct reader *r, bool *real) {
  const char *at = r->at + (*r->at == '-');
  size_t n = digits(r, at);
  if (!n || (n > 1 && *at == '0')) return NULL;
  at += n;
  *real = false;
  if (at < r->end && *at == '.') {
    n = digits(r, at + 1);
    if (!n) return NULL;
    at += n + 1;
    *real = true;
  }
  if (at < r->end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < r->end && (*at == '+' || *at == '-')) at++;
    n = digits(r, at);
    if (!n) return NULL;
    at += n;
    *real = true;
  }
  return at;
}

/* The text ends with a zero, so that the C library stops. */
static json_t *read_number(struct reader *r) {
  bool real;
  const char *end = number_end(r, &real);
  json_t *out;
  if (!end) return fail(r, "invalid token");
  errno = 0;
  if (real) {
    double v = strtod(r->at, NULL);
    if (!isfinite(v)) return fail(r, "real number overflow");
    out = json_real(v);
  } else {
    long long v = strtoll(r->at, NULL, 10);
    if (errno) return fail(r, *r->at == '-' ? "too big negative integer" : "too big integer");
    out = json_integer(v);
  }
  r->at = end;
  return out;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool read_member(struct reader *r, json_t *o, int depth) {
  size_t bytes;
  skip_space(r);
  if (r->at == r->end || *r->at != '"') return fail(r, "string or '}' expected"), false;
  r->at++;
  char *key = read_text(r, &bytes);
  if (!key) return false;
  bool good = false;
  if (r->reject_duplicates && json_object_get(o, key))
    fail(r, "duplicate object key");
  else if (!take(r, ':'))
    fail(r, "':' expected");
  else
    good = json_object_set_new(o, key, read_value(r, depth)) == 0;
  pz_free(key);
  return good;
}

static json_t *read_object(struct reader *r, int depth) {
  json_t *o = json_object();
  bool good = o != NULL;
  if (take(r, '}')) return o;
  do good = good && read_member(r, o, depth);
  while (good && take(r, ','));
  if (good && take(r, '}')) return o;
  if (good) fail(r, "'}' expected");
  json_decref(o);
  return NULL;
}

static json_t *read_array(struct reader *r, int depth) {
  json_t *a = json_array();
  bool good = a != NULL;
  if (take(r, ']')) return a;
  do good = good && json_array_append_new(a, read_value(r, depth)) == 0;
  while (good && take(r, ','));
  if (good && take(r, ']')) return a;
  if (good) fail(r, "']' expected");
  json_decref(a);
  return NULL;
}

static json_t *read_word(struct reader *r) {
  static const char *const words[] = {"true", "false", "null"};
  json_t *const values[] = {json_true(), json_false(), json_null()};
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i], n) != 0) continue;
    const char *behind = r->at + n;
    if (behind < r->end && ((*behind | 0x20) >= 'a' && (*behind | 0x20) <= 'z')) break;
    r->at = behind;
    return values[i];
  }
  return fail(r, "invalid token");
}

static json_t *read_value(struct reader *r, int depth) {
  skip_space(r);
  if (depth == MOST_DEPTH) return fail(r, "maximum parsing depth reached");
  if (r->at == r->end) return fail(r, "unexpected end of input");
  char c = *r->at;
  if (c == '-' || (c >= '0' && c <= '9')) return read_number(r);
  if (c != '{' && c != '[' && c != '"') return read_word(r);
  r->at++;
  return c == '{'   ? read_object(r, depth + 1)
         : c == '[' ? read_array(r, depth + 1)
                    : read_string(r);
}

/* All bytes of the callback and a zero behind them, to be freed. */
static char *read_bytes(json_load_callback_t callback, void *data, size_t *bytes) {
  size_t cap = 4096, n = 0, got;
  char *text = pz_malloc(cap);
  while (text && n < MOST_BYTES && (got = callback(text + n, cap - n - 1, data))) {
    n += got;
    if (cap - n > 1) continue;
    char *more = pz_realloc(text, cap *= 2);
    if (!more) pz_free(text);
    text = more;
  }
  if (text) text[n] = '\0';
  *bytes = n;
  return text;
}

json_t *json_load_callback(json_load_callback_t callback, void *data, size_t flags,
                           json_error_t *error) {
  size_t bytes;
  char *text = read_bytes(callback, data, &bytes);
  *error = (json_error_t){.line = -1, .column = -1};
  if (!text) return NULL;
  struct reader r = {text, text, text + bytes, flags & JSON_REJECT_DUPLICATES, error};
  json_t *value = NULL;
  skip_space(&r);
  if (r.at == r.end || (*r.at != '{' && *r.at != '['))
    fail(&r, "'[' or '{' expected");
  else
    value = read_value(&r, 0);
  skip_space(&r);
  if (value && r.at < r.end) {
    fail(&r, "end of file expected");
    json_decref(value);
    value = NULL;
  }
  pz_free(text);
  return value;
}
