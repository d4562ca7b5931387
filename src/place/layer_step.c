#include "place/layer_step.h"

#include <math.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "cost/constants.h"
#include "cost/fp8.h"
#include "cost/network.h"
#include "cost/vector.h"
#include "place/recompute.h"
#include "workload/op.h"

/* ---- a pass ---- */

static double kernels_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

static double collective_s(const struct pz_step_context *w, const struct pz_op *op) {
  struct pz_group g = {w->plan->tp, 1};
  double bytes = (double)pz_max(op->bytes_read, op->bytes_written);
  bool whole = op->bytes_read == op->bytes_written; /* an all-reduce */
  return pz_network_s(w->k, w->net, whole ? PZ_COLLECTIVE_ALL_REDUCE : PZ_COLLECTIVE_ALL_GATHER,
                      bytes, g);
}

/* Operators on the scores or in place of them. */
static bool is_core(const struct pz_op *op, int64_t seq) {
  if (op->kind == PZ_OP_ATTENTION) return true;
  bool product = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  return product ? op->dims.batch > 1 : op->dims.n == seq && op->dims.m > seq;
}

static bool is_linear(const struct pz_op *op) {
  return op->kind == PZ_OP_MATMUL && op->dims.batch == 1;
}

/* Of backward the weight gradients, which sum over tokens. */
static bool reduces_tokens(const struct pz_step_context *w, const struct pz_op *op) {
  return op->direction == PZ_BACKWARD && op->dims.k == w->seq * w->plan->mbs;
}

/* A product in 8 bit.  Forward casts its input, the derivative of the input the gradient, both with a transposed copy
 * for the weight gradient; weights are cast once a step (Micikevicius et al., arXiv 2209.05433; Transformer Engine). */
static enum pz_status fp8_s(const struct pz_step_context *w, const struct pz_op *op,
                            struct pz_pass *p) {
  struct pz_product x = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  struct pz_mapping o;
  struct pz_vector_time cast;
  enum pz_status status = pz_cost_fp8_product(w->cost, &x, &o, w->err);
  if (status != PZ_OK) return status;
  p->products_s += p->last_s = o.latency_s;
  if (reduces_tokens(w, op)) return p->weight_s += o.latency_s, PZ_OK;
  pz_cost_fp8_cast(&w->cost->chip, op->dims.m, op->dims.k, true, &cast);
  p->elementwise_s += cast.latency_s;
  p->n_ops++;
  return PZ_OK;
}

/* Flash attention of a part of the context reads all of its keys. */
static struct pz_op with_keys(const struct pz_step_context *w, const struct pz_op *op) {
  struct pz_op one = *op;
  if (op->kind == PZ_OP_ATTENTION && one.dims.n == w->seq) one.dims.n = w->keys;
  return one;
}

static enum pz_status add_op(const struct pz_step_context *w, const struct pz_op *op,
                             struct pz_pass *p) {
  struct pz_estimate e;
  if (op->op_class == PZ_CLASS_NONE) return PZ_OK;
  p->n_ops++;
  if (op->op_class == PZ_CLASS_COLLECTIVE) return PZ_OK;
  if (w->fp8 && is_linear(op)) return fp8_s(w, op, p);
  struct pz_op one = with_keys(w, op);
  enum pz_status status = pz_cost_op(w->cost, &one, &e, w->err);
  if (status != PZ_OK) return status;
  /* the power limit slows attention as it does long runs of products */
  if (op->kind == PZ_OP_ATTENTION) e.latency_s *= w->cost->chip.calibration.throttle;
  if (is_core(op, w->seq))
    p->attention_s += e.latency_s;
  else if (op->op_class == PZ_CLASS_VECTOR)
    p->elementwise_s += e.latency_s;
  else
    p->products_s += p->last_s = e.latency_s;
  if (is_linear(op) && reduces_tokens(w, op)) p->weight_s += e.latency_s;
  return PZ_OK;
}

/* Bytes that adding up gradients moves for a parameter and microbatch. */
static double accumulation_bytes(const struct pz_step_context *w) {
  switch (w->plan->framework->accumulation) {
  case PZ_ACCUMULATION_KEPT: return w->k->kept_accumulation_bytes;
  case PZ_ACCUMULATION_FUSED: return w->rounds > 1 ? w->k->fused_accumulation_bytes : 0;
  default: return w->rounds > 1 ? w->k->accumulation_bytes : 0;
  }
}

static void accumulate(const struct pz_step_context *w, const struct pz_layer *l, double n_params,
                       struct pz_pass *p) {
  double bytes = accumulation_bytes(w);
  if (!(bytes > 0)) return;
  if (w->plan->framework->accumulation != PZ_ACCUMULATION_FUSED) p->n_ops += n_params;
  struct pz_vector_work work = {PZ_OP_ADD, PZ_BACKWARD, l->params, 1, (double)l->params * bytes,
                                false};
  struct pz_vector_time time;
  pz_vector_time(&w->cost->chip, &work, &time);
  p->elementwise_s += time.hbm_s;
}

static void add_collectives(const struct pz_step_context *w, const struct pz_ops *ops,
                            struct pz_pass *p) {
  for (uint32_t i = 0; i < ops->n && w->plan->tp > 1; i++)
    if (ops->op[i].op_class == PZ_CLASS_COLLECTIVE)
      p->collectives_s += collective_s(w, &ops->op[i]);
}

/* Context parallel: keys and values of the other parts come round a ring beside the attention (Liu et al., arXiv
 * 2310.01889), backward with their gradients; what takes longer than it shows. */
static void add_ring(const struct pz_step_context *w, const struct pz_ops *ops, struct pz_pass *p) {
  int64_t c = pz_plan_cp(w->plan);
  for (uint32_t i = 0; i < ops->n && c > 1; i++) {
    const struct pz_op *op = &ops->op[i];
    if (op->kind != PZ_OP_ATTENTION) continue;
    double back = op->direction == PZ_BACKWARD ? 2 : 1;
    double rate = pz_network_rate(w->k, w->net, (struct pz_group){c, w->plan->tp});
    double ring_s = back * (double)(c - 1) * (w->kv_bytes / rate + w->k->latency_s);
    /* each turn starts a kernel of its own; they wait for what is longer, keys or attention */
    p->n_ops += (double)(c - 1);
    p->collectives_s += pz_fmax(0, ring_s - p->attention_s);
  }
}

enum pz_status pz_layer_kernels(const struct pz_step_context *w, const struct pz_layer *l,
                                struct pz_layer_kernels *out) {
  struct pz_layer_kernels k = {.n_params = 0};
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n && status == PZ_OK; i++)
    status = add_op(w, &l->ops[PZ_FORWARD].op[i], &k.forward);
  for (uint32_t i = 0; i < l->ops[PZ_BACKWARD].n && status == PZ_OK; i++)
    status = add_op(w, &l->ops[PZ_BACKWARD].op[i], &k.backward);
  for (uint32_t i = 0; i < l->n_tensors; i++) k.n_params += l->tensors[i].role == PZ_ROLE_PARAM;
  if (status == PZ_OK) *out = k;
  return status;
}

/* ---- a layer with its recomputation --------------------------------------------------------- */

static void add_pass(struct pz_pass *to, const struct pz_pass *from, double part) {
  to->products_s += part * from->products_s;
  to->weight_s += part * from->weight_s;
  to->attention_s += part * from->attention_s;
  to->elementwise_s += part * from->elementwise_s;
  to->collectives_s += part * from->collectives_s;
  to->n_ops += part * from->n_ops;
}

static void recompute(const struct pz_step_context *w, struct pz_layer_step *t) {
  struct pz_pass again = t->forward;
  /* every second product is kept; attention is, element-wise operators are not */
  struct pz_pass half = {.products_s = again.products_s / 2,
                         .elementwise_s = again.elementwise_s,
                         .n_ops = again.n_ops};
  if (w->plan->framework->stops_early) again.products_s -= again.last_s;
  switch (w->plan->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF: add_pass(&t->backward, &again, 1); break;
  case PZ_RECOMPUTATION_ALTERNATE: add_pass(&t->backward, &half, 1); break;
  case PZ_RECOMPUTATION_SELECTIVE:
    t->backward.attention_s += again.attention_s;
    t->backward.n_ops += 4;
    break;
  default: break;
  }
}

/* Full recomputation of a compiled program, or of one that keeps results of products. */
static enum pz_status recompute_needed(const struct pz_step_context *w, const struct pz_layer *l,
                                       struct pz_pass *p) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  struct pz_pass more = {.n_ops = 0};
  bool *again = pz_calloc(ops->n, sizeof *again);
  enum pz_status status = again ? pz_recompute_ops(l, w->plan->kept, again, w->err)
                                : pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the prediction");
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++)
    if (again[i]) status = add_op(w, &ops->op[i], &more);
  if (status == PZ_OK) {
    for (uint32_t i = 0; i < ops->n; i++)
      if (again[i] && ops->op[i].op_class == PZ_CLASS_COLLECTIVE && w->plan->tp > 1)
        more.collectives_s += collective_s(w, &ops->op[i]);
    add_pass(p, &more, 1);
  }
  pz_free(again);
  return status;
}

static bool recomputes_needed(const struct pz_training_plan *p) {
  return p->recompute == PZ_RECOMPUTATION_FULL && (p->kept || pz_framework_compiles(p->framework));
}

/* Devices of a node hang on two processors; the hosts of a tensor-parallel group that spans both wait
 * for each other at every collective. */
static double lockstep(const struct pz_step_context *w) {
  enum { MOST_DEVICES = 8 }; /* of such a node */
  int64_t node = w->net->n_levels ? w->net->level[0].devices : 1;
  return node <= MOST_DEVICES && 2 * w->plan->tp > node && w->plan->tp > 1 ? w->k->lockstep : 1;
}

/* Host time of a pass. */
static double launches_s(const struct pz_step_context *w, const struct pz_pass *p) {
  if (w->plan->execution == PZ_EXECUTION_GRAPH) return 0;
  return p->n_ops * w->plan->framework->launches * w->k->launch_s * lockstep(w);
}

static double pass_s(const struct pz_step_context *w, const struct pz_pass *p, double *exposed_s) {
  double hidden = w->plan->overlap & PZ_OVERLAP_TP ? w->k->hidden_part : 0;
  *exposed_s = p->collectives_s * (1 - hidden);
  double device = kernels_s(p) + *exposed_s, host = launches_s(w, p);
  return pow(pow(device, w->k->smooth) + pow(host, w->k->smooth), 1 / w->k->smooth);
}

enum pz_status pz_layer_step(const struct pz_step_context *w, const struct pz_layer *l,
                             const struct pz_layer_kernels *kernels, bool again,
                             struct pz_layer_step *t) {
  double f_exposed, b_exposed;
  enum pz_status status = PZ_OK;
  *t = (struct pz_layer_step){.forward = kernels->forward, .backward = kernels->backward};
  add_collectives(w, &l->ops[PZ_FORWARD], &t->forward);
  add_collectives(w, &l->ops[PZ_BACKWARD], &t->backward);
  add_ring(w, &l->ops[PZ_FORWARD], &t->forward);
  add_ring(w, &l->ops[PZ_BACKWARD], &t->backward);
  accumulate(w, l, kernels->n_params, &t->backward);
  if (again && recomputes_needed(w->plan))
    status = recompute_needed(w, l, &t->backward);
  else if (again)
    recompute(w, t);
  if (status != PZ_OK) return status;
  t->forward_s = pass_s(w, &t->forward, &f_exposed);
  t->backward_s = pass_s(w, &t->backward, &b_exposed);
  t->launch_s = t->forward_s - kernels_s(&t->forward) - f_exposed + t->backward_s -
                kernels_s(&t->backward) - b_exposed;
  t->hidden_s = t->forward.collectives_s - f_exposed + t->backward.collectives_s - b_exposed;
  t->forward.collectives_s = f_exposed;
  t->backward.collectives_s = b_exposed;
  return PZ_OK;
}

void pz_layer_step_add(struct pz_layer_step *sum, const struct pz_layer_step *t, double times) {
  add_pass(&sum->forward, &t->forward, times);
  add_pass(&sum->backward, &t->backward, times);
  sum->forward_s += times * t->forward_s;
  sum->backward_s += times * t->backward_s;
  sum->launch_s += times * t->launch_s;
  sum->hidden_s += times * t->hidden_s;
}
