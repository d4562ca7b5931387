/* Files: read whole within a limit; written beside and renamed, so that what stood there is either
 * kept or replaced, never half of each. */
#ifndef PZ_CORE_FILE_H
#define PZ_CORE_FILE_H

#include "core/status.h"

/* Does a word name a file rather than a preset?  It has a slash or ends with .json or
 * .onnx. */
bool pz_file_named(const char *word);

/* Read `path` into *text (malloc'd, NUL-terminated, the caller's to free).  Directories, unreadable
 * files and files over `limit` bytes are errors. */
PZ_NODISCARD enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                                         struct pz_error *err);

/* The bytes of a regular file, mapped read-only, to be given back with pz_file_unmap; of what
 * cannot be mapped (a pipe) a copy within `limit`.  Errors as pz_file_read. */
struct pz_file_bytes {
  const void *data;
  size_t bytes;
  bool copied;
};
PZ_NODISCARD enum pz_status pz_file_map(const char *path, size_t limit, struct pz_file_bytes *out,
                                        struct pz_error *err);
void pz_file_unmap(struct pz_file_bytes *m);

/* Would pz_file_write get as far as writing?  To be asked before long work; changes nothing. */
PZ_NODISCARD enum pz_status pz_file_writable(const char *path, struct pz_error *err);

/* Replace `path` by `text`.  What stands there must be a regular file: a device would be replaced,
 * not written to. */
PZ_NODISCARD enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                                          struct pz_error *err);

#endif
