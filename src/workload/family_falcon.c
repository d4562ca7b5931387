/* Falcon: one or few key/value heads, attention and feed-forward in parallel, rotary positions; the
 * first models (RefinedWeb) have linear biases on positions (ALiBi) and halves in sequence.  ALiBi's
 * slopes are added with the mask and cost nothing more. */
#include "workload/family.h"

/* Key/value heads: of the new architecture as given; else one, or one for each query head. */
static int64_t kv_heads(struct pz_fields *c, int64_t heads, bool grouped) {
  int64_t given = pz_fields_int_or(c, "num_kv_heads|n_head_kv", PZ_RANGE_HEADS, heads);
  bool one = pz_fields_bool_or(c, "multi_query", true);
  return grouped || !one ? given : 1;
}

static void read(struct pz_fields *c, struct pz_arch *a) {
  bool grouped = pz_fields_bool_or(c, "new_decoder_architecture", false);
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers|n_layer", PZ_RANGE_LAYERS);
  a->heads = pz_fields_int(c, "num_attention_heads|n_head", PZ_RANGE_HEADS);
  a->kv_heads = kv_heads(c, a->heads, grouped);
  a->ffn = pz_fields_int_or(c, "ffn_hidden_size", PZ_RANGE_FFN, 4 * a->hidden);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  a->act = pz_config_act(c, "activation", "gelu");
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->drop_hidden = pz_config_dropout(c, "hidden_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", true);
  a->qkv_bias = a->out_bias = a->mlp_bias = pz_fields_bool_or(c, "bias", false);
  a->parallel_residual = pz_fields_bool_or(c, "parallel_attn", true);
  int64_t norms =
      pz_fields_int_or(c, "num_ln_in_parallel_attn", (struct pz_range){1, 2}, grouped ? 2 : 1);
  a->one_norm = norms == 1;
  a->fused_qkv = a->norm_affine = a->pre_norm = a->final_norm = a->loss_f32 = true;
  bool alibi = pz_fields_bool_or(c, "alibi", false);
  pz_arch_derive_heads(c, a, "hidden_size", "num_kv_heads|n_head_kv");
  a->rotary_dims = alibi ? 0 : a->head_dim;
}

static void block(struct pz_builder *b, const struct pz_arch *a) {
  a->parallel_residual ? pz_part_parallel_block(b, a) : pz_part_block(b, a);
}

const struct pz_family pz_family_falcon = {
    "falcon", "decoder with few key/value heads and parallel halves",
    read,     pz_llama_embedding,
    block,    pz_part_head};
