/* Objects that outlive a call, with an arena for what they point to.  core/call.h has the functions that raise. */
#ifndef PZ_CORE_HELD_H
#define PZ_CORE_HELD_H

#include "core/arena.h"

/* Makes a zeroed object of `bytes` bytes and its arena. */
PZ_NODISCARD enum pz_status pz_held_new(size_t bytes, const char *what, void **object,
                                        struct pz_arena **arena, struct pz_error *err);

/* Stores the object in the pointer at `out` if status is PZ_OK, and frees it otherwise.  Returns status. */
PZ_NODISCARD enum pz_status pz_held_give(enum pz_status status, void *object, void *out);

/* The object that the arena belongs to. */
void *pz_held_of(struct pz_arena *arena);

/* Accepts NULL. */
void pz_held_free(void *object);

#endif
