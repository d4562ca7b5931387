#include "core/heap.h"

#include <string.h>

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
  const char *last = at(heap, n); /* stays there until the next push */
  memcpy(out, at(heap, 0), heap->item_bytes);
  for (uint32_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && before(at(heap, c + 1), at(heap, c))) c++;
    if (!before(at(heap, c), last)) break;
    memcpy(at(heap, i), at(heap, c), heap->item_bytes);
  }
  if (n) memcpy(at(heap, i), last, heap->item_bytes);
}
