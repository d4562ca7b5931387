/* What a training plan is: the record of plan_fields.def (struct pz_plan of the public header), and what follows from its fields.
 *
 * In a filled plan (plan_fill.h) nothing is unset.  Code that prices plans also accepts 0 for cp, ep, etp, imbalance and shard, which
 * stands for plans without them.  What a plan costs is computed in src/step, and which plan is best in src/place. */
#ifndef PZ_PLAN_PLAN_H
#define PZ_PLAN_PLAN_H

#include "chip/chip.h"
#include "core/call.h"
#include "plan/framework.h"
#include "plan/pipeline_order.h"

/* Chunks of a stage. */
enum { PZ_PLAN_MOST_CHUNKS = 512 };

/* The checks raise PZ_BAD_USE.  pz_require_plan() checks degrees, batch and ranges; a batch that does not divide is accepted, because in
 * tables of runs it is rounded up. */
void pz_require_plan(struct pz_call *call, const struct pz_plan *plan);

/* Checks that the chunks of the pipeline can hold a model with this number of repeated layers. */
void pz_require_chunks(struct pz_call *call, const struct pz_plan *plan, int64_t layers);

/* Checks that stage_recompute has a number for each stage, and that these are in range. */
void pz_require_stage_recompute(struct pz_call *call, const struct pz_plan *plan);

/* Checks that no more layers are in bf16, or have their activations on the host, than the model has. */
void pz_require_layer_counts(struct pz_call *call, const struct pz_plan *plan, int64_t layers);

/* ---- for callers that return a status ---- */
PZ_NODISCARD enum pz_status pz_plan_check(const struct pz_plan *p, struct pz_error *err);
PZ_NODISCARD enum pz_status pz_plan_check_layers(const struct pz_plan *p, int64_t blocks,
                                                 struct pz_error *err);
PZ_NODISCARD enum pz_status pz_plan_check_counts(const struct pz_plan *p, int64_t blocks,
                                                 struct pz_error *err);

/* ---- layers --------------------------------------------------------------------------------- */

/* Returns the number of repeated layers of a chunk of the model (chunk % pp is its stage).  Chunks are first_layers, last_layers and the
 * others even.  If these are unset, all chunks are even; or, if that does not divide and would with two layers more, the first and
 * the last chunk, which have embedding and head, hold one layer less. */
int64_t pz_plan_chunk_layers(const struct pz_plan *plan, int64_t layers, int64_t chunk);

/* Returns the number of repeated layers of all chunks before this one. */
int64_t pz_plan_layers_before(const struct pz_plan *plan, int64_t layers, int64_t chunk);

/* The same for many chunks of one plan.  Chunks between the first and the last have `each` layers, or one more if their number is
 * below `more`. */
struct pz_plan_layers {
  int64_t chunks, first, last, each, more;
};

struct pz_plan_layers pz_plan_layers(const struct pz_plan *plan, int64_t layers);

static inline int64_t pz_layers_at(const struct pz_plan_layers *l, int64_t chunk) {
  if (chunk == 0) return l->first;
  return chunk == l->chunks - 1 ? l->last : l->each + (chunk < l->more);
}

static inline int64_t pz_layers_before(const struct pz_plan_layers *l, int64_t chunk) {
  if (chunk == 0) return 0;
  int64_t longer = chunk < l->more ? chunk : l->more;
  return l->first + (chunk - 1) * l->each + (longer > 0 ? longer - 1 : 0);
}

/* Do all chunks have the same number of layers? */
bool pz_plan_is_even(const struct pz_plan *plan, int64_t layers);

/* Returns how many layers of a chunk are recomputed. */
int64_t pz_plan_recomputed_layers(const struct pz_plan *plan, int64_t stage, int64_t layers);

/* Returns the modules that selective recomputation recomputes; 0: the attention core alone, or the plan recomputes otherwise. */
int pz_plan_recomputed_modules(const struct pz_plan *plan);

/* Returns the modules that it would recompute if the plan were selective. */
int pz_plan_selective_modules(const struct pz_plan *plan);

/* Replaces the numbers of recomputed layers of each stage by one number for all chunks, which is how frameworks state it.  Returns false,
 * and changes nothing, if that would recompute other layers. */
bool pz_plan_unify_recompute(struct pz_plan *plan, int64_t layers);

/* Returns the number of microbatches of a replica.  A batch that does not divide is rounded up, and so is the number of microbatches, to a
 * multiple of the stages, in the interleaved order. */
int64_t pz_plan_microbatches(const struct pz_plan *plan);

/* Returns the overlap of communication that the plan has at all. */
int pz_plan_effective_overlap(const struct pz_plan *plan);

/* Returns the bytes of a moment of Adam in a model with experts or without.  A framework's default of other types than fp32 needs a sharded
 * optimizer (megatron/core/optimizer/optimizer_config.py: use_precision_aware_optimizer). */
double pz_plan_moment_bytes(const struct pz_plan *plan, bool experts);

/* Returns the format of the operands of GEMMs, except in the layers of pz_plan_16bit_layers(). */
enum pz_format pz_plan_format(const struct pz_plan *plan);

/* Returns the bytes of the optimizer's own copy of a weight of 16 bits.  Megatron's optimizer for moments of fewer bits keeps only the bits of
 * the fp32 copy that the bf16 weight does not have (store_param_remainders, same source); 8-bit weights do not allow that. */
double pz_plan_master_bytes(const struct pz_plan *plan, bool experts);

/* Returns the bytes that Adam reads and writes for a parameter in a step: those of the framework's own state (frameworks.def), adjusted to the
 * sizes of the plan's moments and copies. */
double pz_plan_optimizer_bytes(const struct pz_plan *plan, bool experts);

/* Returns how many layers of a chunk have activations on the host, all of them or those that some modules save. */
int64_t pz_plan_offloaded_layers(const struct pz_plan *plan, int64_t layers);

/* Returns the fraction of the parameters whose optimizer state is on the host. */
double pz_plan_host_optimizer_fraction(const struct pz_plan *plan);

/* Returns what the loss keeps of the logits. */
enum pz_loss pz_plan_loss(const struct pz_plan *plan);

/* Returns how layers are assigned to stages, and the order of microbatches. */
struct pz_pipeline_shape pz_plan_pipeline_shape(const struct pz_plan *plan);

/* ---- degrees -------------------------------------------------------------------------------- */

static inline const struct pz_framework *pz_plan_framework(const struct pz_plan *plan) {
  return pz_framework_at(plan->framework);
}

static inline bool pz_plan_overlaps(const struct pz_plan *plan, enum pz_overlap what) {
  return plan->overlap & (int)what;
}

static inline int64_t pz_plan_cp(const struct pz_plan *plan) { return plan->cp ? plan->cp : 1; }

/* Returns the number of layers at both ends whose GEMMs have 16 bit. */
static inline int64_t pz_plan_16bit_layers(const struct pz_plan *plan) {
  return plan->bf16_layers + plan->bf16_first_layers;
}

static inline int64_t pz_plan_devices(const struct pz_plan *plan) {
  return plan->tp * pz_plan_cp(plan) * plan->pp * plan->dp;
}

/* Returns the number of devices with the same weights: replicas, and parts of a context. */
static inline int64_t pz_plan_replicas(const struct pz_plan *plan) {
  return plan->dp * pz_plan_cp(plan);
}

static inline int64_t pz_plan_ep(const struct pz_plan *plan) { return plan->ep ? plan->ep : 1; }

static inline int64_t pz_plan_etp(const struct pz_plan *plan) {
  return plan->etp ? plan->etp : pz_plan_ep(plan) > 1 ? 1 : plan->tp;
}

static inline enum pz_dispatcher pz_plan_dispatcher(const struct pz_plan *plan) {
  return plan->dispatcher < 0 ? pz_plan_framework(plan)->dispatcher
                              : (enum pz_dispatcher)plan->dispatcher;
}

/* Do separate kernels sort tokens from several devices by expert?  They do after an all-to-all and after DeepEP's dispatch
 * (megatron/core/transformer/moe/token_dispatcher.py: sort_chunks_by_idxs, _DeepepManager).  HybridEP writes tokens in that order, and
 * experts with a capacity have it. */
static inline bool pz_plan_sorts_tokens(const struct pz_plan *plan) {
  return pz_plan_dispatcher(plan) != PZ_DISPATCHER_HYBRIDEP &&
         !(pz_plan_framework(plan)->capacity_factor > 0);
}

/* Does Megatron Bridge keep only 8-bit weights (fp8_param_gather)?  Its recipes do, except with scales of blocks of 128 values
 * (training/mixed_precision.py).  They need the distributed optimizer, which writes them after each step
 * (megatron/training/arguments.py). */
static inline bool pz_plan_keeps_8bit_weights(const struct pz_plan *plan) {
  return plan->precision == PZ_PRECISION_FP8 && plan->fp8_recipe != PZ_FP8_BLOCKWISE &&
         plan->zero > 0;
}

/* Are adapters trained, and the model's own weights frozen? */
static inline bool pz_plan_trains_adapters(const struct pz_plan *plan) {
  return plan->peft && *plan->peft == 'l';
}

/* Does the host wait for the numbers of tokens of each expert?  It needs them to launch the experts' GEMMs one by one, and in every
 * dispatcher: for the sizes of an all-to-all (cuda_sync_point of token_dispatcher.py; input_splits of torchtitan's ExpertParallel), and to
 * allocate what DeepEP and HybridEP receive (get_dispatch_layout of deep_ep/buffer.py; HybridEP without num_permuted_tokens).  It does not
 * wait if everything is captured or compiled.  The backward pass reuses the numbers of the forward pass. */
static inline bool pz_plan_waits_for_routing(const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  return plan->execution < PZ_EXECUTION_GRAPH && !(framework->capacity_factor > 0) &&
         framework->launches_per_op > 0 && (framework->launches_per_expert || pz_plan_ep(plan) > 1);
}

/* Returns the multiple that the vocabulary is padded to; 0: it is not padded. */
static inline int64_t pz_plan_vocab_multiple(const struct pz_plan *plan) {
  return pz_plan_framework(plan)->vocab_multiple * plan->tp;
}

/* Returns the number of devices of a stage with the same experts. */
static inline int64_t pz_plan_expert_replicas(const struct pz_plan *plan) {
  return plan->tp * pz_plan_replicas(plan) / (pz_plan_ep(plan) * pz_plan_etp(plan));
}

/* Does ZeRO shard over only a part of the replicas? */
static inline bool pz_plan_is_hybrid_sharded(const struct pz_plan *plan) {
  return plan->zero && plan->shard && plan->shard < pz_plan_replicas(plan);
}

/* Does PyTorch's autocast make the 16-bit weights, because the plan has no FSDP?  (maybe_enable_amp of torchtitan) */
bool pz_plan_autocasts(const struct pz_plan *plan);

/* Returns the number of devices over which ZeRO shards dense parameters. */
static inline int64_t pz_plan_shards(const struct pz_plan *plan) {
  return plan->zero && plan->shard ? plan->shard : pz_plan_replicas(plan);
}

/* Returns the number of devices over which ZeRO shards the experts' parameters. */
static inline int64_t pz_plan_expert_shards(const struct pz_plan *plan) {
  int64_t all = pz_plan_expert_replicas(plan);
  return pz_plan_is_hybrid_sharded(plan) && plan->shard < all && all % plan->shard == 0
             ? plan->shard
             : all;
}

/* Does ZeRO shard anything?  Experts may have several replicas if dense parameters have one. */
static inline bool pz_plan_shards_state(const struct pz_plan *plan) {
  return plan->zero && (pz_plan_shards(plan) > 1 || pz_plan_expert_shards(plan) > 1);
}

/* Are gradients scattered with every microbatch?  With stages they stay whole until the last one. */
static inline bool pz_plan_scatters_per_microbatch(const struct pz_plan *plan) {
  return plan->zero >= 2 && plan->pp == 1;
}

/* Are weights gathered layer by layer for every microbatch?  With stages they stay gathered from the first to the last. */
static inline bool pz_plan_gathers_per_layer(const struct pz_plan *plan) {
  return plan->zero == 3 && plan->pp == 1 && pz_plan_shards_state(plan);
}

#endif
