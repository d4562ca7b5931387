/* Parameter counts of the presets, to the last unit: as the released checkpoints have them (Hugging
 * Face), or, for GPT-3 and Megatron models, which were not released, as their published shapes give
 * them. */
#include "unit/testing.h"

#include <stdio.h>

static const struct {
  const char *model;
  int64_t params;
} published[] = {
    {"bert-large", 335174458},
    {"gpt2", 124439808},
    {"gpt2-medium", 354823168},
    {"gpt2-large", 774030080},
    {"gpt2-xl", 1557611200},
    {"opt-125m", 125239296},
    {"opt-350m", 331196416},
    {"opt-1.3b", 1315758080},
    {"opt-6.7b", 6658473984},
    {"llama2-7b", 6738415616},
    {"llama2-13b", 13015864320},
    {"llama2-70b", 68976648192},
    {"llama3-8b", 8030261248},
    {"llama3-70b", 70553706496},
    {"llama3-405b", 405853388800},
    {"mistral-7b", 7241732096},
    {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-7b", 7615616512},
    {"gpt-neox-20b", 20554567680},
    {"mixtral-8x7b", 46702792704},
    {"mixtral-8x22b", 140630071296},
    {"megatron-2.5b", 2488598400},
    {"megatron-8.3b", 8314143744},
    {"megatron-22b", 22074273792},
    {"gpt3-175b", 174604259328},
    {"megatron-530b", 529600819200},
    {"megatron-1t", 1008038758400},
    {"llama3.1-8b", 8030261248},
    {"llama3.1-70b", 70553706496},
    {"llama3.1-405b", 405853388800},
    {"llama3.2-1b", 1235814400},
    {"llama3.2-3b", 3212749824},
    {"mistral-nemo", 12247782400},
    {"qwen3-0.6b", 596049920},
    {"qwen3-1.7b", 1720574976},
    {"qwen3-4b", 4022468096},
    {"qwen3-8b", 8190735360},
    {"qwen3-14b", 14768307200},
    {"qwen3-32b", 32762123264},
    {"qwen3-30b-a3b", 30532122624},
    {"qwen3-235b-a22b", 235093634560},
    {"gemma2-9b", 9241705984},
    {"gemma3-12b", 11766034176},
    {"gemma3-27b", 27009346304},
    {"phi3-mini", 3821079552},
    {"phi4", 14659507200},
    {"olmo2-7b", 7298617344},
    {"glm4-9b", 9400279040},
    {"starcoder2-15b", 15957889024},
    {"falcon-7b", 6921720704},
    {"bloom-176b", 176247271424},
    {"gpt-j-6b", 6050882784},
    {"deepseek-v2", 235741434880},
    {"deepseek-v3", 671026404352},
    {"deepseek-v3.2", 671877929216}, /* and an indexer in each of 61 layers, 13,959,424 */
    {"glm-5", 743911199232},
    {"glm-5.2", 743377000704}, /* 57 of 78 layers without an indexer */
    {"gpt-oss-20b", 20914757184},
    {"gpt-oss-120b", 116829156672},
    {"llama4-scout", 107769861120},
    {"llama4-maverick", 400711848960},
    {"nemotron-3-nano", 31577937344},
    {"nemotron-nano-9b-v2", 8888227328},
    {"nemotron-3-nano-4b", 3973556832},
    {"qwen3-next-80b-a3b", 79674391296},
    {"qwen3.5-27b", 26895998464},
    {"qwen3.5-35b-a3b", 34660610688},
    {"qwen3.5-122b-a10b", 122111526912},
    {"granite-4.0-h-small", 32207337984},
};

static void counts_are_exact(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    struct pz_workload *w = pz_test_load(published[i].model, NULL);
    if (w->totals.params != published[i].params)
      fail_msg("%s: %lld, published %lld", published[i].model, (long long)w->totals.params,
               (long long)published[i].params);
    assert_int_equal(w->totals.param_bytes, 2 * published[i].params);
    pz_workload_free(w);
  }
}

/* Whatever is asked for, the model's parameters stay the same. */
static void counts_do_not_depend_on_options(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof published / sizeof *published; i++)
    for (int k = 0; k < 8; k++) {
      struct pz_workload_options o = pz_workload_options_default();
      o.kernels = k & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
      o.attention = k & 2 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
      o.recompute = k & 4 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
      o.mbs = 1 + k;
      o.seq = 64;
      struct pz_workload *w = pz_test_load(published[i].model, &o);
      assert_int_equal(w->totals.model_params, published[i].params);
      assert_int_equal(w->totals.params, published[i].params);
      pz_workload_free(w);
    }
}

/* Members of families that no preset shows: fields that are absent, null, or take another way.
 * Counts are those of the released checkpoints. */
static const struct {
  const char *name, *config;
  int64_t params;
} members[] = {
    {"bloom-560m",
     "{\"model_type\":\"bloom\",\"n_layer\":24,\"n_embed\":1024,\"num_attention_heads\":16,"
     "\"vocab_size\":250880}",
     559214592},
    {"falcon-40b",
     "{\"model_type\":\"falcon\",\"num_hidden_layers\":60,\"hidden_size\":8192,"
     "\"num_attention_heads\":128,\"num_kv_heads\":8,\"new_decoder_architecture\":true,"
     "\"vocab_size\":65024,\"tie_word_embeddings\":false}",
     41835970560},
    {"falcon-rw-1b",
     "{\"model_type\":\"falcon\",\"num_hidden_layers\":24,\"hidden_size\":2048,"
     "\"num_attention_heads\":32,\"alibi\":true,\"multi_query\":false,\"parallel_attn\":false,"
     "\"bias\":true,\"vocab_size\":50304}",
     1311625216},
    {"gemma-2-2b",
     "{\"model_type\":\"gemma2\",\"num_hidden_layers\":26,\"hidden_size\":2304,"
     "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,"
     "\"intermediate_size\":9216,\"vocab_size\":256000,\"sliding_window\":4096}",
     2614341888},
    {"gemma-3-1b",
     "{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":26,\"hidden_size\":1152,"
     "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":256,"
     "\"intermediate_size\":6912,\"vocab_size\":262144,\"sliding_window\":512}",
     999885952},
    {"starcoder2-3b",
     "{\"model_type\":\"starcoder2\",\"num_hidden_layers\":30,\"hidden_size\":3072,"
     "\"num_attention_heads\":24,\"num_key_value_heads\":2,\"intermediate_size\":12288,"
     "\"vocab_size\":49152,\"use_bias\":true}",
     3030371328},
    {"deepseek-v2-lite",
     "{\"model_type\":\"deepseek_v2\",\"num_hidden_layers\":27,\"hidden_size\":2048,"
     "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":10944,"
     "\"moe_intermediate_size\":1408,\"n_routed_experts\":64,\"num_experts_per_tok\":6,"
     "\"n_shared_experts\":2,\"first_k_dense_replace\":1,\"q_lora_rank\":null,"
     "\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
     "\"vocab_size\":102400}",
     15706484224},
    {"phi-4-mini",
     "{\"model_type\":\"phi3\",\"num_hidden_layers\":32,\"hidden_size\":3072,"
     "\"num_attention_heads\":24,\"num_key_value_heads\":8,\"intermediate_size\":8192,"
     "\"vocab_size\":200064,\"tie_word_embeddings\":true,\"partial_rotary_factor\":0.75,"
     "\"sliding_window\":262144}",
     3836021760},
    {"t5-base",
     "{\"model_type\":\"t5\",\"num_layers\":12,\"d_model\":768,\"num_heads\":12,\"d_ff\":3072,"
     "\"vocab_size\":32128}",
     222903552},
    {"flan-t5-base",
     "{\"model_type\":\"t5\",\"num_layers\":12,\"d_model\":768,\"num_heads\":12,\"d_ff\":2048,"
     "\"d_kv\":64,\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":false,"
     "\"vocab_size\":32128}",
     247577856},
    {"olmo2-13b",
     "{\"model_type\":\"olmo2\",\"num_hidden_layers\":40,\"hidden_size\":5120,"
     "\"num_attention_heads\":40,\"num_key_value_heads\":40,\"intermediate_size\":13824,"
     "\"vocab_size\":100352}",
     13716198400},
};

static void members_of_families_are_exact(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    struct pz_workload *w = NULL;
    struct pz_error err = {0};
    const char *text = members[i].config;
    if (pz_workload_parse(members[i].name, text, strlen(text), NULL, &w, &err) != PZ_OK)
      fail_msg("%s", err.message);
    if (w->totals.params != members[i].params)
      fail_msg("%s: %lld, published %lld", members[i].name, (long long)w->totals.params,
               (long long)members[i].params);
    pz_workload_free(w);
  }
}

/* Configurations as transformers writes them, with its own counts: name,model_type,params. */
static void configurations_of_transformers_are_exact(void **state) {
  (void)state;
  static const char folder[] = PZ_TEST_SHARED "hf";
  char path[600], line[256], name[64], type[64];
  long long params = 0;
  snprintf(path, sizeof path, "%s/index.csv", folder);
  if (!pz_test_has(path)) skip();
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%63[^,],%63[^,],%lld", name, type, &params) != 3) continue;
    snprintf(path, sizeof path, "%s/%s.config.json", folder, name);
    struct pz_workload *w = pz_test_load(path, NULL);
    assert_string_equal(w->family, type);
    if (w->totals.params != params)
      fail_msg("%s: %lld, transformers %lld", name, (long long)w->totals.params, params);
    pz_workload_free(w);
  }
  fclose(f);
}

/* Kimi K2 (1,026,408,232,448 by its checkpoint) and GLM-4.5-Air (110,468,824,832, which has the embedding and the head
 * once more for the layer that predicts): published counts hold 384 and 128 values a layer that correct the router and are
 * not trained. */
static void checkpoints_of_other_names_are_exact(void **state) {
  (void)state;
  static const struct {
    const char *config;
    bool mtp;
    int64_t published, not_counted;
  } models[] = {
      {"{\"model_type\":\"kimi_k2\",\"num_hidden_layers\":61,\"hidden_size\":7168,\"num_attention_"
       "heads\":64,"
       "\"num_key_value_heads\":64,\"intermediate_size\":18432,\"vocab_size\":163840,"
       "\"max_position_embeddings\":131072,\"moe_intermediate_size\":2048,\"n_routed_experts\":384,"
       "\"num_experts_per_tok\":8,\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"n_group\":1,"
       "\"topk_group\":1,\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"
       "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"tie_word_embeddings\":false}",
       false, 1026408232448, 60 * 384},
      {"{\"model_type\":\"glm4_moe\",\"num_hidden_layers\":46,\"hidden_size\":4096,\"num_attention_"
       "heads\":96,"
       "\"num_key_value_heads\":8,\"head_dim\":128,\"attention_bias\":true,\"intermediate_size\":"
       "10944,"
       "\"vocab_size\":151552,\"max_position_embeddings\":131072,\"moe_intermediate_size\":1408,"
       "\"n_routed_experts\":128,\"num_experts_per_tok\":8,\"n_shared_experts\":1,\"first_k_dense_"
       "replace\":1,"
       "\"n_group\":1,\"topk_group\":1,\"partial_rotary_factor\":0.5,\"use_qk_norm\":false,"
       "\"num_nextn_predict_layers\":1,\"tie_word_embeddings\":false}",
       true, 110468824832, 46 * 128 + 2 * 4096 * INT64_C(151552)}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    const char *text = models[i].config;
    o.mtp = models[i].mtp;
    assert_int_equal(pz_workload_parse("config.json", text, strlen(text), &o, &w, NULL), PZ_OK);
    assert_int_equal(w->totals.params, models[i].published - models[i].not_counted);
    pz_workload_free(w);
  }
}

/* Parameters that a token meets, as published: 37 B of DeepSeek-V3 (its report counts neither
 * embedding nor head twice), 5.1 B of gpt-oss-120b, 22 B of Qwen3-235B-A22B, 17 B of Llama 4, 3.2 to 3.6 B of Nemotron 3 Nano, 12 B of Super. */
static void active_parameters_are_those_published(void **state) {
  (void)state;
  static const struct {
    const char *model;
    double least, most;
  } active[] = {{"deepseek-v3", 36.5e9, 38.1e9},   {"gpt-oss-120b", 5.0e9, 5.8e9},
                {"gpt-oss-20b", 3.5e9, 4.3e9},     {"qwen3-235b-a22b", 21.5e9, 22.5e9},
                {"qwen3-30b-a3b", 3.2e9, 3.4e9},   {"llama4-scout", 16.5e9, 17.5e9},
                {"mixtral-8x7b", 12.8e9, 13e9},    {"deepseek-v2", 20.5e9, 21.5e9},
                {"nemotron-3-nano", 3.2e9, 3.6e9}, {"nemotron-3-super", 12e9, 13e9},
                {"qwen3-next-80b-a3b", 3e9, 4e9}};
  for (size_t i = 0; i < sizeof active / sizeof *active; i++) {
    struct pz_workload *w = pz_test_load(active[i].model, NULL);
    double n = (double)w->totals.active_params;
    if (!(n >= active[i].least && n <= active[i].most)) fail_msg("%s: %.0f", active[i].model, n);
    pz_workload_free(w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_exact),
      cmocka_unit_test(counts_do_not_depend_on_options),
      cmocka_unit_test(members_of_families_are_exact),
      cmocka_unit_test(configurations_of_transformers_are_exact),
      cmocka_unit_test(checkpoints_of_other_names_are_exact),
      cmocka_unit_test(active_parameters_are_those_published),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
