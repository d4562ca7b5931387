/* The shape of a model as training frameworks need it: what its config.json says, including what counting operators does not need (rotary
 * base, epsilon of norms, ranks of latent attention).  model_shape.c has a table of the families for which launch scripts are written. */
#ifndef PZ_PLAN_MODEL_SHAPE_H
#define PZ_PLAN_MODEL_SHAPE_H

#include "core/call.h"
#include "workload/arch.h"

enum pz_shape_family {
  PZ_SHAPE_GPT2, /* learned positions, LayerNorm, GELU, biases */
  PZ_SHAPE_LLAMA,
  PZ_SHAPE_MIXTRAL,
  PZ_SHAPE_QWEN3, /* norms of query and key; with experts or without */
  PZ_SHAPE_DEEPSEEK_V3,
  PZ_SHAPE_NEMOTRON_H, /* Mamba-2, attention and feed-forward as layers of their own */
  PZ_SHAPE_QWEN3_NEXT, /* gated delta rule in most layers; with experts or without */
  PZ_SHAPE_OTHER,      /* no launch script is known */
  PZ_SHAPE_FAMILIES
};

/* How rotary positions are scaled for long contexts. */
enum pz_rope { PZ_ROPE_PLAIN, PZ_ROPE_LLAMA3, PZ_ROPE_YARN, PZ_ROPE_OTHER };

/* Names of the families, as in config.json; NULL after the last. */
extern const char *const pz_shape_family_names[];

struct pz_model_shape {
  const char *name;
  enum pz_shape_family family;
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t positions; /* longest sequence */

  int64_t experts, topk, expert_ffn; /* 0: dense */
  int64_t shared_ffn;                /* width of the shared experts together; 0: none */
  int64_t dense_layers;              /* so many layers at the start have no experts */
  int64_t groups, group_topk;        /* of experts that a token may choose from; 0: any */
  double routed_scale;               /* of the routed experts' sum */
  int64_t predict_layers;            /* that predict further tokens; 0: none */
  bool predict_repeats;              /* all of them have the weights of one */

  int64_t latent;            /* width in which experts work; 0: hidden */
  bool shared_gate, sigmoid; /* the shared expert has a gate; the router has sigmoids and a bias */

  struct pz_recurrence recurrence; /* heads 0: none */
  /* of a hybrid a letter for each layer: M Mamba-2, * attention, E experts, - feed-forward, L a block with the delta
   * rule; and those that predict a further token */
  char pattern[PZ_MOST_MIXED_LAYERS + 1], predict[3];

  int64_t q_rank, kv_rank; /* latent attention; kv_rank 0: none */
  int64_t nope_dim, rope_dim, v_dim;

  double rotary_base; /* 0: no rotary positions */
  double rotary_part; /* of each head */
  enum pz_rope rope;
  double rope_factor, rope_original; /* longer by this than so many positions */
  double rope_low, rope_high;        /* Llama 3.1's frequency factors */
  double rope_fast,
      rope_slow; /* YaRN's rotations between which it goes over, and its factors of attention */
  double rope_mscale, rope_mscale_all;
  double norm_eps;
  double drop_attention, drop_hidden;
  bool tied;
  bool qkv_bias, bias; /* of query, key and value; of every linear layer */
  bool qk_norm;
  bool out_gate; /* of attention's result */
  bool gated;    /* SwiGLU and RMSNorm; else GELU and LayerNorm, or */
  bool squared;  /* squared ReLU and RMSNorm */
};

/* Is a sequence of `seq` tokens longer than the model's positions, which its config.json does not scale? */
bool pz_shape_exceeds_positions(const struct pz_model_shape *s, int64_t seq);

/* Returns the factor of Llama 3.1's scaling for a sequence of `seq` tokens: the model's own, or if the sequence is longer than its positions the
 * smallest sufficient power of two.  0: no scaling. */
double pz_shape_rope_factor(const struct pz_model_shape *s, int64_t seq);

/* Read the shape of a built-in model or of the config.json at a path, or from the text of a config.json, which `name` names.  Raise PZ_BAD_USE
 * for a family or variant for which no launch script is known.  The name is not copied. */
void pz_load_model_shape(struct pz_call *call, const char *model, struct pz_model_shape *out);
void pz_parse_model_shape(struct pz_call *call, const char *name, const char *text, size_t bytes,
                          struct pz_model_shape *out);

/* Reads the shape from the text of a config.json, or if config is NULL by the model's name.  Returns false for a family or
 * variant for which no launch script is known. */
bool pz_try_model_shape(struct pz_call *call, const char *model, const char *config,
                        struct pz_model_shape *out);

/* Returns the shape of any model whose graph is known, with its number of repeated layers.  If no launch script is known
 * for the model, the family is PZ_SHAPE_OTHER. */
struct pz_model_shape pz_model_shape_or_other(struct pz_call *call, const char *model,
                                              const char *config, const struct pz_workload *w,
                                              int64_t layers);

/* Returns the text of a config.json at a path, so that a model is read once for all plans.  NULL for built-in models,
 * ONNX files and names that are no path, which are reported when the model is loaded. */
const char *pz_read_model_config(struct pz_call *call, const char *model);

/* ---- for callers that return a status ---- */
PZ_NODISCARD enum pz_status pz_model_shape_load(const char *model, struct pz_model_shape *out,
                                                struct pz_error *err);
PZ_NODISCARD enum pz_status pz_model_shape_of(const char *model, const char *config,
                                              const struct pz_workload *w, int64_t layers,
                                              struct pz_model_shape *out);

#endif
