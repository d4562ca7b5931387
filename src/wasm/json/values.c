#include "wasm/json/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

/* ---- counting ------------------------------------------------------------------------------- */

static const size_t CONSTANT = (size_t)-1;

static void *new_value(size_t bytes, json_type type) {
  json_t *v = pz_malloc(bytes);
  if (v) *v = (json_t){type, 1};
  return v;
}

json_t *json_incref(json_t *json) {
  if (json && json->refcount != CONSTANT) json->refcount++;
  return json;
}

static void free_members(struct object *o) {
  for (size_t i = 0; i < o->n; i++) {
    pz_free(o->list[i].key);
    json_decref(o->list[i].value);
  }
  pz_free(o->list);
}

static void free_items(struct array *a) {
  for (size_t i = 0; i < a->n; i++) json_decref(a->list[i]);
  pz_free(a->list);
}

void json_decref(json_t *json) {
  if (!json || json->refcount == CONSTANT || --json->refcount) return;
  if (json->type == JSON_OBJECT) free_members((struct object *)json);
  if (json->type == JSON_ARRAY) free_items((struct array *)json);
  pz_free(json);
}

/* ---- strings -------------------------------------------------------------------------------- */

size_t utf8_at(const char *at, const char *end, int32_t *code) {
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char c = (unsigned char)*at;
  size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : 4;
  if (c >= 0x80 && (c < 0xC2 || c > 0xF4)) return 0;
  if ((size_t)(end - at) < n) return 0;
  int32_t x = n == 1 ? c : c & (0x7F >> n);
  for (size_t i = 1; i < n; i++) {
    if (((unsigned char)at[i] & 0xC0) != 0x80) return 0;
    x = x << 6 | ((unsigned char)at[i] & 0x3F);
  }
  if (x < least[n] || x > 0x10FFFF || (x >= 0xD800 && x <= 0xDFFF)) return 0;
  *code = x;
  return n;
}

static bool is_utf8(const char *at, size_t bytes) {
  int32_t code;
  for (const char *end = at + bytes; at < end;) {
    size_t n = utf8_at(at, end, &code);
    if (!n) return false;
    at += n;
  }
  return true;
}

json_t *json_stringn(const char *value, size_t bytes) {
  if (!value || !is_utf8(value, bytes)) return NULL;
  struct string *s = new_value(sizeof *s + bytes + 1, JSON_STRING);
  if (!s) return NULL;
  s->bytes = bytes;
  memcpy(s->text, value, bytes);
  s->text[bytes] = '\0';
  return &s->base;
}

json_t *json_string(const char *value) { return value ? json_stringn(value, strlen(value)) : NULL; }

json_t *json_sprintf(const char *format, ...) {
  va_list args;
  json_t *out = NULL;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = n < 0 ? NULL : pz_malloc((size_t)n + 1);
  if (!text) return NULL;
  va_start(args, format);
  if (vsnprintf(text, (size_t)n + 1, format, args) == n) out = json_stringn(text, (size_t)n);
  va_end(args);
  pz_free(text);
  return out;
}

const char *json_string_value(const json_t *s) {
  return json_is_string(s) ? ((const struct string *)s)->text : NULL;
}

size_t json_string_length(const json_t *s) {
  return json_is_string(s) ? ((const struct string *)s)->bytes : 0;
}

/* ---- numbers and constants ------------------------------------------------------------------ */

json_t *json_integer(json_int_t value) {
  struct integer *i = new_value(sizeof *i, JSON_INTEGER);
  if (i) i->value = value;
  return (json_t *)i;
}

json_t *json_real(double value) {
  if (!isfinite(value)) return NULL;
  struct real *r = new_value(sizeof *r, JSON_REAL);
  if (r) r->value = value;
  return (json_t *)r;
}

json_int_t json_integer_value(const json_t *i) {
  return json_is_integer(i) ? ((const struct integer *)i)->value : 0;
}

double json_real_value(const json_t *r) {
  return json_is_real(r) ? ((const struct real *)r)->value : 0;
}

double json_number_value(const json_t *n) {
  return json_is_integer(n) ? (double)json_integer_value(n) : json_real_value(n);
}

json_t *json_true(void) {
  static json_t constant = {JSON_TRUE, (size_t)-1};
  return &constant;
}

json_t *json_false(void) {
  static json_t constant = {JSON_FALSE, (size_t)-1};
  return &constant;
}

json_t *json_null(void) {
  static json_t constant = {JSON_NULL, (size_t)-1};
  return &constant;
}

/* ---- objects -------------------------------------------------------------------------------- */

json_t *json_object(void) {
  struct object *o = new_value(sizeof *o, JSON_OBJECT);
  if (!o) return NULL;
  o->n = 0;
  o->cap = 8;
  o->list = pz_calloc(o->cap, sizeof *o->list);
  if (o->list) return &o->base;
  pz_free(o);
  return NULL;
}

/* FNV-1a. */
static uint32_t hash_of(const char *key) {
  uint32_t h = 2166136261u;
  for (; *key; key++) h = (h ^ (unsigned char)*key) * 16777619u;
  return h;
}

static struct member *find_member(const json_t *json, const char *key) {
  const struct object *o = (const struct object *)json;
  if (!json_is_object(json) || !key) return NULL;
  uint32_t hash = hash_of(key);
  for (size_t i = 0; i < o->n; i++)
    if (o->list[i].hash == hash && strcmp(o->list[i].key, key) == 0) return &o->list[i];
  return NULL;
}

size_t json_object_size(const json_t *o) {
  return json_is_object(o) ? ((const struct object *)o)->n : 0;
}

json_t *json_object_get(const json_t *o, const char *key) {
  struct member *m = find_member(o, key);
  return m ? m->value : NULL;
}

static bool add_member(struct object *o, const char *key, json_t *value) {
  if (o->n + 1 == o->cap) { /* the last is the end */
    struct member *more = pz_realloc(o->list, 2 * o->cap * sizeof *more);
    if (!more) return false;
    o->list = more;
    o->cap *= 2;
  }
  char *copy = pz_malloc(strlen(key) + 1);
  if (!copy) return false;
  strcpy(copy, key);
  o->list[o->n++] = (struct member){copy, hash_of(key), value};
  o->list[o->n] = (struct member){0};
  return true;
}

int json_object_set_new(json_t *object, const char *key, json_t *value) {
  struct member *m = find_member(object, key);
  if (!value) return -1;
  bool good = json_is_object(object) && key && is_utf8(key, strlen(key));
  if (good && m) {
    json_decref(m->value);
    m->value = value;
  } else if (good) {
    good = add_member((struct object *)object, key, value);
  }
  if (!good) json_decref(value);
  return good ? 0 : -1;
}

int json_object_set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, json_incref(value));
}

int json_object_update(json_t *object, json_t *other) {
  const char *key;
  json_t *value;
  if (!json_is_object(object) || !json_is_object(other)) return -1;
  json_object_foreach(other, key, value) if (json_object_set(object, key, value) != 0) return -1;
  return 0;
}

int json_object_del(json_t *object, const char *key) {
  struct member *m = find_member(object, key);
  struct object *o = (struct object *)object;
  if (!m) return -1;
  pz_free(m->key);
  json_decref(m->value);
  memmove(m, m + 1, (size_t)(o->list + o->n - m) * sizeof *m); /* with the end */
  o->n--;
  return 0;
}

void *json_object_iter(json_t *object) {
  struct object *o = (struct object *)object;
  return json_is_object(object) && o->n ? o->list : NULL;
}

void *json_object_iter_next(json_t *object, void *iter) {
  struct member *m = iter;
  (void)object;
  return m && m[1].key ? m + 1 : NULL;
}

const char *json_object_iter_key(void *iter) { return iter ? ((struct member *)iter)->key : NULL; }

json_t *json_object_iter_value(void *iter) { return iter ? ((struct member *)iter)->value : NULL; }

/* ---- arrays --------------------------------------------------------------------------------- */

json_t *json_array(void) {
  struct array *a = new_value(sizeof *a, JSON_ARRAY);
  if (!a) return NULL;
  a->list = NULL;
  a->n = a->cap = 0;
  return &a->base;
}

size_t json_array_size(const json_t *a) {
  return json_is_array(a) ? ((const struct array *)a)->n : 0;
}

json_t *json_array_get(const json_t *a, size_t i) {
  return i < json_array_size(a) ? ((const struct array *)a)->list[i] : NULL;
}

int json_array_append_new(json_t *array, json_t *value) {
  struct array *a = (struct array *)array;
  if (!value) return -1;
  if (json_is_array(array) && a->n == a->cap) {
    size_t cap = a->cap ? 2 * a->cap : 8;
    json_t **more = pz_realloc(a->list, cap * sizeof *more);
    if (more) a->list = more;
    if (more) a->cap = cap;
  }
  if (json_is_array(array) && a->n < a->cap) {
    a->list[a->n++] = value;
    return 0;
  }
  json_decref(value);
  return -1;
}

/* ---- copies --------------------------------------------------------------------------------- */

json_t *json_deep_copy(const json_t *value) {
  if (!value) return NULL;
  switch (value->type) {
  case JSON_STRING: return json_stringn(json_string_value(value), json_string_length(value));
  case JSON_INTEGER: return json_integer(json_integer_value(value));
  case JSON_REAL: return json_real(json_real_value(value));
  case JSON_ARRAY: {
    json_t *a = json_array();
    for (size_t i = 0; i < json_array_size(value); i++)
      json_array_append_new(a, json_deep_copy(json_array_get(value, i)));
    return a;
  }
  case JSON_OBJECT: {
    json_t *o = json_object();
    for (const struct member *m = ((const struct object *)value)->list; m->key; m++)
      json_object_set_new(o, m->key, json_deep_copy(m->value));
    return o;
  }
  case JSON_TRUE: return json_true();
  case JSON_FALSE: return json_false();
  case JSON_NULL: return json_null();
  }
  return NULL;
}
