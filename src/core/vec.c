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
