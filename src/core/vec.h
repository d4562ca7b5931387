/* Growing array in an arena, indexed with 32 bits, and binary heaps in such arrays. */
#ifndef PZ_CORE_VEC_H
#define PZ_CORE_VEC_H

#include "core/call.h"

struct pz_vec {
  struct pz_arena *arena; /* contains the items */
  void *items;
  uint32_t n, capacity, item_bytes;
};

void pz_vec_init(struct pz_vec *vec, struct pz_arena *arena, size_t item_bytes);

/* Appends a copy of *item, or zeroes when item is NULL, and returns the new item. */
void *pz_append(struct pz_call *call, struct pz_vec *vec, const void *item)
    __attribute__((returns_nonnull));

/* Returns the address of item i, as a T *. */
#define pz_vec_at(vec, T, i) (&((T *)(vec)->items)[i])

/* ---- heaps: the first item comes before all others ------------------------------------------ */

/* Returns whether item a comes before item b.  The order must be strict, so that the first item
 * does not depend on the history of the heap. */
typedef bool pz_heap_before(const void *a, const void *b);

/* Adds a copy of *item to a heap.  The item must not lie in the heap itself. */
void pz_heap_add(struct pz_call *call, struct pz_vec *heap, pz_heap_before *before,
                 const void *item);

/* Removes the first item of a heap that is not empty, and copies it to *out. */
void pz_heap_pop(struct pz_vec *heap, pz_heap_before *before, void *out);

#endif
