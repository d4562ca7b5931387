/* DeepSeek-V2 and V3: latent attention, routed and shared experts, dense first layers. */
#include "workload/family.h"

static void read_latent(struct pz_fields *c, struct pz_arch *a, int64_t q_rank) {
  bool direct = pz_config_null(c, "q_lora_rank");
  a->q_rank = direct ? 0 : pz_fields_int_or(c, "q_lora_rank", PZ_RANGE_HIDDEN, q_rank);
  a->kv_rank = pz_fields_int_or(c, "kv_lora_rank", PZ_RANGE_HIDDEN, 512);
  a->rotary_dims = pz_fields_int_or(c, "qk_rope_head_dim", PZ_RANGE_HIDDEN, 64);
  a->value_dim = pz_fields_int_or(c, "v_head_dim", PZ_RANGE_HIDDEN, 128);
  a->head_dim = a->rotary_dims + pz_fields_int_or(c, "qk_nope_head_dim", PZ_RANGE_HIDDEN, 128);
  a->kv_heads = a->heads;
}

static void read_experts(struct pz_fields *c, struct pz_arch *a, int64_t dense) {
  int64_t shared = pz_fields_int_or(c, "n_shared_experts", (struct pz_range){0, 65536}, 0);
  dense = pz_fields_int_or(c, "first_k_dense_replace", (struct pz_range){0, 65536}, dense);
  int64_t every = pz_fields_int_or(c, "moe_layer_freq", PZ_RANGE_LAYERS, 1);
  pz_config_experts(c, a, "n_routed_experts|num_local_experts", "moe_intermediate_size");
  a->fused_gate = true;
  a->shared_ffn = shared * a->ffn;
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK; i++)
    if (i < dense || i % every) pz_mixed_mark(a, i, PZ_LAYER_DENSE);
}

static void read(struct pz_fields *c, struct pz_arch *a, int64_t dense) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.head_dim = 64});
  a->mlp_bias = false;
  read_latent(c, a, 1536);
  read_experts(c, a, dense);
}

static void read_v2(struct pz_fields *c, struct pz_arch *a) { read(c, a, 0); }

static void read_v3(struct pz_fields *c, struct pz_arch *a) {
  read(c, a, 3);
  a->router = PZ_ROUTER_SIGMOID;
  int64_t groups = pz_fields_int_or(c, "n_group", (struct pz_range){1, 65536}, 8);
  int64_t chosen = pz_fields_int_or(c, "topk_group", (struct pz_range){1, 65536}, 4);
  if (groups > 1) a->expert_groups = chosen;
  a->predict_layers = pz_fields_int_or(c, "num_nextn_predict_layers", (struct pz_range){0, 64}, 0);
}

const struct pz_family pz_family_deepseek_v2 = {
    "deepseek_v2",  "decoder with latent attention, routed and shared experts",
    read_v2,        pz_llama_embedding,
    pz_llama_block, pz_llama_head};
const struct pz_family pz_family_deepseek_v3 = {
    "deepseek_v3",  "DeepSeek-V2 with a sigmoid router and multi-token prediction",
    read_v3,        pz_llama_embedding,
    pz_llama_block, pz_llama_head};
