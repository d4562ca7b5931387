/* Hybrids: parameters of models with Mamba and delta-rule layers, what their operators count and save, layers that
 * predict further tokens over stages, patterns that are refused. */
#include "unit/testing.h"

#include <stdio.h>

#include "plan/plan.h"
#include "step/training_memory.h"
#include "workload/op.h"

static const char FOLDER[] = PHAZE_TEST_DATA "/hybrid/";

struct model {
  char name[64], type[64], path[600];
  long long params, with_prediction; /* 0: it has no such layers */
};

typedef void model_fn(const struct model *m);

/* Every row of the index: name,model_type,params,params_with_prediction,count. */
static void each_model(model_fn *fn) {
  char path[600], line[256];
  int n = 0;
  snprintf(path, sizeof path, "%sindex.csv", FOLDER);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    struct model m;
    if (sscanf(line, "%63[^,],%63[^,],%lld,%lld", m.name, m.type, &m.params, &m.with_prediction) !=
        4)
      continue;
    snprintf(m.path, sizeof m.path, "%s%s.config.json", FOLDER, m.name);
    fn(&m);
    n++;
  }
  fclose(f);
  assert_true(n >= 20);
}

static void check_params(const struct model *m) {
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = 64;
  for (int k = 0; k < 4; k++) {
    o.mtp = k & 1;
    o.kernels = k & 2 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
    if (o.mtp && !m->with_prediction) continue;
    struct pz_workload *w = pz_test_load(m->path, &o);
    assert_string_equal(w->family, m->type);
    long long want = o.mtp ? m->with_prediction : m->params;
    if (w->totals.params != want)
      fail_msg("%s: %lld, not %lld", m->name, want, (long long)w->totals.params);
    pz_workload_free(w);
  }
}

static void counts_are_exact(void **state) {
  (void)state;
  each_model(check_params);
}

static const struct pz_layer *layer_named(const struct pz_workload *w, const char *name) {
  uint32_t i = 0;
  while (i < w->n_layers && strcmp(w->layers[i].name, name) != 0) i++;
  if (i == w->n_layers) fail_msg("%s has no layer %s", w->model, name);
  return &w->layers[i];
}

static const struct pz_op *op_named(const struct pz_layer *l, enum pz_direction d,
                                    const char *name) {
  uint32_t i = 0;
  while (i < l->ops[d].n && strcmp(l->ops[d].op[i].name, name) != 0) i++;
  if (i == l->ops[d].n) fail_msg("%s has no operator %s", l->name, name);
  return &l->ops[d].op[i];
}

/* Layers of a pattern are those of its letters, and only they have what the letters stand for. */
static void patterns_become_layers(void **state) {
  (void)state;
  struct pz_workload *w = pz_test_load("nemotron-3-nano", NULL);
  static const struct {
    const char *name;
    int64_t count;
    bool experts;
  } want[] = {{"block_mamba", 23, false}, {"block_moe", 23, true}, {"block_attention", 6, false}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const struct pz_layer *l = layer_named(w, want[i].name);
    assert_int_equal(l->count, want[i].count);
    assert_int_equal(l->expert_params > 0, want[i].experts);
  }
  pz_workload_free(w);
  w = pz_test_load("qwen3-next-80b-a3b", NULL);
  assert_int_equal(layer_named(w, "block_delta")->count, 36);
  assert_int_equal(layer_named(w, "block_attention")->count, 12);
  assert_int_equal(w->n_order, 3); /* embedding, 12 x (three of the one, one of the other), head */
  pz_workload_free(w);
}

/* FLOP a token: of each head twice the state's products, causal scores of a chunk times x; of each group causal scores.
 * Backward: five products with states, three with the scores of heads and of groups. */
static void the_scan_counts_what_it_multiplies(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = 8192;
  o.mbs = 2;
  int64_t tokens = 2 * 8192, heads = 64, groups = 8, state_dim = 128, dim = 64, chunk = 128;
  struct pz_workload *w = pz_test_load("nemotron-3-nano", &o);
  const struct pz_layer *l = layer_named(w, "block_mamba");
  const struct pz_op *scan = op_named(l, PZ_FORWARD, "mamba_scan"),
                     *back = op_named(l, PZ_BACKWARD, "mamba_scan.backward");
  int64_t states = heads * 2 * state_dim * dim, of_heads = heads * (chunk + 1) * dim,
          of_groups = groups * (chunk + 1) * state_dim;
  assert_int_equal(scan->matmul_flop, tokens * (2 * states + of_heads + of_groups));
  assert_int_equal(back->matmul_flop, tokens * (5 * states + 3 * of_heads + 3 * of_groups));
  assert_int_equal(scan->span, chunk);
  assert_int_equal(scan->dims.batch, 2 * heads);
  assert_int_equal(scan->dims.m, 8192);
  pz_workload_free(w);
  w = pz_test_load("qwen3-next-80b-a3b", &o);
  l = layer_named(w, "block_delta");
  scan = op_named(l, PZ_FORWARD, "delta_rule");
  back = op_named(l, PZ_BACKWARD, "delta_rule.backward");
  int64_t head = 6 * 128 * 128 + 65 * 5 * 128 + 64 * 64 / 3;
  assert_int_equal(scan->matmul_flop, tokens * 32 * head);
  assert_true(back->matmul_flop > 2 * scan->matmul_flop);
  pz_workload_free(w);
}

/* Saved of a Mamba-2 layer, a token: the input and its norm, the projection's result, the scan's result before and after
 * its gate, its norm; not the convolution, which backward makes again. */
static void a_scan_saves_what_its_kernel_saves(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = 1024;
  struct pz_workload *w = pz_test_load("nemotron-3-nano", &o);
  const struct pz_layer *l = layer_named(w, "block_mamba");
  int64_t inner = 4096, in = 2 * inner + 2 * 8 * 128 + 64, statistics = 4 * (1 + 8);
  assert_int_equal(l->activation_bytes, 1024 * (2 * (2 * 2688 + in + 3 * inner) + statistics));
  assert_int_equal(op_named(l, PZ_BACKWARD, "mamba_conv.again")->direction, PZ_FORWARD);
  pz_workload_free(w);
}

static struct pz_training_run *predict(const char *model, bool mtp, int64_t pp) {
  struct pz_error err = {0};
  struct pz_chip *chip = NULL;
  struct pz_cluster net;
  struct pz_training_run *run = NULL;
  struct pz_plan plan = pz_plan_default();
  plan.pp = pp;
  plan.dp = 8;
  plan.batch = 64;
  plan.mbs = 1;
  plan.seq = 2048;
  plan.mtp = mtp;
  assert_int_equal(pz_chip_load("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  if (pz_training_predict(model, chip, &net, &plan, false, &run, &err) != PZ_OK)
    fail_msg("%s: %s", model, err.message);
  pz_chip_free(chip);
  return run;
}

/* Layers that predict further tokens are the last stage's. */
static void check_prediction(const struct model *m) {
  struct pz_training_run *one = predict(m->path, false, 1), *four = predict(m->path, false, 4);
  assert_true(one->p.step_s > 0 && four->p.step_s > 0);
  if (m->with_prediction) {
    struct pz_training_run *more = predict(m->path, true, 4);
    assert_int_equal(more->layers, four->layers);
    double params = (double)(m->with_prediction - m->params);
    for (int i = 0; i < 4; i++) {
      double bytes = more->stages[i].weight_bytes - four->stages[i].weight_bytes;
      assert_true(i < 3 ? bytes == 0 : bytes >= 2 * params);
    }
    pz_training_run_free(more);
  }
  pz_training_run_free(one);
  pz_training_run_free(four);
}

/* Peak memory of Megatron-LM's functional tests hybrid_mr_mcore_te_tp*_pp1_cp*, golden values of 8 H100 (NVIDIA/Megatron-LM
 * d98e8a6, tests/functional_tests/test_cases/hybrid): what Mamba-2 layers save, divided by tp and cp. */
static void peak_memory_is_megatrons(void **state) {
  (void)state;
  static const struct {
    int64_t tp, cp;
    int attention;
    double bytes;
  } measured[] = {{1, 1, PZ_ATTENTION_STANDARD, 10145497088},
                  {2, 1, PZ_ATTENTION_STANDARD, 5907976192},
                  {2, 4, PZ_ATTENTION_FLASH, 2743789056}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    struct pz_error err = {0};
    struct pz_chip *chip = NULL;
    struct pz_training_run *run = NULL;
    struct pz_plan plan = pz_plan_default();
    plan.framework = pz_framework_find("megatron");
    plan.tp = measured[i].tp;
    plan.cp = measured[i].cp;
    plan.dp = 8 / (plan.tp * plan.cp);
    plan.attention = measured[i].attention;
    plan.sp = 0;
    plan.zero = 1;
    plan.mbs = 4;
    plan.batch = 32;
    plan.seq = 1024;
    assert_int_equal(pz_chip_load("h100", &chip, &err), PZ_OK);
    if (pz_training_predict(PHAZE_TEST_DATA "/hybrid/megatron-test.config.json", chip, NULL, &plan,
                            false, &run, &err) != PZ_OK)
      fail_msg("%s", err.message);
    double error = run->p.peak_bytes / measured[i].bytes - 1;
    print_message("tp %d cp %d: %.1f%% of the measured peak\n", (int)plan.tp, (int)plan.cp,
                  100 * (1 + error));
    assert_true(error > -0.01 && error < 0.01);
    pz_training_run_free(run);
    pz_chip_free(chip);
  }
}

/* Several of them have one layer's weights (mtp_use_repeated_layer of Megatron), and are no repeated layers, which stages
 * divide. */
static void prediction_layers_are_no_blocks(void **state) {
  (void)state;
  static const char config[] =
      "{\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"MEM*MEM-\",\"hidden_size\":512,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":1024,"
      "\"intermediate_size\":1024,\"mamba_num_heads\":16,\"n_routed_experts\":8,"
      "\"num_experts_per_tok\":2,\"moe_intermediate_size\":256,"
      "\"moe_shared_expert_intermediate_size\":512,\"num_nextn_predict_layers\":3}";
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_error err = {0};
  struct pz_workload *w = NULL;
  o.mtp = true;
  o.attention = PZ_ATTENTION_FLASH;
  if (pz_workload_parse("two", config, strlen(config), &o, &w, &err) != PZ_OK)
    fail_msg("%s", err.message);
  const struct pz_layer *l = layer_named(w, "predict"), *again = layer_named(w, "predict_again");
  assert_int_equal(l->count, 1);
  assert_int_equal(again->count, 2);
  assert_false(pz_is_block(l) || pz_is_block(again));
  assert_int_equal(again->params + again->expert_params + again->group_grad_params, 0);
  assert_int_equal(again->ops[PZ_FORWARD].n, l->ops[PZ_FORWARD].n);
  assert_int_equal(again->activation_bytes, l->activation_bytes);
  assert_true(pz_is_block(layer_named(w, "block_dense")));
  assert_true(l->expert_params > 0);
  op_named(l, PZ_FORWARD, "flash_attention");
  pz_workload_free(w);
}

/* A dense feed-forward of the layers that predict has the model's width, whether other layers have one or not. */
static void prediction_layers_may_be_dense(void **state) {
  (void)state;
  static const char *const models[] = {
      "\"hybrid_override_pattern\":\"M-M*\"",
      "\"hybrid_override_pattern\":\"MEM*\",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
      "\"moe_intermediate_size\":256"};
  struct pz_workload_options o = pz_workload_options_default();
  o.mtp = true;
  o.attention = PZ_ATTENTION_FLASH;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    char config[600];
    struct pz_error err = {0};
    struct pz_workload *w = NULL;
    snprintf(config, sizeof config,
             "{\"model_type\":\"nemotron_h\",%s,\"hidden_size\":512,\"num_attention_heads\":8,"
             "\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":1024,"
             "\"intermediate_size\":1024,\"mamba_num_heads\":16,\"num_nextn_predict_layers\":1,"
             "\"mtp_hybrid_override_pattern\":\"*-\"}",
             models[i]);
    if (pz_workload_parse("dense", config, strlen(config), &o, &w, &err) != PZ_OK)
      fail_msg("%s", err.message);
    const struct pz_layer *l = layer_named(w, "predict");
    assert_int_equal(l->expert_params, 0);
    assert_true(l->params > 2 * 512 * 1024);
    pz_workload_free(w);
  }
}

static void patterns_that_cannot_be_are_refused(void **state) {
  (void)state;
  static const char *const cases[][3] = {
      {"\"hybrid_override_pattern\":\"MX\"",
       "field 'hybrid_override_pattern' is \"MX\"; accepted: M"},
      {"\"hybrid_override_pattern\":\"\"", "accepted: 1 to 1024 layers"},
      {"\"layers_block_type\":[\"mamba\",\"rwkv\"]", "field 'layers_block_type'"},
      {"\"hybrid_override_pattern\":\"M*\",\"n_groups\":7",
       "field 'n_groups' is 7; accepted: a divisor"},
      {"\"hybrid_override_pattern\":\"M*\",\"num_nextn_predict_layers\":1",
       "mtp_hybrid_override_pattern"},
      {"\"hybrid_override_pattern\":\"M-\",\"num_nextn_predict_layers\":1,"
       "\"mtp_hybrid_override_pattern\":\"-*\"",
       "two in this order"},
      {"\"hybrid_override_pattern\":\"M*\",\"num_hidden_layers\":3",
       "field 'num_hidden_layers' is 3; accepted: the number of layers of the pattern"},
      {"\"hybrid_override_pattern\":\"M-\",\"layers_block_type\":[\"mamba\",\"attention\"]",
       "field 'hybrid_override_pattern' is \"M-\"; accepted: the same layers"},
      {"\"num_hidden_layers\":2,\"num_local_experts\":0,\"mamba_n_heads\":16",
       "field 'layer_types' is missing", "granitemoehybrid"},
      {"\"num_hidden_layers\":2,\"mamba_n_heads\":16,\"intermediate_size\":64,"
       "\"attn_layer_indices\":null",
       "field 'attn_layer_indices' is missing", "bamba"},
      {"\"num_hidden_layers\":8,\"intermediate_size\":64,\"attn_layer_period\":4",
       "field 'attn_layer_offset' is missing; accepted: less than", "jamba"},
      {"\"num_hidden_layers\":8,\"intermediate_size\":64,\"expert_layer_offset\":2",
       "field 'expert_layer_offset' is 2; accepted: less than", "jamba"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char config[600];
    struct pz_error err = {0};
    struct pz_workload *w = NULL;
    snprintf(config, sizeof config,
             "{\"model_type\":\"%s\",%s,\"hidden_size\":512,\"num_attention_heads\":8,"
             "\"vocab_size\":1024}",
             cases[i][2] ? cases[i][2] : "nemotron_h", cases[i][0]);
    enum pz_status s = pz_workload_parse("config.json", config, strlen(config), NULL, &w, &err);
    assert_int_equal(s, PZ_BAD_INPUT);
    if (!strstr(err.message, cases[i][1])) fail_msg("'%s' lacks '%s'", err.message, cases[i][1]);
  }
}

/* Of a model with attention in every layer tensor parallelism divides no heads or groups of a recurrence. */
static void a_recurrence_of_no_layer_is_none(void **state) {
  (void)state;
  static const char *const own[] = {
      "\"granitemoehybrid\",\"layer_types\":[\"attention\",\"attention\"],\"shared_intermediate_"
      "size\":1024,"
      "\"num_local_experts\":0,\"mamba_n_heads\":16,\"mamba_n_groups\":1",
      "\"bamba\",\"attn_layer_indices\":[0,1],\"mamba_n_heads\":16,\"mamba_n_groups\":1",
      "\"qwen3_5_text\",\"layer_types\":[\"full_attention\",\"full_attention\"],\"linear_num_key_"
      "heads\":2,"
      "\"linear_num_value_heads\":2"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    char config[640];
    o.tp = 4;
    snprintf(
        config, sizeof config,
        "{\"model_type\":%s,\"num_hidden_layers\":2,\"hidden_size\":512,\"num_attention_heads\":8,"
        "\"num_key_value_heads\":4,\"intermediate_size\":1024,\"vocab_size\":1024}",
        own[i]);
    if (pz_workload_parse("config.json", config, strlen(config), &o, &w, &err) != PZ_OK)
      fail_msg("%s", err.message);
    pz_workload_free(w);
  }
}

static void every_model_has_a_prediction(void **state) {
  (void)state;
  each_model(check_prediction);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_exact),
      cmocka_unit_test(patterns_become_layers),
      cmocka_unit_test(a_recurrence_of_no_layer_is_none),
      cmocka_unit_test(the_scan_counts_what_it_multiplies),
      cmocka_unit_test(a_scan_saves_what_its_kernel_saves),
      cmocka_unit_test(every_model_has_a_prediction),
      cmocka_unit_test(peak_memory_is_megatrons),
      cmocka_unit_test(prediction_layers_are_no_blocks),
      cmocka_unit_test(prediction_layers_may_be_dense),
      cmocka_unit_test(patterns_that_cannot_be_are_refused),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
