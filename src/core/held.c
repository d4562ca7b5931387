#include "core/held.h"

#include <string.h>

#include "core/alloc.h"

/* The arena is stored in front of the object. */
union head {
  struct pz_arena arena;
  max_align_t align;
};

enum pz_status pz_held_new(size_t bytes, const char *what, void **object, struct pz_arena **arena,
                           struct pz_error *err) {
  union head *head = pz_calloc(1, sizeof *head + bytes);
  if (!head) return pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", what);
  pz_arena_init(&head->arena, NULL);
  *arena = &head->arena;
  *object = head + 1;
  return PZ_OK;
}

enum pz_status pz_held_give(enum pz_status status, void *object, void *out) {
  if (status == PZ_OK)
    memcpy(out, &object, sizeof object);
  else
    pz_held_free(object);
  return status;
}

void *pz_held_of(struct pz_arena *arena) { return (union head *)(void *)arena + 1; }

void pz_held_free(void *object) {
  union head *head = object;
  if (!head) return;
  head--;
  pz_arena_release(&head->arena);
  pz_free(head);
}
