/* Reads the shape of a model from its config.json (model_shape.h).
 *
 * Each family has a row in the table families[].  Its reader fills struct pz_arch with the reader
 * of src/workload, and adds to struct pz_model_shape what only launch scripts need. */
#include "plan/model_shape.h"

#include <string.h>

#include "core/file.h"
#include "core/text.h"
#include "workload/family.h"
#include "workload/workload.h"

const char *const pz_shape_family_names[] = {
    "gpt2", "llama", "mixtral", "qwen3", "deepseek_v3", "nemotron_h", "qwen3_next", "other", NULL};

/* Ranges of widths, and of numbers of layers, groups or shared experts, in a config.json. */
static const struct pz_range any_size = {1, 1 << 26}, any_count = {0, 65536};

/* Reads GPT-2: learned positions, LayerNorm and GELU. */
static void read_gpt2(struct pz_fields *config, struct pz_arch *arch,
                      struct pz_model_shape *shape) {
  pz_family_find("gpt2")->read(config, arch);
  shape->norm_eps = pz_fields_real_or(config, "layer_norm_epsilon", 1e-12, 1, 1e-5);
}

/* Older configurations name the scaling of rotary positions rope_scaling, newer ones
 * rope_parameters. */
#define ROPE(field) "rope_scaling." field "|rope_parameters." field

/* Reads the rotary positions and the epsilon of norms of a model with SwiGLU and RMSNorm.  `base`
 * and `eps` are the family's default values of rope_theta and rms_norm_eps. */
static void read_rotary(struct pz_fields *config, struct pz_model_shape *shape, double base,
                        double eps) {
  static const struct {
    const char *name;
    enum pz_rope rope;
  } kinds[] = {{"", PZ_ROPE_PLAIN},
               {"default", PZ_ROPE_PLAIN},
               {"llama3", PZ_ROPE_LLAMA3},
               {"yarn", PZ_ROPE_YARN}};
  shape->rotary_base =
      pz_fields_real_or(config, "rope_theta|rope_parameters.rope_theta", 1, 1e12, base);
  shape->norm_eps = pz_fields_real_or(config, "rms_norm_eps", 1e-12, 1, eps);
  shape->gated = true;
  /* How the positions are scaled for long contexts. */
  const char *type = pz_fields_text_or(
      config, "rope_scaling.rope_type|rope_scaling.type|rope_parameters.rope_type", "");
  shape->rope = PZ_ROPE_OTHER;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, type) == 0) shape->rope = kinds[i].rope;
  shape->rope_factor = pz_fields_real_or(config, ROPE("factor"), 1, 1e6, 1);
  shape->rope_original = pz_fields_real_or(config, ROPE("original_max_position_embeddings"), 1, 1e9,
                                           shape->rope == PZ_ROPE_YARN ? 4096 : 8192);
  shape->rope_low = pz_fields_real_or(config, ROPE("low_freq_factor"), 0, 1e6, 1);
  shape->rope_high = pz_fields_real_or(config, ROPE("high_freq_factor"), 0, 1e6, 4);
  shape->rope_fast = pz_fields_real_or(config, ROPE("beta_fast"), 0, 1e6, 32);
  shape->rope_slow = pz_fields_real_or(config, ROPE("beta_slow"), 0, 1e6, 1);
  shape->rope_mscale = pz_fields_real_or(config, ROPE("mscale"), 0, 1e6, 1);
  shape->rope_mscale_all = pz_fields_real_or(config, ROPE("mscale_all_dim"), 0, 1e6, 0);
}

/* Reads llama, mistral, qwen2, phi3 and mixtral, whose configurations have the same fields but
 * other default values.  Mixtral has experts in every layer. */
static void read_llama_kind(struct pz_fields *config, struct pz_arch *arch,
                            struct pz_model_shape *shape) {
  const char *family = pz_fields_text_or(config, "model_type", "");
  bool is_mixtral = strcmp(family, "mixtral") == 0;
  bool has_1e_5 = is_mixtral || strcmp(family, "llama") == 0 || strcmp(family, "phi3") == 0;
  pz_family_find(family)->read(config, arch);
  read_rotary(config, shape, is_mixtral ? 1e6 : 10000, has_1e_5 ? 1e-5 : 1e-6);
  if (is_mixtral) shape->expert_ffn = arch->ffn;
}

/* Reads Qwen3, whose attention normalises queries and keys, without experts (qwen3) or with experts
 * in every layer (qwen3_moe). */
static void read_qwen3(struct pz_fields *config, struct pz_arch *arch,
                       struct pz_model_shape *shape) {
  static const struct pz_range every_layer = {1, 1};
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
  pz_qwen_window(config, arch);
  read_rotary(config, shape, 1e6, 1e-6);
  shape->qk_norm = true;
  if (strcmp(pz_fields_text_or(config, "model_type", ""), "qwen3") == 0) return;
  arch->experts = pz_fields_int(config, "num_experts", PZ_RANGE_EXPERTS);
  arch->experts_per_token = pz_fields_int(config, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  shape->expert_ffn = pz_fields_int(config, "moe_intermediate_size", PZ_RANGE_FFN);
  (void)pz_fields_int_or(config, "decoder_sparse_step", every_layer, 1);
}

/* Reads DeepSeek-V3 and Kimi K2: latent attention, experts, multi-token prediction. */
static void read_deepseek(struct pz_fields *config, struct pz_arch *arch,
                          struct pz_model_shape *shape) {
  pz_llama_read(config, arch, (struct pz_llama_defaults){0});
  read_rotary(config, shape, 10000, 1e-6);
  arch->experts = pz_fields_int(config, "n_routed_experts", PZ_RANGE_EXPERTS);
  arch->experts_per_token = pz_fields_int(config, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  shape->expert_ffn = pz_fields_int(config, "moe_intermediate_size", PZ_RANGE_FFN);
  shape->shared_ffn =
      shape->expert_ffn * pz_fields_int_or(config, "n_shared_experts", any_count, 0);
  shape->dense_layers = pz_fields_int_or(config, "first_k_dense_replace", any_count, 0);
  shape->groups = pz_fields_int_or(config, "n_group", any_count, 8);
  shape->group_topk = pz_fields_int_or(config, "topk_group", any_count, 4);
  shape->routed_scale = pz_fields_real_or(config, "routed_scaling_factor", 1e-6, 1e6, 2.5);
  shape->predict_layers = pz_fields_int_or(config, "num_nextn_predict_layers", any_count, 0);
  shape->q_rank = pz_fields_int_or(config, "q_lora_rank", any_size, 0);
  shape->kv_rank = pz_fields_int(config, "kv_lora_rank", any_size);
  shape->nope_dim = pz_fields_int(config, "qk_nope_head_dim", any_size);
  shape->rope_dim = pz_fields_int(config, "qk_rope_head_dim", any_size);
  shape->v_dim = pz_fields_int(config, "v_head_dim", any_size);
  shape->qk_norm = true;
}

/* Reads the fields that all hybrid models, which mix recurrent and attention layers, have in common,
 * and writes the kind of each layer as a letter into shape->pattern (model_shape.h).  struct pz_arch
 * stores the width of experts in ffn, but the shape stores it in expert_ffn, and the width of dense
 * layers in ffn. */
static void read_hybrid(struct pz_fields *config, struct pz_arch *arch,
                        struct pz_model_shape *shape) {
  pz_family_read(pz_family_find(pz_fields_text_or(config, "model_type", "")), config, arch);
  shape->recurrence = arch->recurrence;
  shape->predict_layers = arch->predict_layers;
  shape->predict_repeats = arch->predict_repeats;
  shape->latent = arch->expert_latent;
  shape->shared_ffn = arch->shared_ffn;
  shape->shared_gate = arch->shared_gate;
  shape->out_gate = arch->out_gate;
  if (arch->experts) {
    shape->expert_ffn = arch->ffn;
    arch->ffn = arch->dense_ffn;
  }
  for (int64_t i = 0; i < arch->layers && i < PZ_MOST_MIXED_LAYERS; i++) {
    unsigned kind = arch->layer_kind[i];
    bool has_experts = arch->experts && !(kind & PZ_LAYER_DENSE);
    if (kind & PZ_LAYER_NO_MIXER)
      shape->pattern[i] = has_experts ? 'E' : '-';
    else if (!(kind & PZ_LAYER_RECURRENT))
      shape->pattern[i] = '*';
    else
      shape->pattern[i] = arch->recurrence.mixer == PZ_MIXER_DELTA ? 'L' : 'M';
  }
}

/* Reads Nemotron-H: Mamba-2, attention and feed-forward layers with squared ReLU. */
static void read_nemotron(struct pz_fields *config, struct pz_arch *arch,
                          struct pz_model_shape *shape) {
  read_hybrid(config, arch, shape);
  arch->ffn = pz_fields_int_or(config, "intermediate_size", PZ_RANGE_FFN, 21504);
  shape->norm_eps =
      pz_fields_real_or(config, "layer_norm_epsilon|norm_eps|rms_norm_eps", 1e-12, 1, 1e-5);
  shape->routed_scale = pz_fields_real_or(config, "routed_scaling_factor", 1e-6, 1e6, 1);
  shape->groups = pz_fields_int_or(config, "n_group", any_count, 0);
  shape->group_topk = pz_fields_int_or(config, "topk_group", any_count, 0);
  if (shape->groups < 2) shape->groups = shape->group_topk = 0;
  shape->squared = shape->sigmoid = true;
  unsigned kind = arch->predict_kind;
  size_t n = 0;
  if (!(kind & PZ_LAYER_NO_MIXER)) shape->predict[n++] = kind & PZ_LAYER_RECURRENT ? 'M' : '*';
  bool is_dense = kind & PZ_LAYER_DENSE || !arch->experts;
  if (!(kind & PZ_LAYER_NO_FFN)) shape->predict[n] = is_dense ? '-' : 'E';
}

/* Reads Qwen3-Next and Qwen3.5: layers with the gated delta rule and attention layers. */
static void read_qwen_hybrid(struct pz_fields *config, struct pz_arch *arch,
                             struct pz_model_shape *shape) {
  read_hybrid(config, arch, shape);
  read_rotary(config, shape, 10000, 1e-6);
  shape->qk_norm = true;
  shape->rotary_part = (double)arch->rotary_dims / (double)(arch->head_dim ? arch->head_dim : 1);
  if (config->status == PZ_OK && pz_fields_value(config, "mlp_only_layers") &&
      json_array_size(pz_fields_value(config, "mlp_only_layers")))
    pz_fields_refuse(config, "mlp_only_layers", "none, for launch scripts");
}

/* Families by the model_type of config.json. */
static const struct shape_family {
  const char *model_type;
  enum pz_shape_family family;
  void (*read)(struct pz_fields *config, struct pz_arch *arch, struct pz_model_shape *shape);
} families[] = {{"gpt2", PZ_SHAPE_GPT2, read_gpt2},
                {"llama", PZ_SHAPE_LLAMA, read_llama_kind},
                {"mistral", PZ_SHAPE_LLAMA, read_llama_kind},
                {"qwen2", PZ_SHAPE_LLAMA, read_llama_kind},
                {"phi3", PZ_SHAPE_LLAMA, read_llama_kind},
                {"mixtral", PZ_SHAPE_MIXTRAL, read_llama_kind},
                {"qwen3", PZ_SHAPE_QWEN3, read_qwen3},
                {"qwen3_moe", PZ_SHAPE_QWEN3, read_qwen3},
                {"deepseek_v3", PZ_SHAPE_DEEPSEEK_V3, read_deepseek},
                {"kimi_k2", PZ_SHAPE_DEEPSEEK_V3, read_deepseek},
                {"nemotron_h", PZ_SHAPE_NEMOTRON_H, read_nemotron},
                {"qwen3_next", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
                {"qwen3_5_text", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
                {"qwen3_5", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
                {"qwen3_5_moe_text", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
                {"qwen3_5_moe", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid}};

/* Returns the model_type of row i of families[], or NULL after the last one (pz_name_at). */
static const char *type_at(const void *unused, size_t i) {
  (void)unused;
  return i < sizeof families / sizeof *families ? families[i].model_type : NULL;
}

/* Raises PZ_BAD_USE if launch scripts cannot express this variant of the family. */
static void check_variant(struct pz_call *call, const struct pz_arch *arch,
                          const struct pz_model_shape *shape) {
  const char *name = shape->name, *activation = "gelu";
  bool has_activation =
      arch->act == PZ_ACT_GELU || arch->act == PZ_ACT_GELU_TANH || arch->act == PZ_ACT_GELU_FAST;
  if (shape->gated) {
    activation = "silu";
    has_activation = arch->act == PZ_ACT_SILU;
  } else if (shape->squared) {
    activation = "relu2";
    has_activation = arch->act == PZ_ACT_RELU2;
  }
  if (!has_activation)
    pz_raise(call, PZ_BAD_USE,
             "%s: its activation, for which no launch script is known; accepted for %s: %s", name,
             pz_shape_family_names[shape->family], activation);
  if (shape->recurrence.heads && shape->layers > PZ_MOST_MIXED_LAYERS)
    pz_raise(call, PZ_BAD_USE, "%s: %lld layers of a hybrid; accepted: at most %d", name,
             (long long)shape->layers, PZ_MOST_MIXED_LAYERS);
  bool rotates_whole_heads = shape->rotary_base > 0 && !shape->kv_rank && shape->rotary_part == 1;
  const struct {
    bool is_refused;
    const char *reason;
  } checks[] = {
      {!shape->bias && (arch->out_bias || arch->mlp_bias),
       " has biases in some linear layers; accepted: in all, in none, or in query, key and value "
       "alone"},
      {arch->window, ": attention within a window, for which no launch script is known; accepted: "
                     "over all tokens"},
      {rotates_whole_heads && arch->rotary_dims != arch->head_dim,
       ": rotary positions of a part of a head, for which no launch script is known; accepted: of "
       "whole heads"}};
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
    if (checks[i].is_refused) pz_raise(call, PZ_BAD_USE, "%s%s", name, checks[i].reason);
  if (shape->topk > shape->experts)
    pz_raise(call, PZ_BAD_USE, "%s: num_experts_per_tok; accepted: at most %lld", name,
             (long long)shape->experts);
  if (shape->dense_layers > shape->layers)
    pz_raise(call, PZ_BAD_USE, "%s: first_k_dense_replace; accepted: at most %lld", name,
             (long long)shape->layers);
}

bool pz_shape_exceeds_positions(const struct pz_model_shape *shape, int64_t seq) {
  return shape->rotary_base > 0 && shape->rope == PZ_ROPE_PLAIN && seq > shape->positions;
}

/* Returns the factor by which rotary positions are scaled with Llama 3.1's method, or 0 if they are
 * not.  A sequence longer than the model was trained for needs the next power of two. */
double pz_shape_rope_factor(const struct pz_model_shape *shape, int64_t seq) {
  double factor = 1;
  if (!pz_shape_exceeds_positions(shape, seq))
    return shape->rope == PZ_ROPE_LLAMA3 ? shape->rope_factor : 0;
  while (factor * (double)shape->positions < (double)seq) factor *= 2;
  return factor;
}

/* Reads the shape of a model from the text of a config.json.  Raises an error if no launch script is
 * known for its family, or for its variant of the family. */
void pz_parse_model_shape(struct pz_call *call, const char *name, const char *text, size_t bytes,
                          struct pz_model_shape *out) {
  struct pz_arch arch = {0};
  struct pz_model_shape shape = {.name = name, .routed_scale = 1, .rotary_part = 1};
  json_t *root = pz_json_read(call, name, text, bytes);
  struct pz_fields config = pz_fields_of(call, name, pz_config_text(root));
  const char *type = pz_fields_text_or(&config, "model_type", "");
  const struct shape_family *family = NULL;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (strcmp(families[i].model_type, type) == 0) family = &families[i];
  if (!family) {
    char names[200];
    pz_must(call, config.status);
    pz_raise(call, PZ_BAD_USE,
             "%s is of family '%.40s', for which no launch script is known; accepted: %s",
             config.name, type, pz_text_join(names, sizeof names, type_at, NULL));
  }
  shape.family = family->family;
  family->read(&config, &arch, &shape);
  pz_must(call, config.status);
  pz_close(call, root);
  shape.layers = arch.layers;
  shape.hidden = arch.hidden;
  shape.heads = arch.heads;
  shape.kv_heads = arch.kv_heads;
  shape.head_dim = arch.head_dim;
  shape.ffn = arch.ffn;
  shape.vocab = arch.vocab;
  shape.positions = arch.positions;
  shape.experts = arch.experts;
  shape.topk = arch.experts_per_token;
  shape.drop_attention = arch.drop_attn;
  shape.drop_hidden = arch.drop_hidden;
  shape.tied = arch.tied;
  shape.qkv_bias = arch.qkv_bias;
  shape.bias = arch.qkv_bias && arch.out_bias && arch.mlp_bias;
  check_variant(call, &arch, &shape);
  *out = shape;
}

void pz_load_model_shape(struct pz_call *call, const char *model, struct pz_model_shape *out) {
  const struct pz_preset *preset = pz_preset_find(model);
  size_t bytes = 0, length = strlen(model);
  if (length > 5 && strcmp(model + length - 5, ".onnx") == 0)
    pz_raise(call, PZ_BAD_USE,
             "%s is a graph, for which no launch script is known; accepted: the name of a "
             "built-in model or the path of a config.json",
             model);
  if (preset) {
    pz_parse_model_shape(call, preset->name, preset->config, strlen(preset->config), out);
    return;
  }
  char *text = pz_file_text(call, model, PZ_CONFIG_MOST_BYTES, &bytes);
  pz_parse_model_shape(call, model, text, bytes, out);
  pz_close(call, text);
}

/* Arguments of load_shape(). */
struct shape_request {
  const char *model, *config; /* config is NULL if the model is loaded by its name */
  struct pz_model_shape *out;
};

/* Reads a shape within a border, so that pz_try_model_shape() can return false instead of raising
 * an error. */
static void load_shape(struct pz_call *call, void *ctx) {
  const struct shape_request *request = ctx;
  if (request->config)
    pz_parse_model_shape(call, request->model, request->config, strlen(request->config),
                         request->out);
  else
    pz_load_model_shape(call, request->model, request->out);
}

bool pz_try_model_shape(struct pz_call *call, const char *model, const char *config,
                        struct pz_model_shape *out) {
  struct shape_request args = {model, config, out};
  struct pz_error err = {0};
  enum pz_status status = pz_border(load_shape, &args, &err);
  pz_raise_if_memory(call, &err);
  return status == PZ_OK;
}

struct pz_model_shape pz_model_shape_or_other(struct pz_call *call, const char *model,
                                              const char *config,
                                              const struct pz_workload *workload, int64_t layers) {
  struct pz_model_shape shape;
  if (pz_try_model_shape(call, model, config, &shape)) return shape;
  return (struct pz_model_shape){.name = model,
                                 .family = PZ_SHAPE_OTHER,
                                 .layers = layers,
                                 .heads = workload->heads,
                                 .kv_heads = workload->kv_heads,
                                 .experts = workload->experts};
}

/* Returns the text of the model's config.json, or NULL for built-in models and for graphs. */
const char *pz_read_model_config(struct pz_call *call, const char *model) {
  size_t bytes = 0, length = strlen(model);
  bool is_graph = length > 5 && strcmp(model + length - 5, ".onnx") == 0;
  bool is_config_path =
      !is_graph && !pz_preset_find(model) && pz_file_named(model) && !pz_preset_hub_like(model);
  return is_config_path ? pz_file_text(call, model, PZ_CONFIG_MOST_BYTES, &bytes) : NULL;
}
