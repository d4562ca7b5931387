/* JSON in the page of `phaze explore`: any text, which is accepted or refused as jansson does, and written with the same bytes. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "own_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int append(const char *text, size_t bytes, void *buffer) {
  return pz_buffer_append(buffer, text, bytes) ? 0 : -1;
}

static void compare(const json_t *value, const char *text, size_t size, size_t flags) {
  struct pz_buffer a = {0}, b = {0};
  bool want = value && json_dump_callback(value, append, &a, flags) == 0;
  bool got = own_json_again(text, size, flags, append, &b);
  if (want != got) abort();
  if (want && (a.bytes != b.bytes || memcmp(a.text, b.text, a.bytes) != 0)) abort();
  pz_free(a.text);
  pz_free(b.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  json_error_t error;
  if (size > 1 << 20 || memchr(data, 0, size)) return 0; /* jansson passes some zero bytes over */
  json_t *value = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &error);
  compare(value, (const char *)data, size, JSON_INDENT(1) | JSON_ENCODE_ANY);
  compare(value, (const char *)data, size,
          JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
  json_decref(value);
  return 0;
}
