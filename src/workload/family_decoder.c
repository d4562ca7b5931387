/* A plain decoder as people write it in a page of PyTorch: one projection for query, key and value and one for
 * gate and up, a head of its own, the loss in 32 bit.  Gated (hidden_act silu): RMS norm, rotary positions, no biases.  Else (gelu): layer norm,
 * biases, no positions. */
#include "workload/family.h"

static bool is_gated(const struct pz_arch *a) { return a->act == PZ_ACT_SILU; }

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->act = pz_config_act(c, "hidden_act", "silu");
  a->fused_qkv = true;
  a->softmax_f32 = false;
  a->qkv_bias = a->out_bias = a->mlp_bias = a->norm_affine = !is_gated(a);
  if (!is_gated(a)) a->rotary_dims = 0;
}

static uint32_t norm(struct pz_builder *b, const struct pz_arch *a, const char *name, uint32_t x) {
  return is_gated(a) ? pz_kernel_rmsnorm(b, name, x, a->hidden)
                     : pz_kernel_layernorm(b, name, x, a->hidden, true);
}

/* One product for gate and up, which are views of its result. */
static uint32_t gated_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  struct pz_linear up = {.name = "mlp_gate_up",
                         .x = pz_build_enter(b, "mlp", x),
                         .in = a->hidden,
                         .out = 2 * a->ffn,
                         .divide = PZ_DIVIDE_COLUMNS};
  int64_t width = a->ffn / b->options->tp;
  struct pz_split split = {.name = "split_gate_up",
                           .x = pz_build_linear(b, &up),
                           .parts = 2,
                           .widths = {width, width},
                           .names = {"gate", "up"}};
  uint32_t part[2];
  pz_build_split(b, &split, part);
  struct pz_linear down = {.name = "mlp_down",
                           .x = pz_kernel_gated(b, "mlp_act", a->act, part[0], part[1]),
                           .in = a->ffn,
                           .out = a->hidden,
                           .divide = PZ_DIVIDE_ROWS};
  return pz_build_leave(b, "mlp_down", pz_build_linear(b, &down), 0);
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  pz_build_output(b, pz_family_tokens(b, a));
}

static void block(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t y = pz_part_attention(b, a, norm(b, a, "attention_norm", x));
  x = pz_kernel_add(b, "attention_residual", x, y);
  y = norm(b, a, "mlp_norm", x);
  y = is_gated(a) ? gated_mlp(b, a, y) : pz_part_mlp(b, a, y);
  pz_build_output(b, pz_kernel_add(b, "mlp_residual", x, y));
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = norm(b, a, "final_norm", pz_build_input(b, a->hidden));
  pz_part_logits_and_loss(b, a, x, a->hidden, false);
}

const struct pz_family pz_family_decoder = {
    "decoder", "plain decoder with joint projections, gated or not", read, embedding, block, head};
