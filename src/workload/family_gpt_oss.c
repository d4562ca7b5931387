/* gpt-oss: routed experts with biases, windows in every other layer, one more logit for each head in
 * the softmax (attention sinks), biases in attention and router. */
#include "workload/family.h"

static const int64_t PERIOD = 2;

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(
      c, a,
      (struct pz_llama_defaults){.kv_heads = 8, .head_dim = 64, .positions = 131072, .bias = true});
  a->mlp_bias = a->router_bias = a->sinks = a->fused_gate = true;
  a->router = PZ_ROUTER_CHOSEN_SOFTMAX;
  pz_config_experts(c, a, "num_local_experts|num_experts", NULL);
  a->window = pz_fields_int_or(c, "sliding_window", PZ_RANGE_POSITIONS, 128);
  pz_mixed_attention(c, a, PERIOD);
}

const struct pz_family pz_family_gpt_oss = {
    "gpt_oss",      "decoder with routed experts, attention sinks and alternate windows",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
