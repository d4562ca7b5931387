/* Appending to a pz_vec in tests and benchmarks that have no call. */
#ifndef PZ_TEST_VEC_PUSH_H
#define PZ_TEST_VEC_PUSH_H

#include "core/vec.h"

struct vec_push {
  struct pz_vec *vec;
  const void *item;
  void *added;
};

static inline void append_pushed(struct pz_call *call, void *ctx) {
  struct vec_push *push = ctx;
  push->added = pz_append(call, push->vec, push->item);
}

/* Returns the new item, or NULL if there is no memory. */
static inline void *vec_push(struct pz_vec *vec, const void *item) {
  struct vec_push push = {vec, item, NULL};
  return pz_border(append_pushed, &push, NULL) == PZ_OK ? push.added : NULL;
}

#endif
