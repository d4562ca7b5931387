/* Training frameworks: how each runs a plan, and what it does where a user says nothing.  A framework is a row of
 * frameworks.def; what it can run at all is framework_rules.h. */
#ifndef PZ_PLAN_FRAMEWORK_H
#define PZ_PLAN_FRAMEWORK_H

#include "workload/passes.h"

/* How gradients of a weight are added up over microbatches. */
enum pz_accumulation {
  PZ_ACCUMULATION_FP32,  /* a kernel adds the 16-bit gradient to a sum in fp32 */
  PZ_ACCUMULATION_FUSED, /* the GEMM of the weight gradient does */
  PZ_ACCUMULATION_KEPT /* 16-bit gradients are set to zero and added to, with one microbatch too */
};

/* What a loss in one kernel holds of the logits. */
enum pz_loss {
  PZ_LOSS_IN_PLACE, /* its derivative takes the place of the 16-bit logits */
  PZ_LOSS_BESIDE,   /* its derivative stands beside them */
  PZ_LOSS_FP32      /* a copy in fp32 beside them, which is saved in their place */
};

/* Whose rules it has (framework_rules.def), as a set; OTHERS: of which nothing else is known. */
enum pz_rule_set {
  PZ_RULES_OTHERS,
  PZ_RULES_CORE = 1, /* Megatron Core */
  PZ_RULES_TITAN = 2,
  PZ_RULES_DEEPSPEED = 4,
  PZ_RULES_MAXTEXT = 8,
  PZ_RULES_AUTOMODEL = 16
};

/* Frameworks whose runs say something about each other. */
enum pz_framework_family {
  PZ_FAMILY_MEGATRON,
  PZ_FAMILY_FSDP,
  PZ_FAMILY_DEEPSPEED,
  PZ_FAMILY_XLA,
  PZ_FAMILY_LOOP
};

struct pz_framework {
  const char *name;
  enum pz_rule_set rules;
  bool dropout;            /* trains with the model's dropout; else without */
  enum pz_kernels kernels; /* how element-wise operators are fused */
  enum pz_accumulation accumulation;
  const char
      *attention;   /* the library whose flash attention it runs, whatever is asked; NULL: none */
  bool stops_early; /* recomputation ends before the last GEMM, as torch.utils.checkpoint */
  double launches_per_op; /* kernels for each operator of the graph */
  bool fp8_dispatch;      /* tokens go to experts in 8 bit where GEMMs are */
  double
      capacity_factor; /* > 0: experts have capacity for so many times their even share of a sample's tokens, and tokens go
                      there and back by GEMMs with matrices of zeros and ones */
  int recompute_modules; /* recomputed where nothing is asked: a set of enum pz_module */
  double
      router_kernels; /* of its router and the preparation of an all-to-all, forward; 0: those of the graph */
  double
      expert_launches; /* additional host time of one pass through a layer with experts, counted in kernel launches */
  double
      routed_bytes; /* additional HBM traffic of the token permutation in a forward pass, for each 16-bit element that is sent to an expert; a backward pass moves twice as much */
  bool
      launches_per_expert; /* grouped GEMMs are launched expert by expert, by numbers of tokens on the host */
  double optimizer_bytes; /* read and written for a parameter in the step of Adam */
  bool reserves_cores; /* collectives of experts have cores of their own, whether they run or not */
  /* copied on the device for a gathered parameter and for a gradient that is scattered (ZeRO 3) */
  double gather_copy_bytes, scatter_copy_bytes;
  double state_bytes; /* held for a parameter, weights and gradients included */
  enum pz_framework_family family;
  int free_overlap; /* overlap that a searched plan asks for besides its defaults: flags that cost nothing */
  bool zero_bubble;   /* runs zero-bubble pipelines ... */
  bool dualpipe;      /* ... and DualPipe in place of ZB-V */
  bool shards_stages; /* ZeRO 2 and 3 together with several stages */
  bool node_gather;   /* sharded weights are gathered through one interface of a node */

  /* memory */
  double
      weight_bytes; /* of state_bytes: the weights; gradients take up to 4, the optimizer the rest */
  enum pz_gradients gradients; /* where backward puts those of a layer */
  bool placeholder_gradients;  /* a 16-bit gradient of every matrix of a layer is kept allocated */
  double reserve_bytes;        /* work space of libraries ... */
  bool transformer_engine;     /* ... but Transformer Engine, whose kernels it runs */
  bool plain_decoders;         /* its models are plain decoders: family decoder */
  int64_t vocab_multiple;      /* vocabularies are padded to so many rows a device; 0: not */
  enum pz_dispatcher dispatcher; /* of the experts' tokens, where a user says nothing */
  enum pz_loss loss;
  bool
      offloads_gradients; /* of parameters whose optimizer state is on the host, gradients are too */
  double
      routed_saved_bytes; /* bytes saved for each element of the experts' results beside what the graph has */
  bool exchanges_sums; /* gradients are summed up in what is exchanged, a plan's grad_bytes each */
  double expert_moment_bytes;   /* of each moment in models with experts; 0: 4 */
  double moment_bytes;          /* in others; 0: 4 */
  enum pz_saved_form fp8_saves; /* activations of layers with 8-bit GEMMs */
  double fp8_weight_bytes;      /* copies of their weights beside weight_bytes */
  bool adapters;                /* it trains low-rank adapters of frozen models ... */
  double
      adapter_state_bytes; /* ... > 0: with so much optimizer state a parameter, and no master copy */
  enum pz_fp8_recipe fp8_recipe; /* of 8-bit GEMMs, where chip and framework have no mxfp8 */

  struct pz_framework_defaults {
    enum pz_recomputation recompute;
    int zero;
    int overlap;
    enum pz_execution execution;
    enum pz_attention attention;
    double grad_bytes;
    const char *attention_library; /* NULL: the chip's best */
  } plan; /* what it does where a user says nothing; sequence parallelism wherever tp > 1 */
};

/* By position in pz_framework_names. */
const struct pz_framework *pz_framework_at(int i);

/* Are its programs compiled as a whole (XLA)?  Nothing is launched, collectives run beside compute,
 * what nobody reads is not recomputed. */
bool pz_framework_compiles(const struct pz_framework *f);

#endif
