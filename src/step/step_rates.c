/* Throughput and utilisation of a step (step_model.h): what it computes, over what the devices
 * could compute (MFU and HFU, Korthikanti et al., arXiv 2205.05198).
 *
 * A token has 6 FLOP for each parameter of a GEMM that it passes, and those of attention.  `mfu`
 * counts the keys that a token attends to: half of a causal sequence, a window, a chunk.
 * `mfu_conventional` counts attention in full in every layer, as PaLM (Chowdhery et al., arXiv
 * 2204.02311, appendix B) and most papers since then print it.  `hfu` adds the FLOP that the plan
 * recomputes to those of mfu.  All are relative to the data-sheet peak of the precision.  FLOP are
 * those of the model, not of its kernels: operators that a tensor-parallel group repeats count
 * once. */
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "plan/pipeline_order.h"
#include "step/recompute.h"
#include "step/step_model.h"
#include "workload/op.h"

/* ---- GEMMs ---------------------------------------------------------------------------------- */

/* Returns whether the operator is flash attention, a scan, or a GEMM on attention scores. */
static bool is_attention(const struct pz_step_model *model, const struct pz_op *op) {
  if (pz_op_mixes_tokens(op->kind)) return true;
  return model->workload->options.attention != PZ_ATTENTION_FLASH && op->matmul_flop &&
         op->dims.batch > 1 && !op->grouped;
}

/* Returns the FLOP of a GEMM on a device, or 0 if it is part of attention.  A replicated GEMM,
 * which all devices of a tensor-parallel group run alike, is divided among them. */
static double gemm_flop(const struct pz_step_model *model, const struct pz_op *op) {
  if (is_attention(model, op)) return 0;
  double devices = op->replicated ? (double)model->workload->options.tp : 1;
  return (double)op->matmul_flop / devices;
}

/* Returns the FLOP of all forward GEMMs of a layer on a device, without those of attention. */
static double forward_gemm_flop(const struct pz_step_model *model, const struct pz_layer *layer) {
  double sum = 0;
  for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++)
    sum += gemm_flop(model, &layer->ops[PZ_FORWARD].op[i]);
  return sum;
}

/* Returns the FLOP for a token of the forward GEMMs of a layer: 2 for each parameter that the token
 * passes.  Of routed experts, only the chosen ones count; a head counts even if its parameters are
 * those of the embedding (tied).  Layers that use the weights of another layer, and ONNX models,
 * whose parameters need not belong to GEMMs, have the FLOP of their graph. */
static double layer_gemm_flop(const struct pz_step_model *model, const struct pz_layer *layer) {
  const struct pz_workload *workload = model->workload;
  double graph_flop = forward_gemm_flop(model, layer);
  double tokens = (double)(workload->options.mbs * model->seq);
  bool is_onnx = !workload->hidden, shares_weights = !layer->model_params;
  if (is_onnx) return graph_flop / tokens;
  if (shares_weights)
    return graph_flop * (double)(workload->options.tp * pz_max(1, workload->options.cp)) / tokens;
  double params = (double)layer->model_params;
  if (workload->experts)
    params -= (double)layer->model_expert_params *
              (1 - (double)workload->experts_per_token / (double)workload->experts);
  double tied = 0;
  if (layer->tied_params && graph_flop > 0)
    tied = (double)workload->vocab * (double)workload->hidden;
  return 2 * (params + tied);
}

/* Returns the FLOP for a token of all GEMMs, forward and backward, of all layers but the embedding,
 * which only looks vectors up.  A frozen parameter has no gradient: 4 FLOP instead of 6. */
static double model_gemm_flop(const struct pz_step_model *model) {
  const struct pz_workload *workload = model->workload;
  bool frozen = workload->options.lora.rank > 0;
  double sum = 0;
  uint32_t first = workload->hidden ? model->kinds.layer[0] : 0;
  for (uint32_t i = first; i < workload->n_layers; i++) {
    const struct pz_layer *layer = &workload->layers[i];
    double forward = layer_gemm_flop(model, layer), all = 3 * forward;
    if (frozen) all = 2 * forward + 2 * (double)layer->model_trained_params;
    sum += (double)layer->count * all;
  }
  return sum;
}

/* ---- attention ------------------------------------------------------------------------------ */

/* Returns the FLOP for a token of a forward attention operator, over all devices that divide it. Of
 * causal attention only the part counts in which a token attends to itself or to earlier tokens:
 * half of a square, and of a band (a sliding window) all but the triangle before its first keys. */
static double attention_flop(const struct pz_step_model *model, const struct pz_op *op) {
  const struct pz_workload_options *options = &model->workload->options;
  double devices = (double)(options->tp * pz_max(1, options->cp));
  double tokens = (double)(options->mbs * model->seq), attended = 1;
  if (model->workload->causal && !pz_op_is_scan(op->kind)) {
    int64_t keys = strncmp(op->name, "context", 7) == 0 ? op->dims.k : op->dims.n;
    attended = 1 - pz_fmin(1, (double)keys / (double)pz_max(op->span, op->dims.m)) / 2;
  }
  return attended * (double)op->matmul_flop * devices / tokens;
}

/* Returns the FLOP for a token of all layers' attention: two products forward and four backward.
 * The scores that the backward pass of flash attention computes again are not the model's. */
static double model_attention_flop(const struct pz_step_model *model) {
  double sum = 0;
  for (uint32_t i = 0; i < model->workload->n_layers; i++) {
    const struct pz_layer *layer = &model->workload->layers[i];
    const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
    for (uint32_t k = 0; k < ops->n; k++)
      if (is_attention(model, &ops->op[k]))
        sum += 3 * (double)layer->count * attention_flop(model, &ops->op[k]);
  }
  return sum;
}

/* Numbers of repeated layers with attention, with scans, and with sparse attention (an indexer). */
struct mixer_counts {
  double attention, scans, sparse;
};

/* Counts the repeated layers of a model by how they mix tokens. */
static struct mixer_counts count_mixers(const struct pz_step_model *model) {
  struct mixer_counts counts = {0};
  for (uint32_t kind = 0; kind < model->kinds.n; kind++) {
    const struct pz_layer *layer = &model->workload->layers[model->kinds.layer[kind]];
    const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
    bool attends = false, scans = false, indexed = false;
    for (uint32_t i = 0; i < ops->n; i++) {
      const struct pz_op *op = &ops->op[i];
      bool scan = pz_op_is_scan(op->kind);
      scans = scans || scan;
      attends = attends || (is_attention(model, op) && !scan);
      indexed = indexed || strncmp(op->name, "index_", 6) == 0;
    }
    counts.attention += attends ? (double)layer->count : 0;
    counts.scans += scans ? (double)layer->count : 0;
    counts.sparse += indexed ? (double)layer->count : 0;
  }
  return counts;
}

/* ---- recomputation -------------------------------------------------------------------------- */

/* Returns the part of a forward operator that the backward pass of a recomputed layer computes
 * again, as in the model of time (layer_step.c).  `needed` has a flag for each operator if the
 * program recomputes only what it needs. */
static double recomputed_part(const struct pz_step_model *model, const struct pz_plan *plan,
                              const struct pz_layer *layer, uint32_t i, const bool *needed) {
  const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
  bool attention = is_attention(model, op);
  if (needed) return needed[i];
  if (pz_plan_recomputed_modules(plan))
    return pz_in_modules(layer, op, pz_plan_recomputed_modules(plan));
  switch (plan->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF: return 1;
  case PZ_RECOMPUTATION_ALTERNATE: return attention ? 0 : 0.5;
  case PZ_RECOMPUTATION_SELECTIVE: return attention && !pz_op_is_scan(op->kind);
  default: return 0;
  }
}

/* Returns the FLOP for a token of what the plan recomputes in all layers.  Recomputed GEMMs of a
 * layer are a part of layer_gemm_flop(). */
static double recompute_flop(struct pz_call *call, const struct pz_step_model *model,
                             const struct pz_plan *plan) {
  double sum = 0;
  bool is_whole =
      plan->recompute == PZ_RECOMPUTATION_FULL || plan->recompute == PZ_RECOMPUTATION_HALF;
  if (plan->recompute == PZ_RECOMPUTATION_NONE) return 0;
  for (uint32_t kind = 0; kind < model->kinds.n; kind++) {
    const struct pz_layer *layer = &model->workload->layers[model->kinds.layer[kind]];
    const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
    const bool *needed = NULL;
    double all = forward_gemm_flop(model, layer), gemms = 0, attention = 0, last = 0;
    if (pz_recomputes_needed(plan)) needed = pz_recompute_ops(call, layer, plan->saved);
    for (uint32_t i = 0; i < ops->n; i++) {
      const struct pz_op *op = &ops->op[i];
      double part = recomputed_part(model, plan, layer, i, needed);
      double flop = part * gemm_flop(model, op);
      if (is_attention(model, op)) attention += part * attention_flop(model, op);
      if (!(flop > 0)) continue;
      last = flop;
      gemms += flop;
    }
    /* the backward pass does not read the result of the last GEMM */
    if (!needed && is_whole && pz_plan_framework(plan)->stops_early) gemms -= last;
    double layer_flop = attention + (all > 0 ? layer_gemm_flop(model, layer) * gemms / all : 0);
    sum += layer_flop * (double)pz_step_recomputed(model, plan, kind);
  }
  return sum;
}

/* ---- the rates ------------------------------------------------------------------------------ */

/* Sets tokens, parameters, throughput and utilisation of a prediction from its step time. */
void pz_step_rates(struct pz_call *call, const struct pz_step_model *model,
                   const struct pz_plan *plan, struct pz_prediction *out) {
  const struct pz_workload *workload = model->workload;
  const struct pz_chip *chip = &model->cost.chip;
  double recomputed = recompute_flop(call, model, plan);
  double width = (double)workload->hidden;
  if (workload->head_dim) width = (double)workload->heads * (double)workload->head_dim;
  double gemm_flop = model_gemm_flop(model), model_flop = gemm_flop + model_attention_flop(model);
  struct mixer_counts mixers = count_mixers(model);
  /* The conventional FLOP per token add 12 * layers * width * seq for attention to those of GEMMs
   * (Chowdhery et al., arXiv 2204.02311, appendix B).  In hybrids, only layers with attention
   * count. */
  double attention_layers = mixers.scans > 0 ? mixers.attention : (double)model->n_blocks;
  double conventional_flop = gemm_flop + 12 * attention_layers * width * (double)model->seq;
  double precision_factor = 1; /* data-sheet peak of the precision over that of 16 bit */
  if (plan->precision == PZ_PRECISION_FP8) precision_factor = 2;
  if (plan->precision == PZ_PRECISION_NVFP4)
    precision_factor = chip->tensor.nvfp4_speedup > 0 ? chip->tensor.nvfp4_speedup : 4;
  double peak = pz_chip_tensor_flop_per_s(chip) * precision_factor;
  out->tokens = (double)(plan->batch * model->seq);
  out->params = (double)workload->totals.model_params;
  out->active_params = (double)workload->totals.active_params;
  out->scan_layers = mixers.scans;
  out->sparse_layers = mixers.sparse;
  out->samples_per_s = (double)plan->batch / out->step_s;
  out->tokens_per_s_per_device = out->tokens / out->step_s / (double)pz_plan_devices(plan);
  out->mfu = model_flop * out->tokens_per_s_per_device / peak;
  out->hfu = (model_flop + recomputed) * out->tokens_per_s_per_device / peak;
  out->flop_per_s_per_device = conventional_flop * out->tokens_per_s_per_device;
  out->mfu_conventional = out->flop_per_s_per_device / peak;
}
