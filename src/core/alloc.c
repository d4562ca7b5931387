/* The allocator of the process, and the bookkeeping of failed allocations of jansson. */
#include "core/alloc.h"

#include <stdlib.h>
#include <string.h>

static const struct pz_allocator *installed; /* NULL stands for the C library */

void pz_alloc_set(const struct pz_allocator *allocator) { installed = allocator; }

void *pz_malloc(size_t bytes) {
  if (!bytes) bytes = 1; /* so that NULL always means a failure */
  return installed ? installed->alloc(installed->ctx, bytes) : malloc(bytes);
}

void *pz_calloc(size_t n, size_t bytes) {
  size_t total;
  if (__builtin_mul_overflow(n, bytes, &total)) return NULL;
  if (!installed) return calloc(n ? n : 1, bytes ? bytes : 1);
  void *block = pz_malloc(total);
  return block ? memset(block, 0, total) : NULL;
}

void *pz_realloc(void *block, size_t bytes) {
  if (!bytes) bytes = 1; /* with zero bytes it is undefined whether realloc frees the block */
  return installed ? installed->resize(installed->ctx, block, bytes) : realloc(block, bytes);
}

char *pz_strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = pz_malloc(bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

void pz_free(void *block) {
  if (!installed)
    free(block);
  else if (block)
    installed->free(installed->ctx, block);
}

static _Thread_local bool allocation_failed;

/* The block of pz_json_reserve(), or NULL. */
static _Thread_local struct {
  void *block;
  size_t bytes;
} reserve;

bool pz_json_lost(void) { return allocation_failed; }

void pz_json_lost_set(bool lost) { allocation_failed = lost; }

/* Allocates for jansson, and records a failure in allocation_failed. */
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

/* Replaces the reserved block by one of `bytes` bytes, or by none if `bytes` is 0.  Returns false if
 * there is no memory. */
bool pz_json_reserve(size_t bytes) {
  pz_free(reserve.block);
  reserve.block = NULL;
  reserve.bytes = 0;
  if (!installed || !bytes) return true; /* without pz_alloc_use(), jansson calls malloc() */
  reserve.block = pz_malloc(bytes);
  reserve.bytes = reserve.block ? bytes : 0;
  return reserve.block != NULL;
}

void pz_text_free(char *text) { pz_free(text); }
