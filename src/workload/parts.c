#include "workload/parts.h"

/* A linear layer into or out of the divided feed-forward width. */
static uint32_t widen(struct pz_builder *b, const struct pz_arch *a, const char *name, uint32_t x,
                      int64_t width) {
  return pz_build_linear(b, &(struct pz_linear){.name = name,
                                                .x = x,
                                                .in = a->hidden,
                                                .out = width,
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
  x = widen(b, a, "mlp_up", x, a->ffn);
  x = pz_kernel_activation(b, "mlp_act", a->act, x);
  x = narrow(b, a, "mlp_down", x);
  return pz_build_leave(b, "mlp_down", x, a->mlp_bias ? a->hidden : 0);
}

/* Names of a gated feed-forward. */
struct gated_names {
  const char *gate, *up, *both, *split, *act, *down;
};

static const struct gated_names MLP = {"mlp_gate",      "mlp_up",  "mlp_gate_up",
                                       "split_gate_up", "mlp_act", "mlp_down"},
                                SHARED = {"shared_gate",  "shared_up",  "shared_gate_up",
                                          "split_shared", "shared_act", "shared_down"};

/* One product for gate and up, which are views of its result; or two. */
static void gate_and_up(struct pz_builder *b, const struct pz_arch *a, const struct gated_names *n,
                        uint32_t x, uint32_t part[2]) {
  if (!a->fused_gate) {
    part[0] = widen(b, a, n->gate, x, a->ffn);
    part[1] = widen(b, a, n->up, x, a->ffn);
    return;
  }
  bool grid = a->experts && pz_folded(b);
  int64_t width = a->ffn / (grid ? b->options->etp : b->options->tp);
  struct pz_split split = {.name = n->split,
                           .x = widen(b, a, n->both, x, 2 * a->ffn),
                           .parts = 2,
                           .widths = {width, width},
                           .names = {"gate", "up"}};
  pz_build_split(b, &split, part);
}

static uint32_t gated(struct pz_builder *b, const struct pz_arch *a, const struct gated_names *n,
                      uint32_t x) {
  uint32_t part[2];
  gate_and_up(b, a, n, x, part);
  return narrow(b, a, n->down, pz_kernel_gated(b, n->act, a->act, part[0], part[1]));
}

uint32_t pz_part_gated_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  x = gated(b, a, &MLP, pz_build_enter(b, "mlp", x));
  return pz_build_leave(b, "mlp_down", x, a->mlp_bias ? a->hidden : 0);
}

/* ---- experts -------------------------------------------------------------------------------- */

/* Feed-forward of the routed experts.  The kernel of a gated activation also multiplies by the weights of the tokens'
 * experts; without a gate that is an operator of its own (Megatron Core, transformer/moe/experts.py). */
static uint32_t expert_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                           uint32_t weights) {
  if (!a->plain_experts) return gated(b, a, &MLP, x);
  x = pz_kernel_activation(b, MLP.act, a->act, widen(b, a, MLP.up, x, a->ffn));
  if (!pz_kernels_eager(b->options->kernels))
    x = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_MUL,
                                         .name = "mlp_act_weights",
                                         .in = {x, weights, PZ_NONE}});
  return narrow(b, a, MLP.down, x);
}

static uint32_t router_weights(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  bool softmax = a->router == PZ_ROUTER_SOFTMAX || a->router == PZ_ROUTER_CHOSEN_SOFTMAX;
  return pz_build_op(b, &(struct pz_emit){.kind = softmax ? PZ_OP_SOFTMAX : PZ_OP_SIGMOID,
                                          .name = softmax ? "router_softmax" : "router_sigmoid",
                                          .in = {x, PZ_NONE}});
}

/* Weights of the chosen experts, rows x experts_per_token, computed in 32 bit. */
static uint32_t route(struct pz_builder *b, const struct pz_arch *a, uint32_t x, int64_t rows,
                      uint32_t *index) {
  bool after = a->router == PZ_ROUTER_CHOSEN_SOFTMAX || a->router == PZ_ROUTER_CHOSEN_SIGMOID;
  uint32_t logits = pz_build_linear(
      b, &(struct pz_linear){
             .name = "router", .x = x, .in = a->hidden, .out = a->experts, .bias = a->router_bias});
  uint32_t p = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CAST,
                                                .name = "router.to_f32",
                                                .in = {logits, PZ_NONE},
                                                .elem_bytes = PZ_B32});
  if (!after) p = router_weights(b, a, p);
  struct pz_shape chosen = PZ_SHAPE(rows, a->experts_per_token);
  p = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_TOPK,
                                       .name = "router_topk",
                                       .in = {p, PZ_NONE},
                                       .shape = chosen,
                                       .aux_shape = chosen,
                                       .aux_bytes = PZ_INDEX,
                                       .aux = index});
  if (after) p = router_weights(b, a, p);
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CAST,
                                          .name = "router.to_b16",
                                          .in = {p, PZ_NONE},
                                          .elem_bytes = PZ_B16});
}

static uint32_t dispatch(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t index,
                         int64_t rows) {
  bool single = pz_kernels_eager(b->options->kernels);
  return pz_build_op(b,
                     &(struct pz_emit){.kind = single ? PZ_OP_GATHER_ROWS : PZ_OP_DISPATCH,
                                       .name = "dispatch",
                                       .in = {x, index, PZ_NONE},
                                       .shape = PZ_SHAPE(rows * a->experts_per_token, a->hidden)});
}

static uint32_t combine(struct pz_builder *b, const struct pz_arch *a, const uint32_t in[3],
                        int64_t rows) {
  if (pz_kernels_eager(b->options->kernels)) {
    uint32_t y = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_MUL,
                                                  .name = "combine_weights",
                                                  .in = {in[0], in[1], PZ_NONE}});
    return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_SCATTER_ADD,
                                            .name = "combine",
                                            .in = {y, in[2], PZ_NONE},
                                            .shape = PZ_SHAPE(rows, a->hidden)});
  }
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_COMBINE,
                                          .name = "combine",
                                          .in = {in[0], in[1], in[2], PZ_NONE},
                                          .shape = PZ_SHAPE(rows, a->hidden)});
}

/* The expert that every token meets, of x inside a tensor-parallel region. */
static uint32_t shared_expert(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  struct pz_arch dense = *a;
  dense.experts = 0;
  dense.ffn = a->shared_ffn;
  return gated(b, &dense, &SHARED, x);
}

/* Rows that came from several devices, by expert: each device sent them in the order of its own. */
static uint32_t sort_rows(struct pz_builder *b, const struct pz_arch *a, const char *name,
                          uint32_t x) {
  if (b->options->ep == 1 || pz_local_experts(b, a->experts) == 1) return x;
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_SORT, .name = name, .in = {x, PZ_NONE}});
}

/* Experts on a grid of their own: each device routes the tokens that it has outside the
 * tensor-parallel regions, sends every row to the device of its expert, and gets it back.  Loads are
 * balanced: a device gets as many rows as it sends. */
static uint32_t experts_on_grid(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  int64_t rows = pz_rows_outside(b);
  uint32_t index = PZ_NONE, weights = route(b, a, x, rows, &index);
  uint32_t y = pz_build_all_to_all(b, "dispatch.all_to_all", dispatch(b, a, x, index, rows));
  y = pz_build_expert_gather(b, "experts.gather", sort_rows(b, a, "dispatch.sort", y));
  y = pz_build_expert_scatter(b, "experts.sum", expert_mlp(b, a, y, weights));
  y = pz_build_all_to_all(b, "combine.all_to_all", sort_rows(b, a, "combine.sort", y));
  y = combine(b, a, (const uint32_t[]){y, weights, index}, rows);
  if (!a->shared_ffn) return y;
  uint32_t s = shared_expert(b, a, pz_build_enter(b, "shared", x));
  return pz_kernel_add(b, "add_shared", y, pz_build_leave(b, "shared_down", s, 0));
}

/* Every expert divided over the tensor-parallel group, like a dense feed-forward. */
uint32_t pz_part_experts(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  if (pz_folded(b)) return experts_on_grid(b, a, x);
  x = pz_build_enter(b, "experts", x);
  uint32_t index = PZ_NONE, weights = route(b, a, x, b->tokens, &index);
  uint32_t y = expert_mlp(b, a, dispatch(b, a, x, index, b->tokens), weights);
  y = combine(b, a, (const uint32_t[]){y, weights, index}, b->tokens);
  if (a->shared_ffn) y = pz_kernel_add(b, "add_shared", y, shared_expert(b, a, x));
  return pz_build_leave(b, "combine", y, 0);
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
  const struct half mlp = {"mlp_norm", "mlp_dropout", "mlp_residual",
                           a->experts ? pz_part_experts : pz_part_mlp};
  uint32_t x = pz_build_input(b, a->hidden);
  x = half(b, a, x, &attention);
  pz_build_output(b, half(b, a, x, &mlp));
}

void pz_part_parallel_block(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t normed = pz_kernel_layernorm(b, "attention_norm", x, a->hidden, true);
  uint32_t y = pz_kernel_dropout(b, "attention_out_dropout", pz_part_attention(b, a, normed),
                                 a->drop_hidden);
  uint32_t z = a->one_norm ? normed : pz_kernel_layernorm(b, "mlp_norm", x, a->hidden, true);
  z = pz_kernel_dropout(b, "mlp_dropout", pz_part_mlp(b, a, z), a->drop_hidden);
  pz_build_output(b, pz_kernel_add(b, "residual", pz_kernel_add(b, "join", z, y), x));
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
  x = pz_build_linear(b, &l);
  if (!a->tied) b->model_params -= a->vocab_padding * width;
  if (bias) b->model_params -= a->vocab_padding;
  if (a->logit_cap) x = pz_kernel_cap(b, "logit_cap", x);
  pz_build_output(b, pz_kernel_loss(b, x, a->loss_f32));
}

void pz_part_rotary_tables(struct pz_builder *b, const struct pz_arch *a) {
  if (!pz_composite(b) || !a->rotary_dims) return;
  struct pz_shape shape = PZ_SHAPE(b->part, a->rotary_dims);
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
