/* The search with several threads and with interruptions: the same answer, chip by chip.  Also run
 * under the thread sanitizer. */
#include "unit/testing.h"

#include "unit/studying.h"

static uint64_t seed = 3;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

static void same_objective_run(const struct pz_study *a, const struct pz_study *b, uint32_t c) {
  const struct pz_objective_run *x = &a->objective_run[c], *y = &b->objective_run[c];
  assert_int_equal(x->best, y->best);
  assert_true(x->value == y->value && x->bound == y->bound && x->hbm_gib == y->hbm_gib);
  assert_int_equal(x->n_evaluated, y->n_evaluated);
  assert_int_equal(x->n_open, y->n_open);
  for (uint32_t p = 0; p < a->n_points; p++) {
    assert_int_equal(x->chip_status[p].kind, y->chip_status[p].kind);
    assert_true(x->chip_status[p].value == y->chip_status[p].value);
    assert_true(x->chip_status[p].bound == y->chip_status[p].bound);
  }
}

static void threads_change_nothing(void **state) {
  (void)state;
  struct pz_study a, b;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size); /* nor does whoever looks on */
  struct pz_progress progress;
  struct pz_search_options watched = {.progress = &progress};
  pz_progress_start(&progress, out, PZ_PROGRESS_BAR, "models", "models", 1);
  assert_int_equal(run_study(&a, &o, 1, NULL, &err), PZ_OK);
  for (unsigned threads = 2; threads <= 4; threads += 2) {
    assert_int_equal(run_study(&b, &o, threads, &watched, &err), PZ_OK);
    for (uint32_t c = 0; c < a.n_runs; c++) same_objective_run(&a, &b, c);
    pz_study_release(&b);
  }
  print_message("  %u chips, %u evaluated for the common one\n", a.n_points,
                a.objective_run[2].n_evaluated);
  pz_study_release(&a);
  fclose(out);
  assert_true(size > 0);
  free(text);
}

/* A journal in memory that stops the search after so many entries. */
struct memory_journal {
  struct pz_entry entries[4096];
  uint16_t layers[4096][64];
  uint32_t n, stop_at;
  atomic_bool stop;
};

static enum pz_status recall(void *ctx, enum pz_status (*take)(void *, const struct pz_entry *),
                             void *into, struct pz_error *err) {
  struct memory_journal *j = ctx;
  (void)err;
  for (uint32_t i = 0; i < j->n; i++) assert_int_equal(take(into, &j->entries[i]), PZ_OK);
  return PZ_OK;
}

static enum pz_status remember(void *ctx, const struct pz_entry *entry, struct pz_error *err) {
  struct memory_journal *j = ctx;
  (void)err;
  assert_true(j->n < 4096 && entry->e.plan.n_stages <= 64);
  struct pz_entry *mine = &j->entries[j->n];
  *mine = *entry;
  if (entry->e.plan.n_stages)
    memcpy(j->layers[j->n], entry->e.plan.layers, entry->e.plan.n_stages * sizeof(uint16_t));
  mine->e.plan.layers = j->layers[j->n];
  if (++j->n == j->stop_at) atomic_store(&j->stop, true);
  return PZ_OK;
}

static enum pz_status commit(void *ctx, struct pz_error *err) {
  (void)ctx;
  (void)err;
  return PZ_OK;
}

static void interruptions_change_nothing(void **state) {
  (void)state;
  static struct memory_journal memory;
  struct pz_study a, b;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  assert_int_equal(run_study(&a, &o, 2, NULL, &err), PZ_OK);
  struct pz_journal journal = {&memory, recall, remember, commit};
  struct pz_search_options how = {.journal = &journal, .stop = &memory.stop};
  enum pz_status status = PZ_STOPPED;
  int stops = 0;
  for (memory.stop_at = 1; status == PZ_STOPPED; memory.stop_at = memory.n + 1 + draw(20)) {
    struct pz_error why = {0};
    atomic_store(&memory.stop, false);
    status = run_study(&b, &o, 2, &how, &why);
    stops += status == PZ_STOPPED;
    assert_true(stops < 200);
  }
  assert_int_equal(status, PZ_OK);
  for (uint32_t c = 0; c < a.n_runs; c++) same_objective_run(&a, &b, c);
  print_message("  stopped %d times, %u evaluations kept\n", stops, memory.n);
  assert_true(stops > 3);
  pz_study_release(&a);
  pz_study_release(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_change_nothing),
      cmocka_unit_test(interruptions_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
