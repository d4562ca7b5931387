/* The builder: forward operators of a layer, divided for one device of a tensor-parallel group.
 *
 * The sections follow the interface: sizes, tensors, generic operators, linear layers, other
 * products, collectives, adapters (LoRA).  Every function adds the result as a tensor, fills in a
 * struct pz_op, and appends it to the forward direction of the graph.  Sizes that overflow are
 * raised (pz_raise_size_limit). */
#include "workload/build.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"

/* Raises the error that a size of the layer overflows or exceeds the limits. */
_Noreturn static void raise_limit(const struct pz_builder *builder) {
  pz_raise_size_limit(builder->graph->call, builder->graph->model);
}

/* Prepares a builder that adds operators to an empty graph. */
void pz_builder_init(struct pz_builder *builder, struct pz_graph *graph,
                     const struct pz_workload_options *options) {
  int64_t local_seq = options->cp > 1 ? options->seq / options->cp : options->seq;
  *builder =
      (struct pz_builder){.graph = graph,
                          .options = options,
                          .eager = pz_kernels_eager(options->kernels),
                          .composite = options->kernels == PZ_KERNELS_EAGER,
                          .local_seq = local_seq,
                          .tokens = options->mbs,
                          .adapter = {.input = PZ_NONE, .projected = PZ_NONE, .pending = PZ_NONE}};
  if (!pz_mul(&builder->tokens, local_seq)) raise_limit(builder);
  builder->rows_outside = builder->tokens / (options->sequence_parallel ? options->tp : 1);
}

/* Returns this device's share of n items; the first n % tp devices have one more.  The option
 * `slice` is this device's index in the tensor-parallel group. */
int64_t pz_share(const struct pz_builder *builder, int64_t n) {
  const struct pz_workload_options *options = builder->options;
  return n / options->tp + (options->slice < n % options->tp);
}

/* Returns whether the experts have a device grid of their own. */
bool pz_has_expert_grid(const struct pz_workload_options *options) {
  return options->ep > 1 || (options->etp > 0 && options->etp != options->tp);
}

/* Returns how many of n experts this device holds. */
int64_t pz_local_experts(const struct pz_builder *builder, int64_t n) {
  return pz_has_expert_grid(builder->options) ? n / builder->options->ep : n;
}

/* Returns the number of devices that a collective joins. */
int64_t pz_count_peers(const struct pz_workload_options *options, enum pz_peers peers) {
  switch (peers) {
  case PZ_PEERS_EXPERT: return options->ep;
  case PZ_PEERS_EXPERT_TENSOR: return options->etp;
  case PZ_PEERS_CONTEXT: return options->cp;
  case PZ_PEERS_TENSOR: break;
  }
  return options->tp;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Returns a tensor of the graph.  The address is valid until the next tensor is added. */
static struct pz_tensor *tensor_at(const struct pz_builder *builder, uint32_t index) {
  return pz_graph_tensor(builder->graph, index);
}

/* Returns the shape of a tensor as a matrix, in which all dimensions but the last one are rows. */
static struct pz_shape matrix_shape(const struct pz_builder *builder, uint32_t index) {
  const struct pz_tensor *tensor = tensor_at(builder, index);
  int64_t width = tensor->n_dims ? tensor->shape[tensor->n_dims - 1] : 1;
  return PZ_SHAPE(tensor->elems / width, width);
}

/* Adds a 16-bit activation.  `split` is whether each device of the group has another part of it. */
static uint32_t add_activation(struct pz_builder *builder, const char *name, struct pz_shape shape,
                               bool split) {
  uint32_t index = pz_graph_add_tensor(builder->graph, name, PZ_ROLE_ACTIVATION, PZ_B16, shape);
  tensor_at(builder, index)->split = split;
  return index;
}

uint32_t pz_build_input(struct pz_builder *builder, int64_t width) {
  struct pz_shape shape = PZ_SHAPE(builder->rows_outside, width);
  builder->graph->input =
      add_activation(builder, "input", shape, builder->options->sequence_parallel);
  return builder->graph->input;
}

/* Returns a copy of a list of tensors with one more tensor, and increments its length. */
static const uint32_t *extend_list(struct pz_builder *builder, const uint32_t *tensors,
                                   uint32_t *length, uint32_t added) {
  uint32_t *copy = pz_alloc(builder->graph->call, *length + 1, sizeof *copy);
  if (*length) memcpy(copy, tensors, *length * sizeof *copy);
  copy[*length] = added;
  ++*length;
  return copy;
}

/* Marks a tensor that leaves the layer in addition to its main result. */
void pz_build_also_out(struct pz_builder *builder, uint32_t tensor) {
  struct pz_graph *graph = builder->graph;
  graph->also_out = extend_list(builder, graph->also_out, &graph->n_also_out, tensor);
}

/* Adds an activation that only passes through the layer.  All layers share such a tensor, so none
 * of them saves it for itself. */
uint32_t pz_build_carried(struct pz_builder *builder, const char *name, int64_t width) {
  struct pz_graph *graph = builder->graph;
  struct pz_shape shape = PZ_SHAPE(builder->rows_outside, width);
  uint32_t index = add_activation(builder, name, shape, builder->options->sequence_parallel);
  graph->also_in = extend_list(builder, graph->also_in, &graph->n_also_in, index);
  pz_build_also_out(builder, index);
  return index;
}

/* Adds data such as cosines, masks or labels, which the operators of a layer share by name. */
uint32_t pz_build_data(struct pz_builder *builder, const char *name, int elem_bytes,
                       struct pz_shape shape) {
  struct pz_graph *graph = builder->graph;
  size_t length = strlen(name);
  uint32_t index = pz_map_get(&graph->data_by_name, name, length);
  if (index != PZ_NONE) return index;
  index = pz_graph_add_tensor(graph, name, PZ_ROLE_DATA, elem_bytes, shape);
  pz_map_set(graph->call, &graph->data_by_name, name, length, index);
  return index;
}

/* Adds a parameter and counts it.  Tied parameters are counted apart, because another layer owns
 * them. If the model has adapters, only their parameters are trained. */
uint32_t pz_build_param(struct pz_builder *builder, const char *name, struct pz_shape shape,
                        int64_t whole, bool tied) {
  const struct pz_workload_options *options = builder->options;
  uint32_t index = pz_graph_add_tensor(builder->graph, name, PZ_ROLE_PARAM, PZ_B16, shape);
  struct pz_tensor *tensor = tensor_at(builder, index);
  tensor->split = options->tp > 1 && tensor->elems != whole;
  tensor->tied = tied;
  tensor->frozen = options->lora.rank > 0 && !builder->adapter.building;
  if (builder->repeats_weights && !tied) return index;
  bool fits = true;
  if (tied) {
    fits = pz_add(&builder->tied_params, tensor->elems);
  } else {
    fits = pz_add(&builder->params, tensor->elems) && pz_add(&builder->model_params, whole);
    if (tensor->split) fits = fits && pz_add(&builder->split_params, tensor->elems);
    if (!tensor->frozen)
      fits = fits && pz_add(&builder->trained_params, tensor->elems) &&
             pz_add(&builder->model_trained_params, whole);
  }
  if (!fits) raise_limit(builder);
  /* With sequence parallelism, each device has a partial gradient of an undivided parameter, from
   * its own tokens. */
  if (!tied && !tensor->split && !tensor->frozen && options->sequence_parallel)
    builder->group_grad_params += tensor->elems;
  return index;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Sets the sizes and FLOP of a vector operator or a collective, which processes each element of its
 * first input or of its result, whichever is larger.  An embedding processes only its result. */
static void set_vector_work(const struct pz_builder *builder, struct pz_op *op) {
  const struct pz_tensor *input = tensor_at(builder, op->in[0]);
  const struct pz_tensor *work = tensor_at(builder, op->out[0]);
  if (input->elems > work->elems && op->kind != PZ_OP_EMBEDDING) work = input;
  bool is_collective = op->op_class == PZ_CLASS_COLLECTIVE;
  op->dims.n = work->n_dims ? work->shape[work->n_dims - 1] : 1;
  op->dims.m = op->dims.n ? work->elems / op->dims.n : 0;
  op->dims.batch = is_collective ? pz_count_peers(builder->options, op->peers) : 1;
  op->dims.k = 1;
  op->flop = work->elems;
  if (!pz_mul(&op->flop, pz_op_info(op->kind)->flop[PZ_FORWARD])) raise_limit(builder);
}

/* Adds an operator with its result and, if aux_shape is set, a second output for backward.  The
 * result is divided over the group if its first input is, or `divides` is set. */
uint32_t pz_build_op(struct pz_builder *builder, const struct pz_op_spec *spec) {
  const struct pz_tensor *first = tensor_at(builder, spec->in[0]);
  const struct pz_op_info *info = pz_op_info(spec->kind);
  bool divided = builder->options->tp > 1;
  bool split = first->split || (spec->divides && divided);
  int elem_bytes = spec->elem_bytes ? spec->elem_bytes : first->elem_bytes;
  struct pz_shape shape = spec->shape;
  if (!shape.n) {
    shape.n = first->n_dims;
    memcpy(shape.d, first->shape, sizeof shape.d);
  }
  /* If all inputs are data (token ids, masks), the result is data as well and has no gradient. */
  enum pz_tensor_role role = PZ_ROLE_DATA;
  uint32_t n_in = 0;
  for (; n_in < PZ_OP_MOST_INPUTS && spec->in[n_in] != PZ_NONE; n_in++)
    if (tensor_at(builder, spec->in[n_in])->role != PZ_ROLE_DATA) role = PZ_ROLE_ACTIVATION;

  uint32_t out[2], n_out = 1;
  out[0] = pz_graph_add_tensor(builder->graph, spec->name, role, elem_bytes, shape);
  tensor_at(builder, out[0])->split = split;
  if (spec->aux_shape.n) {
    char name[PZ_BUILD_NAME];
    out[1] = pz_graph_add_tensor(builder->graph, pz_build_name(name, spec->name, "aux"),
                                 PZ_ROLE_ACTIVATION, spec->aux_bytes, spec->aux_shape);
    tensor_at(builder, out[1])->split = split;
    if (spec->aux) *spec->aux = out[1];
    n_out = 2;
  }
  struct pz_op op = {.name = spec->name,
                     .kind = spec->kind,
                     .op_class = info->op_class,
                     .peers = spec->peers,
                     .in = spec->in,
                     .n_in = n_in,
                     .out = out,
                     .n_out = n_out,
                     .replicated = divided && !split && info->op_class == PZ_CLASS_VECTOR};
  set_vector_work(builder, &op);
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
  return out[0];
}

/* Adds an operator with one or two inputs; `second` may be PZ_NONE. */
uint32_t pz_build_shaped(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second, struct pz_shape shape) {
  return pz_build_op(
      builder, &(struct pz_op_spec){
                   .kind = kind, .name = name, .in = {first, second, PZ_NONE}, .shape = shape});
}

/* Adds an operator whose result has the shape of its first input. */
uint32_t pz_build_binary(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second) {
  return pz_build_shaped(builder, kind, name, first, second, (struct pz_shape){0});
}

uint32_t pz_build_unary(struct pz_builder *builder, int kind, const char *name, uint32_t input) {
  return pz_build_binary(builder, kind, name, input, PZ_NONE);
}

uint32_t pz_build_cast(struct pz_builder *builder, const char *name, uint32_t input, int bytes) {
  return pz_build_op(
      builder, &(struct pz_op_spec){
                   .kind = PZ_OP_CAST, .name = name, .in = {input, PZ_NONE}, .elem_bytes = bytes});
}

/* Writes "NAME.PART" into buf and returns buf. */
char *pz_build_name(char buf[PZ_BUILD_NAME], const char *name, const char *part) {
  snprintf(buf, PZ_BUILD_NAME, "%s.%s", name, part);
  return buf;
}

/* Splits the columns of a tensor into views, which share its storage. */
void pz_build_split(struct pz_builder *builder, const struct pz_split *split, uint32_t *out) {
  const struct pz_tensor whole = *tensor_at(builder, split->whole);
  uint32_t n = 0;
  for (; n < PZ_OP_MOST_OUTPUTS && split->names[n]; n++) {
    out[n] = pz_graph_add_tensor(builder->graph, split->names[n], PZ_ROLE_ACTIVATION,
                                 whole.elem_bytes, PZ_SHAPE(whole.shape[0], split->widths[n]));
    tensor_at(builder, out[n])->storage = whole.storage;
    tensor_at(builder, out[n])->split = whole.split;
  }
  struct pz_op op = {.name = split->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &split->whole,
                     .n_in = 1,
                     .out = out,
                     .n_out = n};
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
}

/* Joins two views of the tensor `whole`, in new memory if `copy` is set. */
uint32_t pz_build_join(struct pz_builder *builder, const char *name, const uint32_t parts[2],
                       uint32_t whole, bool copy) {
  const struct pz_tensor original = *tensor_at(builder, whole);
  struct pz_shape shape = {.n = original.n_dims};
  memcpy(shape.d, original.shape, sizeof shape.d);
  uint32_t joined =
      pz_graph_add_tensor(builder->graph, name, PZ_ROLE_ACTIVATION, original.elem_bytes, shape);
  tensor_at(builder, joined)->split = original.split;
  if (!copy) tensor_at(builder, joined)->storage = original.storage;
  struct pz_op op = {.name = name,
                     .kind = PZ_OP_CONCAT,
                     .in = parts,
                     .n_in = 2,
                     .out = &joined,
                     .n_out = 1,
                     .op_class = copy ? PZ_CLASS_VECTOR : PZ_CLASS_NONE,
                     .replicated = copy && builder->options->tp > 1 && !original.split};
  set_vector_work(builder, &op);
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
  return joined;
}

/* ---- linear layers --------------------------------------------------------------------------- */

/* Sets the FLOP of a GEMM, 2 rows n k, and adds those of its bias.  batch * m can exceed `rows`,
 * because m = rows / batch is rounded up. */
static void set_product_flop(const struct pz_builder *builder, struct pz_op *op, int64_t rows) {
  op->matmul_flop = 2;
  bool fits = pz_mul(&op->matmul_flop, rows) && pz_mul(&op->matmul_flop, op->dims.n) &&
              pz_mul(&op->matmul_flop, op->dims.k);
  op->flop = op->matmul_flop;
  bool has_bias = op->n_in > 2;
  if (has_bias) fits = fits && pz_add(&op->flop, tensor_at(builder, op->out[0])->elems);
  if (!fits) raise_limit(builder);
}

/* Adds a parameter of routed experts; shape.d[0] is the number of experts on this device.  If the
 * experts have a device grid of their own, the tensor-parallel group neither divides the parameter
 * nor sums up its gradient, so those two counts of pz_build_param() are undone. */
static uint32_t add_expert_param(struct pz_builder *builder, const char *name,
                                 struct pz_shape shape, int64_t whole) {
  int64_t split_params = builder->split_params, group_grad_params = builder->group_grad_params;
  uint32_t index = pz_build_param(builder, name, shape, whole, false);
  struct pz_tensor *tensor = tensor_at(builder, index);
  tensor->experts = shape.d[0];
  if (pz_has_expert_grid(builder->options)) {
    tensor->split = tensor->elems != whole;
    builder->split_params = split_params;
    builder->group_grad_params = group_grad_params;
  }
  if (builder->repeats_weights) return index;
  if (!pz_add(&builder->expert_params, tensor->elems) ||
      !pz_add(&builder->model_expert_params, whole))
    raise_limit(builder);
  if (!tensor->frozen) builder->trained_expert_params += tensor->elems;
  return index;
}

/* Adds the bias of a linear layer with `width` values on this device, for each of its experts. */
static uint32_t add_bias(struct pz_builder *builder, const struct pz_linear *linear,
                         int64_t width) {
  char name[PZ_BUILD_NAME];
  pz_build_name(name, linear->name, "bias");
  if (!linear->experts)
    return pz_build_param(builder, name, PZ_SHAPE(width), linear->out, linear->tied_bias);
  struct pz_shape shape = PZ_SHAPE(pz_local_experts(builder, linear->experts), width);
  return add_expert_param(builder, name, shape, linear->experts * linear->out);
}

/* Adds the weight of a linear layer, which has `in` x `out` elements on this device. */
static uint32_t add_weight(struct pz_builder *builder, const struct pz_linear *linear, int64_t in,
                           int64_t out) {
  char name[PZ_BUILD_NAME];
  pz_build_name(name, linear->name, "weight");
  int64_t whole = linear->in;
  bool fits = pz_mul(&whole, linear->out);
  if (linear->experts) fits = fits && pz_mul(&whole, linear->experts);
  if (!fits) raise_limit(builder);
  if (!linear->experts)
    return pz_build_param(builder, name, PZ_SHAPE(in, out), whole, linear->tied);
  struct pz_shape shape = PZ_SHAPE(pz_local_experts(builder, linear->experts), in, out);
  return add_expert_param(builder, name, shape, whole);
}

/* Adds a linear layer without its adapter (LoRA).
 *
 * The GEMM's kernel adds the bias, unless the GEMM yields a partial sum; then pz_build_leave() adds
 * it after the sum over the group.  The results of experts are weighted before that sum, so a
 * separate operator on each device adds this device's part of their bias. */
static uint32_t build_plain_linear(struct pz_builder *builder, const struct pz_linear *linear) {
  const struct pz_workload_options *options = builder->options;
  /* The operands are the input, this device's share of the weight, and the bias if it is fused. */
  bool on_grid = linear->experts && pz_has_expert_grid(options);
  int64_t in = linear->in, out = linear->out;
  if (linear->divide == PZ_DIVIDE_ROWS) in = on_grid ? in / options->etp : pz_share(builder, in);
  if (linear->divide == PZ_DIVIDE_COLUMNS)
    out = on_grid ? out / options->etp : pz_share(builder, out);
  bool is_partial_sum =
      linear->divide == PZ_DIVIDE_ROWS && (linear->experts ? options->etp : options->tp) != 1;
  bool fuses_bias = linear->bias && !is_partial_sum;
  uint32_t operands[3] = {linear->input, add_weight(builder, linear, in, out), PZ_NONE};
  if (fuses_bias) operands[2] = add_bias(builder, linear, out);

  /* The result differs between tensor-parallel devices if they divide the columns, or if they have
   * different rows of the input and all columns.  Experts on their own grid keep its rows. */
  int64_t rows = tensor_at(builder, linear->input)->elems / in;
  bool input_split = tensor_at(builder, linear->input)->split;
  bool is_divided = linear->divide != PZ_DIVIDE_NOT || input_split;
  bool result_split = input_split;
  if (!on_grid)
    result_split = options->tp > 1 && (linear->divide == PZ_DIVIDE_COLUMNS ||
                                       (linear->divide == PZ_DIVIDE_NOT && input_split));
  uint32_t result = add_activation(builder, linear->name, PZ_SHAPE(rows, out), result_split);

  /* If all devices of a region repeat a product, each has a part of the weight's gradient, and the
   * group sums these parts up. */
  const struct pz_tensor *weight = tensor_at(builder, operands[1]);
  bool repeats_product =
      options->tp > 1 && !is_divided && !options->sequence_parallel && !linear->outside_regions;
  if (repeats_product && !weight->frozen) {
    builder->group_grad_params += weight->elems;
    if (fuses_bias) builder->group_grad_params += tensor_at(builder, operands[2])->elems;
  }
  /* The batch of a product of experts is the number of experts that have rows. */
  int64_t batch = linear->experts ? pz_min(rows, pz_local_experts(builder, linear->experts)) : 1;
  bool is_shared_adapter =
      builder->adapter.building && options->lora.modules & PZ_LORA_SHARED_EXPERTS;
  struct pz_op op = {.name = linear->name,
                     .kind = PZ_OP_MATMUL,
                     .op_class = PZ_CLASS_TENSOR,
                     .in = operands,
                     .n_in = fuses_bias ? 3 : 2,
                     .out = &result,
                     .n_out = 1,
                     .dims = {batch, pz_ceil_div(rows, batch), out, in},
                     .grouped = linear->experts > 0 && !is_shared_adapter,
                     .replicated = options->tp > 1 && !is_divided};
  set_product_flop(builder, &op, rows);
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
  if (!linear->experts || !linear->bias || fuses_bias) return result;
  char name[PZ_BUILD_NAME];
  return pz_build_binary(builder, PZ_OP_BIAS, pz_build_name(name, linear->name, "add_bias"), result,
                         add_bias(builder, linear, op.dims.n));
}

/* ---- other products -------------------------------------------------------------------------- */

/* Adds a batch of matrix products, which the group divides if it divides the left factor. */
uint32_t pz_build_contraction(struct pz_builder *builder,
                              const struct pz_contraction *contraction) {
  bool split = tensor_at(builder, contraction->left)->split;
  uint32_t operands[3] = {contraction->left, contraction->right, contraction->bias};
  uint32_t result = add_activation(builder, contraction->name, contraction->shape, split);
  struct pz_op op = {.name = contraction->name,
                     .kind = PZ_OP_MATMUL,
                     .op_class = PZ_CLASS_TENSOR,
                     .in = operands,
                     .n_in = contraction->bias == PZ_NONE ? 2 : 3,
                     .out = &result,
                     .n_out = 1,
                     .dims = contraction->dims,
                     .replicated = builder->options->tp > 1 && !split};
  int64_t rows = contraction->dims.batch;
  if (!pz_mul(&rows, contraction->dims.m)) raise_limit(builder);
  set_product_flop(builder, &op, rows);
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
  return result;
}

/* Adds flash attention as one operator.  Its second output, the logarithm of each row's softmax
 * denominator, is saved for backward. */
uint32_t pz_build_flash(struct pz_builder *builder, const struct pz_flash *flash) {
  bool split = tensor_at(builder, flash->in[0])->split;
  uint32_t out[2] = {add_activation(builder, flash->name, flash->shape, split), PZ_NONE};
  out[1] = pz_graph_add_tensor(builder->graph, "log_sum_exp", PZ_ROLE_ACTIVATION, PZ_B32,
                               PZ_SHAPE(flash->dims.batch, flash->dims.m));
  tensor_at(builder, out[1])->split = split;
  struct pz_op op = {.name = flash->name,
                     .kind = PZ_OP_ATTENTION,
                     .op_class = PZ_CLASS_FUSED,
                     .in = flash->in,
                     .n_in = flash->in[3] == PZ_NONE ? 3 : 4,
                     .out = out,
                     .n_out = 2,
                     .dims = flash->dims,
                     .span = flash->span};
  /* The products of query and key, and of weights and values, have 2 batch m n (k + value_dim) FLOP
   * together.  dims.k becomes the mean width of both. */
  int64_t both_widths = flash->dims.k + flash->value_dim, scores = flash->dims.batch;
  bool fits = pz_mul(&scores, flash->dims.m) && pz_mul(&scores, flash->dims.n);
  int64_t softmax_flop = scores;
  op.matmul_flop = scores;
  fits = fits && pz_mul(&op.matmul_flop, 2) && pz_mul(&op.matmul_flop, both_widths) &&
         pz_mul(&softmax_flop, pz_op_info(PZ_OP_SOFTMAX)->flop[PZ_FORWARD]);
  op.flop = op.matmul_flop;
  if (!fits || !pz_add(&op.flop, softmax_flop)) raise_limit(builder);
  op.dims.k = (both_widths + 1) / 2;
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
  return out[0];
}

/* Adds to a scan the FLOP of all its tokens in `batch` heads or groups, with `flop` for each
 * token. */
static void add_scan_flop(const struct pz_builder *builder, struct pz_op *op, int64_t batch,
                          int64_t flop) {
  bool fits = pz_mul(&batch, op->dims.m) && pz_mul(&batch, flop);
  if (!fits || !pz_add(&op->matmul_flop, batch)) raise_limit(builder);
}

/* Adds a recurrence as one operator, with a second output that is saved for backward. */
uint32_t pz_build_scan(struct pz_builder *builder, const struct pz_scan *scan) {
  bool split = tensor_at(builder, scan->in[0])->split;
  uint32_t out[2] = {add_activation(builder, scan->name, scan->shape, split),
                     add_activation(builder, "saved", scan->saved, split)};
  struct pz_op op = {.name = scan->name,
                     .kind = scan->kind,
                     .op_class = PZ_CLASS_FUSED,
                     .in = scan->in,
                     .out = out,
                     .n_out = 2,
                     .dims = scan->dims,
                     .span = scan->span};
  while (op.n_in < PZ_OP_MOST_INPUTS && scan->in[op.n_in] != PZ_NONE) op.n_in++;
  /* FLOP of one token in a head or group.  Within a chunk, a token attends to (span + 1) / 2 tokens
   * on average.
   * Mamba-2 (Dao and Gu, arXiv 2405.21060, section 6): the scores of C and B, once for each group;
   * scores times x; the update of the chunk's state; and the contribution of the state before it.
   * Delta rule (Yang et al., arXiv 2406.06484, section 3): the scores of the keys; their triangular
   * inverse, which yields the new keys and values; the contribution of the state to keys and
   * queries; its update; and the scores of the queries with the values that they weight. */
  int64_t n = scan->dims.n, k = scan->dims.k, twice_visible = scan->span + 1;
  if (scan->kind == PZ_OP_DELTA_RULE) {
    add_scan_flop(builder, &op, scan->dims.batch,
                  6 * n * k + twice_visible * (3 * k + 2 * n) + scan->span * scan->span / 3);
  } else {
    add_scan_flop(builder, &op, scan->dims.batch, 4 * n * k + twice_visible * k);
    add_scan_flop(builder, &op, scan->groups, twice_visible * n);
  }
  op.flop = op.matmul_flop;
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
  return out[0];
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* The value of `split` for a tensor of which every device of the group has all. */
static const bool WHOLE = false;

/* Adds a collective over the tensor-parallel group, or PZ_OP_TP_ENTER, which communicates only in
 * backward.  `split` is whether each device has another part of the result. */
static uint32_t build_collective(struct pz_builder *builder, int kind, const char *name,
                                 uint32_t input, struct pz_shape shape, bool split) {
  char full[PZ_BUILD_NAME];
  const char *part = "sum";
  if (kind == PZ_OP_ALL_GATHER || kind == PZ_OP_GATHER_COLUMNS) part = "gather";
  if (kind == PZ_OP_TP_ENTER) part = "enter";
  if (kind == PZ_OP_ALL_TO_ALL) part = "all_to_all";
  pz_build_name(full, name, part);
  uint32_t result = pz_build_shaped(builder, kind, full, input, PZ_NONE, shape);
  tensor_at(builder, result)->split = split;
  if (kind == PZ_OP_TP_ENTER)
    tensor_at(builder, result)->storage = tensor_at(builder, input)->storage;
  return result;
}

/* Enters a region whose work the group divides, up to pz_build_leave(). */
uint32_t pz_build_enter(struct pz_builder *builder, const char *name, uint32_t input) {
  const struct pz_workload_options *options = builder->options;
  if (options->tp == 1) return input;
  struct pz_shape shape = matrix_shape(builder, input);
  if (!options->sequence_parallel)
    return build_collective(builder, PZ_OP_TP_ENTER, name, input, shape, WHOLE);
  shape.d[0] *= options->tp;
  return build_collective(builder, PZ_OP_ALL_GATHER, name, input, shape, WHOLE);
}

uint32_t pz_build_all_reduce(struct pz_builder *builder, const char *name, uint32_t input) {
  return build_collective(builder, PZ_OP_ALL_REDUCE, name, input, (struct pz_shape){0}, WHOLE);
}

/* Leaves a region: sums up the partial results over the group, and then adds the result of an
 * adapter that is pending, and the bias. */
uint32_t pz_build_leave(struct pz_builder *builder, const char *name, uint32_t input,
                        int64_t bias_width) {
  const struct pz_workload_options *options = builder->options;
  if (options->tp == 1) return input;
  bool scatters = options->sequence_parallel;
  struct pz_shape shape = matrix_shape(builder, input);
  if (scatters) shape.d[0] /= options->tp;
  uint32_t result = build_collective(builder, scatters ? PZ_OP_REDUCE_SCATTER : PZ_OP_ALL_REDUCE,
                                     name, input, shape, scatters);
  char full[PZ_BUILD_NAME];
  if (builder->adapter.pending != PZ_NONE) {
    result = pz_build_binary(builder, PZ_OP_ADD, pz_build_name(full, name, "adapter_add"), result,
                             builder->adapter.pending);
    builder->adapter.pending = PZ_NONE;
  }
  if (!bias_width) return result;
  const bool is_tied = false;
  uint32_t bias = pz_build_param(builder, pz_build_name(full, name, "bias"), PZ_SHAPE(bias_width),
                                 bias_width, is_tied);
  return pz_build_binary(builder, PZ_OP_BIAS, pz_build_name(full, name, "add_bias"), result, bias);
}

/* Adds a collective, unless it would join only one device. */
uint32_t pz_build_exchange(struct pz_builder *builder, int kind, enum pz_peers peers,
                           const char *name, uint32_t input, struct pz_shape shape) {
  if (pz_count_peers(builder->options, peers) <= 1) return input;
  return pz_build_op(
      builder,
      &(struct pz_op_spec){
          .kind = kind, .name = name, .in = {input, PZ_NONE}, .shape = shape, .peers = peers});
}

/* Adds a linear layer outside of the regions.  The group divides its columns, because gathering
 * them costs less than repeating the whole product on every device. */
uint32_t pz_build_linear_outside(struct pz_builder *builder, const struct pz_linear *linear) {
  struct pz_linear local = *linear;
  bool by_columns = builder->options->tp > 1 && !builder->options->sequence_parallel;
  local.divide = by_columns ? PZ_DIVIDE_COLUMNS : PZ_DIVIDE_NOT;
  if (by_columns) local.input = pz_build_enter(builder, linear->name, linear->input);
  uint32_t result = pz_build_linear(builder, &local);
  if (!by_columns) return result;
  struct pz_shape shape = PZ_SHAPE(matrix_shape(builder, result).d[0], linear->out);
  return build_collective(builder, PZ_OP_GATHER_COLUMNS, linear->name, result, shape, WHOLE);
}

/* ---- adapters (LoRA) ------------------------------------------------------------------------- */

/* Returns x A, the product of the input of a linear layer and the first matrix of its adapter, or
 * of n_experts adapters.  Adapters of the linear layers in the set `group` share this product if
 * they are built one after another.  Every device gets the whole result, as in Megatron Bridge's
 * ParallelLinearAdapter (src/megatron/bridge/peft/utils.py): if the columns of the layer are
 * divided, the columns of A (its rank) are divided, and the results are gathered; if the layer's
 * rows are divided, those of A are too, and the partial sums are added up. */
static uint32_t build_adapter_input(struct pz_builder *builder, const struct pz_linear *linear,
                                    const char *name, int group, int64_t n_experts) {
  const struct pz_workload_options *options = builder->options;
  struct pz_adapter_state *adapter = &builder->adapter;
  bool shares_product = options->lora.modules & PZ_LORA_SHARED && adapter->input == linear->input &&
                        adapter->group == group;
  if (shares_product) return adapter->projected;
  uint32_t input = linear->input;
  if (options->lora.dropout > 0) {
    char dropout[PZ_BUILD_NAME];
    input = pz_build_op(
        builder,
        &(struct pz_op_spec){.kind = PZ_OP_DROPOUT,
                             .name = pz_build_name(dropout, linear->name, "adapter_dropout"),
                             .in = {input, PZ_NONE},
                             .aux_shape = PZ_SHAPE(tensor_at(builder, input)->elems),
                             .aux_bytes = PZ_BYTE});
  }
  bool divides_columns = linear->divide == PZ_DIVIDE_COLUMNS;
  struct pz_linear first = {.name = name,
                            .input = input,
                            .in = linear->in,
                            .out = options->lora.rank,
                            .divide =
                                linear->experts && divides_columns ? PZ_DIVIDE_NOT : linear->divide,
                            .outside_regions = linear->outside_regions,
                            .experts = n_experts};
  uint32_t projected = build_plain_linear(builder, &first);
  if (options->tp > 1 && !linear->experts && linear->divide != PZ_DIVIDE_NOT) {
    int kind = linear->divide == PZ_DIVIDE_ROWS ? PZ_OP_ALL_REDUCE : PZ_OP_GATHER_COLUMNS;
    struct pz_shape shape = PZ_SHAPE(tensor_at(builder, projected)->shape[0], options->lora.rank);
    projected = build_collective(builder, kind, name, projected, shape, WHOLE);
    projected =
        build_collective(builder, PZ_OP_TP_ENTER, name, projected, (struct pz_shape){0}, WHOLE);
  }
  adapter->input = linear->input;
  adapter->projected = projected;
  adapter->group = group;
  return projected;
}

/* Adds an adapter to the result y of a linear layer (linear_result), which belongs to the set
 * `modules` of enum pz_lora_module, and returns y + scale (x A) B.
 *
 * If the layer's rows are divided, y is a partial sum, and each device has some columns of the
 * adapter's result.  With sequence parallelism, an all-to-all exchanges these columns for rows
 * (option a2a_experimental of Megatron Bridge); otherwise the columns are gathered.
 * pz_build_leave() then adds them after the sum of y. */
static uint32_t build_adapter(struct pz_builder *builder, const struct pz_linear *linear,
                              int modules, uint32_t linear_result) {
  const struct pz_workload_options *options = builder->options;
  char first[PZ_BUILD_NAME], second[PZ_BUILD_NAME], name[PZ_BUILD_NAME];
  pz_build_name(first, linear->name, "adapter_in");
  pz_build_name(second, linear->name, "adapter_out");
  bool adds_after_sum = options->tp > 1 && linear->divide == PZ_DIVIDE_ROWS && !linear->experts;
  bool by_columns = adds_after_sum || linear->divide == PZ_DIVIDE_COLUMNS;
  /* Linear layers that Megatron Core joins into one share the first matrix. */
  static const int joined[] = {PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE,
                               PZ_LORA_GATE | PZ_LORA_UP};
  int group = modules;
  for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
    if (modules & joined[i]) group = joined[i];
  /* One adapter may serve all experts of a device.  Each device then trains its own adapter, and
   * Megatron Core exchanges the gradients like those of experts (allreduce in
   * megatron/core/tensor_parallel/layers.py). */
  int64_t n_experts = linear->experts;
  if (n_experts && options->lora.modules & PZ_LORA_SHARED_EXPERTS)
    n_experts = pz_has_expert_grid(options) ? options->ep : 1;
  /* (x A) B, whose parameters belong to the adapter */
  builder->adapter.building = true;
  struct pz_linear out = {.name = second,
                          .input = build_adapter_input(builder, linear, first, group, n_experts),
                          .in = options->lora.rank,
                          .out = linear->out,
                          .divide = by_columns ? PZ_DIVIDE_COLUMNS : PZ_DIVIDE_NOT,
                          .outside_regions = linear->outside_regions,
                          .experts = n_experts};
  uint32_t result = build_plain_linear(builder, &out);
  builder->adapter.building = false;
  /* the sum with y, which pz_build_leave() adds later if y is a partial sum */
  if (adds_after_sum) {
    bool scatters = options->sequence_parallel;
    int64_t rows = tensor_at(builder, result)->shape[0] / (scatters ? options->tp : 1);
    result = build_collective(builder, scatters ? PZ_OP_ALL_TO_ALL : PZ_OP_GATHER_COLUMNS, second,
                              result, PZ_SHAPE(rows, linear->out), scatters);
  }
  pz_build_name(name, linear->name, "adapter_scale");
  result = pz_build_unary(builder, PZ_OP_SCALE, name, result);
  if (adds_after_sum) {
    builder->adapter.pending = result;
    return linear_result;
  }
  pz_build_name(name, linear->name, "adapter_add");
  return pz_build_binary(builder, PZ_OP_ADD, name, linear_result, result);
}

/* Adds a linear layer and its adapter, if it has one.  `adapter.found` collects the layers that can
 * have adapters, for pz_check_adapters(). */
uint32_t pz_build_linear(struct pz_builder *builder, const struct pz_linear *linear) {
  /* The linear layers that can have adapters.  A layer that joins several belongs to all. */
  static const struct {
    const char *name;
    int modules;
  } known[] = {{"query", PZ_LORA_QUERY},       {"key", PZ_LORA_KEY},
               {"value", PZ_LORA_VALUE},       {"qkv", PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE},
               {"attention_out", PZ_LORA_OUT}, {"mlp_gate", PZ_LORA_GATE},
               {"mlp_up", PZ_LORA_UP},         {"mlp_gate_up", PZ_LORA_GATE | PZ_LORA_UP},
               {"mlp_down", PZ_LORA_DOWN},     {"shared_gate", PZ_LORA_GATE},
               {"shared_up", PZ_LORA_UP},      {"shared_gate_up", PZ_LORA_GATE | PZ_LORA_UP},
               {"shared_down", PZ_LORA_DOWN},  {"query_down", PZ_LORA_QUERY_DOWN},
               {"query_up", PZ_LORA_QUERY_UP}, {"kv_down", PZ_LORA_KV_DOWN},
               {"kv_up", PZ_LORA_KV_UP},       {"mamba_in", PZ_LORA_SSM_IN},
               {"delta_in", PZ_LORA_SSM_IN},   {"mamba_out", PZ_LORA_SSM_OUT},
               {"delta_out", PZ_LORA_SSM_OUT}};
  uint32_t result = build_plain_linear(builder, linear);
  if (builder->options->lora.rank <= 0) return result;
  int modules = 0;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, linear->name) == 0) modules = known[i].modules;
  builder->adapter.found |= modules;
  bool has_adapter = modules & builder->options->lora.modules;
  return has_adapter ? build_adapter(builder, linear, modules, result) : result;
}
