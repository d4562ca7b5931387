#include "workload/parts.h"

/* A linear layer into or out of the divided feed-forward width. */
static uint32_t widen(struct pz_builder *b, const struct pz_arch *a, const char *name, uint32_t x) {
  return pz_build_linear(b, &(struct pz_linear){.name = name,
                                                .x = x,
                                                .in = a->hidden,
                                                .out = a->ffn,
                                                .divide = PZ_DIVIDE_COLUMNS,
                                                .bias = a->mlp_bias,
                                                .experts = a->experts});
}

static uint32_t narrow(struct pz_builder *b, const struct pz_arch *a, const char *name,
                       uint32_t x) {
  return pz_build_linear(b, &(struct pz_linear){.name = name,
                                                .x = x,
                                                .in = a->ffn,
                                                .out = a->hidden,
                                                .divide = PZ_DIVIDE_ROWS,
                                                .bias = a->mlp_bias,
                                                .experts = a->experts});
}

uint32_t pz_part_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  x = pz_build_enter(b, "mlp", x);
  x = widen(b, a, "mlp_up", x);
  x = pz_kernel_activation(b, "mlp_act", a->act, x);
  x = narrow(b, a, "mlp_down", x);
  return pz_build_leave(b, "mlp_down", x, a->mlp_bias ? a->hidden : 0);
}

static uint32_t gated(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  uint32_t gate = widen(b, a, "mlp_gate", x);
  uint32_t up = widen(b, a, "mlp_up", x);
  return narrow(b, a, "mlp_down", pz_kernel_gated(b, "mlp_act", a->act, gate, up));
}

uint32_t pz_part_gated_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  x = gated(b, a, pz_build_enter(b, "mlp", x));
  return pz_build_leave(b, "mlp_down", x, a->mlp_bias ? a->hidden : 0);
}

/* Probabilities of the chosen experts, tokens x experts_per_token: softmax over all, the largest
 * kept and normalised. */
static uint32_t route(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t *index) {
  uint32_t logits = pz_build_linear(
      b, &(struct pz_linear){.name = "router", .x = x, .in = a->hidden, .out = a->experts});
  uint32_t p = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CAST,
                                                .name = "router.to_f32",
                                                .in = {logits, PZ_NONE},
                                                .elem_bytes = PZ_B32});
  p = pz_build_op(
      b, &(struct pz_emit){.kind = PZ_OP_SOFTMAX, .name = "router_softmax", .in = {p, PZ_NONE}});
  struct pz_shape chosen = PZ_SHAPE(b->tokens, a->experts_per_token);
  p = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_TOPK,
                                       .name = "router_topk",
                                       .in = {p, PZ_NONE},
                                       .shape = chosen,
                                       .aux_shape = chosen,
                                       .aux_bytes = PZ_INDEX,
                                       .aux = index});
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CAST,
                                          .name = "router.to_b16",
                                          .in = {p, PZ_NONE},
                                          .elem_bytes = PZ_B16});
}

uint32_t pz_part_experts(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  x = pz_build_enter(b, "experts", x);
  uint32_t index = PZ_NONE, weights = route(b, a, x, &index);
  struct pz_shape rows = PZ_SHAPE(b->tokens * a->experts_per_token, a->hidden);
  x = pz_build_op(
      b, &(struct pz_emit){
             .kind = PZ_OP_DISPATCH, .name = "dispatch", .in = {x, index, PZ_NONE}, .shape = rows});
  x = gated(b, a, x);
  x = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_COMBINE,
                                       .name = "combine",
                                       .in = {x, weights, index, PZ_NONE},
                                       .shape = PZ_SHAPE(b->tokens, a->hidden)});
  return pz_build_leave(b, "combine", x, 0);
}

struct half {
  const char *norm, *dropout, *add;
  uint32_t (*f)(struct pz_builder *, const struct pz_arch *, uint32_t);
};

/* x + dropout(f(x)), with the norm inside or after */
static uint32_t half(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                     const struct half *h) {
  uint32_t y = a->pre_norm ? pz_kernel_layernorm(b, h->norm, x, a->hidden, a->norm_affine) : x;
  y = pz_kernel_dropout(b, h->dropout, h->f(b, a, y), a->drop_hidden);
  y = pz_kernel_add(b, h->add, y, x);
  return a->pre_norm ? y : pz_kernel_layernorm(b, h->norm, y, a->hidden, a->norm_affine);
}

void pz_part_block(struct pz_builder *b, const struct pz_arch *a) {
  static const struct half attention = {"attention_norm", "attention_out_dropout",
                                        "attention_residual", pz_part_attention};
  static const struct half mlp = {"mlp_norm", "mlp_dropout", "mlp_residual", pz_part_mlp};
  uint32_t x = pz_build_input(b, a->hidden);
  x = half(b, a, x, &attention);
  pz_build_output(b, half(b, a, x, &mlp));
}

void pz_part_head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  x = pz_kernel_layernorm(b, "final_norm", x, a->hidden, true);
  pz_part_logits_and_loss(b, a, x, a->hidden, false);
}

void pz_part_logits_and_loss(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                             int64_t width, bool bias) {
  x = pz_build_enter(b, "logits", x);
  struct pz_linear l = {.name = "logits",
                        .x = x,
                        .in = width,
                        .out = a->vocab,
                        .divide = PZ_DIVIDE_COLUMNS,
                        .bias = bias,
                        .tied = a->tied};
  pz_build_output(b, pz_kernel_loss(b, pz_build_linear(b, &l), a->loss_f32));
}

void pz_part_rotary_tables(struct pz_builder *b, const struct pz_arch *a) {
  if (!pz_composite(b) || !a->rotary_dims) return;
  struct pz_shape shape = PZ_SHAPE(b->options->seq, a->rotary_dims);
  uint32_t angle = pz_build_data(b, "angles", PZ_B32, shape);
  static const struct {
    int kind;
    const char *name, *narrow;
  } table[] = {{PZ_OP_COS, "cos.f32", "cos"}, {PZ_OP_SIN, "sin.f32", "sin"}};
  for (int i = 0; i < 2; i++) {
    uint32_t wide = pz_build_op(
        b, &(struct pz_emit){.kind = table[i].kind, .name = table[i].name, .in = {angle, PZ_NONE}});
    pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CAST,
                                     .name = table[i].narrow,
                                     .in = {wide, PZ_NONE},
                                     .elem_bytes = PZ_B16});
  }
}
