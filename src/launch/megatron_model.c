/* The model of a Megatron run as a configuration: GPT's, Llama's, and those with experts. */
#include <inttypes.h>

#include "core/num.h"
#include "launch/megatron_reader.h"

struct shape {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, positions;
  bool gated, rotary, tied, biases, qkv_bias, qk_norm;
  bool latent; /* attention */
  double hidden_dropout, attention_dropout;
};

/* Vocabularies that a tokenizer's name fixes. */
static int64_t tokenizer_vocab(const struct pz_megatron_reader *r) {
  if (pz_megatron_says(r, PZ_ARG_TOKENIZER, "GPT2BPETokenizer")) return 50257;
  return pz_megatron_says(r, PZ_ARG_TOKENIZER, "Llama2Tokenizer") ? 32000 : 0;
}

/* Padded as Megatron does, so that each device has a multiple of 128 rows. */
static enum pz_status read_vocab(struct pz_megatron_reader *r, int64_t *out) {
  int64_t unit = pz_megatron_count(r, PZ_ARG_VOCAB_MULTIPLE, 128) * r->out->run.plan.tp;
  int64_t vocab =
      r->o->vocab ? r->o->vocab : pz_megatron_count(r, PZ_ARG_VOCAB, tokenizer_vocab(r));
  if (!r->o->vocab && pz_megatron_has(r, PZ_ARG_PADDED_VOCAB))
    return *out = r->g[PZ_ARG_PADDED_VOCAB].n, PZ_OK;
  if (!vocab)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: the size of the vocabulary is not stated; accepted: --vocab N, or "
                   "--vocab-size or --padded-vocab-size among the arguments",
                   r->name);
  *out = pz_ceil_div(vocab, unit) * unit;
  return PZ_OK;
}

/* Families with norms of query and key, experts or latent attention. */
static enum pz_status check_new_shape(struct pz_megatron_reader *r) {
  bool experts = pz_megatron_has_experts(r), norms = pz_megatron_has(r, PZ_ARG_QK_NORM);
  bool latent = pz_megatron_has(r, PZ_ARG_LATENT);
  bool biases = !pz_megatron_has(r, PZ_ARG_NO_BIAS) || pz_megatron_has(r, PZ_ARG_QKV_BIAS);
  if (!experts && !norms && !latent && !r->out->run.plan.mtp) return PZ_OK;
  const char *what = experts  ? "experts"
                     : latent ? "latent attention"
                     : norms  ? "norms of query and key"
                              : "multi-token prediction";
  if (!pz_megatron_has(r, PZ_ARG_SWIGLU) || biases)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: %s in a model with %s is not covered; accepted: with --swiglu and "
                   "--disable-bias-linear, without --add-qkv-bias",
                   r->name, what, biases ? "biases" : "gelu");
  if ((latent && !experts) || (r->out->run.plan.mtp && !latent))
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: %s without %s is not covered; accepted: with it",
                   r->name, latent ? "--multi-latent-attention" : "--mtp-num-layers",
                   latent ? "--num-experts" : "--multi-latent-attention");
  return PZ_OK;
}

static enum pz_status check_shape(struct pz_megatron_reader *r) {
  static const char *const norms[] = {"LayerNorm", "RMSNorm", NULL};
  static const char *const positions[] = {"learned_absolute", "rope", NULL};
  bool gated = pz_megatron_has(r, PZ_ARG_SWIGLU), rms = pz_megatron_says(r, PZ_ARG_NORM, "RMSNorm");
  bool rotary =
      pz_megatron_says(r, PZ_ARG_POSITION_TYPE, "rope") || pz_megatron_has(r, PZ_ARG_ROTARY);
  enum pz_status status = pz_megatron_need_word(r, PZ_ARG_NORM, norms, "LayerNorm or RMSNorm");
  if (status == PZ_OK)
    status = pz_megatron_need_word(r, PZ_ARG_POSITION_TYPE, positions, "learned_absolute or rope");
  if (status != PZ_OK) return status;
  if (gated != rms || (gated && !rotary))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: a model with %s, %s and %s is not covered; accepted: GPT (gelu, LayerNorm) "
                   "or Llama (--swiglu, --normalization RMSNorm, --position-embedding-type rope)",
                   r->name, gated ? "swiglu" : "gelu", rms ? "RMSNorm" : "LayerNorm",
                   rotary ? "rotary positions" : "learned positions");
  if (!gated && pz_megatron_has(r, PZ_ARG_GROUPED) && r->g[PZ_ARG_GROUPS].n != r->g[PZ_ARG_HEADS].n)
    return pz_fail(
        r->err, PZ_BAD_INPUT,
        "%s:%u: --group-query-attention with gelu is not covered; accepted: with --swiglu", r->name,
        r->g[PZ_ARG_GROUPED].line);
  return check_new_shape(r);
}

static enum pz_status read_shape(struct pz_megatron_reader *r, struct shape *x) {
  enum pz_status status = pz_megatron_need(r, PZ_ARG_LAYERS, "num-layers");
  if (status == PZ_OK) status = pz_megatron_need(r, PZ_ARG_HIDDEN, "hidden-size");
  if (status == PZ_OK) status = pz_megatron_need(r, PZ_ARG_HEADS, "num-attention-heads");
  if (status == PZ_OK) status = check_shape(r);
  if (status != PZ_OK) return status;
  bool gated = pz_megatron_has(r, PZ_ARG_SWIGLU);
  x->layers = r->g[PZ_ARG_LAYERS].n;
  x->hidden = r->g[PZ_ARG_HIDDEN].n;
  x->heads = r->g[PZ_ARG_HEADS].n;
  if (!pz_megatron_has(r, PZ_ARG_KV_CHANNELS) && !pz_megatron_has(r, PZ_ARG_LATENT) &&
      x->hidden % x->heads)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_HEADS],
                             "a number that divides --hidden-size, or --kv-channels");
  x->head_dim = pz_megatron_count(r, PZ_ARG_KV_CHANNELS, x->hidden / x->heads);
  x->kv_heads =
      pz_megatron_has(r, PZ_ARG_GROUPED) ? pz_megatron_count(r, PZ_ARG_GROUPS, 1) : x->heads;
  x->ffn = pz_megatron_count(r, PZ_ARG_FFN, gated ? x->hidden * 8 / 3 / 64 * 64 : 4 * x->hidden);
  x->positions = pz_megatron_count(r, PZ_ARG_POSITIONS, pz_megatron_count(r, PZ_ARG_SEQ, 0));
  x->gated = gated;
  x->rotary =
      pz_megatron_says(r, PZ_ARG_POSITION_TYPE, "rope") || pz_megatron_has(r, PZ_ARG_ROTARY);
  x->tied = !pz_megatron_has(r, PZ_ARG_UNTIED);
  x->biases = !pz_megatron_has(r, PZ_ARG_NO_BIAS);
  x->qk_norm = pz_megatron_has(r, PZ_ARG_QK_NORM);
  x->latent = pz_megatron_has(r, PZ_ARG_LATENT);
  x->qkv_bias = pz_megatron_has(r, PZ_ARG_QKV_BIAS);
  x->hidden_dropout =
      pz_megatron_has(r, PZ_ARG_HIDDEN_DROPOUT) ? r->g[PZ_ARG_HIDDEN_DROPOUT].real : 0.1;
  x->attention_dropout =
      pz_megatron_has(r, PZ_ARG_ATTENTION_DROPOUT) ? r->g[PZ_ARG_ATTENTION_DROPOUT].real : 0.1;
  if (!gated && x->head_dim * x->heads != x->hidden)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_KV_CHANNELS],
                             "hidden-size / num-attention-heads, or with --swiglu");
  return read_vocab(r, &x->vocab);
}

/* The model as a configuration: Llama's shape (Qwen2's with a bias on query, key and value alone), GPT-2's, or with
 * rotary positions GPT-NeoX's without its parallel residual. */
static const char *config_text(struct pz_arena *arena, const struct shape *x) {
  bool qkv_only = x->qkv_bias && !x->biases;
  const char *family = x->gated ? (qkv_only     ? "qwen2"
                                   : x->qk_norm ? "qwen3"
                                                : "llama")
                                : "gpt_neox";
  if (!x->gated && !x->rotary)
    return pz_arena_printf(
        arena,
        "{\"model_type\":\"gpt2\",\"n_embd\":%" PRId64 ",\"n_layer\":%" PRId64
        ",\"n_head\":%" PRId64 ",\"n_inner\":%" PRId64 ",\"vocab_size\":%" PRId64
        ",\"n_positions\":%" PRId64
        ",\"resid_pdrop\":%g,\"embd_pdrop\":%g,\"attn_pdrop\":%g,\"tie_word_embeddings\":%s}",
        x->hidden, x->layers, x->heads, x->ffn, x->vocab, x->positions, x->hidden_dropout,
        x->hidden_dropout, x->attention_dropout, x->tied ? "true" : "false");
  char *common = pz_arena_printf(
      arena,
      "\"model_type\":\"%s\",\"hidden_size\":%" PRId64 ",\"num_hidden_layers\":%" PRId64
      ",\"num_attention_heads\":%" PRId64 ",\"intermediate_size\":%" PRId64
      ",\"vocab_size\":%" PRId64 ",\"max_position_embeddings\":%" PRId64
      ",\"attention_dropout\":%g,\"tie_word_embeddings\":%s",
      family, x->hidden, x->layers, x->heads, x->ffn, x->vocab, x->positions, x->attention_dropout,
      x->tied ? "true" : "false");
  if (!common) return NULL;
  if (!x->gated)
    return pz_arena_printf(arena,
                           "{%s,\"hidden_act\":\"gelu\",\"hidden_dropout\":%g,\"rotary_pct\":1.0,"
                           "\"use_parallel_residual\":false}",
                           common, x->hidden_dropout);
  const char *bias = x->biases ? "true" : "false";
  return pz_arena_printf(arena,
                         "{%s,\"hidden_act\":\"silu\",\"num_key_value_heads\":%" PRId64
                         ",\"head_dim\":%" PRId64 "%s%s%s%s}",
                         common, x->kv_heads, x->head_dim,
                         qkv_only ? "" : ",\"attention_bias\":", qkv_only ? "" : bias,
                         qkv_only ? "" : ",\"mlp_bias\":", qkv_only ? "" : bias);
}

/* A configuration with experts: of the families that megatron_experts.c names. */
static enum pz_status expert_text(struct pz_megatron_reader *r, const struct shape *x,
                                  const char **out) {
  const char *family = NULL, *fields = NULL;
  enum pz_status status = pz_megatron_expert_config(r, &family, &fields);
  if (status != PZ_OK) return status;
  char *head = x->latent ? pz_arena_printf(r->arena, "%s", "")
                         : pz_arena_printf(r->arena, ",\"head_dim\":%" PRId64, x->head_dim);
  *out = head
             ? pz_arena_printf(r->arena,
                               "{\"model_type\":\"%s\",\"hidden_size\":%" PRId64
                               ",\"num_hidden_layers\":%" PRId64 ",\"num_attention_heads\":%" PRId64
                               ",\"num_key_value_heads\":%" PRId64 ",\"vocab_size\":%" PRId64
                               ",\"max_position_embeddings\":%" PRId64 ",\"attention_dropout\":%g"
                               ",\"tie_word_embeddings\":%s,\"hidden_act\":\"silu\"%s%s}",
                               family, x->hidden, x->layers, x->heads,
                               x->latent ? x->heads : x->kv_heads, x->vocab, x->positions,
                               x->attention_dropout, x->tied ? "true" : "false", head, fields)
             : NULL;
  return PZ_OK;
}

enum pz_status pz_megatron_read_model(struct pz_megatron_reader *r) {
  struct shape x = {.layers = 0};
  struct pz_run_plan *run = &r->out->run;
  enum pz_status status = read_shape(r, &x);
  if (status != PZ_OK) return status;
  bool experts = pz_megatron_has_experts(r);
  run->model = pz_arena_printf(r->arena, "%s %" PRId64 " x %" PRId64,
                               experts   ? "MoE"
                               : x.gated ? "Llama"
                                         : "GPT",
                               x.layers, x.hidden);
  if (experts)
    status = expert_text(r, &x, &run->config);
  else
    run->config = config_text(r->arena, &x);
  if (status != PZ_OK) return status;
  if (!run->model || !run->config) return pz_megatron_no_memory(r);
  r->out->layers = x.layers;
  r->out->vocab = x.vocab;
  if (x.gated && x.hidden_dropout > 0)
    status = pz_megatron_add_text(
        r, &r->notes,
        "dropout of hidden states is not counted for Llama's shape (--hidden-dropout "
        "0 turns it off; Megatron's default is 0.1)");
  return status == PZ_OK ? pz_megatron_mark(r, PZ_RUN_MODEL, PZ_ARG_LAYERS, PZ_ARG_LAYERS) : status;
}
