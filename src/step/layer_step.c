/* The time of a layer on a device (layer_step.h).
 *
 * pz_layer_kernels() times the operators of a layer's graph one by one: run_op() asks the cost
 * model, corrects the time for the framework's way to run the operator (experts in a loop, casts
 * to 8 bit, ring attention) and for the chip's power limit, and add_op() sums up.  pz_layer_step()
 * adds what depends on the plan: collectives as far as compute does not hide them, gradient
 * accumulation, recomputation, and launches by the host.  On a chip whose operators run beside
 * each other, a schedule of the pass (pass_schedule.h) replaces the sum of the operators if it is
 * shorter.
 *
 * The sections are: kinds of operators, collectives, kernels of a pass, gradients and weights,
 * exposed collectives, recomputation, the host, schedules, the layer. */
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

/* ---- kinds of operators --------------------------------------------------------------------- */

/* Returns whether the name of an operator begins with a prefix. */
static bool has_prefix(const struct pz_op *op, const char *prefix) {
  return strncmp(op->name, prefix, strlen(prefix)) == 0;
}

/* Returns whether a collective exchanges keys, values or their gradients in ring attention, whose
 * time add_ring() adds as a whole. */
static bool is_ring_collective(const struct pz_op *op) {
  return op->peers == PZ_PEERS_CONTEXT && op->kind != PZ_OP_ALL_TO_ALL;
}

/* Returns whether the operator sends tokens to the devices of their experts, or back. */
static bool is_expert_exchange(const struct pz_op *op) {
  return op->kind == PZ_OP_ALL_TO_ALL && op->peers == PZ_PEERS_EXPERT;
}

/* Returns whether the operator is a collective of several devices other than ring attention. */
static bool is_timed_collective(const struct pz_op *op) {
  return op->op_class == PZ_CLASS_COLLECTIVE && op->dims.batch > 1 && !is_ring_collective(op);
}

/* Returns whether the operator is a collective of the tensor-parallel group. */
static bool is_tensor_collective(const struct pz_op *op) {
  return is_timed_collective(op) && op->peers != PZ_PEERS_CONTEXT && !is_expert_exchange(op);
}

/* Returns whether the operator is a GEMM with a weight matrix, or with those of experts. */
static bool is_linear(const struct pz_op *op) {
  return op->kind == PZ_OP_MATMUL && (op->dims.batch == 1 || op->grouped);
}

/* Returns whether the operator, if it is a GEMM, computes the gradient of a weight.  Such GEMMs
 * sum over tokens and read no weights. */
static bool is_weight_gradient(const struct pz_op *op) {
  return op->direction == PZ_BACKWARD && !op->weight_bytes;
}

/* Returns whether the operator computes or reads attention scores, or is a state-space scan.
 * Without flash attention, these are batched GEMMs with one matrix for each head, and element-wise
 * operators with a row of scores for each head and query. */
static bool is_attention_core(const struct pz_step_context *context, const struct pz_op *op) {
  if (pz_op_mixes_tokens(op->kind)) return true;
  if (context->flash) return false;
  bool is_gemm = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  bool is_batched_gemm = is_gemm && op->dims.batch > 1 && !op->grouped;
  bool has_score_rows = !is_gemm && op->dims.n == context->seq && op->dims.m > context->seq;
  return is_batched_gemm || has_score_rows;
}

/* Returns whether the framework runs the experts of a grouped GEMM one after another.  Transformer
 * Engine does, and each GEMM then has a tail of its own (measured by SimuMax on a B200: 0.2 to 0.5
 * of the rate of one kernel for all). */
static bool is_expert_loop(const struct pz_step_context *context, const struct pz_op *op) {
  return op->grouped && pz_plan_framework(context->plan)->launches_per_expert;
}

/* Returns the number format of the operands of a GEMM.  Router, head, adapters and
 * plan->bf16_modules stay in 16 bit, but a Mamba output projection beside nvfp4 uses mxfp8. */
static enum pz_format op_format(const struct pz_step_context *context, const struct pz_op *op) {
  static const struct {
    const char *prefix;
    enum pz_wide_module module;
  } names[] = {{"query", PZ_WIDE_ATTENTION},    {"key", PZ_WIDE_ATTENTION},
               {"value", PZ_WIDE_ATTENTION},    {"attention_out", PZ_WIDE_ATTENTION},
               {"latent_", PZ_WIDE_LATENT},     {"mamba_out", PZ_WIDE_MAMBA_OUT_BF16},
               {"mamba_out", PZ_WIDE_MAMBA_OUT}};
  if (!context->format || !is_linear(op) || has_prefix(op, "router") || pz_op_adapts(op))
    return PZ_FORMAT_16BIT;
  for (size_t i = 0; i < sizeof names / sizeof *names && context->plan->bf16_modules; i++) {
    bool is_wide = context->plan->bf16_modules & (int)names[i].module;
    if (!is_wide || !has_prefix(op, names[i].prefix)) continue;
    bool mxfp8 = names[i].module == PZ_WIDE_MAMBA_OUT && context->format == PZ_FORMAT_NVFP4;
    return mxfp8 ? PZ_FORMAT_MXFP8 : PZ_FORMAT_16BIT;
  }
  return context->format;
}

/* Returns whether a tensor is an input of the operator. */
static bool reads_tensor(const struct pz_op *op, uint32_t tensor) {
  for (uint32_t i = 0; i < op->n_in; i++)
    if (op->in[i] == tensor) return true;
  return false;
}

/* Returns the number format in which a collective gathers its tensor.  Transformer Engine casts the
 * input of a GEMM before it gathers it (gather_along_first_dim in pytorch/distributed.py). */
static enum pz_format gather_format(const struct pz_step_context *context, const struct pz_ops *ops,
                                    const struct pz_op *gather) {
  enum pz_format format = PZ_FORMAT_16BIT;
  if (!context->format || !pz_plan_framework(context->plan)->transformer_engine ||
      gather->kind != PZ_OP_ALL_GATHER || !is_tensor_collective(gather))
    return format;
  for (uint32_t i = 0; i < ops->n && !format; i++)
    if (reads_tensor(&ops->op[i], gather->out[0])) format = op_format(context, &ops->op[i]);
  return format;
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* Returns the seconds in which HBM moves `bytes_per_element` for each element. */
static double hbm_time_s(const struct pz_step_context *context, double elements,
                         double bytes_per_element) {
  struct pz_vector_work work = {.kind = PZ_OP_ADD,
                                .direction = PZ_BACKWARD,
                                .rows = (int64_t)elements,
                                .cols = 1,
                                .bytes = elements * bytes_per_element};
  struct pz_vector_time time;
  pz_vector_time(&context->cost->chip, &work, &time);
  return time.hbm_s;
}

/* Returns the time of the all-to-all that sends tokens to their experts, or results back.  Its data
 * has one row for each token and chosen expert.  HybridEP delivers tokens sorted by expert, but
 * reads and writes each copy once more (536 instead of 735 GB/s in its README). */
static struct pz_wire_time dispatch_time(const struct pz_step_context *context,
                                         const struct pz_op *op) {
  const struct pz_plan *plan = context->plan;
  /* to the experts: the dispatch of the forward pass, and the gradient of their results */
  bool sends = op->direction == (has_prefix(op, "dispatch") ? PZ_FORWARD : PZ_BACKWARD);
  bool casts_to_fp8 =
      sends && pz_plan_framework(plan)->fp8_dispatch && plan->precision == PZ_PRECISION_FP8;
  double experts = (double)pz_max(context->experts_per_token, 1);
  double rows = (double)pz_max(op->dims.m, 1);
  struct pz_dispatch dispatch = {.dispatcher = pz_plan_dispatcher(plan),
                                 .combine = !sends,
                                 .tokens = rows / experts * context->imbalance,
                                 .token_bytes =
                                     (double)op->bytes_written / rows / (casts_to_fp8 ? 2 : 1),
                                 .experts = experts,
                                 .most_nodes = (double)context->expert_groups,
                                 .cores = context->constants->communication_cores,
                                 .group = {pz_plan_ep(plan), pz_plan_etp(plan)}};
  struct pz_wire_time time = pz_dispatch_time(context->constants, context->network, &dispatch);
  if (dispatch.dispatcher == PZ_DISPATCHER_HYBRIDEP)
    time.s += hbm_time_s(context, dispatch.tokens * dispatch.experts, 2 * dispatch.token_bytes);
  return time;
}

/* Returns the time of a collective if no kernel runs beside it. */
static struct pz_wire_time collective_time(const struct pz_step_context *context,
                                           const struct pz_ops *ops, const struct pz_op *op) {
  if (is_expert_exchange(op)) return dispatch_time(context, op);
  if (op->peers == PZ_PEERS_CONTEXT) {
    struct pz_group context_group = {pz_plan_cp(context->plan), context->plan->tp};
    return pz_network_time(context->constants, context->network, PZ_COLLECTIVE_ALL_TO_ALL,
                           (double)op->bytes_written, context_group);
  }
  enum pz_collective kind = PZ_COLLECTIVE_ALL_GATHER;
  if (op->kind == PZ_OP_ALL_REDUCE) kind = PZ_COLLECTIVE_ALL_REDUCE;
  if (op->kind == PZ_OP_ALL_TO_ALL) kind = PZ_COLLECTIVE_ALL_TO_ALL;
  bool is_expert_tensor = op->peers == PZ_PEERS_EXPERT_TENSOR;
  struct pz_group group = {is_expert_tensor ? pz_plan_etp(context->plan) : context->plan->tp, 1};
  static const double GRAPH_BYTES = 2; /* the graph counts 16-bit elements */
  double bytes = (double)pz_max(op->bytes_read, op->bytes_written);
  bytes *= pz_format_bytes(gather_format(context, ops, op)) / GRAPH_BYTES;
  return pz_network_time(context->constants, context->network, kind, bytes, group);
}

/* Returns whether a tensor-parallel collective runs beside its GEMM.  XLA overlaps all-gathers
 * only (xla_enable_async_all_gather in MaxText's scripts of models for TPUs). */
static bool overlaps_gemm(const struct pz_step_context *context, const struct pz_op *op) {
  enum { QKV = PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE, GATE_UP = PZ_LORA_GATE | PZ_LORA_UP };
  bool compiled = pz_framework_compiles(pz_plan_framework(context->plan));
  /* Adapters are separate GEMMs of PyTorch that read the whole gathered input of their layer, so
   * its all-gather cannot run beside a GEMM (tp_comm_overlap_disable_qkv in MLPerf's fine-tuning;
   * return_layernorm_output_gathered in Megatron Bridge's peft/utils.py). */
  bool reads_adapter_input = pz_op_adapts(op) ||
                             (context->adapted_modules & QKV && has_prefix(op, "qkv.")) ||
                             (context->adapted_modules & GATE_UP && has_prefix(op, "mlp."));
  bool after_gemm = has_prefix(op, "kv_group."); /* gathers results of GEMMs, for attention */
  return context->plan->overlap & PZ_OVERLAP_TP && context->plan->tp > 1 && !reads_adapter_input &&
         !after_gemm && (!compiled || op->kind == PZ_OP_ALL_GATHER);
}

/* ---- kernels of a pass ---------------------------------------------------------------------- */

/* Adds seconds of element-wise kernels to a pass.  contended_s is the time of all kernels while
 * collectives occupy a part of the cores. */
static void add_elementwise(const struct pz_step_context *context, double seconds,
                            struct pz_pass *pass) {
  pass->elementwise_s += seconds;
  pass->contended_s +=
      seconds * pz_beside_elementwise(context->constants, context->collective_cores);
}

/* Returns the device time of a kernel with negligible work. */
static double empty_kernel_s(const struct pz_step_context *context) {
  const struct pz_chip *chip = &context->cost->chip;
  const struct pz_kernel *kernel = pz_chip_kernel(chip, "default");
  return pz_corrected(chip->correction.elementwise) *
         (kernel ? kernel->startup_s : chip->calibration.startup_s);
}

/* Adds what the framework's kernels for routing tokens to experts do beyond the operators of the
 * graph.  For an `op` that permutes tokens, this is memory traffic; for the router's choice of
 * experts (top-k), the kernels and launches that the graph lacks.  For each dispatcher, it has 7
 * operators from the router to dispatch.sort ('phaze graph deepseek-v3 --kernels pointwise'). */
static void add_routing(const struct pz_step_context *context, const struct pz_op *op,
                        struct pz_pass *pass) {
  static const double GRAPH_OPS = 7;
  const struct pz_framework *framework = pz_plan_framework(context->plan);
  bool permutes = op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_GATHER_ROWS;
  if (permutes && framework->routed_bytes > 0) {
    double elements = (double)pz_max(op->bytes_written, op->bytes_read) / 2; /* of 16 bits */
    double bytes = framework->routed_bytes * (op->direction == PZ_BACKWARD ? 2 : 1);
    add_elementwise(context, hbm_time_s(context, elements, bytes), pass);
  }
  if (op->kind != PZ_OP_TOPK) return;
  bool all_to_all =
      pz_plan_dispatcher(context->plan) == PZ_DISPATCHER_ALLTOALL && pz_plan_ep(context->plan) > 1;
  /* only an all-to-all has kernels that prepare it */
  double n_kernels =
      framework->router_kernels - (all_to_all ? 0 : context->constants->preparation_kernels);
  double missing_ops = 0;
  if (framework->launches_per_op > 0)
    missing_ops = pz_fmax(0, n_kernels / framework->launches_per_op - GRAPH_OPS);
  if (framework->expert_launches > 0)
    pass->launched_ops += framework->expert_launches / framework->launches_per_op;
  if (op->direction == PZ_FORWARD) pass->launched_ops += missing_ops;
  add_elementwise(context, missing_ops * framework->launches_per_op * empty_kernel_s(context),
                  pass);
}

/* Returns the time to reorder the block scales of both operands of a GEMM for cuBLAS: one kernel
 * for each operand before every GEMM (Transformer Engine, pytorch/csrc/extensions/gemm.cpp and
 * common/swizzle), which reads and writes one byte for each scale.  Blackwell converts scales of
 * 128 values to mxfp8 scales of 32 values (swizzle_block_scaling_to_mxfp8_scaling_factors). */
static double scale_order_s(const struct pz_step_context *context, enum pz_format format,
                            const struct pz_product *gemm) {
  double block = 0; /* values that share a scale */
  if (format == PZ_FORMAT_MXFP8 || format == PZ_FORMAT_FP8_BLOCK) block = 32;
  if (format == PZ_FORMAT_NVFP4) block = 16;
  bool ordered = pz_plan_framework(context->plan)->transformer_engine &&
                 pz_chip_has_nvfp4(&context->cost->chip);
  if (!(block > 0) || !ordered) return 0;
  double values = (double)gemm->batch * (double)(gemm->m + gemm->n) * (double)gemm->k;
  return 2 * empty_kernel_s(context) + hbm_time_s(context, values / block, 2);
}

/* Lengthens a run by the additional throttling of the clock in training: the operands of GEMMs
 * differ from those of benchmarks, and scans run at the clock that GEMMs leave.  Only the time of
 * the cores grows.  On entry, run->s is the time of one call in a benchmark; then, of all calls. */
static void throttle_run(const struct pz_step_context *context, const struct pz_op *op,
                         enum pz_format format, struct pz_op_run *run) {
  const struct pz_chip *chip = &context->cost->chip;
  double benchmark_throttle = chip->calibration.throttle;
  double training_throttle = benchmark_throttle * chip->calibration.training_throttle;
  double slowdown = pz_format_slowdown(chip, format, training_throttle) /
                    pz_format_slowdown(chip, format, benchmark_throttle);
  double chip_s = pz_work_chip_s(&run->work), hbm_s = run->work.hbm_s, core_s = chip_s;
  if (pz_op_is_scan(op->kind)) { /* chip_s is the root of the sum of the squares of both times */
    slowdown = benchmark_throttle;
    core_s = sqrt(pz_fmax(0, chip_s * chip_s - hbm_s * hbm_s));
  }
  if (op->op_class != PZ_CLASS_VECTOR) {
    run->s += pz_fmax(0, slowdown * core_s - pz_fmax(chip_s, hbm_s));
    run->work.core_s = pz_fmax(run->work.core_s, slowdown * core_s);
  }
  run->s *= run->calls;
}

/* Times a GEMM in 8 or 4 bit with its casts.  The forward pass casts the input, the derivative of
 * the input casts the gradient, both with a transposed copy for the weight gradient; weights are
 * cast once a step (Micikevicius et al., arXiv 2209.05433; Transformer Engine). */
static struct pz_op_run run_narrow_gemm(struct pz_call *call, const struct pz_step_context *context,
                                        const struct pz_ops *ops, const struct pz_op *op) {
  struct pz_cost *cost = context->cost;
  struct pz_product gemm = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  enum pz_format format = op_format(context, op);
  struct pz_mapping mapping;
  bool is_gradient = is_weight_gradient(op);
  bool runs_expert_loop = is_expert_loop(context, op);
  /* the kernels: one for all experts of a grouped GEMM, or one for each expert */
  if (op->grouped && is_gradient) gemm.k = pz_grouped_gradient_rows(gemm.k);
  if (runs_expert_loop) gemm.batch = 1;
  if (op->grouped && !is_gradient && !runs_expert_loop) {
    struct pz_grouped grouped = {.experts = op->dims.batch,
                                 .tokens = op->dims.batch * op->dims.m,
                                 .n = op->dims.n,
                                 .k = op->dims.k};
    mapping = pz_estimate_narrow_grouped(call, cost, &cost->chip, format, &grouped);
  } else {
    mapping = pz_estimate_narrow_product(call, cost, format, &gemm);
  }
  double macs = (double)gemm.batch * (double)gemm.m * (double)gemm.n * (double)gemm.k;
  struct pz_op_run run = {.kind = PZ_RUN_GEMM,
                          .s = mapping.latency_s,
                          .calls = runs_expert_loop ? (double)op->dims.batch : 1,
                          .work = pz_cost_mapped_work(&cost->chip, macs, format, &mapping),
                          .weight_gradient = is_gradient};
  throttle_run(context, op, format, &run);
  /* the casts before them; the forward pass casts a common input of several projections once */
  run.cast_s = run.calls * scale_order_s(context, format, &gemm);
  bool is_cast = is_gradient; /* whether the operands were cast before */
  if (op->direction == PZ_FORWARD)
    for (const struct pz_op *earlier = ops->op; earlier < op && !is_cast; earlier++)
      is_cast = op_format(context, earlier) && earlier->in[0] == op->in[0];
  if (is_cast) return run;
  /* each device of the tensor-parallel group casts its part of an input before it is gathered */
  int64_t devices = 1;
  for (uint32_t i = 0; i < ops->n; i++)
    if (reads_tensor(op, ops->op[i].out[0]) && gather_format(context, ops, &ops->op[i]))
      devices = ops->op[i].dims.batch;
  struct pz_vector_time cast;
  pz_cost_format_cast(&cost->chip, format, op->dims.batch * op->dims.m, op->dims.k, devices,
                      pz_plan_trains_adapters(context->plan), &cast);
  run.cast_s += cast.latency_s;
  return run;
}

/* Times the dispatch of tokens to experts, or back, by GEMMs with one-hot matrices, sample by
 * sample (Lepikhin et al., GShard, arXiv 2006.16668).  An expert has a fixed number of places for
 * tokens, and each place is a sum over the sample's tokens.  The places are those of the whole
 * sample, ceil(seq k / experts) x capacity for each expert, whatever the context-parallel degree; a
 * device sums over its own tokens (generate_masks and "BSM,BSEC -> EBCM" of MaxText's
 * layers/moe.py, whose subgroups of a sequence are for inference alone).  The gradient of the
 * weights is a second GEMM. */
static struct pz_op_run run_dispatch_gemm(struct pz_call *call,
                                          const struct pz_step_context *context,
                                          const struct pz_op *op) {
  struct pz_cost *cost = context->cost;
  double tokens = (double)(context->seq * pz_plan_cp(context->plan));
  int64_t n_places = (int64_t)ceil(tokens * (double)context->experts_per_token *
                                   pz_plan_framework(context->plan)->capacity_factor);
  struct pz_product gemm = {context->mbs, n_places, op->dims.n, context->seq, false};
  struct pz_mapping mapping = pz_estimate_product(call, cost, &cost->chip, &gemm);
  double macs = (double)gemm.batch * (double)gemm.m * (double)gemm.n * (double)gemm.k;
  struct pz_op_run run = {
      .kind = PZ_RUN_GEMM,
      .calls = op->kind == PZ_OP_COMBINE && op->direction == PZ_BACKWARD ? 2 : 1,
      .work = pz_cost_mapped_work(&cost->chip, macs, PZ_FORMAT_16BIT, &mapping)};
  pz_cost_within_watts(&cost->power, &cost->chip, macs, PZ_FORMAT_16BIT, &mapping);
  run.s = run.calls * mapping.latency_s;
  return run;
}

/* Times flash attention.  In ring attention, one kernel runs for the keys of each device, causal
 * ones in pairs so that all devices do the same work, and the result of each but the first is
 * added to those before (Liu et al., arXiv 2310.01889). */
static void run_attention(struct pz_call *call, const struct pz_step_context *context,
                          const struct pz_op *op, struct pz_op_run *run) {
  struct pz_op block = *op; /* attention to the keys of one device */
  bool is_ring = pz_plan_cp(context->plan) > 1 && context->plan->cp_form != PZ_CONTEXT_ALL_TO_ALL;
  int64_t blocks = is_ring ? pz_max(1, pz_ceil_div(op->dims.n, context->seq)) : 1;
  if (blocks > 1) {
    block.dims.n = pz_ceil_div(op->dims.n, blocks);
    block.span = pz_min(op->span, block.dims.m);
    block.bytes_read /= blocks;
    block.bytes_written /= blocks;
  }
  struct pz_estimate estimate = pz_estimate_op(call, context->cost, &block, &run->work);
  double throttle = context->cost->chip.calibration.throttle;
  double result_elements = (double)op->dims.batch * (double)op->dims.m * (double)op->dims.k;
  run->merge_s =
      (double)(blocks - 1) * hbm_time_s(context, result_elements, context->constants->merge_bytes);
  run->calls = (double)blocks * throttle;
  run->s = throttle * ((double)blocks * estimate.latency_s + run->merge_s);
}

/* Times an operator other than 8-bit or 4-bit GEMMs and flash attention: one kernel, or one for
 * each expert. */
static void run_kernel(struct pz_call *call, const struct pz_step_context *context,
                       const struct pz_op *op, struct pz_op_run *run) {
  double capacity_factor = pz_plan_framework(context->plan)->capacity_factor;
  struct pz_op kernel = *op;
  if (is_expert_loop(context, op)) { /* the GEMM of one expert */
    int64_t experts = pz_max(1, op->dims.batch);
    kernel.dims.batch = 1;
    kernel.grouped = false;
    if (is_weight_gradient(op)) kernel.dims.k = pz_grouped_gradient_rows(op->dims.k);
    kernel.bytes_read /= experts;
    kernel.bytes_written /= experts;
    kernel.weight_bytes /= experts;
    kernel.matmul_flop /= experts;
    run->calls *= (double)op->dims.batch;
  }
  struct pz_estimate estimate = pz_estimate_op(call, context->cost, &kernel, &run->work);
  if (op->grouped && capacity_factor > 0) run->calls *= capacity_factor;
  run->s = estimate.latency_s;
  throttle_run(context, op, PZ_FORMAT_16BIT, run);
}

/* Times an operator that runs kernels, corrected by the chip's factor for GEMMs, attention or
 * element-wise kernels (step/correction.h). */
static struct pz_op_run run_op(struct pz_call *call, const struct pz_step_context *context,
                               const struct pz_ops *ops, const struct pz_op *op) {
  const struct pz_correction *correction = &context->cost->chip.correction;
  bool dispatch_gemm = pz_plan_framework(context->plan)->capacity_factor > 0 &&
                       (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE);
  struct pz_op_run run = {.kind = PZ_RUN_GEMM, .calls = 1};
  if (op_format(context, op)) {
    run = run_narrow_gemm(call, context, ops, op);
  } else if (dispatch_gemm) {
    run = run_dispatch_gemm(call, context, op);
  } else {
    if (op->op_class == PZ_CLASS_VECTOR) run.kind = PZ_RUN_ELEMENTWISE;
    if (is_attention_core(context, op)) run.kind = PZ_RUN_ATTENTION;
    run.weight_gradient = is_linear(op) && is_weight_gradient(op);
    if (op->kind == PZ_OP_ATTENTION)
      run_attention(call, context, op, &run);
    else
      run_kernel(call, context, op, &run);
  }
  double factor = pz_corrected(correction->gemms);
  if (run.kind == PZ_RUN_ATTENTION) factor = pz_corrected(correction->attention);
  if (run.kind == PZ_RUN_ELEMENTWISE) factor = pz_corrected(correction->elementwise);
  run.s *= factor;
  run.merge_s *= factor;
  run.calls *= factor;
  run.cast_s *= pz_corrected(correction->elementwise);
  return run;
}

/* Returns the module of partial CUDA graphs to which an operator belongs, or 0.  Megatron Core
 * divides layers in this way (moe_layer.py: router, preprocess). */
static int cuda_graph_module(const struct pz_layer *layer, const struct pz_op *op) {
  bool routed = layer->model_expert_params > 0;
  if (strncmp(layer->name, "block", 5) != 0) return 0;
  if (has_prefix(op, "mlp_norm")) return routed ? PZ_GRAPH_ROUTER : PZ_GRAPH_MLP;
  if (has_prefix(op, "router") || has_prefix(op, "shared")) return PZ_GRAPH_ROUTER;
  if (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_GATHER_ROWS || has_prefix(op, "latent_down"))
    return PZ_GRAPH_PREPARATION;
  if (has_prefix(op, "mlp_") || has_prefix(op, "split_")) return routed ? 0 : PZ_GRAPH_MLP;
  bool is_expert_op = is_expert_exchange(op) || op->kind == PZ_OP_SORT ||
                      op->kind == PZ_OP_COMBINE || has_prefix(op, "add_shared") ||
                      has_prefix(op, "experts") || has_prefix(op, "combine") ||
                      has_prefix(op, "latent");
  if (is_expert_op) return 0;
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  for (uint32_t i = 0; i < ops->n; i++)
    if (ops->op[i].kind == PZ_OP_SSM_SCAN) return PZ_GRAPH_MAMBA;
  return PZ_GRAPH_ATTENTION;
}

/* Adds the seconds of an operator's kernels and of the cast before them to a pass.  Concurrent
 * collectives slow each kind of kernel down differently. */
static void add_run(const struct pz_step_context *context, const struct pz_op *op,
                    const struct pz_op_run *run, struct pz_pass *pass) {
  double cores = context->collective_cores;
  if (run->kind == PZ_RUN_GEMM) {
    pass->last_gemm_s = run->s;
    pass->gemm_s += run->s;
    pass->contended_s +=
        run->s * pz_beside_gemm(context->constants, &context->cost->chip, &op->dims, cores);
  } else if (run->kind == PZ_RUN_ATTENTION) {
    pass->attention_s += run->s;
    pass->contended_s += run->s * pz_beside_attention(context->constants, cores);
  } else {
    add_elementwise(context, run->s, pass);
  }
  if (run->weight_gradient) pass->weight_gradient_s += run->s;
  if (!(run->cast_s > 0)) return;
  add_elementwise(context, run->cast_s, pass);
  pass->launched_ops++;
}

/* Adds the kernels of an operator to a pass, and its launches by the host unless it is in a CUDA
 * graph, which one launch starts.  Of a collective, adds only the launch.  Stores the timed kernels
 * in *stored unless that is NULL. */
static void add_op(struct pz_call *call, const struct pz_step_context *context,
                   const struct pz_layer *layer, const struct pz_op *op, struct pz_op_run *stored,
                   struct pz_pass *pass) {
  if (stored) *stored = (struct pz_op_run){.kind = PZ_RUN_NONE};
  if (op->op_class == PZ_CLASS_NONE || is_ring_collective(op)) return;
  /* HybridEP writes tokens in the order of their experts, and experts with a capacity receive them
   * so.  After an all-to-all or DeepEP's dispatch, separate kernels sort them (_DeepepManager and
   * sort_chunks_by_idxs in megatron/core/transformer/moe/token_dispatcher.py). */
  bool arrives_sorted = pz_plan_dispatcher(context->plan) == PZ_DISPATCHER_HYBRIDEP ||
                        pz_plan_framework(context->plan)->capacity_factor > 0;
  if (op->kind == PZ_OP_SORT && arrives_sorted) return;
  double launched_before = pass->launched_ops;
  pass->launched_ops++;
  if (op->op_class != PZ_CLASS_COLLECTIVE) {
    if (pz_op_is_scan(op->kind)) { /* every kernel of a scan is launched from Python */
      struct pz_scan_work scan = pz_scan_work_of(op);
      double launches = pz_plan_framework(context->plan)->launches_per_op;
      pass->has_scan = true;
      if (launches > 0)
        pass->launched_ops += pz_fmax(0, pz_scan_counts(&scan).kernels / launches - 1);
    }
    add_routing(context, op, pass);
    if (is_expert_loop(context, op)) {
      /* In 8 and 4 bit, two kernels for each expert find the scales of its tokens and cast them,
       * unless the GEMM sums over tokens. */
      const struct pz_constants *constants = context->constants;
      int kernels = op_format(context, op) && !is_weight_gradient(op) ? 2 : 0;
      pass->native_launch_s +=
          (double)op->dims.batch *
          (constants->native_gemm_s + (double)kernels * constants->native_launch_s);
      add_elementwise(context, (double)(op->dims.batch * kernels) * empty_kernel_s(context), pass);
    }
    struct pz_op_run run = run_op(call, context, &layer->ops[op->direction], op);
    add_run(context, op, &run, pass);
    if (stored) *stored = run;
  }
  if (context->plan->cuda_graphs & cuda_graph_module(layer, op))
    pass->launched_ops = launched_before;
}

/* Adds the operators of one direction of a layer, without collectives.  Stores the time of the GEMM
 * beside each tensor-parallel collective (its window) in window_s: for an all-gather the next GEMM,
 * otherwise the last one.  The imbalance of experts lengthens operators between both exchanges. */
static void add_ops(struct pz_call *call, const struct pz_step_context *context,
                    const struct pz_layer *layer, enum pz_direction direction,
                    struct pz_op_run *runs, struct pz_pass *pass, double *window_s) {
  const struct pz_ops *ops = &layer->ops[direction];
  bool waits_for_routing = direction == PZ_FORWARD && pz_plan_waits_for_routing(context->plan);
  bool at_experts = false;
  uint32_t n_windows = 0, first_open = 0; /* gathers from `first_open` on wait for a GEMM */
  double last_gemm_s = 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct pz_pass before = *pass;
    if (is_expert_exchange(op)) at_experts = !at_experts;
    if (waits_for_routing && cuda_graph_module(layer, op) == PZ_GRAPH_PREPARATION) {
      pass->host_waits++;
      pass->early_ops = pass->launched_ops;
      pass->early_kernels_s = pz_kernels_s(pass);
    }
    add_op(call, context, layer, op, runs ? &runs[i] : NULL, pass);
    if (pass->gemm_s > before.gemm_s) {
      last_gemm_s = pass->gemm_s - before.gemm_s;
      for (; first_open < n_windows; first_open++)
        window_s[first_open] = pz_fmax(window_s[first_open], last_gemm_s);
    }
    if (is_tensor_collective(op) && n_windows < PZ_PASS_WINDOWS) {
      bool is_gather = op->kind == PZ_OP_ALL_GATHER;
      window_s[n_windows++] = is_gather ? 0 : last_gemm_s;
      if (!is_gather) first_open = n_windows;
    }
    if (!at_experts) continue;
    /* the busiest device has `imbalance` times the mean tokens for its experts */
    double extra_part = context->imbalance - 1;
    if (runs) {
      runs[i].s *= context->imbalance;
      runs[i].cast_s *= context->imbalance;
      runs[i].merge_s *= context->imbalance;
      runs[i].calls *= context->imbalance;
    }
    pass->gemm_s += extra_part * (pass->gemm_s - before.gemm_s);
    pass->weight_gradient_s += extra_part * (pass->weight_gradient_s - before.weight_gradient_s);
    pass->elementwise_s += extra_part * (pass->elementwise_s - before.elementwise_s);
    pass->contended_s += extra_part * (pass->contended_s - before.contended_s);
  }
}

/* Times the kernels of both passes, and counts the tensors with a gradient. */
void pz_layer_kernels(struct pz_call *call, const struct pz_step_context *context,
                      const struct pz_layer *layer, struct pz_layer_kernels *kernels) {
  struct pz_layer_kernels timed = {.runs = {kernels->runs[0], kernels->runs[1]}};
  add_ops(call, context, layer, PZ_FORWARD, timed.runs[PZ_FORWARD], &timed.forward,
          timed.window_s[PZ_FORWARD]);
  add_ops(call, context, layer, PZ_BACKWARD, timed.runs[PZ_BACKWARD], &timed.backward,
          timed.window_s[PZ_BACKWARD]);
  for (uint32_t i = 0; i < layer->n_tensors; i++)
    timed.trained_tensors += layer->tensors[i].role == PZ_ROLE_PARAM && !layer->tensors[i].frozen;
  *kernels = timed;
}

/* ---- gradients and weights ------------------------------------------------------------------ */

/* Returns the bytes that gradient accumulation moves for a parameter that `tokens` of a microbatch
 * pass.  If the GEMM of a weight gradient also adds to the fp32 sum, it hides a part of
 * the memory traffic (bench/h200/host.csv: 0.3 of it with 2,048 tokens, 0.65 with 16,384). */
static double accumulation_bytes(const struct pz_step_context *context, double tokens) {
  const struct pz_constants *constants = context->constants;
  const struct pz_chip *chip = &context->cost->chip;
  bool accumulates = context->microbatches > 1;
  switch (pz_plan_framework(context->plan)->accumulation) {
  case PZ_ACCUMULATION_KEPT: return constants->kept_accumulation_bytes;
  case PZ_ACCUMULATION_FUSED: break;
  default: return accumulates ? constants->accumulation_bytes : 0;
  }
  if (!accumulates) return 0;
  /* of a parameter's GEMM, as FLOP at the 16-bit rate */
  double flop = 2 * tokens * pz_format_bits(context->format) / 16;
  double flop_per_s = pz_chip_tensor_flop_per_s(chip) / chip->clock_hz * pz_chip_gemm_hz(chip);
  double memory_s = constants->fused_accumulation_bytes / pz_chip_hbm_bytes_per_s(chip);
  double compute_s = flop / flop_per_s;
  double exposed_part = pz_fmin(1, constants->fused_part + memory_s / compute_s);
  return constants->fused_accumulation_bytes * exposed_part;
}

/* Adds gradient accumulation to a backward pass: element-wise kernels over the gradients of dense
 * and of expert parameters, which fewer tokens pass.  The pass is that of a chain: a whole
 * microbatch or one of its halves.  If every microbatch scatters its gradients, the last chain adds
 * only a shard to the sums, and the pass has the mean of all chains. */
static void add_accumulation(const struct pz_step_context *context, const struct pz_layer *layer,
                             double trained_tensors, struct pz_pass *pass) {
  const struct pz_plan *plan = context->plan;
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double bytes = accumulation_bytes(context, (double)(context->seq * context->mbs));
  if (!(bytes > 0)) return;
  double expert_tokens = 0; /* tokens of one expert of the device */
  for (uint32_t i = 0; i < ops->n && !(expert_tokens > 0); i++)
    if (ops->op[i].grouped) expert_tokens = (double)ops->op[i].dims.m;
  if (pz_plan_framework(plan)->accumulation != PZ_ACCUMULATION_FUSED)
    pass->launched_ops += trained_tensors;
  double expert_params = expert_tokens > 0 ? (double)layer->trained_expert_params : 0;
  double chains = context->chains;
  double dense_part = 1, expert_part = 1; /* parts of the gradients that a chain adds */
  if (pz_plan_scatters_per_microbatch(plan)) {
    dense_part = (chains - 1 + 1 / (double)pz_max(1, pz_plan_shards(plan))) / chains;
    expert_part = (chains - 1 + 1 / (double)pz_max(1, pz_plan_expert_shards(plan))) / chains;
  }
  double dense_params = ((double)layer->trained_params - expert_params) * dense_part;
  add_elementwise(context, hbm_time_s(context, dense_params, bytes), pass);
  if (!(expert_params > 0)) return;
  expert_params *= expert_part;
  double expert_bytes = accumulation_bytes(context, expert_tokens);
  add_elementwise(context, hbm_time_s(context, expert_params, expert_bytes), pass);
}

/* Adds the copies and casts of weights and gradients to both passes.
 *
 * ZeRO 3 copies out of the gathered buffer and into the reduce-scatter buffer.  Weights gathered in
 * 16 bit are cast for every pass; compiled programs gather cast weights instead.  Under autocast,
 * every pass casts fp32 weights to 16 bit, and their gradients back; the residual stream is fp32,
 * so that norms and additions move 2 more bytes: 6 times an element forward, 8 times backward. */
static void add_weight_copies(const struct pz_step_context *context, const struct pz_layer *layer,
                              struct pz_layer_step *step) {
  static const double CAST_BYTES = 4 + 2, FORWARD_BYTES = 6 * 2, BACKWARD_BYTES = 8 * 2;
  const struct pz_framework *framework = pz_plan_framework(context->plan);
  double params = (double)layer->params, trained_params = (double)layer->trained_params;
  if (context->gathers_weights) {
    bool casts = context->format && !pz_framework_compiles(framework);
    double cast_bytes = casts ? pz_format_weight_bytes(context->format) : 0;
    double gather_s = hbm_time_s(context, params, framework->gather_copy_bytes + cast_bytes);
    double scatter_s = hbm_time_s(context, trained_params, framework->scatter_copy_bytes);
    add_elementwise(context, gather_s, &step->forward);
    add_elementwise(context, gather_s + scatter_s, &step->backward);
  }
  if (!pz_plan_autocasts(context->plan)) return;
  double elements = (double)layer->output_bytes / 2;
  double cast_s = hbm_time_s(context, params, CAST_BYTES);
  add_elementwise(context, cast_s + hbm_time_s(context, elements, FORWARD_BYTES), &step->forward);
  add_elementwise(context, cast_s + hbm_time_s(context, elements, BACKWARD_BYTES), &step->backward);
}

/* ---- exposed collectives -------------------------------------------------------------------- */

/* Returns the factor, at least 1, by which concurrent collectives slow down a pass's kernels. */
static double pass_slowdown(const struct pz_pass *pass) {
  double kernels_s = pz_kernels_s(pass);
  if (!(kernels_s > 0)) return 1;
  return pz_fmax(1, pass->contended_s / kernels_s); /* rounding may make it less than 1 */
}

/* Returns the seconds of a collective that compute_s of concurrent kernels, which it slows down by
 * a factor, does not hide.  Adds the hidden seconds to *hidden_s. */
static double expose(double collective_s, double compute_s, double slowdown, double *hidden_s) {
  double exposed_s = pz_beside_exposed_s(collective_s, compute_s, slowdown);
  *hidden_s += collective_s - exposed_s;
  return exposed_s;
}

/* Adds the collectives of a pass: those of operators with a true chosen[], or all if `chosen` is
 * NULL.  If the plan overlaps tensor parallelism, the i-th tensor-parallel collective runs beside a
 * GEMM of window_s[i] seconds, which it slows down by the factor `slowdown`. */
static void add_collectives(const struct pz_step_context *context, const struct pz_ops *ops,
                            const bool *chosen, const double *window_s, double slowdown,
                            struct pz_pass *pass) {
  uint32_t n_windows = 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool is_tensor = is_tensor_collective(op);
    double gemm_s = is_tensor && n_windows < PZ_PASS_WINDOWS ? window_s[n_windows] : 0;
    if (is_tensor) n_windows++;
    if (!is_timed_collective(op) || (chosen && !chosen[i])) continue;
    struct pz_wire_time time = collective_time(context, ops, op);
    if (is_expert_exchange(op))
      pass->expert_s += time.s;
    else if (is_tensor && overlaps_gemm(context, op))
      pass->collective_s += expose(time.s, gemm_s, slowdown, &pass->hidden_s);
    else
      pass->collective_s += time.s;
    for (int wire = 0; wire < PZ_WIRES; wire++) pass->busy_s[wire] += time.busy_s[wire];
  }
}

/* Returns whether ring attention uses the links within a node or those between nodes. */
static enum pz_wire ring_wire(const struct pz_step_context *context) {
  struct pz_group group = {pz_plan_cp(context->plan), context->plan->tp};
  return pz_network_crosses_levels(context->network, group) ? PZ_WIRE_OUTER : PZ_WIRE_INNER;
}

/* Returns the bytes that each device sends round the ring of ring attention in a pass.  Sets *turns
 * to the number of other devices whose keys and values a device reads; with a sliding window, it
 * may be a fraction.  The backward pass goes round again with their gradients. */
static double ring_bytes(const struct pz_ops *ops, double *turns) {
  double own_bytes = 0, reached_bytes = 0; /* of this device, and of all devices that it reads */
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (!is_ring_collective(op) || op->kind != PZ_OP_ALL_GATHER) continue;
    own_bytes += (double)op->bytes_read;
    reached_bytes += (double)op->bytes_written;
  }
  *turns = own_bytes > 0 ? pz_fmax(0, reached_bytes / own_bytes - 1) : 0;
  double rounds = ops->n && ops->op[0].direction == PZ_BACKWARD ? 2 : 1;
  return rounds * *turns * own_bytes;
}

/* Adds the ring of ring attention to a pass: the seconds in which keys and values of the other
 * devices go round it (pass->ring_s, which attention kernels hide later), the busy time of the
 * links, and the launch of one kernel for each turn. */
static void add_ring(const struct pz_step_context *context, const struct pz_ops *ops,
                     struct pz_pass *pass) {
  double turns, bytes = ring_bytes(ops, &turns);
  if (!(turns > 0)) return;
  double messages = ceil(turns), rounds = ops->op[0].direction == PZ_BACKWARD ? 2 : 1;
  /* neighbours in the ring are as many devices apart as a tensor-parallel group has */
  struct pz_group group = {pz_plan_cp(context->plan), context->plan->tp};
  double wire_s = bytes / pz_network_neighbour_rate(context->constants, context->network, group);
  pass->launched_ops += messages;
  if (context->network->instant) return;
  double message_s = pz_network_message_s(context->constants, context->network, group);
  pass->ring_s += wire_s + rounds * messages * message_s;
  pass->busy_s[ring_wire(context)] += wire_s;
}

/* ---- recomputation -------------------------------------------------------------------------- */

/* Adds the times of a pass, multiplied by a factor, to a sum.  Leaves out has_scan and last_gemm_s,
 * which describe one pass. */
static void add_pass(struct pz_pass *sum, const struct pz_pass *pass, double factor) {
  sum->gemm_s += factor * pass->gemm_s;
  sum->contended_s += factor * pass->contended_s;
  sum->ring_s += factor * pass->ring_s;
  sum->hidden_s += factor * pass->hidden_s;
  for (int wire = 0; wire < PZ_WIRES; wire++) sum->busy_s[wire] += factor * pass->busy_s[wire];
  sum->weight_gradient_s += factor * pass->weight_gradient_s;
  sum->attention_s += factor * pass->attention_s;
  sum->elementwise_s += factor * pass->elementwise_s;
  sum->collective_s += factor * pass->collective_s;
  sum->expert_s += factor * pass->expert_s;
  sum->launched_ops += factor * pass->launched_ops;
  sum->native_launch_s += factor * pass->native_launch_s;
  sum->host_waits += factor * pass->host_waits;
  sum->early_ops += factor * pass->early_ops;
  sum->early_kernels_s += factor * pass->early_kernels_s;
}

/* Adds the forward operators with a true chosen[] to the backward pass, with their collectives (see
 * add_collectives() for window_s and slowdown) and, with attention, its ring.  If selective
 * recomputation repeats the experts, the host waits once more for the number of tokens that the
 * router sends to each expert. */
static void recompute_ops(struct pz_call *call, const struct pz_step_context *context,
                          const struct pz_layer *layer, const bool *chosen, const double *window_s,
                          double slowdown, struct pz_pass *backward) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  struct pz_pass recomputed = {.launched_ops = 0};
  bool has_attention = false;
  for (uint32_t i = 0; i < ops->n; i++) {
    if (!chosen[i]) continue;
    add_op(call, context, layer, &ops->op[i], NULL, &recomputed);
    has_attention = has_attention || ops->op[i].kind == PZ_OP_ATTENTION;
  }
  int modules = pz_plan_recomputed_modules(context->plan);
  bool repeats_experts = modules & PZ_MODULE_EXPERTS; /* modules is 0 unless selective */
  bool has_experts = layer->model_expert_params > 0;
  if (repeats_experts && has_experts && pz_plan_waits_for_routing(context->plan))
    recomputed.host_waits = 1;
  add_collectives(context, ops, chosen, window_s, slowdown, &recomputed);
  if (has_attention) add_ring(context, ops, &recomputed);
  add_pass(backward, &recomputed, 1);
}

/* Adds the recomputation of the layer to its backward pass.  Depending on the plan, it recomputes
 * what a compiler or a saving policy leaves, the modules that the plan names, or a part of the
 * forward pass as PyTorch's activation checkpointing does.  Alternate recomputation saves the
 * results of every second GEMM and of attention, but none of element-wise operators. */
static void add_recomputation(struct pz_call *call, const struct pz_step_context *context,
                              const struct pz_layer *layer, const struct pz_layer_kernels *kernels,
                              struct pz_layer_step *step) {
  static const double NO_WINDOWS[PZ_PASS_WINDOWS] = {0}, NO_SLOWDOWN = 1;
  static const double CORE_OPS = 4; /* attention without flash: scores, softmax, dropout, context */
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  int modules = pz_plan_recomputed_modules(context->plan);
  if (pz_recomputes_needed(context->plan)) {
    const bool *needed = pz_recompute_ops(call, layer, context->plan->saved);
    recompute_ops(call, context, layer, needed, kernels->window_s[PZ_FORWARD],
                  pass_slowdown(&kernels->forward), &step->backward);
    return;
  }
  if (modules) {
    bool *chosen = pz_alloc(call, ops->n, sizeof *chosen);
    for (uint32_t i = 0; i < ops->n; i++) chosen[i] = pz_in_modules(layer, &ops->op[i], modules);
    recompute_ops(call, context, layer, chosen, NO_WINDOWS, NO_SLOWDOWN, &step->backward);
    return;
  }
  /* the whole forward pass, or half of its GEMMs with all element-wise operators */
  struct pz_pass whole = step->forward, *backward = &step->backward;
  struct pz_pass half = {.gemm_s = whole.gemm_s / 2,
                         .elementwise_s = whole.elementwise_s,
                         .launched_ops = whole.launched_ops};
  double slowdown = pass_slowdown(&whole);
  half.contended_s = slowdown * pz_kernels_s(&half);
  if (pz_plan_framework(context->plan)->stops_early) { /* before the last GEMM */
    whole.gemm_s -= whole.last_gemm_s;
    whole.contended_s -= slowdown * whole.last_gemm_s;
  }
  switch (context->plan->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF: add_pass(backward, &whole, 1); break;
  case PZ_RECOMPUTATION_ALTERNATE: add_pass(backward, &half, 1); break;
  case PZ_RECOMPUTATION_SELECTIVE:
    if (whole.has_scan) break; /* there are no attention scores to recompute */
    backward->attention_s += whole.attention_s;
    backward->contended_s +=
        whole.attention_s * pz_beside_attention(context->constants, context->collective_cores);
    backward->ring_s += whole.ring_s;
    backward->busy_s[ring_wire(context)] += whole.ring_s;
    backward->launched_ops += CORE_OPS;
    break;
  default: break;
  }
}

/* ---- the host ------------------------------------------------------------------------------- */

/* Returns the host seconds to launch `launched_ops` operators from Python, and kernels of experts
 * from native code, which takes native_s.  Processes of a tensor-parallel group that spans both
 * processors of a server wait for each other at every collective (constants->lockstep). */
static double host_s(const struct pz_step_context *context, double launched_ops, double native_s) {
  const struct pz_constants *constants = context->constants;
  const struct pz_chip *chip = &context->cost->chip;
  int64_t tp = context->plan->tp;
  if (context->plan->execution >= PZ_EXECUTION_GRAPH) return 0;
  int64_t node_devices = context->network->n_levels ? context->network->level[0].devices : 1;
  bool is_server = node_devices <= PZ_SERVER_DEVICES; /* larger domains have many hosts */
  bool spans_processors = is_server && 2 * tp > node_devices && tp > 1;
  bool waits = spans_processors && !context->network->instant;
  double host_factor = chip->calibration.host_launch * (waits ? constants->lockstep : 1) *
                       pz_corrected(chip->correction.launches);
  double expert_factor = native_s > 0 ? constants->expert_host : 1;
  double ops_s =
      launched_ops * pz_plan_framework(context->plan)->launches_per_op * constants->launch_s;
  return (ops_s + native_s) * host_factor * expert_factor;
}

/* Returns the seconds of a pass with collectives and launches.  Reduces the collectives of the pass
 * to their exposed times, and adds what is hidden and the waits for the host to `step`.
 *
 * Attention hides the ring of context parallelism; the kernels of another microbatch hide the
 * experts' all-to-all if the plan overlaps it, and always in DualPipe (DeepSeek-V3, arXiv
 * 2412.19437), but not in scheduled passes.  If the framework reserves cores for the all-to-all,
 * all kernels run on fewer cores, but lose at most its time.  A pass takes at least the busy time
 * of its links.
 *
 * The host launches ahead of the device: a pass takes (device^n + host^n)^(1/n).  If the host waits
 * for the device in every layer, it launches the late operators of this layer and the early ones of
 * the next between two waits.  A layer then takes the longest of its launches, its kernels, and
 * late launches followed by early kernels (bench/h200/waits.csv), unless microbatches overlap. */
static double finish_pass(const struct pz_step_context *context, struct pz_pass *pass,
                          struct pz_layer_step *step) {
  const struct pz_constants *constants = context->constants;
  const struct pz_plan *plan = context->plan;
  bool is_dualpipe =
      plan->pipeline == PZ_PIPELINE_DUALPIPE || plan->pipeline == PZ_PIPELINE_DUALPIPE_V;
  bool asks_overlap = plan->overlap & PZ_OVERLAP_EP && pz_plan_ep(plan) > 1;
  bool overlaps_experts = !context->scheduled && (is_dualpipe || asks_overlap);
  /* exposed collectives */
  step->hidden_s += pass->hidden_s;
  pass->collective_s +=
      expose(pass->ring_s, pass->attention_s,
             pz_beside_attention(constants, context->collective_cores), &step->hidden_s);
  if (overlaps_experts && pass->expert_s > 0) {
    double slowdown = pass_slowdown(pass);
    if (pz_plan_framework(plan)->reserves_cores) {
      double factor = pz_fmin(slowdown, 1 + pass->expert_s / pz_kernels_s(pass));
      pass->gemm_s *= factor;
      pass->weight_gradient_s *= factor;
      pass->attention_s *= factor;
      pass->elementwise_s *= factor;
      slowdown = 1;
    }
    pass->expert_s = expose(pass->expert_s, pz_kernels_s(pass), slowdown, &step->expert_hidden_s);
  }
  double device_s = pz_kernels_s(pass) + pass->collective_s + pass->expert_s;
  double busy_s = pz_fmax(pass->busy_s[PZ_WIRE_INNER], pass->busy_s[PZ_WIRE_OUTER]);
  double link_excess_s = pz_fmax(0, busy_s - device_s);
  pass->collective_s += link_excess_s;
  step->hidden_s = pz_fmax(0, step->hidden_s - link_excess_s);
  device_s += link_excess_s;

  /* launches by the host */
  double launches_s = host_s(context, pass->launched_ops, pass->native_launch_s);
  if (!(launches_s > 0)) return device_s;
  double n = constants->smooth;
  double s = pow(pow(device_s, n) + pow(launches_s, n), 1 / n);
  if (pass->host_waits > 0 && !overlaps_experts) {
    double late_s = host_s(context, pass->launched_ops - pass->early_ops, pass->native_launch_s);
    s = pz_fmax(s, late_s + pass->early_kernels_s);
  }
  s += pass->host_waits * constants->wait_s;
  step->launch_s += pz_fmax(0, s - device_s); /* rounding may make s less than its larger part */
  return s;
}

/* ---- schedules ------------------------------------------------------------------------------ */

/* Everything on which the schedule of a pass depends, for a chip, network and set of kernels. */
struct pass_key {
  const struct pz_layer *layer;
  int64_t devices;
  int direction, recompute, saved, modules, overlap, chains;
  int64_t solver_steps;
  double accumulation_s; /* seconds of gradient accumulation */
};

/* A pass and its schedule, or only its lower bound if key.solver_steps is 0. */
struct solved_pass {
  struct pass_key key;
  struct pz_pass_schedule schedule;
};

struct pz_solved_passes {
  struct pz_arena arena;
  struct pz_vec list; /* struct solved_pass */
};

/* Returns an empty store of solved schedules. */
struct pz_solved_passes *pz_solved_passes_new(struct pz_call *call) {
  struct pz_solved_passes *solved = pz_alloc(call, 1, sizeof *solved);
  pz_vec_init(&solved->list, &solved->arena, sizeof(struct solved_pass));
  return solved;
}

void pz_solved_passes_clear(struct pz_solved_passes *solved) {
  if (!solved || !solved->list.n) return;
  pz_arena_release(&solved->arena);
  pz_vec_init(&solved->list, &solved->arena, sizeof(struct solved_pass));
}

/* Returns whether two keys describe the same pass, which has one schedule. */
static bool is_same_key(const struct pass_key *a, const struct pass_key *b) {
  return a->layer == b->layer && a->devices == b->devices && a->direction == b->direction &&
         a->recompute == b->recompute && a->saved == b->saved && a->modules == b->modules &&
         a->overlap == b->overlap && a->chains == b->chains &&
         a->accumulation_s == b->accumulation_s && a->solver_steps == b->solver_steps;
}

/* Returns the operators of a pass as the scheduler needs them: copies of `runs` with collectives
 * and with the memory traffic of gradient accumulation, which takes accumulation_s in total.  GEMMs
 * of weight gradients add to the gradient sums when they write their results; without such a GEMM
 * (embeddings), the last operator does.  Also computes in `runs` the times and energies with
 * smaller shares of the power budget (pz_run_levels()), which all plans can use. */
static struct pz_op_run *complete_runs(struct pz_call *call, const struct pz_step_context *context,
                                       const struct pz_ops *ops, struct pz_op_run *runs,
                                       double accumulation_s) {
  const bool needs_all = false; /* shares of the power budget that save no energy are left out */
  struct pz_pass_power power = pz_pass_power_of(&context->cost->chip);
  for (uint32_t i = 0; i < ops->n && power.room_watts > 0; i++) {
    bool changes_below = runs[i].weight_gradient && accumulation_s > 0;
    if (runs[i].kind != PZ_RUN_NONE && !changes_below) pz_run_levels(&power, needs_all, &runs[i]);
  }
  struct pz_op_run *completed = pz_copy(call, runs, ops->n, sizeof *completed);
  /* divide the accumulation among the GEMMs of weight gradients by the size of their results */
  double result_bytes = 0; /* of all these GEMMs */
  uint32_t last_run = PZ_NONE;
  for (uint32_t i = 0; i < ops->n; i++) {
    result_bytes += runs[i].weight_gradient ? (double)ops->op[i].bytes_written : 0;
    if (runs[i].kind != PZ_RUN_NONE) last_run = i;
  }
  for (uint32_t i = 0; i < ops->n && accumulation_s > 0; i++) {
    double share = i == last_run ? 1 : 0;
    if (result_bytes > 0)
      share = runs[i].weight_gradient ? (double)ops->op[i].bytes_written / result_bytes : 0;
    if (!(share > 0)) continue;
    pz_run_add_bytes(&power, &context->cost->chip, accumulation_s * share, &completed[i]);
    if (power.room_watts > 0) pz_run_levels(&power, needs_all, &completed[i]);
  }
  /* add the collectives */
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (!is_timed_collective(op)) continue;
    struct pz_estimate estimate = pz_estimate_op(call, context->cost, op, NULL);
    double static_j = estimate.latency_s * context->cost->static_watts;
    completed[i] =
        (struct pz_op_run){.kind = PZ_RUN_LINK,
                           .s = collective_time(context, ops, op).s,
                           .calls = 1,
                           .work = {.outside_j = pz_fmax(0, estimate.energy_j - static_j)},
                           .streamed = is_tensor_collective(op) && overlaps_gemm(context, op)};
  }
  return completed;
}

/* Returns which forward operators the backward pass recomputes, as in add_recomputation(). */
static const bool *recomputed_ops(struct pz_call *call, const struct pz_step_context *context,
                                  const struct pz_layer *layer) {
  const struct pz_plan *plan = context->plan;
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  if (pz_recomputes_needed(plan)) return pz_recompute_ops(call, layer, plan->saved);
  bool *chosen = pz_alloc(call, ops->n, sizeof *chosen);
  bool is_odd_gemm = false; /* alternate recomputation repeats every second GEMM */
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool is_collective = op->op_class == PZ_CLASS_COLLECTIVE;
    bool is_attention = !is_collective && is_attention_core(context, op);
    if (pz_plan_recomputed_modules(plan)) {
      chosen[i] = pz_in_modules(layer, op, pz_plan_recomputed_modules(plan));
    } else if (plan->recompute == PZ_RECOMPUTATION_SELECTIVE) {
      chosen[i] = is_attention && !pz_op_is_scan(op->kind);
    } else if (plan->recompute != PZ_RECOMPUTATION_ALTERNATE) {
      chosen[i] = true;
    } else if (op->matmul_flop && !is_attention) {
      is_odd_gemm = !is_odd_gemm;
      chosen[i] = is_odd_gemm;
    } else {
      chosen[i] = !is_attention && !is_collective;
    }
  }
  return chosen;
}

/* Sets the seconds and the joules of ring attention among the operators in `part`. */
static void set_ring(const struct pz_step_context *context, struct pz_pass_part *part) {
  struct pz_pass ring = {.ring_s = 0};
  double turns;
  if (!part->ops->n) return;
  add_ring(context, part->ops, &ring);
  part->ring_s = ring.ring_s;
  part->ring_j = ring_bytes(part->ops, &turns) * pz_tech_at(context->cost->chip.tech)->link_j;
}

/* Returns the seconds in which a layer's gradients are added to the sums in a microbatch. */
static double accumulation_s(const struct pz_step_context *context, const struct pz_layer *layer) {
  struct pz_pass pass = {.launched_ops = 0};
  add_accumulation(context, layer, 0, &pass);
  return pass.elementwise_s;
}

/* Returns one direction of a layer as a scheduling problem.  A recomputed backward pass begins with
 * the forward operators that it runs again. */
struct pz_pass_question pz_layer_pass(struct pz_call *call, const struct pz_step_context *context,
                                      const struct pz_layer *layer,
                                      const struct pz_layer_kernels *kernels,
                                      enum pz_direction direction, bool recomputed) {
  const struct pz_ops *ops = &layer->ops[direction], *forward = &layer->ops[PZ_FORWARD];
  bool backward = direction == PZ_BACKWARD;
  double sum_s = backward ? accumulation_s(context, layer) : 0;
  struct pz_pass_question question = {.cost = context->cost, .chains = context->chains};
  question.pass.ops = ops;
  question.pass.runs = complete_runs(call, context, ops, kernels->runs[direction], sum_s);
  set_ring(context, &question.pass);
  if (!recomputed || !backward) return question;
  question.again.ops = forward;
  question.again.runs = complete_runs(call, context, forward, kernels->runs[PZ_FORWARD], 0);
  question.again.which = recomputed_ops(call, context, layer);
  set_ring(context, &question.again);
  return question;
}

/* Returns the schedule of a pass, or only its lower bound if context->solver_steps is 0.  Reuses
 * passes that were solved before. */
static struct pz_pass_schedule schedule_pass(struct pz_call *call,
                                             const struct pz_step_context *context,
                                             const struct pz_layer *layer,
                                             const struct pz_layer_kernels *kernels,
                                             enum pz_direction direction, bool recomputed) {
  const struct pz_plan *plan = context->plan;
  bool backward = direction == PZ_BACKWARD, recomputes = recomputed && backward;
  struct solved_pass pass = {
      .key = {.layer = layer,
              .devices = context->network->devices,
              .direction = (int)direction,
              .recompute = recomputes ? plan->recompute : 0,
              .saved = recomputes ? plan->saved : 0,
              .modules = recomputes ? pz_plan_recomputed_modules(plan) : 0,
              .overlap = plan->overlap & (int)PZ_OVERLAP_TP,
              .chains = context->chains,
              .solver_steps = context->solver_steps,
              .accumulation_s = backward ? accumulation_s(context, layer) : 0}};
  for (uint32_t i = 0; i < context->solved->list.n; i++) {
    const struct solved_pass *solved = pz_vec_at(&context->solved->list, struct solved_pass, i);
    if (is_same_key(&solved->key, &pass.key)) return solved->schedule;
  }
  struct pz_call scratch = pz_scratch(call);
  struct pz_pass_question question =
      pz_layer_pass(&scratch, context, layer, kernels, direction, recomputed);
  if (context->solver_steps)
    pass.schedule = pz_pass_solve(&scratch, &question, context->solver_steps);
  else
    pass.schedule.bound_s = pz_pass_bound_s(&scratch, &question);
  pz_scratch_end(&scratch);
  pz_append(call, &context->solved->list, &pass);
  return pass.schedule;
}

/* Moves up to *reduction_s seconds from *from to *to, and subtracts them from *reduction_s. */
static void move_reduction(double *from, double *reduction_s, double *to) {
  double moved_s = pz_fmin(*from, *reduction_s);
  *from -= moved_s;
  *reduction_s -= moved_s;
  *to += moved_s;
}

/* Replaces the time of each pass by that of its schedule, if this is shorter than running the
 * operators one after another.  The terms of the pass (collectives first, then kernels) are reduced
 * by the difference, which becomes hidden or overlapped time. */
static void schedule_layer(struct pz_call *call, const struct pz_step_context *context,
                           const struct pz_layer *layer, const struct pz_layer_kernels *kernels,
                           bool recomputed, struct pz_layer_step *step) {
  for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    bool forward = direction == PZ_FORWARD;
    struct pz_pass *pass = forward ? &step->forward : &step->backward;
    double *pass_s = forward ? &step->forward_s : &step->backward_s;
    double *pass_j = forward ? &step->forward_j : &step->backward_j;
    if (!isfinite(*pass_s)) continue; /* the idle chip exceeds its power limit */
    struct pz_pass_schedule schedule =
        schedule_pass(call, context, layer, kernels, direction, recomputed);
    double scheduled_s = context->solver_steps ? schedule.s : schedule.bound_s;
    if (scheduled_s >= *pass_s) {
      *pass_j = schedule.serial_j;
      continue;
    }
    *pass_j = schedule.dynamic_j;
    double reduction_s = *pass_s - scheduled_s;
    move_reduction(&pass->collective_s, &reduction_s, &step->hidden_s);
    move_reduction(&pass->expert_s, &reduction_s, &step->expert_hidden_s);
    move_reduction(&pass->elementwise_s, &reduction_s, &step->overlapped_s);
    move_reduction(&pass->attention_s, &reduction_s, &step->overlapped_s);
    move_reduction(&pass->gemm_s, &reduction_s, &step->overlapped_s);
    *pass_s = scheduled_s;
  }
}

/* ---- the layer ------------------------------------------------------------------------------ */

/* Returns the times of a layer for a whole microbatch: those of one chain (a half of a microbatch
 * that is split, otherwise all of it) times the number of chains, or the times of schedules. */
struct pz_layer_step pz_layer_step(struct pz_call *call, const struct pz_step_context *context,
                                   const struct pz_layer *layer,
                                   const struct pz_layer_kernels *kernels, bool recomputed) {
  const bool *const all_ops = NULL;
  struct pz_layer_step chain = {.forward = kernels->forward, .backward = kernels->backward};
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct pz_pass *pass = d == PZ_FORWARD ? &chain.forward : &chain.backward;
    add_collectives(context, &layer->ops[d], all_ops, kernels->window_s[d], pass_slowdown(pass),
                    pass);
    add_ring(context, &layer->ops[d], pass);
  }
  add_accumulation(context, layer, kernels->trained_tensors, &chain.backward);
  if (recomputed) add_recomputation(call, context, layer, kernels, &chain);
  add_weight_copies(context, layer, &chain);
  chain.forward_s = finish_pass(context, &chain.forward, &chain);
  chain.backward_s = finish_pass(context, &chain.backward, &chain);
  struct pz_layer_step step = {.forward_s = 0};
  pz_layer_step_add(&step, &chain, (double)context->chains);
  if (context->scheduled) schedule_layer(call, context, layer, kernels, recomputed, &step);
  return step;
}

/* Adds all times and energies of a layer, multiplied by `times`, to a sum. */
void pz_layer_step_add(struct pz_layer_step *sum, const struct pz_layer_step *step, double times) {
  add_pass(&sum->forward, &step->forward, times);
  add_pass(&sum->backward, &step->backward, times);
  sum->forward_s += times * step->forward_s;
  sum->backward_s += times * step->backward_s;
  sum->launch_s += times * step->launch_s;
  sum->hidden_s += times * step->hidden_s;
  sum->expert_hidden_s += times * step->expert_hidden_s;
  sum->overlapped_s += times * step->overlapped_s;
  sum->forward_j += times * step->forward_j;
  sum->backward_j += times * step->backward_j;
}
