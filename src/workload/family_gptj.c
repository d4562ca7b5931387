/* GPT-J: rotary positions on part of each head, attention and feed-forward in parallel behind one
 * norm, a bias in the head. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "n_embd|hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "n_layer|num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = a->kv_heads = pz_fields_int(c, "n_head|num_attention_heads", PZ_RANGE_HEADS);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions =
      pz_fields_int_or(c, "n_positions|max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  a->ffn = pz_fields_int_or(c, "n_inner|intermediate_size", PZ_RANGE_FFN, 4 * a->hidden);
  a->act = pz_config_act(c, "activation_function|hidden_act", "gelu_new");
  a->drop_hidden = pz_config_dropout(c, "resid_pdrop", 0.0);
  a->drop_embed = pz_config_dropout(c, "embd_pdrop", 0.0);
  a->drop_attn = pz_config_dropout(c, "attn_pdrop", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", false);
  a->mlp_bias = a->norm_affine = a->pre_norm = a->final_norm = true;
  a->parallel_residual = a->one_norm = a->softmax_f32 = a->loss_f32 = true;
  pz_arch_derive_heads(c, a, "n_embd|hidden_size", "n_head|num_attention_heads");
  a->rotary_dims = pz_fields_int_or(c, "rotary_dim", PZ_RANGE_HIDDEN, 64);
  if (c->status == PZ_OK && a->rotary_dims > a->head_dim)
    pz_fields_refuse(c, "rotary_dim", "at most the width of a head");
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  x = pz_kernel_layernorm(b, "final_norm", x, a->hidden, true);
  pz_part_logits_and_loss(b, a, x, a->hidden, true);
}

const struct pz_family pz_family_gptj = {"gptj",
                                         "decoder with parallel halves behind one norm (GPT-J)",
                                         read,
                                         pz_llama_embedding,
                                         pz_part_parallel_block,
                                         head};
