/* Texts that grow.  Streams come from fopencookie(), a GNU function, because open_memstream() of
 * POSIX would not use our allocator. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */

#include "core/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "core/alloc.h"

/* Appends bytes, with capacity that doubles; returns false if there is no memory. */
bool pz_buffer_append(struct pz_buffer *buffer, const char *text, size_t bytes) {
  size_t needed = buffer->bytes + bytes;
  if (needed >= buffer->capacity) {
    size_t capacity = 2 * needed + 256;
    char *larger = needed > SIZE_MAX / 4 ? NULL : pz_realloc(buffer->text, capacity);
    if (!larger) return false;
    buffer->text = larger;
    buffer->capacity = capacity;
  }
  if (bytes) memcpy(buffer->text + buffer->bytes, text, bytes);
  buffer->bytes = needed;
  buffer->text[needed] = '\0';
  return true;
}

static void free_text(void *buffer) { pz_free(((struct pz_buffer *)buffer)->text); }

struct pz_buffer *pz_buffer_new(struct pz_call *call) {
  struct pz_buffer *buffer = pz_alloc(call, 1, sizeof *buffer);
  pz_defer(call, free_text, buffer);
  return buffer;
}

void pz_buffer_add(struct pz_call *call, struct pz_buffer *buffer, const char *text, size_t bytes) {
  if (!pz_buffer_append(buffer, text, bytes)) pz_raise_memory(call, NULL);
}

void pz_buffer_print(struct pz_call *call, struct pz_buffer *buffer, const char *format, ...) {
  enum { LONGEST_ON_STACK = 4096 };
  char text[LONGEST_ON_STACK], *longer = NULL;
  va_list args, args_copy;
  va_start(args, format);
  va_copy(args_copy, args);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  bool fits = n < LONGEST_ON_STACK;
  if (!fits) longer = pz_malloc((size_t)n + 1);
  if (longer) vsnprintf(longer, (size_t)n + 1, format, args_copy);
  bool appended = fits || longer;
  if (appended && n > 0) appended = pz_buffer_append(buffer, longer ? longer : text, (size_t)n);
  pz_free(longer);
  va_end(args_copy);
  if (!appended) pz_raise_memory(call, NULL);
}

/* Appends to a buffer for fopencookie(), where 0 means an error. */
static ssize_t write_to_buffer(void *buffer, const char *text, size_t bytes) {
  if (pz_buffer_append(buffer, text, bytes)) return (ssize_t)bytes;
  errno = ENOMEM;
  return 0;
}

static void close_stream(void *stream) { fclose(stream); }

/* Returns a stream that appends to the buffer, for pz_buffer_flush(). */
FILE *pz_buffer_open(struct pz_call *call, struct pz_buffer *buffer) {
  FILE *stream = fopencookie(buffer, "w", (cookie_io_functions_t){.write = write_to_buffer});
  if (!stream) pz_raise_memory(call, NULL);
  pz_defer(call, close_stream, stream);
  return stream;
}

/* Closes a stream of pz_buffer_open(), which completes the text. */
void pz_buffer_flush(struct pz_call *call, FILE *stream) {
  bool complete = !ferror(stream);
  pz_undefer(call, stream);
  if (fclose(stream) != 0 || !complete) pz_raise_memory(call, NULL);
}

char *pz_buffer_take(struct pz_call *call, struct pz_buffer *buffer) {
  pz_buffer_add(call, buffer, "", 0);
  pz_undefer(call, buffer);
  return buffer->text;
}
