/* The allocator of the process, and the bookkeeping of failed allocations of jansson. */
#include "core/alloc.h"

#include <stdlib.h>
#include <string.h>

static const struct pz_allocator *used; /* NULL stands for the C library */

void pz_alloc_set(const struct pz_allocator *allocator) { used = allocator; }

void *pz_malloc(size_t bytes) {
  return used ? used->alloc(used->ctx, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
}

void *pz_calloc(size_t n, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(n, bytes, &all)) return NULL;
  if (!used) return calloc(n ? n : 1, bytes ? bytes : 1);
  void *block = pz_malloc(all);
  return block ? memset(block, 0, all) : NULL;
}

void *pz_realloc(void *block, size_t bytes) {
  if (!bytes) bytes = 1; /* with zero bytes it is undefined whether realloc frees the block */
  return used ? used->resize(used->ctx, block, bytes) : realloc(block, bytes);
}

char *pz_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = pz_malloc(n);
  return copy ? memcpy(copy, s, n) : NULL;
}

void pz_free(void *block) {
  if (!used)
    free(block);
  else if (block)
    used->free(used->ctx, block);
}

/* ---- jansson -------------------------------------------------------------------------------- */

static _Thread_local bool lost_here;

bool pz_json_lost(void) { return lost_here; }

void pz_json_lost_set(bool lost) { lost_here = lost; }

static _Thread_local struct {
  void *block;
  size_t bytes;
} reserve;

/* The reserved block if it is large enough, or NULL. */
static void *take_reserve(size_t bytes) {
  if (bytes > reserve.bytes) return NULL;
  void *block = reserve.block;
  reserve.block = NULL;
  reserve.bytes = 0;
  return block;
}

void *pz_json_alloc(size_t bytes) {
  void *block = pz_malloc(bytes);
  if (block) return block;
  lost_here = true;
  return take_reserve(bytes);
}

bool pz_json_reserve(size_t bytes) {
  if (!used) return true; /* jansson uses malloc */
  void *block = pz_malloc(bytes);
  if (block) reserve.block = block, reserve.bytes = bytes;
  return block != NULL;
}

void pz_json_reserve_end(void) { pz_free(take_reserve(0)); }

void pz_text_free(char *text) { pz_free(text); }
