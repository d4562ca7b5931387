/* Model families.  A family is one file that reads its config.json fields into a pz_arch and builds
 * three layers from shared parts: embedding, the repeated block, head.  To add one, write that file
 * and add it to the table in family.c. */
#ifndef PZ_WORKLOAD_FAMILY_H
#define PZ_WORKLOAD_FAMILY_H

#include "workload/config.h"
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
    pz_family_mixtral, pz_family_decoder;

/* Llama's fields and layers, which Mistral, Qwen2 and Mixtral vary. */
/* default_kv: key/value heads where the field is absent; 0: as many as there are heads. */
void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv);
void pz_llama_embedding(struct pz_builder *b, const struct pz_arch *a);
void pz_llama_block(struct pz_builder *b, const struct pz_arch *a);
void pz_llama_head(struct pz_builder *b, const struct pz_arch *a);

#endif
