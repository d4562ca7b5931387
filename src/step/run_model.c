/* Writes the shape of a model from a table of runs as a config.json (run_model.h) of a model
 * family with such layers.  Refuses shapes that no family has. */
#include "step/run_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "workload/arch.h"

/* A text that is appended to a buffer.  What does not fit is cut off. */
struct text_buffer {
  char *start;
  size_t capacity, length;
};

/* The indexer of sparse attention.  Only every `every`-th layer computes it. */
struct indexer {
  int64_t heads, dim, topk, every;
};

/* Appends formatted text to the configuration. */
__attribute__((format(printf, 2, 3))) static void put_text(struct text_buffer *text,
                                                           const char *form, ...) {
  va_list args;
  va_start(args, form);
  int written = text->length < text->capacity ? vsnprintf(text->start + text->length,
                                                          text->capacity - text->length, form, args)
                                              : 0;
  va_end(args);
  if (written > 0) text->length += (size_t)written;
}

/* Appends a JSON member with a number. */
static void put_number(struct text_buffer *text, const char *key, int64_t number) {
  put_text(text, ",\"%s\":%lld", key, (long long)number);
}

/* Stores the reason why a shape is not covered.  Returns false. */
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

/* Reads whether a model has sparse attention: "DSA: indexer 32x128 top 2048" states the heads and
 * the width of the indexer and how many keys it selects.  ", computed in every fourth layer"
 * follows if the layers between reuse the selection.  Returns false for other words. */
static bool has_indexer(const struct pz_run_model *model, struct indexer *indexer) {
  static const char *const ordinals[] = {"second", "third",   "fourth", "fifth",
                                         "sixth",  "seventh", "eighth"};
  char word[9];
  int end = 0;
  indexer->every = 1;
  if (sscanf(model->layers_as, "DSA: indexer %6" SCNd64 "x%6" SCNd64 " top %7" SCNd64 "%n",
             &indexer->heads, &indexer->dim, &indexer->topk, &end) != 3)
    return false;
  const char *rest = model->layers_as + end;
  if (!*rest || strcmp(rest, ", computed in every layer") == 0) return true;
  end = 0;
  if (sscanf(rest, ", computed in every %8[a-z] layer%n", word, &end) != 1 || !end || rest[end])
    return false;
  for (size_t i = 0; i < sizeof ordinals / sizeof *ordinals; i++)
    if (strcmp(ordinals[i], word) == 0) indexer->every = (int64_t)i + 2;
  return indexer->every > 1;
}

/* ---- experts and attention ------------------------------------------------------------------ */

/* Writes the routed and shared experts of a model. */
static void put_experts(struct text_buffer *text, const struct pz_run_model *model) {
  put_number(text, model->kv_rank ? "n_routed_experts" : "num_experts", model->experts);
  put_number(text, "num_experts_per_tok", model->topk);
  put_number(text, "moe_intermediate_size", model->expert_ffn ? model->expert_ffn : model->ffn);
  if (model->shared_experts) put_number(text, "n_shared_experts", model->shared_experts);
  if (model->dense_layers || model->kv_rank)
    put_number(text, "first_k_dense_replace", model->dense_layers);
}

/* Writes the family and the dimensions that all families have. */
static void put_dimensions(struct text_buffer *text, const struct pz_run_model *model,
                           const char *family, const char *act) {
  put_text(text, "{\"model_type\":\"%s\",\"hidden_act\":\"%s\"", family, act);
  put_number(text, "hidden_size", model->hidden);
  put_number(text, "num_hidden_layers", model->layers);
  put_number(text, "num_attention_heads", model->heads);
  put_number(text, "num_key_value_heads", model->kv_heads);
  if (!model->kv_rank) put_number(text, "head_dim", model->head_dim);
  put_number(text, "intermediate_size", model->ffn);
  put_number(text, "vocab_size", model->vocab);
  put_number(text, "max_position_embeddings", model->seq);
}

/* ---- state-space layers --------------------------------------------------------------------- */

/* Reads numbers "name=N,name=N" in any order, and stores that of names[i] in values[i].  Returns
 * false if one of the n names is missing or there is another one. */
static bool read_named(const char *text, const char *const *names, int64_t *values, size_t n) {
  unsigned found = 0; /* names that were read, as a set of bits */
  for (; *text; text += *text == ',') {
    size_t i = 0, name_length = strcspn(text, "=");
    int end = 0;
    while (i < n && (strlen(names[i]) != name_length || strncmp(names[i], text, name_length) != 0))
      i++;
    if (i == n || sscanf(text + name_length, "=%7" SCNd64 "%n", &values[i], &end) != 1)
      return false;
    found |= 1u << i;
    text += name_length + (size_t)end;
    if (*text && *text != ',') return false;
  }
  return found == (1u << n) - 1;
}

/* Expands a layer pattern such as "MEM*E" or "(LLL*)x10" to a letter for each layer.  Returns
 * false if it has other letters than the accepted ones, or not one for each layer. */
static bool read_letters(const struct pz_run_model *model, const char *accepted,
                         char letters[PZ_MOST_MIXED_LAYERS + 1]) {
  size_t n = 0, layers = (size_t)model->layers;
  if (layers > PZ_MOST_MIXED_LAYERS) return false;
  for (const char *part = model->layers_as; *part;) { /* letters, or "(letters)xN" */
    bool repeats = *part == '(';
    part += repeats;
    size_t part_layers = strspn(part, accepted);
    int64_t times = 1;
    int length = 0;
    if (repeats &&
        (sscanf(part + part_layers, ")x%4" SCNd64 "%n", &times, &length) != 1 || times < 1))
      return false;
    if (!part_layers || (size_t)times * part_layers > layers - n) return false;
    for (; times > 0; times--, n += part_layers) memcpy(letters + n, part, part_layers);
    part += part_layers + (size_t)length;
  }
  letters[n] = '\0';
  return n == layers;
}

/* Writes a model of the Nemotron-H family: each layer is Mamba-2 (M), attention (*), experts (E)
 * or feed-forward (-).  Returns false with a reason for other shapes. */
static bool put_mamba(struct text_buffer *text, const struct pz_run_model *model, char *why) {
  static const char *const names[] = {"heads", "head_dim", "state", "groups", "conv", "chunk"};
  static const char *const keys[] = {"mamba_num_heads", "mamba_head_dim", "ssm_state_size",
                                     "n_groups",        "conv_kernel",    "chunk_size"};
  enum { N = sizeof names / sizeof *names };
  int64_t values[N];
  char letters[PZ_MOST_MIXED_LAYERS + 1];
  if (!read_named(model->ssm + strlen("mamba2:"), names, values, N))
    return refuse(why,
                  "ssm '%.60s' is not covered; accepted: mamba2:heads=N,head_dim=N,state=N,"
                  "groups=N,conv=N,chunk=N",
                  model->ssm);
  if (strcmp(model->mlp, "relu2") != 0)
    return refuse(why, "mlp '%.40s' of a model with Mamba-2 layers is not covered; accepted: relu2",
                  model->mlp);
  if (!read_letters(model, "M*E-", letters))
    return refuse(why,
                  "layer_pattern '%.60s' of %lld layers is not covered; accepted: a letter for "
                  "each, M, *, E or -, or (ME*)xN",
                  model->layers_as, (long long)model->layers);
  if (model->experts && !model->shared_experts)
    return refuse(why, "experts without a shared one beside Mamba-2 layers are not covered");
  put_dimensions(text, model, "nemotron_h", "relu2");
  put_text(text, ",\"mlp_hidden_act\":\"relu2\",\"hybrid_override_pattern\":\"%s\"", letters);
  for (size_t i = 0; i < N; i++) put_number(text, keys[i], values[i]);
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
    put_text(text, ",\"mtp_hybrid_override_pattern\":\"*%c\"", model->experts ? 'E' : '-');
  }
  put_text(text, "}");
  return true;
}

/* Writes a model of the Qwen3.5 family: layers with a gated delta net (L) or attention (*), each
 * with a feed-forward layer.  Returns false with a reason for other shapes. */
static bool put_delta(struct text_buffer *text, const struct pz_run_model *model, char *why) {
  static const char *const names[] = {"key_heads", "value_heads", "key_dim", "value_dim", "conv"};
  static const char *const keys[] = {"linear_num_key_heads", "linear_num_value_heads",
                                     "linear_key_head_dim", "linear_value_head_dim",
                                     "linear_conv_kernel_dim"};
  enum { N = sizeof names / sizeof *names };
  int64_t values[N];
  char letters[PZ_MOST_MIXED_LAYERS + 1];
  if (!read_named(model->ssm + strlen("gdn:"), names, values, N))
    return refuse(why,
                  "ssm '%.60s' is not covered; accepted: gdn:key_heads=N,value_heads=N,"
                  "key_dim=N,value_dim=N,conv=N",
                  model->ssm);
  if (!read_letters(model, "L*", letters) || strcmp(model->mlp, "swiglu") != 0)
    return refuse(why,
                  "layer_pattern '%.40s' of %lld layers with mlp %.20s is not covered; "
                  "accepted: L or * for each, or (LLL*)xN, with swiglu",
                  model->layers_as, (long long)model->layers, model->mlp);
  put_dimensions(text, model, model->experts ? "qwen3_5_moe_text" : "qwen3_5_text", "silu");
  /* Which layers have attention: an interval if every `every`-th layer has it, otherwise a list.
   * n_even counts the layers up to the first one that breaks the interval. */
  size_t every = strcspn(letters, "*") + 1, n_even = 0;
  while (letters[n_even] && (letters[n_even] == '*') == ((n_even + 1) % every == 0)) n_even++;
  if (!letters[n_even])
    put_number(text, "full_attention_interval", (int64_t)every);
  else
    put_text(text, ",\"layer_types\":");
  for (size_t i = 0; letters[n_even] && letters[i]; i++)
    put_text(text, "%c\"%s_attention\"%s", i ? ',' : '[', letters[i] == 'L' ? "linear" : "full",
             letters[i + 1] ? "" : "]");
  for (size_t i = 0; i < N; i++) put_number(text, keys[i], values[i]);
  if (model->experts) {
    put_number(text, "num_experts", model->experts);
    put_number(text, "num_experts_per_tok", model->topk);
    put_number(text, "moe_intermediate_size", model->expert_ffn ? model->expert_ffn : model->ffn);
    put_number(text, "shared_expert_intermediate_size",
               model->shared_ffn ? model->shared_ffn : model->shared_experts * model->expert_ffn);
  }
  if (model->mtp) put_number(text, "num_nextn_predict_layers", model->mtp);
  put_text(text, "}");
  return true;
}

/* ---- transformers --------------------------------------------------------------------------- */

/* Writes a GPT, with or without experts.  Except in plain PyTorch, its head is the embedding. */
static void put_gpt(struct text_buffer *text, const struct pz_run_model *model) {
  put_text(text, "{\"model_type\":\"gpt2\"");
  put_number(text, "n_embd", model->hidden);
  put_number(text, "n_layer", model->layers);
  put_number(text, "n_head", model->heads);
  put_number(text, "n_inner", model->ffn);
  put_number(text, "vocab_size", model->vocab);
  put_number(text, "n_positions", model->seq);
  if (model->kv_heads) put_number(text, "num_key_value_heads", model->kv_heads);
  if (model->experts) put_experts(text, model);
  put_text(text, ",\"tie_word_embeddings\":%s}", model->own_head ? "false" : "true");
}

/* Returns the model family for the shape: DeepSeek with latent attention, or GLM-5 if layers share
 * an indexer; the plain decoder for plain PyTorch and for shared experts with ordinary attention;
 * Qwen3 with other experts; otherwise Llama. */
static const char *model_family(const struct pz_run_model *model) {
  struct indexer indexer;
  if (model->kv_rank && has_indexer(model, &indexer))
    return indexer.every > 1 ? "glm_moe_dsa" : "deepseek_v32";
  if (model->kv_rank) return "deepseek_v3";
  if (model->plain) return "decoder";
  if (model->experts) return model->shared_experts || model->dense_layers ? "decoder" : "qwen3_moe";
  return "llama";
}

/* Writes a model of transformer layers: a GPT if its feed-forward layers are not gated,
 * otherwise the family of model_family().  Returns false with a reason for other shapes. */
static bool put_transformer(struct text_buffer *text, const struct pz_run_model *model, char *why) {
  bool is_swiglu = strcmp(model->mlp, "swiglu") == 0, is_geglu = strcmp(model->mlp, "geglu") == 0;
  double shared_ffn = (double)model->expert_ffn * (double)model->shared_experts;
  struct indexer indexer;
  bool sparse = has_indexer(model, &indexer);
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
  if (is_geglu && strcmp(model_family(model), "decoder") == 0)
    return refuse(why, "mlp geglu with shared experts or dense layers is not covered; "
                       "accepted: swiglu");
  if (strcmp(model->mlp, "relu2") == 0)
    return refuse(why, "mlp relu2 without Mamba-2 layers is not covered");
  bool has_gpt_layers =
      !model->plain && !model->kv_rank && !model->shared_experts && !model->dense_layers;
  if (!is_swiglu && !is_geglu && has_gpt_layers) {
    put_gpt(text, model);
    return true;
  }
  put_dimensions(text, model, model_family(model), is_swiglu ? "silu" : "gelu");
  if (model->kv_rank) {
    if (model->q_rank)
      put_number(text, "q_lora_rank", model->q_rank);
    else
      put_text(text, ",\"q_lora_rank\":null");
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
  put_text(text, "}");
  return true;
}

/* Chooses the model family that has such layers, and writes the shape as its configuration. */
bool pz_run_model_config(const struct pz_run_model *model, char *config, char *why) {
  struct text_buffer text = {.start = config, .capacity = PZ_RUN_CONFIG};
  struct indexer indexer;
  /* the pattern of gpt-oss: windows in every second layer, and attention sinks */
  int64_t window = 0;
  int end = 0, n_read = sscanf(model->layers_as,
                               "window %7" SCNd64 " in every second layer, sinks%n", &window, &end);
  bool has_windows = n_read == 1 && end > 0 && !model->layers_as[end];
  bool is_plain_transformer =
      !*model->layers_as || strcmp(model->layers_as, "none") == 0 || has_indexer(model, &indexer);
  bool covered;
  if (strncmp(model->ssm, "mamba2:", 7) == 0)
    covered = put_mamba(&text, model, why);
  else if (strncmp(model->ssm, "gdn:", 4) == 0)
    covered = put_delta(&text, model, why);
  else if (pz_run_model_hybrid(model))
    return refuse(why, "ssm '%.60s' is not covered; accepted: none, mamba2:..., gdn:...",
                  model->ssm);
  else if (has_windows && model->experts && !model->shared_experts) {
    /* gpt-oss, whose experts have the width of the feed-forward layer */
    put_dimensions(&text, model, "gpt_oss", "silu");
    put_number(&text, "num_local_experts", model->experts);
    put_number(&text, "num_experts_per_tok", model->topk);
    put_number(&text, "sliding_window", window);
    put_text(&text, "}");
    covered = true;
  } else if (!is_plain_transformer)
    return refuse(why,
                  "layer_pattern '%.40s' is not covered; accepted: none, window N in every second "
                  "layer, sinks, DSA: indexer NxN top N; with ssm a letter for each layer, or "
                  "(LLL*)xN",
                  model->layers_as);
  else
    covered = put_transformer(&text, model, why);
  if (covered && text.length >= text.capacity) return refuse(why, "the model's shape is too long");
  return covered;
}
