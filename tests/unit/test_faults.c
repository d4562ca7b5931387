/* Every allocation in turn fails, of jansson too: the answer is PZ_NO_MEMORY with a message, and
 * all memory comes back.  tests/faults does it to whole commands. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include "core/alloc.h"
#include "core/json.h"
#include "workload/workload.h"

static struct counter {
  long calls, fail_at; /* fail_at < 0: never */
  long live;
} counter;

static void *take(void *ctx, size_t bytes) {
  struct counter *c = ctx;
  if (c->calls++ == c->fail_at) return NULL;
  c->live++;
  return malloc(bytes);
}

static void *resize(void *ctx, void *block, size_t bytes) {
  struct counter *c = ctx;
  if (c->calls++ == c->fail_at) return NULL;
  c->live += !block;
  return realloc(block, bytes);
}

static void give(void *ctx, void *block) {
  struct counter *c = ctx;
  c->live--;
  free(block);
}

static const char config[] =
    "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_"
    "heads\":4,"
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":101,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2}";

static enum pz_status build(long fail_at, struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.kernels = PZ_KERNELS_EAGER;
  o.tp = 2;
  o.recompute = PZ_RECOMPUTE_FULL;
  counter = (struct counter){.fail_at = fail_at};
  enum pz_status status = pz_workload_parse("mine", config, strlen(config), &o, &w, err);
  pz_workload_free(w);
  return status;
}

static void every_failure_is_reported_and_clean(void **state) {
  (void)state;
  assert_int_equal(build(-1, NULL), PZ_OK);
  assert_int_equal(counter.live, 0);
  long calls = counter.calls;
  assert_true(calls > 3);
  for (long i = 0; i < calls; i++) {
    struct pz_error err = {0};
    assert_int_equal(build(i, &err), PZ_NO_MEMORY);
    assert_non_null(strstr(err.message, "out of memory"));
    assert_int_equal(counter.live, 0);
  }
}

static enum pz_status read_text(const char *text, long fail_at, struct pz_error *err) {
  json_t *value = NULL;
  counter = (struct counter){.fail_at = fail_at};
  enum pz_status status = pz_json_parse("text", text, strlen(text), &value, err);
  json_decref(value);
  return status;
}

/* Strings and numbers of any length: jansson's buffer of a token has to grow at each of its bytes once, at the
 * closing quote and behind the last digit too. */
static void tokens_that_find_no_memory_are_refused(void **state) {
  static const char *const around[][2] = {
      {"{\"a\":\"", "\"}"}, {"{\"a\":\"\\\"", "\"}"}, {"{\"a\":0.", "}"}};
  char digits[131], text[200];
  (void)state;
  memset(digits, '7', sizeof digits);
  for (int length = 1; length < 131; length++)
    for (size_t f = 0; f < sizeof around / sizeof *around; f++) {
      snprintf(text, sizeof text, "%s%.*s%s", around[f][0], length, digits, around[f][1]);
      assert_int_equal(read_text(text, -1, NULL), PZ_OK);
      for (long i = 0, calls = counter.calls; i < calls; i++) {
        struct pz_error err = {0};
        assert_int_equal(read_text(text, i, &err), PZ_NO_MEMORY);
        assert_int_equal(counter.live, 0);
      }
    }
}

/* jansson leaves out what it has no memory for; the text of it is refused, once. */
static void a_document_that_lacks_something_is_refused(void **state) {
  (void)state;
  long calls = 0;
  for (long i = -1; i < calls; i++) {
    struct pz_error err = {0};
    char *text = NULL;
    counter = (struct counter){.fail_at = i};
    json_t *o = json_pack("{s:[i,i]}", "list", 1, 2);
    json_object_set_new(o, "name", json_string("a"));
    enum pz_status status = pz_json_text(o, &text, &err);
    json_decref(o);
    if (i < 0) calls = counter.calls;
    assert_int_equal(status, i < 0 ? PZ_OK : PZ_NO_MEMORY);
    if (status == PZ_OK)
      assert_string_equal(text, "{\n \"list\": [\n  1,\n  2\n ],\n \"name\": \"a\"\n}\n");
    pz_free(text);
    assert_int_equal(counter.live, 0);
  }
  assert_true(calls > 3);
}

/* A count that overflows is no memory, and never asked for. */
static void sizes_that_overflow_are_refused(void **state) {
  (void)state;
  counter = (struct counter){.fail_at = -1};
  assert_null(pz_calloc(SIZE_MAX / 2, 3));
  assert_int_equal(counter.calls, 0);
  pz_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failure_is_reported_and_clean),
      cmocka_unit_test(tokens_that_find_no_memory_are_refused),
      cmocka_unit_test(a_document_that_lacks_something_is_refused),
      cmocka_unit_test(sizes_that_overflow_are_refused),
  };
  static const struct pz_allocator allocator = {take, resize, give, &counter};
  if (pz_alloc_use(&allocator, NULL) != PZ_OK) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
