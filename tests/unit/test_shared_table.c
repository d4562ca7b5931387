/* The table that threads and ranks share: what is found is what was put, whoever puts it at the same time; a full one
 * keeps what it has.  Also run under the thread sanitizer. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include "core/pool.h"
#include "core/shared_table.h"

enum { KEYS = 20000, WORDS = 18, MOST_VALUES = 40 };

struct key {
  int64_t word[WORDS];
};

static struct key key_of(uint64_t i) {
  struct key k = {{0}};
  for (int w = 0; w < WORDS; w++) k.word[w] = (int64_t)(i % (uint64_t)(w + 3));
  k.word[3] = (int64_t)i;
  return k;
}

static size_t value_of(uint64_t i, double v[MOST_VALUES]) {
  size_t n = 1 + i % MOST_VALUES;
  for (size_t k = 0; k < n; k++) v[k] = (double)(i * MOST_VALUES + k);
  return n * sizeof *v;
}

static void *new_block(size_t bytes) {
  void *block = calloc(1, bytes);
  assert_non_null(block);
  return block;
}

/* Also called by threads, which cannot assert. */
static bool finds(const struct pz_shared_table *t, uint64_t i) {
  struct key k = key_of(i);
  double want[MOST_VALUES];
  size_t bytes = value_of(i, want);
  const double *found = pz_shared_table_get(t, &k, sizeof k);
  if (found && memcmp(found, want, bytes) != 0) abort();
  return found;
}

static bool put(const struct pz_shared_table *t, uint64_t i) {
  struct key k = key_of(i);
  double v[MOST_VALUES];
  size_t bytes = value_of(i, v);
  const double *kept = pz_shared_table_put(t, &k, sizeof k, v, bytes);
  if (kept && memcmp(kept, v, bytes) != 0) abort();
  return kept;
}

static void keeps_what_was_put(void **state) {
  (void)state;
  struct pz_shared_table t, same;
  size_t bytes = 32 << 20;
  void *block = new_block(bytes);
  pz_shared_table_init(&t, block, bytes);
  for (uint64_t i = 0; i < KEYS; i++) {
    assert_false(finds(&t, i));
    assert_true(put(&t, i));
    uint64_t used = atomic_load(t.used);
    assert_true(put(&t, i));
    assert_int_equal(atomic_load(t.used), used);
    assert_true(finds(&t, i));
  }
  /* as another process sees it */
  pz_shared_table_init(&same, block, bytes);
  for (uint64_t i = 0; i < KEYS; i++) assert_true(finds(&same, i));
  assert_false(finds(&same, KEYS));
  free(block);
}

/* Blocks that are full, and tables of few slots for many small entries. */
static void full_tables_keep_what_they_have(void **state) {
  (void)state;
  static const size_t sizes[] = {64 * 256, 20000, 1 << 16, 1 << 20};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    struct pz_shared_table t;
    void *block = new_block(sizes[s]);
    bool *kept = calloc(KEYS, sizeof *kept);
    uint32_t n = 0;
    assert_non_null(kept);
    pz_shared_table_init(&t, block, sizes[s]);
    assert_true(t.entries + t.entries_capacity == (unsigned char *)block + sizes[s]);
    for (uint64_t i = 0; i < KEYS; i++) n += kept[i] = put(&t, i);
    assert_true(n > 10 && n < KEYS);
    for (uint64_t i = 0; i < KEYS; i++) assert_int_equal(kept[i], finds(&t, i));
    assert_true(atomic_load(t.used) <= t.entries_capacity);
    free(kept);
    free(block);
  }
}

static void few_slots(void **state) {
  (void)state;
  struct pz_shared_table t;
  size_t bytes = 64 * 256;
  void *block = new_block(bytes);
  uint32_t n = 0;
  pz_shared_table_init(&t, block, bytes);
  assert_int_equal(t.n_slots, 64);
  for (unsigned i = 0; i < 1000; i++) n += pz_shared_table_put(&t, &i, sizeof i, "", 0) != NULL;
  assert_int_equal(n, 64);
  for (unsigned i = 0; i < 1000; i++) n -= pz_shared_table_get(&t, &i, sizeof i) != NULL;
  assert_int_equal(n, 0);
  free(block);
}

static void works_without_memory(void **state) {
  (void)state;
  struct pz_shared_table t;
  char block[64] = {0};
  pz_shared_table_init(&t, NULL, 1 << 20);
  assert_false(put(&t, 1) || finds(&t, 1));
  pz_shared_table_init(&t, block, sizeof block);
  assert_false(put(&t, 1) || finds(&t, 1));
  assert_false(put(NULL, 1) || finds(NULL, 1));
  assert_true(pz_shared_table_turn(NULL) == 0 && pz_shared_table_turn(&t) == 0);
}

static void turns(void **state) {
  (void)state;
  static const double want[] = {0, 0.5, 0.25, 0.75, 0.125};
  struct pz_shared_table t;
  size_t bytes = 1 << 16;
  void *block = new_block(bytes);
  pz_shared_table_init(&t, block, bytes);
  for (int i = 0; i < 5; i++) assert_true(pz_shared_table_turn(&t) == want[i]);
  assert_true(put(&t, 1) && finds(&t, 1));
  free(block);
}

/* Keys that differ in the last byte, or in their length alone. */
static void keys_of_all_lengths(void **state) {
  (void)state;
  struct pz_shared_table t;
  size_t bytes = 4 << 20;
  void *block = new_block(bytes);
  unsigned char key[40] = {0}, value;
  pz_shared_table_init(&t, block, bytes);
  for (int pass = 0; pass < 2; pass++)
    for (size_t length = 1; length <= sizeof key; length++)
      for (unsigned i = 0; i < 100; i++) {
        memset(key, 0, sizeof key);
        key[length - 1] = (unsigned char)i;
        value = (unsigned char)(i + length);
        const unsigned char *found = pz_shared_table_get(&t, key, length);
        assert_true(pass ? found && *found == value : !found);
        if (!pass) assert_non_null(pz_shared_table_put(&t, key, length, &value, 1));
      }
  free(block);
}

/* All threads put and look for the same keys, in an order of their own. */
static void use_table(void *ctx, size_t thread, unsigned worker) {
  uint64_t seed = thread + 1;
  (void)worker;
  for (uint32_t n = 0; n < 5 * KEYS; n++) {
    uint64_t i = pz_random_lcg(&seed) % KEYS;
    if (!finds(ctx, i)) put(ctx, i);
  }
}

static void threads_at_once(void **state) {
  (void)state;
  static const size_t sizes[] = {32 << 20, 1 << 16};
  for (int s = 0; s < 2; s++) {
    struct pz_shared_table t;
    struct pz_pool *pool = NULL;
    void *block = new_block(sizes[s]);
    uint32_t n = 0;
    pz_shared_table_init(&t, block, sizes[s]);
    assert_int_equal(pz_pool_new(4, &pool, NULL), PZ_OK);
    pz_pool_for(pool, 4, use_table, &t);
    for (uint64_t i = 0; i < KEYS; i++) n += finds(&t, i);
    assert_true(s ? n > 10 && n < KEYS : n > KEYS * 9 / 10);
    pz_pool_free(pool);
    free(block);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_what_was_put),
      cmocka_unit_test(full_tables_keep_what_they_have),
      cmocka_unit_test(few_slots),
      cmocka_unit_test(works_without_memory),
      cmocka_unit_test(turns),
      cmocka_unit_test(keys_of_all_lengths),
      cmocka_unit_test(threads_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
