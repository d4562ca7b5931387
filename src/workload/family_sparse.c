/* Families with sparse attention: DeepSeek-V3.2 (arXiv 2512.02556) and GLM-5, some of whose layers
 * reuse the keys that an earlier layer chose. */
#include "workload/family.h"

/* Marks the layers that have no indexer and reuse the keys of an earlier layer.  By default, the
 * first `offset` layers and one of every `period` layers after them have an indexer
 * (megatron/core/transformer/experimental_attention_variant/dsa.py: is_dsa_skip_topk_layer). */
static void mark_reused_index(struct pz_fields *config, struct pz_arch *arch, int64_t absent) {
  static const struct pz_layer_type known[] = {{"full", 0}, {"shared", PZ_LAYER_REUSED}, {NULL, 0}};
  int64_t period = pz_fields_int_or(config, "index_topk_freq", PZ_RANGE_LAYERS, 1);
  int64_t offset =
      pz_fields_int_or(config, "index_skip_topk_offset", (struct pz_range){0, 65536}, absent);
  if (pz_fields_value(config, "indexer_types")) {
    pz_mixed_read_types(config, arch, "indexer_types", known);
    return;
  }
  if (offset < 1) offset = 1;
  for (int64_t i = offset; i < arch->layers && period > 1 && config->status == PZ_OK; i++)
    if ((i + 1 - offset) % period) pz_mixed_mark(arch, i, PZ_LAYER_REUSED);
}

/* Reads DeepSeek-V3 with an indexer.  `heads` and `offset` are the default number of its heads and
 * the default of index_skip_topk_offset. */
static void read_sparse(struct pz_fields *config, struct pz_arch *arch, int64_t heads,
                        int64_t offset) {
  pz_read_deepseek_v3(config, arch);
  arch->index_topk = pz_fields_int_or(config, "index_topk", PZ_RANGE_POSITIONS, 2048);
  arch->index_heads = pz_fields_int_or(config, "index_n_heads", PZ_RANGE_HEADS, heads);
  arch->index_dim = pz_fields_int_or(config, "index_head_dim", PZ_RANGE_HIDDEN, 128);
  if (config->status == PZ_OK && !arch->q_rank)
    pz_fields_refuse(config, "q_lora_rank", "a number, which the indexer's queries are made from");
  mark_reused_index(config, arch, offset);
}

void pz_read_deepseek_sparse(struct pz_fields *config, struct pz_arch *arch) {
  read_sparse(config, arch, 64, 0);
}

void pz_read_glm_sparse(struct pz_fields *config, struct pz_arch *arch) {
  read_sparse(config, arch, 32, 2);
}
