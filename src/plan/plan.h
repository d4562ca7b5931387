/* A training plan (struct pz_plan of the public header, whose fields plan_fields.def lists), and
 * quantities that follow from its fields.
 *
 * In a filled plan (plan_fill.h) no field is unset.  Code that prices plans also accepts 0 for cp,
 * ep, etp, imbalance and shard, which stands for plans without them.  src/step predicts the time
 * and memory of a plan, src/place searches plans.
 *
 * "Layers" are the repeated transformer layers of the model, without embedding and head.  A chunk
 * is a group of consecutive layers that one pipeline stage runs in one pass; a stage has vpp of
 * them. */
#ifndef PZ_PLAN_PLAN_H
#define PZ_PLAN_PLAN_H

#include "chip/chip.h"
#include "core/call.h"
#include "plan/framework.h"
#include "plan/pipeline_order.h"

/* Maximum number of chunks per stage. */
enum { PZ_PLAN_MOST_CHUNKS = 512 };

/* Checks degrees, batch and ranges of a plan.  A batch that replicas and microbatches do not divide
 * is accepted, because tables of published runs have such batches; pz_plan_microbatches() rounds
 * up.  All checks raise PZ_BAD_USE. */
void pz_require_plan(struct pz_call *call, const struct pz_plan *plan);

/* Checks that the chunks of the pipeline can hold a model with this number of repeated layers. */
void pz_require_chunks(struct pz_call *call, const struct pz_plan *plan, int64_t layers);

/* Checks that stage_recompute has a number for each stage, and that these are in range. */
void pz_require_stage_recompute(struct pz_call *call, const struct pz_plan *plan);

/* Checks that no more layers have 16-bit GEMMs or offloaded activations than the model has. */
void pz_require_layer_counts(struct pz_call *call, const struct pz_plan *plan, int64_t layers);

/* Returns the number of layers of a chunk of the model.  The first and the last chunk have
 * first_layers and last_layers, and the others divide the rest evenly.  If these fields are unset,
 * all chunks have the same number.  If that does not divide, but would with two more layers, the
 * first and the last chunk have one layer less than the others, because they also hold the
 * embedding and the head. */
int64_t pz_plan_chunk_layers(const struct pz_plan *plan, int64_t layers, int64_t chunk);

/* Returns the number of layers of all chunks before this one. */
int64_t pz_plan_layers_before(const struct pz_plan *plan, int64_t layers, int64_t chunk);

/* The number of layers of each chunk, computed once for loops over many chunks of one plan.  The
 * first chunk has `first` layers and the last one `last`.  Of the chunks between, those with an
 * index below n_longer have each + 1 layers, and the others `each`. */
struct pz_plan_layers {
  int64_t chunks, first, last, each, n_longer;
};

struct pz_plan_layers pz_plan_layers(const struct pz_plan *plan, int64_t layers);

/* Returns the number of layers of a chunk. */
static inline int64_t pz_layers_at(const struct pz_plan_layers *division, int64_t chunk) {
  if (chunk == 0) return division->first;
  if (chunk == division->chunks - 1) return division->last;
  return division->each + (chunk < division->n_longer);
}

/* Returns the number of layers of all chunks before this one. */
static inline int64_t pz_layers_before(const struct pz_plan_layers *division, int64_t chunk) {
  if (chunk == 0) return 0;
  int64_t longer = chunk < division->n_longer ? chunk : division->n_longer;
  return division->first + (chunk - 1) * division->each + (longer > 0 ? longer - 1 : 0);
}

/* Returns whether all chunks have the same number of layers. */
bool pz_plan_is_even(const struct pz_plan *plan, int64_t layers);

/* Returns how many layers of a chunk are fully or partly recomputed.  The chunk has `layers`
 * layers and belongs to this stage. */
int64_t pz_plan_recomputed_layers(const struct pz_plan *plan, int64_t stage, int64_t layers);

/* Returns the set of modules (enum pz_module) that the plan recomputes selectively.  The set is
 * empty if the plan recomputes only the attention core, or does not recompute selectively. */
int pz_plan_recomputed_modules(const struct pz_plan *plan);

/* Returns the modules that the plan would recompute if its recomputation were selective. */
int pz_plan_selective_modules(const struct pz_plan *plan);

/* Replaces stage_recompute, which has a number of recomputed layers for each stage, by
 * recompute_layers, one number for all chunks, as frameworks express it.  Returns false and leaves
 * the plan unchanged if that would recompute other layers. */
bool pz_plan_unify_recompute(struct pz_plan *plan, int64_t layers);

/* Returns the number of microbatches of a replica.  It is rounded up if the batch does not divide,
 * and in the interleaved order to a multiple of the stages. */
int64_t pz_plan_microbatches(const struct pz_plan *plan);

/* Returns the overlaps (enum pz_overlap) of a plan for which it has communication. */
int pz_plan_effective_overlap(const struct pz_plan *plan);

/* Returns the bytes of one moment of Adam for a parameter; `experts` tells whether the model has
 * experts.  Frameworks whose default is below fp32 use it only with a sharded optimizer on the
 * device (use_precision_aware_optimizer in megatron/core/optimizer/optimizer_config.py). */
double pz_plan_moment_bytes(const struct pz_plan *plan, bool experts);

/* Returns the number format of GEMM operands, except in the 16-bit layers. */
enum pz_format pz_plan_format(const struct pz_plan *plan);

/* Returns the bytes of the master copy of a 16-bit weight.  With moments of less than 32 bits,
 * Megatron stores only the bits of the fp32 copy that the bf16 weight lacks (store_param_remainders
 * in optimizer_config.py).  8-bit weights do not allow that. */
double pz_plan_master_bytes(const struct pz_plan *plan, bool experts);

/* Returns the bytes that Adam reads and writes per parameter and step: the framework's own number
 * (frameworks.def), adjusted to the sizes of the plan's moments and master copies. */
double pz_plan_optimizer_bytes(const struct pz_plan *plan, bool experts);

/* Returns how many of the `layers` of a chunk have activations on the host.  These may be only
 * the activations of some modules. */
int64_t pz_plan_offloaded_layers(const struct pz_plan *plan, int64_t layers);

/* Returns the fraction of the parameters whose optimizer state is on the host. */
double pz_plan_host_optimizer_fraction(const struct pz_plan *plan);

/* Returns the plan's pipeline order, with its numbers of stages, chunks and microbatches. */
struct pz_pipeline_shape pz_plan_pipeline_shape(const struct pz_plan *plan);

/* Returns the framework of a plan. */
static inline const struct pz_framework *pz_plan_framework(const struct pz_plan *plan) {
  return pz_framework_at(plan->framework);
}

/* Returns the context-parallel degree, which is 1 if it is unset. */
static inline int64_t pz_plan_cp(const struct pz_plan *plan) { return plan->cp ? plan->cp : 1; }

/* Returns the number of devices that the plan uses. */
static inline int64_t pz_plan_devices(const struct pz_plan *plan) {
  return plan->tp * pz_plan_cp(plan) * plan->pp * plan->dp;
}

/* Returns the number of devices that hold the same dense weights. */
static inline int64_t pz_plan_replicas(const struct pz_plan *plan) {
  return plan->dp * pz_plan_cp(plan);
}

/* Returns the expert-parallel degree, which is 1 if it is unset. */
static inline int64_t pz_plan_ep(const struct pz_plan *plan) { return plan->ep ? plan->ep : 1; }

/* Returns the tensor parallelism of each expert.  If it is unset, experts are whole with ep above
 * 1, otherwise divided like the other layers. */
static inline int64_t pz_plan_etp(const struct pz_plan *plan) {
  if (plan->etp) return plan->etp;
  return pz_plan_ep(plan) > 1 ? 1 : plan->tp;
}

/* Returns the dispatcher of expert tokens, or the framework's default if it is unset. */
static inline enum pz_dispatcher pz_plan_dispatcher(const struct pz_plan *plan) {
  return plan->dispatcher < 0 ? pz_plan_framework(plan)->dispatcher
                              : (enum pz_dispatcher)plan->dispatcher;
}

/* Returns whether Megatron Bridge keeps the weights in 8 bit only (fp8_param_gather).  Its recipes
 * do, except with scales for blocks of 128 values (training/mixed_precision.py).  This requires the
 * distributed optimizer, which writes the weights after each step
 * (megatron/training/arguments.py). */
static inline bool pz_plan_keeps_8bit_weights(const struct pz_plan *plan) {
  return plan->precision == PZ_PRECISION_FP8 && plan->fp8_recipe != PZ_FP8_BLOCKWISE &&
         plan->zero > 0;
}

/* Returns whether low-rank adapters are trained while the weights of the model are frozen. */
static inline bool pz_plan_trains_adapters(const struct pz_plan *plan) {
  return plan->peft && *plan->peft == 'l';
}

/* Returns whether the host waits in the forward pass until it knows how many tokens each expert
 * gets.  It needs these numbers to launch the GEMMs of single experts, for the sizes of an
 * all-to-all (cuda_sync_point of token_dispatcher.py; input_splits of torchtitan's
 * ExpertParallel), and to allocate the buffers in which DeepEP and HybridEP receive tokens
 * (get_dispatch_layout of deep_ep/buffer.py; HybridEP without num_permuted_tokens).  It does not
 * wait if layers are captured in CUDA graphs or programs are compiled as a whole. */
static inline bool pz_plan_waits_for_routing(const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  return plan->execution < PZ_EXECUTION_GRAPH && !(framework->capacity_factor > 0) &&
         framework->launches_per_op > 0 && (framework->launches_per_expert || pz_plan_ep(plan) > 1);
}

/* Returns the number of devices of a pipeline stage that hold the same experts. */
static inline int64_t pz_plan_expert_replicas(const struct pz_plan *plan) {
  return plan->tp * pz_plan_replicas(plan) / (pz_plan_ep(plan) * pz_plan_etp(plan));
}

/* Returns whether ZeRO shards over groups of replicas instead of over all replicas.  Each group
 * then holds a whole copy. */
static inline bool pz_plan_is_hybrid_sharded(const struct pz_plan *plan) {
  return plan->zero && plan->shard && plan->shard < pz_plan_replicas(plan);
}

/* Returns whether PyTorch's autocast casts weights to 16 bit in every pass, because the plan uses
 * no FSDP, which would keep them in 16 bit (maybe_enable_amp of torchtitan). */
bool pz_plan_autocasts(const struct pz_plan *plan);

/* Returns the number of devices over which ZeRO shards the dense parameters. */
static inline int64_t pz_plan_shards(const struct pz_plan *plan) {
  return plan->zero && plan->shard ? plan->shard : pz_plan_replicas(plan);
}

/* Returns the number of devices over which ZeRO shards the experts' parameters. */
static inline int64_t pz_plan_expert_shards(const struct pz_plan *plan) {
  int64_t replicas = pz_plan_expert_replicas(plan);
  bool in_groups =
      pz_plan_is_hybrid_sharded(plan) && plan->shard < replicas && replicas % plan->shard == 0;
  return in_groups ? plan->shard : replicas;
}

/* Returns whether ZeRO shards the state of any parameters.  Experts may have several replicas where
 * dense parameters have one. */
static inline bool pz_plan_shards_state(const struct pz_plan *plan) {
  return plan->zero && (pz_plan_shards(plan) > 1 || pz_plan_expert_shards(plan) > 1);
}

/* Returns whether gradients are reduce-scattered after every microbatch.  With several pipeline
 * stages they stay whole until the last microbatch. */
static inline bool pz_plan_scatters_per_microbatch(const struct pz_plan *plan) {
  return plan->zero >= 2 && plan->pp == 1;
}

/* Returns whether weights are gathered layer by layer for every microbatch.  With several pipeline
 * stages they stay gathered from the first to the last microbatch. */
static inline bool pz_plan_gathers_per_layer(const struct pz_plan *plan) {
  return plan->zero == 3 && plan->pp == 1 && pz_plan_shards_state(plan);
}

#endif
