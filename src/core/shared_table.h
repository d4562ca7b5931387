/* A cache in a block of memory that many threads and processes read and write at once without
 * locks: a hash table of fixed size with open addressing, followed by the entries.  Keys and values
 * are bytes of any length, and a value depends on its key alone.  Entries are never changed or
 * removed, so pointers to values stay valid as long as the block.  When the block or the slots near
 * a key's hash are full, values are not stored. */
#ifndef PZ_CORE_SHARED_TABLE_H
#define PZ_CORE_SHARED_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct pz_shared_slot;

/* The first word of a key is the kind of value, so that kinds cannot be confused. */
enum pz_shared_of { PZ_SHARED_MAPPING = 1, PZ_SHARED_CYCLES, PZ_SHARED_FRONTIER };

/* The addresses of the parts of the block in this process. */
struct pz_shared_table {
  struct pz_shared_slot *slots; /* NULL if nothing can be stored */
  size_t n_slots;               /* a power of two */
  _Atomic uint64_t *used;       /* two words: bytes of entries; calls of pz_shared_table_turn() */
  unsigned char *entries;
  size_t entries_capacity; /* bytes */
};

/* Uses a block of the caller, which must be aligned for any type and must have been all zeroes
 * before its first use by any process.  With NULL or a small block nothing is stored. */
void pz_shared_table_init(struct pz_shared_table *table, void *block, size_t bytes);

/* Returns the fraction of a common list at which the caller should begin, so that several threads
 * or processes do not compute the same values at once: 0, 1/2, 1/4, 3/4, 1/8, ... in successive
 * calls (van der Corput's sequence), or always 0 if table is NULL or stores nothing. */
double pz_shared_table_turn(const struct pz_shared_table *table);

/* Returns the value of a key, aligned for any type, or NULL if there is none or table is NULL. */
const void *pz_shared_table_get(const struct pz_shared_table *table, const void *key,
                                size_t key_bytes);

/* Stores a copy of a value, unless the key has one already, and returns the stored value.  Returns
 * NULL if it cannot be stored or table is NULL. */
const void *pz_shared_table_put(const struct pz_shared_table *table, const void *key,
                                size_t key_bytes, const void *value, size_t value_bytes);

#endif
