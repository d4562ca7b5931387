/* GPT-NeoX and Pythia: rotary positions on part of each head, attention and feed-forward in
 * parallel. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = a->kv_heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->ffn = pz_fields_int(c, "intermediate_size", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  a->act = pz_config_act(c, "hidden_act", "gelu");
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->drop_hidden = a->drop_embed = pz_config_dropout(c, "hidden_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", false);
  a->parallel_residual = pz_fields_bool_or(c, "use_parallel_residual", true);
  a->qkv_bias = a->out_bias = pz_fields_bool_or(c, "attention_bias", true);
  a->fused_qkv = a->mlp_bias = a->norm_affine = true;
  a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  pz_arch_derive_heads(c, a, "hidden_size", "num_attention_heads");
  a->rotary_dims = pz_config_rotary(c, a, 0.25);
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  pz_part_rotary_tables(b, a);
  pz_build_output(b,
                  pz_kernel_dropout(b, "embedding_dropout", pz_family_tokens(b, a), a->drop_embed));
}

static void block(struct pz_builder *b, const struct pz_arch *a) {
  a->parallel_residual ? pz_part_parallel_block(b, a) : pz_part_block(b, a);
}

const struct pz_family pz_family_gpt_neox = {
    "gpt_neox", "decoder with partial rotary positions and parallel halves (NeoX, Pythia)",
    read,       embedding,
    block,      pz_part_head};
