/* Writes the shape of a model in a table of runs as a config.json (run_model.h): chooses a model
 * family that has such layers, and refuses shapes that none has. */
#include "step/run_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "workload/arch.h"

/* A text that grows in a buffer; what does not fit is cut off. */
struct text {
  char *to;
  size_t bytes, n;
};

/* The indexer of sparse attention, which every n-th layer has (`every`). */
struct indexer {
  int64_t heads, dim, topk, every;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *form, ...) {
  va_list args;
  va_start(args, form);
  int n =
      text->n < text->bytes ? vsnprintf(text->to + text->n, text->bytes - text->n, form, args) : 0;
  va_end(args);
  if (n > 0) text->n += (size_t)n;
}

static void put_number(struct text *text, const char *key, int64_t v) {
  put(text, ",\"%s\":%lld", key, (long long)v);
}

__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *form, ...) {
  va_list args;
  va_start(args, form);
  vsnprintf(why, PZ_RUN_WHY, form, args);
  va_end(args);
  return false;
}

bool pz_run_model_hybrid(const struct pz_run_model *model) {
  return *model->ssm && strcmp(model->ssm, "none") != 0;
}

static bool is_mlp(const struct pz_run_model *model, const char *word) {
  return strcmp(model->mlp, word) == 0;
}

/* Returns whether the layer pattern in words is that of gpt-oss: windows in every second layer and
 * attention sinks. */
static bool has_windows(const struct pz_run_model *model, int64_t *window) {
  int end = 0;
  return sscanf(model->layers_as, "window %7" SCNd64 " in every second layer, sinks%n", window,
                &end) == 1 &&
         end > 0 && !model->layers_as[end];
}

/* Sparse attention in the words of tables: "DSA: indexer 32x128 top 2048", heads and width of the
 * indexer and keys that are chosen; ", computed in every fourth layer" where the layers after one
 * take its choice.  False: other words. */
static bool has_index(const struct pz_run_model *model, struct indexer *indexer) {
  static const char *const every[] = {"second", "third",   "fourth", "fifth",
                                      "sixth",  "seventh", "eighth"};
  char word[9];
  int end = 0;
  indexer->every = 1;
  if (sscanf(model->layers_as, "DSA: indexer %6" SCNd64 "x%6" SCNd64 " top %7" SCNd64 "%n",
             &indexer->heads, &indexer->dim, &indexer->topk, &end) != 3)
    return false;
  const char *more = model->layers_as + end;
  if (!*more || strcmp(more, ", computed in every layer") == 0) return true;
  end = 0;
  if (sscanf(more, ", computed in every %8[a-z] layer%n", word, &end) != 1 || !end || more[end])
    return false;
  for (size_t i = 0; i < sizeof every / sizeof *every; i++)
    if (strcmp(every[i], word) == 0) indexer->every = (int64_t)i + 2;
  return indexer->every > 1;
}

/* ---- experts and attention ---- */

static void put_experts(struct text *text, const struct pz_run_model *model) {
  put_number(text, model->kv_rank ? "n_routed_experts" : "num_experts", model->experts);
  put_number(text, "num_experts_per_tok", model->topk);
  put_number(text, "moe_intermediate_size", model->expert_ffn ? model->expert_ffn : model->ffn);
  if (model->shared_experts) put_number(text, "n_shared_experts", model->shared_experts);
  if (model->dense_layers || model->kv_rank)
    put_number(text, "first_k_dense_replace", model->dense_layers);
}

static void put_begin(struct text *text, const struct pz_run_model *model, const char *family,
                      const char *act) {
  put(text, "{\"model_type\":\"%s\",\"hidden_act\":\"%s\"", family, act);
  put_number(text, "hidden_size", model->hidden);
  put_number(text, "num_hidden_layers", model->layers);
  put_number(text, "num_attention_heads", model->heads);
  put_number(text, "num_key_value_heads", model->kv_heads);
  if (!model->kv_rank) put_number(text, "head_dim", model->head_dim);
  put_number(text, "intermediate_size", model->ffn);
  put_number(text, "vocab_size", model->vocab);
  put_number(text, "max_position_embeddings", model->seq);
}

/* ---- state-space layers ---- */

/* Numbers "name=N,name=N" in any order; false: one is missing or another stands there. */
static bool read_named(const char *text, const char *const *names, int64_t *to, size_t n) {
  unsigned seen = 0;
  for (; *text; text += *text == ',') {
    size_t i = 0, width = strcspn(text, "=");
    int end = 0;
    while (i < n && (strlen(names[i]) != width || strncmp(names[i], text, width) != 0)) i++;
    if (i == n || sscanf(text + width, "=%7" SCNd64 "%n", &to[i], &end) != 1) return false;
    seen |= 1u << i;
    text += width + (size_t)end;
    if (*text && *text != ',') return false;
  }
  return seen == (1u << n) - 1;
}

/* Returns a letter for each layer, all of `known`, into `to`: "MEM*E", or with parts that
 * repeat, "(LLL*)x10".  False: the pattern has other letters or another number of them. */
static bool read_letters(const struct pz_run_model *model, const char *known,
                         char to[PZ_MOST_MIXED_LAYERS + 1]) {
  size_t n = 0, layers = (size_t)model->layers;
  if (layers > PZ_MOST_MIXED_LAYERS) return false;
  for (const char *at = model->layers_as; *at;) {
    bool repeats = *at == '(';
    at += repeats;
    size_t width = strspn(at, known);
    int64_t times = 1;
    int end = 0;
    if (repeats && (sscanf(at + width, ")x%4" SCNd64 "%n", &times, &end) != 1 || times < 1))
      return false;
    if (!width || (size_t)times * width > layers - n) return false;
    for (; times > 0; times--, n += width) memcpy(to + n, at, width);
    at += width + (size_t)end;
  }
  to[n] = '\0';
  return n == layers;
}

/* Nemotron-H: every layer of the pattern is Mamba-2 (M), attention (*), experts (E) or
 * feed-forward (-). */
static bool put_mamba(struct text *text, const struct pz_run_model *model, char *why) {
  static const char *const names[] = {"heads", "head_dim", "state", "groups", "conv", "chunk"};
  static const char *const keys[] = {"mamba_num_heads", "mamba_head_dim", "ssm_state_size",
                                     "n_groups",        "conv_kernel",    "chunk_size"};
  enum { N = sizeof names / sizeof *names };
  int64_t v[N];
  char letters[PZ_MOST_MIXED_LAYERS + 1];
  if (!read_named(model->ssm + strlen("mamba2:"), names, v, N))
    return refuse(why,
                  "ssm '%.60s' is not covered; accepted: mamba2:heads=N,head_dim=N,state=N,"
                  "groups=N,conv=N,chunk=N",
                  model->ssm);
  if (!is_mlp(model, "relu2"))
    return refuse(why, "mlp '%.40s' of a model with Mamba-2 layers is not covered; accepted: relu2",
                  model->mlp);
  if (!read_letters(model, "M*E-", letters))
    return refuse(why,
                  "layer_pattern '%.60s' of %lld layers is not covered; accepted: a letter for "
                  "each, M, *, E or -, or (ME*)xN",
                  model->layers_as, (long long)model->layers);
  if (model->experts && !model->shared_experts)
    return refuse(why, "experts without a shared one beside Mamba-2 layers are not covered");
  put_begin(text, model, "nemotron_h", "relu2");
  put(text, ",\"mlp_hidden_act\":\"relu2\",\"hybrid_override_pattern\":\"%s\"", letters);
  for (size_t i = 0; i < N; i++) put_number(text, keys[i], v[i]);
  if (model->experts) {
    put_number(text, "n_routed_experts", model->experts);
    put_number(text, "num_experts_per_tok", model->topk);
    put_number(text, "moe_intermediate_size", model->expert_ffn ? model->expert_ffn : model->ffn);
    put_number(text, "n_shared_experts", model->shared_experts);
    put_number(text, "moe_shared_expert_intermediate_size",
               model->shared_ffn ? model->shared_ffn : model->shared_experts * model->expert_ffn);
  }
  if (model->moe_latent) put_number(text, "moe_latent_size", model->moe_latent);
  if (model->mtp) {
    put_number(text, "num_nextn_predict_layers", model->mtp);
    put(text, ",\"mtp_hybrid_override_pattern\":\"*%c\"", model->experts ? 'E' : '-');
  }
  put(text, "}");
  return true;
}

/* Every n-th layer has attention; else a list, which is longer. */
static void put_delta_layers(struct text *text, const char *letters) {
  size_t every = strcspn(letters, "*") + 1, i = 0;
  while (letters[i] && (letters[i] == '*') == ((i + 1) % every == 0)) i++;
  if (!letters[i]) {
    put_number(text, "full_attention_interval", (int64_t)every);
    return;
  }
  put(text, ",\"layer_types\":");
  for (i = 0; letters[i]; i++)
    put(text, "%c\"%s_attention\"", i ? ',' : '[', letters[i] == 'L' ? "linear" : "full");
  put(text, "]");
}

/* Qwen3-Next and Qwen3.5: delta nets (L) and attention (*), each with a feed-forward. */
static bool put_delta(struct text *text, const struct pz_run_model *model, char *why) {
  static const char *const names[] = {"key_heads", "value_heads", "key_dim", "value_dim", "conv"};
  static const char *const keys[] = {"linear_num_key_heads", "linear_num_value_heads",
                                     "linear_key_head_dim", "linear_value_head_dim",
                                     "linear_conv_kernel_dim"};
  enum { N = sizeof names / sizeof *names };
  int64_t v[N];
  char letters[PZ_MOST_MIXED_LAYERS + 1];
  if (!read_named(model->ssm + strlen("gdn:"), names, v, N))
    return refuse(why,
                  "ssm '%.60s' is not covered; accepted: gdn:key_heads=N,value_heads=N,"
                  "key_dim=N,value_dim=N,conv=N",
                  model->ssm);
  if (!read_letters(model, "L*", letters) || !is_mlp(model, "swiglu"))
    return refuse(why,
                  "layer_pattern '%.40s' of %lld layers with mlp %.20s is not covered; "
                  "accepted: L or * for each, or (LLL*)xN, with swiglu",
                  model->layers_as, (long long)model->layers, model->mlp);
  put_begin(text, model, model->experts ? "qwen3_5_moe_text" : "qwen3_5_text", "silu");
  put_delta_layers(text, letters);
  for (size_t i = 0; i < N; i++) put_number(text, keys[i], v[i]);
  if (model->experts) {
    put_number(text, "num_experts", model->experts);
    put_number(text, "num_experts_per_tok", model->topk);
    put_number(text, "moe_intermediate_size", model->expert_ffn ? model->expert_ffn : model->ffn);
    put_number(text, "shared_expert_intermediate_size",
               model->shared_ffn ? model->shared_ffn : model->shared_experts * model->expert_ffn);
  }
  if (model->mtp) put_number(text, "num_nextn_predict_layers", model->mtp);
  put(text, "}");
  return true;
}

/* ---- the others ---- */

/* GPT's shape, with experts or without, whose head is the embedding except in plain PyTorch
 * models. */
static void put_gpt(struct text *text, const struct pz_run_model *model) {
  put(text, "{\"model_type\":\"gpt2\"");
  put_number(text, "n_embd", model->hidden);
  put_number(text, "n_layer", model->layers);
  put_number(text, "n_head", model->heads);
  put_number(text, "n_inner", model->ffn);
  put_number(text, "vocab_size", model->vocab);
  put_number(text, "n_positions", model->seq);
  if (model->kv_heads) put_number(text, "num_key_value_heads", model->kv_heads);
  if (model->experts) put_experts(text, model);
  put(text, ",\"tie_word_embeddings\":%s}", model->own_head ? "false" : "true");
}

/* gpt-oss's experts are as wide as its configuration says of the feed-forward. */
static void put_windows(struct text *text, const struct pz_run_model *model, int64_t window) {
  put_begin(text, model, "gpt_oss", "silu");
  put_number(text, "num_local_experts", model->experts);
  put_number(text, "num_experts_per_tok", model->topk);
  put_number(text, "sliding_window", window);
  put(text, "}");
}

/* Returns the model family for the shape: DeepSeek with latent attention, or GLM-5 if layers share
 * an indexer; the plain decoder for plain PyTorch and for shared experts with ordinary attention;
 * Qwen3 with other experts; otherwise Llama. */
static const char *family_of(const struct pz_run_model *model) {
  struct indexer indexer;
  if (model->kv_rank && has_index(model, &indexer))
    return indexer.every > 1 ? "glm_moe_dsa" : "deepseek_v32";
  if (model->kv_rank) return "deepseek_v3";
  if (model->plain) return "decoder";
  if (model->experts) return model->shared_experts || model->dense_layers ? "decoder" : "qwen3_moe";
  return "llama";
}

/* Writes a model of transformer layers.  A gated feed-forward layer means Llama or one of its
 * descendants, any other GPT. */
static bool put_transformer(struct text *text, const struct pz_run_model *model, char *why) {
  bool silu = is_mlp(model, "swiglu"), geglu = is_mlp(model, "geglu");
  double shared_ffn = (double)model->expert_ffn * (double)model->shared_experts;
  struct indexer indexer;
  bool sparse = has_index(model, &indexer);
  if (sparse && !model->kv_rank)
    return refuse(why,
                  "layer_pattern '%.60s' without latent attention is not covered; accepted: "
                  "with column mla",
                  model->layers_as);
  if (model->moe_latent) return refuse(why, "moe_latent without Mamba-2 layers is not covered");
  if (model->shared_ffn && (double)model->shared_ffn != shared_ffn)
    return refuse(why,
                  "shared_ffn %lld is not covered; accepted: expert_ffn x shared_experts, %.0f",
                  (long long)model->shared_ffn, shared_ffn);
  if (geglu && strcmp(family_of(model), "decoder") == 0)
    return refuse(why, "mlp geglu with shared experts or dense layers is not covered; "
                       "accepted: swiglu");
  if (is_mlp(model, "relu2")) return refuse(why, "mlp relu2 without Mamba-2 layers is not covered");
  if (!silu && !geglu && !model->plain && !model->kv_rank && !model->shared_experts &&
      !model->dense_layers)
    return put_gpt(text, model), true;
  put_begin(text, model, family_of(model), silu ? "silu" : "gelu");
  if (model->kv_rank) {
    if (model->q_rank)
      put_number(text, "q_lora_rank", model->q_rank);
    else
      put(text, ",\"q_lora_rank\":null");
    put_number(text, "kv_lora_rank", model->kv_rank);
    put_number(text, "qk_rope_head_dim", model->rope_dim);
    put_number(text, "qk_nope_head_dim", model->nope_dim);
    put_number(text, "v_head_dim", model->value_dim);
    if (model->mtp) put_number(text, "num_nextn_predict_layers", model->mtp);
  }
  if (sparse) {
    put_number(text, "index_n_heads", indexer.heads);
    put_number(text, "index_head_dim", indexer.dim);
    put_number(text, "index_topk", indexer.topk);
    if (indexer.every > 1) put_number(text, "index_topk_freq", indexer.every);
  }
  if (model->experts) put_experts(text, model);
  put(text, "}");
  return true;
}

bool pz_run_model_config(const struct pz_run_model *model, char *config, char *why) {
  struct text text = {.to = config, .bytes = PZ_RUN_CONFIG};
  struct indexer indexer;
  int64_t window = 0;
  bool alike =
      !*model->layers_as || strcmp(model->layers_as, "none") == 0 || has_index(model, &indexer);
  bool put_all;
  if (strncmp(model->ssm, "mamba2:", 7) == 0)
    put_all = put_mamba(&text, model, why);
  else if (strncmp(model->ssm, "gdn:", 4) == 0)
    put_all = put_delta(&text, model, why);
  else if (pz_run_model_hybrid(model))
    return refuse(why, "ssm '%.60s' is not covered; accepted: none, mamba2:..., gdn:...",
                  model->ssm);
  else if (has_windows(model, &window) && model->experts && !model->shared_experts)
    put_windows(&text, model, window), put_all = true;
  else if (!alike)
    return refuse(why,
                  "layer_pattern '%.40s' is not covered; accepted: none, window N in every second "
                  "layer, sinks, DSA: indexer NxN top N; with ssm a letter for each layer, or "
                  "(LLL*)xN",
                  model->layers_as);
  else
    put_all = put_transformer(&text, model, why);
  return put_all && text.n >= text.bytes ? refuse(why, "the model's shape is too long") : put_all;
}
