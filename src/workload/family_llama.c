/* Llama: RMS pre-norm, rotary positions, gated feed-forward, grouped key/value heads. */
#include "workload/family.h"

void pz_llama_read_as(struct pz_fields *c, struct pz_arch *a, struct pz_llama_defaults d) {
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->kv_heads = pz_fields_int_or(c, "num_key_value_heads", PZ_RANGE_HEADS,
                                 d.kv_heads ? d.kv_heads : a->heads);
  a->head_dim = pz_fields_int_or(c, "head_dim", PZ_RANGE_HIDDEN, d.head_dim);
  a->ffn = pz_fields_int(c, "intermediate_size", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "max_position_embeddings", PZ_RANGE_POSITIONS,
                                  d.positions ? d.positions : 2048);
  a->act = pz_config_act(c, d.act_keys ? d.act_keys : "hidden_act", d.act ? d.act : "silu");
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", d.tied);
  a->qkv_bias = a->out_bias = pz_fields_bool_or(c, "attention_bias", d.bias);
  a->mlp_bias = pz_fields_bool_or(c, "mlp_bias", false);
  a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  pz_arch_derive_heads(c, a, "hidden_size", "num_key_value_heads");
  a->rotary_dims = a->head_dim;
}

void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = default_kv});
}

void pz_llama_embedding(struct pz_builder *b, const struct pz_arch *a) {
  pz_part_rotary_tables(b, a);
  uint32_t x = pz_family_tokens(b, a);
  if (a->scale_embed)
    x = pz_build_op(
        b, &(struct pz_emit){.kind = PZ_OP_SCALE, .name = "scale_tokens", .in = {x, PZ_NONE}});
  pz_build_output(b, pz_kernel_dropout(b, "embedding_dropout", x, a->drop_embed));
}

/* x + f(x), with a norm before f, after it, or both */
static uint32_t half(struct pz_builder *b, const struct pz_arch *a, uint32_t x, bool attention) {
  uint32_t y = x;
  if (a->pre_norm)
    y = pz_kernel_rmsnorm(b, attention ? "attention_norm" : "mlp_norm", x, a->hidden);
  y = attention    ? pz_part_attention(b, a, y)
      : a->experts ? pz_part_experts(b, a, y)
                   : pz_part_gated_mlp(b, a, y);
  if (a->post_norm)
    y = pz_kernel_rmsnorm(b, attention ? "attention_post_norm" : "mlp_post_norm", y, a->hidden);
  y = pz_kernel_dropout(b, attention ? "attention_out_dropout" : "mlp_dropout", y, a->drop_hidden);
  return pz_kernel_add(b, attention ? "attention_residual" : "mlp_residual", x, y);
}

/* Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): one more block on the norms of
 * this token's last state and of the next token's embedding, with a loss of its own.  The state goes
 * on to the head. */
static void predict(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t e = pz_kernel_embedding_tied(b, "next_tokens", a->vocab, a->hidden);
  e = pz_kernel_rmsnorm(b, "next_norm", e, a->hidden);
  uint32_t y = pz_kernel_rmsnorm(b, "state_norm", x, a->hidden);
  y = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CONCAT,
                                       .name = "join",
                                       .in = {e, y, PZ_NONE},
                                       .shape = PZ_SHAPE(pz_rows_outside(b), 2 * a->hidden)});
  y = pz_build_linear_outside(
      b, &(struct pz_linear){.name = "project", .x = y, .in = 2 * a->hidden, .out = a->hidden});
  y = half(b, a, half(b, a, y, true), false);
  struct pz_arch shared = *a;
  shared.tied = true;
  pz_part_logits_and_loss(b, &shared, pz_kernel_rmsnorm(b, "final_norm", y, a->hidden), a->hidden,
                          false);
  pz_build_also_out(b, b->graph->output);
  pz_build_output(b, x);
}

void pz_llama_block(struct pz_builder *b, const struct pz_arch *a) {
  if (a->part == PZ_PART_PREDICT) {
    predict(b, a);
    return;
  }
  uint32_t x = half(b, a, pz_build_input(b, a->hidden), true);
  pz_build_output(b, half(b, a, x, false));
}

void pz_llama_head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  x = pz_kernel_rmsnorm(b, "final_norm", x, a->hidden);
  pz_part_logits_and_loss(b, a, x, a->hidden, false);
}

static void read(struct pz_fields *c, struct pz_arch *a) { pz_llama_read(c, a, 0); }

const struct pz_family pz_family_llama = {
    "llama",        "decoder with rotary positions, RMS norm and gated feed-forward",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
