/* Model families: each reads the fields of its config.json into a struct pz_arch.
 *
 * A family is a function and a row of the table `pz_families` at the end.  Families with recurrent
 * layers are in family_hybrid.c.  Families whose layers differ mark the properties of every layer
 * (mixed.c).  `config` keeps the first error, and functions go on reading fields after it. */
#include "workload/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct pz_range PZ_RANGE_LAYERS = {1, 65536}, PZ_RANGE_HIDDEN = {1, 1 << 20},
                      PZ_RANGE_HEADS = {1, 65536}, PZ_RANGE_FFN = {1, 1 << 22},
                      PZ_RANGE_VOCAB = {1, 1 << 26}, PZ_RANGE_POSITIONS = {1, 1 << 26},
                      PZ_RANGE_EXPERTS = {1, 65536};

double pz_config_dropout(struct pz_fields *config, const char *keys, double absent) {
  return pz_fields_real_or(config, keys, 0, 0.999, absent);
}

/* Refuses names of unknown activation functions. */
enum pz_act pz_config_act(struct pz_fields *config, const char *keys, const char *absent) {
  static const struct {
    const char *name;
    enum pz_act act;
  } activations[] = {{"gelu", PZ_ACT_GELU},          {"gelu_pytorch_tanh", PZ_ACT_GELU},
                     {"gelu_new", PZ_ACT_GELU_TANH}, {"gelu_fast", PZ_ACT_GELU_FAST},
                     {"relu", PZ_ACT_RELU},          {"relu2", PZ_ACT_RELU2},
                     {"silu", PZ_ACT_SILU},          {"swish", PZ_ACT_SILU}};
  const char *name = pz_fields_text_or(config, keys, absent);
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (strcmp(name, activations[i].name) == 0) return activations[i].act;
  pz_fields_refuse(config, keys,
                   "gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, relu2, silu or swish");
  return PZ_ACT_GELU;
}

bool pz_config_is(struct pz_fields *config, const char *model_type) {
  return strcmp(pz_fields_text_or(config, "model_type", ""), model_type) == 0;
}

/* Returns how many values of a head are rotated, rounded down to an even number. */
int64_t pz_config_rotary(struct pz_fields *config, const struct pz_arch *arch, double absent) {
  double fraction = pz_fields_real_or(
      config, "rotary_pct|partial_rotary_factor|rope_parameters.partial_rotary_factor", 0, 1,
      absent);
  return (int64_t)((double)arch->head_dim * fraction) / 2 * 2;
}

/* Reads the sliding window.  The field is read even if the flag `use` is not set, so that its range
 * is checked. */
void pz_config_window(struct pz_fields *config, struct pz_arch *arch, const char *use) {
  int64_t window = pz_fields_int_or(config, "sliding_window", PZ_RANGE_POSITIONS, 0);
  if (!use || pz_fields_bool_or(config, use, false)) arch->window = window;
}

/* Reads the numbers of experts.  A token must not use more experts than there are. */
void pz_config_experts(struct pz_fields *config, struct pz_arch *arch, const char *keys,
                       const char *width) {
  arch->experts = pz_fields_int(config, keys, PZ_RANGE_EXPERTS);
  arch->experts_per_token = pz_fields_int(config, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  if (width) {
    arch->dense_ffn = arch->ffn;
    arch->ffn = pz_fields_int(config, width, PZ_RANGE_FFN);
  }
  if (arch->experts_per_token <= arch->experts || config->status != PZ_OK) return;
  char accepted[64];
  snprintf(accepted, sizeof accepted, "at most the number of experts, %" PRId64, arch->experts);
  pz_fields_refuse(config, "num_experts_per_tok", accepted);
}

/* Sets the width of a head unless it is set, and refuses heads that do not divide evenly. */
void pz_check_heads(struct pz_fields *config, struct pz_arch *arch, const char *hidden_keys,
                    const char *kv_keys) {
  char accepted[96];
  if (config->status != PZ_OK) return;
  if (!arch->head_dim && arch->hidden % arch->heads) {
    snprintf(accepted, sizeof accepted, "a multiple of the %" PRId64 " attention heads",
             arch->heads);
    pz_fields_refuse(config, hidden_keys, accepted);
    return;
  }
  if (!arch->head_dim) arch->head_dim = arch->hidden / arch->heads;
  if (arch->heads % arch->kv_heads) {
    snprintf(accepted, sizeof accepted, "a divisor of the %" PRId64 " attention heads",
             arch->heads);
    pz_fields_refuse(config, kv_keys, accepted);
  }
}

/* ---- families with layer norms --------------------------------------------------------------- */

/* Reads BERT with its masked-language-model head: learned positions and segments, post-norm.
 * Megatron's BERT has pre-norm instead, and no norm after the embedding. */
static void read_bert(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = arch->kv_heads = pz_fields_int(config, "num_attention_heads", PZ_RANGE_HEADS);
  arch->ffn = pz_fields_int(config, "intermediate_size", PZ_RANGE_FFN);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int(config, "max_position_embeddings", PZ_RANGE_POSITIONS);
  arch->segment_types = pz_fields_int_or(config, "type_vocab_size", PZ_RANGE_VOCAB, 2);
  arch->act = pz_config_act(config, "hidden_act", "gelu");
  arch->drop_hidden = arch->drop_embed = pz_config_dropout(config, "hidden_dropout_prob", 0.1);
  arch->drop_attn = pz_config_dropout(config, "attention_probs_dropout_prob", 0.1);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", true);
  arch->bidirectional = arch->learned_positions = arch->embed_norm = arch->norm_affine = true;
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = arch->head_transform = arch->head_bias = true;
  if (pz_config_is(config, "megatron-bert")) {
    arch->pre_norm = arch->final_norm = true;
    arch->embed_norm = false;
  }
  if (pz_fields_bool_or(config, "add_cross_attention", false))
    pz_fields_refuse(config, "add_cross_attention", "false; only encoders are supported");
  if (strcmp(pz_fields_text_or(config, "position_embedding_type", "absolute"), "absolute") != 0)
    pz_fields_refuse(config, "position_embedding_type", "absolute");
  pz_check_heads(config, arch, "hidden_size", "num_attention_heads");
}

/* Reads GPT-2 and models of its shape (GPT-3, Megatron's GPT): learned positions, pre-norm, one
 * projection for query, key and value, tied head. */
static void read_gpt2(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "n_embd|hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "n_layer|num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = pz_fields_int(config, "n_head|num_attention_heads", PZ_RANGE_HEADS);
  arch->kv_heads = pz_fields_int_or(config, "num_key_value_heads", PZ_RANGE_HEADS, arch->heads);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions =
      pz_fields_int(config, "n_positions|max_position_embeddings|n_ctx", PZ_RANGE_POSITIONS);
  arch->ffn = pz_fields_int_or(config, "n_inner|intermediate_size", PZ_RANGE_FFN, 4 * arch->hidden);
  arch->act = pz_config_act(config, "activation_function|hidden_act", "gelu_new");
  arch->drop_hidden = pz_config_dropout(config, "resid_pdrop", 0.1);
  arch->drop_embed = pz_config_dropout(config, "embd_pdrop", 0.1);
  arch->drop_attn = pz_config_dropout(config, "attn_pdrop", 0.1);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", true);
  arch->learned_positions = arch->norm_affine = arch->pre_norm = arch->final_norm = true;
  arch->fused_qkv = arch->qkv_bias = arch->out_bias = arch->mlp_bias = true;
  arch->loss_f32 = arch->causal_mask_buffer = true;
  if (pz_fields_bool_or(config, "add_cross_attention", false))
    pz_fields_refuse(config, "add_cross_attention", "false; only decoders are supported");
  pz_check_heads(config, arch, "n_embd|hidden_size", "n_head|num_attention_heads");
  if (!pz_fields_value(config, "num_experts")) return;
  pz_config_experts(config, arch, "num_experts", "moe_intermediate_size");
  arch->plain_experts = true;
  arch->mlp_bias = false; /* grouped GEMMs of experts have no bias */
}

/* Reads OPT: learned positions with two extra rows, ReLU, pre-norm.  The 350m model has post-norm,
 * and a token embedding of half the width that is projected to the hidden width and back. */
static void read_opt(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = arch->kv_heads = pz_fields_int(config, "num_attention_heads", PZ_RANGE_HEADS);
  arch->ffn = pz_fields_int(config, "ffn_dim", PZ_RANGE_FFN);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int(config, "max_position_embeddings", PZ_RANGE_POSITIONS);
  arch->embed_dim = pz_fields_int_or(config, "word_embed_proj_dim", PZ_RANGE_HIDDEN, arch->hidden);
  arch->act = pz_config_act(config, "activation_function", "relu");
  arch->drop_hidden = pz_config_dropout(config, "dropout", 0.1);
  arch->drop_attn = pz_config_dropout(config, "attention_dropout", 0.0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", true);
  arch->pre_norm = pz_fields_bool_or(config, "do_layer_norm_before", true);
  arch->final_norm =
      arch->pre_norm && !pz_fields_bool_or(config, "_remove_final_layer_norm", false);
  arch->norm_affine = pz_fields_bool_or(config, "layer_norm_elementwise_affine", true);
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = pz_fields_bool_or(config, "enable_bias", true);
  arch->learned_positions = arch->softmax_f32 = arch->loss_f32 = arch->scale_query = true;
  arch->extra_positions = 2;
  pz_check_heads(config, arch, "hidden_size", "num_attention_heads");
}

/* Reads GPT-NeoX and Pythia: rotary positions on part of each head, attention and feed-forward in
 * parallel. */
static void read_gpt_neox(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = arch->kv_heads = pz_fields_int(config, "num_attention_heads", PZ_RANGE_HEADS);
  arch->ffn = pz_fields_int(config, "intermediate_size", PZ_RANGE_FFN);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int_or(config, "max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  arch->act = pz_config_act(config, "hidden_act", "gelu");
  arch->drop_attn = pz_config_dropout(config, "attention_dropout", 0.0);
  arch->drop_hidden = arch->drop_embed = pz_config_dropout(config, "hidden_dropout", 0.0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", false);
  arch->parallel_residual = pz_fields_bool_or(config, "use_parallel_residual", true);
  arch->qkv_bias = arch->out_bias = pz_fields_bool_or(config, "attention_bias", true);
  arch->fused_qkv = arch->mlp_bias = arch->norm_affine = true;
  arch->pre_norm = arch->final_norm = arch->softmax_f32 = arch->loss_f32 = true;
  pz_check_heads(config, arch, "hidden_size", "num_attention_heads");
  arch->rotary_dims = pz_config_rotary(config, arch, 0.25);
}

/* Reads GPT-J: rotary positions on part of each head, attention and feed-forward in parallel after
 * one norm, a bias in the head. */
static void read_gptj(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "n_embd|hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "n_layer|num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = arch->kv_heads =
      pz_fields_int(config, "n_head|num_attention_heads", PZ_RANGE_HEADS);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions =
      pz_fields_int_or(config, "n_positions|max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  arch->ffn = pz_fields_int_or(config, "n_inner|intermediate_size", PZ_RANGE_FFN, 4 * arch->hidden);
  arch->act = pz_config_act(config, "activation_function|hidden_act", "gelu_new");
  arch->drop_hidden = pz_config_dropout(config, "resid_pdrop", 0.0);
  arch->drop_embed = pz_config_dropout(config, "embd_pdrop", 0.0);
  arch->drop_attn = pz_config_dropout(config, "attn_pdrop", 0.0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", false);
  arch->mlp_bias = arch->norm_affine = arch->pre_norm = arch->final_norm = arch->head_bias = true;
  arch->parallel_residual = arch->shares_norm = arch->softmax_f32 = arch->loss_f32 = true;
  pz_check_heads(config, arch, "n_embd|hidden_size", "n_head|num_attention_heads");
  arch->rotary_dims = pz_fields_int_or(config, "rotary_dim", PZ_RANGE_HIDDEN, 64);
  if (config->status == PZ_OK && arch->rotary_dims > arch->head_dim)
    pz_fields_refuse(config, "rotary_dim", "at most the width of a head");
}

/* Reads BLOOM: a tied head, a norm after the embedding, and linear biases on positions (ALiBi),
 * which are added with the mask at no additional cost. */
static void read_bloom(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "hidden_size|n_embed", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "n_layer|num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = arch->kv_heads =
      pz_fields_int(config, "n_head|num_attention_heads", PZ_RANGE_HEADS);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int_or(config, "seq_length", PZ_RANGE_POSITIONS, 2048);
  arch->ffn = 4 * arch->hidden;
  arch->act = PZ_ACT_GELU_TANH;
  arch->drop_attn = pz_config_dropout(config, "attention_dropout", 0.0);
  arch->drop_hidden = pz_config_dropout(config, "hidden_dropout", 0.0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", true);
  arch->fused_qkv = arch->qkv_bias = arch->out_bias = arch->mlp_bias = arch->embed_norm = true;
  arch->norm_affine = arch->pre_norm = arch->final_norm = arch->softmax_f32 = arch->loss_f32 = true;
  if (pz_fields_bool_or(config, "apply_residual_connection_post_layernorm", false))
    pz_fields_refuse(config, "apply_residual_connection_post_layernorm", "false");
  pz_check_heads(config, arch, "hidden_size|n_embed", "n_head|num_attention_heads");
}

/* Reads Falcon: one or few key/value heads, attention and feed-forward in parallel, rotary
 * positions.  The first models (RefinedWeb) have attention and feed-forward in sequence, and
 * linear biases on positions (ALiBi), which are added with the mask at no additional cost. */
static void read_falcon(struct pz_fields *config, struct pz_arch *arch) {
  bool is_grouped = pz_fields_bool_or(config, "new_decoder_architecture", false);
  arch->hidden = pz_fields_int(config, "hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "num_hidden_layers|n_layer", PZ_RANGE_LAYERS);
  arch->heads = pz_fields_int(config, "num_attention_heads|n_head", PZ_RANGE_HEADS);
  arch->kv_heads = pz_fields_int_or(config, "num_kv_heads|n_head_kv", PZ_RANGE_HEADS, arch->heads);
  bool is_multi_query = pz_fields_bool_or(config, "multi_query", true);
  if (!is_grouped && is_multi_query) arch->kv_heads = 1;
  arch->ffn = pz_fields_int_or(config, "ffn_hidden_size", PZ_RANGE_FFN, 4 * arch->hidden);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int_or(config, "max_position_embeddings", PZ_RANGE_POSITIONS, 2048);
  arch->act = pz_config_act(config, "activation", "gelu");
  arch->drop_attn = pz_config_dropout(config, "attention_dropout", 0.0);
  arch->drop_hidden = pz_config_dropout(config, "hidden_dropout", 0.0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", true);
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = pz_fields_bool_or(config, "bias", false);
  arch->parallel_residual = pz_fields_bool_or(config, "parallel_attn", true);
  int64_t norms = pz_fields_int_or(config, "num_ln_in_parallel_attn", (struct pz_range){1, 2},
                                   is_grouped ? 2 : 1);
  arch->shares_norm = norms == 1;
  arch->fused_qkv = arch->norm_affine = arch->pre_norm = arch->final_norm = arch->loss_f32 = true;
  bool alibi = pz_fields_bool_or(config, "alibi", false);
  pz_check_heads(config, arch, "hidden_size", "num_kv_heads|n_head_kv");
  arch->rotary_dims = alibi ? 0 : arch->head_dim;
}

/* ---- Llama and its variants ------------------------------------------------------------------ */

/* Reads the fields of Llama: RMS pre-norm, rotary positions, a gated feed-forward, and grouped
 * key/value heads.  Families that differ in more than defaults change *arch after this call. */
void pz_llama_read(struct pz_fields *config, struct pz_arch *arch,
                   struct pz_llama_defaults defaults) {
  arch->hidden = pz_fields_int(config, "hidden_size", PZ_RANGE_HIDDEN);
  arch->layers = pz_fields_int(config, "num_hidden_layers", PZ_RANGE_LAYERS);
  arch->heads = pz_fields_int(config, "num_attention_heads", PZ_RANGE_HEADS);
  arch->kv_heads = pz_fields_int_or(config, "num_key_value_heads", PZ_RANGE_HEADS,
                                    defaults.kv_heads ? defaults.kv_heads : arch->heads);
  arch->head_dim = pz_fields_int_or(config, "head_dim", PZ_RANGE_HIDDEN, defaults.head_dim);
  arch->ffn = defaults.ffn
                  ? pz_fields_int_or(config, "intermediate_size", PZ_RANGE_FFN, defaults.ffn)
                  : pz_fields_int(config, "intermediate_size", PZ_RANGE_FFN);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int_or(config, "max_position_embeddings", PZ_RANGE_POSITIONS,
                                     defaults.positions ? defaults.positions : 2048);
  arch->act = pz_config_act(config, defaults.act_keys ? defaults.act_keys : "hidden_act",
                            defaults.act ? defaults.act : "silu");
  arch->drop_attn = pz_config_dropout(config, "attention_dropout", 0.0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", defaults.tied);
  arch->qkv_bias = arch->out_bias = pz_fields_bool_or(config, "attention_bias", defaults.bias);
  arch->mlp_bias = pz_fields_bool_or(config, "mlp_bias", false);
  arch->rms_norm = arch->gated_ffn = true;
  arch->pre_norm = arch->final_norm = arch->softmax_f32 = arch->loss_f32 = true;
  pz_check_heads(config, arch, "hidden_size", "num_key_value_heads");
  arch->rotary_dims = arch->head_dim;
}

/* Reads Llama itself, without other defaults. */
static void read_llama(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
}

/* Reads Mistral: Llama with fewer key/value heads by default, and a sliding window in some
 * versions.  Mixtral also has routed experts. */
static void read_mistral(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 8});
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = false;
  pz_config_window(config, arch, NULL);
  if (pz_config_is(config, "mixtral"))
    pz_config_experts(config, arch, "num_local_experts|num_experts", NULL);
}

/* Reads Phi-3 and Phi-4: Llama with one projection for query, key and value and one for gate and
 * up. */
static void read_phi3(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = false;
  arch->fused_qkv = arch->fused_gate = true;
  arch->drop_hidden = pz_config_dropout(config, "resid_pdrop", 0.0);
  arch->drop_embed = pz_config_dropout(config, "embd_pdrop", 0.0);
  arch->rotary_dims = pz_config_rotary(config, arch, 1.0);
  pz_config_window(config, arch, NULL);
}

/* Reads OLMo 2: Llama with norms after attention and feed-forward instead of before them, and
 * norms of query and key over all heads. */
static void read_olmo2(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
  arch->mlp_bias = arch->pre_norm = false;
  arch->post_norm = true;
  arch->qk_norm = PZ_QK_NORM_WIDTH;
}

/* Reads GLM-4 (0414): norms before and after attention and feed-forward, rotary positions on half
 * of each head, one projection for gate and up, no bias in the output projection. */
static void read_glm4(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 2, .head_dim = 128});
  arch->out_bias = arch->mlp_bias = false;
  arch->fused_gate = arch->post_norm = true;
  arch->rotary_dims = pz_config_rotary(config, arch, 0.5);
}

/* Reads StarCoder 2: layer norms, rotary positions, grouped key/value heads, biases, and a
 * feed-forward without gate. */
static void read_starcoder2(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch,
                (struct pz_llama_defaults){.kv_heads = 2,
                                           .act_keys = "hidden_act",
                                           .act = "gelu_pytorch_tanh",
                                           .positions = 4096,
                                           .tied = true});
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = pz_fields_bool_or(config, "use_bias", true);
  arch->norm_affine = true;
  arch->rms_norm = arch->gated_ffn = false;
  arch->drop_hidden = pz_config_dropout(config, "residual_dropout", 0.0);
  arch->drop_embed = pz_config_dropout(config, "embedding_dropout", 0.0);
  pz_config_window(config, arch, NULL);
}

/* Reads the windows of Qwen2 and Qwen3.  The field layer_types overrides max_window_layers. */
void pz_qwen_window(struct pz_fields *config, struct pz_arch *arch) {
  int64_t first_local =
      pz_fields_int_or(config, "max_window_layers", (struct pz_range){0, 65536}, 28);
  bool is_listed = pz_fields_value(config, "layer_types") != NULL;
  pz_config_window(config, arch, "use_sliding_window");
  if (!arch->window || config->status != PZ_OK) return;
  for (int64_t i = 0; i < arch->layers && !is_listed; i++)
    pz_mixed_mark(arch, i, i >= first_local ? PZ_LAYER_LOCAL : 0);
  if (is_listed) pz_mixed_read_attention(config, arch, 0);
}

/* Reads Qwen2 and Qwen2.5: Llama with a bias for query, key and value only, and a sliding window
 * in some layers of some models. */
static void read_qwen2(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
  arch->qkv_bias = true;
  arch->out_bias = arch->mlp_bias = false;
  pz_qwen_window(config, arch);
}

/* Reads Qwen3: Llama with norms of query and key heads, and a window in some layers of some
 * models. */
static void read_qwen3(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 32, .head_dim = 128});
  arch->mlp_bias = false;
  arch->qk_norm = PZ_QK_NORM_HEAD;
  pz_qwen_window(config, arch);
}

/* Reads Qwen3-MoE: Qwen3 with routed experts in the last of every decoder_sparse_step layers,
 * except those that mlp_only_layers lists. */
static void read_qwen3_moe(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 4});
  arch->mlp_bias = false;
  arch->qk_norm = PZ_QK_NORM_HEAD;
  pz_config_window(config, arch, "use_sliding_window");
  arch->fused_gate = true;
  pz_config_experts(config, arch, "num_experts|num_local_experts", "moe_intermediate_size");
  int64_t step = pz_fields_int_or(config, "decoder_sparse_step", PZ_RANGE_LAYERS, 1);
  for (int64_t i = 0; i < arch->layers && config->status == PZ_OK && step > 1; i++)
    pz_mixed_mark(arch, i, (i + 1) % step ? PZ_LAYER_DENSE : 0);
  pz_mixed_mark_listed(config, arch, "mlp_only_layers", PZ_LAYER_DENSE, true);
}

/* Reads Gemma 2 and Gemma 3: four norms in each layer, a scaled embedding, sliding windows in most
 * layers.  By default, the last of every two layers (Gemma 2) or six layers (Gemma 3) has full
 * attention.  Gemma 2 caps scores and logits, and Gemma 3 has norms of query and key. */
static void read_gemma(struct pz_fields *config, struct pz_arch *arch) {
  bool is_gemma3 = pz_config_is(config, "gemma3_text");
  pz_llama_read(config, arch,
                (struct pz_llama_defaults){.kv_heads = 4,
                                           .head_dim = 256,
                                           .act_keys = "hidden_activation|hidden_act",
                                           .act = "gelu_pytorch_tanh",
                                           .positions = 8192,
                                           .tied = true});
  arch->mlp_bias = false;
  arch->post_norm = arch->scale_embed = true;
  arch->window = pz_fields_int_or(config, "sliding_window", PZ_RANGE_POSITIONS, 4096);
  int64_t period = pz_fields_int_or(config, "sliding_window_pattern|_sliding_window_pattern",
                                    PZ_RANGE_LAYERS, is_gemma3 ? 6 : 2);
  pz_mixed_read_attention(config, arch, period);
  if (is_gemma3) arch->qk_norm = PZ_QK_NORM_HEAD;
  arch->caps_scores = pz_fields_real_or(config, "attn_logit_softcapping", 0, 1e9, 0) > 0;
  arch->caps_logits = pz_fields_real_or(config, "final_logit_softcapping", 0, 1e9, 0) > 0;
}

/* Reads gpt-oss: routed experts with biases, sliding windows in every other layer, attention sinks
 * (one more logit for each head in the softmax), biases in attention and router. */
static void read_gpt_oss(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(
      config, arch,
      (struct pz_llama_defaults){.kv_heads = 8, .head_dim = 64, .positions = 131072, .bias = true});
  arch->mlp_bias = arch->router_bias = arch->attention_sinks = arch->fused_gate = true;
  arch->router = PZ_ROUTER_CHOSEN_SOFTMAX;
  pz_config_experts(config, arch, "num_local_experts|num_experts", NULL);
  arch->window = pz_fields_int_or(config, "sliding_window", PZ_RANGE_POSITIONS, 128);
  pz_mixed_read_attention(config, arch, 2);
}

/* Reads the routed and shared experts of DeepSeek's models.  The first layers, by
 * default `dense` of them, are dense, and so are later ones that moe_layer_freq does not divide. */
static void read_deepseek_experts(struct pz_fields *config, struct pz_arch *arch, int64_t dense) {
  int64_t shared = pz_fields_int_or(config, "n_shared_experts", (struct pz_range){0, 65536}, 0);
  dense = pz_fields_int_or(config, "first_k_dense_replace", (struct pz_range){0, 65536}, dense);
  int64_t every = pz_fields_int_or(config, "moe_layer_freq", PZ_RANGE_LAYERS, 1);
  pz_config_experts(config, arch, "n_routed_experts|num_local_experts", "moe_intermediate_size");
  arch->fused_gate = true;
  arch->shared_ffn = shared * arch->ffn;
  for (int64_t i = 0; i < arch->layers && config->status == PZ_OK; i++)
    if (i < dense || i % every) pz_mixed_mark(arch, i, PZ_LAYER_DENSE);
}

/* Reads the sigmoid router of DeepSeek-V3 and the number of layers that predict further tokens.
 * `groups` and `chosen` are the default numbers of expert groups and of those that a token uses. */
static void read_sigmoid_router(struct pz_fields *config, struct pz_arch *arch, int64_t groups,
                                int64_t chosen) {
  arch->router = PZ_ROUTER_SIGMOID;
  groups = pz_fields_int_or(config, "n_group", (struct pz_range){1, 65536}, groups);
  chosen = pz_fields_int_or(config, "topk_group", (struct pz_range){1, 65536}, chosen);
  if (groups > 1) arch->expert_groups = chosen;
  arch->predict_layers =
      pz_fields_int_or(config, "num_nextn_predict_layers", (struct pz_range){0, 64}, 0);
}

/* Reads DeepSeek: latent attention, routed and shared experts, and dense first layers, of which
 * DeepSeek-V2 has none by default and later models have three.  These also have another router. */
static void read_deepseek(struct pz_fields *config, struct pz_arch *arch) {
  bool is_v2 = pz_config_is(config, "deepseek_v2");
  pz_llama_read(config, arch, (struct pz_llama_defaults){.head_dim = 64});
  arch->mlp_bias = false;
  bool has_query_latent = !json_is_null(json_object_get(config->root, "q_lora_rank"));
  arch->q_rank =
      has_query_latent ? pz_fields_int_or(config, "q_lora_rank", PZ_RANGE_HIDDEN, 1536) : 0;
  arch->kv_rank = pz_fields_int_or(config, "kv_lora_rank", PZ_RANGE_HIDDEN, 512);
  arch->rotary_dims = pz_fields_int_or(config, "qk_rope_head_dim", PZ_RANGE_HIDDEN, 64);
  arch->value_dim = pz_fields_int_or(config, "v_head_dim", PZ_RANGE_HIDDEN, 128);
  arch->head_dim =
      arch->rotary_dims + pz_fields_int_or(config, "qk_nope_head_dim", PZ_RANGE_HIDDEN, 128);
  arch->kv_heads = arch->heads;
  read_deepseek_experts(config, arch, is_v2 ? 0 : 3);
  if (!is_v2) read_sigmoid_router(config, arch, 8, 4);
}

/* Marks the layers that have no indexer and reuse the keys of an earlier layer.  Without a list of
 * them, the first `offset` layers (`absent` by default) and one of every `period` layers after them
 * have an indexer
 * (megatron/core/transformer/experimental_attention_variant/dsa.py: is_dsa_skip_topk_layer). */
static void mark_reused_index(struct pz_fields *config, struct pz_arch *arch, int64_t absent) {
  static const struct pz_layer_type known[] = {{"full", 0}, {"shared", PZ_LAYER_REUSED}, {NULL, 0}};
  int64_t period = pz_fields_int_or(config, "index_topk_freq", PZ_RANGE_LAYERS, 1);
  int64_t offset =
      pz_fields_int_or(config, "index_skip_topk_offset", (struct pz_range){0, 65536}, absent);
  if (pz_fields_value(config, "indexer_types")) {
    pz_mixed_read_types(config, arch, "indexer_types", known);
    return;
  }
  if (offset < 1) offset = 1;
  for (int64_t i = offset; i < arch->layers && period > 1 && config->status == PZ_OK; i++)
    if ((i + 1 - offset) % period) pz_mixed_mark(arch, i, PZ_LAYER_REUSED);
}

/* Reads DeepSeek-V3.2 (arXiv 2512.02556) and GLM-5: DeepSeek-V3 with sparse attention, for which an
 * indexer chooses keys.  The defaults of GLM-5 differ from those of DeepSeek-V3.2. */
static void read_sparse(struct pz_fields *config, struct pz_arch *arch) {
  bool is_glm = pz_config_is(config, "glm_moe_dsa");
  read_deepseek(config, arch);
  arch->index_topk = pz_fields_int_or(config, "index_topk", PZ_RANGE_POSITIONS, 2048);
  arch->index_heads = pz_fields_int_or(config, "index_n_heads", PZ_RANGE_HEADS, is_glm ? 32 : 64);
  arch->index_dim = pz_fields_int_or(config, "index_head_dim", PZ_RANGE_HIDDEN, 128);
  if (config->status == PZ_OK && !arch->q_rank)
    pz_fields_refuse(config, "q_lora_rank", "a number, which the indexer's queries are made from");
  mark_reused_index(config, arch, is_glm ? 2 : 0);
}

/* Reads GLM-4.5 to 4.7: DeepSeek-V3's experts, grouped key/value heads, optional norms of query
 * and key, rotary positions on half of each head, no bias in the output projection (transformers,
 * models/glm4_moe/modeling_glm4_moe.py). */
static void read_glm4_moe(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 8});
  arch->out_bias = arch->mlp_bias = false;
  if (pz_fields_bool_or(config, "use_qk_norm", false)) arch->qk_norm = PZ_QK_NORM_HEAD;
  arch->rotary_dims = pz_config_rotary(config, arch, 0.5);
  read_deepseek_experts(config, arch, 1);
  read_sigmoid_router(config, arch, 1, 1);
}

/* Marks the layers without rotary positions: those with entry 0 in no_rope_layers, or the last of
 * every `period` layers.  Then it reads which layers attend within chunks. */
static void read_llama4_positions(struct pz_fields *config, struct pz_arch *arch) {
  const json_t *list = pz_fields_value(config, "no_rope_layers");
  int64_t period = pz_fields_int_or(config, "no_rope_layer_interval", PZ_RANGE_LAYERS, 4);
  bool is_listed = json_is_array(list) && json_array_size(list) > 0;
  if (config->status != PZ_OK) return;
  if (is_listed && json_array_size(list) != (size_t)arch->layers) {
    pz_fields_refuse(config, "no_rope_layers", "a list with an entry for every layer");
    return;
  }
  for (int64_t i = 0; i < arch->layers; i++) {
    bool is_unrotated = is_listed ? json_integer_value(json_array_get(list, (size_t)i)) == 0
                                  : (i + 1) % period == 0;
    pz_mixed_mark(arch, i, is_unrotated ? PZ_LAYER_UNROTATED : 0);
  }
  bool has_chunks = !json_is_null(json_object_get(config->root, "attention_chunk_size"));
  arch->chunk =
      has_chunks ? pz_fields_int_or(config, "attention_chunk_size", PZ_RANGE_POSITIONS, 8192) : 0;
  pz_mixed_read_attention(config, arch, period);
}

/* Reads the experts, and which layers have them: those that moe_layers lists, or the last of every
 * `step` layers. */
static void read_llama4_experts(struct pz_fields *config, struct pz_arch *arch) {
  int64_t step = pz_fields_int_or(config, "interleave_moe_layer_step", PZ_RANGE_LAYERS, 1);
  arch->dense_ffn = pz_fields_int_or(config, "intermediate_size_mlp", PZ_RANGE_FFN, 16384);
  pz_config_experts(config, arch, "num_local_experts", NULL);
  arch->shared_ffn = arch->ffn;
  if (pz_fields_value(config, "moe_layers")) {
    for (int64_t i = 0; i < arch->layers; i++) pz_mixed_mark(arch, i, PZ_LAYER_DENSE);
    pz_mixed_mark_listed(config, arch, "moe_layers", PZ_LAYER_DENSE, false);
    return;
  }
  for (int64_t i = 0; i < arch->layers && config->status == PZ_OK; i++)
    pz_mixed_mark(arch, i, (i + 1) % step ? PZ_LAYER_DENSE : 0);
}

/* Reads Llama 4 (text): layers with routed experts alternate with dense ones; a shared expert;
 * attention within chunks in three of four layers, and no rotary positions in the fourth. */
static void read_llama4(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch,
                (struct pz_llama_defaults){.kv_heads = 8, .head_dim = 128, .positions = 131072});
  arch->mlp_bias = false;
  arch->fused_gate = true;
  arch->router = PZ_ROUTER_CHOSEN_SIGMOID;
  if (pz_fields_bool_or(config, "use_qk_norm", true)) arch->qk_norm = PZ_QK_NORM_PLAIN;
  read_llama4_experts(config, arch);
  read_llama4_positions(config, arch);
}

/* Reads a plain decoder as it is written in a page of PyTorch: one projection for query, key and
 * value and one for gate and up, a head that is not tied, the loss in 32 bit.  With the activation
 * silu, it has a gate, RMS norms, rotary positions and no biases; otherwise layer norms, biases,
 * and no positions.  With num_experts, gated experts replace the feed-forward. */
static void read_decoder(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
  arch->act = pz_config_act(config, "hidden_act", "silu");
  arch->fused_qkv = arch->fused_gate = arch->stored_tables = true;
  arch->rms_norm = arch->gated_ffn = arch->act == PZ_ACT_SILU;
  arch->softmax_f32 = false;
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = arch->norm_affine = !arch->gated_ffn;
  if (!arch->gated_ffn || !pz_fields_bool_or(config, "rotary", true)) arch->rotary_dims = 0;
  int64_t shared = pz_fields_int_or(config, "n_shared_experts", (struct pz_range){0, 65536}, 0);
  int64_t dense = pz_fields_int_or(config, "first_k_dense_replace", (struct pz_range){0, 65536}, 0);
  if (!pz_fields_value(config, "num_experts")) return;
  pz_config_experts(config, arch, "num_experts", "moe_intermediate_size");
  arch->shared_ffn = shared * arch->ffn;
  for (int64_t i = 0; i < arch->layers && i < dense && config->status == PZ_OK; i++)
    pz_mixed_mark(arch, i, PZ_LAYER_DENSE);
}

/* ---- encoder and decoder --------------------------------------------------------------------- */

/* Reads T5: an encoder, and a decoder that attends to the encoder's result, both with RMS norms
 * and with learned biases of relative positions, which belong to the first layer and are added
 * with the mask.  Their gradient, to which the scores of every layer contribute, is not counted.
 * Source and target have the same length. */
static void read_t5(struct pz_fields *config, struct pz_arch *arch) {
  arch->hidden = pz_fields_int(config, "d_model", PZ_RANGE_HIDDEN);
  arch->encoder_layers = pz_fields_int(config, "num_layers", PZ_RANGE_LAYERS);
  arch->layers =
      pz_fields_int_or(config, "num_decoder_layers", PZ_RANGE_LAYERS, arch->encoder_layers);
  arch->heads = arch->kv_heads = pz_fields_int(config, "num_heads", PZ_RANGE_HEADS);
  arch->head_dim = pz_fields_int_or(config, "d_kv", PZ_RANGE_HIDDEN, 64);
  arch->ffn = pz_fields_int(config, "d_ff", PZ_RANGE_FFN);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int_or(config, "n_positions", PZ_RANGE_POSITIONS, 512);
  arch->position_buckets =
      pz_fields_int_or(config, "relative_attention_num_buckets", PZ_RANGE_POSITIONS, 32);
  arch->drop_embed = arch->drop_hidden = arch->drop_attn =
      pz_config_dropout(config, "dropout_rate", 0.1);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", true);
  arch->bidirectional = arch->rms_norm = arch->pre_norm = arch->final_norm = true;
  arch->softmax_f32 = arch->loss_f32 = true;
  const char *projection = pz_fields_text_or(config, "feed_forward_proj", "relu");
  arch->gated_ffn = strncmp(projection, "gated-", 6) == 0;
  const char *act = arch->gated_ffn ? projection + 6 : projection;
  arch->act = PZ_ACT_GELU_TANH;
  if (strcmp(act, "relu") == 0) arch->act = PZ_ACT_RELU;
  if (strcmp(act, "silu") == 0) arch->act = PZ_ACT_SILU;
  if (arch->act == PZ_ACT_GELU_TANH && strcmp(act, "gelu") != 0)
    pz_fields_refuse(config, "feed_forward_proj", "relu, gelu, silu, or one of them after gated-");
}

/* ---- the table of families ------------------------------------------------------------------- */

const struct pz_family pz_families[] = {
    {"bert", read_bert},
    {"megatron-bert", read_bert},
    {"gpt2", read_gpt2},
    {"opt", read_opt},
    {"llama", read_llama},
    {"mistral", read_mistral},
    {"qwen2", read_qwen2},
    {"gpt_neox", read_gpt_neox},
    {"mixtral", read_mistral},
    {"qwen3", read_qwen3},
    {"qwen3_moe", read_qwen3_moe},
    {"deepseek_v2", read_deepseek},
    {"deepseek_v3", read_deepseek},
    {"kimi_k2", read_deepseek},
    {"deepseek_v32", read_sparse},
    {"glm_moe_dsa", read_sparse},
    {"gemma2", read_gemma},
    {"gemma3_text", read_gemma},
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
    {"qwen3_next", pz_read_qwen_hybrid},
    {"qwen3_5_text", pz_read_qwen_hybrid},
    {"qwen3_5", pz_read_qwen_hybrid},
    {"qwen3_5_moe_text", pz_read_qwen_hybrid},
    {"qwen3_5_moe", pz_read_qwen_hybrid},
    {"granitemoehybrid", pz_read_granite_hybrid},
    {"bamba", pz_read_bamba},
    {"jamba", pz_read_jamba},
    {"falcon_h1", pz_read_falcon_h1},
    {NULL, NULL},
};

/* A text model without a field tie_word_embeddings gets that of the whole model. */
json_t *pz_config_text(json_t *root) {
  json_t *text = json_object_get(root, "text_config");
  if (!json_is_string(json_object_get(text, "model_type"))) return root;
  json_t *tied = json_object_get(root, "tie_word_embeddings");
  if (tied && !json_object_get(text, "tie_word_embeddings"))
    (void)json_object_set(text, "tie_word_embeddings", tied);
  return text;
}

/* Reads a configuration with its family, and removes a recurrence that no layer uses. */
void pz_family_read(const struct pz_family *family, struct pz_fields *config,
                    struct pz_arch *arch) {
  family->read(config, arch);
  unsigned present = arch->predict_kind | (arch->parallel_mixers ? PZ_LAYER_RECURRENT : 0);
  for (int64_t i = 0; i < arch->layers && i < PZ_MOST_MIXED_LAYERS; i++)
    present |= arch->layer_kind[i];
  if (!(present & PZ_LAYER_RECURRENT)) arch->recurrence = (struct pz_recurrence){0};
}

/* Returns the name of a feature without operators.  It is recognized by a field that only such
 * models have, or by the model_type. */
const char *pz_family_unsupported_feature(struct pz_fields *config, const char *model_type,
                                          const char **key) {
  static const struct {
    const char *model_type, *key, *feature; /* model_type or key is NULL */
  } unsupported[] = {{NULL, "linear_attn_config", "Kimi delta attention"},
                     {NULL, "compress_ratios", "compressed sparse attention"},
                     {NULL, "conv_L_cache", "short convolutions in place of attention"},
                     {NULL, "num_mem_blocks", "blocks of attention that layers share"},
                     {NULL, "hidden_size_per_layer_input", "an embedding for each layer"},
                     {"minimax", NULL, "lightning attention"},
                     {"minimax_text_01", NULL, "lightning attention"},
                     {"minimax_m1", NULL, "lightning attention"},
                     {"mamba2", NULL, "stacks without attention"}};
  for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
    const char *type = unsupported[i].model_type;
    *key = unsupported[i].key;
    bool is_recognized =
        type ? strcmp(type, model_type) == 0 : pz_fields_value(config, *key) != NULL;
    if (is_recognized) return unsupported[i].feature;
  }
  return NULL;
}

const struct pz_family *pz_family_find(const char *model_type) {
  for (const struct pz_family *family = pz_families; family->model_type; family++)
    if (strcmp(family->model_type, model_type) == 0) return family;
  return NULL;
}
