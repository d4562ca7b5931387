#include "core/vec.h"

#include <string.h>

void pz_vec_init(struct pz_vec *vec, struct pz_arena *arena, size_t item_bytes) {
  *vec = (struct pz_vec){.arena = arena, .item_bytes = (uint32_t)item_bytes};
}

static bool grow(struct pz_vec *vec) {
  uint32_t cap = vec->cap ? vec->cap * 2 : 16;
  if (cap <= vec->cap) return false;
  void *items = pz_arena_alloc(vec->arena, cap, vec->item_bytes);
  if (!items) return false;
  if (vec->n) memcpy(items, vec->items, (size_t)vec->n * vec->item_bytes);
  vec->items = items;
  vec->cap = cap;
  return true;
}

void *pz_vec_push(struct pz_vec *vec, const void *item) {
  if (vec->n == vec->cap && !grow(vec)) return NULL;
  void *slot = (unsigned char *)vec->items + (size_t)vec->n * vec->item_bytes;
  vec->n++;
  if (item)
    memcpy(slot, item, vec->item_bytes);
  else
    memset(slot, 0, vec->item_bytes);
  return slot;
}

/* ---- heaps ---------------------------------------------------------------------------------- */

static char *at(const struct pz_vec *heap, uint32_t i) {
  return (char *)heap->items + (size_t)i * heap->item_bytes;
}

bool pz_heap_push(struct pz_vec *heap, pz_heap_before *before, const void *item) {
  if (!pz_vec_push(heap, item)) return false;
  uint32_t i = heap->n - 1;
  for (; i && before(item, at(heap, (i - 1) / 2)); i = (i - 1) / 2)
    memcpy(at(heap, i), at(heap, (i - 1) / 2), heap->item_bytes);
  memcpy(at(heap, i), item, heap->item_bytes);
  return true;
}

void pz_heap_pop(struct pz_vec *heap, pz_heap_before *before, void *out) {
  uint32_t i = 0, n = --heap->n;
  const char *last = at(heap, n); /* remains readable until the next item is added */
  memcpy(out, at(heap, 0), heap->item_bytes);
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && before(at(heap, child + 1), at(heap, child))) child++;
    if (!before(at(heap, child), last)) break;
    memcpy(at(heap, i), at(heap, child), heap->item_bytes);
    i = child;
  }
  if (n) memcpy(at(heap, i), last, heap->item_bytes);
}

/* ---- raising -------------------------------------------------------------------------------- */

void *pz_append(struct pz_call *call, struct pz_vec *vec, const void *item) {
  void *slot = pz_vec_push(vec, item);
  if (!slot) pz_raise(call, PZ_NO_MEMORY, "out of memory");
  return slot;
}

void pz_heap_add(struct pz_call *call, struct pz_vec *heap, pz_heap_before *before,
                 const void *item) {
  if (!pz_heap_push(heap, before, item)) pz_raise(call, PZ_NO_MEMORY, "out of memory");
}
