/* The part of jansson's interface that this program uses, for builds where jansson is not at hand: the page of `phaze
 * explore`.  Values, texts and the digits of numbers are those of jansson 2.14 (tests/cli/explore compares them); where
 * the interface is not described here, jansson's documentation is. */
#ifndef PZ_WASM_JANSSON_H
#define PZ_WASM_JANSSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum {
  JSON_OBJECT,
  JSON_ARRAY,
  JSON_STRING,
  JSON_INTEGER,
  JSON_REAL,
  JSON_TRUE,
  JSON_FALSE,
  JSON_NULL
} json_type;

typedef long long json_int_t;
#define JSON_INTEGER_FORMAT "lld"

/* Begins every value.  true, false and null are constants and not counted. */
typedef struct json_t {
  json_type type;
  size_t refcount;
} json_t;

#define json_typeof(json) ((json)->type)
#define json_is_object(json) ((json) && json_typeof(json) == JSON_OBJECT)
#define json_is_array(json) ((json) && json_typeof(json) == JSON_ARRAY)
#define json_is_string(json) ((json) && json_typeof(json) == JSON_STRING)
#define json_is_integer(json) ((json) && json_typeof(json) == JSON_INTEGER)
#define json_is_real(json) ((json) && json_typeof(json) == JSON_REAL)
#define json_is_number(json) (json_is_integer(json) || json_is_real(json))
#define json_is_true(json) ((json) && json_typeof(json) == JSON_TRUE)
#define json_is_false(json) ((json) && json_typeof(json) == JSON_FALSE)
#define json_is_boolean(json) (json_is_true(json) || json_is_false(json))
#define json_is_null(json) ((json) && json_typeof(json) == JSON_NULL)

json_t *json_incref(json_t *json);
void json_decref(json_t *json);

json_t *json_object(void);
json_t *json_array(void);
json_t *json_string(const char *value); /* NULL: not UTF-8 */
json_t *json_stringn(const char *value, size_t bytes);
json_t *json_sprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
json_t *json_integer(json_int_t value);
json_t *json_real(double value); /* NULL: not finite */
json_t *json_true(void);
json_t *json_false(void);
#define json_boolean(value) ((value) ? json_true() : json_false())
json_t *json_null(void);
json_t *json_deep_copy(const json_t *value);

/* Letters of the format: { } [ ] s s? b i I f n o O, with : and , between. */
json_t *json_pack(const char *format, ...);

const char *json_string_value(const json_t *string);
size_t json_string_length(const json_t *string);
json_int_t json_integer_value(const json_t *integer);
double json_real_value(const json_t *real);
double json_number_value(const json_t *number);

/* Members keep their order of insertion. */
size_t json_object_size(const json_t *object);
json_t *json_object_get(const json_t *object, const char *key);
int json_object_set_new(json_t *object, const char *key, json_t *value);
int json_object_set(json_t *object, const char *key, json_t *value);
int json_object_update(json_t *object, json_t *other);
int json_object_del(json_t *object, const char *key);
void *json_object_iter(json_t *object);
void *json_object_iter_next(json_t *object, void *iter);
const char *json_object_iter_key(void *iter);
json_t *json_object_iter_value(void *iter);
#define json_object_foreach(object, key, value)                                                    \
  for (void *iter_ = json_object_iter(object);                                                     \
       iter_ && ((key) = json_object_iter_key(iter_), (value) = json_object_iter_value(iter_));    \
       iter_ = json_object_iter_next(object, iter_))

size_t json_array_size(const json_t *array);
json_t *json_array_get(const json_t *array, size_t index);
int json_array_append_new(json_t *array, json_t *value);
#define json_array_foreach(array, index, value)                                                    \
  for ((index) = 0; (index) < json_array_size(array) && ((value) = json_array_get(array, index));  \
       (index)++)

/* ---- text ----------------------------------------------------------------------------------- */

typedef struct json_error_t {
  int line, column, position;
  char source[80];
  char text[160];
} json_error_t;

enum json_error_code { json_error_unknown, json_error_out_of_memory };
static inline enum json_error_code json_error_code(const json_error_t *e) {
  return e->text[0] ? json_error_unknown : json_error_out_of_memory;
}

#define JSON_REJECT_DUPLICATES 0x1
typedef size_t (*json_load_callback_t)(void *buffer, size_t bytes, void *data);
json_t *json_load_callback(json_load_callback_t callback, void *data, size_t flags,
                           json_error_t *error);

#define JSON_INDENT(n) ((n)&0x1F)
#define JSON_COMPACT 0x20
#define JSON_ENSURE_ASCII 0x40
#define JSON_PRESERVE_ORDER 0x100
#define JSON_ENCODE_ANY 0x200
#define JSON_REAL_PRECISION(n) (((n)&0x1F) << 11)
typedef int (*json_dump_callback_t)(const char *text, size_t bytes, void *data);
int json_dump_callback(const json_t *json, json_dump_callback_t callback, void *data, size_t flags);

#endif
