/* What a training plan is: the record of plan_fields.def (struct pz_plan of the public header), and what follows from
 * its fields.  In a filled plan nothing is unset; code that prices plans also takes 0 for cp, ep, etp, imbalance and
 * shard where these were never asked for.  What a plan costs is src/step; which one is best, src/place. */
#ifndef PZ_PLAN_PLAN_H
#define PZ_PLAN_PLAN_H

#include "chip/chip.h"
#include "plan/framework.h"
#include "plan/pipeline_order.h"

/* Of a stage. */
enum { PZ_PLAN_MOST_CHUNKS = 512 };

/* Is it a plan at all, and for a model with so many repeated layers?  PZ_BAD_USE says why not.  Batches need not be
 * divided: as in tables of runs, they are rounded up. */
PZ_NODISCARD enum pz_status pz_plan_check(const struct pz_plan *p, struct pz_error *err);
PZ_NODISCARD enum pz_status pz_plan_check_layers(const struct pz_plan *p, int64_t blocks,
                                                 struct pz_error *err);

/* Has stage_recompute a number for each stage, and in range? */
PZ_NODISCARD enum pz_status pz_plan_check_stages(const struct pz_plan *p, struct pz_error *err);

/* No more layers in bf16, or with activations on the host, than the model has. */
PZ_NODISCARD enum pz_status pz_plan_check_counts(const struct pz_plan *p, int64_t blocks,
                                                 struct pz_error *err);

/* ---- layers --------------------------------------------------------------------------------- */

/* Repeated layers of a chunk of the model (chunk % pp is its stage): first_layers and last_layers, and
 * the others even; without them even, but where they do not divide and would with two more, the first
 * and the last chunk, which have embedding and head, hold one less. */
int64_t pz_plan_blocks(const struct pz_plan *p, int64_t blocks, int64_t chunk);

/* Repeated layers of all chunks before it. */
int64_t pz_plan_start(const struct pz_plan *p, int64_t blocks, int64_t chunk);

/* The same for many chunks of a plan: those between the first and the last have `each`, or one more where their number is
 * below `more`. */
struct pz_plan_layers {
  int64_t chunks, first, last, each, more;
};

struct pz_plan_layers pz_plan_layers(const struct pz_plan *p, int64_t blocks);

static inline int64_t pz_layers_at(const struct pz_plan_layers *l, int64_t chunk) {
  if (chunk == 0) return l->first;
  return chunk == l->chunks - 1 ? l->last : l->each + (chunk < l->more);
}

static inline int64_t pz_layers_before(const struct pz_plan_layers *l, int64_t chunk) {
  if (chunk == 0) return 0;
  int64_t longer = chunk < l->more ? chunk : l->more;
  return l->first + (chunk - 1) * l->each + (longer > 0 ? longer - 1 : 0);
}

/* Has every chunk as many? */
bool pz_plan_is_even(const struct pz_plan *p, int64_t blocks);

/* Layers that are recomputed, of a chunk with so many. */
int64_t pz_plan_recomputed(const struct pz_plan *p, int64_t stage, int64_t blocks);

/* Modules that selective recomputation finds again; 0: the attention core alone, or another recomputation. */
int pz_plan_modules(const struct pz_plan *p);

/* Those that it would find again in this plan. */
int pz_plan_selected(const struct pz_plan *p);

/* Frameworks recompute as many layers in every chunk, of those that it has: numbers for each stage that come to the same
 * become one number for all.  False: they do not, and the plan stays. */
bool pz_plan_recompute_alike(struct pz_plan *p, int64_t blocks);

/* Microbatches of a replica: a batch that does not divide is rounded up, and so are microbatches to a
 * multiple of the stages where these are interleaved. */
int64_t pz_plan_microbatches(const struct pz_plan *p);

/* Communication beside compute, of what the plan has at all. */
int pz_plan_overlap(const struct pz_plan *p);

/* Bytes of a moment of Adam, of a model with experts or without.  Other moments than fp32 that nobody asked for go with
 * a sharded optimizer (megatron/core/optimizer/optimizer_config.py: use_precision_aware_optimizer). */
double pz_plan_moment_bytes(const struct pz_plan *p, bool experts);

/* Operands of the GEMMs of its layers, but for those at the ends (pz_plan_wide_layers). */
enum pz_format pz_plan_format(const struct pz_plan *p);

/* The same of the optimizer's own copy of a weight, where weights have 16 bits.  Megatron's for moments of fewer bits keeps
 * of an fp32 copy what a bf16 weight leaves of it (store_param_remainders, same source); 8-bit weights leave none. */
double pz_plan_main_bytes(const struct pz_plan *p, bool experts);

/* Read and written for a parameter in the step of Adam: what the framework's own state moves (frameworks.def), with moments
 * and copies of other sizes by so much more or less. */
double pz_plan_optimizer_bytes(const struct pz_plan *p, bool experts);

/* Layers of a chunk with so many whose activations go to the host, all of each or what some modules read. */
int64_t pz_plan_offloaded(const struct pz_plan *p, int64_t blocks);

/* The part of the parameters whose optimizer state is there. */
double pz_plan_away(const struct pz_plan *p);

/* What its loss holds of the logits. */
enum pz_loss pz_plan_loss(const struct pz_plan *p);

/* How its layers lie over the stages, in which order microbatches run. */
struct pz_pipeline_shape pz_plan_shape(const struct pz_plan *p);

/* ---- degrees -------------------------------------------------------------------------------- */

static inline const struct pz_framework *pz_plan_framework(const struct pz_plan *p) {
  return pz_framework_at(p->framework);
}

static inline bool pz_plan_overlaps(const struct pz_plan *p, enum pz_overlap what) {
  return p->overlap & (int)what;
}

static inline int64_t pz_plan_cp(const struct pz_plan *p) { return p->cp ? p->cp : 1; }

/* Layers at both ends whose GEMMs have 16 bit. */
static inline int64_t pz_plan_wide_layers(const struct pz_plan *p) {
  return p->bf16_layers + p->bf16_first_layers;
}

static inline int64_t pz_plan_devices(const struct pz_plan *p) {
  return p->tp * pz_plan_cp(p) * p->pp * p->dp;
}

/* Devices with the same weights: replicas, and parts of a context. */
static inline int64_t pz_plan_replicas(const struct pz_plan *p) { return p->dp * pz_plan_cp(p); }

static inline int64_t pz_plan_ep(const struct pz_plan *p) { return p->ep ? p->ep : 1; }

static inline int64_t pz_plan_etp(const struct pz_plan *p) {
  return p->etp ? p->etp : pz_plan_ep(p) > 1 ? 1 : p->tp;
}

static inline enum pz_dispatcher pz_plan_dispatcher(const struct pz_plan *p) {
  return p->dispatcher < 0 ? pz_plan_framework(p)->dispatcher : (enum pz_dispatcher)p->dispatcher;
}

/* Tokens from several devices are put into the experts' order by kernels of their own: after an all-to-all and after
 * DeepEP's dispatch (megatron/core/transformer/moe/token_dispatcher.py: sort_chunks_by_idxs, _DeepepManager); HybridEP
 * writes them in that order, and places of a capacity have it. */
static inline bool pz_plan_sorts_tokens(const struct pz_plan *p) {
  return pz_plan_dispatcher(p) != PZ_DISPATCHER_HYBRIDEP && !(pz_plan_framework(p)->capacity > 0);
}

/* Has Megatron Bridge 8-bit weights alone (fp8_param_gather)?  Its recipes have, but with scales of 128 values
 * (training/mixed_precision.py); what writes them anew after a step is the distributed optimizer, without which
 * megatron/training/arguments.py refuses them. */
static inline bool pz_plan_8bit_weights(const struct pz_plan *p) {
  return p->precision == PZ_PRECISION_FP8 && p->fp8_recipe != PZ_FP8_BLOCKWISE && p->zero > 0;
}

/* Are adapters trained, and the model's own weights frozen? */
static inline bool pz_plan_adapts(const struct pz_plan *p) { return p->peft && *p->peft == 'l'; }

/* Does the host wait for the numbers of tokens that experts get?  To launch their GEMMs one by one, and in every
 * dispatcher: an all-to-all is given its sizes (cuda_sync_point of token_dispatcher.py; input_splits of torchtitan's
 * ExpertParallel), DeepEP and HybridEP allocate what comes (get_dispatch_layout of deep_ep/buffer.py; HybridEP without
 * num_permuted_tokens).  Not where everything is captured or compiled.  Backward has the numbers of forward. */
static inline bool pz_plan_waits(const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  return p->execution < PZ_EXECUTION_GRAPH && !(f->capacity > 0) && f->launches > 0 &&
         (f->loops_experts || pz_plan_ep(p) > 1);
}

/* The vocabulary is padded to a multiple of this; 0: not. */
static inline int64_t pz_plan_vocab_multiple(const struct pz_plan *p) {
  return pz_plan_framework(p)->vocab_multiple * p->tp;
}

/* Devices of a stage with the same experts. */
static inline int64_t pz_plan_expert_replicas(const struct pz_plan *p) {
  return p->tp * pz_plan_replicas(p) / (pz_plan_ep(p) * pz_plan_etp(p));
}

/* Does ZeRO divide over a part of the replicas alone? */
static inline bool pz_plan_hybrid(const struct pz_plan *p) {
  return p->zero && p->shard && p->shard < pz_plan_replicas(p);
}

/* Does PyTorch's autocast make the 16-bit weights, because no FSDP does?  (maybe_enable_amp of torchtitan) */
bool pz_plan_autocasts(const struct pz_plan *p);

/* Those over which ZeRO divides. */
static inline int64_t pz_plan_shards(const struct pz_plan *p) {
  return p->zero && p->shard ? p->shard : pz_plan_replicas(p);
}

/* The same of the experts' parameters. */
static inline int64_t pz_plan_expert_shards(const struct pz_plan *p) {
  int64_t all = pz_plan_expert_replicas(p);
  return pz_plan_hybrid(p) && p->shard < all && all % p->shard == 0 ? p->shard : all;
}

/* Does ZeRO divide anything?  Experts may have several replicas where dense parameters have one. */
static inline bool pz_plan_divides(const struct pz_plan *p) {
  return p->zero && (pz_plan_shards(p) > 1 || pz_plan_expert_shards(p) > 1);
}

/* Are gradients scattered with every microbatch?  With stages they stay whole till the last. */
static inline bool pz_plan_scatters_often(const struct pz_plan *p) {
  return p->zero >= 2 && p->pp == 1;
}

/* Are weights gathered layer by layer for every microbatch?  With stages they stay gathered from the first to the last. */
static inline bool pz_plan_gathers_layers(const struct pz_plan *p) {
  return p->zero == 3 && p->pp == 1 && pz_plan_divides(p);
}

#endif
