/* GPT-2 and models of its shape (GPT-3, Megatron's GPT): learned positions, pre-norm, one
 * projection for query, key and value, tied head. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "n_embd|hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "n_layer|num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = pz_fields_int(c, "n_head|num_attention_heads", PZ_RANGE_HEADS);
  a->kv_heads = pz_fields_int_or(c, "num_key_value_heads", PZ_RANGE_HEADS, a->heads);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int(c, "n_positions|max_position_embeddings|n_ctx", PZ_RANGE_POSITIONS);
  a->ffn = pz_fields_int_or(c, "n_inner|intermediate_size", PZ_RANGE_FFN, 4 * a->hidden);
  a->act = pz_config_act(c, "activation_function|hidden_act", "gelu_new");
  a->drop_hidden = pz_config_dropout(c, "resid_pdrop", 0.1);
  a->drop_embed = pz_config_dropout(c, "embd_pdrop", 0.1);
  a->drop_attn = pz_config_dropout(c, "attn_pdrop", 0.1);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", true);
  a->learned_positions = a->norm_affine = a->pre_norm = a->final_norm = true;
  a->fused_qkv = a->qkv_bias = a->out_bias = a->mlp_bias = true;
  a->loss_f32 = a->causal_mask_buffer = true;
  if (pz_fields_bool_or(c, "add_cross_attention", false))
    pz_fields_refuse(c, "add_cross_attention", "false; only decoders are supported");
  pz_arch_derive_heads(c, a, "n_embd|hidden_size", "n_head|num_attention_heads");
  if (!pz_fields_value(c, "num_experts")) return;
  pz_config_experts(c, a, "num_experts", "moe_intermediate_size");
  a->plain_experts = true;
  a->mlp_bias = false; /* GEMMs of many experts have none */
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_family_positions(b, a, pz_family_tokens(b, a), 0);
  pz_build_output(b, pz_kernel_dropout(b, "embedding_dropout", x, a->drop_embed));
}

const struct pz_family pz_family_gpt2 = {
    "gpt2",        "decoder with learned positions (GPT-2, GPT-3, Megatron)",
    read,          embedding,
    pz_part_block, pz_part_head};
