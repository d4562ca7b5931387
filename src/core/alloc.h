/* Where memory comes from: all of our own code, jansson and SQLite allocate through this file, so
 * that a program can bring its own allocator, and a test one that fails.  What the C library, CBC
 * and the C++ runtime allocate for themselves does not pass here; protobuf-c allocates in an arena,
 * which does. */
#ifndef PZ_CORE_ALLOC_H
#define PZ_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "phaze/phaze.h"

/* As those of the C library.  NULL when there is no memory, or n * bytes overflows. */
void *pz_malloc(size_t bytes);
void *pz_calloc(size_t n, size_t bytes);
void *pz_realloc(void *block, size_t bytes);
char *pz_strdup(const char *s);
void pz_free(void *block);

/* For pz_alloc_use (alloc_use.c), which tells the libraries too.  NULL: the C library's. */
void pz_alloc_set(const struct pz_allocator *allocator);

/* What jansson allocates with.  Failures are kept, because jansson's callers, and its own reader, pass some over.  The
 * first one of a reader takes what pz_json_reserve put by. */
void *pz_json_alloc(size_t bytes);

/* Has an allocation of jansson failed in this thread, and no error with PZ_NO_MEMORY been recorded
 * since (pz_fail tells)?  Then a part of what was built or read meanwhile can be missing. */
bool pz_json_lost(void);
void pz_json_lost_set(bool lost);

/* A block for the first allocation of jansson's reader that fails in this thread, if it is large enough for it
 * (json.c says why there is one). */
bool pz_json_reserve(size_t bytes); /* false: out of memory */
void pz_json_reserve_end(void);

/* ---- a text that grows: to append to, or to print to as a stream -------------------------------- */

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
