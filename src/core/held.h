/* What a call of the public header makes: an object and an arena for what it points to, freed together. */
#ifndef PZ_CORE_HELD_H
#define PZ_CORE_HELD_H

#include "core/arena.h"

/* An object of so many bytes, zero, and its arena.  PZ_NO_MEMORY: out of memory for `what`. */
PZ_NODISCARD enum pz_status pz_held_new(size_t bytes, const char *what, void **object,
                                        struct pz_arena **arena, struct pz_error *err);

/* Give it to a caller (out: of the pointer to it) where status is PZ_OK, free it otherwise.  Returns status. */
PZ_NODISCARD enum pz_status pz_held_give(enum pz_status status, void *object, void *out);

/* The object that the arena belongs to. */
void *pz_held_of(struct pz_arena *arena);

/* Accepts NULL. */
void pz_held_free(void *object);

#endif
