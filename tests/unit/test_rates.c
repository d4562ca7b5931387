/* A chip with a higher rate is never slower at an operator. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "chip/cold.h"
#include "cost/cost.h"
#include "cost/formats.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"
#include "workload/op.h"

/* What a designer would raise.  The silicon that leaks stays that of the chip: more of it takes watts from what runs. */
enum rate { CLOCK, HBM, GLOBAL_BUFFER, LOCAL_BUFFERS, WATTS, EFFICIENCY, ARRAY, CORES, RATES };
static const char *const rate_names[] = {"clock", "HBM",      "global buffer", "local buffers",
                                         "watts", "products", "array",         "cores"};

static struct pz_chip load(const char *name, bool cold) {
  struct pz_chip c;
  struct pz_error err = {0};
  if (pz_test_chip_read(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  c.cold = cold;
  return c;
}

static int64_t times(int64_t n, double factor) { return (int64_t)ceil((double)n * factor); }

static struct pz_chip with_rate(const struct pz_chip *chip, enum rate rate, double factor) {
  struct pz_chip c = *chip;
  c.checked = 0;
  c.static_mm2 = pz_chip_bill(chip, PZ_BILL_LIKELY).area_mm2;
  switch (rate) {
  case CLOCK: c.clock_hz *= factor; break;
  case HBM:
    c.hbm.bytes_per_s_per_stack *= factor;
    c.hbm.core_bytes_per_s *= factor;
    break;
  case GLOBAL_BUFFER:
    c.glb_bytes_per_s *= factor;
    c.glb_core_bytes_per_s *= factor;
    break;
  case LOCAL_BUFFERS:
    c.tensor.local_bytes_per_s *= factor;
    c.tensor.local_total_bytes_per_s *= factor;
    break;
  case WATTS: c.watts *= factor; break;
  case EFFICIENCY: break;
  case ARRAY: c.tensor.cols = times(c.tensor.cols, factor); break;
  default:
    c.tensor.cores = times(c.tensor.cores, factor);
    c.vector.cores = times(c.vector.cores, factor);
  }
  struct pz_error err = {0};
  if (c.cold && pz_test_chip_make_cold(&c, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
  if (rate == EFFICIENCY) c.calibration.tensor_efficiency *= factor;
  return c;
}

/* ---- operators ------------------------------------------------------------------------------ */

enum { MOST_TIMES = 400 };
struct times {
  int n;
  double s[MOST_TIMES];
  char name[MOST_TIMES][64];
};

static void add_time(struct times *t, const char *where, const char *name, double s) {
  assert_true(t->n < MOST_TIMES);
  snprintf(t->name[t->n], sizeof t->name[0], "%.20s: %.40s", where, name);
  t->s[t->n++] = s;
}

/* A row of a table for each operator that benchmarks time. */
static void time_table(struct pz_cost *cost, struct times *t) {
  static const char table[] = "op,batch,m,n,k,extra\n"
                              "gemm,1,8192,8192,8192,\ngemm,1,4096,4096,1024,\n"
                              "gemm,1,2048,16384,512,\ngemm,1,128,4096,4096,\n"
                              "gemm,1,1000,3000,500,\nbmm,64,1024,1024,128,\n"
                              "grouped_gemm,8,8192,4096,2048,even\nflash_causal,64,4096,4096,128,\n"
                              "softmax,1,16384,2048,0,\nlayernorm,1,16384,8192,0,\n"
                              "rmsnorm,1,16384,4096,0,\ngelu,1,8192,16384,0,\nadd,1,8192,4096,0,\n"
                              "dropout,1,8192,4096,0,\ntranspose_copy,1,4096,4096,0,\n";
  struct pz_error err = {0};
  struct pz_op_times *o = NULL;
  if (pz_cost_table(cost, "t", table, strlen(table), &o, &err) != PZ_OK)
    fail_msg("%s", err.message);
  for (uint32_t i = 0; i < o->n_rows; i++) add_time(t, "table", o->rows[i].op, o->rows[i].us);
  pz_op_times_free(o);
}

static void time_model(struct pz_cost *cost, const struct pz_workload *w, struct times *t) {
  for (uint32_t l = 0; l < w->n_layers; l++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      for (uint32_t i = 0; i < w->layers[l].ops[d].n; i++) {
        const struct pz_op *op = &w->layers[l].ops[d].op[i];
        struct pz_estimate e;
        struct pz_error err = {0};
        if (op->op_class == PZ_CLASS_NONE || op->op_class == PZ_CLASS_COLLECTIVE) continue;
        if (pz_cost_op(cost, op, &e, &err) != PZ_OK) fail_msg("%s", err.message);
        add_time(t, w->layers[l].name, op->name, e.latency_s);
      }
}

static void time_formats(struct pz_cost *cost, struct times *t) {
  static const struct pz_product p[] = {{1, 8192, 8192, 8192, false}, {1, 2048, 4096, 1024, false}};
  static const enum pz_format formats[] = {PZ_FORMAT_MXFP8, PZ_FORMAT_NVFP4};
  for (int f = 0; f < 2; f++)
    for (int i = 0; i < 2; i++) {
      struct pz_mapping o;
      struct pz_error err = {0};
      if (f ? cost->chip.calibration.nvfp4_speedup <= 0 : cost->chip.calibration.fp8_speedup <= 1)
        continue;
      if (pz_cost_format_product(cost, formats[f], &p[i], &o, &err) != PZ_OK)
        fail_msg("%s", err.message);
      add_time(t, f ? "nvfp4" : "fp8", i ? "small" : "large", o.latency_s);
    }
}

static void time_all(const struct pz_chip *c, struct pz_workload *const *models, int n,
                     struct times *t) {
  struct pz_cost cost;
  pz_cost_init(&cost, c, NULL);
  t->n = 0;
  time_table(&cost, t);
  time_formats(&cost, t);
  for (int i = 0; i < n; i++) time_model(&cost, models[i], t);
  pz_cost_release(&cost);
}

static struct pz_workload *model(const char *name, enum pz_kernels kernels,
                                 enum pz_attention attention) {
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  o.seq = 2048;
  o.kernels = kernels;
  o.attention = attention;
  if (pz_workload_load(name, &o, &w, &err) != PZ_OK) fail_msg("%s", err.message);
  return w;
}

static int slower_rows(const struct pz_chip *base, struct pz_workload *const *models, int n) {
  static const double factors[] = {1, 1.05, 1.25, 1.5, 2};
  static const double WHOLE =
      0.03; /* tiles and waves are whole: two kinds of tiles change places */
  static struct times t[2];
  int slower = 0;
  for (enum rate r = 0; r < RATES; r++)
    for (int f = 0; f < 5; f++) {
      struct pz_chip c = with_rate(base, r, factors[f]);
      time_all(&c, models, n, &t[f & 1]);
      for (int i = 0; f > 0 && i < t[0].n; i++) {
        double before = t[!(f & 1)].s[i], now = t[f & 1].s[i];
        double more = base->cold && r >= ARRAY ? WHOLE : 1e-9;
        if (now <= before * (1 + more)) continue;
        slower++;
        print_message("%s%s, %s x %g: %s is %.2f%% slower\n", base->name,
                      base->cold ? " (cold)" : "", rate_names[r], factors[f], t[0].name[i],
                      100 * (now / before - 1));
      }
    }
  return slower;
}

static void faster_chips_are_not_slower(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool cold;
  } chips[] = {
      {"h200", false}, {"h200", true}, {"b200", false}, {"mi300x", true}, {"tpuv5p", true}};
  struct pz_workload *models[] = {model("llama3-8b", PZ_KERNELS_FUSED, PZ_ATTENTION_STANDARD),
                                  model("mixtral-8x7b", PZ_KERNELS_OPERATORS, PZ_ATTENTION_FLASH),
                                  model("nemotron-3-nano", PZ_KERNELS_FUSED, PZ_ATTENTION_FLASH)};
  int slower = 0;
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
    struct pz_chip c = load(chips[i].name, chips[i].cold);
    slower += slower_rows(&c, models, 2);
  }
  struct pz_chip scans =
      load("mi300x", true); /* whose kernels wait for HBM and for arithmetic in turn */
  slower += slower_rows(&scans, models + 2, 1);
  for (int i = 0; i < 3; i++) pz_workload_free(models[i]);
  assert_int_equal(slower, 0);
}

/* 1 GB of additions on a chip of 5.3 TB/s with 304 cores at 2.1 GHz and 750 W, described as an MI300X, and the same with 1.5
 * times the clock: both run at the clock that 750 W allow, take the same cycles and the same HBM, so the same time.  The clock's
 * share of the nominal one was 0.67 of what it was, and HBM was as much slower below 0.82 of it. */
static void a_higher_clock_changes_nothing_within_the_watts(void **state) {
  (void)state;
  struct pz_chip slow = load("mi300x", true), fast;
  struct pz_op op = {.name = "add",
                     .kind = PZ_OP_ADD,
                     .op_class = PZ_CLASS_VECTOR,
                     .dims = {1, 1 << 17, 1 << 11, 0},
                     .bytes_read = INT64_C(2) << 29,
                     .bytes_written = INT64_C(1) << 29};
  double s[2];
  for (int i = 0; i < 2; i++) {
    struct pz_cost cost;
    struct pz_estimate e;
    struct pz_error err = {0};
    fast = with_rate(&slow, CLOCK, i ? 1.5 : 1);
    fast.glb_bytes_per_s = slow.glb_bytes_per_s;
    pz_cost_init(&cost, &fast, NULL);
    if (pz_cost_op(&cost, &op, &e, &err) != PZ_OK) fail_msg("%s", err.message);
    s[i] = e.latency_s;
    pz_cost_release(&cost);
  }
  assert_true(s[1] <= s[0] * (1 + 1e-9) && s[1] > 0.9 * s[0]);
}

/* GEMMs at the limit: 16-bit ones take 1.3 times as long as without.  8 bit at 1.95 times the rate and half of the energy of an
 * operation would draw 1.3 x 1.95 / 2 = 1.2675 times the limit, so that they run 1.95 x 1.3 / 1.2675 = 2 times as fast; 4 bit at
 * 3.1 times the rate 1.3 x 3.1 / 4 = 1.0075; at 2 times the rate 0.65, which is within the limit. */
static void power_limits_every_precision(void **state) {
  (void)state;
  struct pz_chip c = load("b200", false);
  c.calibration.fp8_speedup = 1.95;
  c.calibration.nvfp4_speedup = 3.1;
  assert_true(fabs(pz_format_slowdown(&c, PZ_FORMAT_16BIT, 1.3) - 1.3) < 1e-12);
  assert_true(fabs(pz_format_slowdown(&c, PZ_FORMAT_MXFP8, 1.3) - 1.2675) < 1e-12);
  assert_true(fabs(pz_format_slowdown(&c, PZ_FORMAT_NVFP4, 1.3) - 1.0075) < 1e-12);
  c.calibration.nvfp4_speedup = 2;
  assert_true(pz_format_slowdown(&c, PZ_FORMAT_NVFP4, 1.3) == 1);
  assert_true(pz_format_slowdown(&c, PZ_FORMAT_MXFP8, 1) == 1); /* no limit acts */
}

/* Large GEMMs in 8 bit are at most as much faster as data sheets say, twice. */
static void narrow_operands_keep_to_the_data_sheet(void **state) {
  (void)state;
  static const char *const chips[] = {"h100", "h200", "b200", "b300", "gb200", "gb300"};
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
    struct pz_chip c = load(chips[i], false);
    struct pz_product p = {1, 16384, 16384, 16384, false};
    struct pz_mapping wide, narrow;
    struct pz_cost cost;
    double run = c.calibration.throttle * c.calibration.training_throttle;
    double all = run / c.calibration.throttle *
                 pz_format_slowdown(&c, PZ_FORMAT_MXFP8, c.calibration.throttle) /
                 pz_format_slowdown(&c, PZ_FORMAT_MXFP8, run);
    pz_cost_init(&cost, &c, NULL);
    assert_int_equal(pz_cost_product(&cost, &p, &wide, NULL), PZ_OK);
    assert_int_equal(pz_cost_format_product(&cost, PZ_FORMAT_MXFP8, &p, &narrow, NULL), PZ_OK);
    pz_cost_release(&cost);
    double ratio = all * wide.latency_s / narrow.latency_s;
    if (strcmp(chips[i], "h100") && strcmp(chips[i], "h200")) assert_true(ratio > 1.85);
    if (ratio > 2.005) fail_msg("%s: %g", chips[i], ratio);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(faster_chips_are_not_slower),
      cmocka_unit_test(a_higher_clock_changes_nothing_within_the_watts),
      cmocka_unit_test(power_limits_every_precision),
      cmocka_unit_test(narrow_operands_keep_to_the_data_sheet),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
