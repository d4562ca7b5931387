/* T5: an encoder and a decoder that attends to the encoder's result, both with RMS norms and biases on
 * relative positions, which the first layer of each learns.  The biases are added with the mask; that
 * every layer's scores add to their gradient is not counted.  Source and target have the same
 * length. */
#include <string.h>

#include "workload/family.h"

static void read_feed_forward(struct pz_fields *c, struct pz_arch *a) {
  const char *kind = pz_fields_text_or(c, "feed_forward_proj", "relu");
  a->gated = strncmp(kind, "gated-", 6) == 0;
  const char *act = a->gated ? kind + 6 : kind;
  a->act = strcmp(act, "relu") == 0   ? PZ_ACT_RELU
           : strcmp(act, "silu") == 0 ? PZ_ACT_SILU
                                      : PZ_ACT_GELU_TANH;
  if (strcmp(act, "relu") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "gelu") != 0)
    pz_fields_refuse(c, "feed_forward_proj", "relu, gelu, silu, or one of them after gated-");
}

static void read(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "d_model", PZ_RANGE_HIDDEN);
  a->encoder_layers = pz_fields_int(c, "num_layers", PZ_RANGE_LAYERS);
  a->layers = pz_fields_int_or(c, "num_decoder_layers", PZ_RANGE_LAYERS, a->encoder_layers);
  a->heads = a->kv_heads = pz_fields_int(c, "num_heads", PZ_RANGE_HEADS);
  a->head_dim = pz_fields_int_or(c, "d_kv", PZ_RANGE_HIDDEN, 64);
  a->ffn = pz_fields_int(c, "d_ff", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "n_positions", PZ_RANGE_POSITIONS, 512);
  a->buckets = pz_fields_int_or(c, "relative_attention_num_buckets", PZ_RANGE_POSITIONS, 32);
  a->drop_embed = a->drop_hidden = a->drop_attn = pz_config_dropout(c, "dropout_rate", 0.1);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", true);
  a->bidirectional = a->softmax_f32 = a->loss_f32 = true;
  read_feed_forward(c, a);
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

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  position_bias(b, a);
  pz_build_output(b,
                  pz_kernel_dropout(b, "embedding_dropout", pz_family_tokens(b, a), a->drop_embed));
}

static void bridge(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_kernel_rmsnorm(b, "encoder_norm", pz_build_input(b, a->hidden), a->hidden);
  pz_build_also_out(b, pz_kernel_dropout(b, "encoder_dropout", x, a->drop_hidden));
  position_bias(b, a);
  x = pz_kernel_embedding_tied(b, "targets", a->vocab, a->hidden);
  pz_build_output(b, pz_kernel_dropout(b, "embedding_dropout", x, a->drop_embed));
}

static uint32_t feed_forward(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  uint32_t y = pz_kernel_rmsnorm(b, "mlp_norm", x, a->hidden);
  y = a->gated ? pz_part_gated_mlp(b, a, y) : pz_part_mlp(b, a, y);
  return pz_kernel_add(b, "mlp_residual", x,
                       pz_kernel_dropout(b, "mlp_dropout", y, a->drop_hidden));
}

static void block(struct pz_builder *b, const struct pz_arch *a) {
  if (a->part == PZ_PART_BRIDGE) {
    bridge(b, a);
    return;
  }
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t y = pz_part_attention(b, a, pz_kernel_rmsnorm(b, "attention_norm", x, a->hidden));
  x = pz_kernel_add(b, "attention_residual", x,
                    pz_kernel_dropout(b, "attention_out_dropout", y, a->drop_hidden));
  if (a->part != PZ_PART_ENCODER) {
    uint32_t source = pz_build_carried(b, "encoder_output", a->hidden);
    y = pz_kernel_rmsnorm(b, "cross_norm", x, a->hidden);
    y = pz_part_cross_attention(b, a, y, source);
    x = pz_kernel_add(b, "cross_residual", x,
                      pz_kernel_dropout(b, "cross_dropout", y, a->drop_hidden));
  }
  pz_build_output(b, feed_forward(b, a, x));
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  x = pz_kernel_rmsnorm(b, "final_norm", x, a->hidden);
  x = pz_kernel_dropout(b, "final_dropout", x, a->drop_hidden);
  pz_part_logits_and_loss(b, a, x, a->hidden, false);
}

const struct pz_family pz_family_t5 = {
    "t5", "encoder and decoder with relative position biases", read, embedding, block, head};
