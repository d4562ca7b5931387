/* A table in shared memory without locks.  The first word of a slot is claimed by one atomic
 * exchange, and published by another when the entry is complete. */
#include "core/shared_table.h"

#include <stdbool.h>
#include <string.h>

#include "core/map.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share words, which must do without locks");

enum { LEAST_SLOTS = 64, MOST_PROBES = 32, BYTES_PER_SLOT = 256, ALIGNMENT = 16 };

/* The word of an empty slot is 0.  A writer sets it to the hash of the key and WRITING, and owns
 * the slot until it sets READY, or UNUSED if the block is full, after which the word does not
 * change. */
enum { WRITING = 1, READY = 2, UNUSED = 3, STATES = 3 };

struct pz_shared_slot {
  _Atomic uint64_t word;
  uint64_t offset; /* of the entry, which is key length, key and value, each aligned */
};

/* Rounds up to the alignment of the parts of an entry. */
static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Divides a block into the table's slots and entries. */
void pz_shared_table_init(struct pz_shared_table *table, void *block, size_t bytes) {
  size_t n = LEAST_SLOTS;
  *table = (struct pz_shared_table){.slots = NULL};
  if (!block || bytes < LEAST_SLOTS * BYTES_PER_SLOT) return;
  while (2 * n <= bytes / BYTES_PER_SLOT) n *= 2;
  unsigned char *bytes_of_block = block;
  size_t head = ALIGNMENT + n * sizeof *table->slots;
  table->used = (_Atomic uint64_t *)block;
  table->slots = (struct pz_shared_slot *)(void *)(bytes_of_block + ALIGNMENT);
  table->n_slots = n;
  table->entries = bytes_of_block + head;
  table->entries_capacity = bytes - head;
}

/* Returns the caller's turn: the fraction of a common list at which it should begin, so that users
 * of the table do not compute the same values at once.  Successive calls, of any process, return
 * van der Corput's sequence 0, 1/2, 1/4, 3/4, 1/8, ...: the bits of the call's number after the
 * binary point, in reverse order. */
double pz_shared_table_turn(const struct pz_shared_table *table) {
  double fraction = 0, part = 0.5;
  if (!table || !table->slots) return 0;
  _Atomic uint64_t *n_turns = table->used + 1; /* the word of the block after `used` */
  for (uint64_t n = atomic_fetch_add(n_turns, 1); n; n /= 2) {
    if (n % 2) fraction += part;
    part /= 2;
  }
  return fraction;
}

/* Returns the slot of the key and sets *found, or returns an empty slot for it.  Returns NULL if
 * there is neither within MOST_PROBES slots, or if the entry is being written. */
static struct pz_shared_slot *find_slot(const struct pz_shared_table *table, uint64_t hash,
                                        const void *key, size_t key_bytes, bool *found) {
  *found = false;
  for (size_t i = 0; i < MOST_PROBES; i++) {
    struct pz_shared_slot *slot = &table->slots[((hash >> 8) + i) & (table->n_slots - 1)];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    if (!word) return slot;
    if ((word & ~(uint64_t)STATES) != hash) continue;
    if (word == (hash | WRITING)) return NULL;
    if (word != (hash | READY)) continue;
    const unsigned char *entry = table->entries + slot->offset;
    uint64_t n; /* bytes of the entry's key */
    memcpy(&n, entry, sizeof n);
    *found = n == key_bytes && memcmp(entry + ALIGNMENT, key, key_bytes) == 0;
    if (*found) return slot;
  }
  return NULL;
}

/* Returns the hash of a key without the bits of the state; never 0, the word of an empty slot. */
static uint64_t hash_of(const void *key, size_t bytes) {
  uint64_t hash = pz_hash_key(key, bytes) & ~(uint64_t)STATES;
  return hash ? hash : STATES + 1;
}

const void *pz_shared_table_get(const struct pz_shared_table *table, const void *key,
                                size_t key_bytes) {
  bool found = false;
  if (!table || !table->slots) return NULL;
  const struct pz_shared_slot *slot =
      find_slot(table, hash_of(key, key_bytes), key, key_bytes, &found);
  if (!found) return NULL;
  return table->entries + slot->offset + ALIGNMENT + aligned(key_bytes); /* after the key */
}

/* Stores a copy of a value, unless the key has one, and returns the stored value, or NULL. */
const void *pz_shared_table_put(const struct pz_shared_table *table, const void *key,
                                size_t key_bytes, const void *value, size_t value_bytes) {
  bool found = false;
  if (!table || !table->slots) return NULL;
  size_t value_offset = ALIGNMENT + aligned(key_bytes); /* within the entry */
  size_t bytes = value_offset + aligned(value_bytes);
  if (atomic_load_explicit(table->used, memory_order_relaxed) + bytes > table->entries_capacity)
    return NULL;
  uint64_t hash = hash_of(key, key_bytes), n = key_bytes;
  struct pz_shared_slot *slot;
  bool claimed = false; /* whether the empty slot is ours: another thread may be faster */
  while (!claimed) {
    uint64_t empty = 0;
    slot = find_slot(table, hash, key, key_bytes, &found);
    if (found) return table->entries + slot->offset + value_offset;
    if (!slot) return NULL;
    claimed = atomic_compare_exchange_strong_explicit(&slot->word, &empty, hash | WRITING,
                                                      memory_order_acquire, memory_order_relaxed);
  }
  /* reserve space for the entry, unless the block is full */
  uint64_t used = atomic_load_explicit(table->used, memory_order_relaxed);
  bool fits, reserved = false;
  do {
    fits = bytes <= table->entries_capacity && used <= table->entries_capacity - bytes;
    if (fits)
      reserved = atomic_compare_exchange_weak_explicit(table->used, &used, used + bytes,
                                                       memory_order_relaxed, memory_order_relaxed);
  } while (fits && !reserved);
  if (reserved) {
    unsigned char *entry = table->entries + used;
    memcpy(entry, &n, sizeof n);
    memcpy(entry + ALIGNMENT, key, key_bytes);
    memcpy(entry + value_offset, value, value_bytes);
    slot->offset = used;
  }
  atomic_store_explicit(&slot->word, hash | (reserved ? READY : UNUSED), memory_order_release);
  return reserved ? table->entries + used + value_offset : NULL;
}
