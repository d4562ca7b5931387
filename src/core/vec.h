/* Growing array of equal items inside an arena, indexed with 32 bits. */
#ifndef PZ_CORE_VEC_H
#define PZ_CORE_VEC_H

#include "core/arena.h"

struct pz_vec {
  struct pz_arena *arena;
  void *items;
  uint32_t n, cap;
  uint32_t item_bytes;
};

void pz_vec_init(struct pz_vec *vec, struct pz_arena *arena, size_t item_bytes);

/* Append a copy of *item (zeroes when NULL).  Returns the new item, or NULL when out of memory. */
void *pz_vec_push(struct pz_vec *vec, const void *item);

/* Item i as a T; i must be below vec.n. */
#define pz_vec_at(vec, T, i) (&((T *)(vec)->items)[i])

#endif
