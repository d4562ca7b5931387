/* The shape of a model as training frameworks ask for it: what its config.json says beyond what is
 * needed to count operators (rotary base, epsilon of norms, ranks of latent attention).  Families
 * for which launch scripts are written are a table in model_shape.c. */
#ifndef PZ_PLAN_MODEL_SHAPE_H
#define PZ_PLAN_MODEL_SHAPE_H

#include "core/status.h"
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

/* How rotary positions are stretched for long contexts. */
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

/* Has a run of so many tokens more than the model's positions, which its config.json does not stretch? */
bool pz_shape_outgrown(const struct pz_model_shape *s, int64_t seq);

/* The factor of Llama 3.1's scaling for a run of so many tokens: the model's own; where it is outgrown, the power of two
 * that reaches them; 0: none. */
double pz_shape_rope_factor(const struct pz_model_shape *s, int64_t seq);

/* The shape of a preset, of a config.json at a path, or of the text of one.  PZ_BAD_USE for a family or a
 * variant for which no launch script is known: the message says which are accepted.  The name is
 * not copied. */
PZ_NODISCARD enum pz_status pz_model_shape_load(const char *model, struct pz_model_shape *out,
                                                struct pz_error *err);
PZ_NODISCARD enum pz_status pz_model_shape_parse(const char *name, const char *text, size_t bytes,
                                                 struct pz_model_shape *out, struct pz_error *err);

/* The text of a config.json at a path, the caller's to pz_free; NULL for built-in models, for ONNX files, and for
 * what is no path (loading it says so).  With it a model is read once for all plans. */
PZ_NODISCARD enum pz_status pz_model_config(const char *model, char **text, struct pz_error *err);

/* The same of any model, of which a graph is at hand with so many repeated layers: PZ_SHAPE_OTHER where no launch
 * script is known.  PZ_NO_MEMORY. */
PZ_NODISCARD enum pz_status pz_model_shape_of(const char *model, const char *config,
                                              const struct pz_workload *w, int64_t layers,
                                              struct pz_model_shape *out);

#endif
