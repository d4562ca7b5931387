/* Sparse attention: DeepSeek-V3.2 (arXiv 2512.02556) and GLM-5, whose layers after the first may take the keys that an
 * earlier one chose. */
#include "workload/family.h"

/* The first `offset` layers and every `every`-th after them have an indexer (megatron/core/transformer/
 * experimental_attention_variant/dsa.py: is_dsa_skip_topk_layer). */
static void reuse_index(struct pz_fields *c, struct pz_arch *a, int64_t absent) {
  static const struct pz_layer_type known[] = {{"full", 0}, {"shared", PZ_LAYER_REUSED}, {NULL, 0}};
  int64_t every = pz_fields_int_or(c, "index_topk_freq", PZ_RANGE_LAYERS, 1);
  int64_t offset =
      pz_fields_int_or(c, "index_skip_topk_offset", (struct pz_range){0, 65536}, absent);
  if (pz_fields_value(c, "indexer_types")) {
    pz_mixed_types(c, a, "indexer_types", known);
    return;
  }
  if (offset < 1) offset = 1;
  for (int64_t i = offset; i < a->layers && every > 1 && c->status == PZ_OK; i++)
    if ((i + 1 - offset) % every) pz_mixed_mark(a, i, PZ_LAYER_REUSED);
}

static void read_sparse(struct pz_fields *c, struct pz_arch *a, int64_t heads, int64_t offset) {
  pz_read_deepseek_v3(c, a);
  a->index_topk = pz_fields_int_or(c, "index_topk", PZ_RANGE_POSITIONS, 2048);
  a->index_heads = pz_fields_int_or(c, "index_n_heads", PZ_RANGE_HEADS, heads);
  a->index_dim = pz_fields_int_or(c, "index_head_dim", PZ_RANGE_HIDDEN, 128);
  if (c->status == PZ_OK && !a->q_rank)
    pz_fields_refuse(c, "q_lora_rank", "a number, which the indexer's queries are made from");
  reuse_index(c, a, offset);
}

void pz_read_deepseek_sparse(struct pz_fields *c, struct pz_arch *a) { read_sparse(c, a, 64, 0); }

void pz_read_glm_sparse(struct pz_fields *c, struct pz_arch *a) { read_sparse(c, a, 32, 2); }
