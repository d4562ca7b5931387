#include "plan/model_shape.h"

#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"
#include "workload/family.h"
#include "workload/workload.h"

const char *const pz_shape_family_names[] = {
    "gpt2", "llama", "mixtral", "qwen3", "deepseek_v3", "nemotron_h", "qwen3_next", "other", NULL};

static const struct pz_range ANY = {1, 1 << 26};

/* ---- families ------------------------------------------------------------------------------- */

static void read_gpt2(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_find("gpt2")->read(c, a);
  s->norm_eps = pz_fields_real_or(c, "layer_norm_epsilon", 1e-12, 1, 1e-5);
}

#define ROPE(field) "rope_scaling." field "|rope_parameters." field

/* "rope_scaling" of a configuration, in newer ones "rope_parameters": Llama 3.1's and YaRN; of others what is known. */
static void read_rope(struct pz_fields *c, struct pz_model_shape *s) {
  const char *type = pz_fields_text_or(
      c, "rope_scaling.rope_type|rope_scaling.type|rope_parameters.rope_type", "");
  static const struct {
    const char *name;
    enum pz_rope rope;
  } kinds[] = {{"", PZ_ROPE_PLAIN},
               {"default", PZ_ROPE_PLAIN},
               {"llama3", PZ_ROPE_LLAMA3},
               {"yarn", PZ_ROPE_YARN}};
  s->rope = PZ_ROPE_OTHER;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, type) == 0) s->rope = kinds[i].rope;
  s->rope_factor = pz_fields_real_or(c, ROPE("factor"), 1, 1e6, 1);
  s->rope_original = pz_fields_real_or(c, ROPE("original_max_position_embeddings"), 1, 1e9,
                                       s->rope == PZ_ROPE_YARN ? 4096 : 8192);
  s->rope_low = pz_fields_real_or(c, ROPE("low_freq_factor"), 0, 1e6, 1);
  s->rope_high = pz_fields_real_or(c, ROPE("high_freq_factor"), 0, 1e6, 4);
  s->rope_fast = pz_fields_real_or(c, ROPE("beta_fast"), 0, 1e6, 32);
  s->rope_slow = pz_fields_real_or(c, ROPE("beta_slow"), 0, 1e6, 1);
  s->rope_mscale = pz_fields_real_or(c, ROPE("mscale"), 0, 1e6, 1);
  s->rope_mscale_all = pz_fields_real_or(c, ROPE("mscale_all_dim"), 0, 1e6, 0);
}

/* Rotary base and epsilon; newer configurations keep the base in an object. */
static void read_rotary(struct pz_fields *c, struct pz_model_shape *s, double base, double eps) {
  s->rotary_base = pz_fields_real_or(c, "rope_theta|rope_parameters.rope_theta", 1, 1e12, base);
  s->norm_eps = pz_fields_real_or(c, "rms_norm_eps", 1e-12, 1, eps);
  s->gated = true;
  read_rope(c, s);
}

static void read_llama(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_find("llama")->read(c, a);
  read_rotary(c, s, 10000, 1e-5);
}

static void read_mistral(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_find("mistral")->read(c, a);
  read_rotary(c, s, 10000, 1e-6);
}

static void read_qwen2(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_find("qwen2")->read(c, a);
  read_rotary(c, s, 10000, 1e-6);
}

static void read_phi3(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_find("phi3")->read(c, a);
  read_rotary(c, s, 10000, 1e-5);
}

static void read_mixtral(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_find("mixtral")->read(c, a);
  read_rotary(c, s, 1e6, 1e-5);
  s->expert_ffn = a->ffn;
}

static void read_qwen3(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_llama_read(c, a, 0);
  pz_qwen_window(c, a);
  read_rotary(c, s, 1e6, 1e-6);
  s->qk_norm = true;
}

static void read_qwen3_moe(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  static const struct pz_range every = {1, 1};
  read_qwen3(c, a, s);
  a->experts = pz_fields_int(c, "num_experts", PZ_RANGE_EXPERTS);
  a->experts_per_token = pz_fields_int(c, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  s->expert_ffn = pz_fields_int(c, "moe_intermediate_size", PZ_RANGE_FFN);
  (void)pz_fields_int_or(c, "decoder_sparse_step", every, 1);
}

static void read_deepseek(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  static const struct pz_range some = {0, 65536};
  pz_llama_read(c, a, 0);
  read_rotary(c, s, 10000, 1e-6);
  a->experts = pz_fields_int(c, "n_routed_experts", PZ_RANGE_EXPERTS);
  a->experts_per_token = pz_fields_int(c, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  s->expert_ffn = pz_fields_int(c, "moe_intermediate_size", PZ_RANGE_FFN);
  s->shared_ffn = s->expert_ffn * pz_fields_int_or(c, "n_shared_experts", some, 0);
  s->dense_layers = pz_fields_int_or(c, "first_k_dense_replace", some, 0);
  s->groups = pz_fields_int_or(c, "n_group", some, 8);
  s->group_topk = pz_fields_int_or(c, "topk_group", some, 4);
  s->routed_scale = pz_fields_real_or(c, "routed_scaling_factor", 1e-6, 1e6, 2.5);
  s->predict_layers = pz_fields_int_or(c, "num_nextn_predict_layers", some, 0);
  s->q_rank = pz_fields_int_or(c, "q_lora_rank", ANY, 0);
  s->kv_rank = pz_fields_int(c, "kv_lora_rank", ANY);
  s->nope_dim = pz_fields_int(c, "qk_nope_head_dim", ANY);
  s->rope_dim = pz_fields_int(c, "qk_rope_head_dim", ANY);
  s->v_dim = pz_fields_int(c, "v_head_dim", ANY);
  s->qk_norm = true;
}

/* Letters of the layers of a hybrid. */
static char layer_letter(const struct pz_arch *a, unsigned kind) {
  if (kind & PZ_LAYER_NO_MIXER) return a->experts && !(kind & PZ_LAYER_DENSE) ? 'E' : '-';
  if (kind & PZ_LAYER_RECURRENT) return a->recurrence.mixer == PZ_MIXER_DELTA ? 'L' : 'M';
  return '*';
}

/* As the family reads it; the width of experts is told apart from that of dense layers. */
static void read_hybrid(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  pz_family_read(pz_family_find(pz_fields_text_or(c, "model_type", "")), c, a);
  s->recurrence = a->recurrence;
  s->predict_layers = a->predict_layers;
  s->predict_repeats = a->predict_repeats;
  s->latent = a->latent;
  s->shared_ffn = a->shared_ffn;
  s->shared_gate = a->shared_gate;
  s->out_gate = a->out_gate;
  if (a->experts) s->expert_ffn = a->ffn, a->ffn = a->dense_ffn;
  for (int64_t i = 0; i < a->layers && i < PZ_MOST_MIXED_LAYERS; i++)
    s->pattern[i] = layer_letter(a, a->kind[i]);
}

static void read_nemotron(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  static const struct pz_range some = {0, 65536};
  read_hybrid(c, a, s);
  a->ffn = pz_fields_int_or(c, "intermediate_size", PZ_RANGE_FFN, 21504);
  s->norm_eps = pz_fields_real_or(c, "layer_norm_epsilon|norm_eps|rms_norm_eps", 1e-12, 1, 1e-5);
  s->routed_scale = pz_fields_real_or(c, "routed_scaling_factor", 1e-6, 1e6, 1);
  s->groups = pz_fields_int_or(c, "n_group", some, 0);
  s->group_topk = pz_fields_int_or(c, "topk_group", some, 0);
  if (s->groups < 2) s->groups = s->group_topk = 0;
  s->squared = s->sigmoid = true;
  unsigned kind = a->predict_kind;
  size_t n = 0;
  if (!(kind & PZ_LAYER_NO_MIXER)) s->predict[n++] = kind & PZ_LAYER_RECURRENT ? 'M' : '*';
  if (!(kind & PZ_LAYER_NO_FFN)) s->predict[n] = kind & PZ_LAYER_DENSE || !a->experts ? '-' : 'E';
}

static void read_qwen_hybrid(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s) {
  read_hybrid(c, a, s);
  read_rotary(c, s, 10000, 1e-6);
  s->qk_norm = true;
  s->rotary_part = (double)a->rotary_dims / (double)(a->head_dim ? a->head_dim : 1);
  if (c->status == PZ_OK && pz_fields_value(c, "mlp_only_layers") &&
      json_array_size(pz_fields_value(c, "mlp_only_layers")))
    pz_fields_refuse(c, "mlp_only_layers", "none, for launch scripts");
}

static const struct row {
  const char *model_type;
  enum pz_shape_family family;
  void (*read)(struct pz_fields *c, struct pz_arch *a, struct pz_model_shape *s);
} rows[] = {{"gpt2", PZ_SHAPE_GPT2, read_gpt2},
            {"llama", PZ_SHAPE_LLAMA, read_llama},
            {"mistral", PZ_SHAPE_LLAMA, read_mistral},
            {"qwen2", PZ_SHAPE_LLAMA, read_qwen2},
            {"phi3", PZ_SHAPE_LLAMA, read_phi3},
            {"mixtral", PZ_SHAPE_MIXTRAL, read_mixtral},
            {"qwen3", PZ_SHAPE_QWEN3, read_qwen3},
            {"qwen3_moe", PZ_SHAPE_QWEN3, read_qwen3_moe},
            {"deepseek_v3", PZ_SHAPE_DEEPSEEK_V3, read_deepseek},
            {"kimi_k2", PZ_SHAPE_DEEPSEEK_V3, read_deepseek},
            {"nemotron_h", PZ_SHAPE_NEMOTRON_H, read_nemotron},
            {"qwen3_next", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
            {"qwen3_5_text", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
            {"qwen3_5", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
            {"qwen3_5_moe_text", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid},
            {"qwen3_5_moe", PZ_SHAPE_QWEN3_NEXT, read_qwen_hybrid}};

static const char *type_at(const void *ctx, size_t i) {
  (void)ctx;
  return i < sizeof rows / sizeof *rows ? rows[i].model_type : NULL;
}

static const struct row *find_row(struct pz_fields *c) {
  char names[200];
  const char *type = pz_fields_text_or(c, "model_type", "");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].model_type, type) == 0) return &rows[i];
  c->status = pz_fail(c->err, PZ_BAD_USE,
                      "%s is of family '%.40s', for which no launch script is known; accepted: %s",
                      c->name, type, pz_text_join(names, sizeof names, type_at, NULL));
  return NULL;
}

/* ---- the whole shape ------------------------------------------------------------------------ */

static void take_arch(const struct pz_arch *a, struct pz_model_shape *s) {
  s->layers = a->layers;
  s->hidden = a->hidden;
  s->heads = a->heads;
  s->kv_heads = a->kv_heads;
  s->head_dim = a->head_dim;
  s->ffn = a->ffn;
  s->vocab = a->vocab;
  s->positions = a->positions;
  s->experts = a->experts;
  s->topk = a->experts_per_token;
  s->drop_attention = a->drop_attn;
  s->drop_hidden = a->drop_hidden;
  s->tied = a->tied;
  s->qkv_bias = a->qkv_bias;
  s->bias = a->qkv_bias && a->out_bias && a->mlp_bias;
}

static enum pz_status check_variant(const char *name, const struct pz_arch *a,
                                    const struct pz_model_shape *s, struct pz_error *err) {
  bool gelu = a->act == PZ_ACT_GELU || a->act == PZ_ACT_GELU_TANH || a->act == PZ_ACT_GELU_FAST;
  if (s->gated ? a->act != PZ_ACT_SILU : s->squared ? a->act != PZ_ACT_RELU2 : !gelu)
    return pz_fail(err, PZ_BAD_USE,
                   "%s: its activation, for which no launch script is known; accepted for %s: %s",
                   name, pz_shape_family_names[s->family],
                   s->gated     ? "silu"
                   : s->squared ? "relu2"
                                : "gelu");
  if (s->recurrence.heads && s->layers > PZ_MOST_MIXED_LAYERS)
    return pz_fail(err, PZ_BAD_USE, "%s: %lld layers of a hybrid; accepted: at most %d", name,
                   (long long)s->layers, PZ_MOST_MIXED_LAYERS);
  if (!s->bias && (a->out_bias || a->mlp_bias))
    return pz_fail(err, PZ_BAD_USE,
                   "%s has biases in some linear layers; accepted: in all, in none, or in query, "
                   "key and value alone",
                   name);
  bool whole = s->rotary_base > 0 && !s->kv_rank && s->rotary_part == 1;
  if (a->window || (whole && a->rotary_dims != a->head_dim))
    return pz_fail(err, PZ_BAD_USE, "%s: %s, for which no launch script is known; accepted: %s",
                   name,
                   a->window ? "attention within a window" : "rotary positions of a part of a head",
                   a->window ? "over all tokens" : "of whole heads");
  if (s->topk > s->experts || s->dense_layers > s->layers)
    return pz_fail(err, PZ_BAD_USE, "%s: %s; accepted: at most %lld", name,
                   s->topk > s->experts ? "num_experts_per_tok" : "first_k_dense_replace",
                   (long long)(s->topk > s->experts ? s->experts : s->layers));
  return PZ_OK;
}

bool pz_shape_outgrown(const struct pz_model_shape *s, int64_t seq) {
  return s->rotary_base > 0 && s->rope == PZ_ROPE_PLAIN && seq > s->positions;
}

double pz_shape_rope_factor(const struct pz_model_shape *s, int64_t seq) {
  double factor = 1;
  if (!pz_shape_outgrown(s, seq)) return s->rope == PZ_ROPE_LLAMA3 ? s->rope_factor : 0;
  while (factor * (double)s->positions < (double)seq) factor *= 2;
  return factor;
}

enum pz_status pz_model_shape_parse(const char *name, const char *text, size_t bytes,
                                    struct pz_model_shape *out, struct pz_error *err) {
  struct pz_error local = {0};
  struct pz_arch a = {0};
  struct pz_model_shape s = {.name = name, .routed_scale = 1, .rotary_part = 1};
  json_t *root = NULL;
  if (!err) err = &local;
  enum pz_status status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields c = {.name = name, .root = pz_config_text(root), .err = err};
  const struct row *row = find_row(&c);
  if (row) {
    s.family = row->family;
    row->read(&c, &a, &s);
  }
  json_decref(root);
  if (c.status != PZ_OK) return c.status;
  take_arch(&a, &s);
  status = check_variant(name, &a, &s, err);
  if (status == PZ_OK) *out = s;
  return status;
}

static bool is_onnx(const char *model) {
  size_t n = strlen(model);
  return n > 5 && strcmp(model + n - 5, ".onnx") == 0;
}

enum pz_status pz_model_config(const char *model, char **text, struct pz_error *err) {
  size_t bytes = 0;
  *text = NULL;
  if (is_onnx(model) || pz_preset_find(model) || !pz_file_named(model) || pz_preset_hub_like(model))
    return PZ_OK; /* or what is unknown, which who loads the model says */
  return pz_file_read(model, PZ_CONFIG_MOST_BYTES, text, &bytes, err);
}

enum pz_status pz_model_shape_load(const char *model, struct pz_model_shape *out,
                                   struct pz_error *err) {
  const struct pz_preset *p = pz_preset_find(model);
  char *text = NULL;
  size_t bytes = 0;
  if (is_onnx(model))
    return pz_fail(err, PZ_BAD_USE,
                   "%s is a graph, for which no launch script is known; accepted: the name of a "
                   "built-in model or the path of a config.json",
                   model);
  if (p) return pz_model_shape_parse(p->name, p->config, strlen(p->config), out, err);
  enum pz_status status = pz_file_read(model, PZ_CONFIG_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_model_shape_parse(model, text, bytes, out, err);
  pz_free(text);
  return status;
}

enum pz_status pz_model_shape_of(const char *model, const char *config, const struct pz_workload *w,
                                 int64_t layers, struct pz_model_shape *out) {
  enum pz_status status = config ? pz_model_shape_parse(model, config, strlen(config), out, NULL)
                                 : pz_model_shape_load(model, out, NULL);
  if (status == PZ_OK || status == PZ_NO_MEMORY) return status;
  *out = (struct pz_model_shape){.name = model,
                                 .family = PZ_SHAPE_OTHER,
                                 .layers = layers,
                                 .heads = w->heads,
                                 .kv_heads = w->kv_heads,
                                 .experts = w->experts};
  return PZ_OK;
}
