/* A training run as frameworks run it: what one plan takes, of time and of memory.
 *
 * Operators run one after another on a device (a stream), as fast as the chip's calibration says,
 * or as the host launches them, whichever is slower; collectives beside them only where the plan's
 * overlap says so; stages are simulated event by event (pipeline.h).  doc/predict.md has the model. */
#ifndef PZ_PLACE_TRAINING_H
#define PZ_PLACE_TRAINING_H

#include "cost/cost.h"
#include "place/pipeline.h"
#include "place/pipeline_order.h"

/* Of a stage. */
enum { PZ_PLAN_MOST_CHUNKS = 512 };

struct pz_training_plan {
  int64_t tp, pp, vpp, dp; /* devices = tp cp pp dp */
  int64_t cp;              /* context parallel: parts of a sample's tokens; 0: 1 */
  enum pz_context_form cp_form;
  int64_t ep, etp;  /* experts over ep devices, each over etp; 0: 1, and tp with ep 1, else 1 */
  double imbalance; /* rows of the device with most over the mean of the experts' devices; 0: 1 */
  enum pz_precision precision;
  bool sequence_parallel;
  int64_t mbs, batch; /* samples: of a microbatch, of a step */
  enum pz_recomputation recompute;
  int zero;                     /* 0 to 3: what is divided over the replicas */
  int64_t shard;                /* over so many of them; 0: all */
  enum pz_pipeline_order order; /* of a pipeline without chunks */
  unsigned overlap;
  enum pz_execution execution;
  double grad_bytes; /* of a gradient in the exchange */
  const struct pz_framework *framework;
  const char *attention_library;        /* fa1, fa2, cudnn ...; NULL: the chip's best */
  const struct pz_constants *constants; /* NULL: those of cost/constants.def */
  int64_t recompute_layers; /* full recomputation: of so many layers of each chunk; 0: of all */
  const int64_t *stage_recompute; /* the same by stage, 0: none of it; NULL: all stages alike */
  unsigned modules;               /* selective: of these (recompute.h); 0: the attention core */
  unsigned kept; /* full recomputation: products whose results are kept (recompute.h) */
  int64_t first_layers, last_layers; /* of the first and the last chunk; 0: by pz_plan_blocks */
};

/* Repeated layers of a chunk of the model (chunk % pp is its stage): first_layers and last_layers, and
 * the others even; without them even, but where they do not divide and would with two more, the first
 * and the last chunk, which have embedding and head, hold one less. */
int64_t pz_plan_blocks(const struct pz_training_plan *p, int64_t blocks, int64_t chunk);

/* Repeated layers of all chunks before it. */
int64_t pz_plan_start(const struct pz_training_plan *p, int64_t blocks, int64_t chunk);

/* Layers that are computed again, of a chunk with so many. */
int64_t pz_plan_again(const struct pz_training_plan *p, int64_t stage, int64_t blocks);

/* Microbatches of a replica: a batch that does not divide is rounded up, and so are microbatches to a
 * multiple of the stages where these are interleaved. */
int64_t pz_plan_rounds(const struct pz_training_plan *p);

/* How its layers lie over the stages, in which order microbatches run. */
struct pz_pipeline_shape pz_plan_shape(const struct pz_training_plan *p);

/* Is it a plan at all, and for a model with so many repeated layers?  PZ_BAD_USE says why not. */
PZ_NODISCARD enum pz_status pz_training_check(const struct pz_training_plan *p,
                                              struct pz_error *err);
PZ_NODISCARD enum pz_status pz_training_check_layers(const struct pz_training_plan *p,
                                                     int64_t blocks, struct pz_error *err);

static inline int64_t pz_plan_cp(const struct pz_training_plan *p) { return p->cp ? p->cp : 1; }

static inline int64_t pz_plan_devices(const struct pz_training_plan *p) {
  return p->tp * pz_plan_cp(p) * p->pp * p->dp;
}

/* Devices with the same weights: replicas, and parts of a context. */
static inline int64_t pz_plan_replicas(const struct pz_training_plan *p) {
  return p->dp * pz_plan_cp(p);
}

static inline int64_t pz_plan_ep(const struct pz_training_plan *p) { return p->ep ? p->ep : 1; }

static inline int64_t pz_plan_etp(const struct pz_training_plan *p) {
  return p->etp ? p->etp : pz_plan_ep(p) > 1 ? 1 : p->tp;
}

/* Devices of a stage with the same experts. */
static inline int64_t pz_plan_expert_replicas(const struct pz_training_plan *p) {
  return p->tp * pz_plan_replicas(p) / (pz_plan_ep(p) * pz_plan_etp(p));
}

/* Does ZeRO divide over a part of the replicas alone? */
static inline bool pz_plan_hybrid(const struct pz_training_plan *p) {
  return p->zero && p->shard && p->shard < pz_plan_replicas(p);
}

/* Those over which ZeRO divides. */
static inline int64_t pz_plan_shards(const struct pz_training_plan *p) {
  return p->zero && p->shard ? p->shard : pz_plan_replicas(p);
}

/* The same of the experts' parameters. */
static inline int64_t pz_plan_expert_shards(const struct pz_training_plan *p) {
  int64_t all = pz_plan_expert_replicas(p);
  return pz_plan_hybrid(p) && p->shard < all && all % p->shard == 0 ? p->shard : all;
}

/* How gradients of a weight are added up over microbatches. */
enum pz_accumulation {
  PZ_ACCUMULATION_FP32,  /* a kernel adds the 16-bit gradient to a sum in fp32 */
  PZ_ACCUMULATION_FUSED, /* the product of the weight gradient does */
  PZ_ACCUMULATION_KEPT /* 16-bit gradients are set to zero and added to, with one microbatch too */
};

/* Habits of a framework: one row of the table in framework.c. */
struct pz_framework {
  const char *name;
  bool dropout;            /* trains with the model's dropout; else without */
  enum pz_kernels kernels; /* how element-wise operators are fused */
  enum pz_accumulation accumulation;
  const char
      *attention;    /* the library whose flash attention it runs, whatever is asked; NULL: none */
  bool stops_early;  /* recomputation ends before the last product, as torch.utils.checkpoint */
  double launches;   /* kernels for each operator of the graph */
  bool fp8_dispatch; /* rows go to experts in 8 bit where products are */
  bool
      sorts_rows; /* rows from several devices are put into the experts' order by kernels of their own */
  double
      capacity; /* > 0: experts have room for so many times their even share of a sample's rows, and rows go there
                      and back by products with matrices of zeros and ones */
  double communication_sms; /* part of a device that moves the experts' rows beside compute */
  unsigned modules;         /* computed again where nothing is asked (recompute.h) */
  bool counts_rows;         /* its host waits for the numbers of rows that experts get */
  bool graphs;              /* ... but on hosts of NVLink domains, where it captures CUDA graphs */
  double optimizer_bytes;   /* read and written for a parameter in the step of Adam */
  double state_bytes;       /* held for a parameter, weights and gradients included */
  unsigned
      turns_on; /* overlap that a searched plan asks for besides its defaults: flags that cost nothing */
  bool zero_bubble;   /* runs zero-bubble pipelines ... */
  bool dualpipe;      /* ... and DualPipe in place of ZB-V */
  bool shards_stages; /* ZeRO 2 and 3 together with several stages */
  bool node_gather;   /* sharded weights are gathered through one interface of a node */

  /* memory */
  double
      weight_bytes; /* of state_bytes: the weights; gradients take up to 4, the optimizer the rest */
  enum pz_gradients gradients; /* where backward puts those of a layer */
  bool placeholders;           /* a 16-bit gradient of every matrix of a layer is kept allocated */
  double reserve_bytes;        /* work space of libraries */
  bool decoder;                /* its models are plain decoders: family_decoder.c */

  struct pz_framework_defaults {
    enum pz_recomputation recompute;
    int zero;
    unsigned overlap;
    enum pz_execution execution;
    enum pz_attention attention;
    double grad_bytes;
    const char *attention_library; /* NULL: the chip's best */
  } plan; /* what it does where a user says nothing; sequence parallelism wherever tp > 1 */
};

const struct pz_framework *pz_framework_find(const char *name); /* NULL: unknown */
const char *pz_framework_name(const void *ctx, size_t i);

/* Are its programs compiled as a whole (XLA)?  Nothing is launched, collectives run beside compute,
 * what nobody reads is not computed again. */
bool pz_framework_compiles(const struct pz_framework *f);

/* More of a prediction, for those who ask: held by the arena. */
struct pz_prediction_detail {
  struct pz_arena *arena;
  struct pz_training_memory *stages; /* of every stage */
  struct pz_pipeline_run run;        /* every event of the simulated pipeline ... */
  bool no_events;                    /* ... or none */
  int64_t layers;                    /* repeated ones of the model */
};

/* A model: its name or path, or the text of a config.json under this name. */
struct pz_training_model {
  const char *name, *config; /* config NULL: load by name */
  int64_t seq;               /* tokens per sample; 0: the model's */
  enum pz_attention attention;
  bool mtp; /* with its multi-token-prediction layers */
};

/* What the plan takes on a chip in a network (NULL: the chip's own link); `detail` may be NULL.
 * PZ_BAD_USE for a plan that cannot be: the message says why. */
PZ_NODISCARD enum pz_status pz_predict(const struct pz_training_model *model,
                                       const struct pz_chip *chip, const struct pz_cluster *net,
                                       const struct pz_training_plan *plan,
                                       struct pz_prediction *out,
                                       struct pz_prediction_detail *detail, struct pz_error *err);

#endif
