/* Constants fitted to measured operators. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "testing.h"
#include "unit/core_borders.h"

#include "chip/chip.h"
#include "core/file.h"
#include "cost/calibrate.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"

static struct pz_chip load(const char *name) {
  struct pz_chip c;
  struct pz_error err = {0};
  if (pz_test_chip_read(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

/* The data sheet alone. */
static struct pz_chip uncalibrated(const char *name) {
  struct pz_chip c = load(name);
  struct pz_error err = {0};
  json_t *o = pz_chip_json(&c);
  json_object_set_new(o, "calibration", json_object()); /* absent: that of its class */
  char *text = json_dumps(o, 0);
  if (pz_test_chip_parse(name, text, strlen(text), &c, &err) != PZ_OK) fail_msg("%s", err.message);
  free(text);
  json_decref(o);
  return c;
}

static enum pz_status read_text(const char *text, struct pz_arena *arena, struct pz_measured *m,
                                struct pz_error *err) {
  struct pz_csv csv;
  enum pz_status status = pz_csv_parse("t.csv", text, strlen(text), arena, &csv, err);
  return status == PZ_OK ? pz_measured_read("t.csv", &csv, arena, m, err) : status;
}

static void read_file(const char *path, struct pz_arena *arena, struct pz_measured *m) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_error err = {0};
  assert_int_equal(pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err), PZ_OK);
  if (read_text(text, arena, m, &err) != PZ_OK) fail_msg("%s", err.message);
  free(text);
}

/* Operators of training steps, but most of the products, whose mappings take long. */
static void read_training(struct pz_arena *arena, struct pz_measured *m) {
  enum { SKIPPED = 46 };
  read_file(PHAZE_TEST_DATA "/h200_ops2.csv", arena, m);
  m->rows += SKIPPED;
  m->n -= SKIPPED;
}

/* A table that a chip makes itself is predicted by what is fitted to it, from a chip whose
 * constants are 30% off. */
static void constants_are_found_again(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_measured m;
  struct pz_chip truth = load("h200"), chip = truth;
  struct pz_cost cost;
  static double errors[1024];
  pz_arena_init(&arena);
  read_training(&arena, &m);
  struct pz_ops_row *rows = pz_arena_alloc(&arena, m.n, sizeof *rows);
  pz_cost_init(&cost, &truth, NULL);
  for (uint32_t i = 0; i < m.n; i++) {
    rows[i] = m.rows[i];
    assert_int_equal(pz_ops_us(&cost, &m.rows[i], &rows[i].us, NULL), PZ_OK);
  }
  pz_cost_release(&cost);
  m.rows = rows;
  for (int i = 0; i < chip.calibration.n_kernels; i++) {
    struct pz_kernel *k = &chip.calibration.kernels[i];
    k->startup_s *= 1.3;
    k->hbm_efficiency *= 0.7;
    k->efficiency *= 0.7;
    k->cycles *= 1.3;
    k->row_s *= 0.7;
  }
  chip.calibration.tensor_efficiency *= 0.7;
  chip.calibration.fp8_speedup *= 0.7;
  assert_int_equal(pz_calibrate_fit(&chip, &m, NULL, NULL), PZ_OK);
  assert_int_equal(pz_calibrate_errors(&chip, &m, errors, NULL), PZ_OK);
  double sum = 0;
  for (uint32_t i = 0; i < m.n; i++) sum += fabs(errors[i]);
  print_message("  mean error after the fit: %.2f%%\n", 100 * sum / m.n);
  assert_true(sum / m.n < 0.03);
  pz_arena_release(&arena);
}

/* The half that was held back is predicted about as well as the other, and better than before. */
static void held_rows_are_predicted(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_measured m;
  struct pz_calibrated fit;
  struct pz_chip chip = uncalibrated("h200");
  pz_arena_init(&arena);
  read_training(&arena, &m);
  assert_int_equal(pz_calibrate_to(&chip, &m, &arena, &fit, NULL), PZ_OK);
  assert_true(fit.all.rows == m.n && fit.all.held > m.n / 3);
  print_message("  uncalibrated %.1f%%, held half %.1f%%, fitted to all %.1f%%\n",
                100 * fit.all.before, 100 * fit.all.held_half, 100 * fit.all.after);
  assert_true(fit.all.held_half < fit.all.before / 3 && fit.all.held_half < 0.13);
  assert_true(fit.all.after < fit.all.before / 3 && fit.all.after < 0.1);
  /* once more: the same bytes; and the chip can be written and read */
  struct pz_calibrated again;
  assert_int_equal(pz_calibrate_to(&chip, &m, &arena, &again, NULL), PZ_OK);
  assert_memory_equal(&fit.chip->calibration.kernels, &again.chip->calibration.kernels,
                      sizeof chip.calibration.kernels);
  struct pz_chip back;
  struct pz_error err = {0};
  json_t *o = pz_chip_json(fit.chip);
  char *text = json_dumps(o, 0);
  if (pz_test_chip_parse("fit", text, strlen(text), &back, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_true(back.calibration.tensor_efficiency == fit.chip->calibration.tensor_efficiency);
  assert_int_equal(back.calibration.n_kernels, fit.chip->calibration.n_kernels);
  free(text);
  json_decref(o);
  pz_arena_release(&arena);
}

/* Few rows move what they show, and nothing else. */
static void what_no_row_shows_stays(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_measured m;
  struct pz_calibrated fit;
  struct pz_chip chip = load("h100");
  pz_arena_init(&arena);
  assert_int_equal(
      read_text("op,b,m,n,k,extra,kernel_us\ngelu,1,8192,8192,0,,90\n", &arena, &m, NULL), PZ_OK);
  assert_int_equal(pz_calibrate_to(&chip, &m, &arena, &fit, NULL), PZ_OK);
  assert_int_equal(fit.n_residuals, 1);
  assert_true(fit.all.held == 0 && fit.all.after <= fit.all.before);
  for (uint32_t i = 0; i < fit.n_changes; i++)
    assert_int_equal(strncmp(fit.changes[i].name, "gelu.", 5), 0);
  assert_int_equal(fit.n_kept, chip.calibration.n_kernels - 1 + 2);
  assert_string_equal(fit.kept[0], "products");
  assert_true(fit.chip->calibration.tensor_efficiency == chip.calibration.tensor_efficiency);
  pz_arena_release(&arena);
}

/* Rows that the chip predicts as they are, those that are held back at least: its constants stay. */
static void no_fit_makes_it_worse(void **state) {
  (void)state;
  static const char table[] = "op,b,m,n,k,kernel_us\nadd,1,8192,8192,0,1\nsilu,1,4096,4096,0,1\n"
                              "add,1,4096,4096,0,1\nsilu,1,8192,8192,0,1\n";
  struct pz_arena arena;
  struct pz_measured m;
  struct pz_calibrated fit;
  struct pz_chip chip = load("h200");
  struct pz_cost cost;
  pz_arena_init(&arena);
  assert_int_equal(read_text(table, &arena, &m, NULL), PZ_OK);
  struct pz_ops_row rows[4];
  pz_cost_init(&cost, &chip, NULL);
  for (uint32_t i = 0; i < m.n; i++) {
    rows[i] = m.rows[i];
    assert_int_equal(pz_ops_us(&cost, &rows[i], &rows[i].us, NULL), PZ_OK);
  }
  pz_cost_release(&cost);
  rows[0].us *= 1.5; /* used for the fit; the other row of add is held back */
  for (int i = 1; i < 4; i += 2) rows[i].us *= 2;
  m.rows = rows;
  assert_int_equal(pz_calibrate_to(&chip, &m, &arena, &fit, NULL), PZ_OK);
  assert_int_equal(fit.n_rejected, 1);
  assert_string_equal(fit.rejected[0].name, "add");
  assert_true(fit.rejected[0].before < 1e-6 && fit.rejected[0].fitted > 0.01);
  assert_true(fit.n_changes > 0);
  for (uint32_t i = 0; i < fit.n_changes; i++)
    assert_int_equal(strncmp(fit.changes[i].name, "silu.", 5), 0);
  pz_arena_release(&arena);
}

static void nonsense_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"op,b,m,n,k,kernel_us\n", "t.csv: 0 rows; accepted: 1 to 1000000"},
      {"op,b,m,n,k\ngemm,1,64,64,64\n", "t.csv:1: no column 'kernel_us'"},
      {"op,b,m,n,k,kernel_us\ngemm,1,64,64,64,0\n",
       "t.csv:2: column 'kernel_us' is '0'; accepted: 0.01 to 1e9 microseconds"},
      {"op,b,m,n,k,kernel_us\ngemm,1,64,64,64,nan\n", "t.csv:2: column 'kernel_us' is 'nan'"},
      {"op,b,m,n,k,kernel_us\ngemm,1,64,64,64,5us\n", "t.csv:2: column 'kernel_us' is '5us'"},
      {"op,b,m,n,k,kernel_us\nflash_fwd,1,64,64,64,5\n", "t.csv:2: flash_fwd without heads"},
      {"op,b,m,n,k,extra,kernel_us\nflash_fwd,1,64,64,64,heads=4;kw=4,5\n",
       "t.csv:2: column 'extra' has 'kw=4'; accepted: heads=H;kv=H;causal=0 or 1"},
      {"op,b,m,n,k,extra,kernel_us\nflash_fwd,1,64,64,64,heads=4;kv=8,5\n",
       "t.csv:2: kv is 8; accepted: at most heads, 4"},
      {"op,b,m,n,k,extra,kernel_us\ngrouped_gemm,8,64,64,64,odd,5\n",
       "t.csv:2: column 'extra' has 'odd'; accepted: even or skewed;max=TOKENS"},
      {"op,b,m,n,k,extra,kernel_us\ngrouped_gemm,8,4,64,64,even,5\n",
       "t.csv:2: 8 experts, the largest of 0 tokens; accepted: at most m, 4"},
      {"op,b,m,n,k,extra,kernel_us\nflash_fwd,1099511627776,64,64,64,heads=1099511627776,5\n",
       "t.csv:2: batch x m x n is more than 2^53 values"},
      {"op,b,m,n,k,kernel_us\ngemm,1,4096,4096,4096,0.2\n", "t.csv:2: gemm takes 0.2 us"},
  };
  struct pz_chip chip = load("h200");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_arena arena;
    struct pz_measured m;
    struct pz_calibrated fit;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    enum pz_status status = read_text(bad[i].text, &arena, &m, &err);
    if (status == PZ_OK) status = pz_calibrate_to(&chip, &m, &arena, &fit, &err);
    assert_int_equal(status, PZ_BAD_INPUT);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
    pz_arena_release(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_are_found_again), cmocka_unit_test(held_rows_are_predicted),
      cmocka_unit_test(what_no_row_shows_stays),   cmocka_unit_test(no_fit_makes_it_worse),
      cmocka_unit_test(nonsense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
