/* Streams come from fopencookie(), a GNU function, because open_memstream() of POSIX would not use our allocator. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */

#include "core/buffer.h"

#include <errno.h>
#include <stdarg.h>
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

static ssize_t write_cookie(void *cookie, const char *text, size_t bytes) {
  if (pz_buffer_append(cookie, text, bytes)) return (ssize_t)bytes;
  errno = ENOMEM;
  return 0; /* means an error to fopencookie() */
}

FILE *pz_buffer_stream(struct pz_buffer *b) {
  return fopencookie(b, "w", (cookie_io_functions_t){.write = write_cookie});
}

bool pz_buffer_close(FILE *stream) {
  bool whole = !ferror(stream);
  return fclose(stream) == 0 && whole;
}

/* ---- raising -------------------------------------------------------------------------------- */

static void free_text(void *buffer) { pz_free(((struct pz_buffer *)buffer)->text); }

struct pz_buffer *pz_buffer_new(struct pz_call *call) {
  struct pz_buffer *b = pz_alloc(call, 1, sizeof *b);
  pz_defer(call, free_text, b);
  return b;
}

void pz_buffer_add(struct pz_call *call, struct pz_buffer *b, const char *text, size_t bytes) {
  if (!pz_buffer_append(b, text, bytes)) pz_raise(call, PZ_NO_MEMORY, "out of memory");
}

void pz_buffer_print(struct pz_call *call, struct pz_buffer *b, const char *format, ...) {
  enum { MOST = 4096 };
  char text[MOST];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  char *longer = n < MOST ? NULL : pz_malloc((size_t)n + 1);
  if (longer) vsnprintf(longer, (size_t)n + 1, format, again);
  bool room = n < MOST || longer;
  if (room && n > 0) room = pz_buffer_append(b, longer ? longer : text, (size_t)n);
  pz_free(longer);
  va_end(again);
  if (!room) pz_raise(call, PZ_NO_MEMORY, "out of memory");
}

static void close_stream(void *stream) { fclose(stream); }

FILE *pz_buffer_open(struct pz_call *call, struct pz_buffer *b) {
  FILE *stream = pz_buffer_stream(b);
  if (!stream) pz_raise(call, PZ_NO_MEMORY, "out of memory");
  pz_defer(call, close_stream, stream);
  return stream;
}

void pz_buffer_flush(struct pz_call *call, FILE *stream) {
  pz_undefer(call, stream);
  if (!pz_buffer_close(stream)) pz_raise(call, PZ_NO_MEMORY, "out of memory");
}

char *pz_buffer_take(struct pz_call *call, struct pz_buffer *b) {
  pz_buffer_add(call, b, "", 0);
  pz_undefer(call, b);
  return b->text;
}
