/* How values lie in memory, and UTF-8: for the files of this folder. */
#ifndef PZ_WASM_JSON_VALUES_H
#define PZ_WASM_JSON_VALUES_H

#include <jansson.h>
#include <stdint.h>

struct member {
  char *key;
  uint32_t hash; /* of the key */
  json_t *value;
};

struct object {
  json_t base;
  struct member *list; /* ends with a key NULL */
  size_t n, cap;
};

struct array {
  json_t base;
  json_t **list;
  size_t n, cap;
};

struct string {
  json_t base;
  size_t bytes;
  char text[]; /* ends with a zero */
};

struct integer {
  json_t base;
  json_int_t value;
};

struct real {
  json_t base;
  double value;
};

/* Bytes of the UTF-8 sequence at `at`, and its code point; 0: none begins there. */
size_t utf8_at(const char *at, const char *end, int32_t *code);

#endif
