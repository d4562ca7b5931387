/* config.json: real files, old and new key names, null fields, and errors that say what is
 * accepted. */
#include "unit/testing.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>

#define GPT2(...)                                                                                  \
  "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":32,\"vocab_"  \
  "size\":100" __VA_ARGS__ "}"
#define LLAMA(...)                                                                                 \
  "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":"  \
  "4,"                                                                                             \
  "\"intermediate_size\":96,\"vocab_size\":100" __VA_ARGS__ "}"
#define MIXTRAL(...)                                                                               \
  "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_"        \
  "heads\":4,"                                                                                     \
  "\"num_key_value_heads\":4,\"intermediate_size\":96,\"vocab_size\":100" __VA_ARGS__ "}"

#define SIZES                                                                                      \
  "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":"  \
  "4,\"intermediate_size\":96,\"vocab_size\":100"
#define GEMMA3(...) "{\"model_type\":\"gemma3_text\"," SIZES __VA_ARGS__ "}"
#define LLAMA4(...)                                                                                \
  "{\"model_type\":\"llama4_text\"," SIZES                                                         \
  ",\"num_local_experts\":4,\"num_experts_per_tok\":1" __VA_ARGS__ "}"

static enum pz_status parse(const char *text, struct pz_workload **w, struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  return pz_workload_parse("config.json", text, strlen(text), &o, w, err);
}

static int64_t params(const char *text) {
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  if (parse(text, &w, &err) != PZ_OK) fail_msg("%s", err.message);
  int64_t n = w->totals.params;
  pz_workload_free(w);
  return n;
}

static void errors_name_file_field_value_and_accepted(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"{}",
       "config.json: field 'model_type' is missing; accepted: one of bert, megatron-bert, gpt2"},
      {"{\"model_type\":\"mamba\"}", "field 'model_type' is \"mamba\"; accepted: one of bert"},
      {"{\"model_type\":\"mamba\"}", "a model of any other type can be given as an ONNX file"},
      {"{\"model_type\":\"kimi_linear\",\"linear_attn_config\":{}}",
       "\"kimi_linear\"; accepted: models without Kimi delta attention (field "
       "'linear_attn_config'), for which there are "
       "no operators; any model can be given as an ONNX file"},
      {"{\"model_type\":\"new\",\"text_config\":{\"model_type\":\"newer\",\"conv_L_cache\":3}}",
       "accepted: models without short convolutions in place of attention (field 'conv_L_cache')"},
      {"{\"model_type\":\"minimax\"}", "accepted: models without lightning attention, for which"},
      {"{\"model_type\":7}", "field 'model_type' is 7; accepted: a string"},
      {"{\"model_type\":\"gpt2\"}",
       "config.json: field 'n_embd' is missing; accepted: an integer from 1 to 1048576"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":null}", "field 'n_embd' is missing"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":\"64\"}",
       "field 'n_embd' is \"64\"; accepted: an integer from 1 to 1048576"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64.5}", "field 'n_embd' is 64.5; accepted: an integer"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1000000000000}",
       "field 'n_layer' is 1000000000000; accepted: an integer from 1 to 65536"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1e12}",
       "field 'n_layer' is 1000000000000.0;"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":0}",
       "field 'n_head' is 0; accepted: an integer from 1 to 65536"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":-4}",
       "field 'n_head' is -4;"},
      {"{\"model_type\":\"gpt2\",\"n_embd\":65,\"n_layer\":2,\"n_head\":4,\"n_positions\":8,"
       "\"vocab_size\":9}",
       "field 'n_embd' is 65; accepted: a multiple of the 4 attention heads"},
      {GPT2(",\"attn_pdrop\":1.5"),
       "field 'attn_pdrop' is 1.5; accepted: a number from 0 to 0.999"},
      {GPT2(",\"activation_function\":\"mish\""),
       "field 'activation_function' is \"mish\"; accepted: gelu"},
      {GPT2(",\"tie_word_embeddings\":1"),
       "field 'tie_word_embeddings' is 1; accepted: true or false"},
      {GPT2(",\"add_cross_attention\":true"),
       "field 'add_cross_attention' is true; accepted: false"},
      {GPT2(",\"vocab_size\":5"), "not valid JSON: duplicate object key"},
      {LLAMA(",\"num_key_value_heads\":3"),
       "field 'num_key_value_heads' is 3; accepted: a divisor of the 4 attention heads"},
      {MIXTRAL(",\"num_local_experts\":4,\"num_experts_per_tok\":5"),
       "field 'num_experts_per_tok' is 5; accepted: at most the number of experts, 4"},
      {MIXTRAL(), "field 'num_local_experts' is missing"},
      {GEMMA3(",\"layer_types\":[\"full_attention\"]"),
       "field 'layer_types' is [\"full_attention\"]; accepted: a list with an entry"},
      {GEMMA3(",\"layer_types\":[\"full_attention\",\"linear_attention\"]"),
       "accepted: a list of sliding_attention, chunked_attention and full_attention"},
      {GEMMA3(",\"layer_types\":7"), "field 'layer_types' is 7; accepted: a list with an entry"},
      {LLAMA4(",\"moe_layers\":[0,2]"), "field 'moe_layers'"},
      {LLAMA4(",\"no_rope_layers\":[1]"), "field 'no_rope_layers'"},
      {LLAMA4(",\"moe_layers\":3"), "field 'moe_layers' is 3; accepted: a list of layers"},
      {"{\"model_type\":\"bert\",\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":"
       "4,"
       "\"intermediate_size\":8,\"vocab_size\":9,\"max_position_embeddings\":8,"
       "\"position_embedding_type\":\"relative_key\"}",
       "field 'position_embedding_type' is \"relative_key\"; accepted: absolute"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    assert_int_equal(parse(bad[i].text, &w, &err), PZ_BAD_INPUT);
    assert_null(w);
    assert_int_equal(strncmp(err.message, "config.json", 11), 0);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

static void old_and_new_names_mean_the_same(void **state) {
  (void)state;
  int64_t plain = params(GPT2());
  assert_int_equal(plain,
                   params(GPT2(",\"n_inner\":null,\"dtype\":null,\"torch_dtype\":\"float16\"")));
  assert_int_equal(plain, params(GPT2(",\"n_inner\":256")));
  assert_int_equal(plain,
                   params("{\"model_type\":\"gpt2\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                          "\"num_attention_heads\":4,\"max_position_embeddings\":32,"
                          "\"vocab_size\":100}"));
  assert_int_equal(params(LLAMA()), params(LLAMA(",\"num_key_value_heads\":4,\"head_dim\":16")));
  assert_int_equal(params(LLAMA()), params(LLAMA(",\"rope_theta\":1e4,\"rope_scaling\":null")));
  assert_int_equal(
      params(LLAMA()),
      params(LLAMA(",\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":\"default\"}")));
}

/* Sizes of the undivided parts, typed in from the definition of the model. */
static void variants_change_what_they_should(void **state) {
  (void)state;
  int64_t base = params(LLAMA()), h = 64, f = 96, v = 100, kv = 32, L = 2;
  assert_int_equal(base, 2 * v * h + h + L * (4 * h * h + 3 * h * f + 2 * h));
  assert_int_equal(params(LLAMA(",\"tie_word_embeddings\":true")), base - v * h);
  assert_int_equal(params(LLAMA(",\"num_key_value_heads\":2")), base - L * 2 * h * (h - kv));
  assert_int_equal(params(LLAMA(",\"attention_bias\":true")), base + L * 4 * h);
  assert_int_equal(params(LLAMA(",\"mlp_bias\":true")), base + L * (2 * f + h));
  assert_int_equal(params(LLAMA(",\"head_dim\":32")), base + L * 4 * h * h);
  assert_int_equal(params(MIXTRAL(",\"num_local_experts\":8,\"num_experts_per_tok\":2")),
                   base + L * (7 * 3 * h * f + 8 * h));
}

static void real_files_give_the_published_counts(void **state) {
  (void)state;
  static const struct {
    const char *file;
    int64_t params;
  } real[] = {{"bert-large", 335174458}, {"gpt2", 124439808},       {"gpt2-xl", 1557611200},
              {"opt-350m", 331196416},   {"llama2-7b", 6738415616}, {"llama3-8b", 8030261248}};
  for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
    char path[512];
    snprintf(path, sizeof path, PHAZE_TEST_DATA "/%s.config.json", real[i].file);
    struct pz_workload *file = pz_test_load(path, NULL), *preset = pz_test_load(real[i].file, NULL);
    assert_int_equal(file->totals.params, real[i].params);
    assert_memory_equal(&file->totals, &preset->totals, sizeof file->totals);
    pz_workload_free(file);
    pz_workload_free(preset);
  }
}

static void what_is_no_model_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *model, *message;
  } bad[] = {{"gpt2-xxl", "unknown model 'gpt2-xxl' (did you mean gpt2-xl?);"},
             {"", "unknown model ''"},
             {"./none.json", "./none.json: cannot open: No such file"},
             {"/tmp/", "is a directory; a file is wanted"},
             {"/dev/zero", "/dev/zero: is a character device; accepted: a regular file"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    assert_int_not_equal(pz_workload_load(bad[i].model, &o, &w, &err), PZ_OK);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

static void options_out_of_range_are_refused(void **state) {
  (void)state;
  static const struct {
    struct pz_workload_options o;
    const char *message;
  } bad[] = {
      {{.mbs = 0, .tp = 1}, "microbatch size 0; accepted: 1 to 1048576"},
      {{.mbs = 1, .tp = 1, .seq = -1}, "sequence length -1; accepted: 1 to 16777216"},
      {{.mbs = 1, .tp = 0}, "tensor-parallel degree 0; accepted: 1 to 65536"},
      {{.mbs = 1, .tp = 2, .slice = 2}, "slice 2; accepted: 0 to 1"},
      {{.mbs = 1, .tp = 3},
       "tensor-parallel degree 3 does not divide the attention heads of gpt2-medium (16); "
       "accepted: 1, 2, 4, 8, 16"},
      {{.mbs = 1, .tp = 2, .seq = 3, .sequence_parallel = true}, "sequence parallelism needs"},
      {{.mbs = 1, .tp = 1, .dropout = 1}, "dropout 1; accepted: 0 <= p < 1"},
      {{.mbs = 1, .tp = 1, .kernels = (enum pz_kernels)7}, "kernels 7; accepted: 0 to 4"},
      {{.mbs = 1 << 20, .tp = 1, .seq = 1 << 24}, "exceeds the limits"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    struct pz_workload_options o = bad[i].o;
    o.size = sizeof o;
    assert_int_not_equal(pz_workload_load("gpt2-medium", &o, &w, &err), PZ_OK);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

/* Sizes in range one by one whose sums would not be. */
static void sums_that_leave_64_bits_are_refused(void **state) {
  (void)state;
  static const char *const text[] = {
      "{\"model_type\":\"mixtral\",\"hidden_size\":1048576,\"num_hidden_layers\":10,"
      "\"num_attention_heads\":1024,\"num_key_value_heads\":8,\"intermediate_size\":4194304,"
      "\"vocab_size\":10,\"num_local_experts\":65536,\"num_experts_per_tok\":1}",
      "{\"model_type\":\"gpt2\",\"n_positions\":67108864,\"n_layer\":65536,\"n_embd\":8,\"n_head\":"
      "1,"
      "\"vocab_size\":10}",
      "{\"model_type\":\"llama\",\"hidden_size\":1,\"num_hidden_layers\":1,\"num_attention_heads\":"
      "1,"
      "\"intermediate_size\":1,\"vocab_size\":1,\"attention_dropout\":0.1}"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    o.kernels = PZ_KERNELS_EAGER;
    o.seq = i == 2 ? 1 << 24 : 8;
    o.mbs = i == 2 ? 4096 : 1;
    assert_int_equal(pz_workload_parse("mine", text[i], strlen(text[i]), &o, &w, &err), PZ_LIMIT);
    assert_non_null(strstr(err.message, "exceeds the limits"));
  }
}

static void a_table_with_fewer_rows_than_devices_is_refused(void **state) {
  (void)state;
  static const char text[] =
      "{\"model_type\":\"bert\",\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":"
      "4,"
      "\"intermediate_size\":8,\"vocab_size\":1,\"max_position_embeddings\":8}";
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  o.tp = 2;
  o.slice = 1;
  assert_int_equal(pz_workload_parse("mine", text, strlen(text), &o, &w, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "degree 2 is above the vocabulary of mine (1)"));
}

/* A model is found by both of its names in any case of letters; a path that exists is a path. */
static void presets_have_two_names(void **state) {
  (void)state;
  char dir[] = "/tmp/phaze-names-XXXXXX", here[4096];
  assert_string_equal(pz_preset_named("Llama3-70B"), "llama3-70b");
  assert_string_equal(pz_preset_named("QWEN/qwen3-235b-a22b"), "qwen3-235b-a22b");
  assert_null(pz_preset_named("Qwen/Qwen3"));
  for (size_t i = 0; pz_preset_name(i); i++)
    if (pz_preset_hub_name(i))
      assert_string_equal(pz_preset_named(pz_preset_hub_name(i)), pz_preset_name(i));
  assert_non_null(getcwd(here, sizeof here));
  assert_non_null(mkdtemp(dir));
  assert_int_equal(chdir(dir) | mkdir("Qwen", 0700) | mkdir("Qwen/Qwen3-8B", 0700), 0);
  assert_null(pz_preset_named("Qwen/Qwen3-8B"));
  assert_int_equal(rmdir("Qwen/Qwen3-8B"), 0);
  assert_string_equal(pz_preset_named("Qwen/Qwen3-8B"), "qwen3-8b");
  assert_int_equal(rmdir("Qwen") | chdir(here) | rmdir(dir), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(presets_have_two_names),
      cmocka_unit_test(errors_name_file_field_value_and_accepted),
      cmocka_unit_test(old_and_new_names_mean_the_same),
      cmocka_unit_test(variants_change_what_they_should),
      cmocka_unit_test(real_files_give_the_published_counts),
      cmocka_unit_test(what_is_no_model_is_refused),
      cmocka_unit_test(options_out_of_range_are_refused),
      cmocka_unit_test(sums_that_leave_64_bits_are_refused),
      cmocka_unit_test(a_table_with_fewer_rows_than_devices_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
