/* The allocator of the process, for our own code, jansson, SQLite and protobuf-c.  A program can
 * replace it by its own, and a test by one that fails.  The C library, CBC and the C++ runtime call
 * malloc() directly.  Most code allocates with pz_alloc() (core/call.h), which raises an error
 * instead of returning NULL. */
#ifndef PZ_CORE_ALLOC_H
#define PZ_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "phaze/phaze.h"

/* Like the functions of the C library.  They return NULL if there is no memory or n * bytes
 * overflows, and a valid pointer for 0 bytes. */
void *pz_malloc(size_t bytes);
void *pz_calloc(size_t n, size_t bytes);
void *pz_realloc(void *block, size_t bytes);
char *pz_strdup(const char *text);
void pz_free(void *block);

/* Sets the allocator; NULL stands for that of the C library.  Called by pz_alloc_use()
 * (alloc_use.c), which also sets it in the libraries. */
void pz_alloc_set(const struct pz_allocator *allocator);

/* Allocates for jansson and remembers a failure, because jansson's reader and our code that builds
 * documents ignore some.  The first allocation that fails gets the block of pz_json_reserve(). */
void *pz_json_alloc(size_t bytes);

/* Returns whether an allocation of jansson has failed in this thread since the last PZ_NO_MEMORY
 * error was recorded.  Documents that were built or read since then may be incomplete. */
bool pz_json_lost(void);
void pz_json_lost_set(bool lost);

/* Reserves a block for the first allocation of jansson's reader that fails in this thread (see
 * json.c), or returns false if there is no memory.  With 0 bytes, frees it if it is unused. */
bool pz_json_reserve(size_t bytes);

#endif
