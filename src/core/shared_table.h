/* A cache in a block of memory that many threads, and many processes, read and write at once without locks: a hash table
 * of fixed size with open addressing, and behind it the entries one after another.  Keys and values are bytes of any
 * length.  What belongs to a key depends on the key alone, so it does not matter who has put it there, or whether anybody
 * has.  Nothing is changed or removed: what was found stays where it is as long as the block; where the block, or a
 * neighbourhood of the table, is full a value is not kept. */
#ifndef PZ_CORE_SHARED_TABLE_H
#define PZ_CORE_SHARED_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct pz_shared_slot;

/* The first word of a key says what of: none may be taken for another's. */
enum pz_shared_of { PZ_SHARED_MAPPING = 1, PZ_SHARED_CYCLES, PZ_SHARED_FRONTIER };

/* Where things are in the block, as one process sees it. */
struct pz_shared_table {
  struct pz_shared_slot *slots; /* NULL: nothing is kept */
  size_t n_slots;               /* a power of two */
  _Atomic uint64_t *used;       /* bytes of entries; then how many have a turn */
  unsigned char *entries;
  size_t room; /* bytes for entries */
};

/* A block that was all zeroes when the first began to use it, aligned for any type.  Borrowed.  NULL or a small one:
 * nothing is kept. */
void pz_shared_table_init(struct pz_shared_table *t, void *block, size_t bytes);

/* 0, 1/2, 1/4, 3/4, 1/8 ...: where in a common list each of several users begins, so that they do not find out the same
 * at the same time (van der Corput's sequence).  0 where t is NULL or keeps nothing. */
double pz_shared_table_turn(const struct pz_shared_table *t);

/* The value of a key, aligned for any type; NULL where it is not there, or t is NULL. */
const void *pz_shared_table_get(const struct pz_shared_table *t, const void *key, size_t key_bytes);

/* Keep a copy, and give it back: another's, where there is one already.  NULL: it is not kept, or t is NULL. */
const void *pz_shared_table_put(const struct pz_shared_table *t, const void *key, size_t key_bytes,
                                const void *value, size_t value_bytes);

#endif
