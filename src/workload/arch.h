/* The shape of a transformer, as its configuration gives it.  Filled by a model family, read by the
 * parts (attention, feed-forward, norms) the family builds its layers from. */
#ifndef PZ_WORKLOAD_ARCH_H
#define PZ_WORKLOAD_ARCH_H

#include <stdbool.h>
#include <stdint.h>

enum pz_act { PZ_ACT_GELU, PZ_ACT_GELU_TANH, PZ_ACT_GELU_FAST, PZ_ACT_RELU, PZ_ACT_SILU };

struct pz_arch {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t positions; /* rows of a learned table, or the longest sequence of a rotary model */
  int64_t types;     /* BERT's segment embeddings */
  int64_t
      embed_dim; /* width of the token embedding where it is projected (OPT-350m), else hidden */
  int64_t rotary_dims;                /* of each head; 0: no rotary embedding */
  int64_t experts, experts_per_token; /* 0: dense */
  int64_t default_seq;

  enum pz_act act;
  bool bidirectional; /* every token attends to every other */
  bool learned_positions;
  bool tied;       /* the head uses the token embedding's table */
  bool pre_norm;   /* norm before the block's two halves, else after */
  bool final_norm; /* before the head */
  bool parallel_residual;
  bool norm_affine;
  bool fused_qkv;                    /* one projection for query, key and value */
  bool qkv_bias, out_bias, mlp_bias; /* of the projections */
  bool causal_mask_buffer; /* the eager implementation keeps a positions x positions mask in every
                              layer */

  /* what the eager implementation does */
  bool softmax_f32; /* softmax in 32 bit, then a cast */
  bool loss_f32;    /* logits converted to 32 bit before the loss */
  bool scale_query; /* scores are scaled through the query */

  double drop_embed, drop_attn, drop_hidden;
};

#endif
