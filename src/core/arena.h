/* Arena: many small allocations that are freed together.  Memory comes in blocks of pz_malloc(),
 * each twice as large as the one before, up to 1 MiB. */
#ifndef PZ_CORE_ARENA_H
#define PZ_CORE_ARENA_H

#include "core/status.h"

struct pz_arena_block;

struct pz_arena {
  struct pz_arena_block *blocks; /* from the newest to the oldest */
  size_t used, size;             /* bytes used in the newest block, and its size */
  size_t total_bytes;            /* total size of all blocks */
};

void pz_arena_init(struct pz_arena *arena);
void pz_arena_release(struct pz_arena *arena);

/* Returns zeroed memory for n items of `bytes` each, aligned for any type, or NULL if there is no
 * memory or n * bytes overflows.  If n * bytes is 0, the pointer is valid, too.  pz_alloc()
 * (core/call.h) raises an error instead of returning NULL. */
void *pz_arena_alloc(struct pz_arena *arena, size_t n, size_t bytes);

#endif
