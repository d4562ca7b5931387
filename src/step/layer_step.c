#include "step/layer_step.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "cost/constants.h"
#include "cost/fp8.h"
#include "cost/network.h"
#include "cost/vector.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- a pass ---- */

static double imbalance(const struct pz_step_context *w) {
  return w->plan->imbalance > 1 && pz_plan_ep(w->plan) > 1 ? w->plan->imbalance : 1;
}

static int64_t node_devices(const struct pz_step_context *w) {
  return w->net->n_levels ? w->net->level[0].devices : 1;
}

/* With DeepEP and its like, copies of a token that go to several experts of one node cross the network between nodes
 * once: with experts chosen evenly, so many of k copies, over n nodes.  In an all-to-all every copy does. */
static double outer_part(const struct pz_step_context *w, struct pz_group g) {
  double n = (double)pz_ceil_div(g.devices * g.stride, pz_max(node_devices(w), 1)),
         k = (double)w->experts_per_token;
  if (n <= 1 || k < 1 || pz_plan_dispatcher(w->plan) == PZ_DISPATCHER_ALLTOALL) return 1;
  double nodes = n * (1 - pow(1 - 1 / n, k));
  return (w->expert_groups ? pz_fmin(nodes, (double)w->expert_groups) : nodes) / k;
}

static double all_to_all_s(const struct pz_step_context *w, const struct pz_op *op) {
  struct pz_group g = {pz_plan_ep(w->plan), pz_plan_etp(w->plan)};
  double bytes = (double)op->bytes_written * imbalance(w);
  bool there = op->direction == (strncmp(op->name, "dispatch", 8) == 0 ? PZ_FORWARD : PZ_BACKWARD);
  if (there && pz_plan_framework(w->plan)->fp8_dispatch && w->plan->precision == PZ_PRECISION_FP8)
    bytes /= 2;
  return pz_network_all_to_all_s(w->k, w->net, bytes, g, outer_part(w, g));
}

/* Devices with the other parts of a context are as far apart as tensor-parallel groups are wide. */
static struct pz_group context_group(const struct pz_step_context *w) {
  return (struct pz_group){pz_plan_cp(w->plan), w->plan->tp};
}

/* Keys, values and their gradients that pass beside attention: add_ring has their time. */
static bool in_ring(const struct pz_op *op) {
  return op->peers == PZ_PEERS_CONTEXT && op->kind != PZ_OP_ALL_TO_ALL;
}

static double collective_s(const struct pz_step_context *w, const struct pz_op *op) {
  if (in_ring(op)) return 0;
  if (op->peers == PZ_PEERS_CONTEXT)
    return pz_network_s(w->k, w->net, PZ_COLLECTIVE_ALL_TO_ALL, (double)op->bytes_written,
                        context_group(w));
  if (op->kind == PZ_OP_ALL_TO_ALL) return all_to_all_s(w, op);
  bool whole = op->kind == PZ_OP_ALL_REDUCE;
  struct pz_group g = {op->peers == PZ_PEERS_EXPERT_TENSOR ? pz_plan_etp(w->plan) : w->plan->tp, 1};
  double bytes = (double)pz_max(op->bytes_read, op->bytes_written);
  return pz_network_s(w->k, w->net, whole ? PZ_COLLECTIVE_ALL_REDUCE : PZ_COLLECTIVE_ALL_GATHER,
                      bytes, g);
}

/* Operators on the scores or in place of them. */
static bool is_core(const struct pz_step_context *w, const struct pz_op *op) {
  if (op->kind == PZ_OP_ATTENTION) return true;
  if (w->flash) return false;
  bool product = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  if (product) return op->dims.batch > 1 && !op->grouped;
  return op->dims.n == w->seq && op->dims.m > w->seq;
}

static bool is_linear(const struct pz_op *op) {
  return op->kind == PZ_OP_MATMUL && (op->dims.batch == 1 || op->grouped);
}

/* Of backward the weight gradients, which sum over tokens. */
static bool reduces_tokens(const struct pz_step_context *w, const struct pz_op *op) {
  if (op->grouped) return op->direction == PZ_BACKWARD && !op->weight_bytes;
  return op->direction == PZ_BACKWARD && op->dims.k == w->seq * w->plan->mbs;
}

/* A product in 8 bit.  Forward casts its input, the derivative of the input the gradient, both with a transposed copy
 * for the weight gradient; weights are cast once a step (Micikevicius et al., arXiv 2209.05433; Transformer Engine). */
static enum pz_status fp8_s(const struct pz_step_context *w, const struct pz_op *op,
                            struct pz_pass *p) {
  struct pz_product x = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  struct pz_grouped g = {op->dims.batch, op->dims.batch * op->dims.m, op->dims.n, op->dims.k, 0,
                         false};
  struct pz_mapping o;
  struct pz_vector_time cast;
  bool weights = reduces_tokens(w, op);
  if (op->grouped && weights) x.k = pz_grouped_rows(x.k);
  enum pz_status status = op->grouped && !weights ? pz_cost_fp8_grouped(w->cost, &g, &o, w->err)
                                                  : pz_cost_fp8_product(w->cost, &x, &o, w->err);
  if (status != PZ_OK) return status;
  p->products_s += p->last_s = o.latency_s;
  if (weights) return p->weight_s += o.latency_s, PZ_OK;
  pz_cost_fp8_cast(&w->cost->chip, op->dims.batch * op->dims.m, op->dims.k, true, &cast);
  p->elementwise_s += cast.latency_s;
  p->n_ops++;
  return PZ_OK;
}

/* Tokens to experts and back by GEMMs, of each sample (Lepikhin et al., GShard, arXiv 2006.16668): a place of an expert
 * sums over the sample's tokens.  The gradient of the weights is a second GEMM. */
static enum pz_status by_product_s(const struct pz_step_context *w, const struct pz_op *op,
                                   struct pz_pass *p) {
  int64_t places =
      (int64_t)ceil((double)(w->seq * w->experts_per_token) * pz_plan_framework(w->plan)->capacity);
  struct pz_product x = {w->plan->mbs, places, op->dims.n, w->seq, false};
  struct pz_mapping o;
  enum pz_status status = pz_cost_product(w->cost, &x, &o, w->err);
  bool twice = op->kind == PZ_OP_COMBINE && op->direction == PZ_BACKWARD;
  if (status == PZ_OK) p->products_s += (twice ? 2 : 1) * o.latency_s;
  return status;
}

static enum pz_status add_op(const struct pz_step_context *w, const struct pz_op *op,
                             struct pz_pass *p) {
  struct pz_estimate e;
  if (op->op_class == PZ_CLASS_NONE) return PZ_OK;
  if (op->kind == PZ_OP_SORT && !pz_plan_framework(w->plan)->sorts_rows) return PZ_OK;
  if (in_ring(op)) return PZ_OK;
  p->n_ops++;
  if (op->op_class == PZ_CLASS_COLLECTIVE) return PZ_OK;
  if (w->fp8 && is_linear(op)) return fp8_s(w, op, p);
  double capacity = pz_plan_framework(w->plan)->capacity;
  if (capacity > 0 && (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE))
    return by_product_s(w, op, p);
  enum pz_status status = pz_cost_op(w->cost, op, &e, w->err);
  if (status != PZ_OK) return status;
  if (op->grouped && capacity > 0) e.latency_s *= capacity;
  /* the power limit slows attention as it does long runs of GEMMs */
  if (op->kind == PZ_OP_ATTENTION) e.latency_s *= w->cost->chip.calibration.throttle;
  if (is_core(w, op))
    p->attention_s += e.latency_s;
  else if (op->op_class == PZ_CLASS_VECTOR)
    p->elementwise_s += e.latency_s;
  else
    p->products_s += p->last_s = e.latency_s;
  if (is_linear(op) && reduces_tokens(w, op)) p->weight_s += e.latency_s;
  return PZ_OK;
}

/* Operators of a pass from the one that sends tokens to the experts' devices to the one that sends them back: those of
 * the device with most tokens take longer. */
static enum pz_status add_ops(const struct pz_step_context *w, const struct pz_ops *ops,
                              struct pz_pass *p) {
  bool there = false;
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    const struct pz_op *op = &ops->op[i];
    struct pz_pass before = *p;
    if (op->kind == PZ_OP_ALL_TO_ALL && op->peers == PZ_PEERS_EXPERT) there = !there;
    status = add_op(w, op, p);
    if (!there) continue;
    double more = imbalance(w) - 1;
    p->products_s += more * (p->products_s - before.products_s);
    p->weight_s += more * (p->weight_s - before.weight_s);
    p->elementwise_s += more * (p->elementwise_s - before.elementwise_s);
  }
  return status;
}

/* Bytes that adding up gradients moves for a parameter and microbatch. */
static double accumulation_bytes(const struct pz_step_context *w) {
  switch (pz_plan_framework(w->plan)->accumulation) {
  case PZ_ACCUMULATION_KEPT: return w->k->kept_accumulation_bytes;
  case PZ_ACCUMULATION_FUSED: return w->microbatches > 1 ? w->k->fused_accumulation_bytes : 0;
  default: return w->microbatches > 1 ? w->k->accumulation_bytes : 0;
  }
}

static void accumulate(const struct pz_step_context *w, const struct pz_layer *l, double n_params,
                       struct pz_pass *p) {
  double bytes = accumulation_bytes(w);
  if (!(bytes > 0)) return;
  if (pz_plan_framework(w->plan)->accumulation != PZ_ACCUMULATION_FUSED) p->n_ops += n_params;
  struct pz_vector_work work = {PZ_OP_ADD, PZ_BACKWARD, l->params, 1, (double)l->params * bytes,
                                false};
  struct pz_vector_time time;
  pz_vector_time(&w->cost->chip, &work, &time);
  p->elementwise_s += time.hbm_s;
}

/* Tokens to and from experts are apart from the other collectives. */
static void add_collective(const struct pz_step_context *w, const struct pz_op *op,
                           struct pz_pass *p) {
  bool tokens = op->kind == PZ_OP_ALL_TO_ALL && op->peers == PZ_PEERS_EXPERT;
  if (op->op_class != PZ_CLASS_COLLECTIVE || op->dims.batch <= 1) return;
  *(tokens ? &p->expert_s : &p->collectives_s) += collective_s(w, op);
}

/* Context parallel: keys and values of the other parts come round a ring beside the attention (Liu et al., arXiv
 * 2310.01889), backward with their gradients; what takes longer than it shows. */
static void add_ring(const struct pz_step_context *w, const struct pz_ops *ops, struct pz_pass *p) {
  double own = 0,
         all = 0; /* bytes of keys and values, of this device and of those that it reaches */
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (!in_ring(op) || op->kind != PZ_OP_ALL_GATHER) continue;
    own += (double)op->bytes_read;
    all += (double)op->bytes_written;
  }
  double turns = own > 0 ? all / own - 1 : 0;
  if (!(turns > 0)) return;
  bool backward = ops->op[0].direction == PZ_BACKWARD;
  double rate = pz_network_rate(w->k, w->net, context_group(w)), starts = ceil(turns);
  double ring_s = (backward ? 2 : 1) * (turns * (own / rate) + starts * w->k->latency_s);
  /* each turn starts a kernel of its own; they wait for what is longer, keys or attention */
  p->n_ops += starts;
  p->collectives_s += pz_fmax(0, ring_s - p->attention_s);
}

enum pz_status pz_layer_kernels(const struct pz_step_context *w, const struct pz_layer *l,
                                struct pz_layer_kernels *out) {
  struct pz_layer_kernels k = {.n_params = 0};
  enum pz_status status = add_ops(w, &l->ops[PZ_FORWARD], &k.forward);
  if (status == PZ_OK) status = add_ops(w, &l->ops[PZ_BACKWARD], &k.backward);
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
  to->expert_s += part * from->expert_s;
  to->n_ops += part * from->n_ops;
}

static void recompute(const struct pz_step_context *w, struct pz_layer_step *t) {
  struct pz_pass whole = t->forward;
  /* every second GEMM is saved; attention is, element-wise operators are not */
  struct pz_pass half = {.products_s = whole.products_s / 2,
                         .elementwise_s = whole.elementwise_s,
                         .n_ops = whole.n_ops};
  if (pz_plan_framework(w->plan)->stops_early) whole.products_s -= whole.last_s;
  switch (w->plan->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF: add_pass(&t->backward, &whole, 1); break;
  case PZ_RECOMPUTATION_ALTERNATE: add_pass(&t->backward, &half, 1); break;
  case PZ_RECOMPUTATION_SELECTIVE:
    t->backward.attention_s += whole.attention_s;
    t->backward.n_ops += 4;
    break;
  default: break;
  }
}

/* Full recomputation of a compiled program, or of one that saves results of GEMMs. */
static enum pz_status recompute_needed(const struct pz_step_context *w, const struct pz_layer *l,
                                       struct pz_pass *p) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  struct pz_pass more = {.n_ops = 0};
  bool *recomputed = pz_calloc(ops->n, sizeof *recomputed);
  enum pz_status status = recomputed
                              ? pz_recompute_ops(l, w->plan->saved, recomputed, w->err)
                              : pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the prediction");
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++)
    if (recomputed[i]) status = add_op(w, &ops->op[i], &more);
  if (status == PZ_OK) {
    for (uint32_t i = 0; i < ops->n; i++)
      if (recomputed[i]) add_collective(w, &ops->op[i], &more);
    add_pass(p, &more, 1);
  }
  pz_free(recomputed);
  return status;
}

/* Selective recomputation of modules. */
static enum pz_status recompute_modules(const struct pz_step_context *w, const struct pz_layer *l,
                                        struct pz_pass *p) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  struct pz_pass more = {.n_ops = 0};
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++)
    if (pz_in_modules(l, &ops->op[i], pz_plan_modules(w->plan))) {
      status = add_op(w, &ops->op[i], &more);
      if (ops->op[i].op_class == PZ_CLASS_COLLECTIVE) more.expert_s += collective_s(w, &ops->op[i]);
    }
  if (status == PZ_OK) add_pass(p, &more, 1);
  return status;
}

static bool recomputes_needed(const struct pz_plan *p) {
  return p->recompute == PZ_RECOMPUTATION_FULL &&
         (p->saved || pz_framework_compiles(pz_plan_framework(p)));
}

/* Nodes whose devices hang on two processors, not domains of many hosts. */
enum { MOST_NODE_DEVICES = 8 };

/* The hosts of a tensor-parallel group that spans both processors wait for each other at every collective. */
static double lockstep(const struct pz_step_context *w) {
  int64_t node = node_devices(w);
  return node <= MOST_NODE_DEVICES && 2 * w->plan->tp > node && w->plan->tp > 1 ? w->k->lockstep
                                                                                : 1;
}

/* Does the host wait for what the router of a layer has found? */
static bool waits(const struct pz_step_context *w, const struct pz_layer *l) {
  const struct pz_framework *f = pz_plan_framework(w->plan);
  bool experts = false;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n && !experts; i++)
    experts = l->ops[PZ_FORWARD].op[i].grouped;
  return experts && f->counts_rows && !(f->graphs && node_devices(w) > MOST_NODE_DEVICES);
}

/* Host time of a pass. */
static double launches_s(const struct pz_step_context *w, const struct pz_pass *p) {
  if (w->plan->execution == PZ_EXECUTION_GRAPH) return 0;
  return p->n_ops * pz_plan_framework(w->plan)->launches * w->k->launch_s * lockstep(w);
}

/* Part of the experts' all-to-all that runs beside another microbatch: where the plan asks for it, and in DualPipe,
 * which is made for it (DeepSeek-V3, arXiv 2412.19437). */
static double expert_hidden(const struct pz_step_context *w) {
  enum pz_pipeline_order o = (enum pz_pipeline_order)w->plan->pipeline;
  bool paired = o == PZ_PIPELINE_DUALPIPE || o == PZ_PIPELINE_DUALPIPE_V;
  return paired || w->plan->overlap & PZ_OVERLAP_EP ? w->k->hidden_part : 0;
}

static void slow_down(struct pz_pass *p, double times) {
  p->products_s *= times;
  p->weight_s *= times;
  p->attention_s *= times;
  p->elementwise_s *= times;
}

/* Leave of the pass's collectives what shows; seconds of all, and of `waits` those of launches that nothing covers. */
static double finish_pass(const struct pz_step_context *w, bool waiting, struct pz_pass *p,
                          struct pz_layer_step *t) {
  double hidden = w->plan->overlap & PZ_OVERLAP_TP ? w->k->hidden_part : 0;
  double tensor_s = p->collectives_s * hidden, expert_s = p->expert_s * expert_hidden(w);
  t->hidden_s += tensor_s;
  t->expert_hidden_s += expert_s;
  p->collectives_s -= tensor_s;
  p->expert_s -= expert_s;
  if (expert_s > 0) slow_down(p, 1 / (1 - pz_plan_framework(w->plan)->communication_sms));
  double device = pz_kernels_s(p) + p->collectives_s + p->expert_s, host = launches_s(w, p);
  double s = pow(pow(device, w->k->smooth) + pow(host, w->k->smooth), 1 / w->k->smooth);
  if (waiting) s += w->k->waiting_part * pz_fmin(device, host);
  t->launch_s += s - device;
  return s;
}

enum pz_status pz_layer_step(const struct pz_step_context *w, const struct pz_layer *l,
                             const struct pz_layer_kernels *kernels, bool recomputed,
                             struct pz_layer_step *t) {
  enum pz_status status = PZ_OK;
  *t = (struct pz_layer_step){.forward = kernels->forward, .backward = kernels->backward};
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct pz_pass *p = d == PZ_FORWARD ? &t->forward : &t->backward;
    for (uint32_t i = 0; i < l->ops[d].n; i++) add_collective(w, &l->ops[d].op[i], p);
    add_ring(w, &l->ops[d], p);
  }
  accumulate(w, l, kernels->n_params, &t->backward);
  if (recomputed && recomputes_needed(w->plan))
    status = recompute_needed(w, l, &t->backward);
  else if (recomputed && pz_plan_modules(w->plan))
    status = recompute_modules(w, l, &t->backward);
  else if (recomputed)
    recompute(w, t);
  if (status != PZ_OK) return status;
  bool waiting = waits(w, l);
  t->forward_s = finish_pass(w, waiting, &t->forward, t);
  t->backward_s = finish_pass(w, waiting, &t->backward, t);
  return PZ_OK;
}

void pz_layer_step_add(struct pz_layer_step *sum, const struct pz_layer_step *t, double times) {
  add_pass(&sum->forward, &t->forward, times);
  add_pass(&sum->backward, &t->backward, times);
  sum->forward_s += times * t->forward_s;
  sum->backward_s += times * t->backward_s;
  sum->launch_s += times * t->launch_s;
  sum->hidden_s += times * t->hidden_s;
  sum->expert_hidden_s += times * t->expert_hidden_s;
}
