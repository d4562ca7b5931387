/* Functions of core/file.h that return a status, for callers that do not raise yet. */
#include "core/alloc.h"
#include "core/file.h"

#include <string.h>

#include "core/vec.h"

struct request {
  const char *path;
  size_t limit, *bytes, n;
  char **text;
  struct pz_file_bytes *content;
  const char *written;
  const char *const *inputs, *const **names;
  struct pz_arena *arena;
};

static void read_text(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  *x->text = pz_file_text(call, x->path, x->limit, x->bytes);
  pz_undefer(call, *x->text);
}

enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                            struct pz_error *err) {
  struct request x = {.path = path, .limit = limit, .text = text, .bytes = bytes};
  return pz_border(read_text, &x, err);
}

enum pz_status pz_file_map(const char *path, size_t limit, struct pz_file_bytes *out,
                           struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(path, limit, &text, &bytes, err);
  if (status == PZ_OK) *out = (struct pz_file_bytes){text, bytes};
  return status;
}

void pz_file_unmap(struct pz_file_bytes *m) { pz_free((void *)(uintptr_t)m->data); }

static void check_writable(struct pz_call *call, void *ctx) {
  pz_file_require_writable(call, ((struct request *)ctx)->path);
}

enum pz_status pz_file_writable(const char *path, struct pz_error *err) {
  struct request x = {.path = path};
  return pz_border(check_writable, &x, err);
}

static void save(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  pz_file_save(call, x->path, x->written, x->n);
}

enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                             struct pz_error *err) {
  struct request x = {.path = path, .written = text, .n = bytes};
  return pz_border(save, &x, err);
}

static void check_output(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  pz_file_require_output(call, x->path, x->inputs, x->n);
}

enum pz_status pz_file_output(const char *path, const char *const *inputs, size_t n,
                              struct pz_error *err) {
  struct request x = {.path = path, .inputs = inputs, .n = n};
  return pz_border(check_output, &x, err);
}

static void list_names(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  *x->names = pz_file_names_in(&own, x->path);
}

enum pz_status pz_file_list(const char *path, struct pz_arena *arena, const char *const **names,
                            struct pz_error *err) {
  struct request x = {.path = path, .arena = arena, .names = names};
  return pz_border(list_names, &x, err);
}

const char *pz_file_with(const char *path, const char *text, struct pz_arena *arena) {
  const char *slash = strrchr(path, '/'), *end = strrchr(slash ? slash : path, '.');
  size_t n = end ? (size_t)(end - path) : strlen(path);
  return pz_arena_printf(arena, "%.*s%s%s", (int)n, path, text, path + n);
}
