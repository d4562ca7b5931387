/* The allocator: our own code, jansson and SQLite allocate through this file, so that a program can bring its own allocator and
 * a test one that fails.  protobuf-c allocates in an arena, which does so too.  The C library, CBC and the C++ runtime use
 * malloc for themselves. */
#ifndef PZ_CORE_ALLOC_H
#define PZ_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "phaze/phaze.h"

/* Like the functions of the C library.  NULL if there is no memory or n * bytes overflows. */
void *pz_malloc(size_t bytes);
void *pz_calloc(size_t n, size_t bytes);
void *pz_realloc(void *block, size_t bytes);
char *pz_strdup(const char *s);
void pz_free(void *block);

/* Sets the allocator; NULL stands for that of the C library.  Called by pz_alloc_use() (alloc_use.c), which also sets it in the
 * libraries. */
void pz_alloc_set(const struct pz_allocator *allocator);

/* The allocation function of jansson.  It remembers failures, because callers of jansson, and its own reader, ignore some of them.
 * The first allocation that fails in a reader gets the block of pz_json_reserve(). */
void *pz_json_alloc(size_t bytes);

/* Has an allocation of jansson failed in this thread since the last PZ_NO_MEMORY error was recorded?  Then a part of what was built
 * or read since may be missing. */
bool pz_json_lost(void);
void pz_json_lost_set(bool lost);

/* Reserves a block for the first allocation of jansson's reader that fails in this thread (json.c explains why).  Returns false if
 * there is no memory. */
bool pz_json_reserve(size_t bytes);
void pz_json_reserve_end(void);

/* ---- a text that grows (functions that raise: core/buffer.h) -------------------------------- */

/* Initialised with zeroes.  The text ends with a NUL, is NULL until something is appended, and is freed with pz_free(). */
struct pz_buffer {
  char *text;
  size_t bytes, cap;
  bool failed; /* an append has failed, and later ones are ignored */
};

/* Returns false if memory ran out, now or at an earlier append. */
bool pz_buffer_append(struct pz_buffer *b, const char *text, size_t bytes);

/* A stream that appends, or NULL if there is no memory. */
FILE *pz_buffer_stream(struct pz_buffer *b);

/* Closes the stream, after which the text is complete.  Returns false if memory ran out for a part of it. */
PZ_NODISCARD bool pz_buffer_close(FILE *stream);

#endif
