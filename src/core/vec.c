/* Growing arrays, and binary heaps in them: item i comes before items 2i+1 and 2i+2. */
#include "core/vec.h"

#include <string.h>

void pz_vec_init(struct pz_vec *vec, struct pz_arena *arena, size_t item_bytes) {
  *vec = (struct pz_vec){.arena = arena, .item_bytes = (uint32_t)item_bytes};
}

static void *item_at(const struct pz_vec *vec, uint32_t i) {
  return (char *)vec->items + (size_t)i * vec->item_bytes;
}

/* Appends a copy of *item, or zeroes if it is NULL, and returns the new item. */
void *pz_append(struct pz_call *call, struct pz_vec *vec, const void *item) {
  if (vec->n == vec->capacity) {
    struct pz_call own = pz_call_in(call, vec->arena);
    uint32_t capacity = vec->capacity ? vec->capacity * 2 : 16;
    if (capacity <= vec->capacity) pz_raise_memory(call, NULL); /* the number overflows */
    void *items = pz_alloc(&own, capacity, vec->item_bytes);
    if (vec->n) memcpy(items, vec->items, (size_t)vec->n * vec->item_bytes);
    vec->items = items;
    vec->capacity = capacity;
  }
  void *slot = item_at(vec, vec->n);
  vec->n++;
  if (item)
    memcpy(slot, item, vec->item_bytes);
  else
    memset(slot, 0, vec->item_bytes);
  return slot;
}

/* Adds a copy of *item to a heap, whose first item comes before all others. */
void pz_heap_add(struct pz_call *call, struct pz_vec *heap, pz_heap_before *before,
                 const void *item) {
  pz_append(call, heap, item);
  uint32_t i = heap->n - 1;
  while (i > 0 && before(item, item_at(heap, (i - 1) / 2))) {
    memcpy(item_at(heap, i), item_at(heap, (i - 1) / 2), heap->item_bytes);
    i = (i - 1) / 2;
  }
  memcpy(item_at(heap, i), item, heap->item_bytes);
}

/* Removes the first item of a heap, the one before all others, and copies it to *out. */
void pz_heap_pop(struct pz_vec *heap, pz_heap_before *before, void *out) {
  heap->n--;
  uint32_t i = 0, n = heap->n;
  const void *last = item_at(heap, n); /* remains readable until the next item is added */
  memcpy(out, item_at(heap, 0), heap->item_bytes);
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && before(item_at(heap, child + 1), item_at(heap, child))) child++;
    if (!before(item_at(heap, child), last)) break;
    memcpy(item_at(heap, i), item_at(heap, child), heap->item_bytes);
    i = child;
  }
  if (n) memcpy(item_at(heap, i), last, heap->item_bytes);
}
