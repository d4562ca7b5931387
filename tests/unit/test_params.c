/* Parameter counts of the presets, to the last unit: as the released checkpoints have them (Hugging
 * Face), or, for GPT-3 and Megatron models, which were not released, as their published shapes give
 * them. */
#include "unit/testing.h"

static const struct {
  const char *model;
  int64_t params;
} published[] = {
    {"bert-large", 335174458},       {"gpt2", 124439808},
    {"gpt2-medium", 354823168},      {"gpt2-large", 774030080},
    {"gpt2-xl", 1557611200},         {"opt-125m", 125239296},
    {"opt-350m", 331196416},         {"opt-1.3b", 1315758080},
    {"opt-6.7b", 6658473984},        {"llama2-7b", 6738415616},
    {"llama2-13b", 13015864320},     {"llama2-70b", 68976648192},
    {"llama3-8b", 8030261248},       {"llama3-70b", 70553706496},
    {"llama3-405b", 405853388800},   {"mistral-7b", 7241732096},
    {"qwen2.5-1.5b", 1543714304},    {"qwen2.5-7b", 7615616512},
    {"gpt-neox-20b", 20554567680},   {"mixtral-8x7b", 46702792704},
    {"mixtral-8x22b", 140630071296}, {"megatron-2.5b", 2488598400},
    {"megatron-8.3b", 8314143744},   {"megatron-22b", 22074273792},
    {"gpt3-175b", 174604259328},     {"megatron-530b", 529600819200},
    {"megatron-1t", 1008038758400},
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_exact),
      cmocka_unit_test(counts_do_not_depend_on_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
