/* A text that grows, by appended bytes, by formatted texts, or as the target of a stream. */
#ifndef PZ_CORE_BUFFER_H
#define PZ_CORE_BUFFER_H

#include <stdio.h>

#include "core/call.h"

struct pz_buffer {
  char *text;   /* ends with a NUL; NULL until something is appended */
  size_t bytes; /* without the NUL */
  size_t capacity;
};

/* Returns an empty buffer, whose text is freed when the call ends, or with pz_close(). */
struct pz_buffer *pz_buffer_new(struct pz_call *call);

void pz_buffer_add(struct pz_call *call, struct pz_buffer *buffer, const char *text, size_t bytes);
void pz_buffer_print(struct pz_call *call, struct pz_buffer *buffer, const char *format, ...)
    PZ_PRINTF(3, 4);

/* Returns a stream that appends to the buffer.  The text is complete after pz_buffer_flush(), which
 * closes the stream. */
FILE *pz_buffer_open(struct pz_call *call, struct pz_buffer *buffer);
void pz_buffer_flush(struct pz_call *call, FILE *stream);

/* Returns the text, never NULL, for a caller of the library, who frees it with pz_text_free(). */
char *pz_buffer_take(struct pz_call *call, struct pz_buffer *buffer);

/* Like pz_buffer_add(), but returns false without memory: for callbacks, which must not raise. */
bool pz_buffer_append(struct pz_buffer *buffer, const char *text, size_t bytes);

#endif
