/* OPT: learned positions with two extra rows, ReLU, pre-norm; the 350m model is post-norm and has a
 * token embedding of half width that is projected in and out. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = a->kv_heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->ffn = pz_fields_int(c, "ffn_dim", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int(c, "max_position_embeddings", PZ_RANGE_POSITIONS);
  a->embed_dim = pz_fields_int_or(c, "word_embed_proj_dim", PZ_RANGE_HIDDEN, a->hidden);
  a->act = pz_config_act(c, "activation_function", "relu");
  a->drop_hidden = pz_config_dropout(c, "dropout", 0.1);
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", true);
  a->pre_norm = pz_fields_bool_or(c, "do_layer_norm_before", true);
  a->final_norm = a->pre_norm && !pz_fields_bool_or(c, "_remove_final_layer_norm", false);
  a->norm_affine = pz_fields_bool_or(c, "layer_norm_elementwise_affine", true);
  a->qkv_bias = a->out_bias = a->mlp_bias = pz_fields_bool_or(c, "enable_bias", true);
  a->learned_positions = a->softmax_f32 = a->loss_f32 = a->scale_query = true;
  pz_arch_derive_heads(c, a, "hidden_size", "num_attention_heads");
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_family_tokens(b, a);
  if (a->embed_dim != a->hidden)
    x = pz_build_linear_outside(
        b, &(struct pz_linear){.name = "project_in", .x = x, .in = a->embed_dim, .out = a->hidden});
  pz_build_output(b, pz_family_positions(b, a, x, 2));
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  if (a->final_norm) x = pz_kernel_layernorm(b, "final_norm", x, a->hidden, a->norm_affine);
  if (a->embed_dim != a->hidden)
    x = pz_build_linear_outside(
        b,
        &(struct pz_linear){.name = "project_out", .x = x, .in = a->hidden, .out = a->embed_dim});
  pz_part_logits_and_loss(b, a, x, a->embed_dim, false);
}

const struct pz_family pz_family_opt = {
    "opt", "decoder with learned positions and ReLU", read, embedding, pz_part_block, head};
