#include "step/layer_step.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "cost/formats.h"
#include "cost/scan.h"
#include "cost/vector.h"
#include "step/pass_schedule.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- a pass ---- */

/* Up to PZ_SERVER_DEVICES they hang on two processors, more are a domain of many hosts. */
static int64_t node_devices(const struct pz_step_context *w) {
  return w->net->n_levels ? w->net->level[0].devices : 1;
}

/* Seconds in which HBM moves so many bytes of each element. */
static double moved_s(const struct pz_step_context *w, double elements, double bytes) {
  struct pz_vector_work work = {PZ_OP_ADD, PZ_BACKWARD,      (int64_t)elements,
                                1,         elements * bytes, false};
  struct pz_vector_time time;
  pz_vector_time(&w->cost->chip, &work, &time);
  return time.hbm_s;
}

/* Results come back added up where tokens were dispatched to; backward, gradients go the same ways.  HybridEP hands tokens
 * over in the order of experts, so that no kernel sorts them: it reads and writes each copy once more (its README: 536 GB/s
 * where its kernel that sends has 735). */
static struct pz_wire_time dispatch_time(const struct pz_step_context *w, const struct pz_op *op) {
  bool there = op->direction == (strncmp(op->name, "dispatch", 8) == 0 ? PZ_FORWARD : PZ_BACKWARD);
  bool fp8 =
      there && pz_plan_framework(w->plan)->fp8_dispatch && w->plan->precision == PZ_PRECISION_FP8;
  double experts = (double)pz_max(w->experts_per_token, 1), rows = (double)pz_max(op->dims.m, 1);
  struct pz_dispatch d = {.dispatcher = pz_plan_dispatcher(w->plan),
                          .combine = !there,
                          .tokens = rows / experts * w->imbalance,
                          .token_bytes = (double)op->bytes_written / rows / (fp8 ? 2 : 1),
                          .experts = experts,
                          .most_nodes = (double)w->expert_groups,
                          .cores = w->k->communication_cores,
                          .group = {pz_plan_ep(w->plan), pz_plan_etp(w->plan)}};
  struct pz_wire_time t = pz_dispatch_time(w->k, w->net, &d);
  if (d.dispatcher == PZ_DISPATCHER_HYBRIDEP)
    t.s += moved_s(w, d.tokens * d.experts, 2 * d.token_bytes);
  return t;
}

/* Devices with the other parts of a context are as far apart as tensor-parallel groups are wide. */
static struct pz_group context_group(const struct pz_step_context *w) {
  return (struct pz_group){pz_plan_cp(w->plan), w->plan->tp};
}

/* Keys, values and their gradients that pass beside attention: add_ring has their time. */
static bool in_ring(const struct pz_op *op) {
  return op->peers == PZ_PEERS_CONTEXT && op->kind != PZ_OP_ALL_TO_ALL;
}

static bool to_experts(const struct pz_op *op) {
  return op->kind == PZ_OP_ALL_TO_ALL && op->peers == PZ_PEERS_EXPERT;
}

static bool is_tensor_collective(const struct pz_op *op) {
  return op->op_class == PZ_CLASS_COLLECTIVE && op->dims.batch > 1 && !in_ring(op) &&
         !to_experts(op) && op->peers != PZ_PEERS_CONTEXT;
}

/* Of the operands of a GEMM.  Router, head and adapters stay in 16 bit. */
static enum pz_format op_format(const struct pz_step_context *w, const struct pz_op *op) {
  static const struct {
    const char *begin;
    enum pz_wide_module module;
  } names[] = {{"query", PZ_WIDE_ATTENTION},    {"key", PZ_WIDE_ATTENTION},
               {"value", PZ_WIDE_ATTENTION},    {"attention_out", PZ_WIDE_ATTENTION},
               {"latent_", PZ_WIDE_LATENT},     {"mamba_out", PZ_WIDE_MAMBA_OUT_BF16},
               {"mamba_out", PZ_WIDE_MAMBA_OUT}};
  bool linear = op->kind == PZ_OP_MATMUL && (op->dims.batch == 1 || op->grouped);
  if (!w->format || !linear || strncmp(op->name, "router", 6) == 0 || pz_op_adapts(op))
    return PZ_FORMAT_16BIT;
  for (size_t i = 0; i < sizeof names / sizeof *names && w->plan->bf16_modules; i++)
    if (w->plan->bf16_modules & (int)names[i].module &&
        strncmp(op->name, names[i].begin, strlen(names[i].begin)) == 0)
      return names[i].module == PZ_WIDE_MAMBA_OUT && w->format == PZ_FORMAT_NVFP4 ? PZ_FORMAT_MXFP8
                                                                                  : PZ_FORMAT_16BIT;
  return w->format;
}

static bool reads(const struct pz_op *op, uint32_t tensor) {
  for (uint32_t k = 0; k < op->n_in; k++)
    if (op->in[k] == tensor) return true;
  return false;
}

/* What a GEMM reads is cast before it is gathered over the tensor-parallel group (Transformer Engine,
 * gather_along_first_dim in pytorch/distributed.py). */
static enum pz_format gather_format(const struct pz_step_context *w, const struct pz_ops *ops,
                                    const struct pz_op *gather) {
  enum pz_format format = PZ_FORMAT_16BIT;
  if (!w->format || !pz_plan_framework(w->plan)->transformer_engine ||
      gather->kind != PZ_OP_ALL_GATHER || !is_tensor_collective(gather))
    return format;
  for (uint32_t i = 0; i < ops->n && !format; i++)
    if (reads(&ops->op[i], gather->out[0])) format = op_format(w, &ops->op[i]);
  return format;
}

static struct pz_wire_time collective_time(const struct pz_step_context *w,
                                           const struct pz_ops *ops, const struct pz_op *op) {
  if (to_experts(op)) return dispatch_time(w, op);
  if (op->peers == PZ_PEERS_CONTEXT)
    return pz_network_time(w->k, w->net, PZ_COLLECTIVE_ALL_TO_ALL, (double)op->bytes_written,
                           context_group(w));
  enum pz_collective kind = op->kind == PZ_OP_ALL_REDUCE   ? PZ_COLLECTIVE_ALL_REDUCE
                            : op->kind == PZ_OP_ALL_TO_ALL ? PZ_COLLECTIVE_ALL_TO_ALL
                                                           : PZ_COLLECTIVE_ALL_GATHER;
  struct pz_group g = {op->peers == PZ_PEERS_EXPERT_TENSOR ? pz_plan_etp(w->plan) : w->plan->tp, 1};
  double bytes = (double)pz_max(op->bytes_read, op->bytes_written);
  bytes *= pz_format_bytes(gather_format(w, ops, op)) / 2;
  return pz_network_time(w->k, w->net, kind, bytes, g);
}

/* Operators on the scores or in place of them. */
static bool is_core(const struct pz_step_context *w, const struct pz_op *op) {
  if (pz_op_mixes_tokens(op->kind)) return true;
  if (w->flash) return false;
  bool product = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  if (product) return op->dims.batch > 1 && !op->grouped;
  return op->dims.n == w->seq && op->dims.m > w->seq;
}

static bool is_linear(const struct pz_op *op) {
  return op->kind == PZ_OP_MATMUL && (op->dims.batch == 1 || op->grouped);
}

/* Of backward the weight gradients, which sum over tokens and read no weights. */
static bool reduces_tokens(const struct pz_op *op) {
  return op->direction == PZ_BACKWARD && !op->weight_bytes;
}

/* ---- kernels, and what they take beside collectives ---- */

static void add_gemm(const struct pz_step_context *w, const struct pz_op *op, double s,
                     struct pz_pass *p) {
  p->products_s += p->last_s = s;
  p->slowed_s += s * pz_beside_gemm(w->k, &w->cost->chip, &op->dims, w->beside);
}

static void add_attention(const struct pz_step_context *w, double s, struct pz_pass *p) {
  p->attention_s += s;
  p->slowed_s += s * pz_beside_attention(w->k, w->beside);
}

static void add_elementwise(const struct pz_step_context *w, double s, struct pz_pass *p) {
  p->elementwise_s += s;
  p->slowed_s += s * pz_beside_elementwise(w->k, w->beside);
}

/* What a kernel without work takes of the device. */
static double kernel_s(const struct pz_step_context *w) {
  const struct pz_kernel *k = pz_chip_kernel(&w->cost->chip, "default");
  return pz_corrected(w->cost->chip.correction.elementwise) *
         (k ? k->startup_s : w->cost->chip.calibration.startup_s);
}

/* Is a grouped GEMM one GEMM after another?  Transformer Engine's are, with the tails of each (SimuMax has its times on a
 * B200: 0.2 to 0.5 of what one kernel for all would reach). */
static bool is_looped(const struct pz_step_context *w, const struct pz_op *op) {
  return op->grouped && pz_plan_framework(w->plan)->launches_per_expert;
}

/* The GEMM of one expert of a loop. */
static struct pz_op expert_op(const struct pz_op *op) {
  struct pz_op one = *op;
  int64_t n = pz_max(1, op->dims.batch);
  one.dims.batch = 1;
  one.grouped = false;
  if (!op->weight_bytes && op->direction == PZ_BACKWARD)
    one.dims.k = pz_grouped_gradient_rows(op->dims.k);
  one.bytes_read /= n;
  one.bytes_written /= n;
  one.weight_bytes /= n;
  one.matmul_flop /= n;
  return one;
}

/* Launches of a loop over experts.  In 8 and 4 bit the tokens of each are cast and their scales found where the GEMM does not sum
 * over them: kernels that the device starts one after another; scales of all experts are put in order by one kernel. */
static void launch_experts(const struct pz_step_context *w, const struct pz_op *op,
                           struct pz_pass *p) {
  if (!is_looped(w, op)) return;
  int kernels = op_format(w, op) && !reduces_tokens(op) ? 2 : 0;
  p->native_s +=
      (double)op->dims.batch * (w->k->native_gemm_s + (double)kernels * w->k->native_launch_s);
  add_elementwise(w, (double)(op->dims.batch * kernels) * kernel_s(w), p);
}

/* Operators of a router besides those of the graph, which has 7 from router to dispatch.sort with its all-to-all
 * ('phaze graph deepseek-v3 --kernels pointwise --ep 8'): taken for every dispatcher. */
static double router_ops(const struct pz_step_context *w) {
  enum { OF_GRAPH = 7 };
  const struct pz_framework *f = pz_plan_framework(w->plan);
  bool alltoall = pz_plan_dispatcher(w->plan) == PZ_DISPATCHER_ALLTOALL && pz_plan_ep(w->plan) > 1;
  double kernels = f->router_kernels - (alltoall ? 0 : w->k->preparation_kernels);
  return f->launches_per_op > 0 ? pz_fmax(0, kernels / f->launches_per_op - OF_GRAPH) : 0;
}

static void add_router(const struct pz_step_context *w, const struct pz_op *op, struct pz_pass *p) {
  const struct pz_framework *f = pz_plan_framework(w->plan);
  if (f->expert_launches > 0) p->n_ops += f->expert_launches / f->launches_per_op;
  double n = router_ops(w);
  if (op->direction == PZ_FORWARD) p->n_ops += n;
  add_elementwise(w, n * f->launches_per_op * kernel_s(w), p);
}

/* Permutation of tokens by kernels that move more than the graph's operators say. */
static void add_permutation(const struct pz_step_context *w, const struct pz_op *op,
                            struct pz_pass *p) {
  double bytes = pz_plan_framework(w->plan)->routed_bytes;
  if (op->kind != PZ_OP_DISPATCH && op->kind != PZ_OP_GATHER_ROWS) return;
  double elements = (double)pz_max(op->bytes_written, op->bytes_read) / 2;
  if (bytes > 0)
    add_elementwise(w, moved_s(w, elements, bytes * (op->direction == PZ_BACKWARD ? 2 : 1)), p);
}

/* Projections of the same input are one GEMM of the framework, or find it cast. */
static bool is_cast_before(const struct pz_step_context *w, const struct pz_ops *ops,
                           const struct pz_op *op) {
  if (op->direction == PZ_BACKWARD) return false;
  for (const struct pz_op *o = ops->op; o < op; o++)
    if (op_format(w, o) && o->in[0] == op->in[0]) return true;
  return false;
}

/* A product in 8 or 4 bit.  Forward casts its input, the derivative of the input the gradient, both with a transposed copy
 * for the weight gradient; weights are cast once a step (Micikevicius et al., arXiv 2209.05433; Transformer Engine). */
/* Scales of blocks of both operands in the order that cuBLAS reads, a kernel for each before every GEMM (Transformer Engine,
 * pytorch/csrc/extensions/gemm.cpp and common/swizzle: one byte of a scale is read and written).  Blackwell runs blocks of
 * 128 as mxfp8: of every scale 4 bytes are read, and 4 are written as those of 32 values each
 * (swizzle_block_scaling_to_mxfp8_scaling_factors). */
static double swizzle_s(const struct pz_step_context *w, enum pz_format format,
                        const struct pz_product *x) {
  double block = format == PZ_FORMAT_MXFP8 || format == PZ_FORMAT_FP8_BLOCK ? 32
                 : format == PZ_FORMAT_NVFP4                                ? 16
                                                                            : 0;
  bool ordered =
      pz_plan_framework(w->plan)->transformer_engine && pz_chip_has_nvfp4(&w->cost->chip);
  if (!(block > 0) || !ordered) return 0;
  double values = (double)x->batch * (double)(x->m + x->n) * (double)x->k;
  return 2 * kernel_s(w) + moved_s(w, values / block, 2);
}

/* What the power limit of a run does to the arithmetic of a kernel, beside what a benchmark's loop shows: products have the
 * operands of a run, scans the clock that products leave.  r->s: of one call in the loop, then of all calls. */
static void throttle_run(const struct pz_step_context *w, const struct pz_op *op,
                         enum pz_format format, struct pz_op_run *r) {
  const struct pz_chip *c = &w->cost->chip;
  double loop = c->calibration.throttle, run = loop * c->calibration.training_throttle;
  double slower = pz_format_slowdown(c, format, run) / pz_format_slowdown(c, format, loop);
  double chip_s = pz_work_chip_s(&r->work), hbm_s = r->work.hbm_s, core_s = chip_s;
  if (pz_op_is_scan(op->kind)) { /* memory and arithmetic: root of the sum of squares */
    slower = loop;
    core_s = sqrt(pz_fmax(0, chip_s * chip_s - hbm_s * hbm_s));
  }
  if (op->op_class != PZ_CLASS_VECTOR) {
    r->s += pz_fmax(0, slower * core_s - pz_fmax(chip_s, hbm_s));
    r->work.core_s = pz_fmax(r->work.core_s, slower * core_s);
  }
  r->s *= r->calls;
}

static void run_narrow(struct pz_call *call, const struct pz_step_context *w,
                       const struct pz_ops *ops, const struct pz_op *op, struct pz_op_run *r) {
  struct pz_product x = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  struct pz_grouped g = {
      op->dims.batch, op->dims.batch * op->dims.m, op->dims.n, op->dims.k, 0, false, NULL};
  enum pz_format format = op_format(w, op);
  struct pz_mapping o;
  struct pz_vector_time cast;
  bool weights = reduces_tokens(op);
  bool looped = is_looped(w, op);
  if (op->grouped && weights) x.k = pz_grouped_gradient_rows(x.k);
  if (looped) x.batch = 1;
  if (op->grouped && !weights && !looped)
    o = pz_estimate_narrow_grouped(call, w->cost, &w->cost->chip, format, &g);
  else
    o = pz_estimate_narrow_product(call, w->cost, format, &x);
  double macs = (double)x.batch * (double)x.m * (double)x.n * (double)x.k;
  *r = (struct pz_op_run){.kind = PZ_RUN_GEMM,
                          .calls = looped ? (double)op->dims.batch : 1,
                          .work = pz_cost_mapped_work(&w->cost->chip, macs, format, &o),
                          .weight = weights};
  r->s = o.latency_s;
  throttle_run(w, op, format, r);
  r->cast_s = r->calls * swizzle_s(w, format, &x);
  if (weights || is_cast_before(w, ops, op)) return;
  int64_t rows = op->dims.batch * op->dims.m, parts = 1;
  for (uint32_t i = 0; i < ops->n; i++)
    if (reads(op, ops->op[i].out[0]) && gather_format(w, ops, &ops->op[i]))
      parts = ops->op[i].dims.batch;
  pz_cost_format_cast(&w->cost->chip, format, rows, op->dims.k, parts,
                      pz_plan_trains_adapters(w->plan), &cast);
  r->cast_s += cast.latency_s;
}

/* Tokens to experts and back by GEMMs, of each sample (Lepikhin et al., GShard, arXiv 2006.16668): a place of an expert
 * sums over the sample's tokens.  Places are those of the whole sample, ceil(seq k / experts) x capacity for each expert,
 * whatever the context-parallel degree; a device sums over its own tokens (generate_masks and "BSM,BSEC -> EBCM" of
 * MaxText's layers/moe.py, whose subgroups of a sequence are for inference alone).  The gradient of the weights is a
 * second GEMM. */
static void run_by_product(struct pz_call *call, const struct pz_step_context *w,
                           const struct pz_op *op, struct pz_op_run *r) {
  double tokens = (double)(w->seq * pz_plan_cp(w->plan));
  int64_t places = (int64_t)ceil(tokens * (double)w->experts_per_token *
                                 pz_plan_framework(w->plan)->capacity_factor);
  struct pz_product x = {w->mbs, places, op->dims.n, w->seq, false};
  struct pz_mapping o = pz_estimate_product(call, w->cost, &w->cost->chip, &x);
  bool twice = op->kind == PZ_OP_COMBINE && op->direction == PZ_BACKWARD;
  double macs = (double)x.batch * (double)x.m * (double)x.n * (double)x.k;
  *r = (struct pz_op_run){.kind = PZ_RUN_GEMM,
                          .calls = twice ? 2 : 1,
                          .work = pz_cost_mapped_work(&w->cost->chip, macs, PZ_FORMAT_16BIT, &o)};
  pz_cost_within_watts(&w->cost->power, &w->cost->chip, macs, PZ_FORMAT_16BIT, &o);
  r->s = r->calls * o.latency_s;
}

/* Attention whose keys come round a ring: a kernel for the keys of each device, causal ones in pairs so that all devices
 * do as much, and the result of each but the first added to what there is (Liu et al., arXiv 2310.01889). */
static void run_attention(struct pz_call *call, const struct pz_step_context *w,
                          const struct pz_op *op, struct pz_op_run *r) {
  struct pz_op one = *op;
  struct pz_estimate e;
  int64_t blocks = pz_plan_cp(w->plan) > 1 && w->plan->cp_form != PZ_CONTEXT_ALL_TO_ALL
                       ? pz_max(1, pz_ceil_div(op->dims.n, w->seq))
                       : 1;
  if (blocks > 1) {
    one.dims.n = pz_ceil_div(op->dims.n, blocks);
    one.span = pz_min(op->span, one.dims.m);
    one.bytes_read /= blocks;
    one.bytes_written /= blocks;
  }
  e = pz_estimate_op(call, w->cost, &one, &r->work);
  double result = (double)op->dims.batch * (double)op->dims.m * (double)op->dims.k;
  r->merge_s = (double)(blocks - 1) * moved_s(w, result, w->k->merge_bytes);
  r->calls = (double)blocks * w->cost->chip.calibration.throttle;
  r->s = w->cost->chip.calibration.throttle * ((double)blocks * e.latency_s + r->merge_s);
}

/* Any other: one kernel, or that of each expert. */
static void run_kernel(struct pz_call *call, const struct pz_step_context *w,
                       const struct pz_op *op, struct pz_op_run *r) {
  double capacity = pz_plan_framework(w->plan)->capacity_factor;
  bool looped = is_looped(w, op);
  struct pz_op one = looped ? expert_op(op) : *op;
  struct pz_estimate e;
  e = pz_estimate_op(call, w->cost, &one, &r->work);
  if (looped) r->calls *= (double)op->dims.batch;
  if (op->grouped && capacity > 0) r->calls *= capacity;
  r->s = e.latency_s;
  throttle_run(w, op, PZ_FORMAT_16BIT, r);
}

static void run_uncorrected(struct pz_call *call, const struct pz_step_context *w,
                            const struct pz_ops *ops, const struct pz_op *op, struct pz_op_run *r) {
  *r = (struct pz_op_run){.kind = PZ_RUN_NONE, .calls = 1};
  if (op->op_class == PZ_CLASS_NONE || op->op_class == PZ_CLASS_COLLECTIVE) return;
  if (op->kind == PZ_OP_SORT && !pz_plan_sorts_tokens(w->plan)) return;
  if (op_format(w, op)) {
    run_narrow(call, w, ops, op, r);
    return;
  }
  if (pz_plan_framework(w->plan)->capacity_factor > 0 &&
      (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE)) {
    run_by_product(call, w, op, r);
    return;
  }
  r->kind = is_core(w, op)                    ? PZ_RUN_ATTENTION
            : op->op_class == PZ_CLASS_VECTOR ? PZ_RUN_ELEMENTWISE
                                              : PZ_RUN_GEMM;
  r->weight = is_linear(op) && reduces_tokens(op);
  if (op->kind == PZ_OP_ATTENTION)
    run_attention(call, w, op, r);
  else
    run_kernel(call, w, op, r);
}

static void lengthen(struct pz_op_run *r, double times) {
  r->s *= times;
  r->cast_s *= times;
  r->merge_s *= times;
  r->calls *= times;
}

static void run_op(struct pz_call *call, const struct pz_step_context *w, const struct pz_ops *ops,
                   const struct pz_op *op, struct pz_op_run *r) {
  const struct pz_correction *c = &w->cost->chip.correction;
  run_uncorrected(call, w, ops, op, r);
  double cast_s = pz_corrected(c->elementwise) * r->cast_s;
  switch (r->kind) {
  case PZ_RUN_GEMM: lengthen(r, pz_corrected(c->gemms)); break;
  case PZ_RUN_ATTENTION: lengthen(r, pz_corrected(c->attention)); break;
  case PZ_RUN_ELEMENTWISE: lengthen(r, pz_corrected(c->elementwise)); break;
  default: break;
  }
  r->cast_s = cast_s;
}

static void add_run(const struct pz_step_context *w, const struct pz_op *op,
                    const struct pz_op_run *r, struct pz_pass *p) {
  switch (r->kind) {
  case PZ_RUN_GEMM: add_gemm(w, op, r->s, p); break;
  case PZ_RUN_ATTENTION: add_attention(w, r->s, p); break;
  case PZ_RUN_ELEMENTWISE: add_elementwise(w, r->s, p); break;
  default: break;
  }
  if (r->weight) p->weight_s += r->s;
  if (r->cast_s > 0) {
    add_elementwise(w, r->cast_s, p);
    p->n_ops++;
  }
}

/* Every kernel of a scan is launched from Python. */
static void add_scan(const struct pz_step_context *w, const struct pz_op *op, struct pz_pass *p) {
  struct pz_scan_work scan = pz_scan_work_of(op);
  double launches = pz_plan_framework(w->plan)->launches_per_op;
  p->scans = true;
  if (launches > 0) p->n_ops += pz_fmax(0, pz_scan_counts(&scan).kernels / launches - 1);
}

static void add_op(struct pz_call *call, const struct pz_step_context *w, const struct pz_ops *ops,
                   const struct pz_op *op, struct pz_op_run *run, struct pz_pass *p) {
  struct pz_op_run r;
  if (run) *run = (struct pz_op_run){.kind = PZ_RUN_NONE};
  if (op->op_class == PZ_CLASS_NONE || in_ring(op)) return;
  if (op->kind == PZ_OP_SORT && !pz_plan_sorts_tokens(w->plan)) return;
  p->n_ops++;
  if (op->op_class == PZ_CLASS_COLLECTIVE) return;
  if (pz_op_is_scan(op->kind)) add_scan(w, op, p);
  if (op->kind == PZ_OP_TOPK) add_router(w, op, p);
  add_permutation(w, op, p);
  launch_experts(w, op, p);
  run_op(call, w, ops, op, &r);
  add_run(w, op, &r, p);
  if (run) *run = r;
}

static bool is_mamba(const struct pz_layer *l) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  uint32_t i = 0;
  while (i < ops->n && ops->op[i].kind != PZ_OP_SSM_SCAN) i++;
  return i < ops->n;
}

/* The module of CUDA graphs that an operator belongs to; 0: none.  Forward and backward have the same names. */
static int graph_module(const struct pz_layer *l, const struct pz_op *op) {
  bool routed = l->model_expert_params > 0;
  if (strncmp(l->name, "block", 5) != 0) return 0;
  if (strncmp(op->name, "mlp_norm", 8) == 0) return routed ? PZ_GRAPH_ROUTER : PZ_GRAPH_MLP;
  if (strncmp(op->name, "router", 6) == 0 || strncmp(op->name, "shared", 6) == 0)
    return PZ_GRAPH_ROUTER;
  bool before = strncmp(op->name, "latent_down", 11) == 0; /* moe_layer.py, preprocess */
  if (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_GATHER_ROWS || before)
    return PZ_GRAPH_PREPARATION;
  bool mlp = strncmp(op->name, "mlp_", 4) == 0 || strncmp(op->name, "split_", 6) == 0;
  if (mlp) return routed ? 0 : PZ_GRAPH_MLP;
  bool experts = to_experts(op) || op->kind == PZ_OP_SORT || op->kind == PZ_OP_COMBINE ||
                 strncmp(op->name, "add_shared", 10) == 0 || strncmp(op->name, "experts", 7) == 0 ||
                 strncmp(op->name, "combine", 7) == 0 || strncmp(op->name, "latent", 6) == 0;
  return experts ? 0 : is_mamba(l) ? PZ_GRAPH_MAMBA : PZ_GRAPH_ATTENTION;
}

/* An operator of a layer with its launch: none inside a CUDA graph. */
static void add_launched(struct pz_call *call, const struct pz_step_context *w,
                         const struct pz_layer *l, const struct pz_op *op, struct pz_op_run *run,
                         struct pz_pass *p) {
  double n = p->n_ops;
  add_op(call, w, &l->ops[op->direction], op, run, p);
  if (w->plan->cuda_graphs & graph_module(l, op)) p->n_ops = n;
}

/* Operators of a pass from the one that sends tokens to the experts' devices to the one that sends them back: those of
 * the device with most tokens take longer. */
static void add_ops(struct pz_call *call, const struct pz_step_context *w, const struct pz_layer *l,
                    enum pz_direction direction, struct pz_op_run *runs, struct pz_pass *p,
                    double *window_s) {
  const struct pz_ops *ops = &l->ops[direction];
  bool there = false, counts = direction == PZ_FORWARD && pz_plan_waits_for_routing(w->plan);
  uint32_t n = 0,
           gathers = 0; /* collectives of tensor parallelism; of these, that wait for a GEMM */
  double last = 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct pz_pass before = *p;
    if (to_experts(op)) there = !there;
    if (counts && graph_module(l, op) == PZ_GRAPH_PREPARATION) {
      p->waits++;
      p->early_n = p->n_ops;
      p->early_s = pz_kernels_s(p);
    }
    add_launched(call, w, l, op, runs ? &runs[i] : NULL, p);
    if (p->products_s > before.products_s) {
      last = p->products_s - before.products_s;
      for (; gathers < n; gathers++) window_s[gathers] = pz_fmax(window_s[gathers], last);
    }
    if (is_tensor_collective(op) && n < PZ_PASS_WINDOWS) {
      bool gather = op->kind == PZ_OP_ALL_GATHER;
      window_s[n++] = gather ? 0 : last;
      if (!gather) gathers = n;
    }
    if (!there) continue;
    double more = w->imbalance - 1;
    if (runs) lengthen(&runs[i], w->imbalance);
    p->products_s += more * (p->products_s - before.products_s);
    p->weight_s += more * (p->weight_s - before.weight_s);
    p->elementwise_s += more * (p->elementwise_s - before.elementwise_s);
    p->slowed_s += more * (p->slowed_s - before.slowed_s);
  }
}

/* Of the fp32 sums that the GEMM of a weight gradient reads and writes, how much shows: what the matrix units leave of
 * the memory's rate hides the rest (bench/h200/host.csv: 0.7 of it with 2,048 tokens, 0.35 with 16,384). */
static double fused_part(const struct pz_step_context *w, double tokens) {
  const struct pz_chip *c = &w->cost->chip;
  double flop = 2 * tokens * pz_format_bits(w->format) / 16; /* of a parameter */
  double peak = pz_chip_tensor_flop_per_s(c) / c->clock_hz * pz_chip_gemm_hz(c);
  double memory_s = w->k->fused_accumulation_bytes / pz_chip_hbm_bytes_per_s(c),
         compute_s = flop / peak;
  return pz_fmin(1, w->k->fused_part + memory_s / compute_s);
}

/* Bytes that adding up gradients moves for a parameter that so many tokens of a microbatch use. */
static double accumulation_bytes(const struct pz_step_context *w, double tokens) {
  switch (pz_plan_framework(w->plan)->accumulation) {
  case PZ_ACCUMULATION_KEPT: return w->k->kept_accumulation_bytes;
  case PZ_ACCUMULATION_FUSED:
    return w->microbatches > 1 ? w->k->fused_accumulation_bytes * fused_part(w, tokens) : 0;
  default: return w->microbatches > 1 ? w->k->accumulation_bytes : 0;
  }
}

/* Tokens of an expert of the device; 0: the layer has none. */
static double expert_rows(const struct pz_layer *l) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  for (uint32_t i = 0; i < ops->n; i++)
    if (ops->op[i].grouped) return (double)ops->op[i].dims.m;
  return 0;
}

/* The part of its gradients that a device adds up.  Where every microbatch scatters them it is a shard; before that, those of the
 * second half of a microbatch are added to the first's as a whole. */
static double summed_part(const struct pz_step_context *w, int64_t shards) {
  double chains = w->chains,
         last = pz_plan_scatters_per_microbatch(w->plan) ? 1 / (double)pz_max(1, shards) : 1;
  return (chains - 1 + last) / chains;
}

static void accumulate(const struct pz_step_context *w, const struct pz_layer *l, double n_params,
                       struct pz_pass *p) {
  double bytes = accumulation_bytes(w, (double)(w->seq * w->mbs)), rows = expert_rows(l);
  if (!(bytes > 0)) return;
  if (pz_plan_framework(w->plan)->accumulation != PZ_ACCUMULATION_FUSED) p->n_ops += n_params;
  double experts = rows > 0 ? (double)l->trained_expert_params : 0;
  double dense = ((double)l->trained_params - experts) * summed_part(w, pz_plan_shards(w->plan));
  add_elementwise(w, moved_s(w, dense, bytes), p);
  if (!(experts > 0)) return;
  experts *= summed_part(w, pz_plan_expert_shards(w->plan));
  add_elementwise(w, moved_s(w, experts, accumulation_bytes(w, rows)), p);
}

/* Weights that were gathered are copied to where the layer reads them, gradients to where they are scattered from.
 * Gathered in 16 bit, weights are cast for every pass, along its direction; programs that are compiled as a whole gather
 * what they cast. */
static void copy_shards(const struct pz_step_context *w, const struct pz_layer *l,
                        struct pz_layer_step *t) {
  const struct pz_framework *f = pz_plan_framework(w->plan);
  if (!w->gathers) return;
  double cast = w->format && !pz_framework_compiles(f) ? pz_format_weight_bytes(w->format) : 0;
  double gather = moved_s(w, (double)l->params, f->gather_copy_bytes + cast);
  double scatter = moved_s(w, (double)l->trained_params, f->scatter_copy_bytes);
  add_elementwise(w, gather, &t->forward);
  add_elementwise(w, gather + scatter, &t->backward);
}

/* Under autocast every pass casts fp32 weights to 16 bit, and their gradients back; the residual stream is fp32, so that norms
 * and additions read and write it with two more bytes: 6 times an element forward, 8 times backward. */
static void add_casts(const struct pz_step_context *w, const struct pz_layer *l,
                      struct pz_layer_step *t) {
  static const double CAST_BYTES = 4 + 2, FORWARD_BYTES = 6 * 2, BACKWARD_BYTES = 8 * 2;
  if (!pz_plan_autocasts(w->plan)) return;
  double elements = (double)l->output_bytes / 2;
  double cast = moved_s(w, (double)l->params, CAST_BYTES);
  add_elementwise(w, cast + moved_s(w, elements, FORWARD_BYTES), &t->forward);
  add_elementwise(w, cast + moved_s(w, elements, BACKWARD_BYTES), &t->backward);
}

/* How many times longer the kernels of a pass take beside collectives. */
static double slowdown_of(const struct pz_pass *p) {
  double s = pz_kernels_s(p);
  return s > 0 ? pz_fmax(1, p->slowed_s / s) : 1; /* of rounding, less where nothing slows */
}

/* What is left of a collective beside so much compute; the rest is hidden. */
static double expose(double side_s, double compute_s, double slowdown, double *hidden) {
  double s = pz_beside_exposed_s(side_s, compute_s, slowdown);
  *hidden += side_s - s;
  return s;
}

/* Does a collective of tensor parallelism run beside its GEMM?  XLA's do as far as they gather: MaxText's runs ask for
 * asynchronous all-gathers alone (xla_enable_async_all_gather in its scripts of models for TPUs). */
static bool hides_tensor(const struct pz_step_context *w, const struct pz_op *op) {
  enum { QKV = PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE, GATE_UP = PZ_LORA_GATE | PZ_LORA_UP };
  bool compiled = pz_framework_compiles(pz_plan_framework(w->plan));
  /* adapters are PyTorch's GEMMs, and read what was gathered for their layer as a whole (tp_comm_overlap_disable_qkv in
   * MLPerf's fine-tuning; return_layernorm_output_gathered in Megatron Bridge's peft/utils.py) */
  bool adapted = pz_op_adapts(op) || (w->adapted & QKV && strncmp(op->name, "qkv.", 4) == 0) ||
                 (w->adapted & GATE_UP && strncmp(op->name, "mlp.", 4) == 0);
  bool heads = strncmp(op->name, "kv_group.", 9) == 0; /* of what GEMMs have made, for attention */
  return w->plan->overlap & PZ_OVERLAP_TP && w->plan->tp > 1 && !adapted && !heads &&
         (!compiled || op->kind == PZ_OP_ALL_GATHER);
}

/* Collectives of a pass, of those in `which` (NULL: of all); tokens to and from experts are apart.  Where the plan overlaps
 * tensor parallelism, each runs beside its own GEMM. */
static void add_collectives(const struct pz_step_context *w, const struct pz_ops *ops,
                            const bool *which, const double *window_s, double slowdown,
                            struct pz_pass *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool tensor = is_tensor_collective(op);
    double window = tensor && n < PZ_PASS_WINDOWS ? window_s[n] : 0;
    if (tensor) n++;
    if (op->op_class != PZ_CLASS_COLLECTIVE || op->dims.batch <= 1 || in_ring(op)) continue;
    if (which && !which[i]) continue;
    struct pz_wire_time t = collective_time(w, ops, op);
    if (to_experts(op))
      p->expert_s += t.s;
    else if (tensor && hides_tensor(w, op))
      p->collectives_s += expose(t.s, window, slowdown, &p->hidden_s);
    else
      p->collectives_s += t.s;
    for (int k = 0; k < PZ_WIRES; k++) p->busy_s[k] += t.busy_s[k];
  }
}

/* What the ring of a context keeps busy. */
static enum pz_wire ring_wire(const struct pz_step_context *w) {
  return pz_network_crosses_levels(w->net, context_group(w)) ? PZ_WIRE_OUTER : PZ_WIRE_INNER;
}

static double ring_passes(const struct pz_ops *ops) {
  return ops->op[0].direction == PZ_BACKWARD ? 2 : 1;
}

/* Bytes that each device sends, in how many turns. */
static double ring_bytes(const struct pz_ops *ops, double *turns) {
  double own = 0,
         all = 0; /* bytes of keys and values, of this device and of those that it reaches */
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (!in_ring(op) || op->kind != PZ_OP_ALL_GATHER) continue;
    own += (double)op->bytes_read;
    all += (double)op->bytes_written;
  }
  *turns = own > 0 ? pz_fmax(0, all / own - 1) : 0;
  return *turns > 0 ? ring_passes(ops) * *turns * own : 0;
}

/* Context parallel: keys and values of the other parts come round a ring beside the attention, backward with their
 * gradients. */
static void add_ring(const struct pz_step_context *w, const struct pz_ops *ops, struct pz_pass *p) {
  double turns, bytes = ring_bytes(ops, &turns);
  if (!(turns > 0)) return;
  double passes = ring_passes(ops), starts = ceil(turns);
  struct pz_group g = context_group(w);
  double wire_s = bytes / pz_network_neighbour_rate(w->k, w->net, g);
  p->n_ops += starts; /* each turn starts a kernel of its own */
  if (w->net->instant) return;
  p->ring_s += wire_s + passes * starts * pz_network_message_s(w->k, w->net, g);
  p->busy_s[ring_wire(w)] += wire_s;
}

void pz_layer_kernels(struct pz_call *call, const struct pz_step_context *w,
                      const struct pz_layer *l, struct pz_layer_kernels *out) {
  struct pz_layer_kernels k = {.runs = {out->runs[0], out->runs[1]}};
  add_ops(call, w, l, PZ_FORWARD, k.runs[PZ_FORWARD], &k.forward, k.window_s[PZ_FORWARD]);
  add_ops(call, w, l, PZ_BACKWARD, k.runs[PZ_BACKWARD], &k.backward, k.window_s[PZ_BACKWARD]);
  for (uint32_t i = 0; i < l->n_tensors; i++)
    k.n_params += l->tensors[i].role == PZ_ROLE_PARAM && !l->tensors[i].frozen;
  *out = k;
}

/* ---- a layer with its recomputation --------------------------------------------------------- */

static void add_pass(struct pz_pass *to, const struct pz_pass *from, double part) {
  to->products_s += part * from->products_s;
  to->slowed_s += part * from->slowed_s;
  to->ring_s += part * from->ring_s;
  to->hidden_s += part * from->hidden_s;
  for (int i = 0; i < PZ_WIRES; i++) to->busy_s[i] += part * from->busy_s[i];
  to->weight_s += part * from->weight_s;
  to->attention_s += part * from->attention_s;
  to->elementwise_s += part * from->elementwise_s;
  to->collectives_s += part * from->collectives_s;
  to->expert_s += part * from->expert_s;
  to->n_ops += part * from->n_ops;
  to->native_s += part * from->native_s;
  to->waits += part * from->waits;
  to->early_n += part * from->early_n;
  to->early_s += part * from->early_s;
}

static void recompute(const struct pz_step_context *w, struct pz_layer_step *t) {
  struct pz_pass whole = t->forward;
  /* every second GEMM is saved; attention is, element-wise operators are not */
  struct pz_pass half = {.products_s = whole.products_s / 2,
                         .elementwise_s = whole.elementwise_s,
                         .n_ops = whole.n_ops};
  double slowdown = slowdown_of(&whole);
  half.slowed_s = slowdown * pz_kernels_s(&half);
  if (pz_plan_framework(w->plan)->stops_early) {
    whole.products_s -= whole.last_s;
    whole.slowed_s -= slowdown * whole.last_s;
  }
  switch (w->plan->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF: add_pass(&t->backward, &whole, 1); break;
  case PZ_RECOMPUTATION_ALTERNATE: add_pass(&t->backward, &half, 1); break;
  case PZ_RECOMPUTATION_SELECTIVE:
    if (whole.scans) break; /* of a layer without scores */
    add_attention(w, whole.attention_s, &t->backward);
    t->backward.ring_s += whole.ring_s;
    t->backward.busy_s[ring_wire(w)] += whole.ring_s;
    t->backward.n_ops += 4;
    break;
  default: break;
  }
}

/* Attention that runs again needs the keys of the other devices again. */
static void add_ring_again(const struct pz_step_context *w, const struct pz_ops *ops,
                           const bool *which, struct pz_pass *p) {
  bool again = false;
  for (uint32_t i = 0; i < ops->n; i++)
    again = again || (which[i] && ops->op[i].kind == PZ_OP_ATTENTION);
  if (again) add_ring(w, ops, p);
}

/* Full recomputation of a compiled program, or of one that saves results of GEMMs. */
static void recompute_needed(struct pz_call *call, const struct pz_step_context *w,
                             const struct pz_layer *l, const struct pz_layer_kernels *kernels,
                             struct pz_pass *p) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  struct pz_pass more = {.n_ops = 0};
  const bool *recomputed = pz_recompute_ops(call, l, w->plan->saved);
  for (uint32_t i = 0; i < ops->n; i++)
    if (recomputed[i]) add_launched(call, w, l, &ops->op[i], NULL, &more);
  add_collectives(w, ops, recomputed, kernels->window_s[PZ_FORWARD], slowdown_of(&kernels->forward),
                  &more);
  add_ring_again(w, ops, recomputed, &more);
  add_pass(p, &more, 1);
}

/* Selective recomputation of modules; their collectives have nothing beside them. */
static void recompute_modules(struct pz_call *call, const struct pz_step_context *w,
                              const struct pz_layer *l, struct pz_pass *p) {
  static const double NO_WINDOWS[PZ_PASS_WINDOWS] = {0};
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  struct pz_pass more = {.n_ops = 0};
  bool *which = pz_alloc(call, ops->n, sizeof *which);
  for (uint32_t i = 0; i < ops->n; i++) {
    which[i] = pz_in_modules(l, &ops->op[i], pz_plan_recomputed_modules(w->plan));
    if (which[i]) add_launched(call, w, l, &ops->op[i], NULL, &more);
  }
  if (pz_plan_waits_for_routing(w->plan) && l->model_expert_params &&
      pz_plan_recomputed_modules(w->plan) & PZ_MODULE_EXPERTS)
    more.waits = 1;
  add_collectives(w, ops, which, NO_WINDOWS, 1, &more);
  add_ring_again(w, ops, which, &more);
  add_pass(p, &more, 1);
}

/* The hosts of a tensor-parallel group that spans both processors wait for each other at every collective. */
static double lockstep(const struct pz_step_context *w) {
  int64_t node = node_devices(w);
  if (w->net->instant) return 1; /* a rank alone waits for nobody */
  return node <= PZ_SERVER_DEVICES && 2 * w->plan->tp > node && w->plan->tp > 1 ? w->k->lockstep
                                                                                : 1;
}

/* Host time of so many operators and of so long native code. */
static double launches_s(const struct pz_step_context *w, double n_ops, double native_s) {
  if (w->plan->execution >= PZ_EXECUTION_GRAPH) return 0;
  double processor = w->cost->chip.calibration.host_launch * lockstep(w) *
                     pz_corrected(w->cost->chip.correction.launches);
  double experts = native_s > 0 ? w->k->expert_host : 1;
  double s = n_ops * pz_plan_framework(w->plan)->launches_per_op * w->k->launch_s + native_s;
  return s * processor * experts;
}

/* Does the experts' all-to-all run beside another microbatch?  Where the plan asks for it, and in DualPipe, which is made
 * for it (DeepSeek-V3, arXiv 2412.19437). */
static bool hides_experts(const struct pz_step_context *w) {
  enum pz_pipeline_order o = (enum pz_pipeline_order)w->plan->pipeline;
  bool paired = o == PZ_PIPELINE_DUALPIPE || o == PZ_PIPELINE_DUALPIPE_V;
  if (w->scheduled) return false; /* it has the other half for that */
  return paired || (w->plan->overlap & PZ_OVERLAP_EP && pz_plan_ep(w->plan) > 1);
}

/* Kernels that leave cores to the experts' tokens all the time: at most as slow as the tokens before or behind them. */
static void slow_down(struct pz_pass *p) {
  double times = pz_fmin(slowdown_of(p), 1 + p->expert_s / pz_kernels_s(p));
  p->products_s *= times;
  p->weight_s *= times;
  p->attention_s *= times;
  p->elementwise_s *= times;
}

/* Leave of the pass's collectives what shows: the ring of a context has its attention for a window, experts the kernels of another microbatch.  No pass is shorter than its links are busy. */
static double device_s(const struct pz_step_context *w, struct pz_pass *p,
                       struct pz_layer_step *t) {
  t->hidden_s += p->hidden_s;
  p->collectives_s +=
      expose(p->ring_s, p->attention_s, pz_beside_attention(w->k, w->beside), &t->hidden_s);
  if (hides_experts(w) && p->expert_s > 0) {
    bool reserved = pz_plan_framework(w->plan)->reserves_cores;
    if (reserved) slow_down(p);
    p->expert_s =
        expose(p->expert_s, pz_kernels_s(p), reserved ? 1 : slowdown_of(p), &t->expert_hidden_s);
  }
  double s = pz_kernels_s(p) + p->collectives_s + p->expert_s;
  double more = pz_fmax(0, pz_fmax(p->busy_s[PZ_WIRE_INNER], p->busy_s[PZ_WIRE_OUTER]) - s);
  p->collectives_s += more;
  t->hidden_s = pz_fmax(0, t->hidden_s - more);
  return s + more;
}

/* Seconds of a pass with the host's launches.  Where the host waits for the device, both start from there: the host
 * launches what is late in this layer and early in the next, and waits again when the device has run all of it.  Kernel i
 * starts when it is launched and those before it have run, so that a layer takes the longest of its launches, its kernels,
 * and late launches with early kernels behind them (bench/h200/waits.csv); with another microbatch beside it the device
 * has other kernels meanwhile. */
static double finish_pass(const struct pz_step_context *w, struct pz_pass *p,
                          struct pz_layer_step *t) {
  double device = device_s(w, p, t), host = launches_s(w, p->n_ops, p->native_s);
  if (!(host > 0)) return device;
  double s = pow(pow(device, w->k->smooth) + pow(host, w->k->smooth), 1 / w->k->smooth);
  if (p->waits > 0 && !hides_experts(w))
    s = pz_fmax(s, launches_s(w, p->n_ops - p->early_n, p->native_s) + p->early_s);
  s += p->waits * w->k->wait_s;
  t->launch_s += pz_fmax(0, s - device); /* the power of a sum may be a bit below its larger part */
  return s;
}

/* ---- schedules ------------------------------------------------------------------------------ */

/* All that a pass of a layer depends on while chip, network and kernels stay. */
struct pass_key {
  const struct pz_layer *layer;
  int64_t devices;
  int direction, recompute, saved, modules, overlap, chains;
  int64_t solver_steps;
  double sum_s; /* adding up gradients: several microbatches, and shards of them */
};

struct solved {
  struct pass_key key;
  struct pz_pass_schedule schedule;
};

struct pz_solved_passes {
  struct pz_arena arena;
  struct pz_vec list; /* struct solved */
};

static void begin_solved(struct pz_solved_passes *s) {
  pz_arena_init(&s->arena, NULL);
  pz_vec_init(&s->list, &s->arena, sizeof(struct solved));
}

struct pz_solved_passes *pz_solved_passes_new(struct pz_call *call) {
  struct pz_solved_passes *s = pz_alloc(call, 1, sizeof *s);
  begin_solved(s);
  return s;
}

void pz_solved_passes_clear(struct pz_solved_passes *s) {
  if (!s || !s->list.n) return;
  pz_arena_release(&s->arena);
  begin_solved(s);
}

static bool same_key(const struct pass_key *a, const struct pass_key *b) {
  return a->layer == b->layer && a->devices == b->devices && a->direction == b->direction &&
         a->recompute == b->recompute && a->saved == b->saved && a->modules == b->modules &&
         a->overlap == b->overlap && a->chains == b->chains && a->sum_s == b->sum_s &&
         a->solver_steps == b->solver_steps;
}

/* Gradients of weights are added up as the GEMMs that make them write them, as all element-wise operators behind a GEMM
 * run with it on a chip whose cores are scheduled; without such a GEMM (embeddings), with the last operator. */
static void add_sums(const struct pz_step_context *w, const struct pz_ops *ops, double sum_s,
                     const struct pz_pass_power *power, struct pz_op_run *runs) {
  double all = 0;
  uint32_t last = PZ_NONE;
  for (uint32_t i = 0; i < ops->n; i++) {
    all += runs[i].weight ? (double)ops->op[i].bytes_written : 0;
    if (runs[i].kind != PZ_RUN_NONE) last = i;
  }
  for (uint32_t i = 0; i < ops->n; i++) {
    double part = !(all > 0)       ? i == last
                  : runs[i].weight ? (double)ops->op[i].bytes_written / all
                                   : 0;
    if (!(part > 0)) continue;
    pz_run_add_bytes(power, &w->cost->chip, sum_s * part, &runs[i]);
    if (power->room_watts > 0) pz_run_levels(power, false, &runs[i]);
  }
}

/* Runs of a pass with those of its collectives and sums of gradients, in an arena. */
static struct pz_op_run *with_collectives(struct pz_call *call, const struct pz_step_context *w,
                                          const struct pz_ops *ops, struct pz_op_run *runs,
                                          double sum_s) {
  struct pz_pass_power power = pz_pass_power_of(&w->cost->chip);
  for (uint32_t i = 0; i < ops->n && power.room_watts > 0; i++)
    if (runs[i].kind != PZ_RUN_NONE && !(runs[i].weight && sum_s > 0))
      pz_run_levels(&power, false, &runs[i]);
  struct pz_op_run *all = pz_copy(call, runs, ops->n, sizeof *all);
  if (sum_s > 0) add_sums(w, ops, sum_s, &power, all);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (op->op_class != PZ_CLASS_COLLECTIVE || op->dims.batch <= 1 || in_ring(op)) continue;
    struct pz_estimate e = pz_estimate_op(call, w->cost, op, NULL); /* for its energy */
    double joules = pz_fmax(0, e.energy_j - e.latency_s * w->cost->static_watts);
    all[i] = (struct pz_op_run){.kind = PZ_RUN_LINK,
                                .s = collective_time(w, ops, op).s,
                                .calls = 1,
                                .work = {.outside_j = joules},
                                .gathers = is_tensor_collective(op) && hides_tensor(w, op)};
  }
  return all;
}

/* Of a layer's forward operators those that its backward runs again, in an arena: what `recompute` adds up. */
static const bool *list_recomputed(struct pz_call *call, const struct pz_step_context *w,
                                   const struct pz_layer *l) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  if (pz_recomputes_needed(w->plan)) return pz_recompute_ops(call, l, w->plan->saved);
  bool *which = pz_alloc(call, ops->n, sizeof *which);
  bool second = false;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool core = op->op_class != PZ_CLASS_COLLECTIVE && is_core(w, op);
    if (pz_plan_recomputed_modules(w->plan)) {
      which[i] = pz_in_modules(l, op, pz_plan_recomputed_modules(w->plan));
    } else if (w->plan->recompute == PZ_RECOMPUTATION_SELECTIVE) {
      which[i] = core && !pz_op_is_scan(op->kind);
    } else if (w->plan->recompute == PZ_RECOMPUTATION_ALTERNATE) {
      bool gemm = op->matmul_flop && !core;
      which[i] = gemm ? (second = !second) : !core && op->op_class != PZ_CLASS_COLLECTIVE;
    } else {
      which[i] = true;
    }
  }
  return which;
}

static void set_ring(const struct pz_step_context *w, struct pz_pass_part *part) {
  struct pz_pass ring = {.ring_s = 0};
  double turns;
  if (!part->ops->n) return;
  add_ring(w, part->ops, &ring);
  part->ring_s = ring.ring_s;
  part->ring_j = ring_bytes(part->ops, &turns) * pz_tech_at(w->cost->chip.tech)->link_j;
}

static double sum_seconds(const struct pz_step_context *w, const struct pz_layer *l) {
  struct pz_pass p = {.n_ops = 0};
  accumulate(w, l, 0, &p);
  return p.elementwise_s;
}

struct pz_pass_question pz_layer_pass(struct pz_call *call, const struct pz_step_context *w,
                                      const struct pz_layer *l,
                                      const struct pz_layer_kernels *kernels, enum pz_direction d,
                                      bool recomputed) {
  bool backward = d == PZ_BACKWARD;
  struct pz_op_run *runs =
      with_collectives(call, w, &l->ops[d], kernels->runs[d], backward ? sum_seconds(w, l) : 0);
  struct pz_pass_question q = {
      .cost = w->cost, .pass = {.ops = &l->ops[d], .runs = runs}, .chains = w->chains};
  set_ring(w, &q.pass);
  if (recomputed && backward) {
    struct pz_op_run *again =
        with_collectives(call, w, &l->ops[PZ_FORWARD], kernels->runs[PZ_FORWARD], 0);
    q.again = (struct pz_pass_part){
        .ops = &l->ops[PZ_FORWARD], .runs = again, .which = list_recomputed(call, w, l)};
    set_ring(w, &q.again);
  }
  return q;
}

/* The schedule of a pass, or its bound. */
static struct pz_pass_schedule schedule_pass(struct pz_call *call, const struct pz_step_context *w,
                                             const struct pz_layer *l,
                                             const struct pz_layer_kernels *kernels,
                                             enum pz_direction d, bool recomputed) {
  bool again = recomputed && d == PZ_BACKWARD;
  struct pass_key key = {.layer = l,
                         .devices = w->net->devices,
                         .direction = (int)d,
                         .recompute = again ? w->plan->recompute : 0,
                         .saved = again ? w->plan->saved : 0,
                         .modules = again ? pz_plan_recomputed_modules(w->plan) : 0,
                         .overlap = w->plan->overlap & (int)PZ_OVERLAP_TP,
                         .chains = w->chains,
                         .solver_steps = w->solver_steps,
                         .sum_s = d == PZ_BACKWARD ? sum_seconds(w, l) : 0};
  for (uint32_t i = 0; i < w->solved->list.n; i++) {
    const struct solved *s = pz_vec_at(&w->solved->list, struct solved, i);
    if (same_key(&s->key, &key)) return s->schedule;
  }
  struct solved s = {.key = key};
  struct pz_call scratch = pz_scratch(call);
  struct pz_pass_question q = pz_layer_pass(&scratch, w, l, kernels, d, recomputed);
  if (w->solver_steps)
    s.schedule = pz_pass_solve(&scratch, &q, w->solver_steps);
  else
    s.schedule.bound_s = pz_pass_bound_s(&scratch, &q);
  pz_scratch_end(&scratch);
  pz_append(call, &w->solved->list, &s);
  return s.schedule;
}

static void take(double *from, double *left, double *to) {
  double s = pz_fmin(*from, *left);
  *from -= s;
  *left -= s;
  *to += s;
}

/* A pass that takes less than its operators one after another: collectives are what shows least. */
static void shorten(struct pz_pass *p, double less, struct pz_layer_step *t) {
  take(&p->collectives_s, &less, &t->hidden_s);
  take(&p->expert_s, &less, &t->expert_hidden_s);
  take(&p->elementwise_s, &less, &t->beside_s);
  take(&p->attention_s, &less, &t->beside_s);
  take(&p->products_s, &less, &t->beside_s);
}

/* In the place of operators one after another, which are a schedule too. */
static void schedule_layer(struct pz_call *call, const struct pz_step_context *w,
                           const struct pz_layer *l, const struct pz_layer_kernels *kernels,
                           bool recomputed, struct pz_layer_step *t) {
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    double *serial_s = d == PZ_FORWARD ? &t->forward_s : &t->backward_s;
    if (!isfinite(*serial_s)) continue; /* it takes all its watts at rest */
    struct pz_pass_schedule s = schedule_pass(call, w, l, kernels, d, recomputed);
    double found = w->solver_steps ? s.s : s.bound_s;
    bool longer = found >= *serial_s;
    *(d == PZ_FORWARD ? &t->forward_j : &t->backward_j) = longer ? s.serial_j : s.dynamic_j;
    if (longer) continue;
    shorten(d == PZ_FORWARD ? &t->forward : &t->backward, *serial_s - found, t);
    *serial_s = found;
  }
}

struct pz_layer_step pz_layer_step(struct pz_call *call, const struct pz_step_context *w,
                                   const struct pz_layer *l, const struct pz_layer_kernels *kernels,
                                   bool recomputed) {
  struct pz_layer_step one = {.forward = kernels->forward, .backward = kernels->backward};
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct pz_pass *p = d == PZ_FORWARD ? &one.forward : &one.backward;
    add_collectives(w, &l->ops[d], NULL, kernels->window_s[d], slowdown_of(p), p);
    add_ring(w, &l->ops[d], p);
  }
  accumulate(w, l, kernels->n_params, &one.backward);
  if (recomputed && pz_recomputes_needed(w->plan))
    recompute_needed(call, w, l, kernels, &one.backward);
  else if (recomputed && pz_plan_recomputed_modules(w->plan))
    recompute_modules(call, w, l, &one.backward);
  else if (recomputed)
    recompute(w, &one);
  copy_shards(w, l, &one);
  add_casts(w, l, &one);
  one.forward_s = finish_pass(w, &one.forward, &one);
  one.backward_s = finish_pass(w, &one.backward, &one);
  struct pz_layer_step t = {.forward_s = 0};
  pz_layer_step_add(&t, &one, (double)w->chains);
  if (w->scheduled) schedule_layer(call, w, l, kernels, recomputed, &t);
  return t;
}

void pz_layer_step_add(struct pz_layer_step *sum, const struct pz_layer_step *t, double times) {
  add_pass(&sum->forward, &t->forward, times);
  add_pass(&sum->backward, &t->backward, times);
  sum->forward_s += times * t->forward_s;
  sum->backward_s += times * t->backward_s;
  sum->launch_s += times * t->launch_s;
  sum->hidden_s += times * t->hidden_s;
  sum->expert_hidden_s += times * t->expert_hidden_s;
  sum->beside_s += times * t->beside_s;
  sum->forward_j += times * t->forward_j;
  sum->backward_j += times * t->backward_j;
}
