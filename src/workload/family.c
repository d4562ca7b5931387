#include "workload/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct pz_family *const table[] = {
    &pz_family_bert,        &pz_family_megatron_bert, &pz_family_gpt2,      &pz_family_opt,
    &pz_family_llama,       &pz_family_mistral,       &pz_family_qwen2,     &pz_family_gpt_neox,
    &pz_family_mixtral,     &pz_family_qwen3,         &pz_family_qwen3_moe, &pz_family_deepseek_v2,
    &pz_family_deepseek_v3, &pz_family_gemma2,        &pz_family_gemma3,    &pz_family_phi3,
    &pz_family_gpt_oss,     &pz_family_llama4,        &pz_family_olmo2,     &pz_family_falcon,
    &pz_family_bloom,       &pz_family_starcoder2,    &pz_family_gptj,      &pz_family_glm4,
    &pz_family_t5,          &pz_family_decoder,
};

const struct pz_family *pz_family_at(size_t i) {
  return i < sizeof table / sizeof *table ? table[i] : NULL;
}

const struct pz_family *pz_family_find(const char *model_type) {
  for (size_t i = 0; pz_family_at(i); i++)
    if (strcmp(table[i]->model_type, model_type) == 0) return table[i];
  return NULL;
}

void pz_arch_derive_heads(struct pz_fields *c, struct pz_arch *a, const char *hidden_keys,
                          const char *kv_keys) {
  char accepted[96];
  if (c->status != PZ_OK) return;
  if (!a->head_dim && a->hidden % a->heads) {
    snprintf(accepted, sizeof accepted, "a multiple of the %" PRId64 " attention heads", a->heads);
    pz_fields_refuse(c, hidden_keys, accepted);
    return;
  }
  if (!a->head_dim) a->head_dim = a->hidden / a->heads;
  if (a->heads % a->kv_heads) {
    snprintf(accepted, sizeof accepted, "a divisor of the %" PRId64 " attention heads", a->heads);
    pz_fields_refuse(c, kv_keys, accepted);
  }
}

uint32_t pz_family_tokens(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_kernel_embedding(b, "tokens", b->tokens, a->vocab, a->embed_dim, true);
  b->model_params -= a->vocab_padding * a->embed_dim;
  return x;
}

uint32_t pz_family_positions(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                             int64_t extra) {
  int64_t rows = b->options->sequence_parallel ? b->part / b->options->tp : b->part;
  uint32_t p = pz_kernel_embedding(b, "positions", rows, a->positions + extra, a->hidden, false);
  return pz_kernel_add(b, "add_positions", x, p);
}
