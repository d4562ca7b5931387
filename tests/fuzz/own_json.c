/* The reader and writer of src/wasm/json under names of their own, beside jansson. */
#define json_array own_json_array
#define json_array_append_new own_json_array_append_new
#define json_array_get own_json_array_get
#define json_array_size own_json_array_size
#define json_decref own_json_decref
#define json_deep_copy own_json_deep_copy
#define json_dump_callback own_json_dump_callback

#define json_false own_json_false
#define json_incref own_json_incref
#define json_integer own_json_integer
#define json_integer_value own_json_integer_value
#define json_load_callback own_json_load_callback
#define json_null own_json_null
#define json_number_value own_json_number_value
#define json_object own_json_object
#define json_object_del own_json_object_del
#define json_object_get own_json_object_get
#define json_object_iter own_json_object_iter
#define json_object_iter_key own_json_object_iter_key
#define json_object_iter_next own_json_object_iter_next
#define json_object_iter_value own_json_object_iter_value
#define json_object_set own_json_object_set
#define json_object_set_new own_json_object_set_new
#define json_object_size own_json_object_size
#define json_object_update own_json_object_update
#define json_pack own_json_pack
#define json_real own_json_real
#define json_real_value own_json_real_value
#define json_sprintf own_json_sprintf
#define json_string own_json_string
#define json_string_length own_json_string_length
#define json_string_value own_json_string_value
#define json_stringn own_json_stringn
#define json_true own_json_true
#define utf8_at own_utf8_at

#include "wasm/json/pack.c"   /* NOLINT(bugprone-suspicious-include) */
#include "wasm/json/read.c"   /* NOLINT(bugprone-suspicious-include) */
#include "wasm/json/values.c" /* NOLINT(bugprone-suspicious-include) */
#include "wasm/json/write.c"  /* NOLINT(bugprone-suspicious-include) */

#include "own_json.h"

struct own_text {
  const char *at, *end;
};

static size_t next_bytes(void *buffer, size_t size, void *data) {
  struct own_text *t = data;
  size_t n = (size_t)(t->end - t->at) < size ? (size_t)(t->end - t->at) : size;
  memcpy(buffer, t->at, n);
  t->at += n;
  return n;
}

bool own_json_again(const char *text, size_t bytes, size_t flags,
                    int (*put_text)(const char *, size_t, void *), void *to) {
  struct own_text t = {text, text + bytes};
  json_error_t error;
  json_t *value = json_load_callback(next_bytes, &t, JSON_REJECT_DUPLICATES, &error);
  json_t *copy = json_deep_copy(value),
         *packed = json_pack("{s:O,s:[i,s?]}", "v", copy, "n", 1, NULL);
  bool good = copy && json_dump_callback(copy, put_text, to, flags) == 0;
  json_decref(packed);
  json_decref(copy);
  json_decref(value);
  return good;
}
