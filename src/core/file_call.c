/* The raising functions of core/file.h, the same on every platform. */
#include "core/alloc.h"
#include "core/file.h"

static void free_text(void *text) { pz_free(text); }

char *pz_file_text(struct pz_call *call, const char *path, size_t limit, size_t *bytes) {
  char *text = NULL;
  pz_must(call, pz_file_read(path, limit, &text, bytes, pz_call_error(call)));
  pz_defer(call, free_text, text);
  return text;
}

static void unmap(void *bytes) { pz_file_unmap(bytes); }

const struct pz_file_bytes *pz_file_open(struct pz_call *call, const char *path, size_t limit) {
  struct pz_file_bytes *bytes = pz_alloc(call, 1, sizeof *bytes);
  pz_must(call, pz_file_map(path, limit, bytes, pz_call_error(call)));
  pz_defer(call, unmap, bytes);
  return bytes;
}

const char *const *pz_file_names_in(struct pz_call *call, const char *path) {
  const char *const *names = NULL;
  pz_must(call, pz_file_list(path, call->arena, &names, pz_call_error(call)));
  return names;
}
