/* A text that grows, in memory of core/alloc.h: to append to, or to print to as a stream. */
#ifndef PZ_CORE_BUFFER_H
#define PZ_CORE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

/* Zero-initialised.  text is NUL-terminated, NULL as long as nothing was appended, and to be given
 * back with pz_free. */
struct pz_buffer {
  char *text;
  size_t bytes, cap;
  bool failed; /* an append did: nothing follows it */
};

/* False: out of memory, now or at an earlier append. */
bool pz_buffer_append(struct pz_buffer *b, const char *text, size_t bytes);

/* A stream that appends; NULL: out of memory.  The stream itself is the C library's. */
FILE *pz_buffer_stream(struct pz_buffer *b);

/* Close it: only then the text is complete.  False: out of memory for a part of it. */
PZ_NODISCARD bool pz_buffer_close(FILE *stream);

#endif
