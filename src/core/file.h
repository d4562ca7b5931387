/* Files: read whole within a limit; written beside and renamed, so that what stood there is either
 * kept or replaced, never half of each.  Links are followed, and stay. */
#ifndef PZ_CORE_FILE_H
#define PZ_CORE_FILE_H

#include "core/call.h"

/* Does a word name a file rather than a preset?  It has a slash or ends with .json or
 * .onnx. */
bool pz_file_named(const char *word);

/* Read `path` into *text (malloc'd, NUL-terminated, the caller's to free).  Directories, unreadable
 * files and files over `limit` bytes are errors; so are pipes, devices and sockets, but for those
 * that are open already and named so: /dev/stdin, /dev/fd/N. */
PZ_NODISCARD enum pz_status pz_file_read(const char *path, size_t limit, char **text, size_t *bytes,
                                         struct pz_error *err);

/* The bytes of a regular file, mapped read-only, to be given back with pz_file_unmap; of what
 * cannot be mapped (a pipe) a copy within `limit` and PZ_FILE_MOST_COPIED.  Errors as pz_file_read. */
enum { PZ_FILE_MOST_COPIED = 1 << 28 };
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

/* Put `text` where `path` leads, through links, also to a file that is yet to be made.  A file is
 * replaced whole and keeps mode and owner; where it can be written but not replaced (a directory
 * that is not ours, an owner that cannot be kept) it is written where it stands.  Pipes, character
 * devices and /dev/stdout, /dev/fd/N are written to.  Directories, sockets, block devices and files
 * without permission to write are PZ_IO. */
PZ_NODISCARD enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                                          struct pz_error *err);

/* Do two paths name one file: by the same word, or a regular file through links? */
bool pz_file_same(const char *a, const char *b);

/* The path with `text` before the end of its name, .json or another; NULL: out of memory. */
const char *pz_file_with(const char *path, const char *text, struct pz_arena *arena);

bool pz_file_is_directory(const char *path);

/* A regular file, or a link to one? */
bool pz_file_is_regular(const char *path);

/* Names of what is in a directory but for hidden ones, in order, NULL behind the last; in the arena. */
PZ_NODISCARD enum pz_status pz_file_list(const char *path, struct pz_arena *arena,
                                         const char *const **names, struct pz_error *err);

/* May a command that reads `inputs` write to `path`?  Asked before anything is written to a path that a user named.
 * PZ_IO where it is one of them, also through links; where it is a link to a file or to nowhere, which may be one that
 * others read (/dev/stdout is none); and where pz_file_writable says so. */
PZ_NODISCARD enum pz_status pz_file_output(const char *path, const char *const *inputs, size_t n,
                                           struct pz_error *err);

/* Like pz_file_read().  The text is freed when the call ends, or with pz_close(). */
char *pz_file_text(struct pz_call *call, const char *path, size_t limit, size_t *bytes);

/* Like pz_file_map().  The file is unmapped when the call ends. */
const struct pz_file_bytes *pz_file_open(struct pz_call *call, const char *path, size_t limit);

/* Like pz_file_list(). */
const char *const *pz_file_names_in(struct pz_call *call, const char *path);

#endif
