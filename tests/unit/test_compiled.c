/* Runs of programs that XLA compiled, mostly on TPUs: what is computed again, and published runs. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "step/recompute.h"
#include "step/run_table.h"
#include "step_borders.h"
#include "workload/op.h"

static void policies_name_what_is_saved(void **state) {
  (void)state;
  const int all = PZ_SAVED_QKV | PZ_SAVED_OUT | PZ_SAVED_MLP_IN | PZ_SAVED_MLP_OUT;
  static const char *const bad[] = {"", "maximal", "custom: q, k kept", "custom:x", "minimal "};
  const struct {
    const char *policy;
    int saved;
  } want[] = {{"minimal", all},
              {"minimal_with_context", all | PZ_SAVED_CONTEXT},
              {"custom", PZ_SAVED_QKV | PZ_SAVED_HOST},
              {"custom: layer input kept  rest recomputed", 0},
              {"custom: out_proj  mlpwo kept", PZ_SAVED_OUT | PZ_SAVED_MLP_OUT},
              {"custom: layer input  context  q k v  mlpwo kept",
               PZ_SAVED_QKV | PZ_SAVED_CONTEXT | PZ_SAVED_MLP_OUT}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    int saved = 77;
    assert_true(pz_saved_parse(want[i].policy, &saved));
    assert_int_equal(saved, want[i].saved);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int saved = 77;
    assert_false(pz_saved_parse(bad[i], &saved));
    assert_int_equal(saved, 77);
  }
}

/* FLOP of matrix products that a block of a model computes again. */
static double again_flop(const struct pz_layer *l, int saved) {
  bool again[64] = {false};
  double flop = 0;
  assert_true(l->ops[PZ_FORWARD].n <= 64);
  assert_int_equal(try_recompute_ops(l, saved, again, NULL), PZ_OK);
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++)
    if (again[i]) flop += (double)l->ops[PZ_FORWARD].op[i].matmul_flop;
  return flop;
}

/* A Llama block, h = 4096, f = 11008, s = 4096 tokens: nobody reads the last product's result again,
 * each that is saved is spared, and saving more never computes more. */
static void only_what_backward_reads_is_computed_again(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.attention = PZ_ATTENTION_FLASH;
  assert_int_equal(pz_workload_load("llama2-7b", &o, &w, NULL), PZ_OK);
  const struct pz_layer *l = &w->layers[1];
  double s = 4096, h = 4096, f = 11008, core = 0;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++)
    if (l->ops[PZ_FORWARD].op[i].kind == PZ_OP_ATTENTION)
      core = (double)l->ops[PZ_FORWARD].op[i].matmul_flop;
  assert_true(core > 0);
  double full = 2 * s * h * (4 * h + 2 * f) + core; /* q k v out, up, gate */
  assert_true(fabs(again_flop(l, 0) / full - 1) < 1e-9);
  assert_true(fabs(again_flop(l, PZ_SAVED_QKV) / (full - 2 * s * h * 3 * h) - 1) < 1e-9);
  assert_true(fabs(again_flop(l, PZ_SAVED_MLP_OUT) / full - 1) < 1e-9);
  int products = PZ_SAVED_QKV | PZ_SAVED_OUT | PZ_SAVED_MLP_IN;
  assert_true(fabs(again_flop(l, products) / core - 1) < 1e-9);
  assert_true(again_flop(l, products | PZ_SAVED_CONTEXT) == 0);
  for (int saved = 0; saved < 32; saved++)
    for (int more = 1; more < 32; more <<= 1) {
      assert_true(again_flop(l, saved | more) <= again_flop(l, saved));
      assert_true(pz_saved_bytes(l, saved | more) >= pz_saved_bytes(l, saved));
    }
  assert_true(pz_saved_bytes(l, 0) == (double)l->output_bytes);
  pz_workload_free(w);
}

/* Mean error of the counted rows of compiled programs in a table, and how many there are. */
static double mean_error(const char *path, uint32_t *n) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_run_table t;
  struct pz_error err = {0};
  double sum = 0;
  *n = 0;
  if (pz_file_read(path, 1 << 24, &text, &bytes, &err) != PZ_OK) return 0;
  pz_arena_init(&arena);
  if (try_read_runs(path, text, bytes, 2, &arena, &t, &err) != PZ_OK) fail_msg("%s", err.message);
  uint32_t framework = pz_csv_column(&t.csv, "framework");
  for (uint32_t i = 0; i < t.n_rows; i++) {
    int f = pz_framework_find(pz_csv_cell(&t.csv, i, framework));
    if (!t.rows[i].predicted || strcmp(t.rows[i].quality, "ok") != 0) continue;
    if (f < 0 || !pz_framework_compiles(pz_framework_at(f))) continue;
    sum += fabs(t.rows[i].p.step_s / t.rows[i].measured_s - 1);
    ++*n;
  }
  pz_arena_release(&arena);
  pz_free(text);
  return sum / *n;
}

static void published_runs(void **state) {
  (void)state;
  static const char *const paths[] = {PHAZE_TEST_DATA "/runs_compiled.csv",
                                      PZ_TEST_SHARED "published/runs.csv"};
  for (size_t i = 0; i < 2; i++) {
    uint32_t n;
    if (i && !pz_test_has(paths[i])) skip();
    double error = mean_error(paths[i], &n);
    print_message("  %u runs, mean error %.1f%%\n", n, 100 * error);
    assert_true(n >= (i ? 31 : 10) && error < 0.15);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(policies_name_what_is_saved),
                                     cmocka_unit_test(only_what_backward_reads_is_computed_again),
                                     cmocka_unit_test(published_runs)};
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
