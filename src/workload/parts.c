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

/* act(x W1 + b1) W2 + b2 */
static uint32_t mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
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

/* (act(x Wgate) * (x Wup)) Wdown */
static uint32_t gated_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  x = gated(b, a, &MLP, pz_build_enter(b, "mlp", x));
  return pz_build_leave(b, "mlp_down", x, a->mlp_bias ? a->hidden : 0);
}

/* ---- experts -------------------------------------------------------------------------------- */

/* Feed-forward of the routed experts.  The kernel of a gated activation also multiplies by the weights of the tokens'
 * experts; without a gate that is an operator of its own (Megatron Core, transformer/moe/experts.py). */
static uint32_t expert_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                           uint32_t weights) {
  if (!a->plain_experts) return gated(b, a, &MLP, x);
  bool weighs = !pz_kernels_eager(b->options->kernels);
  x = widen(b, a, MLP.up, x, a->ffn);
  if (weighs && a->act == PZ_ACT_RELU2) /* one kernel: fusions/fused_weighted_squared_relu.py */
    return narrow(b, a, MLP.down, pz_build_step(b, PZ_OP_POW, MLP.act, x, weights));
  x = pz_kernel_activation(b, MLP.act, a->act, x);
  if (weighs) x = pz_build_step(b, PZ_OP_MUL, "mlp_act_weights", x, weights);
  return narrow(b, a, MLP.down, x);
}

static uint32_t router_weights(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  bool softmax = a->router == PZ_ROUTER_SOFTMAX || a->router == PZ_ROUTER_CHOSEN_SOFTMAX;
  return softmax ? pz_build_step(b, PZ_OP_SOFTMAX, "router_softmax", x, PZ_NONE)
                 : pz_build_step(b, PZ_OP_SIGMOID, "router_sigmoid", x, PZ_NONE);
}

/* Weights of the chosen experts, rows x experts_per_token, computed in 32 bit. */
static uint32_t route(struct pz_builder *b, const struct pz_arch *a, uint32_t x, int64_t rows,
                      uint32_t *index) {
  bool after = a->router == PZ_ROUTER_CHOSEN_SOFTMAX || a->router == PZ_ROUTER_CHOSEN_SIGMOID;
  uint32_t logits = pz_build_linear(
      b, &(struct pz_linear){
             .name = "router", .x = x, .in = a->hidden, .out = a->experts, .bias = a->router_bias});
  uint32_t p = pz_build_cast(b, "router.to_f32", logits, PZ_B32);
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
  return pz_build_cast(b, "router.to_b16", p, PZ_B16);
}

static uint32_t dispatch(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t index,
                         int64_t rows) {
  bool single = pz_kernels_eager(b->options->kernels);
  return pz_build_shaped(b, single ? PZ_OP_GATHER_ROWS : PZ_OP_DISPATCH, "dispatch", x, index,
                         PZ_SHAPE(rows * a->experts_per_token, a->hidden));
}

static uint32_t combine(struct pz_builder *b, const struct pz_arch *a, const uint32_t in[3],
                        int64_t rows) {
  if (pz_kernels_eager(b->options->kernels)) {
    uint32_t y = pz_build_step(b, PZ_OP_MUL, "combine_weights", in[0], in[1]);
    return pz_build_shaped(b, PZ_OP_SCATTER_ADD, "combine", y, in[2], PZ_SHAPE(rows, a->hidden));
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
  if (!a->plain_experts) return gated(b, &dense, &SHARED, x);
  x = pz_kernel_activation(b, SHARED.act, a->act, widen(b, &dense, SHARED.up, x, dense.ffn));
  return narrow(b, &dense, SHARED.down, x);
}

/* The shared expert's result y by a gate of the token, where it has one. */
static uint32_t shared_gate(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t y,
                            bool outside) {
  if (!a->shared_gate) return y;
  uint32_t gate = pz_build_linear(
      b, &(struct pz_linear){
             .name = "shared_weight", .x = x, .in = a->hidden, .out = 1, .outside = outside});
  gate = pz_build_step(b, PZ_OP_SIGMOID, "shared_weight.sigmoid", gate, PZ_NONE);
  return pz_build_step(b, PZ_OP_MUL, "shared_weigh", y, gate);
}

/* Into the width in which the experts work and out of it: what all devices have, outside the region (Megatron Core,
 * transformer/moe/moe_layer.py: fc1_latent_proj). */
static uint32_t latent(struct pz_builder *b, const struct pz_arch *a, uint32_t x, bool down) {
  if (!a->latent) return x;
  return pz_build_linear(b, &(struct pz_linear){.name = down ? "latent_down" : "latent_up",
                                                .x = x,
                                                .in = down ? a->hidden : a->latent,
                                                .out = down ? a->latent : a->hidden,
                                                .bias = a->mlp_bias,
                                                .outside = true});
}

static struct pz_arch latent_arch(const struct pz_arch *a) {
  struct pz_arch x = *a;
  if (a->latent) x.hidden = a->latent;
  return x;
}

/* Rows that came from several devices, by expert: each device sent them in the order of its own. */
static uint32_t sort_rows(struct pz_builder *b, const struct pz_arch *a, const char *name,
                          uint32_t x) {
  if (b->options->ep == 1 || pz_local_experts(b, a->experts) == 1) return x;
  return pz_build_step(b, PZ_OP_SORT, name, x, PZ_NONE);
}

/* Experts on a grid of their own: each device routes the tokens that it has outside the
 * tensor-parallel regions, sends every row to the device of its expert, and gets it back.  With an even load
 * a device gets as many rows as it sends. */
static uint32_t experts_on_grid(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  const struct pz_arch inner = latent_arch(a);
  int64_t rows = pz_rows_outside(b), sent = rows * a->experts_per_token, etp = b->options->etp;
  int64_t received = (int64_t)((double)sent * b->options->imbalance);
  uint32_t index = PZ_NONE, weights = route(b, a, x, rows, &index);
  uint32_t y = dispatch(b, &inner, latent(b, a, x, true), index, rows);
  y = pz_build_on_grid(b, PZ_OP_ALL_TO_ALL, "dispatch.all_to_all", y, received);
  y = sort_rows(b, a, "dispatch.sort", y);
  y = pz_build_on_grid(b, PZ_OP_ALL_GATHER, "experts.gather", y, received * etp);
  y = expert_mlp(b, &inner, y, weights);
  y = pz_build_on_grid(b, PZ_OP_REDUCE_SCATTER, "experts.sum", y, received);
  y = sort_rows(b, a, "combine.sort", y);
  y = pz_build_on_grid(b, PZ_OP_ALL_TO_ALL, "combine.all_to_all", y, sent);
  y = latent(b, a, combine(b, &inner, (const uint32_t[]){y, weights, index}, rows), false);
  if (!a->shared_ffn) return y;
  uint32_t s = shared_expert(b, a, pz_build_enter(b, "shared", x));
  s = shared_gate(b, a, x, pz_build_leave(b, "shared_down", s, 0), true);
  return pz_kernel_add(b, "add_shared", y, s);
}

/* Every expert divided over the tensor-parallel group, like a dense feed-forward.  The shared expert's partial sums are
 * added to theirs, if these are as wide. */
static uint32_t experts(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  if (pz_folded(b)) return experts_on_grid(b, a, x);
  const struct pz_arch inner = latent_arch(a);
  uint32_t small = latent(b, a, x, true);
  x = pz_build_enter(b, "experts", x);
  small = a->latent ? pz_build_enter(b, "latent", small) : x;
  uint32_t index = PZ_NONE, weights = route(b, a, x, b->tokens, &index);
  uint32_t y = expert_mlp(b, &inner, dispatch(b, &inner, small, index, b->tokens), weights);
  y = combine(b, &inner, (const uint32_t[]){y, weights, index}, b->tokens);
  uint32_t s = a->shared_ffn ? shared_gate(b, a, x, shared_expert(b, a, x), false) : PZ_NONE;
  if (!a->latent)
    return pz_build_leave(b, "combine", s == PZ_NONE ? y : pz_kernel_add(b, "add_shared", y, s), 0);
  y = latent(b, a, pz_build_leave(b, "combine", y, 0), false);
  return s == PZ_NONE ? y
                      : pz_kernel_add(b, "add_shared", y, pz_build_leave(b, "shared_down", s, 0));
}

/* Logits of x (rows x embed_dim) over the vocabulary, and the loss; ends the model. */
static void logits_and_loss(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  x = pz_build_enter(b, "logits", x);
  struct pz_linear l = {.name = "logits",
                        .x = x,
                        .in = a->embed_dim,
                        .out = a->vocab,
                        .divide = PZ_DIVIDE_COLUMNS,
                        .bias = a->head_bias,
                        .tied = a->tied};
  x = pz_build_linear(b, &l);
  if (!a->tied) b->model_params -= a->vocab_padding * a->embed_dim;
  if (a->head_bias) b->model_params -= a->vocab_padding;
  if (a->logit_cap) x = pz_kernel_cap(b, "logit_cap", x);
  pz_build_output(b, pz_kernel_loss(b, x, a->loss_f32));
}

/* ---- the block ------------------------------------------------------------------------------ */

static uint32_t norm(struct pz_builder *b, const struct pz_arch *a, const char *name, uint32_t x) {
  return a->rms_norm ? pz_kernel_rmsnorm(b, name, x, a->hidden)
                     : pz_kernel_layernorm(b, name, x, a->hidden, a->norm_affine);
}

static uint32_t feed_forward(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  return a->experts ? experts(b, a, x) : a->gated ? gated_mlp(b, a, x) : mlp(b, a, x);
}

/* Tokens mixed by attention, the recurrence, or both. */
static uint32_t mix(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  if (a->mixer != PZ_MIXER_ATTENTION) return pz_part_recurrence(b, a, x);
  uint32_t y = pz_part_attention(b, a, x);
  return a->beside ? pz_kernel_add(b, "join", y, pz_part_recurrence(b, a, x)) : y;
}

/* Names of a half. */
struct half_names {
  const char *norm, *post_norm, *dropout, *residual;
};

static const struct half_names FFN_HALF = {"mlp_norm", "mlp_post_norm", "mlp_dropout",
                                           "mlp_residual"},
                               ATTENTION_HALF = {"attention_norm", "attention_post_norm",
                                                 "attention_out_dropout", "attention_residual"},
                               RECURRENT_HALF = {"recurrent_norm", "recurrent_post_norm",
                                                 "recurrent_dropout", "recurrent_residual"};

/* x + dropout(f(x)), with a norm before f, after it, or both; or after the sum. */
static uint32_t half(struct pz_builder *b, const struct pz_arch *a, uint32_t x, bool mixer) {
  if (mixer ? a->mixer == PZ_MIXER_NONE : a->no_ffn) return x;
  const struct half_names *n = !mixer                           ? &FFN_HALF
                               : a->mixer == PZ_MIXER_ATTENTION ? &ATTENTION_HALF
                                                                : &RECURRENT_HALF;
  uint32_t y = a->pre_norm ? norm(b, a, n->norm, x) : x;
  y = mixer ? mix(b, a, y) : feed_forward(b, a, y);
  if (a->post_norm) y = norm(b, a, n->post_norm, y);
  y = pz_kernel_dropout(b, n->dropout, y, a->drop_hidden);
  y = pz_kernel_add(b, n->residual, x, y);
  return a->pre_norm || a->post_norm ? y : norm(b, a, n->norm, y);
}

/* x + attention(norm1(x)) + mlp(norm2(x)), or with one norm for both. */
static uint32_t parallel_halves(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  uint32_t normed = norm(b, a, "attention_norm", x);
  uint32_t y = pz_kernel_dropout(b, "attention_out_dropout", pz_part_attention(b, a, normed),
                                 a->drop_hidden);
  uint32_t z = a->one_norm ? normed : norm(b, a, "mlp_norm", x);
  z = pz_kernel_dropout(b, "mlp_dropout", mlp(b, a, z), a->drop_hidden);
  return pz_kernel_add(b, "residual", pz_kernel_add(b, "join", z, y), x);
}

static uint32_t attend_to_encoder(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  uint32_t source = pz_build_carried(b, "encoder_output", a->hidden);
  uint32_t y = pz_part_cross_attention(b, a, norm(b, a, "cross_norm", x), source);
  return pz_kernel_add(b, "cross_residual", x,
                       pz_kernel_dropout(b, "cross_dropout", y, a->drop_hidden));
}

/* Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): one more block on the norms of
 * this token's last state and of the next token's embedding, with a loss of its own.  The state goes
 * on to the head. */
static void predict(struct pz_builder *b, const struct pz_arch *a) {
  b->repeats = a->repeats_weights;
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t e = pz_kernel_embedding_tied(b, "next_tokens", a->vocab, a->hidden);
  e = norm(b, a, "next_norm", e);
  uint32_t y = norm(b, a, "state_norm", x);
  y = pz_build_shaped(b, PZ_OP_CONCAT, "join", e, y, PZ_SHAPE(pz_rows_outside(b), 2 * a->hidden));
  y = pz_build_linear_outside(
      b, &(struct pz_linear){.name = "project", .x = y, .in = 2 * a->hidden, .out = a->hidden});
  y = half(b, a, half(b, a, y, true), false);
  struct pz_arch shared = *a;
  shared.tied = true;
  logits_and_loss(b, &shared, norm(b, a, "final_norm", y));
  pz_build_also_out(b, b->graph->output);
  pz_build_output(b, x);
}

/* The learned biases.  Every device that needs them looks them up, so that they go to no other
 * layer; as a result they have a gradient. */
static void position_bias(struct pz_builder *b, const struct pz_arch *a) {
  int64_t heads = a->heads / b->options->tp, pairs = b->part * b->options->seq;
  uint32_t ids = pz_build_data(b, "position_bias.ids", PZ_INDEX, PZ_SHAPE(pairs));
  uint32_t w = pz_build_param(b, "position_bias.weight", PZ_SHAPE(a->buckets, heads),
                              a->buckets * a->heads, false);
  uint32_t y = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_EMBEDDING,
                                                .name = "position_bias",
                                                .in = {ids, w, PZ_NONE},
                                                .shape = PZ_SHAPE(pairs, heads),
                                                .elem_bytes = PZ_B16,
                                                .divides = true});
  pz_build_also_out(b, y);
  if (b->status == PZ_OK) b->graph->passing_bytes -= PZ_B16 * pairs * heads;
}

static void bridge(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = norm(b, a, "encoder_norm", pz_build_input(b, a->hidden));
  pz_build_also_out(b, pz_kernel_dropout(b, "encoder_dropout", x, a->drop_hidden));
  position_bias(b, a);
  x = pz_kernel_embedding_tied(b, "targets", a->vocab, a->hidden);
  pz_build_output(b, pz_kernel_dropout(b, "embedding_dropout", x, a->drop_embed));
}

static void block(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  if (a->parallel_residual) {
    pz_build_output(b, parallel_halves(b, a, x));
    return;
  }
  x = half(b, a, x, true);
  if (a->encoder_layers && a->part == PZ_PART_BLOCK) x = attend_to_encoder(b, a, x);
  pz_build_output(b, half(b, a, x, false));
}

/* ---- embedding and head --------------------------------------------------------------------- */

/* Rotary tables for all layers, made once in eager mode. */
static void rotary_tables(struct pz_builder *b, const struct pz_arch *a) {
  if (!pz_composite(b) || !a->rotary_dims || a->stored_tables) return;
  struct pz_shape shape = PZ_SHAPE(b->part, a->rotary_dims);
  uint32_t angle = pz_build_data(b, "angles", PZ_B32, shape);
  static const struct {
    int kind;
    const char *name, *narrow;
  } table[] = {{PZ_OP_COS, "cos.f32", "cos"}, {PZ_OP_SIN, "sin.f32", "sin"}};
  for (int i = 0; i < 2; i++) {
    uint32_t wide = pz_build_step(b, table[i].kind, table[i].name, angle, PZ_NONE);
    pz_build_cast(b, table[i].narrow, wide, PZ_B16);
  }
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  if (a->buckets) position_bias(b, a);
  rotary_tables(b, a);
  uint32_t x = pz_kernel_embedding(b, "tokens", b->tokens, a->vocab, a->embed_dim, true);
  b->model_params -= a->vocab_padding * a->embed_dim;
  if (a->types)
    x = pz_kernel_add(
        b, "add_types", x,
        pz_kernel_embedding(b, "types", pz_rows_outside(b), a->types, a->hidden, false));
  if (a->embed_dim != a->hidden)
    x = pz_build_linear_outside(
        b, &(struct pz_linear){.name = "project_in", .x = x, .in = a->embed_dim, .out = a->hidden});
  if (a->learned_positions) {
    int64_t rows = b->options->sequence_parallel ? b->part / b->options->tp : b->part;
    int64_t table = a->positions + a->extra_positions;
    uint32_t p = pz_kernel_embedding(b, "positions", rows, table, a->hidden, false);
    x = pz_kernel_add(b, "add_positions", x, p);
  }
  if (a->scale_embed) x = pz_build_step(b, PZ_OP_SCALE, "scale_tokens", x, PZ_NONE);
  if (a->embed_norm) x = norm(b, a, "embedding_norm", x);
  pz_build_output(b, pz_kernel_dropout(b, "embedding_dropout", x, a->drop_embed));
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  if (a->final_norm) x = norm(b, a, "final_norm", x);
  if (a->encoder_layers) x = pz_kernel_dropout(b, "final_dropout", x, a->drop_hidden);
  if (a->head_transform) {
    x = pz_build_linear_outside(
        b, &(struct pz_linear){
               .name = "transform", .x = x, .in = a->hidden, .out = a->hidden, .bias = true});
    x = norm(b, a, "transform_norm", pz_kernel_activation(b, "transform_act", a->act, x));
  }
  if (a->embed_dim != a->hidden)
    x = pz_build_linear_outside(
        b,
        &(struct pz_linear){.name = "project_out", .x = x, .in = a->hidden, .out = a->embed_dim});
  logits_and_loss(b, a, x);
}

void pz_part_layer(struct pz_builder *b, const struct pz_arch *a) {
  switch (a->part) {
  case PZ_PART_EMBEDDING: embedding(b, a); break;
  case PZ_PART_BLOCK:
  case PZ_PART_ENCODER: block(b, a); break;
  case PZ_PART_BRIDGE: bridge(b, a); break;
  case PZ_PART_PREDICT: predict(b, a); break;
  case PZ_PART_HEAD: head(b, a); break;
  }
}
