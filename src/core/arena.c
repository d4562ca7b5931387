/* Arenas are lists of blocks.  Memory comes from the newest block only. */
#include "core/arena.h"

#include <stdalign.h>
#include <string.h>

#include "core/alloc.h"

enum { FIRST_BLOCK_BYTES = 16 << 10, MOST_DOUBLED_BYTES = 1 << 20, ALIGN = alignof(max_align_t) };

struct pz_arena_block {
  struct pz_arena_block *older;
  alignas(max_align_t) unsigned char data[];
};

void pz_arena_init(struct pz_arena *arena) { *arena = (struct pz_arena){.blocks = NULL}; }

/* Frees all blocks; the arena can be used again. */
void pz_arena_release(struct pz_arena *arena) {
  if (!arena) return;
  struct pz_arena_block *block = arena->blocks;
  while (block) {
    struct pz_arena_block *older = block->older;
    pz_free(block);
    block = older;
  }
  pz_arena_init(arena);
}

/* Returns zeroed memory for n items of `bytes` each, or NULL if there is no memory. */
void *pz_arena_alloc(struct pz_arena *arena, size_t n, size_t bytes) {
  size_t needed;
  if (__builtin_mul_overflow(n, bytes, &needed) || needed > SIZE_MAX - ALIGN) return NULL;
  needed = (needed + ALIGN - 1) / ALIGN * ALIGN;
  if (!arena->blocks || needed > arena->size - arena->used) { /* add a block */
    size_t size = arena->size ? arena->size * 2 : FIRST_BLOCK_BYTES;
    if (size > MOST_DOUBLED_BYTES) size = MOST_DOUBLED_BYTES;
    if (size < needed) size = needed;
    if (size > SIZE_MAX - sizeof(struct pz_arena_block)) return NULL;
    struct pz_arena_block *block = pz_malloc(sizeof *block + size);
    if (!block) return NULL;
    block->older = arena->blocks;
    arena->blocks = block;
    arena->used = 0;
    arena->size = size;
    arena->total_bytes += sizeof *block + size;
  }
  void *memory = arena->blocks->data + arena->used;
  arena->used += needed;
  return memset(memory, 0, needed);
}
