/* Blocks are linked in the order in which they were made; memory comes from the newest one. */
#include "core/arena.h"

#include <stdalign.h>
#include <string.h>

#include "core/alloc.h"

enum { FIRST_BLOCK = 16 << 10, LARGEST_STEP = 1 << 20, ALIGN = alignof(max_align_t) };

struct pz_arena_block {
  struct pz_arena_block *next;
  size_t bytes;
  alignas(max_align_t) unsigned char data[];
};

void pz_arena_init(struct pz_arena *arena, const struct pz_mem *mem) {
  *arena = (struct pz_arena){.mem = mem};
}

void pz_arena_release(struct pz_arena *arena) {
  if (!arena) return;
  struct pz_arena_block *block = arena->blocks;
  while (block) {
    struct pz_arena_block *next = block->next;
    if (arena->mem)
      arena->mem->free(arena->mem->ctx, block, block->bytes);
    else
      pz_free(block);
    block = next;
  }
  *arena = (struct pz_arena){.mem = arena->mem};
}

/* Adds a block of at least `want` bytes.  Returns false if there is no memory. */
static bool add_block(struct pz_arena *arena, size_t want) {
  size_t size = arena->size ? arena->size * 2 : FIRST_BLOCK;
  if (size > LARGEST_STEP) size = LARGEST_STEP;
  if (size < want) size = want;
  if (size > SIZE_MAX - sizeof(struct pz_arena_block)) return false;
  size_t bytes = sizeof(struct pz_arena_block) + size;
  struct pz_arena_block *block =
      arena->mem ? arena->mem->alloc(arena->mem->ctx, bytes) : pz_malloc(bytes);
  if (!block) return false;
  block->next = arena->blocks;
  block->bytes = bytes;
  arena->blocks = block;
  arena->used = 0;
  arena->size = size;
  arena->total_bytes += bytes;
  return true;
}

void *pz_arena_alloc(struct pz_arena *arena, size_t n, size_t bytes) {
  size_t want;
  if (__builtin_mul_overflow(n, bytes, &want) || want > SIZE_MAX - ALIGN) return NULL;
  want = (want + ALIGN - 1) / ALIGN * ALIGN;
  if (want > arena->size - arena->used || !arena->blocks)
    if (!add_block(arena, want)) return NULL;
  void *memory = arena->blocks->data + arena->used;
  arena->used += want;
  return memset(memory, 0, want);
}
