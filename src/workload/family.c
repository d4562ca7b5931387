#include "workload/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct pz_range PZ_RANGE_LAYERS = {1, 65536}, PZ_RANGE_HIDDEN = {1, 1 << 20},
                      PZ_RANGE_HEADS = {1, 65536}, PZ_RANGE_FFN = {1, 1 << 22},
                      PZ_RANGE_VOCAB = {1, 1 << 26}, PZ_RANGE_POSITIONS = {1, 1 << 26},
                      PZ_RANGE_EXPERTS = {1, 65536};

double pz_config_dropout(struct pz_fields *c, const char *keys, double absent) {
  return pz_fields_real_or(c, keys, 0, 0.999, absent);
}

enum pz_act pz_config_act(struct pz_fields *c, const char *keys, const char *absent) {
  static const struct {
    const char *name;
    enum pz_act act;
  } known[] = {{"gelu", PZ_ACT_GELU},          {"gelu_pytorch_tanh", PZ_ACT_GELU},
               {"gelu_new", PZ_ACT_GELU_TANH}, {"gelu_fast", PZ_ACT_GELU_FAST},
               {"relu", PZ_ACT_RELU},          {"relu2", PZ_ACT_RELU2},
               {"silu", PZ_ACT_SILU},          {"swish", PZ_ACT_SILU}};
  const char *name = pz_fields_text_or(c, keys, absent);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i].name) == 0) return known[i].act;
  pz_fields_refuse(c, keys,
                   "gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, relu2, silu or swish");
  return PZ_ACT_GELU;
}

bool pz_config_null(const struct pz_fields *c, const char *key) {
  return json_is_null(json_object_get(c->root, key));
}

int64_t pz_config_rotary(struct pz_fields *c, const struct pz_arch *a, double absent) {
  double part = pz_fields_real_or(
      c, "rotary_pct|partial_rotary_factor|rope_parameters.partial_rotary_factor", 0, 1, absent);
  return (int64_t)((double)a->head_dim * part) / 2 * 2;
}

void pz_config_window(struct pz_fields *c, struct pz_arch *a, const char *use) {
  int64_t window = pz_fields_int_or(c, "sliding_window", PZ_RANGE_POSITIONS, 0);
  if (!use || pz_fields_bool_or(c, use, false)) a->window = window;
}

void pz_config_experts(struct pz_fields *c, struct pz_arch *a, const char *keys,
                       const char *width) {
  a->experts = pz_fields_int(c, keys, PZ_RANGE_EXPERTS);
  a->experts_per_token = pz_fields_int(c, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  if (width) {
    a->dense_ffn = a->ffn;
    a->ffn = pz_fields_int(c, width, PZ_RANGE_FFN);
  }
  if (a->experts_per_token <= a->experts || c->status != PZ_OK) return;
  char accepted[64];
  snprintf(accepted, sizeof accepted, "at most the number of experts, %" PRId64, a->experts);
  pz_fields_refuse(c, "num_experts_per_tok", accepted);
}

/* head_dim from hidden and heads where the configuration does not give it. */
void pz_check_heads(struct pz_fields *c, struct pz_arch *a, const char *hidden_keys,
                    const char *kv_keys) {
  char accepted[96];
  if (c->status != PZ_OK) return;
  if (!a->head_dim && a->hidden % a->heads) {
    snprintf(accepted, sizeof accepted, "a multiple of the %" PRId64 " attention heads", a->heads);
    pz_fields_refuse(c, hidden_keys, accepted);
    return;
  }
  if (!a->head_dim) a->head_dim = a->hidden / a->heads;
  if (a->heads % a->kv_heads) {
    snprintf(accepted, sizeof accepted, "a divisor of the %" PRId64 " attention heads", a->heads);
    pz_fields_refuse(c, kv_keys, accepted);
  }
}

/* ---- layer norms ---------------------------------------------------------------------------- */

/* BERT with its masked-language-model head: learned positions and segments, post-norm; and
 * Megatron's BERT: pre-norm, no norm after the embedding. */
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
  a->bidirectional = a->learned_positions = a->embed_norm = a->norm_affine = true;
  a->qkv_bias = a->out_bias = a->mlp_bias = a->head_transform = a->head_bias = true;
  if (pz_fields_bool_or(c, "add_cross_attention", false))
    pz_fields_refuse(c, "add_cross_attention", "false; only encoders are supported");
  if (strcmp(pz_fields_text_or(c, "position_embedding_type", "absolute"), "absolute") != 0)
    pz_fields_refuse(c, "position_embedding_type", "absolute");
  pz_check_heads(c, a, "hidden_size", "num_attention_heads");
}

static void read_megatron_bert(struct pz_fields *c, struct pz_arch *a) {
  read_bert(c, a);
  a->pre_norm = a->final_norm = true;
  a->embed_norm = false;
}

/* GPT-2 and models of its shape (GPT-3, Megatron's GPT): learned positions, pre-norm, one
 * projection for query, key and value, tied head. */
static void read_gpt2(struct pz_fields *c, struct pz_arch *a) {
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
  pz_check_heads(c, a, "n_embd|hidden_size", "n_head|num_attention_heads");
  if (!pz_fields_value(c, "num_experts")) return;
  pz_config_experts(c, a, "num_experts", "moe_intermediate_size");
  a->plain_experts = true;
  a->mlp_bias = false; /* GEMMs of many experts have none */
}

/* OPT: learned positions with two extra rows, ReLU, pre-norm; the 350m model is post-norm and has a
 * token embedding of half width that is projected in and out. */
static void read_opt(struct pz_fields *c, struct pz_arch *a) {
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
  a->extra_positions = 2;
  pz_check_heads(c, a, "hidden_size", "num_attention_heads");
}

/* GPT-NeoX and Pythia: rotary positions on part of each head, attention and feed-forward in
 * parallel. */
static void read_gpt_neox(struct pz_fields *c, struct pz_arch *a) {
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
  pz_check_heads(c, a, "hidden_size", "num_attention_heads");
  a->rotary_dims = pz_config_rotary(c, a, 0.25);
}

/* GPT-J: rotary positions on part of each head, attention and feed-forward in parallel behind one
 * norm, a bias in the head. */
static void read_gptj(struct pz_fields *c, struct pz_arch *a) {
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
  a->mlp_bias = a->norm_affine = a->pre_norm = a->final_norm = a->head_bias = true;
  a->parallel_residual = a->one_norm = a->softmax_f32 = a->loss_f32 = true;
  pz_check_heads(c, a, "n_embd|hidden_size", "n_head|num_attention_heads");
  a->rotary_dims = pz_fields_int_or(c, "rotary_dim", PZ_RANGE_HIDDEN, 64);
  if (c->status == PZ_OK && a->rotary_dims > a->head_dim)
    pz_fields_refuse(c, "rotary_dim", "at most the width of a head");
}

/* BLOOM: linear biases on positions (ALiBi), which are added with the mask and cost nothing more; a
 * norm after the embedding, tied head. */
static void read_bloom(struct pz_fields *c, struct pz_arch *a) {
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
  a->fused_qkv = a->qkv_bias = a->out_bias = a->mlp_bias = a->embed_norm = true;
  a->norm_affine = a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  if (pz_fields_bool_or(c, "apply_residual_connection_post_layernorm", false))
    pz_fields_refuse(c, "apply_residual_connection_post_layernorm", "false");
  pz_check_heads(c, a, "hidden_size|n_embed", "n_head|num_attention_heads");
}

/* Key/value heads: of the new architecture as given; else one, or one for each query head. */
static int64_t falcon_kv_heads(struct pz_fields *c, int64_t heads, bool grouped) {
  int64_t given = pz_fields_int_or(c, "num_kv_heads|n_head_kv", PZ_RANGE_HEADS, heads);
  bool one = pz_fields_bool_or(c, "multi_query", true);
  return grouped || !one ? given : 1;
}

/* Falcon: one or few key/value heads, attention and feed-forward in parallel, rotary positions; the
 * first models (RefinedWeb) have linear biases on positions (ALiBi) and halves in sequence.  ALiBi's
 * slopes are added with the mask and cost nothing more. */
static void read_falcon(struct pz_fields *c, struct pz_arch *a) {
  bool grouped = pz_fields_bool_or(c, "new_decoder_architecture", false);
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers|n_layer", PZ_RANGE_LAYERS);
  a->heads = pz_fields_int(c, "num_attention_heads|n_head", PZ_RANGE_HEADS);
  a->kv_heads = falcon_kv_heads(c, a->heads, grouped);
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
  pz_check_heads(c, a, "hidden_size", "num_kv_heads|n_head_kv");
  a->rotary_dims = alibi ? 0 : a->head_dim;
}

/* ---- Llama and its variants ----------------------------------------------------------------- */

/* RMS pre-norm, rotary positions, gated feed-forward, grouped key/value heads. */
void pz_llama_read_as(struct pz_fields *c, struct pz_arch *a, struct pz_llama_defaults d) {
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->layers = pz_fields_int(c, "num_hidden_layers", PZ_RANGE_LAYERS);
  a->heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->kv_heads = pz_fields_int_or(c, "num_key_value_heads", PZ_RANGE_HEADS,
                                 d.kv_heads ? d.kv_heads : a->heads);
  a->head_dim = pz_fields_int_or(c, "head_dim", PZ_RANGE_HIDDEN, d.head_dim);
  a->ffn = d.ffn ? pz_fields_int_or(c, "intermediate_size", PZ_RANGE_FFN, d.ffn)
                 : pz_fields_int(c, "intermediate_size", PZ_RANGE_FFN);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "max_position_embeddings", PZ_RANGE_POSITIONS,
                                  d.positions ? d.positions : 2048);
  a->act = pz_config_act(c, d.act_keys ? d.act_keys : "hidden_act", d.act ? d.act : "silu");
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0.0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", d.tied);
  a->qkv_bias = a->out_bias = pz_fields_bool_or(c, "attention_bias", d.bias);
  a->mlp_bias = pz_fields_bool_or(c, "mlp_bias", false);
  a->rms_norm = a->gated = true;
  a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  pz_check_heads(c, a, "hidden_size", "num_key_value_heads");
  a->rotary_dims = a->head_dim;
}

void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = default_kv});
}

static void read_llama(struct pz_fields *c, struct pz_arch *a) { pz_llama_read(c, a, 0); }

/* Mistral: Llama with fewer key/value heads by default, and in some versions a sliding window. */
static void read_mistral(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 8);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  pz_config_window(c, a, NULL);
}

/* Mixtral: Llama whose feed-forward is a routed layer of experts. */
static void read_mixtral(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 8);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  pz_config_window(c, a, NULL);
  pz_config_experts(c, a, "num_local_experts|num_experts", NULL);
}

/* Phi-3 and Phi-4: Llama with one projection for query, key and value and one for gate and up. */
static void read_phi3(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  a->fused_qkv = a->fused_gate = true;
  a->drop_hidden = pz_config_dropout(c, "resid_pdrop", 0.0);
  a->drop_embed = pz_config_dropout(c, "embd_pdrop", 0.0);
  a->rotary_dims = pz_config_rotary(c, a, 1.0);
  pz_config_window(c, a, NULL);
}

/* OLMo 2: Llama with norms after attention and feed-forward instead of before, and of the whole query
 * and key. */
static void read_olmo2(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->mlp_bias = a->pre_norm = false;
  a->post_norm = true;
  a->qk_norm = PZ_QK_NORM_WIDTH;
}

/* GLM-4 (0414): norms before and after attention and feed-forward, rotary positions on half of each
 * head, one projection for gate and up; the output projection has no bias. */
static void read_glm4(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 2, .head_dim = 128});
  a->out_bias = a->mlp_bias = false;
  a->fused_gate = a->post_norm = true;
  a->rotary_dims = pz_config_rotary(c, a, 0.5);
}

/* StarCoder 2: layer norms, rotary positions, grouped key/value heads, a plain feed-forward, biases. */
static void read_starcoder2(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a,
                   (struct pz_llama_defaults){.kv_heads = 2,
                                              .act_keys = "hidden_act",
                                              .act = "gelu_pytorch_tanh",
                                              .positions = 4096,
                                              .tied = true});
  a->qkv_bias = a->out_bias = a->mlp_bias = pz_fields_bool_or(c, "use_bias", true);
  a->norm_affine = true;
  a->rms_norm = a->gated = false;
  a->drop_hidden = pz_config_dropout(c, "residual_dropout", 0.0);
  a->drop_embed = pz_config_dropout(c, "embedding_dropout", 0.0);
  pz_config_window(c, a, NULL);
}

void pz_qwen_window(struct pz_fields *c, struct pz_arch *a) {
  int64_t from = pz_fields_int_or(c, "max_window_layers", (struct pz_range){0, 65536}, 28);
  bool listed = pz_fields_value(c, "layer_types") != NULL;
  pz_config_window(c, a, "use_sliding_window");
  if (!a->window || c->status != PZ_OK) return;
  for (int64_t i = 0; i < a->layers && !listed; i++)
    pz_mixed_mark(a, i, i >= from ? PZ_LAYER_LOCAL : 0);
  if (listed) pz_mixed_attention(c, a, 0);
}

/* Qwen2 and Qwen2.5: Llama with a bias on query, key and value alone; some layers may have a sliding
 * window. */
static void read_qwen2(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->qkv_bias = true;
  a->out_bias = a->mlp_bias = false;
  pz_qwen_window(c, a);
}

/* Qwen3: Llama with norms of query and key heads; some layers may have a sliding window.  Qwen3-MoE:
 * its feed-forward is routed experts in most layers. */
static void qwen3_norms(struct pz_arch *a) {
  a->mlp_bias = false;
  a->qk_norm = PZ_QK_NORM_HEAD;
}

static void read_qwen3(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 32, .head_dim = 128});
  qwen3_norms(a);
  pz_qwen_window(c, a);
}

static void read_qwen3_moe(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 4});
  qwen3_norms(a);
  pz_config_window(c, a, "use_sliding_window");
  a->fused_gate = true;
  pz_config_experts(c, a, "num_experts|num_local_experts", "moe_intermediate_size");
  int64_t step = pz_fields_int_or(c, "decoder_sparse_step", PZ_RANGE_LAYERS, 1);
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK && step > 1; i++)
    pz_mixed_mark(a, i, (i + 1) % step ? PZ_LAYER_DENSE : 0);
  pz_mixed_list(c, a, "mlp_only_layers", PZ_LAYER_DENSE, true);
}

/* Gemma 2 and Gemma 3: four norms a layer, scaled embedding, sliding windows in most layers; Gemma 2
 * caps scores and logits, Gemma 3 has norms of query and key. */
static void read_gemma(struct pz_fields *c, struct pz_arch *a, int64_t period) {
  pz_llama_read_as(c, a,
                   (struct pz_llama_defaults){.kv_heads = 4,
                                              .head_dim = 256,
                                              .act_keys = "hidden_activation|hidden_act",
                                              .act = "gelu_pytorch_tanh",
                                              .positions = 8192,
                                              .tied = true});
  a->mlp_bias = false;
  a->post_norm = a->scale_embed = true;
  a->window = pz_fields_int_or(c, "sliding_window", PZ_RANGE_POSITIONS, 4096);
  pz_mixed_attention(c, a,
                     pz_fields_int_or(c, "sliding_window_pattern|_sliding_window_pattern",
                                      PZ_RANGE_LAYERS, period));
  a->score_cap = pz_fields_real_or(c, "attn_logit_softcapping", 0, 1e9, 0) > 0;
  a->logit_cap = pz_fields_real_or(c, "final_logit_softcapping", 0, 1e9, 0) > 0;
}

static void read_gemma2(struct pz_fields *c, struct pz_arch *a) { read_gemma(c, a, 2); }

static void read_gemma3(struct pz_fields *c, struct pz_arch *a) {
  read_gemma(c, a, 6);
  a->qk_norm = PZ_QK_NORM_HEAD;
}

/* gpt-oss: routed experts with biases, windows in every other layer, one more logit for each head in
 * the softmax (attention sinks), biases in attention and router. */
static void read_gpt_oss(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(
      c, a,
      (struct pz_llama_defaults){.kv_heads = 8, .head_dim = 64, .positions = 131072, .bias = true});
  a->mlp_bias = a->router_bias = a->sinks = a->fused_gate = true;
  a->router = PZ_ROUTER_CHOSEN_SOFTMAX;
  pz_config_experts(c, a, "num_local_experts|num_experts", NULL);
  a->window = pz_fields_int_or(c, "sliding_window", PZ_RANGE_POSITIONS, 128);
  pz_mixed_attention(c, a, 2);
}

/* DeepSeek-V2 and V3: latent attention, routed and shared experts, dense first layers. */
static void deepseek_latent(struct pz_fields *c, struct pz_arch *a, int64_t q_rank) {
  bool direct = pz_config_null(c, "q_lora_rank");
  a->q_rank = direct ? 0 : pz_fields_int_or(c, "q_lora_rank", PZ_RANGE_HIDDEN, q_rank);
  a->kv_rank = pz_fields_int_or(c, "kv_lora_rank", PZ_RANGE_HIDDEN, 512);
  a->rotary_dims = pz_fields_int_or(c, "qk_rope_head_dim", PZ_RANGE_HIDDEN, 64);
  a->value_dim = pz_fields_int_or(c, "v_head_dim", PZ_RANGE_HIDDEN, 128);
  a->head_dim = a->rotary_dims + pz_fields_int_or(c, "qk_nope_head_dim", PZ_RANGE_HIDDEN, 128);
  a->kv_heads = a->heads;
}

static void deepseek_experts(struct pz_fields *c, struct pz_arch *a, int64_t dense) {
  int64_t shared = pz_fields_int_or(c, "n_shared_experts", (struct pz_range){0, 65536}, 0);
  dense = pz_fields_int_or(c, "first_k_dense_replace", (struct pz_range){0, 65536}, dense);
  int64_t every = pz_fields_int_or(c, "moe_layer_freq", PZ_RANGE_LAYERS, 1);
  pz_config_experts(c, a, "n_routed_experts|num_local_experts", "moe_intermediate_size");
  a->fused_gate = true;
  a->shared_ffn = shared * a->ffn;
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK; i++)
    if (i < dense || i % every) pz_mixed_mark(a, i, PZ_LAYER_DENSE);
}

static void read_deepseek(struct pz_fields *c, struct pz_arch *a, int64_t dense) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.head_dim = 64});
  a->mlp_bias = false;
  deepseek_latent(c, a, 1536);
  deepseek_experts(c, a, dense);
}

static void read_deepseek_v2(struct pz_fields *c, struct pz_arch *a) { read_deepseek(c, a, 0); }

/* The router of DeepSeek-V3, and its layers that predict further tokens. */
static void sigmoid_router(struct pz_fields *c, struct pz_arch *a, int64_t groups, int64_t chosen) {
  a->router = PZ_ROUTER_SIGMOID;
  groups = pz_fields_int_or(c, "n_group", (struct pz_range){1, 65536}, groups);
  chosen = pz_fields_int_or(c, "topk_group", (struct pz_range){1, 65536}, chosen);
  if (groups > 1) a->expert_groups = chosen;
  a->predict_layers = pz_fields_int_or(c, "num_nextn_predict_layers", (struct pz_range){0, 64}, 0);
}

void pz_read_deepseek_v3(struct pz_fields *c, struct pz_arch *a) {
  read_deepseek(c, a, 3);
  sigmoid_router(c, a, 8, 4);
}

/* GLM-4.5 to 4.7: DeepSeek-V3's experts with grouped key/value heads, which may have norms, and rotary positions on half
 * of each head; the output projection has no bias (transformers, models/glm4_moe/modeling_glm4_moe.py). */
static void read_glm4_moe(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 8});
  a->out_bias = a->mlp_bias = false;
  if (pz_fields_bool_or(c, "use_qk_norm", false)) a->qk_norm = PZ_QK_NORM_HEAD;
  a->rotary_dims = pz_config_rotary(c, a, 0.5);
  deepseek_experts(c, a, 1);
  sigmoid_router(c, a, 1, 1);
}

/* no_rope_layers has 0 for a layer without rotary positions. */
static void llama4_positions(struct pz_fields *c, struct pz_arch *a) {
  const json_t *list = pz_fields_value(c, "no_rope_layers");
  int64_t period = pz_fields_int_or(c, "no_rope_layer_interval", PZ_RANGE_LAYERS, 4);
  bool given = json_is_array(list) && json_array_size(list) > 0;
  if (c->status != PZ_OK) return;
  if (given && json_array_size(list) != (size_t)a->layers) {
    pz_fields_refuse(c, "no_rope_layers", "a list with an entry for every layer");
    return;
  }
  for (int64_t i = 0; i < a->layers; i++) {
    bool none =
        given ? json_integer_value(json_array_get(list, (size_t)i)) == 0 : (i + 1) % period == 0;
    pz_mixed_mark(a, i, none ? PZ_LAYER_UNROTATED : 0);
  }
  bool whole = pz_config_null(c, "attention_chunk_size");
  a->chunk = whole ? 0 : pz_fields_int_or(c, "attention_chunk_size", PZ_RANGE_POSITIONS, 8192);
  pz_mixed_attention(c, a, period);
}

/* Layers with experts: those listed, or one of `step`, the last. */
static void llama4_experts(struct pz_fields *c, struct pz_arch *a) {
  int64_t step = pz_fields_int_or(c, "interleave_moe_layer_step", PZ_RANGE_LAYERS, 1);
  a->dense_ffn = pz_fields_int_or(c, "intermediate_size_mlp", PZ_RANGE_FFN, 16384);
  pz_config_experts(c, a, "num_local_experts", NULL);
  a->shared_ffn = a->ffn;
  if (pz_fields_value(c, "moe_layers")) {
    for (int64_t i = 0; i < a->layers; i++) pz_mixed_mark(a, i, PZ_LAYER_DENSE);
    pz_mixed_list(c, a, "moe_layers", PZ_LAYER_DENSE, false);
    return;
  }
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK; i++)
    pz_mixed_mark(a, i, (i + 1) % step ? PZ_LAYER_DENSE : 0);
}

/* Llama 4 (text): layers with routed experts and dense ones in turn, a shared expert, attention within
 * chunks in three layers of four; the fourth has no rotary positions. */
static void read_llama4(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a,
                   (struct pz_llama_defaults){.kv_heads = 8, .head_dim = 128, .positions = 131072});
  a->mlp_bias = false;
  a->fused_gate = true;
  a->router = PZ_ROUTER_CHOSEN_SIGMOID;
  if (pz_fields_bool_or(c, "use_qk_norm", true)) a->qk_norm = PZ_QK_NORM_PLAIN;
  llama4_experts(c, a);
  llama4_positions(c, a);
}

/* A plain decoder as people write it in a page of PyTorch: one projection for query, key and value and one for
 * gate and up, a head of its own, the loss in 32 bit.  Gated (hidden_act silu): RMS norm, rotary positions, no biases.  Else (gelu): layer norm,
 * biases, no positions.  With num_experts gated experts are routed in place of the feed-forward, shared ones
 * beside them. */
static void read_decoder(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->act = pz_config_act(c, "hidden_act", "silu");
  a->fused_qkv = a->fused_gate = a->stored_tables = true;
  a->rms_norm = a->gated = a->act == PZ_ACT_SILU;
  a->softmax_f32 = false;
  a->qkv_bias = a->out_bias = a->mlp_bias = a->norm_affine = !a->gated;
  if (!a->gated || !pz_fields_bool_or(c, "rotary", true)) a->rotary_dims = 0;
  int64_t shared = pz_fields_int_or(c, "n_shared_experts", (struct pz_range){0, 65536}, 0);
  int64_t dense = pz_fields_int_or(c, "first_k_dense_replace", (struct pz_range){0, 65536}, 0);
  if (!pz_fields_value(c, "num_experts")) return;
  pz_config_experts(c, a, "num_experts", "moe_intermediate_size");
  a->shared_ffn = shared * a->ffn;
  for (int64_t i = 0; i < a->layers && i < dense && c->status == PZ_OK; i++)
    pz_mixed_mark(a, i, PZ_LAYER_DENSE);
}

/* ---- encoder and decoder -------------------------------------------------------------------- */

static void t5_feed_forward(struct pz_fields *c, struct pz_arch *a) {
  const char *kind = pz_fields_text_or(c, "feed_forward_proj", "relu");
  a->gated = strncmp(kind, "gated-", 6) == 0;
  const char *act = a->gated ? kind + 6 : kind;
  a->act = strcmp(act, "relu") == 0   ? PZ_ACT_RELU
           : strcmp(act, "silu") == 0 ? PZ_ACT_SILU
                                      : PZ_ACT_GELU_TANH;
  if (strcmp(act, "relu") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "gelu") != 0)
    pz_fields_refuse(c, "feed_forward_proj", "relu, gelu, silu, or one of them after gated-");
}

/* T5: an encoder and a decoder that attends to the encoder's result, both with RMS norms and biases on
 * relative positions, which the first layer of each learns.  The biases are added with the mask; that
 * every layer's scores add to their gradient is not counted.  Source and target have the same
 * length. */
static void read_t5(struct pz_fields *c, struct pz_arch *a) {
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
  a->bidirectional = a->rms_norm = a->pre_norm = a->final_norm = true;
  a->softmax_f32 = a->loss_f32 = true;
  t5_feed_forward(c, a);
}

static const struct pz_family table[] = {
    {"bert", read_bert},
    {"megatron-bert", read_megatron_bert},
    {"gpt2", read_gpt2},
    {"opt", read_opt},
    {"llama", read_llama},
    {"mistral", read_mistral},
    {"qwen2", read_qwen2},
    {"gpt_neox", read_gpt_neox},
    {"mixtral", read_mixtral},
    {"qwen3", read_qwen3},
    {"qwen3_moe", read_qwen3_moe},
    {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", pz_read_deepseek_v3},
    {"kimi_k2", pz_read_deepseek_v3},
    {"deepseek_v32", pz_read_deepseek_sparse},
    {"glm_moe_dsa", pz_read_glm_sparse},
    {"gemma2", read_gemma2},
    {"gemma3_text", read_gemma3},
    {"phi3", read_phi3},
    {"gpt_oss", read_gpt_oss},
    {"llama4_text", read_llama4},
    {"olmo2", read_olmo2},
    {"falcon", read_falcon},
    {"bloom", read_bloom},
    {"starcoder2", read_starcoder2},
    {"gptj", read_gptj},
    {"glm4", read_glm4},
    {"glm4_moe", read_glm4_moe},
    {"t5", read_t5},
    {"decoder", read_decoder},
    {"nemotron_h", pz_read_nemotron_h},
    {"qwen3_next", pz_read_qwen3_next},
    {"qwen3_5_text", pz_read_qwen3_5},
    {"qwen3_5", pz_read_qwen3_5},
    {"qwen3_5_moe_text", pz_read_qwen3_next},
    {"qwen3_5_moe", pz_read_qwen3_next},
    {"granitemoehybrid", pz_read_granite_hybrid},
    {"bamba", pz_read_bamba},
    {"jamba", pz_read_jamba},
    {"falcon_h1", pz_read_falcon_h1},
};

json_t *pz_config_text(json_t *root) {
  json_t *text = json_object_get(root, "text_config"), *tied;
  if (!json_is_string(json_object_get(text, "model_type"))) return root;
  tied = json_object_get(root, "tie_word_embeddings");
  if (tied && !json_object_get(text, "tie_word_embeddings"))
    (void)json_object_set(text, "tie_word_embeddings", tied);
  return text;
}

void pz_family_read(const struct pz_family *f, struct pz_fields *c, struct pz_arch *a) {
  f->read(c, a);
  pz_mixed_settle(a);
}

const char *pz_family_lacks(struct pz_fields *c, const char *model_type, const char **key) {
  static const struct {
    const char *model_type, *key, *what; /* one of the first two */
  } known[] = {{NULL, "linear_attn_config", "Kimi delta attention"},
               {NULL, "compress_ratios", "compressed sparse attention"},
               {NULL, "conv_L_cache", "short convolutions in place of attention"},
               {NULL, "num_mem_blocks", "blocks of attention that layers share"},
               {NULL, "hidden_size_per_layer_input", "an embedding for each layer"},
               {"minimax", NULL, "lightning attention"},
               {"minimax_text_01", NULL, "lightning attention"},
               {"minimax_m1", NULL, "lightning attention"},
               {"mamba2", NULL, "stacks without attention"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    *key = known[i].key;
    if (*key ? pz_fields_value(c, *key) != NULL : strcmp(known[i].model_type, model_type) == 0)
      return known[i].what;
  }
  return NULL;
}

const struct pz_family *pz_family_at(size_t i) {
  return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const struct pz_family *pz_family_find(const char *model_type) {
  for (size_t i = 0; pz_family_at(i); i++)
    if (strcmp(table[i].model_type, model_type) == 0) return &table[i];
  return NULL;
}
