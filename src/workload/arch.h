/* The shape of a transformer, as its configuration gives it.  Filled by a model family, read by the
 * parts (attention, feed-forward, norms) the family builds its layers from. */
#ifndef PZ_WORKLOAD_ARCH_H
#define PZ_WORKLOAD_ARCH_H

#include <stdbool.h>
#include <stdint.h>

enum pz_act {
  PZ_ACT_GELU,
  PZ_ACT_GELU_TANH,
  PZ_ACT_GELU_FAST,
  PZ_ACT_RELU,
  PZ_ACT_RELU2, /* squared */
  PZ_ACT_SILU,
};

/* What the first half of a block is, which mixes tokens. */
enum pz_mixer {
  PZ_MIXER_ATTENTION,
  PZ_MIXER_NONE,
  PZ_MIXER_MAMBA,  /* selective scan (Gu and Dao, arXiv 2312.00752) */
  PZ_MIXER_MAMBA2, /* scan in chunks, one decay for each head (Dao and Gu, arXiv 2405.21060) */
  PZ_MIXER_DELTA,  /* gated delta rule (Yang et al., arXiv 2412.06464) */
};

/* The recurrent layers of a hybrid.  Of each head a state of `state` x head_dim values is passed on; what
 * is written to it and read from it (B and C of Mamba-2, key and query of the delta rule) is common to the
 * heads of a group. */
struct pz_recurrence {
  enum pz_mixer mixer;
  int64_t heads, head_dim, state, groups;
  int64_t conv;    /* tokens that the convolution before it sees */
  int64_t chunk;   /* tokens that are multiplied at once */
  int64_t dt_rank; /* Mamba: width through which the steps are projected */
  bool conv_bias, proj_bias;
  int64_t norms; /* Mamba-2: parts of the result with a norm each; 0: none */
};

/* Norms of query and key. */
enum pz_qk_norm {
  PZ_QK_NORM_NONE,
  PZ_QK_NORM_HEAD,  /* of each head, one weight for all of them */
  PZ_QK_NORM_WIDTH, /* of all heads together */
  PZ_QK_NORM_PLAIN, /* of each head, without weights, after the rotary embedding */
};

/* How a token's experts get their weights. */
enum pz_router {
  PZ_ROUTER_SOFTMAX,        /* over all experts; the largest are kept */
  PZ_ROUTER_SIGMOID,        /* of each expert; the largest are kept */
  PZ_ROUTER_CHOSEN_SOFTMAX, /* the largest logits are kept; softmax over them */
  PZ_ROUTER_CHOSEN_SIGMOID, /* the largest logits are kept; sigmoid of each */
};

/* In what the layers of one model differ. */
enum {
  PZ_LAYER_LOCAL = 1,     /* attention within a window or a chunk, else over the whole sequence */
  PZ_LAYER_UNROTATED = 2, /* no rotary positions */
  PZ_LAYER_DENSE = 4,     /* a dense feed-forward in a model with experts */
  PZ_LAYER_RECURRENT = 8, /* the recurrence in place of attention */
  PZ_LAYER_NO_MIXER = 16, /* the second half of a block alone */
  PZ_LAYER_NO_FFN = 32,   /* the first half alone */
  PZ_LAYER_REUSED = 64,   /* attends to the keys that an earlier layer chose */
};

enum { PZ_PREDICT_OWN = 128 };

/* Which layer of a model. */
enum pz_part {
  PZ_PART_EMBEDDING,
  PZ_PART_BLOCK, /* of a decoder, or of the only stack */
  PZ_PART_ENCODER,
  PZ_PART_BRIDGE,  /* from encoder to decoder: the encoder's last norm, the decoder's embedding */
  PZ_PART_PREDICT, /* multi-token prediction */
  PZ_PART_HEAD,
};

/* The most layers of a model whose layers differ. */
enum { PZ_MOST_MIXED_LAYERS = 1024 };

struct pz_arch {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t vocab_padding;   /* of vocab: rows that are not the model's own */
  int64_t positions;       /* rows of a learned table, or the longest sequence of a rotary model */
  int64_t extra_positions; /* rows of that table before the first position */
  int64_t types;           /* BERT's segment embeddings */
  int64_t
      embed_dim; /* width of the token embedding where it is projected (OPT-350m), else hidden */
  int64_t rotary_dims; /* of each head; 0: no rotary embedding */
  int64_t window;      /* a token attends to so many, itself included; 0: to all before it */
  int64_t chunk;       /* a token attends to those of its chunk of the sequence; 0: no chunks */
  int64_t default_seq;

  /* latent attention (DeepSeek-V2, arXiv 2405.04434): queries through a vector of q_rank values
   * (0: directly), keys and values through one of kv_rank (0: ordinary attention); head_dim is that
   * of query and key, of which rotary_dims are rotated and common to all heads of the key */
  int64_t q_rank, kv_rank;
  int64_t value_dim; /* of each head; 0: head_dim */

  /* sparse attention (DeepSeek-V3.2, arXiv 2512.02556): a token attends to the index_topk keys that score highest by an
   * indexer of its own, with so many heads of so many values; heads 0: those of an earlier layer; topk 0: to all */
  int64_t index_topk, index_heads, index_dim;

  /* experts; ffn is the width of each */
  int64_t experts, experts_per_token; /* 0: dense */
  int64_t shared_ffn;                 /* of the expert that every token meets; 0: none */
  int64_t dense_ffn;                  /* of PZ_LAYER_DENSE layers */
  int64_t latent;        /* width in which the experts work, between two projections; 0: hidden */
  int64_t expert_groups; /* a token's experts are of at most so many groups; 0: of any */
  enum pz_router router;
  bool router_bias;
  bool plain_experts; /* two GEMMs with the activation between, no gate */
  bool shared_gate;   /* the shared expert's result is weighted by a gate of the token */

  struct pz_recurrence recurrence; /* of layers that are PZ_LAYER_RECURRENT */
  enum pz_mixer mixer;             /* of this layer */
  bool beside;                     /* the recurrence beside attention (Falcon-H1) */
  bool no_ffn;                     /* this layer has no feed-forward */

  bool mixed; /* layers differ: */
  uint8_t kind[PZ_MOST_MIXED_LAYERS];

  enum pz_part part;
  int64_t predict_layers; /* multi-token prediction */
  bool predict_repeats;   /* all of them have the weights of one */
  bool repeats_weights;   /* this layer has those of another */
  unsigned predict_kind;  /* properties of their block, with PZ_PREDICT_OWN; 0: as the last kind */
  int64_t encoder_layers; /* > 0: an encoder and a decoder */
  int64_t buckets;        /* of relative positions (T5) */

  enum pz_act act;
  enum pz_qk_norm qk_norm;
  bool bidirectional; /* every token attends to every other */
  bool learned_positions;
  bool tied;      /* the head uses the token embedding's table */
  bool pre_norm;  /* norm before the block's two halves; without this and the next after each sum */
  bool post_norm; /* norm after each half, inside the residual */
  bool final_norm;  /* before the head */
  bool scale_embed; /* the embedding is multiplied by a constant */
  bool parallel_residual;
  bool one_norm;       /* of parallel halves */
  bool rms_norm;       /* else layer norms, ... */
  bool norm_affine;    /* ... with a weight and a bias */
  bool embed_norm;     /* after the embedding */
  bool head_transform; /* the head has one more linear layer, activation and norm (BERT) */
  bool head_bias;
  bool stored_tables;                /* of rotary positions: not computed in a step */
  bool gated;                        /* the feed-forward has a gate */
  bool fused_qkv;                    /* one projection for query, key and value */
  bool fused_gate;                   /* one projection for gate and up */
  bool qkv_bias, out_bias, mlp_bias; /* of the projections */
  bool out_gate;             /* attention's result by a gate, as wide, of the query's projection */
  bool sinks;                /* attention has one more logit for each head */
  bool score_cap, logit_cap; /* cap * tanh(x / cap) */
  bool causal_mask_buffer;   /* the eager implementation keeps a positions x positions mask in every
                              layer */

  /* what the eager implementation does */
  bool softmax_f32; /* softmax in 32 bit, then a cast */
  bool loss_f32;    /* logits converted to 32 bit before the loss */
  bool scale_query; /* scores are scaled through the query */

  double drop_embed, drop_attn, drop_hidden;
};

#endif
