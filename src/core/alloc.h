/* The allocator: our own code, jansson and SQLite allocate through this file, so that a program can
 * bring its own allocator and a test one that fails.  protobuf-c allocates in an arena, which does
 * so too.  The C library, CBC and the C++ runtime use malloc for themselves.
 *
 * Most code allocates with pz_alloc() (core/call.h), which raises an error instead of returning
 * NULL. */
#ifndef PZ_CORE_ALLOC_H
#define PZ_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "phaze/phaze.h"

/* Like the functions of the C library.  NULL if there is no memory or n * bytes overflows. */
void *pz_malloc(size_t bytes);
void *pz_calloc(size_t n, size_t bytes);
void *pz_realloc(void *block, size_t bytes);
char *pz_strdup(const char *s);
void pz_free(void *block);

/* Sets the allocator; NULL stands for that of the C library.  Called by pz_alloc_use()
 * (alloc_use.c), which also sets it in the libraries. */
void pz_alloc_set(const struct pz_allocator *allocator);

/* ---- jansson -------------------------------------------------------------------------------- */

/* Returns the allocation function of jansson.  It remembers failures, because callers of
 * jansson, and its own reader, ignore some of them.  The first allocation that fails in a reader
 * gets the block of pz_json_reserve(). */
void *pz_json_alloc(size_t bytes);

/* Returns whether an allocation of jansson has failed in this thread since the last PZ_NO_MEMORY
 * error was recorded.  Then a part of what was built or read since may be missing. */
bool pz_json_lost(void);
void pz_json_lost_set(bool lost);

/* Reserves a block for the first allocation of jansson's reader that fails in this thread (json.c
 * explains why).  Returns false if there is no memory. */
bool pz_json_reserve(size_t bytes);
void pz_json_reserve_end(void);

#endif
