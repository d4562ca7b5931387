/* Deriving the backward operators of a layer.
 *
 * * pz_backward_derive() marks which tensors need a gradient, gives the layer's results a gradient
 * each, and visits the forward operators in reverse order (differentiate). ops.def assigns a
 * gradient rule to each kind of operator, and each rule has a function here.  Gradients that reach
 * a tensor by several paths are added up (add_gradient).  Large results of collectives and
 * convolutions are not saved but computed again in backward (find_or_rebuild). */
#include "workload/passes.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "workload/build.h"

/* State of the pass over one layer. */
struct backward {
  struct pz_graph *graph;
  const struct pz_workload_options *options;
  bool *needs_grad;  /* by forward tensor: whether it needs a gradient */
  uint32_t *grad;    /* by forward tensor: the sum of its gradients so far, or PZ_NONE */
  uint32_t *rebuilt; /* by forward tensor: the copy that backward computes again, or PZ_NONE */
};

/* ---- tensors and operators of backward ------------------------------------------------------- */

/* Returns a tensor of the graph.  The address is valid until the next tensor is added. */
static struct pz_tensor *tensor_at(const struct backward *backward, uint32_t index) {
  return pz_graph_tensor(backward->graph, index);
}

/* Adds a tensor named "NAME.suffix" with the shape of a forward tensor. */
static uint32_t add_tensor_like(struct backward *backward, uint32_t forward, const char *suffix) {
  const struct pz_tensor original = *tensor_at(backward, forward);
  struct pz_shape shape = {.n = original.n_dims};
  memcpy(shape.d, original.shape, sizeof shape.d);
  char name[112];
  snprintf(name, sizeof name, "%s.%s", original.name, suffix);
  uint32_t index =
      pz_graph_add_tensor(backward->graph, name, PZ_ROLE_GRAD, original.elem_bytes, shape);
  struct pz_tensor *tensor = tensor_at(backward, index);
  tensor->split = original.split;
  tensor->tied = original.tied;
  tensor->held = original.held;
  return index;
}

/* Tensors that a backward operator reads (`in`) and writes (`out`). */
struct operands {
  const uint32_t *in;
  uint32_t n_in;
  const uint32_t *out;
  uint32_t n_out;
};

/* Returns a backward operator of the given kind that is derived from a forward operator and has
 * its sizes. */
static struct pz_op derive_op(const struct pz_op *forward, int kind, struct operands operands) {
  return (struct pz_op){.kind = kind,
                        .direction = PZ_BACKWARD,
                        .op_class = pz_op_info(kind)->op_class,
                        .replicated = forward->replicated,
                        .peers = forward->peers,
                        .dims = forward->dims,
                        .span = forward->span,
                        .in = operands.in,
                        .n_in = operands.n_in,
                        .out = operands.out,
                        .n_out = operands.n_out};
}

/* Appends a backward operator named "NAME.suffix", where NAME is that of the forward operator. */
static void append_op(struct backward *backward, struct pz_op op, const struct pz_op *forward,
                      const char *suffix) {
  char name[128];
  snprintf(name, sizeof name, "%s.%s", forward->name, suffix);
  op.name = name;
  pz_graph_add_op(backward->graph, PZ_BACKWARD, &op);
}

/* Adds `gradient` to the gradient of a forward tensor.  If the tensor has a gradient already, an
 * operator adds both; it is named after `op`, whose derivative computed the new one. */
static void add_gradient(struct backward *backward, const struct pz_op *op, uint32_t forward,
                         uint32_t gradient) {
  if (backward->grad[forward] == PZ_NONE) {
    backward->grad[forward] = gradient;
    return;
  }
  uint32_t terms[2] = {backward->grad[forward], gradient};
  uint32_t sum = add_tensor_like(backward, forward, "grad");
  struct pz_op add = derive_op(op, PZ_OP_ADD, (struct operands){terms, 2, &sum, 1});
  const struct pz_tensor *result = tensor_at(backward, sum);
  add.replicated = backward->options->tp > 1 && !result->split;
  add.flop = result->elems;
  int64_t width = result->shape[result->n_dims - 1];
  add.dims = (struct pz_dims){1, result->elems / width, width, 1};
  append_op(backward, add, op, "grad_sum");
  backward->grad[forward] = sum;
}

/* Adds the sum of a gradient over its rows to the gradient of forward tensor `forward`, an input
 * that was broadcast, such as a bias. */
static void reduce_gradient(struct backward *backward, const struct pz_op *op, uint32_t forward,
                            uint32_t gradient, const char *suffix) {
  uint32_t sum = add_tensor_like(backward, forward, "grad");
  struct pz_op reduce = derive_op(op, PZ_OP_REDUCE, (struct operands){&gradient, 1, &sum, 1});
  int64_t width = tensor_at(backward, forward)->elems;
  int64_t rows = tensor_at(backward, gradient)->elems / width;
  reduce.flop = tensor_at(backward, gradient)->elems;
  /* If there are fewer rows than experts, the gradient has fewer elements than the biases of all
   * experts; it then counts as one row. */
  reduce.dims = (struct pz_dims){1, rows ? rows : 1, width, 1};
  append_op(backward, reduce, op, suffix);
  add_gradient(backward, op, forward, sum);
}

/* Returns the tensor that backward reads in place of forward tensor `input` of the operator
 * `reader`: the tensor itself, or a copy that backward computes again because forward does not save
 * it.  Forward does not save gathered rows, nor a convolution that only Mamba-2's scan reads. */
static uint32_t find_or_rebuild(struct backward *backward, const struct pz_op *reader,
                                uint32_t input) {
  const struct pz_graph *graph = backward->graph;
  const struct pz_op *producer = NULL;
  uint32_t n_readers = 0;
  for (uint32_t i = 0; i < graph->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_FORWARD, i);
    bool gathers_rows = op->kind == PZ_OP_ALL_GATHER && op->peers != PZ_PEERS_EXPERT_TENSOR;
    bool precedes_scan = op->kind == PZ_OP_CONV1D && reader->kind == PZ_OP_SSM_SCAN;
    if ((gathers_rows || precedes_scan) && op->out[0] == input) producer = op;
    for (uint32_t k = 0; k < op->n_in; k++) n_readers += op->in[k] == input;
  }
  if (!producer) return input;
  bool is_conv = producer->kind == PZ_OP_CONV1D;
  bool scan_alone_reads = n_readers == 1;
  if (is_conv && !scan_alone_reads) return input;
  if (backward->rebuilt[input] != PZ_NONE) return backward->rebuilt[input];
  uint32_t copy = add_tensor_like(backward, input, "again");
  backward->rebuilt[input] = copy;
  struct operands operands = {producer->in, is_conv ? producer->n_in : 1, &copy, 1};
  struct pz_op op = derive_op(producer, producer->kind, operands);
  if (is_conv) op.direction = PZ_FORWARD; /* backward runs the kernel of the forward pass */
  op.flop = producer->flop;
  bool named_by_producer = is_conv || producer->peers == PZ_PEERS_CONTEXT;
  append_op(backward, op, named_by_producer ? producer : reader,
            is_conv ? "again" : "gather_again");
  return copy;
}

/* ---- rules of the gradient ------------------------------------------------------------------- */

/* Rule PZ_GRAD_PASS: inputs get the gradient of the result, summed up if they were broadcast. */
static void pass_gradient(struct backward *backward, const struct pz_op *op, uint32_t gradient) {
  for (uint32_t i = 0; i < op->n_in; i++) {
    uint32_t input = op->in[i];
    if (!backward->needs_grad[input]) continue;
    if (tensor_at(backward, input)->role == PZ_ROLE_PARAM)
      reduce_gradient(backward, op, input, gradient, "bias_grad");
    else if (tensor_at(backward, input)->elems < tensor_at(backward, gradient)->elems)
      reduce_gradient(backward, op, input, gradient, "broadcast_grad");
    else
      add_gradient(backward, op, input, gradient);
  }
}

/* Sets the FLOP of the derivative of flash attention, which computes the scores and the softmax
 * again.  Its five products are those of the scores, the gradients of query, key, value, and the
 * gradient of the softmax; three have the width of a query and two that of a value.  dims.k becomes
 * the mean width. */
static void set_flash_flop(struct backward *backward, const struct pz_op *op,
                           struct pz_op *derivative) {
  const int *softmax = pz_op_info(PZ_OP_SOFTMAX)->flop;
  const struct pz_tensor *context = tensor_at(backward, op->out[0]);
  int64_t softmax_flop = op->flop - op->matmul_flop;
  int64_t flop_per_width = 2 * op->dims.batch * op->dims.m * op->dims.n;
  int64_t value_dim = context->shape[context->n_dims - 1];
  int64_t query_dim = op->matmul_flop / flop_per_width - value_dim;
  derivative->matmul_flop = flop_per_width;
  bool fits = pz_mul(&derivative->matmul_flop, 3 * query_dim + 2 * value_dim);
  derivative->dims.k = (3 * query_dim + 2 * value_dim + 2) / 5; /* rounded to nearest */
  derivative->flop = derivative->matmul_flop;
  int64_t recomputed_flop =
      softmax_flop + softmax_flop / softmax[PZ_FORWARD] * softmax[PZ_BACKWARD];
  if (!fits || !pz_add(&derivative->flop, recomputed_flop))
    pz_raise_size_limit(backward->graph->call, backward->graph->model);
}

/* Sets the FLOP of the derivative of a scan.
 *
 * * Mamba-2 (state-spaces/mamba, ssd_combined.py: MambaSplitConv1dScanCombinedFn) computes the
 * products C B, the chunk states and the convolution again.  The two forward products with a head's
 * state become five: one repeated, and four for the gradients of state, x, B and C.  Each forward
 * product with the scores of a chunk becomes three.  Hence 3 times the forward FLOP, less one
 * product of 2 n k for each token.  The delta rule (fla-org/flash-linear-attention,
 * ops/gated_delta_rule/chunk.py) computes states, new keys and new values again. */
static void set_scan_flop(struct backward *backward, const struct pz_op *op,
                          struct pz_op *derivative) {
  int64_t n = op->dims.n, k = op->dims.k, span = op->span, tokens = op->dims.batch * op->dims.m;
  bool fits = true;
  if (op->kind == PZ_OP_SSM_SCAN) {
    derivative->matmul_flop = op->matmul_flop;
    fits = pz_mul(&derivative->matmul_flop, 3);
    derivative->matmul_flop -= 2 * tokens * n * k;
  } else {
    derivative->matmul_flop = tokens;
    fits = pz_mul(&derivative->matmul_flop,
                  16 * n * k + (span + 1) * (9 * k + 5 * n) + 2 * span * span);
  }
  if (!fits) pz_raise_size_limit(backward->graph->call, backward->graph->model);
  derivative->flop = derivative->matmul_flop;
}

/* Rule PZ_GRAD_POINTWISE: one operator computes the gradients of all inputs. */
static void derive_pointwise(struct backward *backward, const struct pz_op *op, uint32_t gradient) {
  const struct pz_op_info *info = pz_op_info(op->kind);
  /* The derivative reads the gradient and the inputs and results that the operator saves. */
  uint32_t in[1 + PZ_OP_MOST_INPUTS + PZ_OP_MOST_OUTPUTS], n_in = 1;
  in[0] = gradient;
  for (uint32_t i = 0; i < op->n_in; i++) {
    /* A factor is read only for the gradient of the other factor, and the bias of a layer norm is
     * never read. */
    bool is_saved = info->saves & (i == 0 ? PZ_SAVE_IN0 : PZ_SAVE_REST);
    if (op->kind == PZ_OP_LAYERNORM && i == 2) is_saved = false;
    if (op->kind == PZ_OP_MUL && !backward->needs_grad[op->in[1 - i]]) is_saved = false;
    if (!is_saved) continue;
    bool may_rebuild = op->op_class == PZ_CLASS_FUSED;
    in[n_in] = may_rebuild ? find_or_rebuild(backward, op, op->in[i]) : op->in[i];
    n_in++;
  }
  if (info->saves & PZ_SAVE_OUT) {
    in[n_in] = op->out[0];
    n_in++;
  }
  for (uint32_t k = 1; k < op->n_out && (info->saves & PZ_SAVE_AUX); k++) {
    in[n_in] = op->out[k];
    n_in++;
  }
  /* It writes the gradients of all inputs that need one. */
  uint32_t out[PZ_OP_MOST_INPUTS], inputs[PZ_OP_MOST_INPUTS], n_out = 0;
  for (uint32_t i = 0; i < op->n_in; i++) {
    if (!backward->needs_grad[op->in[i]]) continue;
    inputs[n_out] = op->in[i];
    out[n_out] = add_tensor_like(backward, op->in[i], "grad");
    n_out++;
  }
  struct pz_op derivative = derive_op(op, op->kind, (struct operands){in, n_in, out, n_out});
  if (op->kind == PZ_OP_ATTENTION) {
    set_flash_flop(backward, op, &derivative);
  } else if (op->op_class == PZ_CLASS_FUSED) {
    set_scan_flop(backward, op, &derivative);
  } else {
    derivative.flop = op->dims.m;
    bool fits =
        pz_mul(&derivative.flop, op->dims.n) && pz_mul(&derivative.flop, info->flop[PZ_BACKWARD]);
    if (!fits) pz_raise_size_limit(backward->graph->call, backward->graph->model);
  }
  /* PyTorch's derivative of softmax first stores gradient * result. */
  if (op->kind == PZ_OP_SOFTMAX && pz_kernels_eager(backward->options->kernels))
    derivative.scratch_bytes = pz_tensor_bytes(tensor_at(backward, op->out[0]));
  append_op(backward, derivative, op, "backward");
  for (uint32_t i = 0; i < n_out; i++) add_gradient(backward, op, inputs[i], out[i]);
}

/* Adds the product of in[0] and in[1], with the sizes `dims`, which is the gradient of `factor`,
 * one of the two factors of the forward product `op`. */
static void derive_factor(struct backward *backward, const struct pz_op *op, uint32_t factor,
                          const uint32_t in[2], struct pz_dims dims, const char *suffix) {
  uint32_t out = add_tensor_like(backward, factor, "grad");
  struct pz_op product = derive_op(op, PZ_OP_MATMUL, (struct operands){in, 2, &out, 1});
  product.dims = dims;
  product.grouped = op->grouped;
  bool is_omitted = factor == op->in[1] && backward->options->input_gradients_only;
  if (is_omitted) product.op_class = PZ_CLASS_NONE;
  product.matmul_flop = is_omitted ? 0 : op->matmul_flop;
  product.flop = product.matmul_flop;
  append_op(backward, product, op, suffix);
  add_gradient(backward, op, factor, out);
}

/* Rule PZ_GRAD_PRODUCT: if the gradient of y = a b is g, that of a is g b^T, and that of b is a^T
 * g. */
static void derive_product(struct backward *backward, const struct pz_op *op, uint32_t gradient) {
  uint32_t left = op->in[0], right = op->in[1];
  bool has_weight = tensor_at(backward, right)->role == PZ_ROLE_PARAM;
  struct pz_dims dims = op->dims;
  if (backward->needs_grad[left])
    derive_factor(backward, op, left, (const uint32_t[]){gradient, right},
                  (struct pz_dims){dims.batch, dims.m, dims.k, dims.n},
                  has_weight ? "input_grad" : "left_grad");
  if (backward->needs_grad[right]) {
    /* Adapters save gathered rows (Megatron Bridge leaves sequence_parallel_input_regather off). */
    uint32_t saved = pz_op_adapts(op) ? left : find_or_rebuild(backward, op, left);
    derive_factor(backward, op, right, (const uint32_t[]){saved, gradient},
                  (struct pz_dims){dims.batch, dims.k, dims.n, dims.m},
                  has_weight ? "weight_grad" : "right_grad");
  }
  if (op->n_in > 2 && backward->needs_grad[op->in[2]])
    reduce_gradient(backward, op, op->in[2], gradient, "bias_grad");
}

/* Rule PZ_GRAD_SPLIT: joins the gradients of the parts into one tensor.  Fused kernels write the
 * parts in place.  Eager code concatenates them, and so does all code if the parts do not cover
 * the tensor, whose rest is zero. */
static void derive_split(struct backward *backward, const struct pz_op *op) {
  uint32_t *in = pz_alloc(backward->graph->call, op->n_out, sizeof *in), n_in = 0;
  uint32_t whole = add_tensor_like(backward, op->in[0], "grad");
  int64_t uncovered = tensor_at(backward, whole)->elems;
  for (uint32_t k = 0; k < op->n_out; k++) uncovered -= tensor_at(backward, op->out[k])->elems;
  bool copies = pz_kernels_eager(backward->options->kernels) || uncovered > 0;
  for (uint32_t k = 0; k < op->n_out; k++) {
    uint32_t part = backward->grad[op->out[k]];
    if (part == PZ_NONE) continue;
    in[n_in] = part;
    n_in++;
    if (!copies) tensor_at(backward, part)->storage = whole;
  }
  struct pz_op join = derive_op(op, PZ_OP_CONCAT, (struct operands){in, n_in, &whole, 1});
  join.op_class = copies ? PZ_CLASS_VECTOR : PZ_CLASS_NONE;
  const struct pz_tensor *joined = tensor_at(backward, whole);
  int64_t width = joined->shape[joined->n_dims - 1];
  join.dims = (struct pz_dims){1, joined->elems / width, width, 1};
  append_op(backward, join, op, "join_grad");
  add_gradient(backward, op, op->in[0], whole);
}

/* Rule PZ_GRAD_JOIN: the gradients of joined tensors are views of parts of the gradient. */
static void derive_join(struct backward *backward, const struct pz_op *op, uint32_t gradient) {
  uint32_t *parts = pz_alloc(backward->graph->call, op->n_in, sizeof *parts);
  for (uint32_t i = 0; i < op->n_in; i++) {
    parts[i] = add_tensor_like(backward, op->in[i], "grad");
    tensor_at(backward, parts[i])->storage = tensor_at(backward, gradient)->storage;
  }
  struct pz_op split = derive_op(op, PZ_OP_SPLIT, (struct operands){&gradient, 1, parts, op->n_in});
  split.replicated = false;
  append_op(backward, split, op, "split_grad");
  for (uint32_t i = 0; i < op->n_in; i++) add_gradient(backward, op, op->in[i], parts[i]);
}

/* Rule PZ_GRAD_COLLECTIVE: the dual collective exchanges the gradient, for example a reduce-scatter
 * that of an all-gather.  An all-reduce has none, because every device has the whole gradient. */
static void derive_collective(struct backward *backward, const struct pz_op *op,
                              uint32_t gradient) {
  if (op->kind == PZ_OP_ALL_REDUCE) {
    add_gradient(backward, op, op->in[0], gradient);
    return;
  }
  int dual = PZ_OP_SPLIT; /* each device reads its slice of the gradient */
  if (op->kind == PZ_OP_TP_ENTER) dual = PZ_OP_ALL_REDUCE;
  if (op->kind == PZ_OP_ALL_GATHER) dual = PZ_OP_REDUCE_SCATTER;
  if (op->kind == PZ_OP_REDUCE_SCATTER) dual = PZ_OP_ALL_GATHER;
  if (op->kind == PZ_OP_ALL_TO_ALL) dual = PZ_OP_ALL_TO_ALL;
  uint32_t out[PZ_OP_MOST_INPUTS];
  for (uint32_t i = 0; i < op->n_in; i++) {
    out[i] = add_tensor_like(backward, op->in[i], "grad");
    if (dual == PZ_OP_SPLIT)
      tensor_at(backward, out[i])->storage = tensor_at(backward, gradient)->storage;
  }
  struct pz_op derivative = derive_op(op, dual, (struct operands){&gradient, 1, out, op->n_in});
  derivative.dims.batch = pz_count_peers(backward->options, op->peers);
  append_op(backward, derivative, op, pz_op_info(dual)->name);
  for (uint32_t i = 0; i < op->n_in; i++) add_gradient(backward, op, op->in[i], out[i]);
}

/* Adds the derivative of one operator, unless no input needs a gradient. */
static void differentiate(struct backward *backward, const struct pz_op *op) {
  uint32_t gradient = backward->grad[op->out[0]];
  enum pz_grad_rule rule = pz_op_info(op->kind)->grad;
  if (rule == PZ_GRAD_SPLIT && backward->needs_grad[op->in[0]]) derive_split(backward, op);
  bool is_needed = false;
  for (uint32_t i = 0; i < op->n_in; i++) is_needed = is_needed || backward->needs_grad[op->in[i]];
  if (gradient == PZ_NONE || !is_needed) return;
  switch (rule) {
  case PZ_GRAD_PASS: pass_gradient(backward, op, gradient); break;
  case PZ_GRAD_POINTWISE: derive_pointwise(backward, op, gradient); break;
  case PZ_GRAD_PRODUCT: derive_product(backward, op, gradient); break;
  case PZ_GRAD_JOIN: derive_join(backward, op, gradient); break;
  case PZ_GRAD_COLLECTIVE: derive_collective(backward, op, gradient); break;
  case PZ_GRAD_SPLIT:
  case PZ_GRAD_NONE: break;
  }
}

/* Derives the backward operators of a layer, from the last forward operator to the first. */
void pz_backward_derive(struct pz_graph *graph, const struct pz_workload_options *options) {
  uint32_t n_tensors = graph->tensors.n;
  struct backward backward = {.graph = graph, .options = options};
  backward.needs_grad = pz_alloc(graph->call, n_tensors, sizeof *backward.needs_grad);
  backward.grad = pz_alloc(graph->call, n_tensors, sizeof *backward.grad);
  backward.rebuilt = pz_alloc(graph->call, n_tensors, sizeof *backward.rebuilt);
  /* Trained parameters, tensors that enter the layer, and all results computed from such tensors
   * need a gradient. */
  for (uint32_t t = 0; t < n_tensors; t++) {
    const struct pz_tensor *tensor = tensor_at(&backward, t);
    bool is_trained = tensor->role == PZ_ROLE_PARAM && !tensor->frozen;
    backward.needs_grad[t] = is_trained || t == graph->input;
    backward.grad[t] = PZ_NONE;
    backward.rebuilt[t] = PZ_NONE;
  }
  for (uint32_t i = 0; i < graph->n_also_in; i++) backward.needs_grad[graph->also_in[i]] = true;
  for (uint32_t i = 0; i < graph->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_FORWARD, i);
    bool is_needed = false;
    for (uint32_t k = 0; k < op->n_in; k++) is_needed = is_needed || backward.needs_grad[op->in[k]];
    /* the second output of any operator but a split is auxiliary */
    for (uint32_t k = 0; k < op->n_out; k++)
      backward.needs_grad[op->out[k]] = is_needed && (k == 0 || op->kind == PZ_OP_SPLIT);
  }
  /* The gradients of the layer's results come from the next layer. */
  graph->output_grad = add_tensor_like(&backward, graph->output, "grad");
  backward.grad[graph->output] = graph->output_grad;
  for (uint32_t i = 0; i < graph->n_also_out; i++)
    backward.grad[graph->also_out[i]] = add_tensor_like(&backward, graph->also_out[i], "grad");
  for (uint32_t remaining = graph->ops[PZ_FORWARD].n; remaining > 0; remaining--)
    differentiate(&backward, pz_graph_op(graph, PZ_FORWARD, remaining - 1));
  if (graph->input != PZ_NONE) graph->input_grad = backward.grad[graph->input];
}
