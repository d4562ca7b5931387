/* Layers of transformers: feed-forward, experts, blocks, embedding, and head.
 *
 * pz_part_layer() builds the layer that arch->part states.  A block has two halves, each with a
 * norm and a residual sum (build_half): one mixes tokens by attention or a recurrence, and the
 * other is a feed-forward or routed experts.  The weights of a half are divided over the
 * tensor-parallel group, by columns where the half is entered and by rows where it is left. */
#include "workload/parts.h"

/* ---- dense feed-forward ---------------------------------------------------------------------- */

/* Projects the hidden width to the divided feed-forward width. */
static uint32_t build_up(struct pz_builder *builder, const struct pz_arch *arch, const char *name,
                         uint32_t input, int64_t width) {
  return pz_build_linear(builder, &(struct pz_linear){.name = name,
                                                      .input = input,
                                                      .in = arch->hidden,
                                                      .out = width,
                                                      .divide = PZ_DIVIDE_COLUMNS,
                                                      .bias = arch->mlp_bias,
                                                      .experts = arch->experts});
}

/* Projects the divided feed-forward width back to the hidden width. */
static uint32_t build_down(struct pz_builder *builder, const struct pz_arch *arch, const char *name,
                           uint32_t input) {
  return pz_build_linear(builder, &(struct pz_linear){.name = name,
                                                      .input = input,
                                                      .in = arch->ffn,
                                                      .out = arch->hidden,
                                                      .divide = PZ_DIVIDE_ROWS,
                                                      .bias = arch->mlp_bias,
                                                      .experts = arch->experts});
}

/* Names of the operators of a gated feed-forward. */
struct gated_names {
  const char *gate, *up, *gate_up, *split, *act, *down;
};

static const struct gated_names MLP = {"mlp_gate",      "mlp_up",  "mlp_gate_up",
                                       "split_gate_up", "mlp_act", "mlp_down"},
                                SHARED = {"shared_gate",  "shared_up",  "shared_gate_up",
                                          "split_shared", "shared_act", "shared_down"};

/* Adds (act(x Wgate) * (x Wup)) Wdown.  One product may compute both gate and up, which are then
 * views of its result. */
static uint32_t build_gated(struct pz_builder *builder, const struct pz_arch *arch,
                            const struct gated_names *names, uint32_t input) {
  uint32_t part[2];
  if (arch->fused_gate) {
    bool on_grid = arch->experts && pz_has_expert_grid(builder->options);
    int64_t width = arch->ffn / (on_grid ? builder->options->etp : builder->options->tp);
    struct pz_split split = {.name = names->split,
                             .whole = build_up(builder, arch, names->gate_up, input, 2 * arch->ffn),
                             .widths = {width, width},
                             .names = {"gate", "up"}};
    pz_build_split(builder, &split, part);
  } else {
    part[0] = build_up(builder, arch, names->gate, input, arch->ffn);
    part[1] = build_up(builder, arch, names->up, input, arch->ffn);
  }
  uint32_t inner = pz_kernel_gated(builder, names->act, arch->act, part[0], part[1]);
  return build_down(builder, arch, names->down, inner);
}

/* Adds a dense feed-forward, act(x W1 + b1) W2 + b2 or a gated one, with the collectives that enter
 * and leave its tensor-parallel region. */
static uint32_t build_mlp(struct pz_builder *builder, const struct pz_arch *arch, bool gated,
                          uint32_t input) {
  uint32_t state = pz_build_enter(builder, "mlp", input);
  if (gated) {
    state = build_gated(builder, arch, &MLP, state);
  } else {
    state = build_up(builder, arch, "mlp_up", state, arch->ffn);
    state = pz_kernel_activation(builder, "mlp_act", arch->act, state);
    state = build_down(builder, arch, "mlp_down", state);
  }
  return pz_build_leave(builder, "mlp_down", state, arch->mlp_bias ? arch->hidden : 0);
}

/* ---- experts --------------------------------------------------------------------------------- */

/* Adds the feed-forward of the routed experts.  Fused kernels multiply the weights of a token's
 * experts with the activation: in the kernel of a gated activation or a squared ReLU, otherwise by
 * a separate operator (Megatron Core, transformer/moe/experts.py and
 * fusions/fused_weighted_squared_relu.py). */
static uint32_t build_expert_mlp(struct pz_builder *builder, const struct pz_arch *arch,
                                 uint32_t state, uint32_t weights) {
  if (!arch->plain_experts) return build_gated(builder, arch, &MLP, state);
  bool multiplies_weights = !builder->eager;
  state = build_up(builder, arch, MLP.up, state, arch->ffn);
  if (multiplies_weights && arch->act == PZ_ACT_RELU2) {
    state = pz_build_binary(builder, PZ_OP_POW, MLP.act, state, weights);
  } else {
    state = pz_kernel_activation(builder, MLP.act, arch->act, state);
    if (multiplies_weights)
      state = pz_build_binary(builder, PZ_OP_MUL, "mlp_act_weights", state, weights);
  }
  return build_down(builder, arch, MLP.down, state);
}

/* Adds the router.  Returns the weights of the chosen experts, rows x experts_per_token, which are
 * computed in 32 bit.  *index receives the chosen experts. */
static uint32_t build_router(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input,
                             int64_t rows, uint32_t *index) {
  bool weighs_chosen =
      arch->router == PZ_ROUTER_CHOSEN_SOFTMAX || arch->router == PZ_ROUTER_CHOSEN_SIGMOID;
  bool softmax = arch->router == PZ_ROUTER_SOFTMAX || arch->router == PZ_ROUTER_CHOSEN_SOFTMAX;
  int weight_kind = softmax ? PZ_OP_SOFTMAX : PZ_OP_SIGMOID;
  const char *weight_name = softmax ? "router_softmax" : "router_sigmoid";
  uint32_t logits = pz_build_linear(builder, &(struct pz_linear){.name = "router",
                                                                 .input = input,
                                                                 .in = arch->hidden,
                                                                 .out = arch->experts,
                                                                 .bias = arch->router_bias});
  uint32_t weights = pz_build_cast(builder, "router.to_f32", logits, PZ_B32);
  if (!weighs_chosen) weights = pz_build_unary(builder, weight_kind, weight_name, weights);
  struct pz_shape chosen = PZ_SHAPE(rows, arch->experts_per_token);
  weights = pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_TOPK,
                                                      .name = "router_topk",
                                                      .in = {weights, PZ_NONE},
                                                      .shape = chosen,
                                                      .aux_shape = chosen,
                                                      .aux_bytes = PZ_INDEX,
                                                      .aux = index});
  if (weighs_chosen) weights = pz_build_unary(builder, weight_kind, weight_name, weights);
  return pz_build_cast(builder, "router.to_b16", weights, PZ_B16);
}

/* Copies the rows of tokens into one row for each of their experts. */
static uint32_t build_dispatch(struct pz_builder *builder, const struct pz_arch *arch,
                               uint32_t input, uint32_t index, int64_t rows) {
  int kind = builder->eager ? PZ_OP_GATHER_ROWS : PZ_OP_DISPATCH;
  return pz_build_shaped(builder, kind, "dispatch", input, index,
                         PZ_SHAPE(rows * arch->experts_per_token, arch->hidden));
}

/* Adds up the results of each token's experts, multiplied by their weights. */
static uint32_t build_combine(struct pz_builder *builder, const struct pz_arch *arch,
                              uint32_t results, uint32_t weights, uint32_t index, int64_t rows) {
  struct pz_shape shape = PZ_SHAPE(rows, arch->hidden);
  if (builder->eager) {
    uint32_t weighted = pz_build_binary(builder, PZ_OP_MUL, "combine_weights", results, weights);
    return pz_build_shaped(builder, PZ_OP_SCATTER_ADD, "combine", weighted, index, shape);
  }
  return pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_COMBINE,
                                                   .name = "combine",
                                                   .in = {results, weights, index, PZ_NONE},
                                                   .shape = shape});
}

/* Adds the shared expert, a feed-forward that every token uses in addition to its routed experts.
 * Its input is inside of a tensor-parallel region. */
static uint32_t build_shared_expert(struct pz_builder *builder, const struct pz_arch *arch,
                                    uint32_t state) {
  struct pz_arch dense = *arch;
  dense.experts = 0;
  dense.ffn = arch->shared_ffn;
  if (!arch->plain_experts) return build_gated(builder, &dense, &SHARED, state);
  state = build_up(builder, &dense, SHARED.up, state, dense.ffn);
  state = pz_kernel_activation(builder, SHARED.act, arch->act, state);
  return build_down(builder, &dense, SHARED.down, state);
}

/* Multiplies the result of the shared expert by the sigmoid of a projection of the token, if the
 * model has such a gate.  Both tensors are outside of the tensor-parallel regions if the experts
 * have a device grid of their own, and otherwise inside. */
static uint32_t gate_shared_expert(struct pz_builder *builder, const struct pz_arch *arch,
                                   uint32_t input, uint32_t result) {
  if (!arch->shared_gate) return result;
  struct pz_linear linear = {.name = "shared_weight",
                             .input = input,
                             .in = arch->hidden,
                             .out = 1,
                             .outside_regions = pz_has_expert_grid(builder->options)};
  uint32_t gate = pz_build_linear(builder, &linear);
  gate = pz_build_unary(builder, PZ_OP_SIGMOID, "shared_weight.sigmoid", gate);
  return pz_build_binary(builder, PZ_OP_MUL, "shared_weigh", result, gate);
}

/* Whether a projection leads to the latent width of the experts or from it. */
enum latent_projection { TO_LATENT, FROM_LATENT };

/* Projects the hidden width to the latent width of the experts, or back.  Returns the input for a
 * model without a latent width.  All devices compute the projection outside of the region (Megatron
 * Core, transformer/moe/moe_layer.py: fc1_latent_proj). */
static uint32_t project_expert_latent(struct pz_builder *builder, const struct pz_arch *arch,
                                      uint32_t input, enum latent_projection projection) {
  bool down = projection == TO_LATENT;
  if (!arch->expert_latent) return input;
  return pz_build_linear(builder,
                         &(struct pz_linear){.name = down ? "latent_down" : "latent_up",
                                             .input = input,
                                             .in = down ? arch->hidden : arch->expert_latent,
                                             .out = down ? arch->expert_latent : arch->hidden,
                                             .bias = arch->mlp_bias,
                                             .outside_regions = true});
}

/* Adds experts on a device grid of their own (expert and expert-tensor parallelism), and the shared
 * expert.  `inner` is `arch` with the width of the experts' rows.  Each device routes the tokens
 * that it has outside of the tensor-parallel regions, sends a row of each token to the device of
 * each of its experts, and receives the results.  The option `imbalance` is the ratio of the rows
 * that the fullest device receives to those that it sends. */
static uint32_t build_grid_experts(struct pz_builder *builder, const struct pz_arch *arch,
                                   const struct pz_arch *inner, uint32_t input) {
  int64_t rows = builder->rows_outside, sent = rows * arch->experts_per_token;
  int64_t received = (int64_t)((double)sent * builder->options->imbalance);
  /* Rows arrive in the order of the devices that send them, and are sorted by expert. */
  bool sorts = builder->options->ep > 1 && pz_local_experts(builder, arch->experts) > 1;
  uint32_t index = PZ_NONE, weights = build_router(builder, arch, input, rows, &index);
  /* rows go to the devices of their experts, */
  uint32_t result = project_expert_latent(builder, arch, input, TO_LATENT);
  result = build_dispatch(builder, inner, result, index, rows);
  result = pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_EXPERT, "dispatch.all_to_all",
                             result, PZ_SHAPE(received, inner->hidden));
  if (sorts) result = pz_build_unary(builder, PZ_OP_SORT, "dispatch.sort", result);
  /* each expert-tensor-parallel group computes its experts for the rows of all its devices, */
  result = pz_build_exchange(builder, PZ_OP_ALL_GATHER, PZ_PEERS_EXPERT_TENSOR, "experts.gather",
                             result, PZ_SHAPE(received * builder->options->etp, inner->hidden));
  result = build_expert_mlp(builder, inner, result, weights);
  result = pz_build_exchange(builder, PZ_OP_REDUCE_SCATTER, PZ_PEERS_EXPERT_TENSOR, "experts.sum",
                             result, PZ_SHAPE(received, inner->hidden));
  /* and the results return to the devices of their tokens */
  if (sorts) result = pz_build_unary(builder, PZ_OP_SORT, "combine.sort", result);
  result = pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_EXPERT, "combine.all_to_all",
                             result, PZ_SHAPE(sent, inner->hidden));
  result = build_combine(builder, inner, result, weights, index, rows);
  result = project_expert_latent(builder, arch, result, FROM_LATENT);
  if (!arch->shared_ffn) return result;
  uint32_t shared = build_shared_expert(builder, arch, pz_build_enter(builder, "shared", input));
  shared = pz_build_leave(builder, "shared_down", shared, 0);
  shared = gate_shared_expert(builder, arch, input, shared);
  return pz_build_binary(builder, PZ_OP_ADD, "add_shared", result, shared);
}

/* Adds routed experts and the shared expert.  Without a device grid of their own, all experts are
 * divided over the tensor-parallel group like a dense feed-forward, and one reduction sums up the
 * results of routed and shared experts, unless the routed experts work in a latent width. */
static uint32_t build_experts(struct pz_builder *builder, const struct pz_arch *arch,
                              uint32_t state) {
  struct pz_arch inner = *arch;
  if (arch->expert_latent) inner.hidden = arch->expert_latent;
  if (pz_has_expert_grid(builder->options)) return build_grid_experts(builder, arch, &inner, state);
  uint32_t latent = project_expert_latent(builder, arch, state, TO_LATENT);
  state = pz_build_enter(builder, "experts", state);
  uint32_t expert_input = arch->expert_latent ? pz_build_enter(builder, "latent", latent) : state;
  int64_t rows = builder->tokens;
  uint32_t index = PZ_NONE, weights = build_router(builder, arch, state, rows, &index);
  uint32_t result = build_dispatch(builder, &inner, expert_input, index, rows);
  result = build_expert_mlp(builder, &inner, result, weights);
  result = build_combine(builder, &inner, result, weights, index, rows);
  uint32_t shared = PZ_NONE;
  if (arch->shared_ffn) {
    shared = build_shared_expert(builder, arch, state);
    shared = gate_shared_expert(builder, arch, state, shared);
  }
  /* Partial sums of the hidden width are added before the reduction.  If the routed experts work in
   * a latent width, both results are reduced separately and added at the end. */
  bool adds_partial_sums = shared != PZ_NONE && !arch->expert_latent;
  if (adds_partial_sums) result = pz_build_binary(builder, PZ_OP_ADD, "add_shared", result, shared);
  result = pz_build_leave(builder, "combine", result, 0);
  if (!arch->expert_latent) return result;
  result = project_expert_latent(builder, arch, result, FROM_LATENT);
  if (shared == PZ_NONE) return result;
  shared = pz_build_leave(builder, "shared_down", shared, 0);
  return pz_build_binary(builder, PZ_OP_ADD, "add_shared", result, shared);
}

/* ---- the block ------------------------------------------------------------------------------- */

/* Adds a norm over the hidden width, of the type that the model has. */
static uint32_t build_norm(struct pz_builder *builder, const struct pz_arch *arch, const char *name,
                           uint32_t input) {
  return arch->rms_norm
             ? pz_kernel_rmsnorm(builder, name, input, arch->hidden, PZ_NORM_OUTSIDE)
             : pz_kernel_layernorm(builder, name, input, arch->hidden, arch->norm_affine);
}

/* Names of the operators around one half of a block. */
struct half_names {
  const char *norm, *post_norm, *dropout, *residual;
};

static const struct half_names FFN_HALF = {"mlp_norm", "mlp_post_norm", "mlp_dropout",
                                           "mlp_residual"},
                               ATTENTION_HALF = {"attention_norm", "attention_post_norm",
                                                 "attention_out_dropout", "attention_residual"},
                               RECURRENT_HALF = {"recurrent_norm", "recurrent_post_norm",
                                                 "recurrent_dropout", "recurrent_residual"};

/* The halves of a block: attention, a recurrence, or the sum of both; and the feed-forward. */
enum block_half { TOKEN_MIXER, FEED_FORWARD };

/* Adds one half of a block, x + dropout(f(x)), where f is the token mixer or the feed-forward.
 * Returns the input if the layer lacks this half.  Norms precede f, follow f, or both; a model with
 * neither has a norm after the sum. */
static uint32_t build_half(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input,
                           enum block_half half) {
  const struct half_names *names = &FFN_HALF;
  bool mixes_tokens = half == TOKEN_MIXER;
  bool is_absent = mixes_tokens ? arch->mixer == PZ_MIXER_NONE : arch->no_ffn;
  if (is_absent) return input;
  if (mixes_tokens) names = arch->mixer == PZ_MIXER_ATTENTION ? &ATTENTION_HALF : &RECURRENT_HALF;
  uint32_t result = arch->pre_norm ? build_norm(builder, arch, names->norm, input) : input;
  if (mixes_tokens && arch->mixer != PZ_MIXER_ATTENTION) {
    result = pz_part_recurrence(builder, arch, result);
  } else if (mixes_tokens) {
    uint32_t attention = pz_part_attention(builder, arch, result, result);
    result = arch->parallel_mixers ? pz_build_binary(builder, PZ_OP_ADD, "join", attention,
                                                     pz_part_recurrence(builder, arch, result))
                                   : attention;
  } else if (arch->experts) {
    result = build_experts(builder, arch, result);
  } else {
    result = build_mlp(builder, arch, arch->gated_ffn, result);
  }
  if (arch->post_norm) result = build_norm(builder, arch, names->post_norm, result);
  result = pz_kernel_dropout(builder, names->dropout, result, arch->drop_hidden);
  result = pz_build_binary(builder, PZ_OP_ADD, names->residual, input, result);
  return arch->pre_norm || arch->post_norm ? result
                                           : build_norm(builder, arch, names->norm, result);
}

/* Builds a block.  Parallel halves both read the input: x + attention(norm1(x)) + mlp(norm2(x)), or
 * with one norm for both.  The decoder of a model with an encoder has cross-attention between the
 * halves. */
static void build_block(struct pz_builder *builder, const struct pz_arch *arch) {
  uint32_t state = pz_build_input(builder, arch->hidden);
  if (arch->parallel_residual) {
    uint32_t normed = build_norm(builder, arch, "attention_norm", state);
    uint32_t attention = pz_part_attention(builder, arch, normed, normed);
    attention = pz_kernel_dropout(builder, "attention_out_dropout", attention, arch->drop_hidden);
    uint32_t mlp = arch->shares_norm ? normed : build_norm(builder, arch, "mlp_norm", state);
    const bool is_gated = false; /* no family with parallel halves has a gate */
    mlp = build_mlp(builder, arch, is_gated, mlp);
    mlp = pz_kernel_dropout(builder, "mlp_dropout", mlp, arch->drop_hidden);
    mlp = pz_build_binary(builder, PZ_OP_ADD, "join", mlp, attention);
    builder->graph->output = pz_build_binary(builder, PZ_OP_ADD, "residual", mlp, state);
    return;
  }
  state = build_half(builder, arch, state, TOKEN_MIXER);
  bool attends_to_encoder = arch->encoder_layers && arch->part == PZ_PART_BLOCK;
  if (attends_to_encoder) {
    uint32_t source = pz_build_carried(builder, "encoder_output", arch->hidden);
    uint32_t result = build_norm(builder, arch, "cross_norm", state);
    result = pz_part_attention(builder, arch, result, source);
    result = pz_kernel_dropout(builder, "cross_dropout", result, arch->drop_hidden);
    state = pz_build_binary(builder, PZ_OP_ADD, "cross_residual", state, result);
  }
  builder->graph->output = build_half(builder, arch, state, FEED_FORWARD);
}

/* ---- embedding, head, and the layers between encoder and decoder ----------------------------- */

/* Adds the learned biases of relative positions (T5).  They are an output of this layer, so that
 * its backward pass computes their gradient.  They are not sent to the next layer, because every
 * layer that needs them repeats the lookup, so their bytes are subtracted from passing_bytes. */
static void build_position_bias(struct pz_builder *builder, const struct pz_arch *arch) {
  int64_t heads = arch->heads / builder->options->tp;
  int64_t pairs = builder->local_seq * builder->options->seq; /* pairs of a query and a key */
  const bool is_tied = false;
  uint32_t ids = pz_build_data(builder, "position_bias.ids", PZ_INDEX, PZ_SHAPE(pairs));
  uint32_t table =
      pz_build_param(builder, "position_bias.weight", PZ_SHAPE(arch->position_buckets, heads),
                     arch->position_buckets * arch->heads, is_tied);
  uint32_t bias = pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_EMBEDDING,
                                                            .name = "position_bias",
                                                            .in = {ids, table, PZ_NONE},
                                                            .shape = PZ_SHAPE(pairs, heads),
                                                            .elem_bytes = PZ_B16,
                                                            .divides = true});
  pz_build_also_out(builder, bias);
  builder->graph->passing_bytes -= PZ_B16 * pairs * heads;
}

/* Builds the layer between encoder and decoder: the last norm of the encoder, and the embedding of
 * the decoder. */
static void build_bridge(struct pz_builder *builder, const struct pz_arch *arch) {
  uint32_t state = build_norm(builder, arch, "encoder_norm", pz_build_input(builder, arch->hidden));
  pz_build_also_out(builder,
                    pz_kernel_dropout(builder, "encoder_dropout", state, arch->drop_hidden));
  build_position_bias(builder, arch);
  state = pz_kernel_embedding(builder, "targets", builder->tokens, arch->vocab, arch->hidden,
                              PZ_TABLE_TIED);
  builder->graph->output = pz_kernel_dropout(builder, "embedding_dropout", state, arch->drop_embed);
}

/* Builds the embedding layer, which adds up the embeddings of token, segment and position that the
 * model has. */
static void build_embedding(struct pz_builder *builder, const struct pz_arch *arch) {
  int64_t hidden = arch->hidden, embed_dim = arch->embed_dim;
  if (arch->position_buckets) build_position_bias(builder, arch);
  if (builder->composite && arch->rotary_dims && !arch->stored_tables) {
    /* Eager code computes the sine and cosine tables of rotary positions once for all layers. */
    struct pz_shape shape = PZ_SHAPE(builder->local_seq, arch->rotary_dims);
    uint32_t angles = pz_build_data(builder, "angles", PZ_B32, shape);
    uint32_t cos = pz_build_unary(builder, PZ_OP_COS, "cos.f32", angles);
    pz_build_cast(builder, "cos", cos, PZ_B16);
    uint32_t sin = pz_build_unary(builder, PZ_OP_SIN, "sin.f32", angles);
    pz_build_cast(builder, "sin", sin, PZ_B16);
  }
  uint32_t state = pz_kernel_embedding(builder, "tokens", builder->tokens, arch->vocab, embed_dim,
                                       PZ_TABLE_DIVIDED);
  builder->model_params -= arch->vocab_padding * embed_dim;
  if (arch->segment_types) {
    int64_t rows = builder->rows_outside;
    uint32_t types =
        pz_kernel_embedding(builder, "types", rows, arch->segment_types, hidden, PZ_TABLE_WHOLE);
    state = pz_build_binary(builder, PZ_OP_ADD, "add_types", state, types);
  }
  /* a narrower token embedding is projected to the hidden width before positions are added */
  if (embed_dim != hidden)
    state = pz_build_linear_outside(
        builder,
        &(struct pz_linear){.name = "project_in", .input = state, .in = embed_dim, .out = hidden});
  if (arch->learned_positions) {
    int64_t rows = builder->local_seq, table_rows = arch->positions + arch->extra_positions;
    if (builder->options->sequence_parallel) rows /= builder->options->tp;
    uint32_t positions =
        pz_kernel_embedding(builder, "positions", rows, table_rows, hidden, PZ_TABLE_WHOLE);
    state = pz_build_binary(builder, PZ_OP_ADD, "add_positions", state, positions);
  }
  if (arch->scale_embed) state = pz_build_unary(builder, PZ_OP_SCALE, "scale_tokens", state);
  if (arch->embed_norm) state = build_norm(builder, arch, "embedding_norm", state);
  builder->graph->output = pz_kernel_dropout(builder, "embedding_dropout", state, arch->drop_embed);
}

/* Adds the logits over the vocabulary, and the loss, which is the result of the layer. */
static void build_loss(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input) {
  struct pz_linear linear = {.name = "logits",
                             .input = pz_build_enter(builder, "logits", input),
                             .in = arch->embed_dim,
                             .out = arch->vocab,
                             .divide = PZ_DIVIDE_COLUMNS,
                             .bias = arch->head_bias,
                             .tied = arch->tied};
  uint32_t logits = pz_build_linear(builder, &linear);
  if (!arch->tied) builder->model_params -= arch->vocab_padding * arch->embed_dim;
  if (arch->head_bias) builder->model_params -= arch->vocab_padding;
  if (arch->caps_logits) logits = pz_kernel_cap(builder, "logit_cap", logits);
  builder->graph->output = pz_kernel_loss(builder, logits, arch->loss_f32);
}

/* Builds a layer of multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): one more
 * block, whose input is the norms of this token's last state and of the next token's embedding,
 * and which has its own loss.  The state is passed on to the head. */
static void build_prediction(struct pz_builder *builder, const struct pz_arch *arch) {
  int64_t hidden = arch->hidden;
  builder->repeats_weights = arch->repeats_weights;
  uint32_t state = pz_build_input(builder, hidden);
  uint32_t next = pz_kernel_embedding(builder, "next_tokens", builder->tokens, arch->vocab, hidden,
                                      PZ_TABLE_TIED);
  next = build_norm(builder, arch, "next_norm", next);
  uint32_t result = build_norm(builder, arch, "state_norm", state);
  /* The block's input is a projection of both, joined to rows of twice the hidden width. */
  result = pz_build_shaped(builder, PZ_OP_CONCAT, "join", next, result,
                           PZ_SHAPE(builder->rows_outside, 2 * hidden));
  result = pz_build_linear_outside(
      builder,
      &(struct pz_linear){.name = "project", .input = result, .in = 2 * hidden, .out = hidden});
  result = build_half(builder, arch, result, TOKEN_MIXER);
  result = build_half(builder, arch, result, FEED_FORWARD);
  struct pz_arch tied = *arch;
  tied.tied = true; /* the logits use the weight of the head */
  build_loss(builder, &tied, build_norm(builder, arch, "final_norm", result));
  pz_build_also_out(builder, builder->graph->output);
  builder->graph->output = state;
}

/* Builds the head: the last norm, the projections of some families, and the loss. */
static void build_head(struct pz_builder *builder, const struct pz_arch *arch) {
  int64_t hidden = arch->hidden;
  uint32_t state = pz_build_input(builder, hidden);
  if (arch->final_norm) state = build_norm(builder, arch, "final_norm", state);
  if (arch->encoder_layers)
    state = pz_kernel_dropout(builder, "final_dropout", state, arch->drop_hidden);
  if (arch->head_transform) {
    struct pz_linear transform = {
        .name = "transform", .input = state, .in = hidden, .out = hidden, .bias = true};
    state = pz_build_linear_outside(builder, &transform);
    state = pz_kernel_activation(builder, "transform_act", arch->act, state);
    state = build_norm(builder, arch, "transform_norm", state);
  }
  if (arch->embed_dim != hidden)
    state = pz_build_linear_outside(
        builder, &(struct pz_linear){
                     .name = "project_out", .input = state, .in = hidden, .out = arch->embed_dim});
  build_loss(builder, arch, state);
}

void pz_part_layer(struct pz_builder *builder, void *ctx) {
  const struct pz_arch *arch = ctx;
  switch (arch->part) {
  case PZ_PART_EMBEDDING: build_embedding(builder, arch); break;
  case PZ_PART_BLOCK:
  case PZ_PART_ENCODER: build_block(builder, arch); break;
  case PZ_PART_BRIDGE: build_bridge(builder, arch); break;
  case PZ_PART_PREDICT: build_prediction(builder, arch); break;
  case PZ_PART_HEAD: build_head(builder, arch); break;
  }
}
