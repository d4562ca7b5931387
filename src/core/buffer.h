/* A text that grows: to append to, to print to, or to print to as a stream. */
#ifndef PZ_CORE_BUFFER_H
#define PZ_CORE_BUFFER_H

#include <stdio.h>

#include "core/call.h"

/* Ends with a NUL; `text` is NULL until something is appended. */
struct pz_buffer {
  char *text;
  size_t bytes, capacity;
};

/* Returns an empty buffer, whose text is freed when the call ends, or with pz_close(). */
struct pz_buffer *pz_buffer_new(struct pz_call *call);

void pz_buffer_add(struct pz_call *call, struct pz_buffer *buffer, const char *text, size_t bytes);
void pz_buffer_print(struct pz_call *call, struct pz_buffer *buffer, const char *format, ...)
    PZ_PRINTF(3, 4);

/* Returns a stream that appends to the buffer.  pz_buffer_flush() closes it; only then the text
 * is complete. */
FILE *pz_buffer_open(struct pz_call *call, struct pz_buffer *buffer);
void pz_buffer_flush(struct pz_call *call, FILE *stream);

/* Returns the text, for the caller of a public function, who frees it with pz_text_free().
 * Never NULL. */
char *pz_buffer_take(struct pz_call *call, struct pz_buffer *buffer);

/* Like pz_buffer_add(), for callbacks of foreign functions, which must not raise: returns false if
 * there is no memory. */
bool pz_buffer_append(struct pz_buffer *buffer, const char *text, size_t bytes);

#endif
