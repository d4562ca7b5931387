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

/* ---- sizes ----------------------------------------------------------------------------------- */

_Noreturn static void raise_limit(const struct pz_builder *builder) {
  pz_raise_size_limit(builder->graph->call, builder->graph->model);
}

void pz_builder_init(struct pz_builder *builder, struct pz_graph *graph,
                     const struct pz_workload_options *options) {
  int64_t local_seq = options->cp > 1 ? options->seq / options->cp : options->seq;
  *builder =
      (struct pz_builder){.graph = graph,
                          .options = options,
                          .local_seq = local_seq,
                          .tokens = options->mbs,
                          .adapter = {.input = PZ_NONE, .projected = PZ_NONE, .pending = PZ_NONE}};
  if (!pz_mul(&builder->tokens, local_seq)) raise_limit(builder);
}

bool pz_is_eager(const struct pz_builder *builder) {
  return pz_kernels_eager(builder->options->kernels);
}

bool pz_is_composite(const struct pz_builder *builder) {
  return builder->options->kernels == PZ_KERNELS_EAGER;
}

/* With sequence parallelism, each device has its share of the tokens. */
int64_t pz_rows_outside(const struct pz_builder *builder) {
  const struct pz_workload_options *options = builder->options;
  return options->sequence_parallel ? builder->tokens / options->tp : builder->tokens;
}

int64_t pz_share(const struct pz_builder *builder, int64_t n) {
  const struct pz_workload_options *options = builder->options;
  return n / options->tp + (options->slice < n % options->tp);
}

bool pz_has_expert_grid(const struct pz_workload_options *options) {
  return options->ep > 1 || (options->etp > 0 && options->etp != options->tp);
}

int64_t pz_local_experts(const struct pz_builder *builder, int64_t n) {
  return pz_has_expert_grid(builder->options) ? n / builder->options->ep : n;
}

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

/* Returns the size of the last dimension of a tensor. */
static int64_t row_width(const struct pz_builder *builder, uint32_t index) {
  const struct pz_tensor *tensor = tensor_at(builder, index);
  return tensor->n_dims ? tensor->shape[tensor->n_dims - 1] : 1;
}

static int64_t count_rows(const struct pz_builder *builder, uint32_t index) {
  return tensor_at(builder, index)->elems / row_width(builder, index);
}

/* Adds a 16-bit activation.  `split` is whether the other devices of the group hold other parts of
 * it. */
static uint32_t add_activation(struct pz_builder *builder, const char *name, struct pz_shape shape,
                               bool split) {
  uint32_t index = pz_graph_add_tensor(builder->graph, name, PZ_ROLE_ACTIVATION, PZ_B16, shape);
  tensor_at(builder, index)->split = split;
  return index;
}

uint32_t pz_build_input(struct pz_builder *builder, int64_t width) {
  struct pz_shape shape = PZ_SHAPE(pz_rows_outside(builder), width);
  builder->graph->input =
      add_activation(builder, "input", shape, builder->options->sequence_parallel);
  return builder->graph->input;
}

/* Returns a copy of a list with one more index, and increments *n. */
static const uint32_t *extend_list(struct pz_builder *builder, const uint32_t *list, uint32_t *n,
                                   uint32_t index) {
  uint32_t *copy = pz_alloc(builder->graph->call, *n + 1, sizeof *copy);
  if (*n) memcpy(copy, list, *n * sizeof *copy);
  copy[*n] = index;
  ++*n;
  return copy;
}

void pz_build_also_out(struct pz_builder *builder, uint32_t tensor) {
  struct pz_graph *graph = builder->graph;
  graph->also_out = extend_list(builder, graph->also_out, &graph->n_also_out, tensor);
}

/* The tensor enters and leaves the layer, so the layer does not save it. */
uint32_t pz_build_carried(struct pz_builder *builder, const char *name, int64_t width) {
  struct pz_graph *graph = builder->graph;
  struct pz_shape shape = PZ_SHAPE(pz_rows_outside(builder), width);
  uint32_t index = add_activation(builder, name, shape, builder->options->sequence_parallel);
  graph->also_in = extend_list(builder, graph->also_in, &graph->n_also_in, index);
  pz_build_also_out(builder, index);
  return index;
}

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

/* A parameter counts as one of this layer, or as tied if another layer owns it. */
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

/* Sets the sizes and FLOP of a vector operator or a collective according to the larger tensor of
 * its first input and its result.  Only the result counts for an embedding. */
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

static struct pz_shape shape_of(const struct pz_tensor *tensor) {
  struct pz_shape shape = {.n = tensor->n_dims};
  for (int i = 0; i < tensor->n_dims; i++) shape.d[i] = tensor->shape[i];
  return shape;
}

/* The result is divided over the group if the first input is, or if `divides` is set. */
uint32_t pz_build_op(struct pz_builder *builder, const struct pz_op_spec *spec) {
  const struct pz_tensor *first = tensor_at(builder, spec->in[0]);
  const struct pz_op_info *info = pz_op_info(spec->kind);
  bool divided = builder->options->tp > 1;
  bool split = first->split || (spec->divides && divided);
  int elem_bytes = spec->elem_bytes ? spec->elem_bytes : first->elem_bytes;
  struct pz_shape shape = spec->shape.n ? spec->shape : shape_of(first);
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

uint32_t pz_build_shaped(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second, struct pz_shape shape) {
  return pz_build_op(
      builder, &(struct pz_op_spec){
                   .kind = kind, .name = name, .in = {first, second, PZ_NONE}, .shape = shape});
}

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

char *pz_build_name(char buf[PZ_BUILD_NAME], const char *name, const char *part) {
  snprintf(buf, PZ_BUILD_NAME, "%s.%s", name, part);
  return buf;
}

/* The parts share the storage of the whole tensor. */
void pz_build_split(struct pz_builder *builder, const struct pz_split *split, uint32_t *out) {
  const struct pz_tensor whole = *tensor_at(builder, split->whole);
  for (int i = 0; i < split->parts; i++) {
    out[i] = pz_graph_add_tensor(builder->graph, split->names[i], PZ_ROLE_ACTIVATION,
                                 whole.elem_bytes, PZ_SHAPE(whole.shape[0], split->widths[i]));
    tensor_at(builder, out[i])->storage = whole.storage;
    tensor_at(builder, out[i])->split = whole.split;
  }
  struct pz_op op = {.name = split->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &split->whole,
                     .n_in = 1,
                     .out = out,
                     .n_out = (uint32_t)split->parts};
  pz_graph_add_op(builder->graph, PZ_FORWARD, &op);
}

uint32_t pz_build_join(struct pz_builder *builder, const char *name, const uint32_t parts[2],
                       uint32_t whole, bool copy) {
  const struct pz_tensor original = *tensor_at(builder, whole);
  uint32_t joined = pz_graph_add_tensor(builder->graph, name, PZ_ROLE_ACTIVATION,
                                        original.elem_bytes, shape_of(&original));
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

/* Sets the FLOP of a product, 2 rows n k, and adds those of its bias.  `rows` is the number of all
 * rows, which batch * m can exceed because m is rounded up. */
static void set_product_flop(const struct pz_builder *builder, struct pz_op *op, int64_t rows) {
  op->matmul_flop = 2;
  bool fits = pz_mul(&op->matmul_flop, rows) && pz_mul(&op->matmul_flop, op->dims.n) &&
              pz_mul(&op->matmul_flop, op->dims.k);
  op->flop = op->matmul_flop;
  bool has_bias = op->n_in > 2;
  if (has_bias) fits = fits && pz_add(&op->flop, tensor_at(builder, op->out[0])->elems);
  if (!fits) raise_limit(builder);
}

/* Returns whether one adapter serves all experts of a device.  Each device then trains its own
 * adapter: Megatron Core exchanges their gradients like those of experts (allreduce in
 * megatron/core/tensor_parallel/layers.py). */
static bool has_shared_expert_adapter(const struct pz_builder *builder) {
  return builder->options->lora.modules & PZ_LORA_SHARED_EXPERTS;
}

/* Adds a parameter of routed experts; shape.d[0] is the number of experts on this device.  On
 * their own grid, experts are not divided over the tensor-parallel group, and their gradients are
 * not summed over it. */
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

/* Adds the bias of a linear layer, which has `width` values on this device. */
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

/* Adds a linear layer without its adapter.
 *
 * The product's kernel adds the bias, unless the product is a partial sum; then pz_build_leave()
 * adds it after the sum over the group.  The results of experts are weighted before that sum, so a
 * separate operator on each device adds its part of their bias. */
static uint32_t build_plain_linear(struct pz_builder *builder, const struct pz_linear *linear) {
  const struct pz_workload_options *options = builder->options;
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

  int64_t rows = tensor_at(builder, linear->input)->elems / in;
  bool input_split = tensor_at(builder, linear->input)->split;
  bool is_divided = linear->divide != PZ_DIVIDE_NOT || input_split;
  bool result_split = input_split;
  if (!on_grid)
    result_split = options->tp > 1 && (linear->divide == PZ_DIVIDE_COLUMNS ||
                                       (linear->divide == PZ_DIVIDE_NOT && input_split));
  uint32_t result = add_activation(builder, linear->name, PZ_SHAPE(rows, out), result_split);

  /* If all devices of a region repeat a product, each computes a partial sum of the weight's
   * gradient. */
  const struct pz_tensor *weight = tensor_at(builder, operands[1]);
  if (options->tp > 1 && !is_divided && !options->sequence_parallel && !linear->outside_regions &&
      !weight->frozen) {
    builder->group_grad_params += weight->elems;
    if (fuses_bias) builder->group_grad_params += tensor_at(builder, operands[2])->elems;
  }
  /* The batch of a product of experts is the number of experts that have rows. */
  int64_t batch = linear->experts ? pz_min(rows, pz_local_experts(builder, linear->experts)) : 1;
  bool is_shared_adapter = builder->adapter.building && has_shared_expert_adapter(builder);
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

/* The result is divided over the group if the first factor is. */
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
  /* The two products have 2 batch m n (k + value_dim) FLOP together; dims.k becomes the mean
   * width. */
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

/* Adds batch * m * flop to the FLOP of a scan's products.  `flop` is that of one token in one of
 * `batch` heads or groups, and m is the number of tokens. */
static void add_scan_flop(const struct pz_builder *builder, struct pz_op *op, int64_t batch,
                          int64_t flop) {
  bool fits = pz_mul(&batch, op->dims.m) && pz_mul(&batch, flop);
  if (!fits || !pz_add(&op->matmul_flop, batch)) raise_limit(builder);
}

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
  /* Counts the FLOP of one token in a head or group; a token of a chunk attends to (span + 1) / 2
   * tokens on average.  Mamba-2 (Dao and Gu, arXiv 2405.21060, section 6): the scores of C and B,
   * once for each group; scores times x; the update of the chunk's state; and the contribution of
   * the state before the chunk.  Delta rule (Yang et al., arXiv 2406.06484, section 3): the scores
   * of the keys; their triangular inverse, from which the new keys and values follow; the
   * contribution of the state to keys and queries; its update; and the scores of the queries with
   * the values that they weight. */
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

/* Adds a collective, or PZ_OP_TP_ENTER, which is one in backward only.  `split` is whether the
 * result is divided over the devices. */
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

uint32_t pz_build_enter(struct pz_builder *builder, const char *name, uint32_t input) {
  const struct pz_workload_options *options = builder->options;
  if (options->tp == 1) return input;
  int64_t rows = count_rows(builder, input) * (options->sequence_parallel ? options->tp : 1);
  return build_collective(builder, options->sequence_parallel ? PZ_OP_ALL_GATHER : PZ_OP_TP_ENTER,
                          name, input, PZ_SHAPE(rows, row_width(builder, input)), false);
}

uint32_t pz_build_all_reduce(struct pz_builder *builder, const char *name, uint32_t input) {
  return build_collective(builder, PZ_OP_ALL_REDUCE, name, input, (struct pz_shape){0}, false);
}

/* The sum over the group precedes the pending adapter result, and both precede the bias. */
uint32_t pz_build_leave(struct pz_builder *builder, const char *name, uint32_t input,
                        int64_t bias_width) {
  const struct pz_workload_options *options = builder->options;
  if (options->tp == 1) return input;
  bool scatters = options->sequence_parallel;
  int64_t rows = count_rows(builder, input) / (scatters ? options->tp : 1);
  uint32_t result =
      build_collective(builder, scatters ? PZ_OP_REDUCE_SCATTER : PZ_OP_ALL_REDUCE, name, input,
                       PZ_SHAPE(rows, row_width(builder, input)), scatters);
  char full[PZ_BUILD_NAME];
  if (builder->adapter.pending != PZ_NONE) {
    result = pz_build_binary(builder, PZ_OP_ADD, pz_build_name(full, name, "adapter_add"), result,
                             builder->adapter.pending);
    builder->adapter.pending = PZ_NONE;
  }
  if (!bias_width) return result;
  uint32_t bias = pz_build_param(builder, pz_build_name(full, name, "bias"), PZ_SHAPE(bias_width),
                                 bias_width, false);
  return pz_build_binary(builder, PZ_OP_BIAS, pz_build_name(full, name, "add_bias"), result, bias);
}

uint32_t pz_build_on_grid(struct pz_builder *builder, int kind, const char *name, uint32_t input,
                          int64_t rows) {
  enum pz_peers peers = kind == PZ_OP_ALL_TO_ALL ? PZ_PEERS_EXPERT : PZ_PEERS_EXPERT_TENSOR;
  if (pz_count_peers(builder->options, peers) == 1) return input;
  int64_t width = tensor_at(builder, input)->shape[1];
  return pz_build_op(builder, &(struct pz_op_spec){.kind = kind,
                                                   .name = name,
                                                   .in = {input, PZ_NONE},
                                                   .shape = PZ_SHAPE(rows, width),
                                                   .peers = peers});
}

/* Gathering the columns costs less than repeating the whole product on every device. */
uint32_t pz_build_linear_outside(struct pz_builder *builder, const struct pz_linear *linear) {
  struct pz_linear local = *linear;
  bool by_columns = builder->options->tp > 1 && !builder->options->sequence_parallel;
  local.divide = by_columns ? PZ_DIVIDE_COLUMNS : PZ_DIVIDE_NOT;
  if (by_columns) local.input = pz_build_enter(builder, linear->name, linear->input);
  uint32_t result = pz_build_linear(builder, &local);
  if (!by_columns) return result;
  struct pz_shape shape = PZ_SHAPE(count_rows(builder, result), linear->out);
  return build_collective(builder, PZ_OP_GATHER_COLUMNS, linear->name, result, shape, false);
}

/* ---- adapters (LoRA) ------------------------------------------------------------------------- */

/* Returns the set of adapter modules to which a linear layer belongs by its name, or 0 if it never
 * has an adapter. */
static int find_lora_modules(const char *name) {
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
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].modules;
  return 0;
}

/* Returns the set of modules that Megatron joins with these modules in one linear layer. */
static int find_lora_group(int modules) {
  static const int groups[] = {PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE,
                               PZ_LORA_GATE | PZ_LORA_UP};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (modules & groups[i]) return groups[i];
  return modules;
}

/* Returns the number of adapters of a linear layer with experts over all devices. */
static int64_t count_expert_adapters(const struct pz_builder *builder, int64_t experts) {
  if (!experts || !has_shared_expert_adapter(builder)) return experts;
  return pz_has_expert_grid(builder->options) ? builder->options->ep : 1;
}

/* Multiplies the input by the first matrix of an adapter.  Every device gets the whole result, as
 * in Megatron Bridge's ParallelLinearAdapter (src/megatron/bridge/peft/utils.py): if the columns
 * of the layer are divided, the rank is divided and gathered; if its rows are divided, the matrix
 * is divided by rows too, and the partial sums are added up. */
static uint32_t build_adapter_input(struct pz_builder *builder, const struct pz_linear *linear,
                                    const char *name, int group) {
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
                            .experts = count_expert_adapters(builder, linear->experts)};
  uint32_t projected = build_plain_linear(builder, &first);
  if (options->tp > 1 && !linear->experts && linear->divide != PZ_DIVIDE_NOT) {
    int kind = linear->divide == PZ_DIVIDE_ROWS ? PZ_OP_ALL_REDUCE : PZ_OP_GATHER_COLUMNS;
    struct pz_shape shape = PZ_SHAPE(tensor_at(builder, projected)->shape[0], options->lora.rank);
    projected = build_collective(builder, kind, name, projected, shape, false);
    projected =
        build_collective(builder, PZ_OP_TP_ENTER, name, projected, (struct pz_shape){0}, false);
  }
  adapter->input = linear->input;
  adapter->projected = projected;
  adapter->group = group;
  return projected;
}

/* Adds an adapter to the result y of a linear layer (linear_result) and returns y + scale (x A) B.
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
  builder->adapter.building = true;
  struct pz_linear out = {.name = second,
                          .input =
                              build_adapter_input(builder, linear, first, find_lora_group(modules)),
                          .in = options->lora.rank,
                          .out = linear->out,
                          .divide = by_columns ? PZ_DIVIDE_COLUMNS : PZ_DIVIDE_NOT,
                          .outside_regions = linear->outside_regions,
                          .experts = count_expert_adapters(builder, linear->experts)};
  uint32_t result = build_plain_linear(builder, &out);
  builder->adapter.building = false;
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

uint32_t pz_build_linear(struct pz_builder *builder, const struct pz_linear *linear) {
  uint32_t result = build_plain_linear(builder, linear);
  int modules = builder->options->lora.rank > 0 ? find_lora_modules(linear->name) : 0;
  builder->adapter.found |= modules;
  bool has_adapter = modules & builder->options->lora.modules;
  return has_adapter ? build_adapter(builder, linear, modules, result) : result;
}
