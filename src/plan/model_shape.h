/* The shape of a model as training frameworks and launch scripts need it: everything that its
 * config.json says, including values that do not change the operators of the graph, such as the
 * rotary base, the epsilon of norms, and the ranks of latent attention.  model_shape.c has a table
 * of the families for which launch scripts can be written. */
#ifndef PZ_PLAN_MODEL_SHAPE_H
#define PZ_PLAN_MODEL_SHAPE_H

#include "core/call.h"
#include "workload/arch.h"

enum pz_shape_family {
  PZ_SHAPE_GPT2, /* learned positions, LayerNorm, GELU, biases */
  PZ_SHAPE_LLAMA,
  PZ_SHAPE_MIXTRAL,
  PZ_SHAPE_QWEN3, /* normalises queries and keys; with or without experts */
  PZ_SHAPE_DEEPSEEK_V3,
  PZ_SHAPE_NEMOTRON_H, /* each layer is Mamba-2, attention or feed-forward */
  PZ_SHAPE_QWEN3_NEXT, /* gated delta rule in most layers; with or without experts */
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
  int64_t positions; /* longest sequence that the model was trained for, in tokens */

  /* experts */
  int64_t experts, topk;      /* number of experts, and experts per token; 0 in a dense model */
  int64_t expert_ffn;         /* width of an expert, or 0 in a dense model */
  int64_t shared_ffn;         /* width of all shared experts together, or 0 if none */
  int64_t dense_layers;       /* number of layers at the start that have no experts */
  int64_t groups, group_topk; /* groups of experts, and groups per token; 0 if none */
  double routed_scale;        /* factor of the sum of the routed experts' results */
  int64_t predict_layers;     /* layers of multi-token prediction, or 0 if none */
  bool predict_repeats;       /* all prediction layers share the weights of one */
  int64_t latent;             /* width in which experts compute, or 0 if it is `hidden` */
  bool shared_gate;           /* the shared expert has a gate */
  bool sigmoid;               /* the router uses sigmoids and a bias instead of a softmax */

  /* recurrent layers */
  struct pz_recurrence recurrence; /* recurrence.heads is 0 if no layer is recurrent */
  /* One letter for each layer of a hybrid model, and for each layer of a prediction layer:
   * M Mamba-2, * attention, E experts, - dense feed-forward, L a block with the delta rule. */
  char pattern[PZ_MOST_MIXED_LAYERS + 1], predict[3];

  /* attention */
  int64_t q_rank, kv_rank; /* ranks of latent attention; kv_rank is 0 if it is not latent */
  int64_t nope_dim, rope_dim, v_dim; /* dimensions of a head of latent attention */
  double rotary_base;                /* 0 if no rotary positions */
  double rotary_part;                /* the fraction of each head that is rotated */
  enum pz_rope rope;
  double rope_factor;          /* factor by which the original context is extended */
  double rope_original;        /* the original context, in tokens */
  double rope_low, rope_high;  /* Llama 3.1: low_freq_factor and high_freq_factor */
  double rope_fast, rope_slow; /* YaRN: beta_fast and beta_slow, in rotations of the context */
  double rope_mscale, rope_mscale_all; /* YaRN: factors of the attention scores */
  bool qk_norm;                        /* queries and keys are normalised */
  bool out_gate;                       /* the result of attention has a gate */

  double norm_eps;
  double drop_attention, drop_hidden; /* dropout rates */
  bool tied;                          /* embedding and head share their weights */
  bool qkv_bias, bias;                /* biases of query, key and value; of all linear layers */
  bool gated;                         /* uses SwiGLU and RMSNorm */
  bool squared;                       /* uses squared ReLU and RMSNorm */
};

/* Returns whether a sequence of `seq` tokens exceeds the rotary positions that the model was
 * trained for, and its config.json does not scale them. */
bool pz_shape_exceeds_positions(const struct pz_model_shape *shape, int64_t seq);

/* Returns the factor by which Llama 3.1's method scales rotary positions for a sequence of `seq`
 * tokens: the model's own, or for a longer sequence the smallest power of two that is sufficient.
 * 0 means that they are not scaled. */
double pz_shape_rope_factor(const struct pz_model_shape *shape, int64_t seq);

/* Reads the shape of a built-in model, or of the config.json at a path.  The name is not copied.
 * Raises PZ_BAD_USE for a family or variant for which no launch script is known. */
void pz_load_model_shape(struct pz_call *call, const char *model, struct pz_model_shape *out);

/* Like pz_load_model_shape(), from the text of a config.json, which error messages call `name`. */
void pz_parse_model_shape(struct pz_call *call, const char *name, const char *text, size_t bytes,
                          struct pz_model_shape *out);

/* Reads the shape from the text of a config.json, or if config is NULL by the model's name.
 * Returns false for a family or variant for which no launch script is known. */
bool pz_try_model_shape(struct pz_call *call, const char *model, const char *config,
                        struct pz_model_shape *out);

/* Returns the shape of any model whose graph is known, with its number of repeated layers.  If no
 * launch script is known for the model, the family is PZ_SHAPE_OTHER. */
struct pz_model_shape pz_model_shape_or_other(struct pz_call *call, const char *model,
                                              const char *config,
                                              const struct pz_workload *workload, int64_t layers);

/* Returns the text of a config.json at a path, so that a model is read once for all plans.
 * Returns NULL for built-in models, ONNX files, and names that are not a path; loading the model
 * reports the latter. */
const char *pz_read_model_config(struct pz_call *call, const char *model);

#endif
