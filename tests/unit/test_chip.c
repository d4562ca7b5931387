/* Chips and clusters: presets, area against the published library, errors. */
#include "chip/chip.h"
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "cost/cost.h"
#include "cost/mapper.h"
#include "step/predict.h"
#include "step_borders.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"
#include "workload/op.h"

static struct pz_chip load(const char *name) {
  struct pz_chip c;
  struct pz_error err = {0};
  if (pz_test_chip_read(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

static void near(double got, double want, double tolerance) {
  if (!(fabs(got - want) <= tolerance * fabs(want))) fail_msg("%.9g, want %.9g", got, want);
}

/* Published dense 16-bit peaks, TFLOP/s, and HBM rates, TB/s. */
static void presets_have_the_published_rates(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double tflops, tb_per_s;
  } want[] = {{"tpuv2", 46, 0.716},      {"tpuv3", 123, 0.9},
              {"tpuv4", 275, 1.2},       {"tpuv4-real", 275, 1.2},
              {"tpuv5e", 197, 0.819},    {"tpuv5p", 459, 2.765},
              {"tpuv6e", 920, 1.638},    {"tpuv7", 2307, 7.4},
              {"v100", 125, 0.9},        {"a100-40", 312, 1.555},
              {"a100-80", 312, 2.039},   {"h100", 989, 3.35},
              {"h200", 989, 4.8},        {"h200-nvl", 989, 4.8},
              {"b200", 2250, 8.0},       {"mi300x", 1307, 5.3},
              {"trainium2", 667, 2.9},   {"gaudi3", 1677, 3.7},
              {"gb200", 2500, 8.0},      {"h100-500w", 989, 2.4},
              {"h800", 989, 3.35},       {"b300", 2250, 8.0},
              {"gb300", 2500, 8.0},      {"l40s", 362, 0.864},
              {"mi210", 181, 1.64},      {"mi250x-gcd", 191.5, 1.64},
              {"mi325x", 1307.4, 6.0},   {"mi350x", 2300, 8.0},
              {"mi355x", 2500, 8.0},     {"gaudi1", 60, 0.9},
              {"gaudi2", 432, 2.46},     {"trainium1-core", 95, 0.41},
              {"ascend910b", 376, 1.6},  {"ascend910b-800t", 313, 1.6},
              {"v100-32", 125, 0.9},     {"v100-16", 125, 0.9},
              {"tpuv3-core", 61.5, 0.45}};
  size_t presets = 0;
  while (pz_chip_preset_name(presets)) presets++;
  assert_int_equal(presets, sizeof want / sizeof *want);
  for (size_t i = 0; i < presets; i++) {
    struct pz_chip c = load(want[i].name);
    near(pz_chip_tensor_flop_per_s(&c), want[i].tflops * 1e12, 0.01);
    near(pz_chip_hbm_bytes_per_s(&c), want[i].tb_per_s * 1e12, 0.01);
  }
}

/* ---- what presets reach --------------------------------------------------------------------- */

static double product_s(const struct pz_chip *c, int64_t m, int64_t n, int64_t k) {
  struct pz_op op = {.name = "product",
                     .kind = PZ_OP_MATMUL,
                     .op_class = PZ_CLASS_TENSOR,
                     .dims = {1, m, n, k},
                     .flop = 2 * m * n * k,
                     .matmul_flop = 2 * m * n * k,
                     .bytes_read = 2 * (m * k + k * n),
                     .bytes_written = 2 * m * n};
  struct pz_cost cost;
  struct pz_estimate e;
  struct pz_error err = {0};
  pz_cost_init(&cost, c, NULL);
  if (pz_cost_op(&cost, &op, &e, &err) != PZ_OK) fail_msg("%s: %s", c->name, err.message);
  pz_cost_release(&cost);
  return e.latency_s;
}

static double vector_s(const struct pz_chip *c, int kind, int64_t rows, int64_t cols) {
  struct pz_op op = {.name = "vector",
                     .kind = kind,
                     .op_class = PZ_CLASS_VECTOR,
                     .dims = {1, rows, cols, 1},
                     .flop = rows * cols,
                     .bytes_read = 4 * rows * cols,
                     .bytes_written = 2 * rows * cols};
  struct pz_cost cost;
  struct pz_estimate e;
  struct pz_error err = {0};
  pz_cost_init(&cost, c, NULL);
  if (pz_cost_op(&cost, &op, &e, &err) != PZ_OK) fail_msg("%s: %s", c->name, err.message);
  pz_cost_release(&cost);
  return e.latency_s;
}

/* Nothing that was measured runs at its data sheet. */
static void presets_stay_below_their_data_sheet(void **state) {
  (void)state;
  const double most = 0.97;
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip c = load(pz_chip_preset_name(i));
    if (!(c.calibration.tensor_efficiency < 1)) continue;
    int64_t side = 8192;
    double flop = 2.0 * (double)side * (double)side * (double)side;
    double products = flop / product_s(&c, side, side, side) / pz_chip_tensor_flop_per_s(&c);
    double bytes = 6.0 * (double)side * (double)side * 4;
    double memory = bytes / vector_s(&c, PZ_OP_ADD, 4 * side, side) / pz_chip_hbm_bytes_per_s(&c);
    if (!(products > 0.3 && products < most && memory > 0.3 && memory < most))
      fail_msg("%s: products at %.2f, memory at %.2f of the data sheet", c.name, products, memory);
  }
}

/* Lines of chips, each no slower than the one before. */
static const char *const lines[][9] = {
    {"v100", "a100-40", "a100-80", "h100", "h200", "b200", "b300", NULL},
    {"h100-500w", "h100", "h800", "h200", NULL}, /* an H800 has an H100's compute */
    {"h200-nvl", "h200", NULL},
    {"b200", "gb200", "gb300", NULL},
    {"tpuv2", "tpuv3", "tpuv4-real", "tpuv5p", "tpuv7", NULL},
    {"tpuv5e", "tpuv6e", "tpuv7", NULL}};

static void no_slower(const char *line_before, const char *chip, double before, double now,
                      const char *what) {
  if (now > before * (1 + 1e-9))
    fail_msg("%s takes %.4g s for %s, %s %.4g s", chip, now, what, line_before, before);
}

static void newer_chips_run_operators_no_slower(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{8192, 8192, 8192}, {4096, 12288, 1536}, {2048, 2048, 2048},
                                     {512, 4096, 4096},  {128, 8192, 1024},   {64, 128, 128}};
  static const int kinds[] = {PZ_OP_ADD, PZ_OP_GELU, PZ_OP_LAYERNORM, PZ_OP_SOFTMAX};
  for (size_t l = 0; l < sizeof lines / sizeof *lines; l++)
    for (size_t i = 1; lines[l][i]; i++) {
      struct pz_chip old = load(lines[l][i - 1]), new = load(lines[l][i]);
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        if (new.rules.fill && sizes[s][0] < 2048) continue; /* a larger array is slower to fill */
        no_slower(old.name, new.name, product_s(&old, sizes[s][0], sizes[s][1], sizes[s][2]),
                  product_s(&new, sizes[s][0], sizes[s][1], sizes[s][2]), "a product");
      }
      for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        no_slower(old.name, new.name, vector_s(&old, kinds[k], 4096, 4096),
                  vector_s(&new, kinds[k], 4096, 4096), pz_op_info(kinds[k])->name);
    }
}

static double step_s(const char *chip, int plan) {
  static const struct {
    const char *model;
    int64_t tp, pp, dp, mbs, batch;
    enum pz_attention attention;
    enum pz_recomputation recompute;
    int zero;
  } plans[] = {
      {"gpt2", 1, 1, 8, 4, 64, PZ_ATTENTION_STANDARD, PZ_RECOMPUTATION_NONE, 0},
      {"llama2-7b", 4, 1, 2, 1, 16, PZ_ATTENTION_FLASH, PZ_RECOMPUTATION_SELECTIVE, 1},
      {"llama2-7b", 1, 2, 8, 2, 64, PZ_ATTENTION_FLASH, PZ_RECOMPUTATION_FULL, 1},
      {"llama2-7b", 1, 1, 16, 1, 32, PZ_ATTENTION_FLASH, PZ_RECOMPUTATION_FULL, 3},
  };
  struct pz_plan p = {.tp = plans[plan].tp,
                      .pp = plans[plan].pp,
                      .vpp = 1,
                      .dp = plans[plan].dp,
                      .mbs = plans[plan].mbs,
                      .batch = plans[plan].batch,
                      .recompute = (int)plans[plan].recompute,
                      .zero = plans[plan].zero,
                      .execution = PZ_EXECUTION_GRAPH,
                      .grad_bytes = 4,
                      .attention = (int)plans[plan].attention,
                      .framework = pz_framework_find("megatron")};
  struct pz_chip c = load(chip);
  struct pz_cluster net;
  struct pz_job job = {.model = plans[plan].model, .chip = &c, .net = &net};
  struct pz_prediction out;
  struct pz_error err = {0};
  assert_int_equal(pz_cluster_load("dgx-a100", &net, &err), PZ_OK);
  if (try_predict(&job, &p, &out, &err) != PZ_OK) fail_msg("%s", err.message);
  return out.step_s;
}

/* The same plans in the same network. */
static void newer_chips_train_no_slower(void **state) {
  (void)state;
  for (size_t l = 0; l < sizeof lines / sizeof *lines; l++)
    for (size_t i = 1; lines[l][i]; i++)
      for (int p = 0; p < 4; p++)
        no_slower(lines[l][i - 1], lines[l][i], step_s(lines[l][i - 1], p), step_s(lines[l][i], p),
                  "a step");
  assert_true(step_s("h800", 0) == step_s("h100", 0));
}

static void chips_say_how_operators_run(void **state) {
  (void)state;
  static const char *const stream[] = {
      "v100",   "a100-40", "a100-80", "h100",    "h100-500w", "h800",       "h200",   "h200-nvl",
      "b200",   "b300",    "gb200",   "gb300",   "mi210",     "mi250x-gcd", "mi300x", "mi325x",
      "mi350x", "mi355x",  "v100-32", "v100-16", "l40s",      NULL};
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip c = load(pz_chip_preset_name(i));
    enum pz_chip_execution want = strcmp(c.name, "tpuv4") == 0 ? PZ_CHIP_SCHEDULED : PZ_CHIP_SERIAL;
    for (size_t k = 0; stream[k]; k++)
      if (strcmp(stream[k], c.name) == 0) want = PZ_CHIP_STREAM;
    assert_int_equal(c.execution, want);
    json_t *o = pz_chip_json(&c);
    assert_true((json_object_get(o, "execution") != NULL) == (want != PZ_CHIP_SCHEDULED));
    json_decref(o);
  }
}

/* Components of the original 22 nm library, um2, as the sums are published (rounded to 0.001). */
static void area_22nm_is_the_librarys(void **state) {
  (void)state;
  static const struct {
    int64_t macs;
    double um2;
  } tensor[] = {{4, 9174.146},         {8, 12214.311},        {16, 18294.642},
                {32, 30455.304},       {64, 54776.629},       {128, 105533.727},
                {256, 207181.095},     {512, 411281.090},     {1024, 816865.379},
                {2048, 1619903.159},   {4096, 3228708.517},   {8192, 6431023.034},
                {16384, 12899083.068}, {32768, 25802926.136}, {65536, 51444202.273}};
  static const struct {
    int64_t lanes;
    double um2;
  } vector[] = {{2, 7653.628},   {4, 9173.275},   {8, 12212.571},    {16, 18291.162},
                {32, 30448.343}, {64, 54762.707}, {128, 105505.883}, {256, 207125.406}};
  static const double glb[] = {3338220, 6078640, 11952400, 23745200, 46750900, 88605700, 175423000};
  struct pz_chip c = load("tpuv4");
  c.tensor.cores = c.vector.cores = 1;
  for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) {
    c.tensor.rows = tensor[i].macs > 256 ? 256 : tensor[i].macs;
    c.tensor.cols = tensor[i].macs / c.tensor.rows;
    c.tensor.local_bytes = tensor[i].macs * 16 > 1024 ? tensor[i].macs * 16 : 1024;
    struct pz_area a = pz_chip_area(&c);
    assert_true(fabs(a.tensor_um2 + a.tensor_local_um2 - tensor[i].um2) <= 0.00051);
  }
  for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
    c.vector.lanes = vector[i].lanes;
    c.vector.local_bytes = vector[i].lanes * 16 > 1024 ? vector[i].lanes * 16 : 1024;
    struct pz_area a = pz_chip_area(&c);
    assert_true(fabs(a.vector_um2 + a.vector_local_um2 - vector[i].um2) <= 0.00051);
  }
  for (int i = 0; i < 7; i++) {
    c.glb_bytes = INT64_C(2) << (20 + i);
    assert_true(pz_chip_area(&c).glb_um2 == glb[i]);
  }
  c = load("tpuv4");
  struct pz_area a = pz_chip_area(&c);
  assert_true(fabs(pz_area_total_um2(&a) - 278826676.31216) < 1e-5);
}

/* More of anything never takes less area, in every technology; between library sizes too. */
static void area_grows_with_every_part(void **state) {
  (void)state;
  for (enum pz_tech t = 0; t < PZ_TECHS; t++) {
    struct pz_chip c = load("tpuv4");
    double before = 0;
    c.tech = t;
    for (int64_t bytes = 1 << 20; bytes <= 300 << 20; bytes += 777777) {
      c.glb_bytes = bytes;
      struct pz_area a = pz_chip_area(&c);
      assert_true(a.glb_um2 > before);
      before = a.glb_um2;
    }
    assert_true(pz_chip_peak_watts(&c) > 0);
  }
}

static void a_chip_survives_its_own_json(void **state) {
  (void)state;
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip c = load(pz_chip_preset_name(i)), again;
    struct pz_error err = {0};
    json_t *json = pz_chip_json(&c);
    char *text = NULL;
    assert_int_equal(pz_json_text(json, &text, &err), PZ_OK);
    if (pz_test_chip_parse("again", text, strlen(text), &again, &err) != PZ_OK)
      fail_msg("%s", err.message);
    json_t *second = pz_chip_json(&again);
    assert_true(json_equal(json, second));
    json_decref(json);
    json_decref(second);
    free(text);
  }
}

/* Without measurements every preset is what a file without a calibration gives. */
static void described_chips_have_no_calibration(void **state) {
  (void)state;
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip c;
    assert_int_equal(pz_test_chip_load_described(pz_chip_preset_name(i), &c, NULL), PZ_OK);
    json_t *o = pz_chip_json(&c), *none = json_object();
    double l2 = c.calibration.warm_from_bytes;
    assert_true(l2 == (double)c.glb_bytes && c.calibration.tensor_efficiency == 1);
    json_object_set(o, "calibration", none);
    char *text = pz_json_dump(o, 0);
    struct pz_chip again;
    assert_int_equal(pz_test_chip_parse("again", text, strlen(text), &again, NULL), PZ_OK);
    assert_memory_equal(&again.calibration, &c.calibration, sizeof c.calibration);
    pz_free(text);
    json_decref(none);
    json_decref(o);
  }
}

static const char good[] =
    "{\"name\":\"mine\",\"tech\":\"7nm\",\"clock_hz\":1e9,\"tensor\":{\"cores\":4,\"rows\":8,"
    "\"cols\":8,\"local_bytes\":4096},\"vector\":{\"cores\":1,\"lanes\":8},\"glb\":{\"bytes\":"
    "65536,\"bytes_per_s\":1e12},\"hbm\":{\"stacks\":1,\"bytes_per_stack\":1073741824,"
    "\"bytes_per_s_per_stack\":1e11}}";

/* `good` with one piece of text replaced. */
static const char *with(const char *old, const char *new, char *buf, size_t size) {
  const char *at = strstr(good, old);
  assert_non_null(at);
  snprintf(buf, size, "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
  return buf;
}

/* Each number is in another unit than the field: the message has the number with the power of 1000 that brings it nearest
 * to the middle of the usual range, which for a link is 1e6 to 1e15 bytes/s: 450e9 is 15 times the middle 3.2e10, 450e6 a
 * 70th of it, and 450e12 14,000 times. */
static void numbers_in_other_units_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *old, *new, *message;
  } chips[] = {
      {"\"clock_hz\":1e9", "\"clock_hz\":1.5",
       "chip.json: field 'clock_hz' is 1.5 Hz; did you mean 1.5e9? accepted: 5e+07 to 1e+11; "
       "\"any_units\": true in the "
       "file, or --any-units, accepts it"},
      {"\"clock_hz\":1e9", "\"clock_hz\":1500", "is 1500 Hz; did you mean 1500e6? accepted"},
      {"\"clock_hz\":1e9", "\"clock_hz\":2e15", "is 2e+15 Hz; did you mean 2e+09? accepted"},
      {"\"bytes_per_stack\":1073741824", "\"bytes_per_stack\":24",
       "is 24 bytes; did you mean 24000000000? accepted: 10000000 to 100000000000000;"},
      {"\"bytes_per_s_per_stack\":1e11", "\"bytes_per_s_per_stack\":819",
       "819 bytes/s; did you mean 819e9?"},
      {"\"bytes_per_s\":1e12", "\"bytes_per_s\":5.5", "5.5 bytes/s; did you mean 5.5e12?"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"watts\":0.7",
       "is 0.7 W; did you mean 0.7e3? accepted: 0, 1 to 100000;"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"link\":{\"bytes_per_s\":450,\"latency_s\":1e-6}",
       "field 'link.bytes_per_s' is 450 bytes/s; did you mean 450e9?"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"link\":{\"bytes_per_s\":450e9,\"latency_s\":5}",
       "field 'link.latency_s' is 5 s; did you mean 5e-6? accepted: 0, 1e-09 to 0.1;"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"calibration\":{\"startup_s\":2.3}",
       "field 'calibration.startup_s' is 2.3 s; did you mean 2.3e-6? accepted: 0 to 0.001;"},
  };
  static const char slow[] =
      "{\"devices\":4,\"levels\":[{\"devices\":4,\"bytes_per_s\":450,\"latency_s\":1e-6}]}",
                    meant[] = "{\"devices\":4,\"any_units\":true,\"levels\":[{\"devices\":4,"
                              "\"bytes_per_s\":450,\"latency_s\":1e-6}]}";
  struct pz_chip c;
  struct pz_cluster n;
  struct pz_error err = {0};
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
    char buf[1024];
    const char *text = with(chips[i].old, chips[i].new, buf, sizeof buf);
    err = (struct pz_error){0};
    assert_int_equal(pz_test_chip_parse("chip.json", text, strlen(text), &c, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, chips[i].message))
      fail_msg("'%s' lacks '%s'", err.message, chips[i].message);
    bool sensible = chips[i].new[1] != 't' && strcmp(chips[i].new, "\"clock_hz\":2e15") != 0;
    enum pz_status status = pz_test_chip_parse_units("chip.json", text, strlen(text), &c, NULL);
    if (sensible) assert_int_equal(status, PZ_OK);
  }
  err = (struct pz_error){0};
  assert_int_equal(pz_cluster_parse("net", slow, strlen(slow), &n, &err), PZ_BAD_INPUT);
  assert_string_equal(err.message,
                      "net: levels[0]: field 'bytes_per_s' is 450 bytes/s; did you mean 450e9? "
                      "accepted: 1e+06 to 1e+15; "
                      "\"any_units\": true in the file, or --any-units, accepts it");
  assert_int_equal(pz_cluster_parse("net", meant, strlen(meant), &n, &err), PZ_OK);
  assert_true(n.level[0].bytes_per_s == 450 && n.any_units);
}

/* A chip that says that its numbers are meant keeps them when it is written and read, and takes others. */
static void meant_units_stay(void **state) {
  (void)state;
  char buf[1024], *written = NULL;
  const char *text =
      with("\"clock_hz\":1e9", "\"clock_hz\":1.5,\"any_units\":true", buf, sizeof buf);
  struct pz_chip c, again = {.any_units = false};
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_parse("chip.json", text, strlen(text), &c, &err), PZ_OK);
  assert_int_equal(pz_chip_text(&c, &written, &err), PZ_OK);
  assert_int_equal(pz_test_chip_parse("chip.json", written, strlen(written), &again, &err), PZ_OK);
  assert_true(again.clock_hz == 1.5 && again.any_units);
  pz_text_free(written);
  assert_int_equal(pz_chip_set_number(&c, "hbm.bytes_per_s_per_stack", 800, &err), PZ_OK);
  assert_int_equal(pz_chip_set_number(&c, "any_units", 0, &err), PZ_OK);
  assert_int_equal(pz_chip_set_number(&c, "hbm.bytes_per_s_per_stack", 800, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "did you mean 800e9?"));
}

/* 4 GiB have 0 in their lower 32 bits. */
static void large_sizes_stay(void **state) {
  (void)state;
  char buf[1024], *written = NULL;
  const char *text =
      with("\"clock_hz\":1e9",
           "\"clock_hz\":1e9,\"package\":{\"dies\":1,\"sram_bytes\":4294967296}", buf, sizeof buf);
  struct pz_chip c, again = {.any_units = false};
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_parse("chip.json", text, strlen(text), &c, &err), PZ_OK);
  assert_int_equal(pz_chip_text(&c, &written, &err), PZ_OK);
  assert_int_equal(pz_test_chip_parse("chip.json", written, strlen(written), &again, &err), PZ_OK);
  assert_true(again.package.sram_bytes == INT64_C(1) << 32);
  pz_text_free(written);
}

static void bad_chips_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *old, *new, *message;
  } bad[] = {
      {"\"cores\":4", "\"cores\":0",
       "field 'tensor.cores' is 0; accepted: an integer from 1 to 1048576"},
      {"\"rows\":8", "\"rows\":-8", "field 'tensor.rows' is -8;"},
      {"\"clock_hz\":1e9", "\"clock_hz\":\"fast\"",
       "field 'clock_hz' is \"fast\"; accepted: a number"},
      {"\"clock_hz\":1e9,", "", "field 'clock_hz' is missing"},
      {"\"bytes_per_s\":1e12", "\"bytes_per_s\":-1e12",
       "field 'glb.bytes_per_s' is -1000000000000.0;"},
      {"\"clock_hz\":1e9", "\"clock_hz\":NaN", "not valid JSON"},
      {"\"clock_hz\":1e9", "\"clock_hz\":1e400", "not valid JSON"},
      {"\"tech\":\"7nm\"", "\"tech\":\"2nm\"",
       "field 'tech' is \"2nm\"; accepted: one of 45nm, 22nm, 16nm, 7nm, 5nm, 3nm"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"package\":{\"dies\":-1}",
       "field 'package.dies' is -1; accepted: an integer from 0 to 64"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"package\":{\"dies\":1,\"io_tech\":\"6nm\"}",
       "field 'package.io_tech' is \"6nm\"; accepted: one of"},
      {"\"local_bytes\":4096", "\"local_bytes\":600",
       "field 'tensor.local_bytes' is 600; accepted: at least the 768 bytes of the smallest tile"},
      {"\"glb\":{\"bytes\":65536", "\"any_units\":true,\"glb\":{\"bytes\":3",
       "field 'glb.bytes' is 3; accepted: at least the 768 bytes of the smallest tile"},
      {"\"stacks\":1,", "", "field 'hbm.stacks' is missing"},
      {"\"tech\":\"7nm\"", "\"tech\":\"7nm\",\"execution\":\"eager\"",
       "field 'execution' is \"eager\"; accepted: scheduled, stream or serial"},
      {"\"tensor\":{", "\"tensor\":[{", "not valid JSON"},
      {"\"lanes\":8}", "\"lanes\":8},\"calibration\":{\"tensor_efficiency\":2}",
       "field 'calibration.tensor_efficiency' is 2; accepted: a number from 0.01 to 1"},
      {"\"lanes\":8}", "\"lanes\":8},\"calibration\":{\"fp8_block_speedup\":0.5}",
       "field 'calibration.fp8_block_speedup' is 0.5; accepted: 0, or 1 to 16"},
      {"\"lanes\":8}", "\"lanes\":8},\"rules\":5", "field 'rules' is 5; accepted: an object"},
      {"\"tensor\":{", "\"link\":[1],\"tensor\":{", "field 'link' is [1]; accepted: an object"},
      {"\"lanes\":8}", "\"lanes\":8},\"calibration\":{\"kernels\":{\"softmax\":7}}",
       "kernel softmax is an integer; accepted: an object"},
      {"\"lanes\":8}",
       "\"lanes\":8},\"calibration\":{\"kernels\":{\"softmax\":{\"cycles\":\"a\"}}}",
       "kernel softmax: field 'cycles' is \"a\"; accepted: a number"},
      {"\"lanes\":8}", "\"lanes\":8},\"calibration\":{\"tiles\":[4,2]}",
       "field 'calibration.tiles' is [4,2]; accepted: at most 8 ascending sizes"},
      {"\"hbm\":", "\"hbn\":", "chip.json: unknown key 'hbn'; did you mean 'hbm'?"},
      {"\"cores\":4", "\"core\":4",
       "chip.json: unknown key 'tensor.core'; did you mean 'tensor.cores'?"},
      {"\"lanes\":8}", "\"lanes\":8},\"colour\":4",
       "chip.json: unknown key 'colour'; accepted: name, about, tech, execution, clock_hz, "},
      {"\"lanes\":8}", "\"lanes\":8},\"hbm_stacks\":4",
       "chip.json: unknown key 'hbm_stacks'; did you mean 'hbm.stacks' (stacks in the object "},
      {"\"lanes\":8", "\"lanes\":8,\"registers\":9",
       "unknown key 'vector.registers'; accepted in vector: cores, lanes, local_bytes"},
      {"\"lanes\":8}", "\"lanes\":8},\"rules\":{\"dupplex\":true}",
       "unknown key 'rules.dupplex'; did you mean 'rules.duplex'?"},
      {"\"lanes\":8}", "\"lanes\":8},\"calibration\":{\"throtle\":2}",
       "unknown key 'calibration.throtle'; did you mean 'calibration.throttle'?"},
      {"\"lanes\":8}", "\"lanes\":8},\"calibration\":{\"kernels\":{\"softmax\":{\"cycle\":3}}}",
       "chip.json: kernel softmax: unknown key 'cycle'; did you mean 'cycles'?"},
  };
  struct pz_chip c;
  struct pz_error none = {0};
  assert_int_equal(pz_test_chip_parse("chip.json", good, strlen(good), &c, &none), PZ_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char buf[1024];
    struct pz_error err = {0};
    const char *text = with(bad[i].old, bad[i].new, buf, sizeof buf);
    if (pz_test_chip_parse("chip.json", text, strlen(text), &c, &err) != PZ_BAD_INPUT)
      fail_msg("not refused: %s", bad[i].new);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

/* ---- buffers that hold a tile --------------------------------------------------------------- */

static uint64_t seed = 11;

static int64_t draw(int64_t n) { return pz_random_lcg(&seed) % n; }

/* The text of a chip whose buffers are too small more often than not. */
static const char *draw_chip(char *buf, size_t size, int64_t local, int64_t glb, bool library,
                             uint64_t from) {
  static const char *const yes[] = {"false", "true"};
  char tiles[120] = "";
  uint64_t before = seed;
  seed = from;
  int64_t sides = draw(2) ? 12 : 300, first = 1 + draw(60);
  if (library)
    snprintf(tiles, sizeof tiles, ",\"calibration\":{\"tiles\":[%lld,%lld],\"most_splits\":%d}",
             (long long)first, (long long)(first + 1 + draw(60)), (int)(1 + draw(8)));
  snprintf(buf, size,
           "{\"tech\":\"7nm\",\"any_units\":true,\"clock_hz\":1e9,\"tensor\":{\"cores\":%d,"
           "\"rows\":%d,\"cols\":%d,"
           "\"local_bytes\":%lld,\"register_bytes\":16%s},\"vector\":{\"cores\":1,\"lanes\":8},"
           "\"glb\":{\"bytes\":%lld,\"bytes_per_s\":1e12},\"hbm\":{\"stacks\":1,"
           "\"bytes_per_stack\":1073741824,\"bytes_per_s_per_stack\":1e11},\"rules\":{\"fill\":%s,"
           "\"partitioned\":%s,\"double_buffer\":%s,\"operand_bytes\":%d,\"sum_bytes\":%d}%s}",
           (int)(1 + draw(9)), (int)(1 + draw(sides)), (int)(1 + draw(sides)), (long long)local,
           draw(2) ? ",\"local_bytes_per_s\":1e10" : "", (long long)glb, yes[draw(2)], yes[draw(2)],
           yes[draw(2)], 1 << draw(4), 1 << draw(4), tiles);
  seed = before;
  return buf;
}

/* Does every product of a set find tiles: sizes at and beyond the array, and those that halve to
 * just what is too short? */
static bool maps_all(const struct pz_chip *c) {
  int64_t side = c->tensor.rows < c->tensor.cols ? c->tensor.rows : c->tensor.cols;
  int64_t least = pz_chip_least_tile(c), worst = least > 1 ? 2 * least - 2 : 1;
  while (worst <= side) worst *= 2;
  const int64_t sizes[] = {1, side, side + 1, worst, 4099};
  enum { N = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < N * N * N; i++) {
    struct pz_product p = {1, sizes[i % N], sizes[i / N % N], sizes[i / N / N], false};
    struct pz_mapping o;
    struct pz_error err = {0};
    if (pz_map_product(&p, c, &o, &err) == PZ_OK) continue;
    assert_non_null(strstr(err.message, "no tile fits its buffers of "));
    return false;
  }
  return true;
}

/* Every chip that is accepted can work, and the least that a refusal names is just enough. */
static void buffers_hold_a_tile_or_are_refused(void **state) {
  (void)state;
  int accepted = 0, refused = 0;
  for (int round = 0; round < pz_test_part(120); round++) {
    char text[1024];
    uint64_t from = seed;
    bool library = draw(4) == 0;
    int64_t local = 1 + draw(draw(2) ? 2000 : 200000), glb = 1 + draw(draw(2) ? 2000 : 400000);
    int64_t *size[] = {&local, &glb};
    static const char *const field[] = {"field 'tensor.local_bytes' is", "field 'glb.bytes' is"};
    for (int tries = 0;; tries++) {
      struct pz_chip c;
      struct pz_error err = {0};
      draw_chip(text, sizeof text, local, glb, library, from);
      if (pz_test_chip_parse("chip", text, strlen(text), &c, &err) == PZ_OK) {
        if (!maps_all(&c)) fail_msg("accepted, and does not work: %s", text);
        accepted += tries == 0;
        c.tensor.local_bytes = pz_chip_least_local_bytes(&c) - 1;
        assert_false(maps_all(&c));
        c.tensor.local_bytes = local;
        c.glb_bytes = pz_chip_least_glb_bytes(&c) - 1;
        assert_false(maps_all(&c));
        break;
      }
      assert_true(tries < 2);
      refused++;
      int which = strstr(err.message, field[0]) ? 0 : 1;
      const char *at = strstr(err.message, "accepted: at least the ");
      if (!strstr(err.message, field[which]) || !at) fail_msg("%s", err.message);
      int64_t least = atoll(at + strlen("accepted: at least the "));
      assert_true(least > *size[which]);
      *size[which] = least;
    }
  }
  assert_true(accepted > pz_test_part(12) && refused > pz_test_part(60));
}

static void limits_of_a_library_are_checked(void **state) {
  (void)state;
  struct pz_chip c;
  struct pz_error err = {0};
  char buf[1024];
  const char *text = with("\"lanes\":8}",
                          "\"lanes\":8},\"calibration\":{\"tiles\":[8,16],\"most_tile_values\":63}",
                          buf, sizeof buf);
  assert_int_equal(pz_test_chip_parse("chip", text, strlen(text), &c, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "field 'calibration.most_tile_values' is 63; accepted: at "
                                      "least the 64 values of the smallest tile"));
}

/* Where numbers are from, and what 'phaze chip --json' prints besides, is no mistake. */
static void words_about_a_chip_are_accepted(void **state) {
  (void)state;
  struct pz_chip c;
  struct pz_error err = {0};
  char buf[1024];
  const char *text = with("\"tech\"",
                          "\"sources\":{\"anything\":[1]},\"derived\":{\"x\":1},\"area\":{},"
                          "\"about\":\"mine\",\"tech\"",
                          buf, sizeof buf);
  if (pz_test_chip_parse("chip.json", text, strlen(text), &c, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

static void unknown_names_are_refused(void **state) {
  (void)state;
  struct pz_chip c;
  struct pz_cluster n;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h20", &c, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "unknown chip 'h20' (did you mean h200-nvl, h200?)"));
  err = (struct pz_error){0};
  assert_int_equal(pz_test_chip_read("a100", &c, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "unknown chip 'a100' (did you mean a100-40, a100-80?)"));
  err = (struct pz_error){0};
  assert_int_equal(pz_cluster_load("tpuv4", &n, &err), PZ_BAD_INPUT);
  assert_non_null(
      strstr(err.message, "unknown cluster 'tpuv4' (did you mean tpuv4-pod, tpuv4-real-pod?)"));
  err = (struct pz_error){0};
  assert_int_equal(pz_cluster_load("moon", &n, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "accepted: a100-8x12.5, a100-8x6.25, ascend-800t-a2"));
}

static void assert_read_back(const struct pz_cluster *was) {
  struct pz_cluster now;
  struct pz_error err = {0};
  json_t *o = pz_cluster_json(was);
  char *text = json_dumps(o, JSON_REAL_PRECISION(17));
  assert_int_equal(pz_cluster_parse("again", text, strlen(text), &now, &err), PZ_OK);
  assert_string_equal(now.name, was->name);
  assert_true(now.devices == was->devices && now.scales == was->scales);
  assert_int_equal(now.n_levels, was->n_levels);
  assert_memory_equal(now.level, was->level, (size_t)was->n_levels * sizeof *was->level);
  free(text);
  json_decref(o);
}

static void clusters_are_read_and_checked(void **state) {
  (void)state;
  struct pz_cluster n;
  struct pz_error err = {0};
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    if (pz_cluster_load(pz_cluster_preset_name(i), &n, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_read_back(&n);
  }
  assert_int_equal(pz_cluster_load("paper", &n, &err), PZ_OK);
  assert_int_equal(n.devices, 1024);
  assert_true(n.level[0].bytes_per_s == 4294967296.0 && n.level[0].latency_s == 0);
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"{\"devices\":4}", "field 'levels' is missing; accepted: an array of 1 to 8 levels"},
      {"{\"devices\":4,\"levels\":[]}", "field 'levels' is []"},
      {"{\"devices\":4,\"levels\":[{\"devices\":4,\"bytes_per_s\":0}]}",
       "field 'bytes_per_s' is 0;"},
      {"{\"devices\":4,\"levels\":[7]}", "levels[0] is 7; accepted: an object"},
      {"{\"devices\":4,\"levels\":[{\"devices\":2,\"bytes_per_s\":1e9},{\"devices\":2,\"bytes_per_"
       "s\":1e9}]}",
       "field 'devices' is 2; accepted: more than the level inside it has"},
      {"{\"devices\":9,\"levels\":[{\"devices\":2,\"bytes_per_s\":1e9}]}",
       "field 'devices' is 9; accepted: at most the devices of the last level"},
      {"{\"devices\":60,\"levels\":[{\"devices\":8,\"bytes_per_s\":1e9},{\"devices\":60,\"bytes_"
       "per_s\":1e9}]}",
       "net: levels[1]: field 'devices' is 60; accepted: a multiple of the 8 of the level inside"},
      {"{\"devices\":4,\"scale\":true,\"levels\":[{\"devices\":4,\"bytes_per_s\":1e9}]}",
       "net: unknown key 'scale'; did you mean 'scales'?"},
      {"{\"devices\":4,\"levels\":[{\"devices\":4,\"bytes_per_s\":1e9,\"latency\":1}]}",
       "net: levels[0]: unknown key 'latency'; did you mean 'latency_s'?"},
      {"{\"devices\":8,\"levels\":[{\"devices\":4,\"bytes_per_s\":1e9},{\"devices\":8,\"bytes_per_"
       "s\":3e9}]}",
       "net: levels[1]: field 'bytes_per_s' is 3000000000.0; accepted: at most the 1e+09 of the "
       "level inside it"},
      {"{\"devices\":8,\"levels\":[{\"devices\":8,\"bytes_per_s\":1e9,\"torus\":[4,4]}]}",
       "field 'torus' is [4,4]; accepted: 1 to 4 lengths whose product is the 8 devices"},
      {"{\"devices\":8,\"levels\":[{\"devices\":8,\"bytes_per_s\":1e9,\"torus\":8}]}",
       "field 'torus' is 8; accepted: 1 to 4 lengths"},
      {"{\"devices\":8,\"levels\":[{\"devices\":2,\"bytes_per_s\":1e9},{\"devices\":8,\"bytes_per_"
       "s\":1e9,\"torus\":[4,2]}]}",
       "field 'torus' is [4,2]; accepted: on the innermost level only"},
      {"{\"devices\":8,\"levels\":[{\"devices\":4,\"bytes_per_s\":1e9},{\"devices\":8,\"bytes_per_"
       "s\":1e9,\"mesh\":true}]}",
       "field 'mesh' is true; accepted: on the innermost level only"},
      {"{\"devices\":8,\"levels\":[{\"devices\":8,\"bytes_per_s\":1e9,\"torus\":[4,2],\"mesh\":"
       "true}]"
       "}",
       "field 'mesh' is true; accepted: without \"torus\""},
      {"{\"devices\":8,\"levels\":[{\"devices\":8,\"bytes_per_s\":1e9,\"torus\":[4,2],\"wrap\":0}]"
       "}",
       "field 'wrap' is 0;"},
      {"{\"devices\":4,\"scales\":1,\"levels\":[{\"devices\":4,\"bytes_per_s\":1e9}]}",
       "field 'scales' is 1; accepted: true or false"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    err = (struct pz_error){0};
    assert_int_equal(pz_cluster_parse("net", bad[i].text, strlen(bad[i].text), &n, &err),
                     PZ_BAD_INPUT);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

static void the_level_that_joins_devices(void **state) {
  (void)state;
  static const struct {
    int64_t devices;
    const char *level;
  } want[] = {
      {1, "nvlink"}, {8, "nvlink"}, {9, "infiniband"}, {1024, "infiniband"}, {4096, "infiniband"}};
  struct pz_cluster n, none = {0};
  assert_int_equal(pz_cluster_load("dgx-a100", &n, NULL), PZ_OK);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_string_equal(pz_cluster_level(&n, want[i].devices)->name, want[i].level);
  assert_null(pz_cluster_level(&none, 8));
}

/* More devices than a description has, only where it says that it scales. */
static void clusters_reach_as_far_as_they_say(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t most; /* 0: any number */
  } want[] = {{"paper", 0}, {"dgx-a100", 0}, {"dgx-h100", 0}, {"dgx-h200", 0}, {"tpuv4-pod", 4096}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct pz_cluster n;
    struct pz_error err = {0};
    assert_int_equal(pz_cluster_load(want[i].name, &n, &err), PZ_OK);
    struct pz_cluster as_read = n;
    assert_int_equal(pz_cluster_reach(&n, n.devices, "devices", &err), PZ_OK);
    assert_memory_equal(&n, &as_read, sizeof n);
    enum pz_status status = pz_cluster_reach(&n, 10001, "devices", &err);
    assert_int_equal(status, want[i].most ? PZ_BAD_USE : PZ_OK);
    if (want[i].most) {
      assert_string_equal(err.message,
                          "devices 10001: cluster tpuv4-pod has 4096 devices; accepted: at most "
                          "4096, or a cluster.json with \"scales\": true");
      assert_memory_equal(&n, &as_read, sizeof n);
      continue;
    }
    const struct pz_level *last = &n.level[n.n_levels - 1];
    assert_int_equal(n.devices, 10001);
    assert_int_equal(n.stated_devices, 1024);
    assert_true(last->devices >= 10001 && last->devices < 10009);
    assert_true(n.n_levels == 1 || last->devices % n.level[0].devices == 0);
    assert_true(last->bytes_per_s == as_read.level[n.n_levels - 1].bytes_per_s);
  }
}

/* Every preset but the one that is a single pod grows by whole groups of the level inside. */
static void clusters_of_today_scale_out(void **state) {
  (void)state;
  const int64_t devices = 1000001;
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    struct pz_cluster n;
    struct pz_error err = {0};
    assert_int_equal(pz_cluster_load(pz_cluster_preset_name(i), &n, &err), PZ_OK);
    assert_true(n.scales == (strcmp(n.name, "tpuv4-pod") != 0));
    if (!n.scales) continue;
    struct pz_level inner = n.level[0];
    assert_int_equal(pz_cluster_reach(&n, devices, "devices", &err), PZ_OK);
    int64_t group = n.n_levels > 1 ? n.level[n.n_levels - 2].devices : 1,
            all = n.level[n.n_levels - 1].devices;
    assert_true(n.devices == devices && all >= devices && all < devices + group &&
                all % group == 0);
    if (n.n_levels > 1) assert_memory_equal(&n.level[0], &inner, sizeof inner);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(presets_have_the_published_rates),
      cmocka_unit_test(presets_stay_below_their_data_sheet),
      cmocka_unit_test(newer_chips_run_operators_no_slower),
      cmocka_unit_test(newer_chips_train_no_slower),
      cmocka_unit_test(chips_say_how_operators_run),
      cmocka_unit_test(described_chips_have_no_calibration),
      cmocka_unit_test(area_22nm_is_the_librarys),
      cmocka_unit_test(area_grows_with_every_part),
      cmocka_unit_test(a_chip_survives_its_own_json),
      cmocka_unit_test(numbers_in_other_units_are_refused),
      cmocka_unit_test(meant_units_stay),
      cmocka_unit_test(large_sizes_stay),
      cmocka_unit_test(bad_chips_say_what_is_accepted),
      cmocka_unit_test(words_about_a_chip_are_accepted),
      cmocka_unit_test(buffers_hold_a_tile_or_are_refused),
      cmocka_unit_test(limits_of_a_library_are_checked),
      cmocka_unit_test(unknown_names_are_refused),
      cmocka_unit_test(clusters_are_read_and_checked),
      cmocka_unit_test(the_level_that_joins_devices),
      cmocka_unit_test(clusters_reach_as_far_as_they_say),
      cmocka_unit_test(clusters_of_today_scale_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
