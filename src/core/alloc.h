/* Where memory comes from: all of our own code, jansson and SQLite allocate through this file, so
 * that a program can bring its own allocator, and a test one that fails.  What the C library, CBC
 * and the C++ runtime allocate for themselves does not pass here; protobuf-c allocates in an arena,
 * which does. */
#ifndef PZ_CORE_ALLOC_H
#define PZ_CORE_ALLOC_H

#include <stddef.h>

#include "core/status.h"

/* All three are called from any thread.  alloc and resize return NULL when there is no memory;
 * resize then leaves the block as it was; free is never given NULL. */
struct pz_allocator {
  void *(*alloc)(void *ctx, size_t bytes);
  void *(*resize)(void *ctx, void *block, size_t bytes); /* block may be NULL */
  void (*free)(void *ctx, void *block);
  void *ctx;
};

/* Use this allocator (NULL: the C library's), also below jansson and SQLite.  To be called before
 * anything else of the library, of jansson and of SQLite, as sqlite3_config is, and never while a
 * block is in use; *allocator must live as long.  It is the only state of the process that the
 * library changes.  Without this call jansson and SQLite allocate as they are set up, and a JSON
 * document can lack what jansson found no memory for; with it such a document is PZ_NO_MEMORY.
 * PZ_BAD_USE: SQLite is running already. */
PZ_NODISCARD enum pz_status pz_alloc_use(const struct pz_allocator *allocator,
                                         struct pz_error *err);

/* As those of the C library.  NULL when there is no memory, or n * bytes overflows. */
void *pz_malloc(size_t bytes);
void *pz_calloc(size_t n, size_t bytes);
void *pz_realloc(void *block, size_t bytes);
char *pz_strdup(const char *s);
void pz_free(void *block);

#endif
