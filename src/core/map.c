/* Open addressing with linear probing in a power of two of slots, at most 3/4 of them in use. */
#include "core/map.h"

#include <string.h>

struct pz_map_slot {
  uint64_t hash;
  const void *key;
  size_t bytes;
  uint32_t value;
};

/* Returns the 64-bit FNV-1a hash of a key. */
uint64_t pz_hash(const void *key, size_t bytes) {
  const unsigned char *next = key;
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ next[i]) * 1099511628211u;
  return hash;
}

/* Most keys are arrays of 64-bit words, so the function works on whole words: it multiplies each
 * and folds the upper half of the product onto the lower.  The constants are those of splitmix64,
 * MurmurHash3 (fmix64) and FNV. */
uint64_t pz_hash_key(const void *key, size_t bytes) {
  const unsigned char *next = key;
  uint64_t hash = 0x9e3779b97f4a7c15u ^ bytes, word;
  while (bytes >= sizeof word) {
    memcpy(&word, next, sizeof word);
    next += sizeof word;
    bytes -= sizeof word;
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  for (; bytes; bytes--) {
    hash = (hash ^ *next) * 1099511628211u;
    next++;
  }
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
  return hash ^ hash >> 33;
}

void pz_map_init(struct pz_map *map, struct pz_arena *arena) {
  *map = (struct pz_map){.arena = arena};
}

/* Returns the slot of the key, or the free slot where it belongs.  The table is never full. */
static struct pz_map_slot *find_slot(const struct pz_map *map, uint64_t hash, const void *key,
                                     size_t bytes) {
  uint32_t mask = map->capacity - 1;
  for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
    struct pz_map_slot *slot = &map->slots[i];
    if (!slot->key) return slot;
    if (slot->hash == hash && slot->bytes == bytes && memcmp(slot->key, key, bytes) == 0)
      return slot;
  }
}

uint32_t pz_map_get(const struct pz_map *map, const void *key, size_t bytes) {
  if (!map->capacity) return PZ_NONE;
  const struct pz_map_slot *slot = find_slot(map, pz_hash_key(key, bytes), key, bytes);
  return slot->key ? slot->value : PZ_NONE;
}

/* Sets the value of a key; a table that is three quarters full is doubled first. */
void pz_map_set(struct pz_call *call, struct pz_map *map, const void *key, size_t bytes,
                uint32_t value) {
  struct pz_call own = pz_call_in(call, map->arena);
  if (map->n + 1 > map->capacity / 4 * 3) {
    struct pz_map larger = {
        .arena = map->arena, .capacity = map->capacity ? map->capacity * 2 : 32, .n = map->n};
    larger.slots = pz_alloc(&own, larger.capacity, sizeof *larger.slots);
    for (uint32_t i = 0; i < map->capacity; i++) {
      const struct pz_map_slot *slot = &map->slots[i];
      if (slot->key) *find_slot(&larger, slot->hash, slot->key, slot->bytes) = *slot;
    }
    *map = larger;
  }
  uint64_t hash = pz_hash_key(key, bytes);
  struct pz_map_slot *slot = find_slot(map, hash, key, bytes);
  if (!slot->key) {
    char *copy = pz_alloc(&own, bytes + 1, 1);
    memcpy(copy, key, bytes);
    *slot = (struct pz_map_slot){.hash = hash, .key = copy, .bytes = bytes};
    map->n++;
  }
  slot->value = value;
}
