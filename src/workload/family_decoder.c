/* A plain decoder as people write it in a page of PyTorch: one projection for query, key and value and one for
 * gate and up, a head of its own, the loss in 32 bit.  Gated (hidden_act silu): RMS norm, rotary positions, no biases.  Else (gelu): layer norm,
 * biases, no positions.  With num_experts gated experts are routed in place of the feed-forward, shared ones
 * beside them. */
#include "workload/family.h"

static bool is_gated(const struct pz_arch *a) { return a->act == PZ_ACT_SILU; }

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->act = pz_config_act(c, "hidden_act", "silu");
  a->fused_qkv = a->fused_gate = true;
  a->softmax_f32 = false;
  a->qkv_bias = a->out_bias = a->mlp_bias = a->norm_affine = !is_gated(a);
  if (!is_gated(a) || !pz_fields_bool_or(c, "rotary", true)) a->rotary_dims = 0;
  int64_t shared = pz_fields_int_or(c, "n_shared_experts", (struct pz_range){0, 65536}, 0);
  int64_t dense = pz_fields_int_or(c, "first_k_dense_replace", (struct pz_range){0, 65536}, 0);
  if (!pz_fields_value(c, "num_experts")) return;
  pz_config_experts(c, a, "num_experts", "moe_intermediate_size");
  a->shared_ffn = shared * a->ffn;
  for (int64_t i = 0; i < a->layers && i < dense && c->status == PZ_OK; i++)
    pz_mixed_mark(a, i, PZ_LAYER_DENSE);
}

static uint32_t norm(struct pz_builder *b, const struct pz_arch *a, const char *name, uint32_t x) {
  return is_gated(a) ? pz_kernel_rmsnorm(b, name, x, a->hidden)
                     : pz_kernel_layernorm(b, name, x, a->hidden, true);
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  pz_build_output(b, pz_family_tokens(b, a));
}

static void block(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t y = pz_part_attention(b, a, norm(b, a, "attention_norm", x));
  x = pz_kernel_add(b, "attention_residual", x, y);
  y = norm(b, a, "mlp_norm", x);
  y = a->experts    ? pz_part_experts(b, a, y)
      : is_gated(a) ? pz_part_gated_mlp(b, a, y)
                    : pz_part_mlp(b, a, y);
  pz_build_output(b, pz_kernel_add(b, "mlp_residual", x, y));
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = norm(b, a, "final_norm", pz_build_input(b, a->hidden));
  pz_part_logits_and_loss(b, a, x, a->hidden, false);
}

const struct pz_family pz_family_decoder = {
    "decoder", "plain decoder with joint projections, gated or not", read, embedding, block, head};
