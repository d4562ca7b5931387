/* fopencookie is of GNU; the open_memstream of POSIX allocates by itself. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */

#include "core/alloc.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

bool pz_buffer_append(struct pz_buffer *b, const char *text, size_t bytes) {
  if (!b->failed && b->bytes + bytes >= b->cap) {
    size_t want = b->bytes + bytes, cap = 2 * want + 256;
    char *more = want > SIZE_MAX / 4 ? NULL : pz_realloc(b->text, cap);
    b->failed = !more;
    if (more) b->text = more;
    if (more) b->cap = cap;
  }
  if (b->failed) return false;
  if (bytes) memcpy(b->text + b->bytes, text, bytes);
  b->bytes += bytes;
  b->text[b->bytes] = '\0';
  return true;
}

static ssize_t put(void *cookie, const char *text, size_t bytes) {
  if (pz_buffer_append(cookie, text, bytes)) return (ssize_t)bytes;
  errno = ENOMEM;
  return 0; /* of a cookie's function: an error */
}

FILE *pz_buffer_stream(struct pz_buffer *b) {
  return fopencookie(b, "w", (cookie_io_functions_t){.write = put});
}

bool pz_buffer_close(FILE *stream) {
  bool whole = !ferror(stream);
  return fclose(stream) == 0 && whole;
}
