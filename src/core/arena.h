/* Arena: many small allocations that are freed together.  Memory comes in blocks that double in
 * size up to 1 MiB. */
#ifndef PZ_CORE_ARENA_H
#define PZ_CORE_ARENA_H

#include "core/status.h"

/* The source of blocks. */
struct pz_mem {
  void *(*alloc)(void *ctx, size_t bytes);
  void (*free)(void *ctx, void *block, size_t bytes);
  void *ctx;
};

struct pz_arena_block;

struct pz_arena {
  const struct pz_mem *mem; /* NULL stands for pz_malloc() and pz_free() */
  struct pz_arena_block *blocks;
  size_t used, size;  /* bytes of the newest block */
  size_t total_bytes; /* the size of all blocks together */
};

void pz_arena_init(struct pz_arena *arena, const struct pz_mem *mem);
void pz_arena_release(struct pz_arena *arena);

/* Zeroed memory for n items of `bytes` each, aligned for any type.  NULL if there is no memory or
 * n * bytes overflows; a valid pointer if n * bytes is 0.  pz_alloc() (core/call.h) raises. */
void *pz_arena_alloc(struct pz_arena *arena, size_t n, size_t bytes);

#endif
