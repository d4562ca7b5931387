/* Qwen3: Llama with norms of query and key heads; some layers may have a sliding window.  Qwen3-MoE:
 * its feed-forward is routed experts in most layers. */
#include "workload/family.h"

static void set_norms(struct pz_arch *a) {
  a->mlp_bias = false;
  a->qk_norm = PZ_QK_NORM_HEAD;
}

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 32, .head_dim = 128});
  set_norms(a);
  pz_qwen_window(c, a);
}

static void read_moe(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 4});
  set_norms(a);
  pz_config_window(c, a, "use_sliding_window");
  a->fused_gate = true;
  pz_config_experts(c, a, "num_experts|num_local_experts", "moe_intermediate_size");
  int64_t step = pz_fields_int_or(c, "decoder_sparse_step", PZ_RANGE_LAYERS, 1);
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK && step > 1; i++)
    pz_mixed_mark(a, i, (i + 1) % step ? PZ_LAYER_DENSE : 0);
  pz_mixed_list(c, a, "mlp_only_layers", PZ_LAYER_DENSE, true);
}

const struct pz_family pz_family_qwen3 = {"qwen3",        "Llama with norms of query and key",
                                          read,           pz_llama_embedding,
                                          pz_llama_block, pz_llama_head};
const struct pz_family pz_family_qwen3_moe = {"qwen3_moe",    "Qwen3 with routed experts",
                                              read_moe,       pz_llama_embedding,
                                              pz_llama_block, pz_llama_head};
