/* Families of hybrids: models some of whose layers have a recurrence in place of attention. */
#include "workload/family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct pz_range SOME = {0, 65536}, CONV = {1, 64};

/* Heads of a recurrence go evenly to its groups. */
static void check_groups(struct pz_fields *c, const struct pz_recurrence *r, const char *keys) {
  char accepted[80];
  if (c->status != PZ_OK || r->heads % r->groups == 0) return;
  snprintf(accepted, sizeof accepted, "a divisor of the %" PRId64 " heads", r->heads);
  pz_fields_refuse(c, keys, accepted);
}

/* ---- Nemotron-H ----------------------------------------------------------------------------- */

/* Letters of a pattern, and names of the same in a list; layers have one half each. */
static const struct {
  char letter;
  struct pz_layer_type type;
} halves[] = {{'M', {"mamba", PZ_LAYER_RECURRENT | PZ_LAYER_NO_FFN}},
              {'M', {"linear_attention", PZ_LAYER_RECURRENT | PZ_LAYER_NO_FFN}},
              {'*', {"attention", PZ_LAYER_NO_FFN}},
              {'*', {"full_attention", PZ_LAYER_NO_FFN}},
              {'E', {"moe", PZ_LAYER_NO_MIXER}},
              {'-', {"mlp", PZ_LAYER_NO_MIXER | PZ_LAYER_DENSE}}};

enum { HALVES = sizeof halves / sizeof *halves };

/* A pattern "M-M*E", or the list of field `names` in its place: as letters into `out`, of `size` characters.  Where both are
 * there they say the same. */
static void read_pattern(struct pz_fields *c, const char *pattern, const char *names, char *out,
                         size_t size, const char *absent) {
  const json_t *list = pz_fields_value(c, names);
  const char *text = pz_fields_text_or(c, pattern, absent);
  size_t n = list ? json_array_size(list) : strlen(text);
  for (size_t i = 0; i < n && i + 1 < size; i++) {
    const char *name = json_string_value(json_array_get(list, i));
    out[i] = '\0';
    for (int h = 0; h < HALVES && !out[i]; h++)
      if (list ? name && strcmp(name, halves[h].type.name) == 0 : text[i] == halves[h].letter)
        out[i] = halves[h].letter;
    out[i + 1] = '\0';
    if (!out[i])
      pz_fields_refuse(c, list ? names : pattern,
                       "M or mamba, * or attention, E or moe, - or mlp for every layer");
    if (!out[i]) return;
  }
  if (!n || n >= size) pz_fields_refuse(c, list ? names : pattern, "1 to 1024 layers");
  if (list && pz_fields_value(c, pattern) && strcmp(text, out) != 0) {
    char accepted[64];
    snprintf(accepted, sizeof accepted, "the same layers as in '%s'", names);
    pz_fields_refuse(c, pattern, accepted);
  }
}

static unsigned half_of(char letter) {
  int h = 0;
  while (h + 1 < HALVES && halves[h].letter != letter) h++;
  return halves[h].type.properties;
}

/* The block that predicts further tokens: a mixer, a feed-forward, or one after the other. */
static void nemotron_predicts(struct pz_fields *c, struct pz_arch *a, bool dense) {
  char pattern[8] = "";
  a->predict_layers = pz_fields_int_or(c, "num_nextn_predict_layers", (struct pz_range){0, 64}, 0);
  a->predict_repeats = pz_fields_bool_or(c, "mtp_use_repeated_layer", true);
  if (!a->predict_layers) return;
  read_pattern(c, "mtp_hybrid_override_pattern", "mtp_layers_block_type", pattern, sizeof pattern,
               "*E");
  if (c->status != PZ_OK) return;
  unsigned first = half_of(pattern[0]), kind = first;
  if (pattern[1])
    kind = (first | half_of(pattern[1])) & ~(unsigned)(PZ_LAYER_NO_MIXER | PZ_LAYER_NO_FFN);
  bool ordered = !pattern[1] || (first & PZ_LAYER_NO_FFN &&
                                 half_of(pattern[1]) & PZ_LAYER_NO_MIXER && !pattern[2]);
  if (!ordered || (dense && strchr(pattern, 'E')))
    pz_fields_refuse(c, "mtp_hybrid_override_pattern",
                     "M or *, E or - as in the model, or two in this order");
  if (dense) kind &= ~(unsigned)PZ_LAYER_DENSE; /* as all of a model without experts */
  a->predict_kind = kind | PZ_PREDICT_OWN;
}

static void nemotron_experts(struct pz_fields *c, struct pz_arch *a) {
  pz_config_experts(c, a, "n_routed_experts|num_local_experts", "moe_intermediate_size");
  a->shared_ffn = pz_fields_int_or(c, "moe_shared_expert_intermediate_size", PZ_RANGE_FFN, 0);
  a->latent = pz_fields_int_or(c, "moe_latent_size", PZ_RANGE_HIDDEN, 0);
  a->router = PZ_ROUTER_SIGMOID;
  a->plain_experts = true;
  int64_t groups = pz_fields_int_or(c, "n_group", SOME, 1);
  int64_t chosen = pz_fields_int_or(c, "topk_group", SOME, 1);
  if (groups > 1) a->expert_groups = chosen;
}

/* Nemotron-H, Nemotron Nano 2, Nemotron 3: layers of one half each, Mamba-2, attention without positions, squared-ReLU
 * feed-forward or experts, which may work in a latent width. */
void pz_read_nemotron_h(struct pz_fields *c, struct pz_arch *a) {
  struct pz_recurrence *r = &a->recurrence;
  char pattern[PZ_MOST_MIXED_LAYERS + 2] = "";
  read_pattern(c, "hybrid_override_pattern", "layers_block_type", pattern, sizeof pattern, "");
  a->layers = (int64_t)strlen(pattern);
  if (pz_fields_int_or(c, "num_hidden_layers", PZ_RANGE_LAYERS, a->layers) != a->layers)
    pz_fields_refuse(c, "num_hidden_layers", "the number of layers of the pattern");
  a->hidden = pz_fields_int(c, "hidden_size", PZ_RANGE_HIDDEN);
  a->heads = pz_fields_int(c, "num_attention_heads", PZ_RANGE_HEADS);
  a->kv_heads = pz_fields_int_or(c, "num_key_value_heads", PZ_RANGE_HEADS, 8);
  a->head_dim = pz_fields_int_or(c, "head_dim|attention_head_dim", PZ_RANGE_HIDDEN, 128);
  a->vocab = pz_fields_int(c, "vocab_size", PZ_RANGE_VOCAB);
  a->positions = pz_fields_int_or(c, "max_position_embeddings", PZ_RANGE_POSITIONS, 4096);
  a->act = pz_config_act(c, "mlp_hidden_act", "relu2");
  a->drop_attn = pz_config_dropout(c, "attention_dropout", 0);
  a->drop_hidden = pz_config_dropout(c, "hidden_dropout", 0);
  a->tied = pz_fields_bool_or(c, "tie_word_embeddings", false);
  a->qkv_bias = a->out_bias = pz_fields_bool_or(c, "attention_bias", false);
  a->mlp_bias = pz_fields_bool_or(c, "mlp_bias", false);
  a->rms_norm = a->pre_norm = a->final_norm = a->softmax_f32 = a->loss_f32 = true;
  *r = (struct pz_recurrence){
      .mixer = PZ_MIXER_MAMBA2,
      .heads = pz_fields_int_or(c, "mamba_num_heads", PZ_RANGE_HEADS, 128),
      .head_dim = pz_fields_int_or(c, "mamba_head_dim", PZ_RANGE_HIDDEN, 64),
      .state = pz_fields_int_or(c, "ssm_state_size", PZ_RANGE_HIDDEN, 128),
      .groups = pz_fields_int_or(c, "n_groups|mamba_n_groups", PZ_RANGE_HEADS, 8),
      .conv = pz_fields_int_or(c, "conv_kernel|mamba_d_conv", CONV, 4),
      .chunk = pz_fields_int_or(c, "chunk_size|mamba_chunk_size", PZ_RANGE_POSITIONS, 128),
      .conv_bias = pz_fields_bool_or(c, "use_conv_bias|mamba_conv_bias", true),
      .proj_bias = pz_fields_bool_or(c, "use_bias|mamba_proj_bias", false)};
  r->norms = r->groups;
  check_groups(c, r, "n_groups");
  pz_check_heads(c, a, "hidden_size", "num_key_value_heads");
  bool routed = strchr(pattern, 'E'), dense = strchr(pattern, '-');
  a->ffn = pz_fields_int_or(c, "intermediate_size", PZ_RANGE_FFN, 21504);
  if (routed) nemotron_experts(c, a);
  for (int64_t i = 0; i < a->layers; i++)
    pz_mixed_mark(a, i, half_of(pattern[i]) & ~(unsigned)(routed ? 0 : PZ_LAYER_DENSE));
  nemotron_predicts(c, a, !routed);
  if (!dense && !(a->predict_kind & PZ_LAYER_DENSE)) a->dense_ffn = 0;
}

/* ---- Qwen3-Next, Qwen3.5 -------------------------------------------------------------------- */

/* The gated delta rule in three layers of four, else attention with a gate of its result, norms of query and key and
 * rotary positions on part of each head. */
static void qwen_hybrid(struct pz_fields *c, struct pz_arch *a, int64_t ffn) {
  static const struct pz_layer_type known[] = {
      {"linear_attention", PZ_LAYER_RECURRENT}, {"full_attention", 0}, {NULL, 0}};
  pz_llama_read_as(
      c, a,
      (struct pz_llama_defaults){.kv_heads = 2, .head_dim = 256, .positions = 32768, .ffn = ffn});
  a->mlp_bias = false;
  a->out_gate = true;
  a->qk_norm = PZ_QK_NORM_HEAD;
  a->rotary_dims = pz_config_rotary(c, a, 0.25);
  a->recurrence = (struct pz_recurrence){
      .mixer = PZ_MIXER_DELTA,
      .heads = pz_fields_int_or(c, "linear_num_value_heads", PZ_RANGE_HEADS, 32),
      .head_dim = pz_fields_int_or(c, "linear_value_head_dim", PZ_RANGE_HIDDEN, 128),
      .state = pz_fields_int_or(c, "linear_key_head_dim", PZ_RANGE_HIDDEN, 128),
      .groups = pz_fields_int_or(c, "linear_num_key_heads", PZ_RANGE_HEADS, 16),
      .conv = pz_fields_int_or(c, "linear_conv_kernel_dim", CONV, 4),
      .chunk = 64};
  check_groups(c, &a->recurrence, "linear_num_key_heads");
  int64_t period = pz_fields_int_or(c, "full_attention_interval", PZ_RANGE_LAYERS, 4);
  if (pz_fields_value(c, "layer_types"))
    pz_mixed_types(c, a, "layer_types", known);
  else
    for (int64_t i = 0; i < a->layers; i++)
      pz_mixed_mark(a, i, (i + 1) % period ? PZ_LAYER_RECURRENT : 0);
  a->predict_layers = pz_fields_int_or(c, "mtp_num_hidden_layers|num_nextn_predict_layers",
                                       (struct pz_range){0, 64}, 0);
  a->predict_kind = PZ_PREDICT_OWN;
}

/* With routed experts and a shared one that has a gate. */
void pz_read_qwen3_next(struct pz_fields *c, struct pz_arch *a) {
  qwen_hybrid(c, a, 5632);
  a->fused_gate = a->shared_gate = true;
  pz_config_experts(c, a, "num_experts|num_local_experts", "moe_intermediate_size");
  a->shared_ffn = pz_fields_int_or(c, "shared_expert_intermediate_size", PZ_RANGE_FFN, 512);
  int64_t step = pz_fields_int_or(c, "decoder_sparse_step", PZ_RANGE_LAYERS, 1);
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK && step > 1; i++)
    if ((i + 1) % step) pz_mixed_mark(a, i, PZ_LAYER_DENSE);
  pz_mixed_list(c, a, "mlp_only_layers", PZ_LAYER_DENSE, true);
}

void pz_read_qwen3_5(struct pz_fields *c, struct pz_arch *a) { qwen_hybrid(c, a, 12288); }

/* ---- Bamba, Granite 4.0, Falcon-H1 ---------------------------------------------------------- */

/* A number, or "auto" or null for `absent`. */
static int64_t int_or_auto(struct pz_fields *c, const char *key, int64_t absent) {
  const json_t *v = pz_fields_value(c, key);
  if (json_is_string(v) && strcmp(json_string_value(v), "auto") == 0) return absent;
  return pz_fields_int_or(c, key, PZ_RANGE_HIDDEN, absent);
}

/* Mamba-2 by Bamba's fields; the norm is of all heads together. */
static void mamba2_fields(struct pz_fields *c, struct pz_arch *a, int64_t inner) {
  struct pz_recurrence *r = &a->recurrence;
  int64_t expand = pz_fields_int_or(c, "mamba_expand", (struct pz_range){1, 64}, 2);
  *r = (struct pz_recurrence){.mixer = PZ_MIXER_MAMBA2,
                              .heads = pz_fields_int_or(c, "mamba_n_heads", PZ_RANGE_HEADS, 128),
                              .state = pz_fields_int_or(c, "mamba_d_state", PZ_RANGE_HIDDEN, 256),
                              .groups = pz_fields_int_or(c, "mamba_n_groups", PZ_RANGE_HEADS, 1),
                              .conv = pz_fields_int_or(c, "mamba_d_conv", CONV, 4),
                              .chunk =
                                  pz_fields_int_or(c, "mamba_chunk_size", PZ_RANGE_POSITIONS, 256),
                              .conv_bias = pz_fields_bool_or(c, "mamba_conv_bias", true),
                              .proj_bias = pz_fields_bool_or(c, "mamba_proj_bias", false),
                              .norms = 1};
  if (!inner) inner = expand * a->hidden;
  if (c->status != PZ_OK) return;
  r->head_dim = int_or_auto(c, "mamba_d_head", inner / r->heads);
  if (c->status == PZ_OK && r->head_dim * r->heads != inner)
    pz_fields_refuse(c, "mamba_d_head", "the width of the recurrence divided by its heads");
  check_groups(c, r, "mamba_n_groups");
}

static const struct pz_layer_type mixers[] = {{"mamba", PZ_LAYER_RECURRENT},
                                              {"linear_attention", PZ_LAYER_RECURRENT},
                                              {"attention", 0},
                                              {"full_attention", 0},
                                              {NULL, 0}};

/* Bamba: Mamba-2 but in the layers listed, rotary positions on half of each head, a gated feed-forward. */
void pz_read_bamba(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 8, .positions = 262144});
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  a->rotary_dims = pz_config_rotary(c, a, 0.5);
  mamba2_fields(c, a, 0);
  for (int64_t i = 0; i < a->layers; i++) pz_mixed_mark(a, i, PZ_LAYER_RECURRENT);
  if (!pz_fields_value(c, "attn_layer_indices"))
    pz_fields_refuse(c, "attn_layer_indices", "a list of the layers with attention, [] for none");
  pz_mixed_list(c, a, "attn_layer_indices", PZ_LAYER_RECURRENT, false);
}

/* Granite 4.0: Mamba-2 or attention, routed experts beside a shared one, or that alone. */
void pz_read_granite_hybrid(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.ffn = 11008});
  const char *positions = pz_fields_text_or(c, "position_embedding_type", "");
  int64_t shared = pz_fields_int_or(c, "shared_intermediate_size", PZ_RANGE_FFN, 1024);
  int64_t experts = pz_fields_int_or(c, "num_local_experts", SOME, 8);
  if (strcmp(positions, "rope") != 0) a->rotary_dims = 0;
  a->mlp_bias = false;
  a->fused_gate = true;
  a->scale_embed = pz_fields_real_or(c, "embedding_multiplier", 0, 1e9, 1) != 1;
  mamba2_fields(c, a, 0);
  if (experts) {
    pz_config_experts(c, a, "num_local_experts", NULL);
    a->shared_ffn = shared;
    a->router = PZ_ROUTER_CHOSEN_SOFTMAX;
  } else {
    a->ffn = shared;
  }
  pz_mixed_types(c, a, "layer_types|layers_block_type", mixers);
}

/* Jamba: Mamba but in one layer of a period, a dense feed-forward or experts of the same width in turn. */
void pz_read_jamba(struct pz_fields *c, struct pz_arch *a) {
  static const struct pz_range offset = {0, 65535};
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 8, .positions = 262144});
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  a->rotary_dims = 0;
  int64_t expand = pz_fields_int_or(c, "mamba_expand", (struct pz_range){1, 64}, 2);
  a->recurrence =
      (struct pz_recurrence){.mixer = PZ_MIXER_MAMBA,
                             .heads = expand * a->hidden,
                             .head_dim = 1,
                             .state = pz_fields_int_or(c, "mamba_d_state", PZ_RANGE_HIDDEN, 16),
                             .conv = pz_fields_int_or(c, "mamba_d_conv", CONV, 4),
                             .dt_rank = int_or_auto(c, "mamba_dt_rank", (a->hidden + 15) / 16),
                             .conv_bias = pz_fields_bool_or(c, "mamba_conv_bias", true),
                             .proj_bias = pz_fields_bool_or(c, "mamba_proj_bias", false)};
  int64_t period = pz_fields_int_or(c, "attn_layer_period", PZ_RANGE_LAYERS, 8);
  int64_t at = pz_fields_int_or(c, "attn_layer_offset", offset, 4);
  int64_t every = pz_fields_int_or(c, "expert_layer_period", PZ_RANGE_LAYERS, 2);
  int64_t routed = pz_fields_int_or(c, "expert_layer_offset", offset, 1);
  if (at >= period) pz_fields_refuse(c, "attn_layer_offset", "less than attn_layer_period");
  if (routed >= every) pz_fields_refuse(c, "expert_layer_offset", "less than expert_layer_period");
  bool experts = pz_fields_int_or(c, "num_experts", PZ_RANGE_EXPERTS, 16) > 1;
  if (experts) pz_config_experts(c, a, "num_experts", NULL);
  a->dense_ffn = a->ffn;
  for (int64_t i = 0; i < a->layers; i++)
    pz_mixed_mark(a, i,
                  (i % period == at ? 0 : PZ_LAYER_RECURRENT) |
                      (experts && i % every != routed ? PZ_LAYER_DENSE : 0));
}

/* Falcon-H1: attention and Mamba-2 beside each other in every layer. */
void pz_read_falcon_h1(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 8, .positions = 8192});
  a->beside = true;
  mamba2_fields(c, a, pz_fields_int_or(c, "mamba_d_ssm", PZ_RANGE_FFN, 0));
  a->recurrence.norms = pz_fields_bool_or(c, "mamba_rms_norm", false) ? a->recurrence.groups : 0;
  a->scale_embed = pz_fields_real_or(c, "embedding_multiplier", 0, 1e9, 1) != 1;
}
