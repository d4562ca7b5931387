#include "launch/megatron_core.h"

#include <inttypes.h>
#include <string.h>

#include "place/training_options.h"

/* Overlap counts where there is something to overlap; transfers between stages are hidden by the
 * interleaved order alone. */
bool pz_core_overlap(const struct pz_launch *l, enum pz_overlap what) {
  const struct pz_training_options *p = &l->plan;
  if (!(p->overlap & (int)what)) return false;
  switch (what) {
  case PZ_OVERLAP_PARAM: return p->zero > 0;
  case PZ_OVERLAP_TP: return p->tp > 1;
  case PZ_OVERLAP_P2P: return p->pp > 1;
  case PZ_OVERLAP_EP: return p->ep > 1;
  default: return true;
  }
}

/* ---- what it refuses ------------------------------------------------------------------------ */

static enum pz_status check_schedule(const struct pz_launch *l, const char *name,
                                     struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  bool p2p = pz_core_overlap(l, PZ_OVERLAP_P2P);
  if (p->pp > 1 && p->pipeline != PZ_PIPELINE_1F1B && p->pipeline != PZ_PIPELINE_INTERLEAVED)
    return pz_fail(err, PZ_BAD_USE,
                   "%s has no %s order of the pipeline; accepted: 1f1b, or interleaved with vpp "
                   "above 1",
                   name, pz_pipeline_names[p->pipeline]);
  if (p2p && p->vpp == 1)
    return pz_fail(err, PZ_BAD_USE,
                   "%s overlaps transfers between stages (p2p) in the interleaved order alone; "
                   "accepted: vpp above 1, or an overlap without p2p",
                   name);
  if (p->vpp > 1 && !p2p && p->pp == 2)
    return pz_fail(err, PZ_BAD_USE,
                   "%s interleaves two stages with overlapped transfers alone; accepted: p2p in "
                   "the overlap, or pp above 2",
                   name);
  for (int64_t j = 0; j < p->pp * p->vpp; j++)
    if (pz_launch_chunk(l, j) == 0 && l->shape.experts)
      return pz_fail(err, PZ_BAD_USE,
                     "chunk %" PRId64 " of %" PRId64 " has no layer; accepted for a model with "
                     "experts: at most %" PRId64 " chunks",
                     j, p->pp * p->vpp, l->shape.layers);
  return PZ_OK;
}

static enum pz_status check_tensor(const struct pz_launch *l, const char *name,
                                   struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  if (pz_core_overlap(l, PZ_OVERLAP_TP) && !p->sequence_parallel)
    return pz_fail(err, PZ_BAD_USE,
                   "%s overlaps tensor-parallel collectives with sequence parallelism alone; "
                   "accepted: sequence parallelism, or an overlap without tp",
                   name);
  if (p->cp > 1 && (p->seq % (2 * p->cp) || p->attention != PZ_ATTENTION_FLASH))
    return pz_fail(err, PZ_BAD_USE,
                   "%s with cp %" PRId64 ", %" PRId64
                   " tokens and %s attention; accepted: multiples of %" PRId64
                   " tokens and flash attention, or cp 1",
                   name, p->cp, p->seq, pz_attention_names[p->attention], 2 * p->cp);
  if (l->shape.experts && p->tp > 1 && !p->sequence_parallel)
    return pz_fail(err, PZ_BAD_USE,
                   "%s trains experts with tensor parallelism in sequence parallelism alone; "
                   "accepted: sequence parallelism, or tp 1",
                   name);
  return PZ_OK;
}

/* The experts' all-to-all is hidden behind another microbatch's pass: with chunks, where there are stages, and without
 * recomputing what it belongs to (transformer_config.py). */
static enum pz_status check_experts(const struct pz_launch *l, const char *name,
                                    struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  int64_t holders = p->tp * p->cp * p->dp / (p->ep * pz_options_etp(p));
  int64_t copies = p->zero ? pz_launch_replicas(l) / p->shard : 1;
  if (l->shape.experts && holders % copies)
    return pz_fail(err, PZ_BAD_USE,
                   "%s shards in %" PRId64 " groups, experts are held by %" PRId64
                   " devices; accepted: a shard whose groups divide that",
                   name, copies, holders);
  if (!pz_core_overlap(l, PZ_OVERLAP_EP)) return PZ_OK;
  if (p->pp > 1 && p->vpp == 1)
    return pz_fail(err, PZ_BAD_USE,
                   "%s overlaps the experts' all-to-all (ep) of several stages in the interleaved "
                   "order alone; accepted: vpp above 1, pp 1, or an overlap without ep",
                   name);
  if (p->recompute == PZ_RECOMPUTATION_FULL || pz_options_modules(p) & PZ_MODULE_EXPERTS)
    return pz_fail(err, PZ_BAD_USE,
                   "%s overlaps the experts' all-to-all (ep) with no recomputation of whole layers "
                   "or of moe; accepted: other modules, or an overlap without ep",
                   name);
  if (p->mtp && l->shape.predict_layers > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "%s overlaps the experts' all-to-all (ep) with %" PRId64
                   " layers of multi-token prediction; accepted: 1, or an overlap without ep",
                   name, l->shape.predict_layers);
  return PZ_OK;
}

static enum pz_status check_recompute(const struct pz_launch *l, const char *name,
                                      struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  if (p->recompute > PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE, "%s has no recomputation '%s'; accepted: none, selective, full",
                   name, pz_recomputation_names[p->recompute]);
  if (p->execution == PZ_EXECUTION_COMPILE)
    return pz_fail(err, PZ_BAD_USE, "%s does not compile its layers; accepted: eager, graph", name);
  if (p->execution != PZ_EXECUTION_GRAPH) return PZ_OK;
  if (p->recompute == PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE,
                   "%s captures no CUDA graphs of layers that are recomputed in full; accepted: "
                   "recompute none or selective, or execution eager",
                   name);
  if (l->shape.experts)
    return pz_fail(err, PZ_BAD_USE,
                   "%s captures no CUDA graphs of whole layers with routed experts; accepted: "
                   "execution eager",
                   name);
  return PZ_OK;
}

static enum pz_status check_shards(const struct pz_launch *l, const char *name,
                                   struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  if (pz_core_overlap(l, PZ_OVERLAP_PARAM) && !(p->overlap & PZ_OVERLAP_GRAD))
    return pz_fail(err, PZ_BAD_USE,
                   "%s overlaps the gathering of weights together with gradients alone; accepted: "
                   "grad in the overlap, or no param",
                   name);
  if (p->zero && p->shard == 1 && pz_launch_replicas(l) > 1)
    return pz_fail(
        err, PZ_BAD_USE,
        "%s with ZeRO stage %d over one replica shards nothing; accepted: shard above 1, "
        "or ZeRO stage 0",
        name, p->zero);
  if (p->zero > 1 && p->pp > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "%s with ZeRO stage %d and %" PRId64
                   " stages: Megatron's FSDP works with tensor and expert parallelism, not with a "
                   "pipeline; accepted: ZeRO stage 0 or 1, or pp 1",
                   name, p->zero, p->pp);
  if (p->zero > 1 && p->execution == PZ_EXECUTION_GRAPH)
    return pz_fail(err, PZ_BAD_USE,
                   "%s with ZeRO stage %d captures no CUDA graphs; accepted: execution eager, or "
                   "ZeRO stage 0 or 1",
                   name, p->zero);
  if (p->grad_bytes != 2 && p->grad_bytes != 4)
    return pz_fail(err, PZ_BAD_USE, "%s with gradients of %g bytes; accepted: 4 (fp32) or 2 (bf16)",
                   name, p->grad_bytes);
  return PZ_OK;
}

static enum pz_status check_shape(const struct pz_launch *l, const char *name,
                                  struct pz_error *err) {
  const char *library = l->plan.attention_library;
  if (l->shape.rotary_base == 0 && l->plan.seq > l->shape.positions)
    return pz_fail(err, PZ_BAD_USE,
                   "%s with %" PRId64 " tokens: %s has %" PRId64
                   " learned positions; accepted: at most that",
                   name, l->plan.seq, l->model, l->shape.positions);
  if (l->plan.attention == PZ_ATTENTION_FLASH && library && strcmp(library, "pallas") == 0)
    return pz_fail(err, PZ_BAD_USE,
                   "%s has no attention kernels of pallas; accepted: fa2, fa3, "
                   "cudnn, or none named",
                   name);
  if (l->plan.attention == PZ_ATTENTION_FLASH && library && strcmp(library, "fa1") == 0)
    return pz_fail(err, PZ_BAD_USE,
                   "%s has no attention kernels of fa1; accepted: fa2, fa3, "
                   "cudnn, or none named",
                   name);
  if (l->shape.rotary_base != (double)(int64_t)l->shape.rotary_base)
    return pz_fail(err, PZ_BAD_USE, "%s with a rotary base of %g; accepted: whole numbers", name,
                   l->shape.rotary_base);
  return PZ_OK;
}

enum pz_status pz_megatron_core_check(const struct pz_launch *l, const char *name,
                                      struct pz_error *err) {
  enum pz_status status = check_shape(l, name, err);
  if (status == PZ_OK) status = check_schedule(l, name, err);
  if (status == PZ_OK) status = check_tensor(l, name, err);
  if (status == PZ_OK) status = check_experts(l, name, err);
  if (status == PZ_OK) status = check_recompute(l, name, err);
  return status == PZ_OK ? check_shards(l, name, err) : status;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* The numbers of first and last stage go with other stages that are alike, and without chunks. */
static bool by_ends(const struct pz_training_options *p, int64_t layers) {
  int64_t middle = p->pp - 2, rest = layers - p->first_layers - p->last_layers;
  return p->vpp == 1 && (middle ? rest % middle == 0 : rest == 0);
}

enum pz_core_division pz_core_division(const struct pz_launch *l) {
  const struct pz_training_options *p = &l->plan;
  if (pz_launch_even(l)) return PZ_CORE_EVEN;
  if (p->first_layers || p->last_layers)
    return by_ends(p, l->shape.layers) ? PZ_CORE_ENDS : PZ_CORE_LAYOUT;
  return (l->shape.layers + 2) % (p->pp * p->vpp) == 0 ? PZ_CORE_LAYERS : PZ_CORE_LAYOUT;
}

void pz_core_layout(const struct pz_launch *l, FILE *out) {
  int64_t n = l->plan.pp * l->plan.vpp;
  for (int64_t j = 0; j < n; j++) {
    int64_t layers = pz_launch_chunk(l, j);
    if (j) fputc('|', out);
    if (j == 0) fputc('E', out);
    if (layers) fprintf(out, layers > 1 ? "t*%" PRId64 : "t", layers);
    if (j < n - 1) continue;
    if (layers > 1) fputc(',', out);
    for (int64_t i = 0; i < pz_core_predict_layers(l); i++) fputc('m', out);
    fputc('L', out);
  }
}

/* Kernels and collectives are issued in one order where tensor parallelism overlaps them; sharded weights are gathered,
 * and rows moved to experts, beside them. */
void pz_core_environment(const struct pz_launch *l, FILE *out) {
  int queues = pz_core_overlap(l, PZ_OVERLAP_EP) ? 32 : 1;
  if (pz_core_sharding(l))
    fputs("unset CUDA_DEVICE_MAX_CONNECTIONS\n\n", out);
  else
    fprintf(out, "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-%d}\n\n",
            queues);
}

int64_t pz_core_predict_layers(const struct pz_launch *l) {
  return l->plan.mtp ? l->shape.predict_layers : 0;
}

void pz_core_modules(const struct pz_launch *l, const char *quote, const char *between, FILE *out) {
  unsigned set = pz_options_modules(&l->plan);
  const char *gap = "";
  if (!set) set = PZ_MODULE_CORE;
  for (int i = 0; pz_module_names[i]; i++) {
    if (!(set >> i & 1)) continue;
    fprintf(out, "%s%s%s%s", gap, quote, pz_module_names[i], quote);
    gap = between;
  }
}

void pz_core_expert_layers(const struct pz_launch *l, FILE *out) {
  int64_t dense = l->shape.dense_layers;
  if (dense)
    fprintf(out, "([0]*%" PRId64 "+[1]*%" PRId64 ")", dense, l->shape.layers - dense);
  else
    fprintf(out, "([1]*%" PRId64 ")", l->shape.layers);
}

const char *pz_core_attention(const struct pz_launch *l) {
  const char *library = l->plan.attention_library;
  if (l->plan.attention == PZ_ATTENTION_STANDARD) return "unfused";
  if (!library || !*library) return "auto";
  return strcmp(library, "cudnn") == 0 ? "fused" : "flash";
}

const char *pz_core_sharding(const struct pz_launch *l) {
  if (l->plan.zero < 2) return NULL;
  return l->plan.zero == 2 ? "optim_grads" : "optim_grads_params";
}
