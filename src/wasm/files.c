/* core/file.h in a page: files are texts in memory, put there by the page (page.c) or written by a command. */
#include "wasm/files.h"

#include <string.h>

#include "core/alloc.h"
#include "core/file.h"

enum { MOST_FILES = 80, MOST_NAME = 256 };

static struct memory_file {
  char name[MOST_NAME]; /* "": free */
  char *text;           /* ends with a zero */
  size_t bytes;
} files[MOST_FILES];

static struct memory_file *find_file(const char *name) {
  for (int i = 0; i < MOST_FILES; i++)
    if (files[i].name[0] && strcmp(files[i].name, name) == 0) return &files[i];
  return NULL;
}

const char *pz_memory_file(const char *name, size_t *bytes) {
  const struct memory_file *f = find_file(name);
  *bytes = f ? f->bytes : 0;
  return f ? f->text : NULL;
}

/* ---- core/file.h ---------------------------------------------------------------------------- */

bool pz_file_named(const char *word) {
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 5 && strcmp(word + n - 5, ".json") == 0) ||
         (n > 5 && strcmp(word + n - 5, ".onnx") == 0);
}

enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                            struct pz_error *err) {
  const struct memory_file *f = find_file(path);
  if (!f) return pz_fail(err, PZ_IO, "%s: the page has no such file", path);
  if (f->bytes > limit)
    return pz_fail(err, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
  char *copy = pz_malloc(f->bytes + 1);
  if (!copy) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", path);
  memcpy(copy, f->text, f->bytes + 1);
  *text = copy;
  *bytes = f->bytes;
  return PZ_OK;
}

enum pz_status pz_file_map(const char *path, size_t limit, struct pz_file_bytes *out,
                           struct pz_error *err) {
  const struct memory_file *f = find_file(path);
  if (!f || f->bytes > limit)
    return pz_fail(err, PZ_IO, "%s: the page has no such file of at most %zu bytes", path, limit);
  *out = (struct pz_file_bytes){f->text, f->bytes, false};
  return PZ_OK;
}

void pz_file_unmap(struct pz_file_bytes *m) { *m = (struct pz_file_bytes){0}; }

enum pz_status pz_file_writable(const char *path, struct pz_error *err) {
  if (!path[0] || strlen(path) >= MOST_NAME)
    return pz_fail(err, PZ_LIMIT, "'%.20s...': accepted: a name of 1 to %d bytes", path,
                   MOST_NAME - 1);
  if (find_file(path)) return PZ_OK;
  for (int i = 0; i < MOST_FILES; i++)
    if (!files[i].name[0]) return PZ_OK;
  return pz_fail(err, PZ_LIMIT, "%s: the page has %d files, the most there can be", path,
                 MOST_FILES);
}

enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                             struct pz_error *err) {
  enum pz_status status = pz_file_writable(path, err);
  char *copy = status == PZ_OK ? pz_malloc(bytes + 1) : NULL;
  struct memory_file *f = find_file(path);
  if (status != PZ_OK) return status;
  if (!copy) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while writing", path);
  for (int i = 0; i < MOST_FILES && !f; i++)
    if (!files[i].name[0]) f = &files[i];
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  pz_free(f->text);
  strcpy(f->name, path);
  f->text = copy;
  f->bytes = bytes;
  return PZ_OK;
}

bool pz_file_same(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool pz_file_is_regular(const char *path) { return find_file(path); }

bool pz_file_is_directory(const char *path) {
  (void)path;
  return false;
}

enum pz_status pz_file_output(const char *path, const char *const *inputs, size_t n,
                              struct pz_error *err) {
  (void)inputs, (void)n;
  return pz_file_writable(path, err);
}
