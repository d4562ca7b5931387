/* BLOOM: linear biases on positions (ALiBi), which are added with the mask and cost nothing more; a
 * norm after the embedding, tied head. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "hidden_size|n_embed", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "n_layer|num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = a->kv_heads = pz_fields_int(c, "n_head|num_attention_heads", PZ_RANGE_HEADS);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "seq_length", PZ_RANGE_POSITIONS, 2048);
  a->ffn = 4 * a->hidden;
  a->act = PZ_ACT_GELU_TANH;
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->drop_hidden = pz_config_dropout(c, "hidden_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", true);
  a->fused_qkv = a->qkv_bias = a->out_bias = a->mlp_bias = true;
  a->norm_affine = a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  if (pz_fields_bool_or(c, "apply_residual_connection_post_layernorm", false))
    pz_fields_refuse(c, "apply_residual_connection_post_layernorm", "false");
  pz_arch_derive_heads(c, a, "hidden_size|n_embed", "n_head|num_attention_heads");
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_family_tokens(b, a);
  pz_build_output(b, pz_kernel_layernorm(b, "embedding_norm", x, a->hidden, true));
}

const struct pz_family pz_family_bloom = {
    "bloom",     "decoder with linear position biases (ALiBi)", read, embedding, pz_part_block,
    pz_part_head};
