#include "step/step_rates.h"

#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "plan/pipeline_order.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- GEMMs ---------------------------------------------------------------------------------- */

/* Flash attention or a scan, or a product with the scores. */
static bool is_attention(const struct pz_step_model *m, const struct pz_op *op) {
  if (pz_op_mixes_tokens(op->kind)) return true;
  return m->w->options.attention != PZ_ATTENTION_FLASH && op->matmul_flop && op->dims.batch > 1 &&
         !op->grouped;
}

/* FLOP of a GEMM on a device; what all devices of a tensor-parallel group compute alike counts once. */
static double gemm_flop(const struct pz_step_model *m, const struct pz_op *op) {
  if (is_attention(m, op)) return 0;
  return (double)op->matmul_flop / (op->replicated ? (double)m->w->options.tp : 1);
}

static double forward_gemm_flop(const struct pz_step_model *m, const struct pz_layer *l) {
  double sum = 0;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++)
    sum += gemm_flop(m, &l->ops[PZ_FORWARD].op[i]);
  return sum;
}

/* Parameters that a token meets in a layer, of the undivided model: of routed experts those chosen. */
static double active_params(const struct pz_workload *w, const struct pz_layer *l) {
  double expert = (double)l->model_expert_params, all = (double)l->model_params;
  if (!w->experts) return all;
  return all - expert * (1 - (double)w->experts_per_token / (double)w->experts);
}

/* FLOP a token of the forward GEMMs of a layer: 2 a parameter, also of one that it has in common with the embedding.  Of
 * an ONNX file, whose parameters may be anything, those of the graph. */
static double layer_gemm_flop(const struct pz_step_model *m, const struct pz_layer *l) {
  const struct pz_workload *w = m->w;
  double here = forward_gemm_flop(m, l);
  if (!w->hidden) return here / (double)(w->options.mbs * m->seq);
  if (!l->model_params) /* weights of another layer */
    return here * (double)(w->options.tp * pz_max(1, w->options.cp)) /
           (double)(w->options.mbs * m->seq);
  double tied = l->tied_params && here > 0 ? (double)w->vocab * (double)w->hidden : 0;
  return 2 * (active_params(w, l) + tied);
}

/* Of the model, backward with it: of all layers but the embedding, which looks vectors up.  A frozen parameter has no
 * gradient: 4 FLOP a token in place of 6. */
static double model_gemm_flop(const struct pz_step_model *m) {
  double sum = 0;
  for (uint32_t i = m->w->hidden ? m->kinds.layer[0] : 0; i < m->w->n_layers; i++) {
    const struct pz_layer *l = &m->w->layers[i];
    double forward = layer_gemm_flop(m, l);
    bool frozen = m->w->options.lora.rank > 0;
    sum += (double)l->count *
           (frozen ? 2 * forward + 2 * (double)l->model_trained_params : 3 * forward);
  }
  return sum;
}

/* ---- attention, by the graph's operators ---------------------------------------------------- */

/* Part of the queries x keys of an operator in which a token attends to one before it, or to itself: half of a square;
 * of a band (a sliding window) all but the triangle before its first keys.  What kernels compute of the rest is not
 * counted. */
static double attended_part(const struct pz_step_model *m, const struct pz_op *op) {
  if (!m->w->causal || pz_op_is_scan(op->kind)) return 1;
  int64_t keys = strncmp(op->name, "context", 7) == 0 ? op->dims.k : op->dims.n;
  return 1 - pz_fmin(1, (double)keys / (double)pz_max(op->span, op->dims.m)) / 2;
}

/* FLOP a token of a forward operator, over all devices that divide it. */
static double attention_flop(const struct pz_step_model *m, const struct pz_op *op) {
  const struct pz_workload_options *o = &m->w->options;
  double devices = (double)(o->tp * pz_max(1, o->cp)), tokens = (double)(o->mbs * m->seq);
  return attended_part(m, op) * (double)op->matmul_flop * devices / tokens;
}

/* FLOP a token of all layers' attention: forward two products, backward four; the scores that flash attention's backward
 * computes anew are not the model's. */
static double model_attention_flop(const struct pz_step_model *m) {
  double sum = 0;
  for (uint32_t i = 0; i < m->w->n_layers; i++) {
    const struct pz_layer *l = &m->w->layers[i];
    for (uint32_t k = 0; k < l->ops[PZ_FORWARD].n; k++)
      if (is_attention(m, &l->ops[PZ_FORWARD].op[k]))
        sum += 3 * (double)l->count * attention_flop(m, &l->ops[PZ_FORWARD].op[k]);
  }
  return sum;
}

/* Layers of the model by what mixes their tokens. */
struct mixers {
  double attention, scans, sparse;
};

static struct mixers mixers_of(const struct pz_step_model *m) {
  struct mixers n = {0};
  for (uint32_t i = 0; i < m->kinds.n; i++) {
    const struct pz_layer *l = &m->w->layers[m->kinds.layer[i]];
    bool attends = false, scans = false, indexed = false;
    for (uint32_t k = 0; k < l->ops[PZ_FORWARD].n; k++) {
      const struct pz_op *op = &l->ops[PZ_FORWARD].op[k];
      scans = scans || pz_op_is_scan(op->kind);
      attends = attends || (is_attention(m, op) && !pz_op_is_scan(op->kind));
      indexed = indexed || strncmp(op->name, "index_", 6) == 0;
    }
    n.attention += attends ? (double)l->count : 0;
    n.scans += scans ? (double)l->count : 0;
    n.sparse += indexed ? (double)l->count : 0;
  }
  return n;
}

/* ---- recomputation -------------------------------------------------------------------------- */

/* Part of a forward operator that backward of a recomputed layer computes anew, as the model of time has it;
 * `needed`: what a compiled program recomputes of the layer. */
static double recomputed_part(const struct pz_step_model *m, const struct pz_plan *p,
                              const struct pz_layer *l, uint32_t i, const bool *needed) {
  const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
  bool attention = is_attention(m, op);
  if (needed) return needed[i];
  if (pz_plan_recomputed_modules(p)) return pz_in_modules(l, op, pz_plan_recomputed_modules(p));
  switch (p->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF: return 1;
  case PZ_RECOMPUTATION_ALTERNATE: return attention ? 0 : 0.5;
  case PZ_RECOMPUTATION_SELECTIVE: return attention && !pz_op_is_scan(op->kind);
  default: return 0;
  }
}

/* FLOP a token of what is recomputed of a layer; GEMMs are a part of the layer's. */
static double sum_recomputed(const struct pz_step_model *m, const struct pz_plan *p,
                             const struct pz_layer *l, const bool *needed) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  double all = forward_gemm_flop(m, l), gemms = 0, attention = 0, last = 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    double part = recomputed_part(m, p, l, i, needed), gemm = part * gemm_flop(m, op);
    if (is_attention(m, op)) attention += part * attention_flop(m, op);
    if (gemm > 0) gemms += last = gemm;
  }
  bool whole = p->recompute == PZ_RECOMPUTATION_FULL || p->recompute == PZ_RECOMPUTATION_HALF;
  /* backward does not read the result of the last */
  if (!needed && whole && pz_plan_framework(p)->stops_early) gemms -= last;
  return attention + (all > 0 ? layer_gemm_flop(m, l) * gemms / all : 0);
}

/* Layers of a kind that the plan recomputes, of all stages. */
static int64_t recomputed_layers(const struct pz_step_model *m, const struct pz_plan *p,
                                 uint32_t kind) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  int64_t sum = 0;
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    int64_t n = pz_plan_recomputed_layers(p, pz_pipeline_stage_of(&shape, (uint32_t)j),
                                          pz_plan_chunk_layers(p, m->n_blocks, j));
    sum += pz_kind_count(&m->kinds, kind, pz_plan_layers_before(p, m->n_blocks, j), n);
  }
  return sum;
}

/* FLOP a token. */
static double recompute_flop(struct pz_call *call, const struct pz_step_model *m,
                             const struct pz_plan *p) {
  double sum = 0;
  for (uint32_t k = 0; k < m->kinds.n && p->recompute != PZ_RECOMPUTATION_NONE; k++) {
    const struct pz_layer *l = &m->w->layers[m->kinds.layer[k]];
    const bool *needed = pz_recomputes_needed(p) ? pz_recompute_ops(call, l, p->saved) : NULL;
    sum += sum_recomputed(m, p, l, needed) * (double)recomputed_layers(m, p, k);
  }
  return sum;
}

/* ---- the rates ------------------------------------------------------------------------------ */

/* Of the 16-bit peak, by the data sheet. */
static double peak_part(const struct pz_chip *c, const struct pz_plan *p) {
  if (p->precision == PZ_PRECISION_NVFP4)
    return c->tensor.nvfp4_speedup > 0 ? c->tensor.nvfp4_speedup : 4;
  return p->precision == PZ_PRECISION_FP8 ? 2 : 1;
}

void pz_step_rates(struct pz_call *call, const struct pz_step_model *m, const struct pz_plan *p,
                   struct pz_prediction *out) {
  const struct pz_workload *w = m->w;
  double again = recompute_flop(call, m, p);
  double width = w->head_dim ? (double)w->heads * (double)w->head_dim : (double)w->hidden;
  double gemms = model_gemm_flop(m), flop = gemms + model_attention_flop(m);
  struct mixers n = mixers_of(m);
  double conventional =
      gemms + 12 * (n.scans > 0 ? n.attention : (double)m->n_blocks) * width * (double)m->seq;
  double peak = pz_chip_tensor_flop_per_s(&m->cost.chip) * peak_part(&m->cost.chip, p);
  out->tokens = (double)(p->batch * m->seq);
  out->params = (double)w->totals.model_params;
  out->active_params = (double)w->totals.active_params;
  out->scan_layers = n.scans;
  out->sparse_layers = n.sparse;
  out->samples_per_s = (double)p->batch / out->step_s;
  out->tokens_per_s_per_device = out->tokens / out->step_s / (double)pz_plan_devices(p);
  out->mfu = flop * out->tokens_per_s_per_device / peak;
  out->hfu = (flop + again) * out->tokens_per_s_per_device / peak;
  out->flop_per_s_per_device = conventional * out->tokens_per_s_per_device;
  out->mfu_conventional = out->flop_per_s_per_device / peak;
}
