/* MFU and HFU: FLOP in closed form, whatever the plan. */
#include "unit/testing.h"

#include <math.h>

#include "chip/chip.h"
#include "chip/cold.h"
#include "step/predict.h"
#include "step/step_energy.h"
#include "step_borders.h"
#include "unit/chip_borders.h"

static const double SEQ = 8192, LAYERS = 32, HIDDEN = 4096, FFN = 14336, VOCAB = 128256;

static struct pz_plan plain_plan(void) {
  return (struct pz_plan){.tp = 1,
                          .pp = 1,
                          .vpp = 1,
                          .dp = 1,
                          .mbs = 1,
                          .batch = 8,
                          .seq = (int64_t)SEQ,
                          .attention = PZ_ATTENTION_FLASH,
                          .execution = PZ_EXECUTION_GRAPH,
                          .grad_bytes = 4,
                          .framework = pz_framework_find("megatron")};
}

/* FLOP a token by the three rates. */
struct flop {
  double mfu, hfu, conventional;
};

static struct flop flop_of(const char *model, const struct pz_plan *plan) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_prediction p;
  struct pz_error err = {0};
  struct pz_job job = {.model = model, .chip = &chip, .net = &net};
  assert_int_equal(pz_test_chip_read("h200", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h200", &net, &err), PZ_OK);
  if (try_predict(&job, plan, &p, &err) != PZ_OK) fail_msg("%s: %s", model, err.message);
  assert_true(p.mfu > 0 && p.mfu < 1 && p.hfu >= p.mfu && p.hfu < 1);
  double unit = pz_chip_tensor_flop_per_s(&chip) / p.tokens_per_s_per_device;
  return (struct flop){p.mfu * unit, p.hfu * unit, p.mfu_conventional * unit};
}

static bool near(double a, double b, double by) { return fabs(a / b - 1) < by; }

/* Llama 3 8B: 8 key-value heads of 32. */
static double layer_params(void) { return HIDDEN * HIDDEN * 2.5 + 3 * HIDDEN * FFN + 2 * HIDDEN; }

static double model_params(void) { return LAYERS * layer_params() + VOCAB * HIDDEN + HIDDEN; }

/* Forward of a layer: two products of a token with half of the sequence. */
static double core_flop(void) { return 4 * HIDDEN * SEQ / 2; }

static void a_causal_model_counts_half_of_attention(void **state) {
  (void)state;
  double gemms = 6 * model_params(), attention = 3 * LAYERS * core_flop();
  for (int standard = 0; standard < 2; standard++) {
    struct pz_plan plan = plain_plan();
    plan.attention = standard ? PZ_ATTENTION_STANDARD : PZ_ATTENTION_FLASH;
    struct flop f = flop_of("llama3-8b", &plan);
    assert_true(near(f.mfu, gemms + attention, 1e-9) && f.hfu == f.mfu);
    assert_true(near(f.conventional, gemms + 12 * LAYERS * HIDDEN * SEQ, 1e-9));
  }
}

/* What is computed does not depend on how it is divided. */
static void division_changes_no_flop(void **state) {
  (void)state;
  static const struct {
    int64_t tp, cp, pp, dp, mbs;
    int form;
  } cases[] = {{8, 1, 1, 1, 1, 0},
               {2, 1, 2, 2, 2, 0},
               {1, 4, 2, 1, 1, PZ_CONTEXT_RING},
               {2, 2, 1, 2, 1, PZ_CONTEXT_ALL_TO_ALL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int recompute = 0; recompute < 2; recompute++) {
      struct pz_plan plan = plain_plan(), divided;
      plan.recompute = recompute ? PZ_RECOMPUTATION_FULL : PZ_RECOMPUTATION_NONE;
      divided = plan;
      divided.tp = cases[i].tp;
      divided.cp = cases[i].cp;
      divided.pp = cases[i].pp;
      divided.dp = cases[i].dp;
      divided.mbs = cases[i].mbs;
      divided.cp_form = cases[i].form;
      divided.sp = divided.tp > 1;
      struct flop a = flop_of("llama3-8b", &plan), b = flop_of("llama3-8b", &divided);
      assert_true(near(a.mfu, b.mfu, 1e-9) && near(a.hfu, b.hfu, 1e-9));
    }
}

/* Windows by the keys in them: 52 of Gemma 3's 62 layers have 1,024. */
static void windows_count_their_keys(void **state) {
  (void)state;
  struct pz_plan plan = plain_plan();
  plan.seq = 131072;
  plan.batch = 1;
  struct flop gemma = flop_of("gemma3-27b", &plan), oss = flop_of("gpt-oss-20b", &plan);
  double s = 131072, w = 1024, width = 32 * 128;
  double whole = 12 * 62 * width * s,
         attended = 12 * width * (10 * s / 2 + 52 * w * (1 - w / s / 2));
  assert_true(near(gemma.conventional - gemma.mfu, whole - attended, 1e-9));
  width = 64 * 64;
  w = 128;
  whole = 12 * 24 * width * s;
  attended = 12 * 12 * width * (s / 2 + w * (1 - w / s / 2));
  assert_true(near(oss.conventional - oss.mfu, whole - attended, 1e-9));
}

/* FLOP a token that are recomputed. */
static double recomputed(const struct pz_plan *plan) {
  struct flop f = flop_of("llama3-8b", plan);
  return f.hfu - f.mfu;
}

static void hfu_counts_what_is_recomputed(void **state) {
  (void)state;
  struct pz_plan plan = plain_plan();
  double gemms = 2 * LAYERS * layer_params(), core = LAYERS * core_flop();
  plan.recompute = PZ_RECOMPUTATION_FULL;
  assert_true(near(recomputed(&plan), gemms + core, 1e-9));
  plan.recompute_layers = 8;
  assert_true(near(recomputed(&plan), (gemms + core) / 4, 1e-9));
  plan.pp = 2; /* of each stage */
  assert_true(near(recomputed(&plan), (gemms + core) / 2, 1e-9));
  plan.pp = 1;
  plan.recompute_layers = 0;
  plan.recompute = PZ_RECOMPUTATION_HALF;
  assert_true(near(recomputed(&plan), (gemms + core) / 2, 1e-9));
  plan.recompute = PZ_RECOMPUTATION_ALTERNATE;
  assert_true(near(recomputed(&plan), gemms / 2, 1e-9));
  plan.recompute = PZ_RECOMPUTATION_SELECTIVE;
  assert_true(near(recomputed(&plan), core, 1e-9));
  plan.recompute = PZ_RECOMPUTATION_FULL; /* checkpoints of PyTorch end before the last GEMM */
  plan.framework = pz_framework_find("torch");
  double last = 2 * LAYERS * HIDDEN * FFN;
  assert_true(near(recomputed(&plan), gemms + core - last, 1e-4));
}

static void modules_count_their_gemms(void **state) {
  (void)state;
  struct pz_plan plan = plain_plan();
  double core = LAYERS * core_flop(), mlp = 2 * LAYERS * 3 * HIDDEN * FFN;
  plan.recompute = PZ_RECOMPUTATION_SELECTIVE;
  plan.recompute_modules = PZ_MODULE_NORM;
  assert_true(recomputed(&plan) == 0);
  plan.recompute_modules = PZ_MODULE_NORM | PZ_MODULE_MLP; /* weights of norms are 4e-5 of all */
  assert_true(near(recomputed(&plan), mlp, 1e-4));
  plan.recompute_modules = PZ_MODULE_MLP | PZ_MODULE_CORE;
  assert_true(near(recomputed(&plan), mlp + core, 1e-4));
}

/* Compiled programs recompute what backward reads and is not saved. */
static void saved_gemms_are_not_counted(void **state) {
  (void)state;
  struct pz_plan plan = plain_plan();
  plan.recompute = PZ_RECOMPUTATION_FULL;
  plan.framework = pz_framework_find("maxtext");
  double gemms = 2 * LAYERS * layer_params(), core = LAYERS * core_flop();
  double last = 2 * LAYERS * HIDDEN * FFN; /* its result is the layer's, which is saved */
  assert_true(near(recomputed(&plan), gemms + core - last, 1e-4));
  plan.saved = PZ_SAVED_QKV | PZ_SAVED_OUT | PZ_SAVED_MLP_IN | PZ_SAVED_MLP_OUT;
  assert_true(near(recomputed(&plan), core, 1e-9));
  plan.saved |= PZ_SAVED_CONTEXT;
  assert_true(recomputed(&plan) == 0);
}

struct roof {
  const struct pz_chip *chip;
  double highest[2]; /* part of the roof that any reaches: element-wise operators, products */
};

static void below_roof(struct pz_call *call, void *ctx, const struct pz_step_operator *x) {
  (void)call;
  struct roof *r = ctx;
  bool product = x->op->matmul_flop > 0;
  double peak = product ? pz_chip_tensor_flop_per_s(r->chip) : pz_chip_vector_op_per_s(r->chip);
  double roof = fmin(peak, x->operations / x->hbm_bytes * pz_chip_hbm_bytes_per_s(r->chip));
  double part = x->operations / x->seconds / roof;
  if (!(part <= 1 + 1e-9)) print_message("%s: %g of the roof\n", x->op->name, part);
  assert_true(part <= 1 + 1e-9 && x->seconds > 0 && x->times >= 1);
  r->highest[product] = fmax(r->highest[product], part);
}

/* Causal attention, windows, experts, both directions of attention; with many and with few vector cores for the tensor
 * cores. */
static void operators_lie_below_the_roof(void **state) {
  static const char *const models[] = {"gpt2", "bert-large", "llama3-8b", "gemma2-9b",
                                       "mixtral-8x7b"};
  (void)state;
  for (size_t i = 0; i < 2 * sizeof models / sizeof *models; i++) {
    struct pz_chip chip;
    struct pz_error err = {0};
    assert_int_equal(pz_test_chip_read("tpuv5p", &chip, &err), PZ_OK);
    chip.vector.cores *= i % 2 ? 16 : 1;
    assert_int_equal(pz_test_chip_make_cold(&chip, NULL, &err), PZ_OK);
    struct pz_cluster net = pz_cluster_flat(8, chip.link_bytes_per_s, chip.link_latency_s);
    struct pz_plan plan = plain_plan();
    plan.seq = i < 4 ? 512 : 4096;
    plan.framework = pz_framework_find("compiled");
    struct pz_job job = {.model = models[i / 2], .chip = &chip, .net = &net};
    struct roof roof = {.chip = &chip};
    if (try_step_operators(&job, &plan, below_roof, &roof, &err) != PZ_OK)
      fail_msg("%s", err.message);
    assert_true(roof.highest[0] > 0.8 && roof.highest[1] > 0.3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_causal_model_counts_half_of_attention),
      cmocka_unit_test(division_changes_no_flop),
      cmocka_unit_test(windows_count_their_keys),
      cmocka_unit_test(hfu_counts_what_is_recomputed),
      cmocka_unit_test(modules_count_their_gemms),
      cmocka_unit_test(saved_gemms_are_not_counted),
      cmocka_unit_test(operators_lie_below_the_roof),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
