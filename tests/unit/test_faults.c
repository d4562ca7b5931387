/* Every allocation in turn fails: the answer is PZ_NO_MEMORY with a message, and all memory comes
 * back. */
#include "unit/testing.h"

#include "core/arena.h"
#include "workload/workload.h"

struct counter {
  long calls, fail_at; /* fail_at < 0: never */
  size_t live;
};

static void *take(void *ctx, size_t bytes) {
  struct counter *c = ctx;
  if (c->calls++ == c->fail_at) return NULL;
  c->live += bytes;
  return malloc(bytes);
}

static void give(void *ctx, void *block, size_t bytes) {
  struct counter *c = ctx;
  c->live -= bytes;
  free(block);
}

static const char config[] =
    "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_"
    "heads\":4,"
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":101,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2}";

static enum pz_status build(struct counter *c, struct pz_error *err) {
  struct pz_mem mem = {take, give, c};
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.kernels = PZ_KERNELS_EAGER;
  o.tp = 2;
  o.recompute = PZ_RECOMPUTE_FULL;
  enum pz_status status = pz_workload_build("mine", config, strlen(config), &o, &mem, &w, err);
  pz_workload_free(w);
  return status;
}

static void every_failure_is_reported_and_clean(void **state) {
  (void)state;
  struct counter c = {.fail_at = -1};
  assert_int_equal(build(&c, NULL), PZ_OK);
  assert_int_equal(c.live, 0);
  long calls = c.calls;
  assert_true(calls > 3);
  for (long i = 0; i < calls; i++) {
    struct pz_error err = {0};
    c = (struct counter){.fail_at = i};
    assert_int_equal(build(&c, &err), PZ_NO_MEMORY);
    assert_non_null(strstr(err.message, "out of memory"));
    assert_int_equal(c.live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_is_reported_and_clean)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
