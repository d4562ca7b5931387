#include "core/shared_table.h"

#include <stdbool.h>
#include <string.h>

#include "core/map.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share words, which must do without locks");

enum { LEAST_SLOTS = 64, MOST_PROBES = 32, BYTES_PER_SLOT = 256, ALIGNMENT = 16 };

/* The word of an empty slot is 0.  A writer sets it to the hash of the key and WRITTEN, and owns the slot until it sets READY, or
 * UNUSED if the block is full.  After that the word does not change. */
enum { WRITTEN = 1, READY = 2, UNUSED = 3, STATES = 3 };

struct pz_shared_slot {
  _Atomic uint64_t word;
  uint64_t at; /* offset of the entry: length of the key, key, value, each aligned */
};

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

void pz_shared_table_init(struct pz_shared_table *t, void *block, size_t bytes) {
  size_t n = LEAST_SLOTS;
  *t = (struct pz_shared_table){.slots = NULL};
  if (!block || bytes < LEAST_SLOTS * BYTES_PER_SLOT) return;
  while (2 * n <= bytes / BYTES_PER_SLOT) n *= 2;
  unsigned char *at = block;
  size_t head = ALIGNMENT + n * sizeof *t->slots;
  t->used = (_Atomic uint64_t *)block;
  t->slots = (struct pz_shared_slot *)(void *)(at + ALIGNMENT);
  t->n_slots = n;
  t->entries = at + head;
  t->room = bytes - head;
}

double pz_shared_table_turn(const struct pz_shared_table *t) {
  double at = 0, part = 0.5;
  if (!t || !t->slots) return 0;
  for (uint64_t n = atomic_fetch_add(t->used + 1, 1); n; n /= 2, part /= 2)
    if (n % 2) at += part;
  return at;
}

static const unsigned char *key_of(const unsigned char *entry) { return entry + ALIGNMENT; }

static bool holds(const unsigned char *entry, const void *key, size_t bytes) {
  uint64_t n;
  memcpy(&n, entry, sizeof n);
  return n == bytes && memcmp(key_of(entry), key, bytes) == 0;
}

/* The slot of the key, with *found set, or an empty slot for it.  NULL if the neighbourhood has neither, or the entry is being
 * written. */
static struct pz_shared_slot *find_slot(const struct pz_shared_table *t, uint64_t hash,
                                        const void *key, size_t bytes, bool *found) {
  *found = false;
  for (size_t i = 0; i < MOST_PROBES; i++) {
    struct pz_shared_slot *s = &t->slots[((hash >> 8) + i) & (t->n_slots - 1)];
    uint64_t now = atomic_load_explicit(&s->word, memory_order_acquire);
    if (!now) return s;
    if ((now & ~(uint64_t)STATES) != hash) continue;
    if (now == (hash | WRITTEN)) return NULL;
    if (now != (hash | READY) || !holds(t->entries + s->at, key, bytes)) continue;
    *found = true;
    return s;
  }
  return NULL;
}

static uint64_t hash_of(const void *key, size_t bytes) {
  uint64_t hash = pz_hash_key(key, bytes) & ~(uint64_t)STATES;
  return hash ? hash : STATES + 1;
}

static const void *value_at(const struct pz_shared_table *t, const struct pz_shared_slot *s,
                            size_t key_bytes) {
  return key_of(t->entries + s->at) + aligned(key_bytes);
}

const void *pz_shared_table_get(const struct pz_shared_table *t, const void *key, size_t bytes) {
  bool found = false;
  if (!t || !t->slots) return NULL;
  const struct pz_shared_slot *s = find_slot(t, hash_of(key, bytes), key, bytes, &found);
  return found ? value_at(t, s, bytes) : NULL;
}

/* Reserves space for an entry, or returns NULL. */
static unsigned char *reserve_space(const struct pz_shared_table *t, size_t bytes) {
  uint64_t used = atomic_load_explicit(t->used, memory_order_relaxed);
  do {
    if (bytes > t->room || used > t->room - bytes) return NULL;
  } while (!atomic_compare_exchange_weak_explicit(t->used, &used, used + bytes,
                                                  memory_order_relaxed, memory_order_relaxed));
  return t->entries + used;
}

/* Claims an empty slot.  Returns false if another thread or process was faster. */
static bool claim_slot(struct pz_shared_slot *s, uint64_t hash) {
  uint64_t none = 0;
  return atomic_compare_exchange_strong_explicit(&s->word, &none, hash | WRITTEN,
                                                 memory_order_acquire, memory_order_relaxed);
}

const void *pz_shared_table_put(const struct pz_shared_table *t, const void *key, size_t key_bytes,
                                const void *value, size_t value_bytes) {
  bool found = false;
  if (!t || !t->slots) return NULL;
  size_t bytes = ALIGNMENT + aligned(key_bytes) + aligned(value_bytes);
  if (atomic_load_explicit(t->used, memory_order_relaxed) + bytes > t->room) return NULL;
  uint64_t hash = hash_of(key, key_bytes), n = key_bytes;
  struct pz_shared_slot *s;
  do {
    s = find_slot(t, hash, key, key_bytes, &found);
    if (found) return value_at(t, s, key_bytes);
    if (!s) return NULL;
  } while (!claim_slot(s, hash));
  unsigned char *entry = reserve_space(t, bytes);
  if (entry) {
    memcpy(entry, &n, sizeof n);
    memcpy(entry + ALIGNMENT, key, key_bytes);
    memcpy(entry + ALIGNMENT + aligned(key_bytes), value, value_bytes);
    s->at = (uint64_t)(entry - t->entries);
  }
  atomic_store_explicit(&s->word, hash | (entry ? READY : UNUSED), memory_order_release);
  return entry ? value_at(t, s, key_bytes) : NULL;
}
