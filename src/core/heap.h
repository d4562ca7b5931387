/* A binary heap in a vector: the item that comes before all others is the first. */
#ifndef PZ_CORE_HEAP_H
#define PZ_CORE_HEAP_H

#include "core/vec.h"

/* Does item a come before item b?  A strict order, so that the first does not depend on how the heap was made. */
typedef bool pz_heap_before(const void *a, const void *b);

/* Add a copy of an item, which is not in the heap.  False: out of memory. */
bool pz_heap_push(struct pz_vec *heap, pz_heap_before *before, const void *item);

/* Take the first item of a heap that is not empty. */
void pz_heap_pop(struct pz_vec *heap, pz_heap_before *before, void *out);

#endif
