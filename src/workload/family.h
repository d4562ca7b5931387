/* Model families.  A family is one file that reads its config.json fields into a pz_arch and builds
 * three layers from shared parts: embedding, the repeated block, head.  To add one, write that file
 * and add it to the table in family.c. */
#ifndef PZ_WORKLOAD_FAMILY_H
#define PZ_WORKLOAD_FAMILY_H

#include "workload/config.h"
#include "workload/mixed.h"
#include "workload/parts.h"

struct pz_family {
  const char *model_type; /* as in config.json */
  const char *about;
  void (*read)(struct pz_fields *c, struct pz_arch *a);
  void (*embedding)(struct pz_builder *b, const struct pz_arch *a);
  void (*block)(struct pz_builder *b, const struct pz_arch *a);
  void (*head)(struct pz_builder *b, const struct pz_arch *a);
};

/* Family i of the table, NULL after the last; the family of a model_type, or NULL. */
const struct pz_family *pz_family_at(size_t i);
const struct pz_family *pz_family_find(const char *model_type);

/* head_dim from hidden and heads where the configuration does not give it. */
void pz_arch_derive_heads(struct pz_fields *c, struct pz_arch *a, const char *hidden_keys,
                          const char *kv_keys);

/* Token embedding of the usual kind: a table divided over the vocabulary. */
uint32_t pz_family_tokens(struct pz_builder *b, const struct pz_arch *a);
/* x + a row of a learned position table; `extra` rows stand before the first position. */
uint32_t pz_family_positions(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                             int64_t extra);

extern const struct pz_family pz_family_bert, pz_family_megatron_bert, pz_family_gpt2,
    pz_family_opt, pz_family_llama, pz_family_mistral, pz_family_qwen2, pz_family_gpt_neox,
    pz_family_mixtral, pz_family_qwen3, pz_family_qwen3_moe, pz_family_deepseek_v2,
    pz_family_deepseek_v3, pz_family_gemma2, pz_family_gemma3, pz_family_phi3, pz_family_gpt_oss,
    pz_family_llama4, pz_family_olmo2, pz_family_falcon, pz_family_bloom, pz_family_starcoder2,
    pz_family_gptj, pz_family_glm4, pz_family_t5, pz_family_decoder;

/* Llama's fields and layers, which many families vary. */
/* default_kv: key/value heads where the field is absent; 0: as many as there are heads. */
void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv);
/* The same where other defaults are not Llama's; 0, NULL: as Llama. */
struct pz_llama_defaults {
  int64_t kv_heads, head_dim, positions;
  const char *act_keys, *act;
  bool tied, bias;
};
void pz_llama_read_as(struct pz_fields *c, struct pz_arch *a, struct pz_llama_defaults d);
/* The sliding window of Qwen2 and Qwen3: in the layers from max_window_layers on. */
void pz_qwen_window(struct pz_fields *c, struct pz_arch *a);
void pz_llama_embedding(struct pz_builder *b, const struct pz_arch *a);
void pz_llama_block(struct pz_builder *b, const struct pz_arch *a);
void pz_llama_head(struct pz_builder *b, const struct pz_arch *a);

#endif
