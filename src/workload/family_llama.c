/* Llama: RMS pre-norm, rotary positions, gated feed-forward, grouped key/value heads. */
#include "workload/family.h"

void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv) {
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->kv_heads = pz_fields_int_or(c, "num_key_value_heads", PZ_RANGE_HEADS,
                                 default_kv ? default_kv : a->heads);
  a->head_dim = pz_fields_int_or(c, "head_dim", PZ_RANGE_HIDDEN, 0);
  a->ffn = pz_fields_int(c, "intermediate_size", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  a->act = pz_config_act(c, "hidden_act", "silu");
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", false);
  a->qkv_bias = a->out_bias = pz_fields_bool_or(c, "attention_bias", false);
  a->mlp_bias = pz_fields_bool_or(c, "mlp_bias", false);
  a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  pz_arch_derive_heads(c, a, "hidden_size", "num_key_value_heads");
  a->rotary_dims = a->head_dim;
}

void pz_llama_embedding(struct pz_builder *b, const struct pz_arch *a) {
  pz_part_rotary_tables(b, a);
  pz_build_output(b, pz_family_tokens(b, a));
}

void pz_llama_block(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  uint32_t y = pz_part_attention(b, a, pz_kernel_rmsnorm(b, "attention_norm", x, a->hidden));
  x = pz_kernel_add(b, "attention_residual", x, y);
  y = pz_kernel_rmsnorm(b, "mlp_norm", x, a->hidden);
  y = a->experts ? pz_part_experts(b, a, y) : pz_part_gated_mlp(b, a, y);
  pz_build_output(b, pz_kernel_add(b, "mlp_residual", x, y));
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
