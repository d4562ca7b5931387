/* Reader of Megatron-LM's arguments: from the values of arguments to the model, as a config.json of
 * the family that has its shape.
 *
 * pz_read_megatron_model() checks that the shape is one that is covered (check_shape), reads its
 * numbers (read_shape) and writes the configuration (write_config).  Families are Llama (Qwen2 with
 * biases of query, key and value only, Qwen3 with norms of query and key), GPT-2 (with rotary
 * positions GPT-NeoX without its parallel residual), with experts Mixtral, Qwen3 and DeepSeek-V3
 * (latent attention), and the hybrids Nemotron-H (--hybrid-layer-pattern) and Qwen3-Next (gated
 * delta net). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/num.h"
#include "launch/megatron_reader.h"
#include "plan/model_shape.h"

/* The numbers of a model's shape. */
struct shape {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, expert_ffn, vocab, positions;
  double hidden_dropout, attention_dropout;
  /* a character for each layer, '1' if it has experts and otherwise '0'; NULL if the model has no
   * experts, or is a hybrid, whose layer pattern states them */
  const char *expert_layers;
};

/* ---- layers of hybrids ---------------------------------------------------------------------- */

/* Reads the layer pattern of a hybrid, such as "MEME|ME-/EE": a letter for each layer (M for Mamba,
 * * for attention, E for experts, - for a dense feed-forward), bars between chunks of the pipeline,
 * and after each slash the letters of a layer of multi-token prediction, which must be the same
 * after all slashes. */
void pz_read_layer_letters(struct pz_megatron_reader *reader) {
  static const char accepted[] = "a letter M, *, E or - for each layer, bars between stages, and "
                                 "behind each slash one and the same layer that predicts";
  struct pz_given_argument *pattern = &reader->given[ARG_PATTERN];
  struct pz_given_argument *layers = &reader->given[ARG_LAYERS];
  struct pz_given_argument *predict = &reader->given[ARG_PREDICT_LAYERS];
  if (!pattern->is_given) return;
  size_t length = strcspn(pattern->text, "/");
  int64_t n_layers = 0, n_predict = 0;
  char *letters = pz_alloc(reader->call, length + 1, 1);
  for (size_t i = 0; i < length; i++) {
    if (!strchr("M*E-|", pattern->text[i])) pz_reject_given(reader, ARG_PATTERN, accepted);
    if (pattern->text[i] == '|') continue;
    letters[n_layers] = pattern->text[i];
    n_layers++;
  }
  reader->layer_letters = letters;
  reader->prediction_letters = "";
  enum { MOST_PREDICTION_LETTERS = 8 };
  const char *slash = strchr(pattern->text, '/');
  for (; slash; slash = strchr(slash + 1, '/')) {
    size_t n = strcspn(slash + 1, "/");
    if (n > MOST_PREDICTION_LETTERS) n = MOST_PREDICTION_LETTERS;
    const char *predicting = pz_format(reader->call, "%.*s", (int)n, slash + 1);
    bool is_read = *predicting && strspn(predicting, "M*E-") == strlen(predicting);
    bool differs = n_predict && strcmp(predicting, reader->prediction_letters) != 0;
    if (!is_read || differs) pz_reject_given(reader, ARG_PATTERN, accepted);
    reader->prediction_letters = predicting;
    n_predict++;
  }
  bool agrees = pz_given_count(reader, ARG_LAYERS, n_layers) == n_layers &&
                (!n_predict || pz_given_count(reader, ARG_PREDICT_LAYERS, n_predict) == n_predict);
  if (!n_layers || n_layers > PZ_MOST_MIXED_LAYERS || !agrees)
    pz_reject_given(reader, ARG_PATTERN,
                    "as many layers as --num-layers and --mtp-num-layers, 1 to 1024");
  /* The pattern stands for --num-layers and --mtp-num-layers, also in messages. */
  if (!layers->is_given) {
    *layers = *pattern;
    layers->count = n_layers;
  }
  if (n_predict && !predict->is_given) {
    *predict = *pattern;
    predict->count = n_predict;
  }
}

/* ---- layers with experts -------------------------------------------------------------------- */

/* A list in Python's notation that is being read: a sum of repeated lists, ([0]*3+[1]*58). */
struct layer_list {
  const char *at; /* the next character of the text */
  char *layers;   /* 0 or 1 for each layer so far */
  size_t n, most; /* number of layers so far, and its limit */
  int depth;      /* number of open parentheses */
};

/* Skips the character `c` and the blanks around it.  Returns false if another character is next. */
static bool skip_character(struct layer_list *list, char c) {
  list->at += strspn(list->at, " ");
  if (*list->at != c) return false;
  list->at++;
  list->at += strspn(list->at, " ");
  return true;
}

static bool read_list_sum(struct layer_list *list);

/* Appends a list [0,1,...] or a sum in parentheses.  Returns false if the text is neither. */
static bool read_list_term(struct layer_list *list) {
  enum { MOST_DEPTH = 8 };
  if (skip_character(list, '(')) {
    if (list->depth == MOST_DEPTH) return false;
    list->depth++;
    if (!read_list_sum(list) || !skip_character(list, ')')) return false;
    list->depth--;
    return true;
  }
  if (!skip_character(list, '[')) return false;
  do {
    if ((*list->at != '0' && *list->at != '1') || list->n == list->most) return false;
    list->layers[list->n++] = *list->at;
    list->at++;
  } while (skip_character(list, ','));
  return skip_character(list, ']');
}

/* Appends a sum of terms, each of which may be multiplied by a number.  Returns false if the text
 * is something else, or has too many layers. */
static bool read_list_sum(struct layer_list *list) {
  do {
    size_t from = list->n; /* the first layer of the term */
    if (!read_list_term(list)) return false;
    if (!skip_character(list, '*')) continue;
    size_t digits = strspn(list->at, "0123456789"), length = list->n - from;
    if (!digits || digits > 7) return false;
    unsigned long times = strtoul(list->at, NULL, 10);
    if (times > list->most || from + length * times > list->most) return false;
    for (size_t i = 1; i < times; i++)
      memcpy(list->layers + from + i * length, list->layers + from, length);
    list->n = from + length * times;
    list->at += digits;
  } while (skip_character(list, '+'));
  return true;
}

/* Returns a text with 1 for each layer that has experts and 0 for the others: every n-th layer from
 * the first one on, or those of a list.  By default all layers have experts. */
static const char *read_expert_layers(struct pz_megatron_reader *reader) {
  static const char accepted[] = "a number of layers, or a list with 0 or 1 for each layer";
  enum { MOST_LAYERS = 65536 };
  const struct pz_given_argument *given = &reader->given[ARG_EXPERT_LAYERS];
  const char *text = given->is_given ? given->text : "1";
  size_t layers = (size_t)reader->given[ARG_LAYERS].count;
  if (layers > MOST_LAYERS) pz_reject_given(reader, ARG_LAYERS, "at most 65536");
  struct layer_list list = {
      .at = text, .layers = pz_alloc(reader->call, layers + 1, 1), .most = layers};
  size_t digits = strspn(text, "0123456789");
  if (digits && !text[digits]) {
    unsigned long period = digits < 8 ? strtoul(text, NULL, 10) : 0;
    if (!period) pz_reject_given(reader, ARG_EXPERT_LAYERS, accepted);
    for (size_t i = 0; i < layers; i++) list.layers[i] = i % period ? '0' : '1';
    return list.layers;
  }
  bool is_list = read_list_sum(&list) && !*list.at && list.n == layers;
  if (!is_list) pz_reject_given(reader, ARG_EXPERT_LAYERS, accepted);
  return list.layers;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* Raises an error unless a hybrid with Mamba layers has the shape of a Nemotron-H. */
static void check_nemotron(struct pz_megatron_reader *reader, bool has_rms_norm) {
  bool is_nemotron = pz_given(reader, ARG_SQUARED_RELU) && !pz_given(reader, ARG_SWIGLU) &&
                     has_rms_norm && pz_given(reader, ARG_NO_BIAS) &&
                     pz_given_is(reader, ARG_POSITION_TYPE, "none") &&
                     !pz_given(reader, ARG_QK_NORM) && !pz_given(reader, ARG_LATENT_ATTENTION);
  if (!is_nemotron)
    pz_reject_given(reader, ARG_PATTERN,
                    "with it --squared-relu, --normalization RMSNorm, --disable-bias-linear and "
                    "--position-embedding-type none, as Nemotron has them");
  bool has_expert_letter = strchr(reader->layer_letters, 'E') != NULL;
  if (has_expert_letter != pz_has_experts(reader))
    pz_reject_given(reader, ARG_PATTERN, "a letter E with --num-experts, and none without");
  if (pz_has_experts(reader))
    pz_need_given(reader, ARG_SHARED_FFN, "moe-shared-expert-intermediate-size");
}

/* Raises an error if a model has experts, latent attention, norms of query and key, or multi-token
 * prediction in a combination, or with other properties, that no family of models covers. */
static void check_recent_shape(struct pz_megatron_reader *reader) {
  bool experts = pz_has_experts(reader), norms = pz_given(reader, ARG_QK_NORM);
  bool latent = pz_given(reader, ARG_LATENT_ATTENTION);
  bool delta = pz_given(reader, ARG_ATTENTION_VARIANT); /* a hybrid with gated delta nets */
  bool predicts = reader->run->plan.mtp;
  bool biases = !pz_given(reader, ARG_NO_BIAS) || pz_given(reader, ARG_QKV_BIAS);
  bool is_gated_delta_net = norms && pz_given(reader, ARG_OUT_GATE) &&
                            pz_given_is(reader, ARG_ATTENTION_VARIANT, "gated_delta_net");
  if (delta && !is_gated_delta_net)
    pz_reject_given(reader, ARG_ATTENTION_VARIANT,
                    "gated_delta_net with --qk-layernorm and --attention-output-gate");
  if (latent && pz_given(reader, ARG_GROUP_QUERY))
    pz_reject_given(reader, ARG_GROUP_QUERY,
                    "--group-query-attention or --multi-latent-attention, not both");
  if (!experts && !norms && !latent && !predicts) return;
  const char *property = "multi-token prediction";
  if (norms) property = "norms of query and key";
  if (latent) property = "latent attention";
  if (experts) property = "experts";
  if (!pz_given(reader, ARG_SWIGLU) || biases)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: %s in a model with %s is not covered; accepted: with --swiglu and "
             "--disable-bias-linear, without --add-qkv-bias",
             reader->name, property, biases ? "biases" : "gelu");
  bool lacks_experts = latent && !experts, lacks_latent = predicts && !latent && !delta;
  if (lacks_experts || lacks_latent)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s: %s without %s is not covered; accepted: with it",
             reader->name, latent ? "--multi-latent-attention" : "--mtp-num-layers",
             latent ? "--num-experts" : "--multi-latent-attention");
}

/* Raises an error unless the model has a shape that is covered: GPT, Llama, or a known hybrid. */
static void check_shape(struct pz_megatron_reader *reader) {
  static const int mamba[] = {ARG_SPEC,           ARG_SQUARED_RELU, ARG_MAMBA_HEADS,
                              ARG_MAMBA_HEAD_DIM, ARG_MAMBA_STATE,  ARG_MAMBA_GROUPS,
                              ARG_MOE_LATENT};
  static const int delta[] = {ARG_SHARED_GATE,   ARG_DELTA_PERIOD,    ARG_DELTA_CONV,
                              ARG_DELTA_KEY_DIM, ARG_DELTA_VALUE_DIM, ARG_DELTA_KEYS,
                              ARG_DELTA_VALUES,  ARG_OUT_GATE};
  bool gated = pz_given(reader, ARG_SWIGLU), delta_net = pz_given(reader, ARG_ATTENTION_VARIANT);
  /* Megatron-LM and Megatron-DeepSpeed spell RMSNorm differently. */
  bool rms = pz_given_is(reader, ARG_NORM, "RMSNorm") || pz_given_is(reader, ARG_NORM, "rmsnorm");
  bool rotary = pz_given_is(reader, ARG_POSITION_TYPE, "rope") || pz_given(reader, ARG_ROTARY);
  pz_need_given(reader, ARG_HIDDEN, "hidden-size");
  pz_need_given(reader, ARG_HEADS, "num-attention-heads");
  /* arguments that are covered only for hybrids with Mamba layers, or with gated delta nets */
  for (size_t i = 0; i < sizeof mamba / sizeof *mamba && !reader->layer_letters; i++)
    pz_refuse_uncovered(reader, mamba[i]);
  for (size_t i = 0; i < sizeof delta / sizeof *delta && !delta_net; i++)
    pz_refuse_uncovered(reader, delta[i]);
  if (reader->layer_letters) {
    check_nemotron(reader, rms);
    return;
  }
  /* other models are GPT or Llama, which differ in activation, norm and positions */
  if (!rms && !pz_given_is(reader, ARG_NORM, "layernorm"))
    pz_need_given_word(reader, ARG_NORM, "LayerNorm or RMSNorm");
  pz_need_given_word(reader, ARG_POSITION_TYPE, "learned_absolute or rope");
  if (gated != rms || (gated && !rotary))
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: a model with %s, %s and %s is not covered; accepted: GPT (gelu, LayerNorm) "
             "or Llama (--swiglu, --normalization RMSNorm, --position-embedding-type rope)",
             reader->name, gated ? "swiglu" : "gelu", rms ? "RMSNorm" : "LayerNorm",
             rotary ? "rotary positions" : "learned positions");
  int64_t heads = reader->given[ARG_HEADS].count;
  if (!gated && pz_given_count(reader, ARG_KV_HEADS, heads) != heads)
    pz_reject_given(reader, ARG_KV_HEADS, "--num-attention-heads, or with --swiglu");
  if (!gated && pz_given(reader, ARG_GROUP_QUERY) && reader->given[ARG_QUERY_GROUPS].count != heads)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: --group-query-attention with gelu is not covered; accepted: with --swiglu",
             reader->name, reader->given[ARG_GROUP_QUERY].line);
  check_recent_shape(reader);
}

/* Raises an error unless a model with experts has the shape of a family: DeepSeek-V3 with latent
 * attention, Qwen3 with norms of query and key, otherwise Mixtral. */
static void check_experts(struct pz_megatron_reader *reader, const struct shape *shape) {
  const char *layers = shape->expert_layers;
  int64_t experts = reader->given[ARG_EXPERTS].count;
  int64_t shared_ffn = pz_given_count(reader, ARG_SHARED_FFN, 0);
  bool latent = pz_given(reader, ARG_LATENT_ATTENTION), norms = pz_given(reader, ARG_QK_NORM);
  if (pz_given_count(reader, ARG_TOPK, 2) > experts)
    pz_reject_given(reader, ARG_EXPERTS, "at least the top k");
  if (experts % reader->run->plan.ep)
    pz_reject_given(reader, PZ_PLAN_EP, "a number that divides the experts");
  if (latent) {
    bool dense_after_experts = strchr(layers + strspn(layers, "0"), '0') != NULL;
    if (dense_after_experts)
      pz_reject_given(reader, ARG_EXPERT_LAYERS,
                      "dense layers at the start alone, with latent attention");
    if (shared_ffn % shape->expert_ffn)
      pz_reject_given(reader, ARG_SHARED_FFN, "a multiple of --moe-ffn-hidden-size");
    if (!norms)
      pz_megatron_add_note(reader,
                           "no --qk-layernorm: norms of the latent queries, keys and values are "
                           "predicted all the same");
    pz_need_given(reader, ARG_KV_RANK, "kv-lora-rank");
  } else if (pz_given(reader, ARG_ATTENTION_VARIANT)) {
    pz_need_given(reader, ARG_SHARED_FFN, "moe-shared-expert-intermediate-size");
  } else if (shared_ffn) {
    pz_reject_given(reader, ARG_SHARED_FFN, "with it --multi-latent-attention");
  } else if (!norms && strchr(layers, '0')) {
    pz_reject_given(reader, ARG_EXPERT_LAYERS,
                    "experts in every layer, or --qk-layernorm or --multi-latent-attention");
  }
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Returns the size of the vocabulary, before padding: the prediction pads it for every plan
 * (vocab_multiple in frameworks.def).  If the arguments state the padded size, or another multiple
 * than the usual one, it returns the size that is padded for the run's own plan. */
static int64_t read_vocab(struct pz_megatron_reader *reader) {
  static const struct {
    const char *tokenizer;
    int64_t vocab;
  } tokenizers[] = {{"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}};
  int64_t tokenizer_vocab = 0, vocab = reader->options->vocab;
  if (!vocab && pz_given(reader, ARG_PADDED_VOCAB)) return reader->given[ARG_PADDED_VOCAB].count;
  for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++)
    if (pz_given_is(reader, ARG_TOKENIZER, tokenizers[i].tokenizer))
      tokenizer_vocab = tokenizers[i].vocab;
  if (!vocab) vocab = pz_given_count(reader, ARG_VOCAB, tokenizer_vocab);
  if (!vocab)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: the size of the vocabulary is not stated; accepted: --vocab N, or "
             "--vocab-size or --padded-vocab-size among the arguments",
             reader->name);
  static const int64_t USUAL_MULTIPLE = 128; /* Megatron's default, which the prediction pads to */
  int64_t multiple = pz_given_count(reader, ARG_VOCAB_MULTIPLE, USUAL_MULTIPLE);
  if (multiple == USUAL_MULTIPLE) return vocab;
  int64_t padded_multiple = multiple * reader->run->plan.tp;
  return pz_ceil_div(vocab, padded_multiple) * padded_multiple;
}

/* Reads the numbers of the shape, with Megatron's defaults for arguments that are not given. */
static void read_shape(struct pz_megatron_reader *reader, struct shape *shape) {
  static const double DROPOUT = 0.1; /* Megatron's default */
  const struct pz_given_argument *hidden_dropout = &reader->given[ARG_HIDDEN_DROPOUT];
  const struct pz_given_argument *dropout = &reader->given[ARG_ATTENTION_DROPOUT];
  int64_t hidden = reader->given[ARG_HIDDEN].count, heads = reader->given[ARG_HEADS].count;
  bool gated = pz_given(reader, ARG_SWIGLU), grouped = pz_given(reader, ARG_GROUP_QUERY);
  bool has_head_dim = pz_given(reader, ARG_KV_CHANNELS);
  bool latent = pz_given(reader, ARG_LATENT_ATTENTION);
  /* 4 times the hidden size, or if gated 8/3 of it in multiples of 64 (arguments.py) */
  int64_t default_ffn = gated ? hidden * 8 / 3 / 64 * 64 : 4 * hidden;
  int64_t seq = pz_given_count(reader, PZ_PLAN_SEQ, 0);
  *shape =
      (struct shape){.layers = reader->given[ARG_LAYERS].count,
                     .hidden = hidden,
                     .heads = heads,
                     .head_dim = pz_given_count(reader, ARG_KV_CHANNELS, hidden / heads),
                     .kv_heads = grouped ? pz_given_count(reader, ARG_QUERY_GROUPS, 1)
                                         : pz_given_count(reader, ARG_KV_HEADS, heads),
                     .ffn = pz_given_count(reader, ARG_FFN, default_ffn),
                     .positions = pz_given_count(reader, ARG_POSITIONS, seq),
                     .hidden_dropout = hidden_dropout->is_given ? hidden_dropout->real : DROPOUT,
                     .attention_dropout = dropout->is_given ? dropout->real : DROPOUT};
  if (!has_head_dim && !latent && hidden % heads)
    pz_reject_given(reader, ARG_HEADS, "a number that divides --hidden-size, or --kv-channels");
  if (!gated && !reader->layer_letters && shape->head_dim * heads != hidden)
    pz_reject_given(reader, ARG_KV_CHANNELS, "hidden-size / num-attention-heads, or with --swiglu");
  shape->vocab = read_vocab(reader);
  shape->expert_ffn = pz_given_count(reader, ARG_EXPERT_FFN, shape->ffn);
  if (!shape->expert_ffn)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: no --ffn-hidden-size among the arguments, and its default with --swiglu, 8/3 of "
             "--hidden-size %" PRId64 " in multiples of 64, is 0; state --ffn-hidden-size",
             reader->name, hidden);
  if (!pz_has_experts(reader) || reader->layer_letters) return;
  shape->expert_layers = read_expert_layers(reader);
  check_experts(reader, shape);
  /* written as Mixtral, whose layers all have experts, unless a norm of queries and keys or latent
   * attention requires another family */
  bool is_mixtral = !latent && !pz_given(reader, ARG_QK_NORM);
  if (is_mixtral) shape->ffn = shape->expert_ffn;
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* Writes a key of the configuration with an integer value. */
static void write_count(FILE *out, const char *key, int64_t n) {
  fprintf(out, ",\"%s\":%" PRId64, key, n);
}

/* Writes a key of the configuration with a truth value. */
static void write_truth(FILE *out, const char *key, bool on) {
  fprintf(out, ",\"%s\":%s", key, on ? "true" : "false");
}

/* Writes the keys of experts and of the layers without them; for DeepSeek-V3 also those of latent
 * attention and multi-token prediction. */
static void write_experts(const struct pz_megatron_reader *reader, const struct shape *shape,
                          FILE *out) {
  const char *layers = shape->expert_layers, *between = ",\"mlp_only_layers\":[";
  write_count(out, "num_experts_per_tok", pz_given_count(reader, ARG_TOPK, 2));
  write_count(out, "moe_intermediate_size", shape->expert_ffn);
  if (pz_given(reader, ARG_LATENT_ATTENTION)) { /* DeepSeek-V3 */
    write_count(out, "n_routed_experts", reader->given[ARG_EXPERTS].count);
    write_count(out, "n_shared_experts",
                pz_given_count(reader, ARG_SHARED_FFN, 0) / shape->expert_ffn);
    write_count(out, "first_k_dense_replace", (int64_t)strspn(shape->expert_layers, "0"));
    write_count(out, "n_group", pz_given_count(reader, ARG_EXPERT_GROUPS, 1));
    write_count(out, "topk_group", pz_given_count(reader, ARG_GROUP_TOPK, 1));
    if (pz_given(reader, ARG_Q_RANK))
      write_count(out, "q_lora_rank", reader->given[ARG_Q_RANK].count);
    else
      fputs(",\"q_lora_rank\":null", out);
    write_count(out, "kv_lora_rank", reader->given[ARG_KV_RANK].count);
    write_count(out, "qk_nope_head_dim", pz_given_count(reader, ARG_NOPE_DIM, 128));
    write_count(out, "qk_rope_head_dim", pz_given_count(reader, ARG_ROPE_DIM, 64));
    write_count(out, "v_head_dim", pz_given_count(reader, ARG_V_DIM, 128));
    write_count(out, "num_nextn_predict_layers", pz_given_count(reader, ARG_PREDICT_LAYERS, 0));
    return;
  }
  write_count(out, pz_given(reader, ARG_QK_NORM) ? "num_experts" : "num_local_experts",
              reader->given[ARG_EXPERTS].count);
  for (size_t i = 0; layers[i]; i++) {
    if (layers[i] == '1') continue;
    fprintf(out, "%s%zu", between, i);
    between = ",";
  }
  if (strchr(layers, '0')) fputc(']', out);
}

/* Writes the keys that all families but GPT-2 have. */
static void write_common_shape(const struct pz_megatron_reader *reader, const struct shape *shape,
                               FILE *out) {
  write_count(out, "hidden_size", shape->hidden);
  write_count(out, "num_attention_heads", shape->heads);
  write_count(out, "intermediate_size", shape->ffn);
  write_count(out, "vocab_size", shape->vocab);
  write_count(out, "max_position_embeddings", shape->positions);
  write_truth(out, "tie_word_embeddings", !pz_given(reader, ARG_UNTIED));
  fprintf(out, ",\"attention_dropout\":%g", shape->attention_dropout);
}

/* Writes the keys of Nemotron-H. */
static void write_nemotron(const struct pz_megatron_reader *reader, const struct shape *shape,
                           FILE *out) {
  int64_t head_dim = pz_given_count(reader, ARG_MAMBA_HEAD_DIM, 64);
  int64_t default_heads = pz_max(2 * shape->hidden / head_dim, 1);
  write_common_shape(reader, shape, out);
  write_count(out, "num_key_value_heads", shape->kv_heads);
  write_count(out, "head_dim", shape->head_dim);
  fprintf(out, ",\"hidden_dropout\":%g", shape->hidden_dropout);
  fprintf(out, ",\"hybrid_override_pattern\":\"%s\"", reader->layer_letters);
  write_count(out, "mamba_num_heads", pz_given_count(reader, ARG_MAMBA_HEADS, default_heads));
  write_count(out, "mamba_head_dim", head_dim);
  write_count(out, "ssm_state_size", pz_given_count(reader, ARG_MAMBA_STATE, 128));
  write_count(out, "n_groups", pz_given_count(reader, ARG_MAMBA_GROUPS, 8));
  write_count(out, "num_nextn_predict_layers", pz_given_count(reader, ARG_PREDICT_LAYERS, 0));
  if (*reader->prediction_letters)
    fprintf(out, ",\"mtp_hybrid_override_pattern\":\"%s\"", reader->prediction_letters);
  if (!pz_has_experts(reader)) return;
  write_count(out, "n_routed_experts", reader->given[ARG_EXPERTS].count);
  write_count(out, "num_experts_per_tok", pz_given_count(reader, ARG_TOPK, 2));
  write_count(out, "moe_intermediate_size", shape->expert_ffn);
  write_count(out, "moe_shared_expert_intermediate_size", reader->given[ARG_SHARED_FFN].count);
  if (pz_given(reader, ARG_MOE_LATENT))
    write_count(out, "moe_latent_size", reader->given[ARG_MOE_LATENT].count);
  write_count(out, "n_group", pz_given_count(reader, ARG_EXPERT_GROUPS, 1));
  write_count(out, "topk_group", pz_given_count(reader, ARG_GROUP_TOPK, 1));
}

/* Writes the keys of a hybrid of full attention and gated delta nets. */
static void write_delta_net(const struct pz_megatron_reader *reader, FILE *out) {
  double rotary_part = 1;
  if (pz_given(reader, ARG_ROTARY_PART))
    rotary_part = strtod(reader->given[ARG_ROTARY_PART].text, NULL);
  write_count(out, "full_attention_interval", pz_given_count(reader, ARG_DELTA_PERIOD, 4));
  write_count(out, "linear_conv_kernel_dim", pz_given_count(reader, ARG_DELTA_CONV, 4));
  write_count(out, "linear_key_head_dim", pz_given_count(reader, ARG_DELTA_KEY_DIM, 128));
  write_count(out, "linear_value_head_dim", pz_given_count(reader, ARG_DELTA_VALUE_DIM, 128));
  write_count(out, "linear_num_key_heads", pz_given_count(reader, ARG_DELTA_KEYS, 16));
  write_count(out, "linear_num_value_heads", pz_given_count(reader, ARG_DELTA_VALUES, 32));
  if (pz_has_experts(reader))
    write_count(out, "shared_expert_intermediate_size", reader->given[ARG_SHARED_FFN].count);
  if (rotary_part >= 0 && rotary_part <= 1)
    fprintf(out, ",\"partial_rotary_factor\":%g", rotary_part);
  write_count(out, "mtp_num_hidden_layers", pz_given_count(reader, ARG_PREDICT_LAYERS, 0));
}

/* Writes a model of the Llama family, or a GPT-NeoX if its activation is not gated. */
static void write_llama(const struct pz_megatron_reader *reader, const struct shape *shape,
                        FILE *out) {
  bool latent = pz_given(reader, ARG_LATENT_ATTENTION), biases = !pz_given(reader, ARG_NO_BIAS);
  write_count(out, "num_hidden_layers", shape->layers);
  write_common_shape(reader, shape, out);
  if (!pz_given(reader, ARG_SWIGLU)) {
    fprintf(out,
            ",\"hidden_act\":\"gelu\",\"hidden_dropout\":%g,\"rotary_pct\":1.0,"
            "\"use_parallel_residual\":false",
            shape->hidden_dropout);
    return;
  }
  fputs(",\"hidden_act\":\"silu\"", out);
  write_count(out, "num_key_value_heads", latent ? shape->heads : shape->kv_heads);
  if (!latent) write_count(out, "head_dim", shape->head_dim);
  bool is_qwen2 = pz_given(reader, ARG_QKV_BIAS) && !biases;
  if (pz_has_experts(reader) || is_qwen2) return;
  write_truth(out, "attention_bias", biases);
  write_truth(out, "mlp_bias", biases);
}

/* Returns the model as the text of a config.json. */
static const char *write_config(const struct pz_megatron_reader *reader,
                                const struct shape *shape) {
  bool norms = pz_given(reader, ARG_QK_NORM), experts = pz_has_experts(reader);
  bool gated = pz_given(reader, ARG_SWIGLU), delta_net = pz_given(reader, ARG_ATTENTION_VARIANT);
  bool rotary = pz_given_is(reader, ARG_POSITION_TYPE, "rope") || pz_given(reader, ARG_ROTARY);
  const char *family = norms ? "qwen3" : "llama";
  if (reader->layer_letters)
    family = "nemotron_h";
  else if (delta_net)
    family = experts ? "qwen3_next" : "qwen3_5_text";
  else if (experts && pz_given(reader, ARG_LATENT_ATTENTION))
    family = "deepseek_v3";
  else if (experts)
    family = norms ? "qwen3_moe" : "mixtral";
  else if (!gated)
    family = rotary ? "gpt_neox" : "gpt2";
  else if (pz_given(reader, ARG_QKV_BIAS) && pz_given(reader, ARG_NO_BIAS))
    family = "qwen2";
  struct pz_buffer *config = pz_buffer_new(reader->call);
  FILE *out = pz_buffer_open(reader->call, config);
  fprintf(out, "{\"model_type\":\"%s\"", family);
  if (reader->layer_letters)
    write_nemotron(reader, shape, out);
  else if (gated || rotary)
    write_llama(reader, shape, out);
  else {
    write_count(out, "n_embd", shape->hidden);
    write_count(out, "n_layer", shape->layers);
    write_count(out, "n_head", shape->heads);
    write_count(out, "n_inner", shape->ffn);
    write_count(out, "vocab_size", shape->vocab);
    write_count(out, "n_positions", shape->positions);
    fprintf(out, ",\"resid_pdrop\":%g,\"embd_pdrop\":%g,\"attn_pdrop\":%g", shape->hidden_dropout,
            shape->hidden_dropout, shape->attention_dropout);
    write_truth(out, "tie_word_embeddings", !pz_given(reader, ARG_UNTIED));
  }
  if (shape->expert_layers) write_experts(reader, shape, out);
  if (delta_net) write_delta_net(reader, out);
  fputc('}', out);
  pz_buffer_flush(reader->call, out);
  const char *text = pz_copy_text(reader->call, config->text);
  pz_close(reader->call, config);
  return text;
}

/* Reads the model from the arguments into the run, as the text of a config.json. */
void pz_read_megatron_model(struct pz_megatron_reader *reader) {
  struct pz_run_plan *run = reader->run;
  struct shape shape;
  check_shape(reader);
  read_shape(reader, &shape);
  bool gated = pz_given(reader, ARG_SWIGLU);
  const char *kind = gated ? "Llama" : "GPT";
  if (shape.expert_layers) kind = "MoE";
  if (reader->layer_letters || pz_given(reader, ARG_ATTENTION_VARIANT)) kind = "hybrid";
  run->model =
      pz_format(reader->call, "%s %" PRId64 " x %" PRId64, kind, shape.layers, shape.hidden);
  run->config = write_config(reader, &shape);
  run->layers = shape.layers;
  run->vocab = shape.vocab;
  if (gated && shape.hidden_dropout > 0)
    pz_megatron_add_note(
        reader, "dropout of hidden states is not counted for Llama's shape (--hidden-dropout "
                "0 turns it off; Megatron's default is 0.1)");
}
