/* Training frameworks: how each of them executes a plan, and which values it uses for fields that
 * the user leaves unset.  A framework is a row of frameworks.def.  Which plans it can run at all is
 * decided in framework_rules.h. */
#ifndef PZ_PLAN_FRAMEWORK_H
#define PZ_PLAN_FRAMEWORK_H

#include "workload/passes.h"

/* How the gradients of a weight are accumulated over the microbatches of a step. */
enum pz_accumulation {
  PZ_ACCUMULATION_FP32,  /* a separate kernel adds the 16-bit gradient to an fp32 sum */
  PZ_ACCUMULATION_FUSED, /* the GEMM that computes the weight gradient adds to the fp32 sum */
  PZ_ACCUMULATION_KEPT /* 16-bit gradients are zeroed and added to, also with a single microbatch */
};

/* Memory that the loss keeps besides the 16-bit logits. */
enum pz_loss {
  PZ_LOSS_IN_PLACE, /* none: the derivative overwrites the logits */
  PZ_LOSS_BESIDE,   /* the derivative, in 16 bit */
  PZ_LOSS_FP32      /* an fp32 copy of the logits, which is saved instead of them */
};

/* The sets of rules in framework_rules.def.  Each framework follows one of them; nothing is known
 * about the rules of PZ_RULES_OTHERS. */
enum pz_rule_set {
  PZ_RULES_OTHERS,
  PZ_RULES_CORE = 1, /* Megatron Core */
  PZ_RULES_TITAN = 2,
  PZ_RULES_DEEPSPEED = 4,
  PZ_RULES_MAXTEXT = 8,
  PZ_RULES_AUTOMODEL = 16
};

/* Groups of similar frameworks: a measured run of one of them tells how accurate predictions for
 * the others are. */
enum pz_framework_family {
  PZ_FAMILY_MEGATRON,
  PZ_FAMILY_FSDP,
  PZ_FAMILY_DEEPSPEED,
  PZ_FAMILY_XLA,
  PZ_FAMILY_LOOP /* plain training loops in PyTorch */
};

struct pz_framework {
  const char *name;
  enum pz_rule_set rules;
  enum pz_framework_family family;

  /* execution */
  bool dropout;            /* trains with the dropout rates of the model, otherwise with none */
  enum pz_kernels kernels; /* how element-wise operators are fused */
  enum pz_accumulation accumulation;
  const char *attention; /* flash-attention library that it always uses, or NULL if the plan's */
  bool stops_early;      /* recomputation ends before the last GEMM (torch.utils.checkpoint) */
  double
      launches_per_op; /* kernels launched per operator of the graph, or 0 if compiled as a whole */
  int free_overlap; /* overlap that a search may switch on besides the default, by flags without cost */
  bool zero_bubble;      /* has the zero-bubble pipeline orders */
  bool dualpipe;         /* has DualPipe instead of ZB-V */
  bool shards_stages;    /* can combine ZeRO 2 and 3 with several pipeline stages */
  bool node_gather;      /* gathers sharded weights through one network interface per node */
  int recompute_modules; /* modules (enum pz_module) that selective recomputation has by default */

  /* experts */
  bool fp8_dispatch;             /* tokens are sent to experts in 8 bit if GEMMs are in 8 bit */
  enum pz_dispatcher dispatcher; /* the default dispatcher of tokens */
  /* > 0: each expert accepts this multiple of its even share of a sample's tokens, and tokens are
   * dispatched by GEMMs with one-hot matrices. */
  double capacity_factor;
  /* Kernels of router and all-to-all preparation, forward; 0: as in the graph. */
  double router_kernels;
  bool launches_per_expert; /* grouped GEMMs are launched one by one, by token counts on the host */
  double expert_launches; /* extra host time of a pass through a layer with experts, in launches */
  /* Extra HBM bytes of the token permutation per 16-bit element sent to an expert, forward; a
   * backward pass moves twice as much. */
  double routed_bytes;
  double routed_saved_bytes; /* extra bytes saved per element of the experts' results */
  /* Collectives of experts have cores of their own, which compute cannot use. */
  bool reserves_cores;

  /* bytes per parameter that the optimizer and sharding move */
  double optimizer_bytes;                       /* read and written in the step of Adam */
  double gather_copy_bytes, scatter_copy_bytes; /* copied on the device per gathered weight, and per
                                                   scattered gradient (ZeRO 3) */

  /* memory; bytes are per parameter unless noted */
  double state_bytes;  /* weights, gradients and optimizer state together */
  double weight_bytes; /* of state_bytes: weights; gradients need up to 4, the optimizer the rest */
  enum pz_gradients gradients; /* where the backward pass stores the gradients of a layer */
  bool placeholder_gradients;  /* a 16-bit gradient of every matrix of a layer stays allocated */
  double reserve_bytes;        /* work space of libraries on each device, in all */
  bool transformer_engine;     /* runs kernels of Transformer Engine, which has more work space */
  bool plain_decoders; /* has its own plain decoder models (family "decoder" of src/workload) */
  /* The vocabulary is padded to a multiple of this per device, or 0 if it is not. */
  int64_t vocab_multiple;
  enum pz_loss loss;
  bool offloads_gradients;       /* gradients are on the host where the optimizer state is */
  bool exchanges_sums;           /* gradients are accumulated in the precision of their exchange */
  double expert_moment_bytes;    /* bytes of a moment of Adam in models with experts; 0: 4 */
  double moment_bytes;           /* bytes of a moment of Adam in other models; 0: 4 */
  enum pz_saved_form fp8_saves;  /* activations saved by layers with 8-bit GEMMs */
  double fp8_weight_bytes;       /* 8-bit copies of weights, besides weight_bytes */
  enum pz_fp8_recipe fp8_recipe; /* default of 8-bit GEMMs where chip or framework lack mxfp8 */
  bool adapters;                 /* trains low-rank adapters of frozen models */
  /* > 0: optimizer state of an adapter parameter, without a master copy. */
  double adapter_state_bytes;

  /* Values of plan fields that a user leaves unset.  Sequence parallelism is on wherever tp > 1. */
  struct pz_framework_defaults {
    enum pz_recomputation recompute;
    int zero;
    int overlap;
    enum pz_execution execution;
    enum pz_attention attention;
    double grad_bytes;
    const char *attention_library; /* NULL if the fastest that the chip is calibrated for */
  } plan;
};

/* Returns the framework at a position of pz_framework_names.  A position out of range, as in a plan
 * that has not been filled, gives the first framework. */
const struct pz_framework *pz_framework_at(int i);

/* Returns whether programs are compiled as a whole (XLA): no kernels are launched one by one,
 * collectives run beside compute, and recomputed results that nothing reads are left out. */
bool pz_framework_compiles(const struct pz_framework *framework);

#endif
