/* BERT with its masked-language-model head: learned positions and segments, post-norm; and
 * Megatron's BERT: pre-norm, no norm after the embedding. */
#include <string.h>

#include "workload/family.h"

static void read_bert(struct pz_fields *c, struct pz_arch *a) {
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = a->kv_heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->ffn = pz_fields_int(c, "intermediate_size", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int(c, "max_position_embeddings", PZ_RANGE_POSITIONS);
  a->types = pz_fields_int_or(c, "type_vocab_size", PZ_RANGE_VOCAB, 2);
  a->act = pz_config_act(c, "hidden_act", "gelu");
  a->drop_hidden = a->drop_embed = pz_config_dropout(c, "hidden_dropout_prob", 0.1);
  a->drop_attn = pz_config_dropout(c, "attention_probs_dropout_prob", 0.1);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", true);
  a->bidirectional = a->learned_positions = a->norm_affine = true;
  a->qkv_bias = a->out_bias = a->mlp_bias = true;
  if (pz_fields_bool_or(c, "add_cross_attention", false))
    pz_fields_refuse(c, "add_cross_attention", "false; only encoders are supported");
  if (strcmp(pz_fields_text_or(c, "position_embedding_type", "absolute"), "absolute") != 0)
    pz_fields_refuse(c, "position_embedding_type", "absolute");
  pz_arch_derive_heads(c, a, "hidden_size", "num_attention_heads");
}

static void read_megatron_bert(struct pz_fields *c, struct pz_arch *a) {
  read_bert(c, a);
  a->pre_norm = a->final_norm = true;
}

static void embedding(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_family_tokens(b, a);
  uint32_t types = pz_kernel_embedding(b, "types", pz_rows_outside(b), a->types, a->hidden, false);
  x = pz_kernel_add(b, "add_types", x, types);
  x = pz_family_positions(b, a, x, 0);
  if (!a->pre_norm) x = pz_kernel_layernorm(b, "embedding_norm", x, a->hidden, true);
  pz_build_output(b, pz_kernel_dropout(b, "embedding_dropout", x, a->drop_embed));
}

static void head(struct pz_builder *b, const struct pz_arch *a) {
  uint32_t x = pz_build_input(b, a->hidden);
  if (a->final_norm) x = pz_kernel_layernorm(b, "final_norm", x, a->hidden, true);
  x = pz_build_linear_outside(
      b, &(struct pz_linear){
             .name = "transform", .x = x, .in = a->hidden, .out = a->hidden, .bias = true});
  x = pz_kernel_activation(b, "transform_act", a->act, x);
  x = pz_kernel_layernorm(b, "transform_norm", x, a->hidden, true);
  pz_part_logits_and_loss(b, a, x, a->hidden, true);
}

const struct pz_family pz_family_bert = {
    "bert", "encoder with masked-language-model head", read_bert, embedding, pz_part_block, head};
const struct pz_family pz_family_megatron_bert = {
    "megatron-bert",    "BERT with the norm before attention and feed-forward",
    read_megatron_bert, embedding,
    pz_part_block,      head};
