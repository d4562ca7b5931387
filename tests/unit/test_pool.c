/* The thread pool: every item once, any number of threads the same result. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include "core/pool.h"

enum { ITEMS = 10000 };

static void square(void *ctx, size_t i, unsigned worker) {
  uint64_t *out = ctx;
  (void)worker;
  out[i] += i * i;
}

static void every_item_once(void **state) {
  (void)state;
  for (unsigned threads = 0; threads <= 8; threads++) {
    struct pz_pool *pool = NULL;
    uint64_t *out = calloc(ITEMS, sizeof *out);
    assert_non_null(out);
    assert_int_equal(pz_pool_new(threads, &pool, NULL), PZ_OK);
    assert_true(pz_pool_threads(pool) >= 1);
    for (int round = 0; round < 20; round++) pz_pool_for(pool, ITEMS, square, out);
    pz_pool_for(pool, 0, square, out);
    for (uint64_t i = 0; i < ITEMS; i++) assert_int_equal(out[i], 20 * i * i);
    pz_pool_free(pool);
    free(out);
  }
}

static void too_many_threads_are_refused(void **state) {
  (void)state;
  struct pz_pool *pool = NULL;
  struct pz_error err = {0};
  assert_int_equal(pz_pool_new(5000, &pool, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "accepted: 1 to 1024"));
  assert_null(pool);
  pz_pool_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_item_once),
      cmocka_unit_test(too_many_threads_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
