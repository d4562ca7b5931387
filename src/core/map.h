/* Hash map from byte strings to 32-bit values in an arena.  Keys are copied.  There is no
 * iteration, so results cannot depend on its order. */
#ifndef PZ_CORE_MAP_H
#define PZ_CORE_MAP_H

#include "core/call.h"

struct pz_map_slot;

struct pz_map {
  struct pz_arena *arena;
  struct pz_map_slot *slots;
  uint32_t n, capacity; /* number of slots in use, and of all slots */
};

/* 64-bit FNV-1a, which is the same on all machines and in all versions and may be stored. */
uint64_t pz_hash(const void *key, size_t bytes);

/* Returns a faster hash for tables in memory, which may change from version to version. */
uint64_t pz_hash_key(const void *key, size_t bytes);

void pz_map_init(struct pz_map *map, struct pz_arena *arena);

/* Returns the value of `key`, or PZ_NONE. */
uint32_t pz_map_get(const struct pz_map *map, const void *key, size_t bytes);

/* Sets `key` to `value`, which must not be PZ_NONE. */
void pz_map_set(struct pz_call *call, struct pz_map *map, const void *key, size_t bytes,
                uint32_t value);

#endif
