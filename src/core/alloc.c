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
  size_t total;
  if (__builtin_mul_overflow(n, bytes, &total)) return NULL;
  if (!used) return calloc(n ? n : 1, bytes ? bytes : 1);
  void *block = pz_malloc(total);
  return block ? memset(block, 0, total) : NULL;
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

static _Thread_local bool allocation_failed;

/* The reserved block, or NULL. */
static _Thread_local struct {
  void *block;
  size_t bytes;
} reserve;

bool pz_json_lost(void) { return allocation_failed; }

void pz_json_lost_set(bool lost) { allocation_failed = lost; }

void *pz_json_alloc(size_t bytes) {
  void *block = pz_malloc(bytes);
  if (block) return block;
  allocation_failed = true;
  if (bytes > reserve.bytes) return NULL;
  block = reserve.block;
  reserve.block = NULL;
  reserve.bytes = 0;
  return block;
}

bool pz_json_reserve(size_t bytes) {
  if (!used) return true; /* jansson uses malloc */
  reserve.block = pz_malloc(bytes);
  reserve.bytes = reserve.block ? bytes : 0;
  return reserve.block != NULL;
}

void pz_json_reserve_end(void) {
  pz_free(reserve.block);
  reserve.block = NULL;
  reserve.bytes = 0;
}

void pz_text_free(char *text) { pz_free(text); }
