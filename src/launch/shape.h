/* The shape of a model as training frameworks ask for it: what its config.json says beyond what is
 * needed to count operators (rotary base, epsilon of norms, ranks of latent attention).  Families
 * that the frameworks' emitters know are a table in shape.c; every other is refused by its name. */
#ifndef PZ_LAUNCH_SHAPE_H
#define PZ_LAUNCH_SHAPE_H

#include "core/status.h"

enum pz_launch_family {
  PZ_LAUNCH_GPT2, /* learned positions, LayerNorm, GELU, biases */
  PZ_LAUNCH_LLAMA,
  PZ_LAUNCH_MIXTRAL,
  PZ_LAUNCH_QWEN3, /* norms of query and key; with experts or without */
  PZ_LAUNCH_DEEPSEEK_V3,
  PZ_LAUNCH_FAMILIES
};

/* Names of the families, as in config.json; NULL after the last. */
extern const char *const pz_launch_family_names[];

struct pz_launch_shape {
  enum pz_launch_family family;
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t positions; /* longest sequence */

  int64_t experts, topk, expert_ffn; /* 0: dense */
  int64_t shared_ffn;                /* width of the shared experts together; 0: none */
  int64_t dense_layers;              /* so many layers at the start have no experts */
  int64_t groups, group_topk;        /* of experts that a token may choose from; 0: any */
  double routed_scale;               /* of the routed experts' sum */
  int64_t predict_layers;            /* that predict further tokens; 0: none */

  int64_t q_rank, kv_rank; /* latent attention; kv_rank 0: none */
  int64_t nope_dim, rope_dim, v_dim;

  double rotary_base; /* 0: no rotary positions */
  double norm_eps;
  double drop_attention, drop_hidden;
  bool tied;
  bool qkv_bias, bias; /* of query, key and value; of every linear layer */
  bool qk_norm;
  bool gated; /* SwiGLU and RMSNorm; else GELU and LayerNorm */
};

/* The shape of a preset or of the config.json at a path.  PZ_BAD_USE for a family or a variant that
 * no emitter knows: the message says which are accepted. */
PZ_NODISCARD enum pz_status pz_launch_shape_load(const char *model, struct pz_launch_shape *out,
                                                 struct pz_error *err);

/* The same of a text. */
PZ_NODISCARD enum pz_status pz_launch_shape_parse(const char *name, const char *text, size_t bytes,
                                                  struct pz_launch_shape *out,
                                                  struct pz_error *err);

#endif
