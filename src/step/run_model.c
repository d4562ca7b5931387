#include "step/run_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "workload/arch.h"

struct text {
  char *to;
  size_t bytes, n;
};

/* The indexer of sparse attention, in every `every`-th layer. */
struct indexer {
  int64_t heads, dim, topk, every;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *form, ...) {
  va_list args;
  va_start(args, form);
  int n = t->n < t->bytes ? vsnprintf(t->to + t->n, t->bytes - t->n, form, args) : 0;
  va_end(args);
  if (n > 0) t->n += (size_t)n;
}

static void put_number(struct text *t, const char *key, int64_t v) {
  put(t, ",\"%s\":%lld", key, (long long)v);
}

__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *form, ...) {
  va_list args;
  va_start(args, form);
  vsnprintf(why, PZ_RUN_WHY, form, args);
  va_end(args);
  return false;
}

bool pz_run_model_hybrid(const struct pz_run_model *m) {
  return *m->ssm && strcmp(m->ssm, "none") != 0;
}

static bool is_mlp(const struct pz_run_model *m, const char *word) {
  return strcmp(m->mlp, word) == 0;
}

/* Layers said in words: windows in every second layer and sinks are those of gpt-oss. */
static bool has_windows(const struct pz_run_model *m, int64_t *window) {
  int end = 0;
  return sscanf(m->layers_as, "window %7" SCNd64 " in every second layer, sinks%n", window, &end) ==
             1 &&
         end > 0 && !m->layers_as[end];
}

/* Sparse attention in the words of tables: "DSA: indexer 32x128 top 2048", heads and width of the
 * indexer and keys that are chosen; ", computed in every fourth layer" where the layers after one
 * take its choice.  False: other words. */
static bool has_index(const struct pz_run_model *m, struct indexer *x) {
  static const char *const every[] = {"second", "third",   "fourth", "fifth",
                                      "sixth",  "seventh", "eighth"};
  char word[9];
  int end = 0;
  x->every = 1;
  if (sscanf(m->layers_as, "DSA: indexer %6" SCNd64 "x%6" SCNd64 " top %7" SCNd64 "%n", &x->heads,
             &x->dim, &x->topk, &end) != 3)
    return false;
  const char *more = m->layers_as + end;
  if (!*more || strcmp(more, ", computed in every layer") == 0) return true;
  end = 0;
  if (sscanf(more, ", computed in every %8[a-z] layer%n", word, &end) != 1 || !end || more[end])
    return false;
  for (size_t i = 0; i < sizeof every / sizeof *every; i++)
    if (strcmp(every[i], word) == 0) x->every = (int64_t)i + 2;
  return x->every > 1;
}

/* ---- experts and attention ---- */

static void put_experts(struct text *t, const struct pz_run_model *m) {
  put_number(t, m->kv_rank ? "n_routed_experts" : "num_experts", m->experts);
  put_number(t, "num_experts_per_tok", m->topk);
  put_number(t, "moe_intermediate_size", m->expert_ffn ? m->expert_ffn : m->ffn);
  if (m->shared_experts) put_number(t, "n_shared_experts", m->shared_experts);
  if (m->dense_layers || m->kv_rank) put_number(t, "first_k_dense_replace", m->dense_layers);
}

static void put_latent(struct text *t, const struct pz_run_model *m) {
  if (m->q_rank)
    put_number(t, "q_lora_rank", m->q_rank);
  else
    put(t, ",\"q_lora_rank\":null");
  put_number(t, "kv_lora_rank", m->kv_rank);
  put_number(t, "qk_rope_head_dim", m->rope_dim);
  put_number(t, "qk_nope_head_dim", m->nope_dim);
  put_number(t, "v_head_dim", m->value_dim);
  if (m->mtp) put_number(t, "num_nextn_predict_layers", m->mtp);
}

static void put_index(struct text *t, const struct indexer *x) {
  put_number(t, "index_n_heads", x->heads);
  put_number(t, "index_head_dim", x->dim);
  put_number(t, "index_topk", x->topk);
  if (x->every > 1) put_number(t, "index_topk_freq", x->every);
}

static void put_begin(struct text *t, const struct pz_run_model *m, const char *family,
                      const char *act) {
  put(t, "{\"model_type\":\"%s\",\"hidden_act\":\"%s\"", family, act);
  put_number(t, "hidden_size", m->hidden);
  put_number(t, "num_hidden_layers", m->layers);
  put_number(t, "num_attention_heads", m->heads);
  put_number(t, "num_key_value_heads", m->kv_heads);
  if (!m->kv_rank) put_number(t, "head_dim", m->head_dim);
  put_number(t, "intermediate_size", m->ffn);
  put_number(t, "vocab_size", m->vocab);
  put_number(t, "max_position_embeddings", m->seq);
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

/* A letter for each layer, all of `known`, into `to`: "MEM*E", or with parts that repeat,
 * "(LLL*)x10".  False: the pattern has other letters or another number of them. */
static bool read_letters(const struct pz_run_model *m, const char *known,
                         char to[PZ_MOST_MIXED_LAYERS + 1]) {
  size_t n = 0, layers = (size_t)m->layers;
  if (layers > PZ_MOST_MIXED_LAYERS) return false;
  for (const char *at = m->layers_as; *at;) {
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
static bool put_mamba(struct text *t, const struct pz_run_model *m, char *why) {
  static const char *const names[] = {"heads", "head_dim", "state", "groups", "conv", "chunk"};
  static const char *const keys[] = {"mamba_num_heads", "mamba_head_dim", "ssm_state_size",
                                     "n_groups",        "conv_kernel",    "chunk_size"};
  enum { N = sizeof names / sizeof *names };
  int64_t v[N];
  char letters[PZ_MOST_MIXED_LAYERS + 1];
  if (!read_named(m->ssm + strlen("mamba2:"), names, v, N))
    return refuse(why,
                  "ssm '%.60s' is not covered; accepted: mamba2:heads=N,head_dim=N,state=N,"
                  "groups=N,conv=N,chunk=N",
                  m->ssm);
  if (!is_mlp(m, "relu2"))
    return refuse(why, "mlp '%.40s' of a model with Mamba-2 layers is not covered; accepted: relu2",
                  m->mlp);
  if (!read_letters(m, "M*E-", letters))
    return refuse(why,
                  "layer_pattern '%.60s' of %lld layers is not covered; accepted: a letter for "
                  "each, M, *, E or -, or (ME*)xN",
                  m->layers_as, (long long)m->layers);
  if (m->experts && !m->shared_experts)
    return refuse(why, "experts without a shared one beside Mamba-2 layers are not covered");
  put_begin(t, m, "nemotron_h", "relu2");
  put(t, ",\"mlp_hidden_act\":\"relu2\",\"hybrid_override_pattern\":\"%s\"", letters);
  for (size_t i = 0; i < N; i++) put_number(t, keys[i], v[i]);
  if (m->experts) {
    put_number(t, "n_routed_experts", m->experts);
    put_number(t, "num_experts_per_tok", m->topk);
    put_number(t, "moe_intermediate_size", m->expert_ffn ? m->expert_ffn : m->ffn);
    put_number(t, "n_shared_experts", m->shared_experts);
    put_number(t, "moe_shared_expert_intermediate_size",
               m->shared_ffn ? m->shared_ffn : m->shared_experts * m->expert_ffn);
  }
  if (m->moe_latent) put_number(t, "moe_latent_size", m->moe_latent);
  if (m->mtp) {
    put_number(t, "num_nextn_predict_layers", m->mtp);
    put(t, ",\"mtp_hybrid_override_pattern\":\"*%c\"", m->experts ? 'E' : '-');
  }
  put(t, "}");
  return true;
}

/* Every n-th layer has attention; else a list, which is longer. */
static void put_delta_layers(struct text *t, const char *letters) {
  size_t every = strcspn(letters, "*") + 1, i = 0;
  while (letters[i] && (letters[i] == '*') == ((i + 1) % every == 0)) i++;
  if (!letters[i]) {
    put_number(t, "full_attention_interval", (int64_t)every);
    return;
  }
  put(t, ",\"layer_types\":");
  for (i = 0; letters[i]; i++)
    put(t, "%c\"%s_attention\"", i ? ',' : '[', letters[i] == 'L' ? "linear" : "full");
  put(t, "]");
}

/* Qwen3-Next and Qwen3.5: delta nets (L) and attention (*), each with a feed-forward. */
static bool put_delta(struct text *t, const struct pz_run_model *m, char *why) {
  static const char *const names[] = {"key_heads", "value_heads", "key_dim", "value_dim", "conv"};
  static const char *const keys[] = {"linear_num_key_heads", "linear_num_value_heads",
                                     "linear_key_head_dim", "linear_value_head_dim",
                                     "linear_conv_kernel_dim"};
  enum { N = sizeof names / sizeof *names };
  int64_t v[N];
  char letters[PZ_MOST_MIXED_LAYERS + 1];
  if (!read_named(m->ssm + strlen("gdn:"), names, v, N))
    return refuse(why,
                  "ssm '%.60s' is not covered; accepted: gdn:key_heads=N,value_heads=N,"
                  "key_dim=N,value_dim=N,conv=N",
                  m->ssm);
  if (!read_letters(m, "L*", letters) || !is_mlp(m, "swiglu"))
    return refuse(why,
                  "layer_pattern '%.40s' of %lld layers with mlp %.20s is not covered; "
                  "accepted: L or * for each, or (LLL*)xN, with swiglu",
                  m->layers_as, (long long)m->layers, m->mlp);
  put_begin(t, m, m->experts ? "qwen3_5_moe_text" : "qwen3_5_text", "silu");
  put_delta_layers(t, letters);
  for (size_t i = 0; i < N; i++) put_number(t, keys[i], v[i]);
  if (m->experts) {
    put_number(t, "num_experts", m->experts);
    put_number(t, "num_experts_per_tok", m->topk);
    put_number(t, "moe_intermediate_size", m->expert_ffn ? m->expert_ffn : m->ffn);
    put_number(t, "shared_expert_intermediate_size",
               m->shared_ffn ? m->shared_ffn : m->shared_experts * m->expert_ffn);
  }
  if (m->mtp) put_number(t, "num_nextn_predict_layers", m->mtp);
  put(t, "}");
  return true;
}

/* ---- the others ---- */

/* GPT's shape, with experts or without, whose head is the embedding except in plain PyTorch
 * models. */
static void put_gpt(struct text *t, const struct pz_run_model *m) {
  put(t, "{\"model_type\":\"gpt2\"");
  put_number(t, "n_embd", m->hidden);
  put_number(t, "n_layer", m->layers);
  put_number(t, "n_head", m->heads);
  put_number(t, "n_inner", m->ffn);
  put_number(t, "vocab_size", m->vocab);
  put_number(t, "n_positions", m->seq);
  if (m->kv_heads) put_number(t, "num_key_value_heads", m->kv_heads);
  if (m->experts) put_experts(t, m);
  put(t, ",\"tie_word_embeddings\":%s}", m->own_head ? "false" : "true");
}

/* gpt-oss's experts are as wide as its configuration says of the feed-forward. */
static void put_windows(struct text *t, const struct pz_run_model *m, int64_t window) {
  put_begin(t, m, "gpt_oss", "silu");
  put_number(t, "num_local_experts", m->experts);
  put_number(t, "num_experts_per_tok", m->topk);
  put_number(t, "sliding_window", window);
  put(t, "}");
}

/* Which of the families a row has: with latent attention DeepSeek's, and GLM-5's where layers
 * share an indexer; with experts alone Qwen3's; plain PyTorch and shared experts beside ordinary
 * attention the plain decoder; else Llama. */
static const char *family_of(const struct pz_run_model *m) {
  struct indexer x;
  if (m->kv_rank && has_index(m, &x)) return x.every > 1 ? "glm_moe_dsa" : "deepseek_v32";
  if (m->kv_rank) return "deepseek_v3";
  if (m->plain) return "decoder";
  if (m->experts) return m->shared_experts || m->dense_layers ? "decoder" : "qwen3_moe";
  return "llama";
}

/* Rows with a gated feed-forward are Llama's shape or one of its descendants, others GPT's. */
static bool put_transformer(struct text *t, const struct pz_run_model *m, char *why) {
  bool silu = is_mlp(m, "swiglu"), geglu = is_mlp(m, "geglu");
  double shared_ffn = (double)m->expert_ffn * (double)m->shared_experts;
  struct indexer indexer;
  bool sparse = has_index(m, &indexer);
  if (sparse && !m->kv_rank)
    return refuse(why,
                  "layer_pattern '%.60s' without latent attention is not covered; accepted: "
                  "with column mla",
                  m->layers_as);
  if (m->moe_latent) return refuse(why, "moe_latent without Mamba-2 layers is not covered");
  if (m->shared_ffn && (double)m->shared_ffn != shared_ffn)
    return refuse(why,
                  "shared_ffn %lld is not covered; accepted: expert_ffn x shared_experts, %.0f",
                  (long long)m->shared_ffn, shared_ffn);
  if (geglu && strcmp(family_of(m), "decoder") == 0)
    return refuse(why, "mlp geglu with shared experts or dense layers is not covered; "
                       "accepted: swiglu");
  if (is_mlp(m, "relu2")) return refuse(why, "mlp relu2 without Mamba-2 layers is not covered");
  if (!silu && !geglu && !m->plain && !m->kv_rank && !m->shared_experts && !m->dense_layers)
    return put_gpt(t, m), true;
  put_begin(t, m, family_of(m), silu ? "silu" : "gelu");
  if (m->kv_rank) put_latent(t, m);
  if (sparse) put_index(t, &indexer);
  if (m->experts) put_experts(t, m);
  put(t, "}");
  return true;
}

bool pz_run_model_config(const struct pz_run_model *m, char *config, char *why) {
  struct text t = {.to = config, .bytes = PZ_RUN_CONFIG};
  struct indexer indexer;
  int64_t window = 0;
  bool alike = !*m->layers_as || strcmp(m->layers_as, "none") == 0 || has_index(m, &indexer);
  bool put_all;
  if (strncmp(m->ssm, "mamba2:", 7) == 0)
    put_all = put_mamba(&t, m, why);
  else if (strncmp(m->ssm, "gdn:", 4) == 0)
    put_all = put_delta(&t, m, why);
  else if (pz_run_model_hybrid(m))
    return refuse(why, "ssm '%.60s' is not covered; accepted: none, mamba2:..., gdn:...", m->ssm);
  else if (has_windows(m, &window) && m->experts && !m->shared_experts)
    put_windows(&t, m, window), put_all = true;
  else if (!alike)
    return refuse(why,
                  "layer_pattern '%.40s' is not covered; accepted: none, window N in every second "
                  "layer, sinks, DSA: indexer NxN top N; with ssm a letter for each layer, or "
                  "(LLL*)xN",
                  m->layers_as);
  else
    put_all = put_transformer(&t, m, why);
  return put_all && t.n >= t.bytes ? refuse(why, "the model's shape is too long") : put_all;
}
