/* Growing array of equal items inside an arena, indexed with 32 bits. */
#ifndef PZ_CORE_VEC_H
#define PZ_CORE_VEC_H

#include "core/call.h"

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

/* A binary heap in a vector: the item that comes before all others is the first. */

/* Does item a come before item b?  A strict order, so that the first does not depend on how the heap was made. */
typedef bool pz_heap_before(const void *a, const void *b);

/* Add a copy of an item, which is not in the heap.  False: out of memory. */
bool pz_heap_push(struct pz_vec *heap, pz_heap_before *before, const void *item);

/* Take the first item of a heap that is not empty. */
void pz_heap_pop(struct pz_vec *heap, pz_heap_before *before, void *out);

/* Appends a copy of *item, or zeroes when item is NULL, and returns the new item. */
void *pz_append(struct pz_call *call, struct pz_vec *vec, const void *item)
    __attribute__((returns_nonnull));

/* Adds a copy of *item to a heap.  The item must not lie in the heap itself. */
void pz_heap_add(struct pz_call *call, struct pz_vec *heap, pz_heap_before *before,
                 const void *item);

#endif
