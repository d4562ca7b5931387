/* A text that grows: to append to, to print to, or to print to as a stream. */
#ifndef PZ_CORE_BUFFER_H
#define PZ_CORE_BUFFER_H

#include "core/alloc.h"
#include "core/call.h"

/* An empty buffer, whose text is freed when the call ends. */
struct pz_buffer *pz_buffer_new(struct pz_call *call);

void pz_buffer_add(struct pz_call *call, struct pz_buffer *b, const char *text, size_t bytes);
void pz_buffer_print(struct pz_call *call, struct pz_buffer *b, const char *format, ...)
    PZ_PRINTF(3, 4);

/* A stream that appends to the buffer.  pz_buffer_flush() closes it; only then the text is complete. */
FILE *pz_buffer_open(struct pz_call *call, struct pz_buffer *b);
void pz_buffer_flush(struct pz_call *call, FILE *stream);

/* The text, for the caller of a public function, who frees it with pz_text_free().  Never NULL. */
char *pz_buffer_take(struct pz_call *call, struct pz_buffer *b);

#endif
