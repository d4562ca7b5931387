/* Times of state-space operators: counts by hand, relations that must hold on any chip, limits of the chip. */
#include "unit/testing.h"

#include <math.h>

#include "chip/cold.h"
#include "cost/cost.h"
#include "cost/scan.h"
#include "unit/chip_borders.h"
#include "workload/op.h"

static const char *const chips[] = {"a100-80", "h200", "b200", "l40s", "tpuv5p", "mi300x"};
enum { CHIPS = sizeof chips / sizeof *chips };

/* The i-th of them; those above are the same as chips that nobody measured. */
static struct pz_chip chip_at(int i) {
  struct pz_chip c;
  assert_int_equal(pz_test_chip_read(chips[i % CHIPS], &c, NULL), PZ_OK);
  if (i >= CHIPS) assert_int_equal(pz_test_chip_make_cold(&c, NULL, NULL), PZ_OK);
  return c;
}

/* One sample of Nemotron 3 Nano and of Qwen3-Next. */
static struct pz_op scan_op(int kind, enum pz_direction d) {
  bool delta = kind == PZ_OP_DELTA_RULE;
  struct pz_op op = {.name = "scan",
                     .kind = kind,
                     .direction = d,
                     .op_class = PZ_CLASS_FUSED,
                     .dims = {delta ? 32 : 64, 4096, 128, delta ? 128 : 64},
                     .span = delta ? 64 : 128};
  double tokens = (double)(op.dims.batch * op.dims.m);
  op.bytes_read = (int64_t)(tokens * (d == PZ_FORWARD ? 300 : 500));
  op.bytes_written = (int64_t)(tokens * (d == PZ_FORWARD ? 256 : 400));
  op.matmul_flop = op.flop = (int64_t)(tokens * (d == PZ_FORWARD ? 40e3 : 110e3));
  return op;
}

static double cost_s(const struct pz_chip *c, const struct pz_op *op, struct pz_estimate *e) {
  struct pz_cost cost;
  struct pz_error err = {0};
  pz_cost_init(&cost, c, NULL);
  if (pz_cost_op(&cost, op, e, &err) != PZ_OK) fail_msg("%s", err.message);
  pz_cost_release(&cost);
  return e->latency_s;
}

/* Two chunks of four tokens of two heads; a chunk of the delta rule that is half full. */
static void counts_by_hand(void **state) {
  (void)state;
  struct pz_scan_work ssm = {.kind = PZ_OP_SSM_SCAN, .dims = {2, 8, 4, 2}, .chunk = 4, .bytes = 10};
  struct pz_scan_counts n = pz_scan_counts(&ssm);
  /* 16 tokens: twice n k, C k, and C n for the eighth part of a head */
  assert_true(n.macs == 16 * (2 * 8 + 8 + 2));
  /* x again, B and C of a group, C B; states in fp32 written and read, passed on */
  assert_true(n.bytes == 10 + 16 * (4 + 2 + 4) + 4 * (8 + 8) * 8);
  assert_true(n.lane_ops == 12 * 16 * 4);
  ssm.macs = 1e6; /* what the graph counts is not less */
  assert_true(pz_scan_counts(&ssm).macs == 1e6);
  struct pz_scan_work delta = {
      .kind = PZ_OP_DELTA_RULE, .dims = {1, 2, 2, 2}, .chunk = 4, .served = true};
  n = pz_scan_counts(&delta);
  assert_true(n.macs == 4 * (4 + 3 * 8 + 2 * 8 + 2 * 4));
  assert_true(n.bytes == 2 * (10 * 2 + 4 * 2 + 12 * 4) + 2 * 4 + 2 * (4 * 2 + 4 * 2) + 2 * 4);
}

/* With many heads the time is that of arithmetic and memory together; with one, its chunks wait for each other. */
static void time_by_hand(void **state) {
  (void)state;
  struct pz_chip c = chip_at(1);
  struct pz_scan_work w = {
      .kind = PZ_OP_DELTA_RULE, .dims = {1 << 16, 4096, 128, 128}, .chunk = 64, .served = true};
  struct pz_scan_time t;
  pz_scan_time(&c, &w, &t);
  struct pz_scan_counts n = pz_scan_counts(&w);
  double cores_hz = 132 * 1.83e9, blocks = 4 * 65536.0 * 64;
  double mac_s = n.macs / (300 * cores_hz) + 2850 * blocks / cores_hz;
  double byte_s = n.bytes / (4.8e12 * 0.8938);
  assert_true(t.work_s > fmax(mac_s, byte_s) && t.work_s < mac_s + byte_s);
  assert_true(fabs(t.startup_s - 8 * 2.33e-6) < 1e-12);
  w.dims.batch = 1;
  pz_scan_time(&c, &w, &t);
  double wait_s = 64 * 3420 / 1.83e9;
  assert_true(t.work_s > wait_s && t.work_s < 1.3 * wait_s);
}

/* The delta rule of fla 0.5.1, widths of 128 (github.com/QwenLM/FlashQLA, benchmark/benchmark_results_H200.txt and _GB200,
 * licence MIT), and Mamba-2's of bench/h200/scan.csv: each within a quarter, all within 15%. */
static void measured_training_kernels(void **state) {
  (void)state;
  static const struct {
    const char *chip;
    int kind;
    enum pz_direction direction;
    int64_t batch, tokens, heads;
    double ms;
  } rows[] = {
      {"h200", PZ_OP_DELTA_RULE, PZ_FORWARD, 1, 8192, 32, 0.472},
      {"h200", PZ_OP_DELTA_RULE, PZ_FORWARD, 1, 32768, 8, 0.902},
      {"gb200", PZ_OP_DELTA_RULE, PZ_FORWARD, 1, 8192, 32, 0.468},
      {"gb200", PZ_OP_DELTA_RULE, PZ_FORWARD, 1, 32768, 64, 2.943},
      {"h200", PZ_OP_DELTA_RULE, PZ_BACKWARD, 1, 8192, 32, 1.444},
      {"h200", PZ_OP_DELTA_RULE, PZ_BACKWARD, 1, 32768, 4, 2.311},
      {"gb200", PZ_OP_DELTA_RULE, PZ_BACKWARD, 1, 8192, 32, 1.446},
      {"gb200", PZ_OP_DELTA_RULE, PZ_BACKWARD, 1, 32768, 16, 3.934},
      {"h200", PZ_OP_SSM_SCAN, PZ_FORWARD, 1, 8192, 64, 0.370},
      {"h200", PZ_OP_SSM_SCAN, PZ_FORWARD, 4, 8192, 64, 1.423},
      {"h200", PZ_OP_SSM_SCAN, PZ_BACKWARD, 1, 8192, 64, 1.134},
      {"h200", PZ_OP_SSM_SCAN, PZ_BACKWARD, 4, 8192, 64, 4.236},
  };
  enum { ROWS = sizeof rows / sizeof *rows };
  double sum = 0;
  for (int i = 0; i < ROWS; i++) {
    struct pz_chip c;
    assert_int_equal(pz_test_chip_read(rows[i].chip, &c, NULL), PZ_OK);
    bool delta = rows[i].kind == PZ_OP_DELTA_RULE;
    double tokens = (double)(rows[i].batch * rows[i].heads * rows[i].tokens);
    struct pz_scan_work w = {
        .kind = rows[i].kind,
        .direction = rows[i].direction,
        .dims = {rows[i].batch * rows[i].heads, rows[i].tokens, 128, delta ? 128 : 64},
        .chunk = delta ? 64 : 128,
        .bytes = tokens * (rows[i].direction == PZ_FORWARD ? 4 : 8) * (delta ? 192 : 80)};
    struct pz_scan_time t;
    pz_scan_time(&c, &w, &t);
    double error = 1e3 * (t.startup_s + t.work_s) / rows[i].ms - 1;
    print_message("  %s %s %d: %+.1f%%\n", rows[i].chip, pz_op_info(rows[i].kind)->name,
                  rows[i].direction, 100 * error);
    assert_true(fabs(error) < 0.25);
    sum += fabs(error);
  }
  assert_true(sum / ROWS < 0.15);
}

static void more_takes_longer(void **state) {
  (void)state;
  static const int kinds[] = {PZ_OP_SSM_SCAN, PZ_OP_DELTA_RULE};
  for (int i = 0; i < 2 * CHIPS; i++)
    for (int k = 0; k < 2; k++)
      for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
        struct pz_chip c = chip_at(i);
        struct pz_op op = scan_op(kinds[k], d);
        struct pz_estimate one, more;
        double s = cost_s(&c, &op, &one);
        int64_t *const sizes[] = {&op.dims.batch, &op.dims.m, &op.dims.n, &op.dims.k};
        for (int x = 0; x < 4; x++) {
          *sizes[x] *= 2;
          double longer_s = cost_s(&c, &op, &more);
          /* tokens and heads: at most twice */
          if (!(longer_s > s && (x > 1 || longer_s < 2.001 * s)))
            fail_msg("%s%s, %s, size %d: %g s, %g s", c.name, c.cold ? " cold" : "",
                     pz_op_info(kinds[k])->name, x, s, longer_s);
          assert_true(more.energy_j > one.energy_j);
          *sizes[x] /= 2;
        }
      }
}

static void backward_takes_longer(void **state) {
  (void)state;
  static const int kinds[] = {PZ_OP_SSM_SCAN, PZ_OP_DELTA_RULE};
  for (int i = 0; i < 2 * CHIPS; i++)
    for (int k = 0; k < 2; k++) {
      struct pz_chip c = chip_at(i);
      struct pz_op op = scan_op(kinds[k], PZ_FORWARD), back = scan_op(kinds[k], PZ_BACKWARD);
      struct pz_estimate e;
      double ratio = cost_s(&c, &back, &e) / cost_s(&c, &op, &e);
      if (!(ratio > 1.8 && ratio < 3.5)) fail_msg("%s: backward %g times", c.name, ratio);
    }
}

/* No chip is faster than its peak rates, and energy pays for what is computed and moved. */
static void peaks_hold(void **state) {
  (void)state;
  static const int kinds[] = {PZ_OP_SSM_SCAN, PZ_OP_DELTA_RULE};
  for (int i = 0; i < 2 * CHIPS; i++)
    for (int k = 0; k < 2; k++)
      for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
        struct pz_chip c = chip_at(i);
        struct pz_op op = scan_op(kinds[k], d);
        struct pz_scan_work w = pz_scan_work_of(&op);
        struct pz_scan_counts n = pz_scan_counts(&w);
        struct pz_estimate e;
        double s = cost_s(&c, &op, &e);
        assert_true(s > 2 * n.macs / pz_chip_tensor_flop_per_s(&c));
        assert_true(s > n.bytes / pz_chip_hbm_bytes_per_s(&c));
        assert_true(s > n.lane_ops / pz_chip_vector_op_per_s(&c));
        assert_true(e.energy_j > n.bytes * pz_tech_at(c.tech)->hbm_j);
        assert_true(e.utilisation > 0 && e.utilisation < 1);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_by_hand),
      cmocka_unit_test(time_by_hand),
      cmocka_unit_test(measured_training_kernels),
      cmocka_unit_test(more_takes_longer),
      cmocka_unit_test(backward_takes_longer),
      cmocka_unit_test(peaks_hold),
  };
  return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
