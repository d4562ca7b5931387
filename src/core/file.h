/* Files: read whole or mapped, within a limit; written so that a reader sees either the old or the
 * new content.  Links are followed, and stay. */
#ifndef PZ_CORE_FILE_H
#define PZ_CORE_FILE_H

#include "core/call.h"

/* Returns whether a word names a file rather than a preset: it has a slash, .json or .onnx. */
bool pz_file_named(const char *word);

/* Returns the content of a file, with a NUL behind it.  It is freed when the call ends, or with
 * pz_close(). Folders, unreadable files and files over `limit` bytes are errors.  Pipes, devices
 * and sockets are accepted only if they are open already and named so: /dev/stdin, /dev/fd/N. */
char *pz_file_text(struct pz_call *call, const char *path, size_t limit, size_t *bytes);

enum { PZ_FILE_MOST_COPIED = 1 << 28 };
struct pz_file_bytes {
  const void *data;
  size_t bytes;
};

/* Returns the content of a file without a NUL behind it, until the call ends.  A regular file is
 * mapped read-only; of anything else at most PZ_FILE_MOST_COPIED bytes are copied. */
const struct pz_file_bytes *pz_file_open(struct pz_call *call, const char *path, size_t limit);

/* Writes `text` to the file, existing or not, that `path` leads to through links.  A file is
 * replaced as a whole and keeps mode and owner.  If it can be written but not replaced (a folder of
 * somebody else, an owner that cannot be kept), it is overwritten.  Pipes, character devices,
 * /dev/stdout and /dev/fd/N are written to.  Folders, sockets, block devices and read-only files
 * are PZ_IO. */
void pz_file_save(struct pz_call *call, const char *path, const char *text, size_t bytes);

/* Raises the error that pz_file_save() would raise.  To be called before long work. */
void pz_file_require_writable(struct pz_call *call, const char *path);

/* Checks the path of an output of a command that reads the n `inputs`.  Raises PZ_IO if it is the
 * same file as an input; if it is a link to a file or to nowhere, because others may read that file
 * (/dev/stdout is accepted); or if pz_file_require_writable() does. */
void pz_file_require_output(struct pz_call *call, const char *path, const char *const *inputs,
                            size_t n);

/* Returns whether two paths name one file: by the same word, or a regular file through links. */
bool pz_file_same(const char *a, const char *b);

/* Return whether the path is a folder or a regular file, or a link to one. */
bool pz_file_is_directory(const char *path);
bool pz_file_is_regular(const char *path);

/* Returns the sorted names of the files in a folder, without hidden ones.  NULL ends the list. */
const char *const *pz_file_names_in(struct pz_call *call, const char *path);

/* Returns the path with `text` before the extension of its name. */
const char *pz_file_with(struct pz_call *call, const char *path, const char *text);

#endif
