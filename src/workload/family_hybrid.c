/* Families of hybrid models, which have a recurrence instead of attention in some layers:
 * Nemotron-H, Qwen3-Next and Qwen3.5, and models with Mamba layers (Bamba, Granite, Jamba,
 * Falcon-H1). */
#include "workload/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Accepted ranges of counts that may be 0, and of convolution widths in tokens. */
static const struct pz_range COUNT_RANGE = {0, 65536}, CONV_RANGE = {1, 64};

/* Refuses a recurrence whose groups, from the field `keys`, do not divide its heads evenly. */
static void check_groups(struct pz_fields *config, const struct pz_recurrence *recurrence,
                         const char *keys) {
  char accepted[80];
  if (config->status != PZ_OK || recurrence->heads % recurrence->groups == 0) return;
  snprintf(accepted, sizeof accepted, "a divisor of the %" PRId64 " heads", recurrence->heads);
  pz_fields_refuse(config, keys, accepted);
}

/* ---- Nemotron-H ------------------------------------------------------------------------------ */

/* Layer types of Nemotron-H, whose layers are either a mixer (attention or recurrence) or a
 * feed-forward.  `letter` stands for the type in a pattern, and type.name in a list. */
static const struct {
  char letter;
  struct pz_layer_type type;
} half_blocks[] = {{'M', {"mamba", PZ_LAYER_RECURRENT | PZ_LAYER_NO_FFN}},
                   {'M', {"linear_attention", PZ_LAYER_RECURRENT | PZ_LAYER_NO_FFN}},
                   {'*', {"attention", PZ_LAYER_NO_FFN}},
                   {'*', {"full_attention", PZ_LAYER_NO_FFN}},
                   {'E', {"moe", PZ_LAYER_NO_MIXER}},
                   {'-', {"mlp", PZ_LAYER_NO_MIXER | PZ_LAYER_DENSE}}};

enum { N_HALF_BLOCKS = sizeof half_blocks / sizeof *half_blocks };

/* Reads the types of the layers as letters into `out`, which has `size` characters.  They come from
 * the field `names`, a list of type names, or else from the field `pattern`, which has such letters
 * ("M-M*E", by default `absent`); if both are present, they must agree. */
static void read_pattern(struct pz_fields *config, const char *pattern, const char *names,
                         char *out, size_t size, const char *absent) {
  const json_t *list = pz_fields_value(config, names);
  const char *text = pz_fields_text_or(config, pattern, absent);
  size_t n = list ? json_array_size(list) : strlen(text);
  for (size_t i = 0; i < n && i + 1 < size; i++) {
    const char *name = json_string_value(json_array_get(list, i));
    out[i] = '\0'; /* until the layer's type is found */
    for (int type = 0; type < N_HALF_BLOCKS && !out[i]; type++) {
      bool is_listed = list && name && strcmp(name, half_blocks[type].type.name) == 0;
      bool is_letter = !list && text[i] == half_blocks[type].letter;
      if (is_listed || is_letter) out[i] = half_blocks[type].letter;
    }
    out[i + 1] = '\0';
    if (!out[i])
      pz_fields_refuse(config, list ? names : pattern,
                       "M or mamba, * or attention, E or moe, - or mlp for every layer");
    if (!out[i]) return;
  }
  if (!n || n >= size) pz_fields_refuse(config, list ? names : pattern, "1 to 1024 layers");
  if (list && pz_fields_value(config, pattern) && strcmp(text, out) != 0) {
    char accepted[64];
    snprintf(accepted, sizeof accepted, "the same layers as in '%s'", names);
    pz_fields_refuse(config, pattern, accepted);
  }
}

/* Returns the properties of the layer type that a letter stands for. */
static unsigned find_properties(char letter) {
  int type = 0;
  while (type + 1 < N_HALF_BLOCKS && half_blocks[type].letter != letter) type++;
  return half_blocks[type].type.properties;
}

/* Reads the block that predicts further tokens (multi-token prediction): a mixer, a feed-forward,
 * or both in this order.  `dense` is whether the model has no experts. */
static void read_nemotron_prediction(struct pz_fields *config, struct pz_arch *arch, bool dense) {
  char pattern[8] = "";
  arch->predict_layers =
      pz_fields_int_or(config, "num_nextn_predict_layers", (struct pz_range){0, 64}, 0);
  arch->predict_repeats = pz_fields_bool_or(config, "mtp_use_repeated_layer", true);
  if (!arch->predict_layers) return;
  read_pattern(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type", pattern,
               sizeof pattern, "*E");
  if (config->status != PZ_OK) return;
  /* A single letter is a block with one half, and two letters are a block that lacks neither. */
  unsigned first_half = find_properties(pattern[0]), kind = first_half;
  bool is_single = !pattern[1];
  if (!is_single)
    kind = (first_half | find_properties(pattern[1])) &
           ~(unsigned)(PZ_LAYER_NO_MIXER | PZ_LAYER_NO_FFN);
  bool is_pair = !is_single && !pattern[2] && first_half & PZ_LAYER_NO_FFN &&
                 find_properties(pattern[1]) & PZ_LAYER_NO_MIXER;
  bool lacks_experts = dense && strchr(pattern, 'E');
  if (lacks_experts || (!is_single && !is_pair))
    pz_fields_refuse(config, "mtp_hybrid_override_pattern",
                     "M or *, E or - as in the model, or two in this order");
  if (dense) kind &= ~(unsigned)PZ_LAYER_DENSE; /* a model without experts has no PZ_LAYER_DENSE */
  arch->predict_kind = kind | PZ_PREDICT_OWN;
}

/* Reads the experts of Nemotron 3, which may work in a latent width. */
static void read_nemotron_experts(struct pz_fields *config, struct pz_arch *arch) {
  pz_config_experts(config, arch, "n_routed_experts|num_local_experts", "moe_intermediate_size");
  arch->shared_ffn =
      pz_fields_int_or(config, "moe_shared_expert_intermediate_size", PZ_RANGE_FFN, 0);
  arch->expert_latent = pz_fields_int_or(config, "moe_latent_size", PZ_RANGE_HIDDEN, 0);
  arch->router = PZ_ROUTER_SIGMOID;
  arch->plain_experts = true;
  int64_t groups = pz_fields_int_or(config, "n_group", COUNT_RANGE, 1);
  int64_t chosen = pz_fields_int_or(config, "topk_group", COUNT_RANGE, 1);
  if (groups > 1) arch->expert_groups = chosen;
}

/* Reads Nemotron-H, Nemotron Nano 2 and Nemotron 3.  A layer is Mamba-2, attention without
 * positions, a squared-ReLU feed-forward, or routed experts, which may work in a latent width. */
void pz_read_nemotron_h(struct pz_fields *config, struct pz_arch *arch) {
  struct pz_recurrence *recurrence = &arch->recurrence;
  char pattern[PZ_MOST_MIXED_LAYERS + 2] = "";
  read_pattern(config, "hybrid_override_pattern", "layers_block_type", pattern, sizeof pattern, "");
  arch->layers = (int64_t)strlen(pattern);
  if (pz_fields_int_or(config, "num_hidden_layers", PZ_RANGE_LAYERS, arch->layers) != arch->layers)
    pz_fields_refuse(config, "num_hidden_layers", "the number of layers of the pattern");
  arch->hidden = pz_fields_int(config, "hidden_size", PZ_RANGE_HIDDEN);
  arch->heads = pz_fields_int(config, "num_attention_heads", PZ_RANGE_HEADS);
  arch->kv_heads = pz_fields_int_or(config, "num_key_value_heads", PZ_RANGE_HEADS, 8);
  arch->head_dim = pz_fields_int_or(config, "head_dim|attention_head_dim", PZ_RANGE_HIDDEN, 128);
  arch->vocab = pz_fields_int(config, "vocab_size", PZ_RANGE_VOCAB);
  arch->positions = pz_fields_int_or(config, "max_position_embeddings", PZ_RANGE_POSITIONS, 4096);
  arch->act = pz_config_act(config, "mlp_hidden_act", "relu2");
  arch->drop_attn = pz_config_dropout(config, "attention_dropout", 0);
  arch->drop_hidden = pz_config_dropout(config, "hidden_dropout", 0);
  arch->tied = pz_fields_bool_or(config, "tie_word_embeddings", false);
  arch->qkv_bias = arch->out_bias = pz_fields_bool_or(config, "attention_bias", false);
  arch->mlp_bias = pz_fields_bool_or(config, "mlp_bias", false);
  arch->rms_norm = arch->pre_norm = arch->final_norm = arch->softmax_f32 = arch->loss_f32 = true;
  *recurrence = (struct pz_recurrence){
      .mixer = PZ_MIXER_MAMBA2,
      .heads = pz_fields_int_or(config, "mamba_num_heads", PZ_RANGE_HEADS, 128),
      .head_dim = pz_fields_int_or(config, "mamba_head_dim", PZ_RANGE_HIDDEN, 64),
      .state = pz_fields_int_or(config, "ssm_state_size", PZ_RANGE_HIDDEN, 128),
      .groups = pz_fields_int_or(config, "n_groups|mamba_n_groups", PZ_RANGE_HEADS, 8),
      .conv_tokens = pz_fields_int_or(config, "conv_kernel|mamba_d_conv", CONV_RANGE, 4),
      .chunk = pz_fields_int_or(config, "chunk_size|mamba_chunk_size", PZ_RANGE_POSITIONS, 128),
      .conv_bias = pz_fields_bool_or(config, "use_conv_bias|mamba_conv_bias", true),
      .proj_bias = pz_fields_bool_or(config, "use_bias|mamba_proj_bias", false)};
  recurrence->norms = recurrence->groups;
  check_groups(config, recurrence, "n_groups");
  pz_check_heads(config, arch, "hidden_size", "num_key_value_heads");
  bool has_experts = strchr(pattern, 'E'), has_dense = strchr(pattern, '-');
  arch->ffn = pz_fields_int_or(config, "intermediate_size", PZ_RANGE_FFN, 21504);
  if (has_experts) read_nemotron_experts(config, arch);
  /* without experts, the width of the feed-forward is `ffn`, and no layer is marked as dense */
  for (int64_t i = 0; i < arch->layers; i++)
    pz_mixed_mark(arch, i,
                  find_properties(pattern[i]) & ~(unsigned)(has_experts ? 0 : PZ_LAYER_DENSE));
  read_nemotron_prediction(config, arch, !has_experts);
  /* the tensor-parallel degree need not divide a width that no layer has */
  if (!has_dense && !(arch->predict_kind & PZ_LAYER_DENSE)) arch->dense_ffn = 0;
}

/* ---- Qwen3-Next, Qwen3.5 --------------------------------------------------------------------- */

/* Reads Qwen3-Next and Qwen3.5: the gated delta rule in three of four layers, and in the others
 * attention with an output gate, norms of query and key, and rotary positions on part of each head.
 * All but the dense models of Qwen3.5 have routed experts, and a shared expert with a gate. */
void pz_read_qwen_hybrid(struct pz_fields *config, struct pz_arch *arch) {
  bool is_dense = pz_config_is(config, "qwen3_5") || pz_config_is(config, "qwen3_5_text");
  static const struct pz_layer_type known[] = {
      {"linear_attention", PZ_LAYER_RECURRENT}, {"full_attention", 0}, {NULL, 0}};
  pz_llama_read(
      config, arch,
      (struct pz_llama_defaults){
          .kv_heads = 2, .head_dim = 256, .positions = 32768, .ffn = is_dense ? 12288 : 5632});
  arch->mlp_bias = false;
  arch->out_gate = true;
  arch->qk_norm = PZ_QK_NORM_HEAD;
  arch->rotary_dims = pz_config_rotary(config, arch, 0.25);
  arch->recurrence = (struct pz_recurrence){
      .mixer = PZ_MIXER_DELTA,
      .heads = pz_fields_int_or(config, "linear_num_value_heads", PZ_RANGE_HEADS, 32),
      .head_dim = pz_fields_int_or(config, "linear_value_head_dim", PZ_RANGE_HIDDEN, 128),
      .state = pz_fields_int_or(config, "linear_key_head_dim", PZ_RANGE_HIDDEN, 128),
      .groups = pz_fields_int_or(config, "linear_num_key_heads", PZ_RANGE_HEADS, 16),
      .conv_tokens = pz_fields_int_or(config, "linear_conv_kernel_dim", CONV_RANGE, 4),
      .chunk = 64}; /* chunk_size of the kernels (fla-org/flash-linear-attention) */
  check_groups(config, &arch->recurrence, "linear_num_key_heads");
  int64_t period = pz_fields_int_or(config, "full_attention_interval", PZ_RANGE_LAYERS, 4);
  if (pz_fields_value(config, "layer_types"))
    pz_mixed_read_types(config, arch, "layer_types", known);
  else
    for (int64_t i = 0; i < arch->layers; i++)
      pz_mixed_mark(arch, i, (i + 1) % period ? PZ_LAYER_RECURRENT : 0);
  arch->predict_layers = pz_fields_int_or(config, "mtp_num_hidden_layers|num_nextn_predict_layers",
                                          (struct pz_range){0, 64}, 0);
  arch->predict_kind = PZ_PREDICT_OWN;
  if (is_dense) return;
  arch->fused_gate = arch->shared_gate = true;
  pz_config_experts(config, arch, "num_experts|num_local_experts", "moe_intermediate_size");
  arch->shared_ffn = pz_fields_int_or(config, "shared_expert_intermediate_size", PZ_RANGE_FFN, 512);
  int64_t step = pz_fields_int_or(config, "decoder_sparse_step", PZ_RANGE_LAYERS, 1);
  for (int64_t i = 0; i < arch->layers && config->status == PZ_OK && step > 1; i++)
    if ((i + 1) % step) pz_mixed_mark(arch, i, PZ_LAYER_DENSE);
  pz_mixed_mark_listed(config, arch, "mlp_only_layers", PZ_LAYER_DENSE, true);
}

/* ---- Bamba, Granite 4.0, Falcon-H1 ----------------------------------------------------------- */

/* Reads an integer field for which "auto" and null stand for the default `absent`. */
static int64_t read_int_or_auto(struct pz_fields *config, const char *key, int64_t absent) {
  const json_t *value = pz_fields_value(config, key);
  if (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0) return absent;
  return pz_fields_int_or(config, key, PZ_RANGE_HIDDEN, absent);
}

/* Reads Mamba-2 layers, with the field names of Bamba and one norm of all heads together.  `inner`
 * is the width of all heads, or 0 for mamba_expand times the hidden width. */
static void read_mamba2(struct pz_fields *config, struct pz_arch *arch, int64_t inner) {
  struct pz_recurrence *recurrence = &arch->recurrence;
  int64_t expand = pz_fields_int_or(config, "mamba_expand", (struct pz_range){1, 64}, 2);
  *recurrence = (struct pz_recurrence){
      .mixer = PZ_MIXER_MAMBA2,
      .heads = pz_fields_int_or(config, "mamba_n_heads", PZ_RANGE_HEADS, 128),
      .state = pz_fields_int_or(config, "mamba_d_state", PZ_RANGE_HIDDEN, 256),
      .groups = pz_fields_int_or(config, "mamba_n_groups", PZ_RANGE_HEADS, 1),
      .conv_tokens = pz_fields_int_or(config, "mamba_d_conv", CONV_RANGE, 4),
      .chunk = pz_fields_int_or(config, "mamba_chunk_size", PZ_RANGE_POSITIONS, 256),
      .conv_bias = pz_fields_bool_or(config, "mamba_conv_bias", true),
      .proj_bias = pz_fields_bool_or(config, "mamba_proj_bias", false),
      .norms = 1};
  if (!inner) inner = expand * arch->hidden;
  if (config->status != PZ_OK) return;
  recurrence->head_dim = read_int_or_auto(config, "mamba_d_head", inner / recurrence->heads);
  if (config->status == PZ_OK && recurrence->head_dim * recurrence->heads != inner)
    pz_fields_refuse(config, "mamba_d_head", "the width of the recurrence divided by its heads");
  check_groups(config, recurrence, "mamba_n_groups");
}

/* Names of the mixers in a list of layer types. */
static const struct pz_layer_type mixers[] = {{"mamba", PZ_LAYER_RECURRENT},
                                              {"linear_attention", PZ_LAYER_RECURRENT},
                                              {"attention", 0},
                                              {"full_attention", 0},
                                              {NULL, 0}};

/* Reads Bamba: attention in the listed layers and Mamba-2 in all others, rotary positions on half
 * of each head, a gated feed-forward. */
void pz_read_bamba(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 8, .positions = 262144});
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = false;
  arch->rotary_dims = pz_config_rotary(config, arch, 0.5);
  read_mamba2(config, arch, 0);
  for (int64_t i = 0; i < arch->layers; i++) pz_mixed_mark(arch, i, PZ_LAYER_RECURRENT);
  if (!pz_fields_value(config, "attn_layer_indices"))
    pz_fields_refuse(config, "attn_layer_indices",
                     "a list of the layers with attention, [] for none");
  pz_mixed_mark_listed(config, arch, "attn_layer_indices", PZ_LAYER_RECURRENT, false);
}

/* Reads Granite 4.0: Mamba-2 or attention, and routed experts with a shared expert, or a dense
 * feed-forward of the shared width. */
void pz_read_granite_hybrid(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.ffn = 11008});
  const char *positions = pz_fields_text_or(config, "position_embedding_type", "");
  int64_t shared = pz_fields_int_or(config, "shared_intermediate_size", PZ_RANGE_FFN, 1024);
  int64_t experts = pz_fields_int_or(config, "num_local_experts", COUNT_RANGE, 8);
  if (strcmp(positions, "rope") != 0) arch->rotary_dims = 0;
  arch->mlp_bias = false;
  arch->fused_gate = true;
  arch->scale_embed = pz_fields_real_or(config, "embedding_multiplier", 0, 1e9, 1) != 1;
  read_mamba2(config, arch, 0);
  if (experts) {
    pz_config_experts(config, arch, "num_local_experts", NULL);
    arch->shared_ffn = shared;
    arch->router = PZ_ROUTER_CHOSEN_SOFTMAX;
  } else {
    arch->ffn = shared;
  }
  pz_mixed_read_types(config, arch, "layer_types|layers_block_type", mixers);
}

/* Reads Jamba: attention in one layer of each period and Mamba in the others; a dense feed-forward
 * alternates with experts of the same width. */
void pz_read_jamba(struct pz_fields *config, struct pz_arch *arch) {
  static const struct pz_range offset = {0, 65535};
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 8, .positions = 262144});
  arch->qkv_bias = arch->out_bias = arch->mlp_bias = false;
  arch->rotary_dims = 0;
  int64_t expand = pz_fields_int_or(config, "mamba_expand", (struct pz_range){1, 64}, 2);
  arch->recurrence = (struct pz_recurrence){
      .mixer = PZ_MIXER_MAMBA,
      .heads = expand * arch->hidden,
      .head_dim = 1,
      .state = pz_fields_int_or(config, "mamba_d_state", PZ_RANGE_HIDDEN, 16),
      .conv_tokens = pz_fields_int_or(config, "mamba_d_conv", CONV_RANGE, 4),
      .dt_rank = read_int_or_auto(config, "mamba_dt_rank", (arch->hidden + 15) / 16),
      .conv_bias = pz_fields_bool_or(config, "mamba_conv_bias", true),
      .proj_bias = pz_fields_bool_or(config, "mamba_proj_bias", false)};
  int64_t period = pz_fields_int_or(config, "attn_layer_period", PZ_RANGE_LAYERS, 8);
  int64_t attention_offset = pz_fields_int_or(config, "attn_layer_offset", offset, 4);
  int64_t expert_period = pz_fields_int_or(config, "expert_layer_period", PZ_RANGE_LAYERS, 2);
  int64_t expert_offset = pz_fields_int_or(config, "expert_layer_offset", offset, 1);
  if (attention_offset >= period)
    pz_fields_refuse(config, "attn_layer_offset", "less than attn_layer_period");
  if (expert_offset >= expert_period)
    pz_fields_refuse(config, "expert_layer_offset", "less than expert_layer_period");
  bool has_experts = pz_fields_int_or(config, "num_experts", PZ_RANGE_EXPERTS, 16) > 1;
  if (has_experts) pz_config_experts(config, arch, "num_experts", NULL);
  arch->dense_ffn = arch->ffn;
  for (int64_t i = 0; i < arch->layers; i++) {
    bool is_dense = has_experts && i % expert_period != expert_offset;
    bool is_recurrent = i % period != attention_offset;
    pz_mixed_mark(arch, i,
                  (is_recurrent ? PZ_LAYER_RECURRENT : 0) | (is_dense ? PZ_LAYER_DENSE : 0));
  }
}

/* Reads Falcon-H1, in which every layer adds the results of attention and Mamba-2. */
void pz_read_falcon_h1(struct pz_fields *config, struct pz_arch *arch) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){.kv_heads = 8, .positions = 8192});
  arch->parallel_mixers = true;
  read_mamba2(config, arch, pz_fields_int_or(config, "mamba_d_ssm", PZ_RANGE_FFN, 0));
  arch->recurrence.norms =
      pz_fields_bool_or(config, "mamba_rms_norm", false) ? arch->recurrence.groups : 0;
  arch->scale_embed = pz_fields_real_or(config, "embedding_multiplier", 0, 1e9, 1) != 1;
}
