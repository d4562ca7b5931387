/* Tables (CSV): operators, training runs, measured steps, limits, prices. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "../unit/core_borders.h"
#include "../unit/cost_borders.h"
#include "../unit/step_borders.h"
#include "chip/chip.h"
#include "cost/beside_table.h"
#include "cost/calibrate.h"
#include "cost/silicon_table.h"
#include "fuzz.h"
#include "step/run_table.h"
#include "study/validate.h"
#include "unit/chip_borders.h"

/* ---- operators: predicted, power and kernels beside communication too, and a fit where there are times */

/* Of small tables: what is fitted is a chip that can be used. */
static void calibrate(const struct pz_chip *chip, const struct pz_csv *csv,
                      struct pz_arena *arena) {
  struct pz_measured m;
  struct pz_calibrated fit;
  struct pz_error err = {0};
  if (csv->rows > 4) return;
  enum pz_status status = pz_measured_read("fuzz", csv, arena, &m, &err);
  if (status == PZ_OK) status = pz_calibrate_to(chip, &m, arena, &fit, &err);
  if (status == PZ_OK)
    require(pz_test_chip_check(fit.chip, &err) == PZ_OK);
  else
    require(err.message[0]);
}

static void power(const struct pz_chip *chip, const char *text, size_t bytes) {
  struct pz_power_table *t = NULL;
  struct pz_error err = {0};
  if (pz_power_table(chip, "fuzz", text, bytes, &t, &err) != PZ_OK) require(err.message[0]);
  for (uint32_t r = 0; t && r < t->n_rows; r++) require(t->rows[r].sustained.watts >= 0);
  pz_power_table_free(t);
}

static void beside(struct pz_cost *cost, const struct pz_csv *csv, struct pz_arena *arena) {
  const struct pz_beside_row *rows = NULL;
  struct pz_error err = {0};
  if (pz_beside_predict(cost, "fuzz", csv, arena, &rows, &err) != PZ_OK) {
    require(err.message[0]);
    return;
  }
  for (uint32_t r = 0; r < csv->rows; r++) {
    require(rows[r].reason[0] ? rows[r].slowdown == 0
                              : rows[r].slowdown >= 1 && isfinite(rows[r].slowdown));
    require(rows[r].alone_s > 0 && rows[r].together_s > 0 && rows[r].own_alone_s >= 0);
  }
}

void fuzz_ops(const char *text, size_t bytes) {
  struct pz_chip chip;
  struct pz_cost cost;
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_error err = {0};
  struct pz_op_times *times = NULL;
  require(pz_test_chip_read(bytes % 2 ? "h200" : "tpuv4", &chip, &err) == PZ_OK);
  pz_arena_init(&arena);
  pz_cost_init(&cost, &chip, NULL);
  if (was_read(pz_csv_parse("fuzz", text, bytes, &arena, &csv, &err), &err)) {
    power(&chip, text, bytes);
    beside(&cost, &csv, &arena);
    if (was_read(pz_cost_table(&cost, "fuzz", text, bytes, &times, &err), &err)) {
      for (uint32_t r = 0; r < csv.rows; r++) require(times->rows[r].us > 0);
      pz_op_times_free(times);
      calibrate(&chip, &csv, &arena);
    }
  }
  pz_cost_release(&cost);
  pz_arena_release(&arena);
}

static void check_row(struct pz_cost *cost, const struct pz_ops_row *row, struct pz_arena *arena) {
  struct pz_error err = {0};
  double us = 0;
  require(row->group && row->group[0] && row->line > 1);
  if (row->reason) return;
  require(row->us > 0 && isfinite(row->us) && pz_ops_text(row, arena));
  if (pz_ops_us(cost, row, &us, &err) == PZ_OK)
    require(us > 0 && isfinite(us));
  else
    require(err.message[0]);
}

/* Operators measured on real chips: rows that are predicted in finite time above 0, or have a reason. */
void fuzz_silicon(const char *text, size_t bytes) {
  static const char *const chips[] = {"h200", "a100-80", "b200", "tpuv4"};
  struct pz_chip chip;
  struct pz_cost cost;
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_error err = {0};
  const struct pz_ops_row *rows = NULL;
  require(pz_test_chip_read(chips[bytes % 4], &chip, &err) == PZ_OK);
  pz_arena_init(&arena);
  pz_cost_init(&cost, &chip, NULL);
  enum pz_status status = pz_csv_parse("fuzz", text, bytes, &arena, &csv, &err);
  if (status == PZ_OK) status = pz_silicon_read("fuzz", &csv, &arena, &rows, &err);
  if (was_read(status, &err))
    for (uint32_t i = 0; i < csv.rows; i++) check_row(&cost, &rows[i], &arena);
  pz_cost_release(&cost);
  pz_arena_release(&arena);
}

/* ---- runs --------------------------------------------------------------------------------------- */

void fuzz_runs(const char *text, size_t bytes) {
  struct pz_arena arena;
  struct pz_run_table t;
  struct pz_error err = {0};
  if (bytes > 1 << 16) return;
  pz_arena_init(&arena);
  if (was_read(try_read_runs("x", text, bytes, 1, &arena, &t, &err), &err))
    for (uint32_t i = 0; i < t.n_rows; i++)
      require(t.rows[i].predicted ? isfinite(t.rows[i].p.step_s) && t.rows[i].p.step_s > 0
                                  : t.rows[i].reason[0] != '\0');
  pz_arena_release(&arena);
}

/* Steps that a chip is corrected by: a table, or the log of a run. */
void fuzz_steps(const char *text, size_t bytes) {
  struct pz_calibrate_steps_options o = pz_calibrate_steps_options_default();
  struct pz_step_calibration *c = NULL;
  struct pz_error err = {0};
  char path[] = "/tmp/phaze-fuzz-XXXXXX";
  if (bytes > 1 << 13) return;
  int fd = mkstemp(path);
  require(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes && close(fd) == 0);
  o.steps = path;
  o.chip = "h100";
  o.cluster = "dgx-h100";
  o.threads = 1;
  if (was_read(pz_calibrate_steps(&o, &c, &err), &err)) {
    require(c->n_steps > 0 && c->chip && pz_test_chip_check(c->chip, &err) == PZ_OK);
    for (uint32_t i = 0; i < c->n_factors; i++) require(c->factors[i].factor > 0);
    for (uint32_t i = 0; i < c->n_steps; i++) require(isfinite(c->steps[i].after_s));
  }
  pz_step_calibration_free(c);
  unlink(path);
}

/* Logs of nccl-tests: what is fitted is a cluster that can be used. */
void fuzz_nccl(const char *text, size_t bytes) {
  static const char *const clusters[] = {NULL, "dgx-a100", "mi300x-8", "nvl72-gb200"};
  struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
  struct pz_network_calibration *c = NULL;
  struct pz_error err = {0};
  char path[] = "/tmp/phaze-fuzz-XXXXXX";
  if (bytes > 1 << 13) return;
  int fd = mkstemp(path);
  require(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes && close(fd) == 0);
  o.logs = path;
  o.cluster = clusters[bytes % 4];
  o.devices = bytes % 5 ? 0 : 16;
  o.node_devices = bytes % 3 ? 0 : 8;
  if (was_read(pz_calibrate_network(&o, &c, &err), &err)) {
    require(pz_test_cluster_check(&c->cluster, &err) == PZ_OK);
    for (uint32_t i = 0; i < c->n_tests; i++)
      require(isfinite(c->tests[i].after[PZ_NETWORK_SIZES - 1]));
  }
  pz_network_calibration_free(c);
  unlink(path);
}

/* Results of the rehearsal of tests/data/rehearsal/plan.json. */
void fuzz_rehearsal(const char *text, size_t bytes) {
  struct pz_run_plan run = pz_run_plan_default();
  struct pz_rehearsal *r = NULL;
  struct pz_chip chip;
  struct pz_network at;
  struct pz_error err = {0};
  if (bytes > 1 << 13) return;
  run.model = "llama3-8b";
  run.plan.framework = pz_framework_find("torchtitan");
  run.plan.devices = 32;
  run.plan.pp = 4;
  run.plan.zero = 2;
  run.plan.mbs = 1;
  run.plan.batch = 64;
  run.plan.seq = 8192;
  run.plan.recompute = PZ_RECOMPUTATION_NONE;
  run.plan.execution = PZ_EXECUTION_EAGER;
  require(pz_test_chip_read("h200", &chip, &err) == PZ_OK);
  require(pz_network_find(&chip, NULL, 32, "devices", &at, &err) == PZ_OK);
  struct pz_diff_side side = {.size = sizeof side, .run = &run, .chip = &chip, .net = &at.cluster};
  if (was_read(pz_rehearsal_read(&side, "fuzz", text, bytes, &r, &err), &err)) {
    require(r->n_ranks > 0 && (!r->chip || pz_test_chip_check(r->chip, &err) == PZ_OK));
    for (uint32_t i = 0; i < r->n_ranks; i++)
      require(r->ranks[i].predicted[PZ_REHEARSAL_COMPUTE] > 0 &&
              isfinite(r->ranks[i].corrected_s) && isfinite(r->ranks[i].needed_bytes));
  }
  pz_rehearsal_free(r);
}

/* ---- limits and prices -------------------------------------------------------------------------- */

struct fuzzed_text {
  const char *text;
  size_t bytes;
};

static void compare_limits(struct pz_call *call, void *ctx) {
  const struct fuzzed_text *x = ctx;
  struct pz_validation v = pz_validation_summarize(call, NULL, 0);
  pz_limits_parse(call, "x", x->text, x->bytes, &v);
  pz_limits_compare(call, &v);
  for (uint32_t i = 0; i < v.n_broken; i++) require(v.broken[i].limit >= 0);
}

void fuzz_limits(const char *text, size_t bytes) {
  struct fuzzed_text x = {text, bytes};
  struct pz_error err = {0};
  (void)was_read(pz_border(compare_limits, &x, &err), &err);
}

static void read_prices(struct pz_call *call, void *ctx) {
  const struct fuzzed_text *x = ctx;
  struct pz_price_table table = pz_price_table_read(call, "x", x->text, x->bytes, "a.json,b");
  for (uint32_t i = 0; i < table.n_rows; i++)
    require(pz_price_of(&table, table.rows[i].chip) > 0 &&
            isfinite(table.rows[i].dollars_per_device_hour));
}

void fuzz_prices(const char *text, size_t bytes) {
  struct fuzzed_text x = {text, bytes};
  struct pz_error err = {0};
  (void)was_read(pz_border(read_prices, &x, &err), &err);
}
