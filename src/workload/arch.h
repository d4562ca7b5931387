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
  PZ_ACT_RELU2, /* squared */
  PZ_ACT_SILU,
};

/* The first half of a block, which mixes tokens. */
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
  int64_t conv;    /* tokens that the convolution before the recurrence sees */
  int64_t chunk;   /* tokens that are computed at once */
  int64_t dt_rank; /* Mamba: width of the projection that the step sizes come from */
  bool conv_bias, proj_bias;
  int64_t norms; /* Mamba-2: number of parts of the result that have a norm each, or 0 if no norm */
};

/* Norms of query and key. */
enum pz_qk_norm {
  PZ_QK_NORM_NONE,
  PZ_QK_NORM_HEAD,  /* of each head, with one weight for all heads */
  PZ_QK_NORM_WIDTH, /* of all heads together */
  PZ_QK_NORM_PLAIN, /* of each head, without weights, after the rotary embedding */
};

/* How the weights of a token's experts follow from the router's logits. */
enum pz_router {
  PZ_ROUTER_SOFTMAX,        /* softmax over all experts, of which the largest weights are kept */
  PZ_ROUTER_SIGMOID,        /* sigmoid of each expert, of which the largest weights are kept */
  PZ_ROUTER_CHOSEN_SOFTMAX, /* softmax over the largest logits */
  PZ_ROUTER_CHOSEN_SIGMOID, /* sigmoid of each of the largest logits */
};

/* Properties of a layer in which the layers of one model can differ, as a set. */
enum {
  PZ_LAYER_LOCAL = 1,     /* attention within a window or a chunk, else over the whole sequence */
  PZ_LAYER_UNROTATED = 2, /* no rotary positions */
  PZ_LAYER_DENSE = 4,     /* a dense feed-forward in a model with experts */
  PZ_LAYER_RECURRENT = 8, /* the recurrence instead of attention */
  PZ_LAYER_NO_MIXER = 16, /* only the second half of a block */
  PZ_LAYER_NO_FFN = 32,   /* only the first half of a block */
  PZ_LAYER_REUSED = 64,   /* sparse attention to the keys that an earlier layer chose */
};

enum { PZ_PREDICT_OWN = 128 };

/* The kinds of layers that a model consists of. */
enum pz_part {
  PZ_PART_EMBEDDING,
  PZ_PART_BLOCK, /* of the decoder, or of the only stack */
  PZ_PART_ENCODER,
  PZ_PART_BRIDGE,  /* between encoder and decoder: last norm of one, embedding of the other */
  PZ_PART_PREDICT, /* multi-token prediction */
  PZ_PART_HEAD,
};

/* The most layers of a model whose layers differ. */
enum { PZ_MOST_MIXED_LAYERS = 1024 };

struct pz_arch {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t vocab_padding;   /* rows of the vocabulary that are padding */
  int64_t positions;       /* rows of a learned table, or the longest sequence of a rotary model */
  int64_t extra_positions; /* rows of that table before the first position */
  int64_t types;           /* segment embeddings (BERT) */
  int64_t embed_dim;   /* width of the token embedding: hidden, unless it is projected (OPT-350m) */
  int64_t rotary_dims; /* rotated values of each head, or 0 if no rotary embedding */
  int64_t window;      /* a token attends to so many tokens, itself included; 0: to all before it */
  int64_t chunk;       /* a token attends within chunks of so many tokens, or 0 if no chunks */
  int64_t default_seq;

  /* Latent attention (DeepSeek-V2, arXiv 2405.04434). head_dim is that of query and key, of which
   * rotary_dims are rotated, in the key once for all heads. */
  int64_t q_rank; /* values of the vector that queries come from, or 0 if the layer's input */
  int64_t
      kv_rank; /* values of the vector that keys and values come from, or 0 if ordinary attention */
  int64_t value_dim; /* of each head, or 0 if head_dim */

  /* Sparse attention (DeepSeek-V3.2, arXiv 2512.02556): an indexer of index_heads heads with
   * index_dim values each chooses index_topk keys for every token. */
  int64_t index_topk;  /* 0 if a token attends to all keys */
  int64_t index_heads; /* 0 if the keys are those that an earlier layer chose */
  int64_t index_dim;

  /* experts; ffn is the width of each */
  int64_t experts, experts_per_token; /* 0 if dense */
  int64_t shared_ffn; /* width of the expert that serves every token, or 0 if none */
  int64_t dense_ffn;  /* width of PZ_LAYER_DENSE layers */
  int64_t latent;     /* width in which the experts work, between two projections, or 0 if hidden */
  int64_t expert_groups; /* the experts of a token belong to at most so many groups; 0: to any */
  enum pz_router router;
  bool router_bias;
  bool plain_experts; /* two GEMMs with the activation between, no gate */
  bool shared_gate;   /* a gate of the token weights the shared expert's result */

  struct pz_recurrence recurrence; /* of PZ_LAYER_RECURRENT layers */
  enum pz_mixer mixer;             /* of this layer */
  bool beside;                     /* attention and recurrence in the same layer (Falcon-H1) */
  bool no_ffn;                     /* this layer has no feed-forward */

  bool mixed;                         /* the layers differ, as `kind` tells: */
  uint8_t kind[PZ_MOST_MIXED_LAYERS]; /* by layer: a set of PZ_LAYER_* */

  enum pz_part part;
  int64_t predict_layers; /* multi-token prediction */
  bool predict_repeats;   /* all of these layers share the weights of one */
  bool repeats_weights;   /* this layer has the weights of another one */
  unsigned predict_kind;  /* properties of their block, with PZ_PREDICT_OWN; 0: as the last block */
  int64_t encoder_layers; /* > 0: the model has an encoder and a decoder */
  int64_t buckets;        /* of relative positions (T5) */

  enum pz_act act;
  enum pz_qk_norm qk_norm;
  bool bidirectional; /* every token attends to every other */
  bool learned_positions;
  bool tied;        /* the head uses the table of the token embedding */
  bool pre_norm;    /* a norm before each half of a block; without both norms, after each sum */
  bool post_norm;   /* a norm after each half, before the sum */
  bool final_norm;  /* a norm before the head */
  bool scale_embed; /* the embedding is multiplied by a constant */
  bool parallel_residual; /* both halves of a block read the same input */
  bool one_norm;          /* parallel halves share one norm */
  bool rms_norm;          /* RMS norms, otherwise layer norms */
  bool norm_affine;       /* layer norms have a weight and a bias */
  bool embed_norm;        /* a norm after the embedding */
  bool head_transform;    /* the head has one more linear layer, activation and norm (BERT) */
  bool head_bias;
  bool stored_tables;                /* tables of rotary positions are not computed in each step */
  bool gated;                        /* the feed-forward has a gate */
  bool fused_qkv;                    /* one projection for query, key and value */
  bool fused_gate;                   /* one projection for gate and up */
  bool qkv_bias, out_bias, mlp_bias; /* of the projections */
  bool out_gate; /* a gate of the token, as wide as the query, weights attention's result */
  bool sinks;    /* attention has one more logit for each head */
  bool score_cap, logit_cap; /* cap * tanh(x / cap) */
  bool causal_mask_buffer;   /* eager code keeps a positions x positions mask in every layer */

  /* eager code */
  bool softmax_f32; /* converts to 32 bit for the softmax, and back */
  bool loss_f32;    /* converts the logits to 32 bit before the loss */
  bool scale_query; /* scales the query instead of the scores */

  double drop_embed, drop_attn, drop_hidden; /* dropout probabilities */
};

#endif
