/* Arena: many small allocations, freed together.  Sized for one workload, schedule or search state;
 * memory comes in blocks that double up to 1 MiB.  Nothing is freed singly. */
#ifndef PZ_CORE_ARENA_H
#define PZ_CORE_ARENA_H

#include "core/status.h"

/* Where blocks come from.  Tests pass one that counts, or that fails at the n-th call. */
struct pz_mem {
  void *(*alloc)(void *ctx, size_t bytes);
  void (*free)(void *ctx, void *block, size_t bytes);
  void *ctx;
};

struct pz_arena_block;

struct pz_arena {
  const struct pz_mem *mem; /* NULL: the C library */
  struct pz_arena_block *blocks;
  size_t used, size, total_bytes;
};

void pz_arena_init(struct pz_arena *arena, const struct pz_mem *mem);
void pz_arena_release(struct pz_arena *arena);

/* Zeroed memory for n items of `bytes` each, aligned for any type; NULL when there is none (or n *
 * bytes overflows).  n * bytes == 0 gives a valid pointer. */
void *pz_arena_alloc(struct pz_arena *arena, size_t n, size_t bytes);

/* Copy of a string, or formatted text; NULL when out of memory. */
char *pz_arena_strdup(struct pz_arena *arena, const char *s);
char *pz_arena_printf(struct pz_arena *arena, const char *format, ...) PZ_PRINTF(2, 3);

#endif
