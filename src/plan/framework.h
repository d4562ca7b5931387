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
  PZ_ACCUMULATION_KEPT   /* 16-bit gradients are zeroed and summed, even with one microbatch */
};

/* Memory that the loss keeps besides the 16-bit logits. */
enum pz_loss {
  PZ_LOSS_IN_PLACE, /* no further memory: the derivative overwrites the logits */
  PZ_LOSS_BESIDE,   /* the derivative of the logits, in 16 bit */
  PZ_LOSS_FP32      /* an fp32 copy of the logits, which is saved instead of them */
};

/* The sets of rules in framework_rules.def.  Each framework follows one of them.
 * PZ_RULES_OTHERS are frameworks whose rules are not known. */
enum pz_rule_set {
  PZ_RULES_OTHERS,
  PZ_RULES_CORE = 1, /* Megatron Core */
  PZ_RULES_TITAN = 2,
  PZ_RULES_DEEPSPEED = 4,
  PZ_RULES_MAXTEXT = 8,
  PZ_RULES_AUTOMODEL = 16
};

/* Groups of frameworks for which predictions are similarly accurate. */
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
  bool dropout;            /* trains with the dropout rates of the model */
  enum pz_kernels kernels; /* how element-wise operators are fused */
  enum pz_accumulation accumulation;
  const char *attention;  /* flash-attention library, or NULL if the plan states it */
  bool stops_early;       /* recomputation leaves out the last GEMM (torch.utils.checkpoint) */
  double launches_per_op; /* kernels per operator of the graph, or 0 if all are compiled */
  int free_overlap;       /* overlaps that cost nothing and a search may switch on */
  bool zero_bubble;       /* offers the zero-bubble pipeline orders */
  bool dualpipe;          /* offers DualPipe instead of ZB-V */
  bool shards_stages;     /* can combine ZeRO 2 and 3 with several pipeline stages */
  bool node_gather;       /* gathers sharded weights through one network interface per node */
  int recompute_modules;  /* modules that selective recomputation recomputes by default */

  /* experts */
  bool fp8_dispatch;             /* tokens are sent to experts in 8 bit if GEMMs are in 8 bit */
  enum pz_dispatcher dispatcher; /* the default dispatcher of tokens */
  /* If above 0, each expert accepts this multiple of its even share of a sample's tokens, and
   * GEMMs with one-hot matrices dispatch the tokens. */
  double capacity_factor;
  /* Kernels of router and all-to-all preparation in a forward pass, or 0 for those of the graph. */
  double router_kernels;
  bool launches_per_expert; /* the host launches the GEMM of each expert, by its token count */
  double expert_launches;   /* extra host time per pass of a layer with experts, in launches */
  /* Extra HBM bytes of the token permutation in a forward pass, per 16-bit element sent to an
   * expert.  A backward pass moves twice as much. */
  double routed_bytes;
  double routed_saved_bytes; /* extra bytes saved per element of the experts' results */
  bool reserves_cores;       /* collectives of experts run on cores of their own */

  /* bytes per parameter that the optimizer and sharding move */
  double optimizer_bytes;    /* HBM bytes that a step of Adam reads and writes */
  double gather_copy_bytes;  /* bytes that the device copies per gathered weight (ZeRO 3) */
  double scatter_copy_bytes; /* bytes that the device copies per scattered gradient (ZeRO 3) */

  /* memory; bytes are per parameter unless noted */
  double state_bytes;          /* weights, gradients and optimizer state together */
  double weight_bytes;         /* part of state_bytes; gradients have up to 4 of the rest */
  enum pz_gradients gradients; /* where the backward pass stores the gradients of a layer */
  bool placeholder_gradients;  /* empty 16-bit gradients of a layer stay allocated */
  double reserve_bytes;        /* total work space of libraries on a device, bytes */
  bool transformer_engine;     /* runs kernels of Transformer Engine, which need more work space */
  bool plain_decoders;         /* trains plain decoder models (family "decoder" of src/workload) */
  int64_t vocab_multiple; /* the vocabulary is padded to a multiple of this x tp; 0: unpadded */
  enum pz_loss loss;
  bool offloads_gradients;       /* gradients are on the host if the optimizer state is */
  bool exchanges_sums;           /* gradients are accumulated in the precision of their exchange */
  double expert_moment_bytes;    /* bytes of an Adam moment in models with experts, 0 for 4 */
  double moment_bytes;           /* bytes of an Adam moment in other models, 0 for 4 */
  enum pz_saved_form fp8_saves;  /* how layers with 8-bit GEMMs save activations */
  double fp8_weight_bytes;       /* 8-bit copies of weights, besides weight_bytes */
  enum pz_fp8_recipe fp8_recipe; /* default of 8-bit GEMMs without mxfp8 */
  bool adapters;                 /* can train low-rank adapters of frozen models */
  double adapter_state_bytes;    /* optimizer state per adapter parameter without a master copy */

  /* Values of plan fields that a user leaves unset.  Sequence parallelism is on wherever tp > 1. */
  struct pz_framework_defaults {
    enum pz_recomputation recompute;
    int zero;
    int overlap;
    enum pz_execution execution;
    enum pz_attention attention;
    double grad_bytes;
    /* NULL selects the fastest library that the chip is calibrated for */
    const char *attention_library;
  } plan;
};

/* Returns the framework at a position of pz_framework_names.  A position out of range, as in a plan
 * that has not been filled, gives the first framework. */
const struct pz_framework *pz_framework_at(int i);

/* Returns whether programs are compiled as a whole (XLA): no kernels are launched one by one,
 * collectives run beside compute, and recomputed results that nothing reads are left out. */
bool pz_framework_compiles(const struct pz_framework *framework);

#endif
