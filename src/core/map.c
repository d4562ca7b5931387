#include "core/map.h"

#include <string.h>

struct pz_map_slot {
  uint64_t hash;
  const void *key;
  size_t bytes;
  uint32_t value;
};

uint64_t pz_hash(const void *key, size_t bytes) {
  const unsigned char *p = key;
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

/* Works on whole words, since most keys are arrays of them: multiplies, and folds the upper half onto the lower. */
uint64_t pz_hash_key(const void *key, size_t bytes) {
  const unsigned char *p = key;
  uint64_t h = 0x9e3779b97f4a7c15u ^ bytes, word;
  for (; bytes >= sizeof word; bytes -= sizeof word, p += sizeof word) {
    memcpy(&word, p, sizeof word);
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  for (; bytes; bytes--) h = (h ^ *p++) * 1099511628211u;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

void pz_map_init(struct pz_map *map, struct pz_arena *arena) {
  *map = (struct pz_map){.arena = arena};
}

/* The slot of the key, or the free slot where it belongs.  The table is never full. */
static struct pz_map_slot *find(const struct pz_map *map, uint64_t hash, const void *key,
                                size_t bytes) {
  uint32_t mask = map->cap - 1;
  for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
    struct pz_map_slot *s = &map->slots[i];
    if (!s->key) return s;
    if (s->hash == hash && s->bytes == bytes && memcmp(s->key, key, bytes) == 0) return s;
  }
}

uint32_t pz_map_get(const struct pz_map *map, const void *key, size_t bytes) {
  if (!map->cap) return PZ_NONE;
  const struct pz_map_slot *s = find(map, pz_hash_key(key, bytes), key, bytes);
  return s->key ? s->value : PZ_NONE;
}

static enum pz_status grow(struct pz_map *map) {
  struct pz_map bigger = {.arena = map->arena, .cap = map->cap ? map->cap * 2 : 32, .n = map->n};
  bigger.slots = pz_arena_alloc(map->arena, bigger.cap, sizeof *bigger.slots);
  if (!bigger.slots) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < map->cap; i++) {
    const struct pz_map_slot *s = &map->slots[i];
    if (s->key) *find(&bigger, s->hash, s->key, s->bytes) = *s;
  }
  *map = bigger;
  return PZ_OK;
}

enum pz_status pz_map_put(struct pz_map *map, const void *key, size_t bytes, uint32_t value) {
  if (map->n + 1 > map->cap / 4 * 3) {
    enum pz_status status = grow(map);
    if (status != PZ_OK) return status;
  }
  uint64_t hash = pz_hash_key(key, bytes);
  struct pz_map_slot *s = find(map, hash, key, bytes);
  if (!s->key) {
    void *copy = pz_arena_alloc(map->arena, bytes + 1, 1);
    if (!copy) return PZ_NO_MEMORY;
    memcpy(copy, key, bytes);
    *s = (struct pz_map_slot){.hash = hash, .key = copy, .bytes = bytes};
    map->n++;
  }
  s->value = value;
  return PZ_OK;
}

void pz_map_set(struct pz_call *call, struct pz_map *map, const void *key, size_t bytes,
                uint32_t value) {
  if (pz_map_put(map, key, bytes, value) != PZ_OK) pz_raise(call, PZ_NO_MEMORY, "out of memory");
}
