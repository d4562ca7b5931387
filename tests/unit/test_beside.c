/* Communication beside compute: against kernels measured on an H200, and what must hold for every chip. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "cost/beside.h"
#include "cost/beside_table.h"
#include "cost/constants.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"

static const struct pz_constants *const K = &pz_constants_default;

static struct pz_chip chip_of(const char *name) {
  struct pz_chip c;
  struct pz_error err = {0};
  if (pz_test_chip_read(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

/* ---- measured ------------------------------------------------------------------------------- */

static const char HEAD[] = "compute,m,n,k,beside,sms,compute_alone_us,compute_together_us\n";

struct table {
  struct pz_arena arena;
  struct pz_csv csv;
  const struct pz_beside_row *rows;
};

static enum pz_status read_table(const char *text, const char *chip, struct table *t,
                                 struct pz_error *err) {
  struct pz_chip c = chip_of(chip);
  struct pz_cost cost;
  *err = (struct pz_error){0};
  pz_arena_init(&t->arena);
  pz_cost_init(&cost, &c, NULL);
  enum pz_status status = pz_csv_parse("t", text, strlen(text), &t->arena, &t->csv, err);
  if (status == PZ_OK) status = pz_beside_predict(&cost, "t", &t->csv, &t->arena, &t->rows, err);
  pz_cost_release(&cost);
  return status;
}

/* Mean error of rows beside a kernel on so many cores, or beside the host's transfers (sms 0). */
static double mean_error(const struct table *t, int64_t sms, int *n) {
  double sum = 0;
  *n = 0;
  for (uint32_t i = 0; i < t->csv.rows; i++) {
    const struct pz_beside_row *r = &t->rows[i];
    if (r->sms != sms || r->beside == PZ_BESIDE_ENGINE) continue;
    sum += fabs(r->alone_s * r->slowdown / r->together_s - 1);
    ++*n;
  }
  return sum / *n;
}

/* One H200 with 132 SMs, bf16, PyTorch 2.11: a copy kernel resident on some SMs, and transfers over PCIe, beside
 * GEMMs, causal attention and RMSNorm. */
static const char H200[] = "gemm,8192,8192,8192,resident copy,16,1547.58,2015.08\n"
                           "gemm,8192,8192,8192,resident copy,24,1547.58,2063.83\n"
                           "gemm,8192,8192,8192,from the host,0,1547.58,1464.82\n"
                           "gemm,4096,3584,8192,resident copy,16,371.12,546.60\n"
                           "gemm,4096,3584,8192,resident copy,24,371.12,560.65\n"
                           "gemm,4096,3584,8192,to the host,0,371.12,338.27\n"
                           "attention,8192,8192,128,resident copy,16,1933.22,2248.04\n"
                           "attention,8192,8192,128,resident copy,24,1933.22,2454.45\n"
                           "attention,8192,8192,128,to the host,0,1933.22,1886.24\n"
                           "rmsnorm,16384,8192,0,resident copy,16,200.60,252.40\n"
                           "rmsnorm,16384,8192,0,resident copy,24,200.60,283.45\n"
                           "rmsnorm,16384,8192,0,from the host,0,200.60,200.31\n";

static void kernels_are_slowed_as_measured(void **state) {
  (void)state;
  static const int64_t sms[] = {0, 16, 24};
  char text[2048];
  struct table t;
  struct pz_error err;
  snprintf(text, sizeof text, "%s%s", HEAD, H200);
  if (read_table(text, "h200", &t, &err) != PZ_OK) fail_msg("%s", err.message);
  for (size_t i = 0; i < sizeof sms / sizeof *sms; i++) {
    int n = 0;
    double e = mean_error(&t, sms[i], &n);
    print_message("  %d kernels beside %d cores, mean error %.1f%%\n", n, (int)sms[i], 100 * e);
    assert_int_equal(n, 4);
    assert_true(e < 0.1);
  }
  pz_arena_release(&t.arena);
}

/* The whole table, where it is. */
static void the_whole_table(void **state) {
  (void)state;
  static const char path[] = PZ_TEST_SHARED "h200/overlap.csv";
  static const int64_t sms[] = {0, 4, 16, 24, 48};
  char *text = NULL;
  size_t bytes = 0;
  struct table t;
  struct pz_error err;
  if (!pz_test_has(path)) skip();
  assert_int_equal(pz_file_read(path, 1 << 20, &text, &bytes, NULL), PZ_OK);
  if (read_table(text, "h200", &t, &err) != PZ_OK) fail_msg("%s", err.message);
  for (size_t i = 0; i < sizeof sms / sizeof *sms; i++) {
    int n = 0;
    double e = mean_error(&t, sms[i], &n);
    print_message("  %d kernels beside %d cores, mean error %.1f%%\n", n, (int)sms[i], 100 * e);
    assert_true(n >= 3);
    assert_true(e < 0.1);
  }
  pz_arena_release(&t.arena);
  pz_free(text);
}

/* ---- what must hold ------------------------------------------------------------------------- */

static const struct pz_dims shapes[] = {{1, 1, 1, 1},          {1, 128, 256, 64},
                                        {1, 4096, 3584, 8192}, {1, 8192, 8192, 8192},
                                        {64, 4096, 4096, 128}, {1, INT64_C(1) << 40, 1 << 12, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Attention, element-wise, then GEMMs of all shapes. */
static double slowdown(const struct pz_chip *c, int kernel, double part) {
  return kernel == 0   ? pz_beside_attention(K, part)
         : kernel == 1 ? pz_beside_elementwise(K, part)
                       : pz_beside_gemm(K, c, &shapes[kernel - 2], part);
}

static void more_cores_slow_more(void **state) {
  (void)state;
  struct pz_chip c = chip_of("h200");
  for (int kernel = 0; kernel < SHAPES + 2; kernel++) {
    double last = slowdown(&c, kernel, 0);
    assert_true(last == 1);
    for (int sms = 1; sms < 132; sms++) {
      double now = slowdown(&c, kernel, sms / 132.0);
      assert_true(isfinite(now));
      assert_true(now > last);
      assert_true(now * (1 - sms / 132.0) >= 1); /* the cores that are left do all the work */
      last = now;
    }
  }
}

static void collectives_hold_cores_only_of_streams(void **state) {
  (void)state;
  const char *name;
  int streams = 0, others = 0;
  for (size_t i = 0; (name = pz_chip_preset_name(i)); i++) {
    struct pz_chip c = chip_of(name);
    double part = pz_beside_cores(K, &c);
    assert_true(part >= 0 && part <= 0.5);
    if (c.execution == PZ_CHIP_STREAM) {
      assert_true(part > 0);
      streams++;
      continue;
    }
    others++;
    for (int kernel = 0; kernel < SHAPES + 2; kernel++)
      assert_true(slowdown(&c, kernel, part) == 1);
  }
  assert_true(streams > 0 && others > 0);
}

/* From 0 to 1. */
static double random_part(uint64_t *state) { return pz_random_lcg(state) / 0x1p31; }

static void together_is_as_long_as_each(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 10000; i++) {
    double side = random_part(&seed), compute = random_part(&seed);
    double slow = 1 + 3 * random_part(&seed), both = pz_beside_together_s(side, compute, slow);
    assert_true(both >= pz_fmax(side, compute));
    assert_true(both <= side + compute);
    assert_true(pz_beside_exposed_s(side, compute, slow) >= 0);
    assert_true(pz_beside_together_s(side, compute, 1) == pz_fmax(side, compute));
  }
}

/* ---- tables --------------------------------------------------------------------------------- */

static void tables_say_what_is_wrong(void **state) {
  (void)state;
  static const struct {
    const char *text, *wanted; /* text behind HEAD, or a table where it begins with a head */
  } cases[] = {
      {"compute,m,n,k,beside,sms,compute_alone_us\n", "t:1: no column 'compute_together_us'"},
      {"compute,m,n,k,beside,sms,compute_alone_us,compute_together_us,watts\n",
       "t:1: unknown column 'watts'; accepted: compute, beside"},
      {"gem,1,1,1,to the host,0,1,1\n",
       "t:2: column 'compute' is 'gem'; accepted: gemm, attention"},
      {"flash_fwd,1,1,1,to the host,0,1,1\n", "t:2: column 'compute' is 'flash_fwd'"},
      {"gemm,1,1,1,disk,0,1,1\n", "'disk'; accepted: resident copy, copy engine device to device"},
      {"gemm,1,1,0,to the host,0,1,1\n", "column 'k' is '0'; accepted: an integer from 1"},
      {"gemm,1.5,1,1,to the host,0,1,1\n", "column 'm' is '1.5'"},
      {"gemm,1,1e13,1,to the host,0,1,1\n", "column 'n' is '1e13'"},
      {"add,1e12,1e12,0,to the host,0,1,1\n", "m x n is more than 2^53"},
      {"gemm,1,1,1,to the host,4,1,1\n", "sms is 4 beside 'to the host'"},
      {"gemm,1,1,1,resident copy,0,1,1\n", "sms is 0; accepted: fewer than the 132 cores"},
      {"gemm,1,1,1,resident copy,132,1,1\n", "sms is 132; accepted"},
      {"gemm,1,1,1,to the host,0,,1\n", "column 'compute_alone_us' is ''"},
      {"gemm,1,1,1,to the host,0,1,0\n", "column 'compute_together_us' is '0'"},
      {"gemm,1,1,1,to the host,0,nan,1\n", "column 'compute_alone_us' is 'nan'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    struct table t;
    struct pz_error err;
    bool whole = strncmp(cases[i].text, "compute", 7) == 0;
    snprintf(text, sizeof text, "%s%s", whole ? "" : HEAD, cases[i].text);
    assert_int_equal(read_table(text, "h200", &t, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, cases[i].wanted))
      fail_msg("'%s', not '%s'", err.message, cases[i].wanted);
    pz_arena_release(&t.arena);
  }
}

static void what_is_not_covered_has_a_reason(void **state) {
  (void)state;
  static const char rows[] = "gemm,8192,8192,8192,copy engine device to device,0,1547.58,1672.79\n"
                             "add,8192,8192,0,resident copy,1,100,100\n"
                             "add,8192,8192,0,to the host,0,100,100\n";
  char text[512];
  struct table t;
  struct pz_error err;
  snprintf(text, sizeof text, "%s%s", HEAD, rows);
  for (int tpu = 0; tpu < 2; tpu++) {
    assert_int_equal(read_table(text, tpu ? "tpuv4" : "h200", &t, &err), PZ_OK);
    assert_true(t.rows[0].slowdown == 0 && t.rows[0].reason[0]);
    assert_true(tpu ? t.rows[1].slowdown == 0 : t.rows[1].slowdown > 1);
    assert_int_equal(t.rows[1].reason[0] != '\0', tpu);
    assert_true(t.rows[2].slowdown == 1 && !t.rows[2].reason[0]);
    for (int i = 0; i < 3; i++) assert_true(t.rows[i].own_alone_s > 0);
    pz_arena_release(&t.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_are_slowed_as_measured),
      cmocka_unit_test(the_whole_table),
      cmocka_unit_test(more_cores_slow_more),
      cmocka_unit_test(collectives_hold_cores_only_of_streams),
      cmocka_unit_test(together_is_as_long_as_each),
      cmocka_unit_test(tables_say_what_is_wrong),
      cmocka_unit_test(what_is_not_covered_has_a_reason),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
