/* Power of operators that run for seconds: energy, static power, the clock that a limit allows. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "cost/cost.h"
#include "cost/power.h"
#include "unit/chip_borders.h"
#include "workload/op.h"

static struct pz_chip load(const char *name) {
  struct pz_chip c;
  struct pz_error err = {0};
  if (pz_test_chip_read(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

/* A long product: nothing but multiplications at the chip's full rate. */
static struct pz_work product(const struct pz_chip *c, double seconds) {
  double macs = pz_chip_tensor_flop_per_s(c) / 2 * seconds;
  return (struct pz_work){.core_j = macs * pz_tech_at(c->tech)->mac_j, .core_s = seconds};
}

static void run(const struct pz_chip *c, const struct pz_work *w, double interval_s,
                struct pz_power *out) {
  struct pz_power_law law = pz_power_law_of(c);
  pz_power_run(&law, w, interval_s, out);
}

static void a_limit_lowers_the_clock(void **state) {
  (void)state;
  struct pz_chip c = load("h200");
  struct pz_work w = product(&c, 1e-3);
  double before = 0;
  c.watts = 0;
  struct pz_power free, p;
  run(&c, &w, 0, &free);
  assert_true(free.clock_hz == c.clock_hz && free.latency_s == w.core_s);
  for (double limit = 900; limit >= 300; limit -= 50) {
    c.watts = limit;
    run(&c, &w, 0, &p);
    assert_true(p.watts <= limit * (1 + 1e-12) && p.latency_s >= before);
    if (free.watts > limit) {
      assert_true(fabs(p.watts / limit - 1) < 1e-6 && p.clock_hz < c.clock_hz);
      assert_true(p.joules < free.joules); /* a lower voltage */
      assert_true(fabs(p.latency_s * p.clock_hz / (w.core_s * c.clock_hz) - 1) < 1e-9);
    }
    before = p.latency_s;
  }
}

static void memory_does_not_wait_for_the_clock(void **state) {
  (void)state;
  struct pz_chip c = load("h200");
  const struct pz_tech_info *t = pz_tech_at(c.tech);
  struct pz_work w = {.outside_j = pz_chip_hbm_bytes_per_s(&c) * 1e-3 * t->hbm_j,
                      .core_j = 1e9 * t->lane_j,
                      .core_s = 1e-4,
                      .hbm_s = 1e-3};
  struct pz_power p;
  c.watts = 494;
  run(&c, &w, 0, &p);
  assert_true(p.clock_hz < c.clock_hz && p.latency_s == w.hbm_s && p.watts <= c.watts);
  c.watts = 400; /* cores ask for less than HBM has */
  run(&c, &w, 0, &p);
  assert_true(p.latency_s > w.hbm_s && p.watts <= c.watts);
}

/* Half as many calls a second: static power stays, dynamic power halves. */
static void calls_that_wait_take_static_power(void **state) {
  (void)state;
  struct pz_chip c = load("h200");
  struct pz_work w = product(&c, 1e-5);
  struct pz_power one, half;
  c.watts = 0;
  run(&c, &w, 0, &one);
  run(&c, &w, 2e-5, &half);
  assert_true(half.watts < one.watts && half.joules > one.joules);
  assert_true(half.watts > pz_power_idle_watts(&c));
}

static void the_original_library_has_no_static_power(void **state) {
  (void)state;
  struct pz_chip c = load("tpuv4");
  struct pz_work w = product(&c, 1e-3);
  struct pz_power p;
  assert_true(pz_power_static_watts(&c) == 0);
  run(&c, &w, 0, &p);
  assert_true(p.joules == w.core_j && p.clock_hz == c.clock_hz);
}

/* Operators of a graph take static power too. */
static void operators_take_static_power(void **state) {
  (void)state;
  struct pz_chip c = load("h200");
  struct pz_cost cost;
  struct pz_estimate e;
  struct pz_op op = {.name = "add",
                     .kind = PZ_OP_ADD,
                     .op_class = PZ_CLASS_VECTOR,
                     .dims = {1, 4096, 4096, 0},
                     .bytes_read = 1 << 26,
                     .bytes_written = 1 << 25};
  pz_cost_init(&cost, &c, NULL);
  assert_int_equal(pz_cost_op(&cost, &op, &e, NULL), PZ_OK);
  pz_cost_release(&cost);
  double watts = e.energy_j / e.latency_s;
  assert_true(watts > pz_power_static_watts(&c) && watts < 1.1 * c.watts);
}

/* ---- tables --------------------------------------------------------------------------------- */

struct errors {
  uint32_t n;
  double time, watts, called_watts, joules; /* means; time and watts of calls one after the other */
};

/* Rows of the file with caps from 300 W and locked clocks from 600 MHz, or with neither. */
static struct errors errors(const char *path) {
  struct pz_chip c = load("h200");
  struct pz_error err = {0};
  struct pz_power_table *t = NULL;
  struct errors e = {0};
  char *text = NULL;
  size_t bytes = 0;
  int timed = 0;
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err) != PZ_OK)
    fail_msg("%s", err.message);
  if (pz_power_table(&c, path, text, bytes, &t, &err) != PZ_OK) fail_msg("%s", err.message);
  for (uint32_t i = 0; i < t->n_rows; i++) {
    const struct pz_power_row *r = &t->rows[i];
    if ((r->cap_watts > 0 && r->cap_watts < 300) || (r->lock_hz > 0 && r->lock_hz < 600e6))
      continue;
    e.n++;
    e.watts += fabs(r->sustained.watts / r->watts - 1);
    e.called_watts += fabs(r->called.watts / r->watts - 1);
    if (r->joules <= 0) continue;
    timed++;
    e.time += fabs(r->sustained.latency_s / r->call_s - 1);
    e.joules += fabs(r->called.joules / r->joules - 1);
  }
  e.watts /= e.n;
  e.called_watts /= e.n;
  e.time /= timed;
  e.joules /= timed;
  print_message("  %u rows, mean error of time %.1f%%, watts %.1f%%; at the measured rate of calls "
                "watts %.1f%%, "
                "joules %.1f%%\n",
                e.n, 100 * e.time, 100 * e.watts, 100 * e.called_watts, 100 * e.joules);
  pz_free(text);
  pz_power_table_free(t);
  return e;
}

static void measured_operators(void **state) {
  (void)state;
  static const char *const paths[] = {PHAZE_TEST_DATA "/power.csv",
                                      PZ_TEST_SHARED "h200/power.csv"};
  for (size_t i = 0; i < 2; i++) {
    if (i && !pz_test_has(paths[i])) skip();
    struct errors e = errors(paths[i]);
    assert_true(e.n >= (i ? 14 : 5) && e.called_watts < 0.12 && e.joules < 0.20);
  }
}

/* One chip at other clocks and within other watts is a family of chips. */
static void caps_and_locked_clocks(void **state) {
  (void)state;
  static const char *const paths[] = {PHAZE_TEST_DATA "/clocks.csv",
                                      PZ_TEST_SHARED "h200/clocks.csv"};
  for (size_t i = 0; i < 2; i++) {
    if (i && !pz_test_has(paths[i])) skip();
    struct errors e = errors(paths[i]);
    assert_true(e.n >= (i ? 100 : 20) && e.time < 0.08 && e.watts < 0.08 && e.called_watts < 0.08);
  }
}

/* A lower cap, or a lower lock, never makes an operator faster, and a lower lock takes no more watts. */
static void limits_slow_what_they_limit(void **state) {
  (void)state;
  struct pz_chip c = load("h200");
  static const char *const ops[] = {"gemm,1,8192,8192,8192", "copy,1,536870912,1,0",
                                    "softmax,1,16384,8192,0", "blocks4_fwd_bwd,2,2048,4096,14336"};
  for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
    for (int locks = 0; locks < 2; locks++) {
      double before_s = 0, before_watts = HUGE_VAL;
      for (int limit = 1900; limit >= 150; limit -= 50) {
        char text[200];
        struct pz_error err = {0};
        struct pz_power_table *t = NULL;
        int n = snprintf(text, sizeof text, "op,b,m,n,k,cap_w,lock_mhz\n%s,%d,%d\n", ops[o],
                         locks ? 0 : limit, locks ? limit : 0);
        if (pz_power_table(&c, "t", text, (size_t)n, &t, &err) != PZ_OK)
          fail_msg("%s", err.message);
        const struct pz_power *p = &t->rows[0].sustained;
        assert_true(p->latency_s >= before_s * (1 - 1e-9));
        assert_true(p->watts <= (locks ? c.watts : limit) * (1 + 1e-9));
        assert_true(p->watts <= before_watts * (1 + 1e-9));
        before_s = p->latency_s;
        before_watts = p->watts;
        pz_power_table_free(t);
      }
    }
}

static void bad_tables_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } bad[] = {{"op,b,m,n\ngemm,1,2,3\n", "t:1: a column is missing; accepted: op, b, m, n, k"},
             {"op,b,m,n,k\ngem,1,2,3,4\n", "t:2: unknown operator 'gem'; accepted: idle, gemm"},
             {"op,b,m,n,k\ngemm,1,2,3,0\n", "t:2: a size is 0; accepted: integers from 1"},
             {"op,b,m,n,k\ngemm,1,2,3.5,8\n", "t:2: a size is 3.5; accepted: integers"},
             {"op,b,m,n,k,watts\ngemm,1,2,3,8,-4\n", "t:2:"}};
  struct pz_chip c = load("h200");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_error err = {0};
    struct pz_power_table *t = NULL;
    assert_int_equal(pz_power_table(&c, "t", bad[i].text, strlen(bad[i].text), &t, &err),
                     PZ_BAD_INPUT);
    if (strncmp(err.message, bad[i].message, strlen(bad[i].message)) != 0)
      fail_msg("%s", err.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_lowers_the_clock),
      cmocka_unit_test(memory_does_not_wait_for_the_clock),
      cmocka_unit_test(calls_that_wait_take_static_power),
      cmocka_unit_test(the_original_library_has_no_static_power),
      cmocka_unit_test(operators_take_static_power),
      cmocka_unit_test(measured_operators),
      cmocka_unit_test(caps_and_locked_clocks),
      cmocka_unit_test(limits_slow_what_they_limit),
      cmocka_unit_test(bad_tables_say_what_is_accepted),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
