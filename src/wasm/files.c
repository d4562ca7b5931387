/* core/file.h for a web page: files are texts in memory, and folders do not exist. */
#include "wasm/files.h"

#include <string.h>

#include "core/alloc.h"
#include "core/file.h"

enum { MOST_FILES = 80, MOST_NAME = 256 };

static struct memory_file {
  char name[MOST_NAME]; /* "" if the entry is free */
  char *text;           /* ends with a NUL */
  size_t bytes;
} files[MOST_FILES];

/* Returns the file of this name, or NULL if the page has none. */
static struct memory_file *find_file(const char *name) {
  for (int i = 0; i < MOST_FILES; i++)
    if (files[i].name[0] && strcmp(files[i].name, name) == 0) return &files[i];
  return NULL;
}

/* Returns the text of a file and its size, or NULL and 0 without such a file. */
const char *pz_memory_file(const char *name, size_t *bytes) {
  const struct memory_file *file = find_file(name);
  *bytes = file ? file->bytes : 0;
  return file ? file->text : NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Returns a file that exists and has at most `limit` bytes, otherwise raises an error. */
static const struct memory_file *require_file(struct pz_call *call, const char *path,
                                              size_t limit) {
  const struct memory_file *file = find_file(path);
  if (!file) pz_raise(call, PZ_IO, "%s: the page has no such file", path);
  if (file->bytes > limit)
    pz_raise(call, PZ_LIMIT, "%s: larger than %zu bytes, the most that is read", path, limit);
  return file;
}

/* Returns a copy of the text of a file, which belongs to the call and ends with a NUL. */
char *pz_file_text(struct pz_call *call, const char *path, size_t limit, size_t *bytes) {
  const struct memory_file *file = require_file(call, path, limit);
  char *copy = pz_malloc(file->bytes + 1);
  if (!copy) pz_raise_memory(call, path);
  pz_defer(call, pz_free, copy);
  memcpy(copy, file->text, file->bytes + 1);
  *bytes = file->bytes;
  return copy;
}

/* Returns the text of a file without a copy, valid until the file is written again. */
const struct pz_file_bytes *pz_file_open(struct pz_call *call, const char *path, size_t limit) {
  const struct memory_file *file = require_file(call, path, limit);
  struct pz_file_bytes *content = pz_alloc(call, 1, sizeof *content);
  *content = (struct pz_file_bytes){file->text, file->bytes};
  return content;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Returns the existing or a free entry for a path; raises an error if it is not writable. */
static struct memory_file *find_entry(struct pz_call *call, const char *path) {
  struct memory_file *file = find_file(path);
  if (!path[0] || strlen(path) >= MOST_NAME)
    pz_raise(call, PZ_LIMIT, "'%.20s...': accepted: a name of 1 to %d bytes", path, MOST_NAME - 1);
  for (int i = 0; i < MOST_FILES && !file; i++)
    if (!files[i].name[0]) file = &files[i];
  if (!file)
    pz_raise(call, PZ_LIMIT, "%s: the page has %d files, the most there can be", path, MOST_FILES);
  return file;
}

void pz_file_require_writable(struct pz_call *call, const char *path) { find_entry(call, path); }

/* Checks that a file can be written; the page does not compare it with the inputs. */
void pz_file_require_output(struct pz_call *call, const char *path, const char *const *inputs,
                            size_t n) {
  (void)inputs;
  (void)n;
  find_entry(call, path);
}

/* Replaces the text of a file, or adds the file. */
void pz_file_save(struct pz_call *call, const char *path, const char *text, size_t bytes) {
  struct memory_file *file = find_entry(call, path);
  char *copy = pz_malloc(bytes + 1);
  if (!copy) pz_raise_memory(call, path);
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  pz_free(file->text);
  strcpy(file->name, path);
  file->text = copy;
  file->bytes = bytes;
}

/* ---- names ---------------------------------------------------------------------------------- */

bool pz_file_same(const char *a, const char *b) { return strcmp(a, b) == 0; }

bool pz_file_is_regular(const char *path) { return find_file(path); }

bool pz_file_is_directory(const char *path) {
  (void)path;
  return false;
}

const char *const *pz_file_names_in(struct pz_call *call, const char *path) {
  pz_raise(call, PZ_IO, "%s: the page has no folders", path);
}
