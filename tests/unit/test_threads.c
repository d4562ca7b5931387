/* The search with several threads and with interruptions: the same answer, box by box, by either evaluator.  Also run
 * under the thread sanitizer. */
#include "unit/testing.h"

#include "study/result_json.h"
#include "study/result_make.h"
#include "unit/studying.h"

static uint64_t seed = 3;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* Sanitizers are slow: fewer searches of the same kinds. */
static bool all_cases(void) { return pz_test_part(5) > 0; }

static struct pz_study_options study(int i) { return i ? training_study() : paper_study(); }

static void same_runs(const struct pz_study *a, const struct pz_study *b) {
  assert_int_equal(a->n_runs, b->n_runs);
  for (uint32_t c = 0; c < a->n_runs; c++)
    same_objective_run(&a->objective_run[c], &b->objective_run[c]);
}

static void threads_change_nothing(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size); /* nor does whoever looks on */
  struct pz_progress progress;
  struct pz_study_watch watched = {.watch = {.progress = &progress}};
  pz_progress_start(&progress, out, PZ_PROGRESS_BAR, "models", "models", 1);
  for (int i = 0; i < 2; i++) {
    struct pz_study a, b;
    struct pz_error err = {0};
    struct pz_study_options o = study(i);
    assert_int_equal(run_study(&a, &o, 1, NULL, &err), PZ_OK);
    for (unsigned threads = all_cases() ? 2 : 4; threads <= 4; threads += 2) {
      assert_int_equal(run_study(&b, &o, threads, &watched, &err), PZ_OK);
      same_runs(&a, &b);
      pz_study_release(&b);
    }
    const struct pz_objective_run *last = &a.objective_run[a.n_runs - 1];
    print_message("  %lld chips, %u evaluated in %u boxes for the last\n", (long long)last->chips,
                  last->n_evaluated, last->n_boxes);
    pz_study_release(&a);
  }
  fclose(out);
  assert_true(size > 0);
  free(text);
}

/* Stopped again and again after some new rounds, the search ends with the same boxes. */
static void interruptions_change_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    static struct kept_rounds memory;
    struct pz_study a, b;
    struct pz_error err = {0};
    struct pz_study_options o = study(i);
    struct pz_round_store store = kept_rounds_store(&memory);
    struct pz_study_watch watch = {{.stop = &memory.stop}, &store};
    enum pz_status status = PZ_STOPPED;
    int stops = 0;
    assert_int_equal(run_study(&a, &o, 2, NULL, &err), PZ_OK);
    memory = (struct kept_rounds){.stop_after = 1};
    for (; status == PZ_STOPPED; memory.stop_after = (all_cases() ? 1 : 5) + draw(3)) {
      struct pz_error why = {0};
      memory.n_new = 0;
      atomic_store(&memory.stop, false);
      status = run_study(&b, &o, 2, &watch, &why);
      stops += status == PZ_STOPPED;
      assert_true(stops < 400);
    }
    assert_int_equal(status, PZ_OK);
    same_runs(&a, &b);
    print_message("  stopped %d times, %u rounds kept\n", stops, memory.n);
    assert_true(stops > 3);
    pz_study_release(&a);
    pz_study_release(&b);
    free_kept_rounds(&memory);
  }
}

/* ---- any prefix of the rounds --------------------------------------------------------------- */

/* The whole result as run files keep it. */
static char *result_text(struct pz_study *s) {
  struct pz_watch watch = {NULL, NULL};
  struct pz_result r;
  struct pz_arena arena;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  pz_result_init(&r, &arena);
  if (pz_result_make(&r, s, watch, &err) != PZ_OK) fail_msg("%s", err.message);
  json_t *json = pz_result_json(&r);
  char *text = json_dumps(json, JSON_COMPACT);
  assert_non_null(text);
  json_decref(json);
  pz_arena_release(&arena);
  return text;
}

static void any_prefix_is_gone_on_with(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    static struct kept_rounds all, some;
    struct pz_study a, b;
    struct pz_error err = {0};
    struct pz_study_options o = study(i);
    struct pz_round_store store = kept_rounds_store(&all);
    struct pz_study_watch watch = {.store = &store};
    assert_int_equal(run_study(&a, &o, 2, &watch, &err), PZ_OK);
    char *whole = result_text(&a);
    uint32_t step = 1 + all.n / (uint32_t)(pz_test_part(6) + 1);
    for (uint32_t n = 0; n <= all.n; n += step) {
      copy_kept_rounds(&some, &all, n);
      store = kept_rounds_store(&some);
      assert_int_equal(run_study(&b, &o, 2, &watch, &err), PZ_OK);
      same_runs(&a, &b);
      same_kept_rounds(&all, &some);
      assert_int_equal(some.n_new, all.n - n);
      if (n + step > all.n) { /* what follows a search follows the last */
        char *text = result_text(&b);
        assert_string_equal(text, whole);
        free(text);
      }
      pz_study_release(&b);
      free_kept_rounds(&some);
    }
    print_message("  %u rounds\n", all.n);
    free(whole);
    pz_study_release(&a);
    free_kept_rounds(&all);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_change_nothing),
      cmocka_unit_test(interruptions_change_nothing),
      cmocka_unit_test(any_prefix_is_gone_on_with),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
