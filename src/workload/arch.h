/* The shape of a transformer or hybrid model, as its configuration gives it.  A model family fills
 * it in (family.c), and the functions that build layers read it (parts.c). */
#ifndef PZ_WORKLOAD_ARCH_H
#define PZ_WORKLOAD_ARCH_H

#include <stdbool.h>
#include <stdint.h>

enum pz_act {
  PZ_ACT_GELU,
  PZ_ACT_GELU_TANH,
  PZ_ACT_GELU_FAST,
  PZ_ACT_RELU,
  PZ_ACT_RELU2, /* squared ReLU */
  PZ_ACT_SILU,
};

/* The kinds of the first half of a block, which mixes tokens. */
enum pz_mixer {
  PZ_MIXER_ATTENTION,
  PZ_MIXER_NONE,
  PZ_MIXER_MAMBA,  /* selective scan (Gu and Dao, arXiv 2312.00752) */
  PZ_MIXER_MAMBA2, /* scan in chunks, one decay for each head (Dao and Gu, arXiv 2405.21060) */
  PZ_MIXER_DELTA,  /* gated delta rule (Yang et al., arXiv 2412.06464) */
};

/* The recurrent layers of a hybrid model.  Each head passes a state of `state` x head_dim values
 * from token to token.  The heads of a group share what is written to the state and read from it (B
 * and C of Mamba-2, key and query of the delta rule). */
struct pz_recurrence {
  enum pz_mixer mixer;
  int64_t heads, head_dim, state, groups;
  int64_t conv_tokens; /* kernel width of the convolution before the recurrence */
  int64_t chunk;       /* tokens that the scan processes as one chunk */
  int64_t dt_rank;     /* Mamba: width of the projection from which the step sizes are computed */
  bool conv_bias, proj_bias;
  int64_t norms; /* Mamba-2: number of equal parts of the result that are normalized separately */
};

/* Norms of query and key. */
enum pz_qk_norm {
  PZ_QK_NORM_NONE,
  PZ_QK_NORM_HEAD,  /* each head is normalized; all heads share one weight vector */
  PZ_QK_NORM_WIDTH, /* all heads are normalized together */
  PZ_QK_NORM_PLAIN, /* each head is normalized after the rotary embedding, without weights */
};

/* The functions that convert the router's logits to the weights of a token's experts. */
enum pz_router {
  PZ_ROUTER_SOFTMAX,        /* softmax over all experts; the top-k weights are kept */
  PZ_ROUTER_SIGMOID,        /* sigmoid of each logit; the top-k weights are kept */
  PZ_ROUTER_CHOSEN_SOFTMAX, /* softmax over the top-k logits */
  PZ_ROUTER_CHOSEN_SIGMOID, /* sigmoid of each of the top-k logits */
};

/* Properties in which the layers of one model can differ.  A layer has a set of them. */
enum {
  PZ_LAYER_LOCAL = 1,     /* attention within a window or a chunk, not over the whole sequence */
  PZ_LAYER_UNROTATED = 2, /* attention without rotary positions */
  PZ_LAYER_DENSE = 4,     /* a dense feed-forward in a model with routed experts */
  PZ_LAYER_RECURRENT = 8, /* a recurrence instead of attention */
  PZ_LAYER_NO_MIXER = 16, /* no attention or recurrence: only the second half of a block */
  PZ_LAYER_NO_FFN = 32,   /* no feed-forward: only the first half of a block */
  PZ_LAYER_REUSED = 64,   /* sparse attention that reuses the keys chosen in an earlier layer */
};

/* Flag of predict_kind: prediction layers have properties of their own. */
enum { PZ_PREDICT_OWN = 128 };

/* The kinds of layers that a model consists of. */
enum pz_part {
  PZ_PART_EMBEDDING,
  PZ_PART_BLOCK,   /* a block of the decoder, or of a model with one stack */
  PZ_PART_ENCODER, /* a block of the encoder */
  PZ_PART_BRIDGE,  /* the last norm of the encoder, and the embedding of the decoder */
  PZ_PART_PREDICT, /* multi-token prediction */
  PZ_PART_HEAD,
};

/* The most layers of a model whose layers differ. */
enum { PZ_MOST_MIXED_LAYERS = 1024 };

struct pz_arch {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t vocab_padding;   /* rows of the vocabulary that are padding */
  int64_t positions;       /* rows of a learned table, or the longest sequence of a rotary model */
  int64_t extra_positions; /* rows of the learned table before the first position */
  int64_t segment_types;   /* rows of the segment embedding (BERT) */
  int64_t embed_dim;       /* width of the token embedding, which OPT-350m projects to hidden */
  int64_t rotary_dims;     /* rotated values of each head, or 0 without a rotary embedding */
  int64_t window; /* tokens of a sliding attention window, with the token itself, or 0 for all */
  int64_t chunk;  /* tokens of a chunk within which attention stays, or 0 without chunks */
  int64_t default_seq; /* tokens of a sequence if the user states no length */

  /* Latent attention (DeepSeek-V2, arXiv 2405.04434).  head_dim counts the values of a query or key
   * head, of which rotary_dims are rotated.  All heads share the rotated part of the key. */
  int64_t q_rank;    /* width of the latent query, or 0 if queries are projected directly */
  int64_t kv_rank;   /* width of the latent key and value, or 0 for ordinary attention */
  int64_t value_dim; /* values of a value head, or 0 for head_dim */

  /* Sparse attention (DeepSeek-V3.2, arXiv 2512.02556).  An indexer chooses the keys of a token. */
  int64_t index_topk;  /* keys that each token attends to, or 0 for all keys */
  int64_t index_heads; /* heads of the indexer, or 0 if the keys of an earlier layer are reused */
  int64_t index_dim;   /* values of a head of the indexer */

  /* Routed experts.  `ffn` is the width of each expert. */
  int64_t experts, experts_per_token; /* 0 for a dense model */
  int64_t shared_ffn;    /* width of the shared expert, which serves every token, or 0 */
  int64_t dense_ffn;     /* feed-forward width of PZ_LAYER_DENSE layers */
  int64_t expert_latent; /* width to which the experts' input is projected, or 0 for hidden */
  int64_t expert_groups; /* most groups that the experts of a token belong to, or 0 for no limit */
  enum pz_router router;
  bool router_bias;   /* the router's linear layer has a bias */
  bool plain_experts; /* experts have two GEMMs and no gate */
  bool shared_gate;   /* the shared expert's result is multiplied by a gate of the token */

  struct pz_recurrence recurrence; /* shape of PZ_LAYER_RECURRENT layers */
  enum pz_mixer mixer;             /* how this layer mixes tokens */
  bool parallel_mixers;            /* every layer adds attention and a recurrence (Falcon-H1) */
  bool no_ffn;                     /* this layer has no feed-forward */

  bool has_mixed_layers;                    /* the layers differ, and layer_kind is set */
  uint8_t layer_kind[PZ_MOST_MIXED_LAYERS]; /* PZ_LAYER_* set of each layer */

  enum pz_part part;      /* the part of the model that this layer is */
  int64_t predict_layers; /* layers of multi-token prediction */
  bool predict_repeats;   /* all prediction layers share one set of weights */
  bool repeats_weights;   /* this layer uses the weights of another layer */
  unsigned predict_kind;  /* PZ_LAYER_* set with PZ_PREDICT_OWN, or 0 for that of the last block */
  int64_t encoder_layers; /* blocks of the encoder, or 0 if the model has none */
  int64_t position_buckets; /* buckets of relative positions (T5) */

  enum pz_act act;
  enum pz_qk_norm qk_norm;
  bool bidirectional; /* every token attends to every other */
  bool learned_positions;
  bool tied;        /* the head uses the table of the token embedding */
  bool pre_norm;    /* a norm before each half of a block; without both norms, after each sum */
  bool post_norm;   /* a norm after each half of a block, before the residual sum */
  bool final_norm;  /* a norm before the head */
  bool scale_embed; /* the embedding is multiplied by a constant */
  bool parallel_residual; /* both halves of a block read the same input */
  bool shares_norm;       /* parallel halves of a block share one norm */
  bool rms_norm;          /* RMS norms instead of layer norms */
  bool norm_affine;       /* layer norms have a weight and a bias */
  bool embed_norm;        /* a norm after the embedding */
  bool head_transform;    /* a linear layer, activation and norm precede the logits (BERT) */
  bool head_bias;
  bool stored_tables; /* tables of rotary positions are stored, not computed in each step */
  bool gated_ffn;     /* the feed-forward has a gate */
  bool fused_qkv;     /* one projection computes query, key and value */
  bool fused_gate;    /* one projection computes gate and up */
  bool qkv_bias, out_bias, mlp_bias; /* the projections have biases */
  bool out_gate;        /* attention's result is multiplied by a gate of the query's width */
  bool attention_sinks; /* the softmax has one more logit for each head */
  bool caps_scores, caps_logits; /* values are capped to cap * tanh(value / cap) */
  bool causal_mask_buffer;       /* eager code keeps a positions x positions mask in every layer */

  /* Properties of eager code only. */
  bool softmax_f32; /* scores are converted to 32 bit for the softmax, and back */
  bool loss_f32;    /* logits are converted to 32 bit before the loss */
  bool scale_query; /* the query is scaled instead of the scores */

  double drop_embed, drop_attn, drop_hidden; /* dropout probabilities */
};

#endif
