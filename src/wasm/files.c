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

static const struct memory_file *require_file(struct pz_call *call, const char *path,
                                              size_t limit) {
  const struct memory_file *f = find_file(path);
  if (!f) pz_raise(call, PZ_IO, "%s: the page has no such file", path);
  if (f->bytes > limit)
    pz_raise(call, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
  return f;
}

static void free_text(void *text) { pz_free(text); }

char *pz_file_text(struct pz_call *call, const char *path, size_t limit, size_t *bytes) {
  const struct memory_file *f = require_file(call, path, limit);
  char *copy = pz_malloc(f->bytes + 1);
  if (!copy) pz_raise(call, PZ_NO_MEMORY, "%s: out of memory while reading", path);
  pz_defer(call, free_text, copy);
  memcpy(copy, f->text, f->bytes + 1);
  *bytes = f->bytes;
  return copy;
}

const struct pz_file_bytes *pz_file_open(struct pz_call *call, const char *path, size_t limit) {
  const struct memory_file *f = require_file(call, path, limit);
  struct pz_file_bytes *content = pz_alloc(call, 1, sizeof *content);
  *content = (struct pz_file_bytes){f->text, f->bytes};
  return content;
}

/* The entry for a path: the existing one, or a free one. */
static struct memory_file *find_entry(struct pz_call *call, const char *path) {
  struct memory_file *f = find_file(path);
  if (!path[0] || strlen(path) >= MOST_NAME)
    pz_raise(call, PZ_LIMIT, "'%.20s...': accepted: a name of 1 to %d bytes", path, MOST_NAME - 1);
  for (int i = 0; i < MOST_FILES && !f; i++)
    if (!files[i].name[0]) f = &files[i];
  if (!f)
    pz_raise(call, PZ_LIMIT, "%s: the page has %d files, the most there can be", path, MOST_FILES);
  return f;
}

void pz_file_require_writable(struct pz_call *call, const char *path) { find_entry(call, path); }

void pz_file_save(struct pz_call *call, const char *path, const char *text, size_t bytes) {
  struct memory_file *f = find_entry(call, path);
  char *copy = pz_malloc(bytes + 1);
  if (!copy) pz_raise(call, PZ_NO_MEMORY, "%s: out of memory while writing", path);
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  pz_free(f->text);
  strcpy(f->name, path);
  f->text = copy;
  f->bytes = bytes;
}

bool pz_file_same(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool pz_file_is_regular(const char *path) { return find_file(path); }

bool pz_file_is_directory(const char *path) {
  (void)path;
  return false;
}

void pz_file_require_output(struct pz_call *call, const char *path, const char *const *inputs,
                            size_t n) {
  (void)inputs;
  (void)n;
  find_entry(call, path);
}

const char *const *pz_file_names_in(struct pz_call *call, const char *path) {
  pz_raise(call, PZ_IO, "%s: the page has no folders", path);
}
