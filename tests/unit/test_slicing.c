/* Tensor parallelism: t slices together are the whole, and what does not divide is refused. */
#include "unit/testing.h"

#include <stdio.h>

#include "workload/op.h"

struct sums {
  int64_t flop[2], matmul[2], params, replicated_params;
};

/* Does an earlier slice rotate the same key: one of the devices that share a key/value head? */
static bool has_key_of_another(const struct pz_workload *w) {
  int64_t sharing = w->kv_heads ? w->options.tp / w->kv_heads : 0;
  return sharing > 1 && w->options.slice % sharing > 0;
}

static bool turns_key(const struct pz_op *op) {
  return strstr(op->name, "key_rotary") || strstr(op->name, "key_norm");
}

/* Work of one slice; what devices repeat is counted once. */
static void add_slice(struct sums *s, const struct pz_workload *w) {
  bool other = has_key_of_another(w), later = w->options.slice > 0;
  for (uint32_t l = 0; l < w->n_layers; l++) {
    const struct pz_layer *layer = &w->layers[l];
    for (int d = 0; d < 2; d++)
      for (uint32_t i = 0; i < layer->ops[d].n; i++) {
        const struct pz_op *op = &layer->ops[d].op[i];
        if ((op->replicated && later) ||
            (other && strncmp(op->name, "key_", 4) == 0 && turns_key(op)))
          continue;
        s->flop[d] += op->flop * layer->count;
        s->matmul[d] += op->matmul_flop * layer->count;
        for (uint32_t t = 0; t < op->n_tail; t++) {
          const struct pz_tail *tail = &op->tail[t];
          if ((tail->replicated && !op->replicated && later) || (other && turns_key(op)))
            s->flop[d] -=
                tail->elems * pz_op_info(tail->kind)->flop[tail->direction] * layer->count;
        }
      }
    s->params += layer->split_params * layer->count;
    s->replicated_params = w->totals.params - w->totals.split_params;
  }
}

static void conserve(const char *model, struct pz_workload_options o) {
  o.tp = o.tp ? o.tp : 1;
  struct pz_workload_options one = o;
  one.tp = 1;
  one.slice = 0;
  one.sequence_parallel = false;
  struct pz_workload *whole = pz_test_load(model, &one);
  struct sums s = {0}, w = {0};
  add_slice(&w, whole);
  for (o.slice = 0; o.slice < o.tp; o.slice++) {
    struct pz_workload *part = pz_test_load(model, &o);
    assert_int_equal(part->totals.model_params, whole->totals.params);
    add_slice(&s, part);
    pz_workload_free(part);
  }
  for (int d = 0; d < 2; d++) {
    if (s.matmul[d] != w.matmul[d] || s.flop[d] != w.flop[d])
      fail_msg("%s at width %d, sp %d, direction %d: flop %lld of %lld, products %lld of %lld",
               model, (int)o.tp, o.sequence_parallel, d, (long long)s.flop[d], (long long)w.flop[d],
               (long long)s.matmul[d], (long long)w.matmul[d]);
  }
  assert_int_equal(s.params + s.replicated_params, whole->totals.params);
  assert_int_equal(whole->layers[1].group_grad_params, 0);
  pz_workload_free(whole);
}

static const struct {
  const char *model;
  int64_t widths[5];
} cases[] = {
    {"bert-large", {2, 4, 8, 16}},
    {"megatron-bert", {2, 4, 8}},
    {"gpt2", {2, 3, 4, 6, 12}},
    {"gpt2-xl", {5, 25}},
    {"gpt3-175b", {2, 4, 8, 32}},
    {"opt-350m", {2, 4, 8, 16}},
    {"opt-1.3b", {2, 8}},
    {"llama2-7b", {2, 4, 8, 32}},
    {"llama3-8b", {2, 4, 8, 16}},
    {"mistral-7b", {2, 8, 16}},
    {"qwen2.5-1.5b", {2}},
    {"gpt-neox-20b", {2, 4, 8}},
    {"mixtral-8x7b", {2, 4, 8}},
    {"qwen3-8b", {2, 8, 16}},
    {"qwen3-30b-a3b", {2, 4, 8}},
    {"deepseek-v2", {2, 8}},
    {"deepseek-v3", {2, 8, 64}},
    {"gemma2-9b", {2, 8}},
    {"gemma3-27b", {2, 16}},
    {"phi4", {2, 5, 10}},
    {"olmo2-7b", {2, 8}},
    {"glm4-9b", {2, 4, 16}},
    {"starcoder2-15b", {2, 4, 16}},
    {"bloom-176b", {2, 8}},
    {"gpt-j-6b", {2, 4, 16}},
    {"gpt-oss-20b", {2, 8, 16}},
    {"llama4-scout", {2, 8}},
    {"llama4-maverick", {2, 4}},
    {"nemotron-3-nano", {2, 4, 8}},
    {"nemotron-3-super", {2, 4, 8}},
    {"nemotron-h-8b", {2, 4, 8}},
    {"qwen3-next-80b-a3b", {2, 4, 8}},
    {"qwen3.5-27b", {2, 4, 8}},
    {PHAZE_TEST_DATA "/hybrid/falcon-h1-34b.config.json", {2}},
    {PHAZE_TEST_DATA "/hybrid/jamba-v0.1.config.json", {2, 8}},
    {PHAZE_TEST_DATA "/t5-small.config.json", {2, 8}},
};

static void slices_together_are_the_whole(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int i = 0; i < 5 && cases[c].widths[i]; i++)
      for (int k = 0; k < 8; k++) {
        struct pz_workload_options o = pz_workload_options_default();
        o.tp = cases[c].widths[i];
        o.sequence_parallel = k & 1;
        o.kernels = k & 2 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
        o.attention = k & 4 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
        o.seq = k < 4 ? 96 * 100 : o.tp;
        o.mbs = 2;
        o.mtp = strcmp(cases[c].model, "deepseek-v3") == 0 ||
                strcmp(cases[c].model, "nemotron-3-super") == 0;
        conserve(cases[c].model, o);
      }
}

/* The same with adapters, whose matrices are divided as their layers'. */
static void slices_with_adapters_are_the_whole(void **state) {
  (void)state;
  static const struct {
    const char *model, *adapters;
    int64_t widths[3];
  } adapted[] = {{"llama3-8b", "lora:16:all:0.05", {2, 8, 16}},
                 {"llama3-8b", "lora:8:linear_qkv+linear_fc1", {2, 4}},
                 {"gpt2", "lora:12:attention:0.1", {2, 3, 12}},
                 {"gpt-neox-20b", "lora:32:all", {4}},
                 {"mixtral-8x7b", "lora:16:all", {2, 8}},
                 {"qwen3-30b-a3b", "lora:16:q+k+v+o+gate+up+down", {4, 8}},
                 {"nemotron-3-nano", "lora:8:in_proj+out_proj+linear_fc1", {2}},
                 {"qwen3.5-27b", "lora:8:all", {2, 8}},
                 {"deepseek-v3", "lora:64:all", {2, 64}}};
  for (size_t c = 0; c < sizeof adapted / sizeof *adapted; c++)
    for (int i = 0; i < 3 && adapted[c].widths[i]; i++)
      for (int k = 0; k < 8; k++) {
        struct pz_workload_options o = pz_workload_options_default();
        o.tp = adapted[c].widths[i];
        o.sequence_parallel = k & 1;
        o.kernels = k & 2 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
        o.attention = k & 4 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
        o.seq = 960;
        assert_int_equal(pz_lora_parse(adapted[c].adapters, &o.lora, NULL), PZ_OK);
        conserve(adapted[c].model, o);
      }
}

/* Parameters whose gradients are partial: all undivided ones with sequence parallelism, else the
 * router. */
static void partial_gradients_are_counted(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  o.tp = 4;
  struct pz_workload *w = pz_test_load("mixtral-8x7b", &o);
  assert_int_equal(w->layers[1].group_grad_params, 8 * 4096);
  pz_workload_free(w);
  w = pz_test_load("gpt3-175b", &o);
  assert_int_equal(w->layers[1].group_grad_params, 0);
  pz_workload_free(w);
  o.sequence_parallel = true;
  w = pz_test_load("gpt3-175b", &o);
  assert_int_equal(w->layers[1].group_grad_params, w->layers[1].params - w->layers[1].split_params);
  pz_workload_free(w);
}

/* Forward and backward each meet twice in a block; with sequence parallelism they gather and
 * scatter. */
static void collectives_stand_where_the_halves_meet(void **state) {
  (void)state;
  static const struct {
    bool sp;
    const char *kind;
    int forward, backward;
  } want[] = {{false, "all_reduce", 2, 2},
              {false, "all_gather", 0, 0},
              {true, "all_reduce", 0, 0},
              {true, "all_gather", 2, 4},
              {true, "reduce_scatter", 2, 2}};
  for (size_t c = 0; c < sizeof want / sizeof *want; c++) {
    struct pz_workload_options o = pz_workload_options_default();
    o.tp = 8;
    o.sequence_parallel = want[c].sp;
    struct pz_workload *w = pz_test_load("gpt3-175b", &o);
    int found[2] = {0};
    for (int d = 0; d < 2; d++)
      for (uint32_t i = 0; i < w->layers[1].ops[d].n; i++) {
        const struct pz_op *op = &w->layers[1].ops[d].op[i];
        if (strcmp(pz_op_kind_name(op->kind), want[c].kind) != 0) continue;
        assert_int_equal(op->op_class, PZ_CLASS_COLLECTIVE);
        assert_int_equal(op->dims.batch, 8);
        assert_int_equal(op->dims.m * op->dims.n, 2048 * 12288);
        found[d]++;
      }
    assert_int_equal(found[PZ_FORWARD], want[c].forward);
    assert_int_equal(found[PZ_BACKWARD], want[c].backward);
    pz_workload_free(w);
  }
}

static void widths_that_do_not_divide_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t tp;
    const char *message;
  } bad[] = {
      {"gpt2-xl", 2, "does not divide the attention heads of gpt2-xl (25); accepted: 1, 5, 25"},
      {"phi4", 4,
       "does not divide the key/value heads of phi4 (10); accepted: 1, 2, 5, 10, 20, 40"},
      {"bert-large", 3, "does not divide the attention heads of bert-large (16)"},
      {"llama2-7b", 64, "does not divide the attention heads of llama2-7b (32)"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    o.tp = bad[i].tp;
    assert_int_equal(pz_workload_load(bad[i].model, &o, &w, &err), PZ_BAD_USE);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

/* Norms of the width of all heads need every key/value head on one device. */
static void heads_with_a_norm_of_all_are_not_shared(void **state) {
  (void)state;
  static const char text[] =
      "{\"model_type\":\"olmo2\",\"hidden_size\":128,\"num_hidden_layers\":2,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":2,"
      "\"intermediate_size\":256,\"vocab_size\":100}";
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  o.tp = 4;
  assert_int_equal(pz_workload_parse("mine", text, strlen(text), &o, &w, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "the key/value heads of mine (2); accepted: 1, 2"));
}

static const struct pz_op *op_named(const struct pz_layer *l, enum pz_direction d,
                                    const char *name) {
  uint32_t i = 0;
  while (i < l->ops[d].n && strcmp(l->ops[d].op[i].name, name) != 0) i++;
  if (i == l->ops[d].n) fail_msg("%s lacks '%s'", l->name, name);
  return &l->ops[d].op[i];
}

/* Of 16 heads with a gate and 2 key/value heads, 256 wide, each of 4 devices makes a fourth of all columns; gathered, it
 * keeps 4 queries, their gates, and one key and value, and nothing else of them is saved. */
static void devices_share_a_head(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = 1024;
  o.tp = 4;
  o.attention = PZ_ATTENTION_FLASH;
  struct pz_workload *w = pz_test_load("qwen3-next-80b-a3b", &o);
  const struct pz_layer *l = &w->layers[2];
  const int64_t all = (2 * 16 + 2 * 2) * 256;
  const struct pz_op *gather = op_named(l, PZ_FORWARD, "kv_group.gather"),
                     *scatter = op_named(l, PZ_BACKWARD, "kv_group.gather.reduce_scatter"),
                     *flash = op_named(l, PZ_FORWARD, "flash_attention");
  assert_int_equal(gather->dims.batch, 4);
  assert_int_equal(gather->bytes_read, 2 * 1024 * all / 4);
  assert_int_equal(gather->bytes_written, 2 * 1024 * all);
  assert_string_equal(pz_op_kind_name(scatter->kind), "reduce_scatter");
  assert_int_equal(scatter->bytes_read, 2 * 1024 * all);
  assert_int_equal(scatter->bytes_written, 2 * 1024 * all / 4);
  assert_int_equal(flash->bytes_read, 2 * 1024 * (4 + 1 + 1) * 256);
  for (uint32_t i = 0; i < l->n_saved; i++) {
    assert_int_not_equal(l->saved[i], gather->out[0]);
    assert_int_not_equal(l->saved[i], op_named(l, PZ_FORWARD, "kv_group.order")->out[0]);
  }
  pz_workload_free(w);
}

static void a_feed_forward_that_does_not_divide_is_refused(void **state) {
  (void)state;
  static const char text[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                             "\"num_attention_heads\":4,"
                             "\"intermediate_size\":90,\"vocab_size\":100}";
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  o.tp = 4;
  assert_int_equal(pz_workload_parse("mine", text, strlen(text), &o, &w, &err), PZ_BAD_USE);
  assert_non_null(
      strstr(err.message, "4 does not divide the feed-forward width of mine (90); accepted: 1, 2"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_together_are_the_whole),
      cmocka_unit_test(slices_with_adapters_are_the_whole),
      cmocka_unit_test(partial_gradients_are_counted),
      cmocka_unit_test(collectives_stand_where_the_halves_meet),
      cmocka_unit_test(widths_that_do_not_divide_are_refused),
      cmocka_unit_test(heads_with_a_norm_of_all_are_not_shared),
      cmocka_unit_test(devices_share_a_head),
      cmocka_unit_test(a_feed_forward_that_does_not_divide_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
