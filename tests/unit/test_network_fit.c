/* phaze calibrate --network: logs of nccl-tests that are read, refused and fitted. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "cost/constants.h"
#include "cost/cost.h"
#include "cost/nccl_log.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"

#define LOGS PHAZE_TEST_DATA "/nccl/"

static struct pz_network_calibration *calibrated(const struct pz_calibrate_network_options *o) {
  struct pz_network_calibration *c = NULL;
  struct pz_error err = {0};
  if (pz_calibrate_network(o, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

/* Reads a text as if it were a log file. */
static enum pz_status read_text(const char *text, struct pz_arena *arena, struct pz_nccl_logs *logs,
                                struct pz_error *err) {
  char *own = pz_arena_strdup(arena, text);
  pz_vec_init(&logs->rows, arena, sizeof(struct pz_nccl_row));
  return pz_nccl_log_read("t.log", own, arena, logs, err);
}

/* ---- logs ----------------------------------------------------------------------------------- */

#define RANKS                                                                                      \
  "#  Rank  0 Group  0 Pid  11 on n0 device  0 [0x10] NVIDIA A100-SXM4-80GB\n"                     \
  "#  Rank  1 Group  0 Pid  12 on n0 device  1 [0x11] NVIDIA A100-SXM4-80GB\n"                     \
  "#  Rank  2 Group  0 Pid  13 on n1 device  0 [0x10] NVIDIA A100-SXM4-80GB\n"                     \
  "#  Rank  3 Group  0 Pid  14 on n1 device  1 [0x11] NVIDIA A100-SXM4-80GB\n"
#define ROW "1048576 262144 float sum -1 100.0 10.49 15.73 0 101.0 10.38 15.57 0\n"

static void every_form_of_a_row_is_read(void **state) {
  (void)state;
  static const struct {
    const char *text, *test;
    double bytes, us;
    int64_t devices, per_node;
  } cases[] = {
      {RANKS ROW, "all_reduce", 1048576, 100, 4, 2},
      {RANKS "0:  " ROW, "all_reduce", 1048576, 100, 4, 2},
      {RANKS "[1,0]<stdout>:   " ROW, "all_reduce", 1048576, 100, 4, 2},
      {RANKS "[0] 1048576 262144 float sum -1[0] 100.0 10.49 15.73 0[0] 101.0 10.38 15.57 0\n",
       "all_reduce", 1048576, 100, 4, 2},
      /* no root; errors as numbers; no errors; out of place alone */
      {RANKS "1048576 262144 float sum 100.0 10.49 15.73 2e-07 101.0 10.38 15.57 2e-07\n",
       "all_reduce", 1048576, 100, 4, 2},
      {RANKS "1048576 262144 float sum 100.0 10.49 15.73 101.0 10.38 15.57\n", "all_reduce",
       1048576, 100, 4, 2},
      {RANKS "1048576 262144 float sum -1 100.0 10.49 15.73 0\n", "all_reduce", 1048576, 100, 4, 2},
      /* a reduction whose bus rate is below its rate */
      {RANKS "1048576 65536 bfloat16 sum -1 50.0 20.97 15.73 0 50.0 20.97 15.73 0\n",
       "reduce_scatter", 1048576, 50, 4, 2},
      {"./alltoall_perf -b 1M\n" RANKS
       "1048576 65536 float none -1 50.0 20.97 15.73 0 50.0 20.97 15.73 N/A\n",
       "alltoall", 1048576, 50, 4, 2},
      {"# Collective test starting: all_gather_perf\n" RANKS
       "1048576 65536 float 50.0 20.97 15.73 0 50.0 20.97 15.73 0\n",
       "all_gather", 1048576, 50, 4, 2},
      {"sendrecv_perf\n" RANKS "1048576 262144 float sum -1 50.0 20.97 20.97 0 50 20.97 20.97 0\n",
       "sendrecv", 1048576, 50, 4, 2},
      /* groups that run at the same time: one of them counts */
      {"#  Rank 0 Group 0 Pid 1 on n0 device 0\n#  Rank 1 Group 1 Pid 2 on n0 device 1\n"
       "#  Rank 2 Group 0 Pid 3 on n1 device 0\n#  Rank 3 Group 1 Pid 4 on n1 device 1\n"
       "1048576 262144 float sum -1 100.0 10.49 10.49 0 101.0 10.38 10.38 0\nall_reduce_perf\n",
       "all_reduce", 1048576, 100, 2, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_nccl_logs logs = {.devices = 0};
    struct pz_arena arena;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    if (read_text(cases[i].text, &arena, &logs, &err) != PZ_OK)
      fail_msg("case %zu: %s", i, err.message);
    assert_int_equal(logs.rows.n, 1);
    const struct pz_nccl_row *row = pz_vec_at(&logs.rows, struct pz_nccl_row, 0);
    assert_string_equal(row->test, cases[i].test);
    assert_int_equal(row->devices, cases[i].devices);
    assert_int_equal(row->per_node, cases[i].per_node);
    assert_true(row->bytes == cases[i].bytes && fabs(row->s - cases[i].us / 1e6) < 1e-12);
    pz_arena_release(&arena);
  }
}

static void small_rows_get_their_test_from_larger_ones(void **state) {
  (void)state;
  struct pz_nccl_logs logs = {.devices = 4, .per_node = 4};
  struct pz_arena arena;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  assert_int_equal(read_text("8 2 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n"
                             "0 0 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n" ROW,
                             &arena, &logs, &err),
                   PZ_OK);
  assert_int_equal(logs.rows.n, 2); /* none of zero bytes */
  assert_string_equal(pz_vec_at(&logs.rows, struct pz_nccl_row, 0)->test, "all_reduce");
  /* or from a command behind them */
  static const char small[] = "8 2 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n";
  char *text = pz_arena_printf(&arena, "%sall_gather_perf\n", small);
  assert_int_equal(read_text(text, &arena, &logs, &err), PZ_OK);
  assert_string_equal(pz_vec_at(&logs.rows, struct pz_nccl_row, 0)->test, "all_gather");
  pz_arena_release(&arena);
}

static void other_logs_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "no row of nccl-tests"},
      {"all_reduce_perf: command not found\n", "no row of nccl-tests"},
      {ROW, "t.log:1: the ranks are not listed; accepted: "},
      {"#  Rank 0 Group 0 Pid 1 on n0 device 0\n" ROW, "a collective of one device"},
      {"#  Rank 0 Pid 1 on n0 device 0\n#  Rank 0 Pid 2 on n0 device 1\n" ROW,
       "2 ranks are listed, the last is rank 0"},
      {"#  Rank 0 Pid 1 on n0 device 0\n#  Rank 1 Pid 2 on n0 device 1\n"
       "#  Rank 2 Pid 2 on n1 device 0\n" ROW,
       "3 devices on 2 hosts"},
      {RANKS "1048576 262144 float sum -1 0.1 10.49 15.73 0 0.1 10.38 15.57 0\n",
       "t.log:5: 1048576 B in 0.1 us are 1.05e+04 GB/s, but the row says 10.49"},
      {RANKS "8 2 float sum -1 1e300 0.00 0.00 0 1 0.00 0.00 0\nall_reduce_perf\n", "t.log:5: "},
      {RANKS "1048576 262144 float sum -1 100.0 10.49 19.00 0 101.0 10.38 19.00 0\n",
       "t.log:5: the bus rate is 1.811 times the rate, of all_reduce over 4 devices it is 1.500"},
      {RANKS "1048576 262144 float none -1 100.0 10.49 15.73 0 101.0 10.38 15.57 0\n",
       "t.log:5: the log does not say which test it is of"},
      {RANKS "8 2 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\nbroadcast_perf\n",
       "the log does not say which test it is of"},
      {RANKS "8 2 float sum -1 10.0 0.00 0.00 0 10.0 0.00 0.00 0\n",
       "the log does not say which test it is of"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_nccl_logs logs = {.devices = 0};
    struct pz_arena arena;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    assert_int_equal(read_text(cases[i].text, &arena, &logs, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, cases[i].message)) fail_msg("case %zu: %s", i, err.message);
    pz_arena_release(&arena);
  }
}

/* ---- fits ----------------------------------------------------------------------------------- */

/* Writes what nccl-tests would print in a network of the model. */
static void write_log(const char *path, const struct pz_cost *cost, int64_t nodes) {
  static const struct {
    const char *name, *reduces;
    enum pz_collective kind;
    double passes;
  } tests[] = {{"all_reduce", "sum", PZ_COLLECTIVE_ALL_REDUCE, 2},
               {"all_gather", "none", PZ_COLLECTIVE_ALL_GATHER, 1},
               {"reduce_scatter", "sum", PZ_COLLECTIVE_REDUCE_SCATTER, 1},
               {"alltoall", "none", PZ_COLLECTIVE_ALL_TO_ALL, 1}};
  double n = 8.0 * (double)nodes;
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
    fprintf(f, "# Collective test starting: %s_perf\n# Using devices\n", tests[t].name);
    for (int r = 0; r < n; r++)
      fprintf(f, "#  Rank %d Group 0 Pid 1 on n%d device %d [0x1] NVIDIA H100 80GB HBM3\n", r,
              r / 8, r % 8);
    for (double bytes = 1024; bytes <= 0x1p33; bytes *= 4) {
      struct pz_group g = {(int64_t)n, 1};
      double s = pz_network_time(&pz_constants_default, &cost->net, tests[t].kind, bytes, g).s;
      double rate = bytes / s / 1e9, bus = rate * tests[t].passes * (n - 1) / n;
      fprintf(f, "%.0f %.0f float %s -1 %.4f %.4f %.4f 0 %.4f %.4f %.4f 0\n", bytes, bytes / 4,
              tests[t].reduces, 1e6 * s, rate, bus, 1e6 * s, rate, bus);
    }
  }
  fclose(f);
}

static void known_networks_are_found_again(void **state) {
  (void)state;
  char inside[] = "/tmp/phaze-nccl-XXXXXX", between[] = "/tmp/phaze-nccl-XXXXXX", logs[64];
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_cost cost;
  struct pz_error err = {0};
  if (pz_test_chip_read("h100", &chip, &err) != PZ_OK) fail_msg("%s", err.message);
  if (pz_cluster_load("dgx-h100", &net, &err) != PZ_OK) fail_msg("%s", err.message);
  net.level[0].collectives = (struct pz_collective_facts){0.7, 9e-6, 0.5};
  net.level[1].collectives = (struct pz_collective_facts){.efficiency = 0.6, .startup_s = 5e-5};
  net.level[1].latency_s = 2e-5;
  close(mkstemp(inside));
  close(mkstemp(between));
  pz_cost_init(&cost, &chip, &net);
  write_log(inside, &cost, 1);
  write_log(between, &cost, 4);
  snprintf(logs, sizeof logs, "%s,%s", inside, between);
  struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
  o.logs = logs;
  struct pz_network_calibration *c = calibrated(&o);
  assert_string_equal(c->chip, "h100");
  for (int l = 0; l < 2; l++) {
    const struct pz_level *found = &c->cluster.level[l], *known = &net.level[l];
    assert_true(fabs(found->collectives.efficiency / known->collectives.efficiency - 1) < 0.03);
    assert_true(fabs(found->collectives.startup_s / known->collectives.startup_s - 1) <
                (l ? 0.5 : 0.05));
    assert_true(c->levels[l].rows == 4 * 12 && found->bytes_per_s == known->bytes_per_s);
  }
  assert_true(fabs(c->cluster.level[0].collectives.switch_efficiency / 0.5 - 1) < 0.03);
  assert_true(fabs(c->cluster.level[1].latency_s / 2e-5 - 1) < 0.1);
  assert_true(c->cluster.calibration_error < 0.02);
  assert_int_equal(c->n_tests, 5);
  /* one log shows one level */
  o.logs = inside;
  struct pz_network_calibration *one = calibrated(&o);
  assert_true(one->levels[0].rows == 48 && one->levels[1].rows == 0);
  assert_true(one->cluster.level[1].collectives.efficiency == 0 &&
              one->cluster.level[1].latency_s == 5e-6);
  pz_network_calibration_free(one);
  pz_network_calibration_free(c);
  pz_cost_release(&cost);
  unlink(inside);
  unlink(between);
}

/* The file says what was fitted, and every estimate uses it. */
static void a_calibrated_cluster_is_read_again(void **state) {
  (void)state;
  struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
  struct pz_error err = {0};
  struct pz_cluster read;
  struct pz_chip chip;
  struct pz_cost before, after;
  char *text = NULL;
  o.logs = LOGS "a3high-2x8-all_gather.log";
  o.cluster = "h100-8x25";
  o.devices = 16;
  o.node_devices = 8;
  struct pz_network_calibration *c = calibrated(&o);
  assert_int_equal(pz_cluster_text(&c->cluster, &text, &err), PZ_OK);
  if (pz_cluster_parse("mine.json", text, strlen(text), &read, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_memory_equal(&read.level[1].collectives, &c->cluster.level[1].collectives,
                      sizeof read.level[1].collectives);
  assert_true(read.calibration_error == c->cluster.calibration_error);
  assert_string_equal(read.calibrated, "nccl-tests, 10 rows: a3high-2x8-all_gather.log");
  struct pz_cluster sheet;
  assert_int_equal(pz_cluster_load("h100-8x25", &sheet, &err), PZ_OK);
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  pz_cost_init(&before, &chip, &sheet);
  pz_cost_init(&after, &chip, &read);
  struct pz_group g = {64, 1};
  assert_true(
      pz_network_time(&pz_constants_default, &after.net, PZ_COLLECTIVE_ALL_GATHER, 1e9, g).s >
      2 * pz_network_time(&pz_constants_default, &before.net, PZ_COLLECTIVE_ALL_GATHER, 1e9, g).s);
  pz_cost_release(&before);
  pz_cost_release(&after);
  pz_text_free(text);
  pz_network_calibration_free(c);
}

/* Logs of real clusters: rows, part of the data sheet's rate, mean error before and after the fit. */
static void published_logs_are_fitted(void **state) {
  (void)state;
  static const struct {
    const char *log, *cluster, *chip;
    int64_t devices;
    uint32_t rows, notes;
    int level;
    double least, most, error, large_error;
  } cases[] = {
      {"a3high-2x8-all_gather.log", LOGS "a3-highgpu.json", NULL, 16, 10, 0, 1, 0.68, 0.85, 0.40,
       0.12},
      {"a3mega-2x8.log", "h100-8x25", NULL, 0, 31, 0, 1, 0.75, 1, 0.28, 0.16},
      {"p5-2x8.log", NULL, NULL, 0, 32, 0, 1, 0.90, 1, 0.22, 0.05},
      {"p4de-2x8.log", "a100-8x6.25", NULL, 16, 24, 1, 1, 0.85, 1, 0.15, 0.12},
      {"p4d-1to4x8.log", "a100-8x6.25", NULL, 0, 3, 1, 1, 0.55, 0.7, 0.03, 0.03},
      {"oci-a100-2x8.log", NULL, NULL, 0, 27, 1, 1, 0.8, 1, 0.15, 0.11},
      {"mi300x-1x8.log", NULL, NULL, 0, 31, 0, 0, 0.65, 0.75, 0.15, 0.06},
      {"mi300x-2x8.log", NULL, NULL, 0, 32, 0, 1, 0.85, 1, 0.20, 0.15},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
    char path[400];
    snprintf(path, sizeof path, LOGS "%s", cases[i].log);
    o.logs = path;
    o.cluster = cases[i].cluster;
    o.devices = cases[i].devices;
    o.node_devices = cases[i].devices ? 8 : 0;
    struct pz_network_calibration *c = calibrated(&o);
    const struct pz_network_error *all = &c->tests[c->n_tests - 1];
    double part = c->cluster.level[cases[i].level].collectives.efficiency;
    if (all->rows[3] != cases[i].rows || !(part > cases[i].least) || !(part <= cases[i].most) ||
        !(all->after[3] < cases[i].error) || !(all->after[2] < cases[i].large_error) ||
        c->n_notes != cases[i].notes)
      fail_msg("%s: %u rows, efficiency %.3f, error %.3f, of large messages %.3f, %u notes",
               cases[i].log, all->rows[3], part, all->after[3], all->after[2], c->n_notes);
    assert_true(all->after[3] < all->before[3]);
    pz_network_calibration_free(c);
  }
}

static void logs_of_other_networks_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *log, *cluster, *chip;
    int64_t devices, node_devices;
    const char *message;
  } cases[] = {
      {"p5-2x8.log", "h100-8x25", NULL, 0, 0,
       "at the full rate of infiniband of cluster h100-8x25"},
      {"p5-2x8.log", "tpuv4-pod", "h100", 0, 0, "is a torus"},
      {"p5-2x8.log", NULL, NULL, 16, 16, "16 devices of a node; cluster dgx-h100 has 8"},
      {"p5-2x8.log", NULL, NULL, 8, 8, "of all_reduce over 8 devices it is 1.750 times"},
      {"p4de-2x8.log", NULL, NULL, 16, 8, "the logs name no known device; accepted: --chip"},
      {"missing.log", NULL, NULL, 0, 0, "missing.log"},
      {"sources.csv", NULL, NULL, 0, 0, "no row of nccl-tests"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
    struct pz_network_calibration *c = NULL;
    struct pz_error err = {0};
    char path[400];
    snprintf(path, sizeof path, LOGS "%s", cases[i].log);
    o.logs = path;
    o.cluster = cases[i].cluster;
    o.chip = cases[i].chip;
    o.devices = cases[i].devices;
    o.node_devices = cases[i].node_devices;
    assert_int_not_equal(pz_calibrate_network(&o, &c, &err), PZ_OK);
    if (!strstr(err.message, cases[i].message)) fail_msg("case %zu: %s", i, err.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_of_a_row_is_read),
      cmocka_unit_test(small_rows_get_their_test_from_larger_ones),
      cmocka_unit_test(other_logs_are_refused),
      cmocka_unit_test(known_networks_are_found_again),
      cmocka_unit_test(a_calibrated_cluster_is_read_again),
      cmocka_unit_test(published_logs_are_fitted),
      cmocka_unit_test(logs_of_other_networks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
