/* Lowering: a segment of the graph becomes a layer, through the builder that the model families
 * use.
 *
 * pz_onnx_build_layer() adds the tensors that enter the layer, lowers its nodes one by one
 * (lower_node has a case for each kind), and marks the tensors that leave it.  A node becomes one
 * operator with the sizes that this device has; its kind comes from the table in op.c or from a
 * pattern.  Views become no operators, but stand for the value whose bytes they show (`root`).
 * Parameters and data become tensors when they are first read. */
#include <inttypes.h>

#include "core/num.h"
#include "core/text.h"
#include "onnx/layering.h"
#include "workload/assemble.h"
#include "workload/kernels.h"

/* Bytes of the name of an operator or tensor, and most nodes that is_image() follows. */
enum { LONGEST_NAME = 64, LONGEST_CHAIN = 8 };

/* A layer that is being built. */
struct onnx_layer {
  struct pz_call *call;
  struct pz_onnx_lowering *lowering;
  struct pz_builder *builder;
  const struct pz_onnx_graph *graph;
  const struct pz_onnx_value *values;
  const struct pz_onnx_sharding *sharding;
  const struct pz_onnx_segment *segment;
  char name[LONGEST_NAME]; /* name of the current operator */
};

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Returns the size of dimension i of a value on this device, which has a share of the divided one.
 * */
static int64_t local_dim(const struct onnx_layer *layer, uint32_t id, int i) {
  int64_t size = layer->values[id].dim[i];
  return layer->sharding->dim[id] == i + 1 ? pz_share(layer->builder, size) : size;
}

/* Multiplies a size by a factor.  Raises an error if it overflows. */
static void multiply_size(const struct onnx_layer *layer, int64_t *size, int64_t factor) {
  if (!pz_mul(size, factor)) pz_raise_size_limit(layer->call, layer->graph->file);
}

/* Returns the product of dimensions [from, to) of a value on this device. */
static int64_t local_span(const struct onnx_layer *layer, uint32_t id, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) multiply_size(layer, &n, local_dim(layer, id, i));
  return n;
}

/* Returns whether a value is an image, computed by convolutions, whose last dimension is not a row
 * of features. */
static bool is_image(const struct onnx_layer *layer, uint32_t id) {
  for (int i = 0; i < LONGEST_CHAIN && id != PZ_NONE && layer->values[id].producer != PZ_NONE;
       i++) {
    const struct pz_onnx_node *node = pz_onnx_node(layer->graph, layer->values[id].producer);
    bool plain = node->fused < 0;
    if (plain && (node->op->lower == PZ_LOWER_CONV || node->op->shape == PZ_SHAPE_POOL))
      return true;
    bool keeps_layout = !plain || node->op->elementwise || node->op->lower == PZ_LOWER_NORM ||
                        node->op->lower == PZ_LOWER_CONCAT;
    if (!keeps_layout || !node->n_in) return false;
    id = node->in[0];
  }
  return false;
}

/* Returns the shape of the tensor of a value: rows of its last dimension, or for an image rows of
 * pixels, one for each sample and channel. */
static struct pz_shape tensor_shape(const struct onnx_layer *layer, uint32_t id) {
  int rank = layer->values[id].rank, from = rank - 1;
  if (rank < 1) return PZ_SHAPE(1, 1);
  if (rank == 1) return PZ_SHAPE(local_dim(layer, id, 0));
  if (rank >= 4 && is_image(layer, id)) from = 2;
  return PZ_SHAPE(local_span(layer, id, 0, from), local_span(layer, id, from, rank));
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Records the tensor that represents a value, and its views, in this layer. */
static void set_tensor(const struct onnx_layer *layer, uint32_t id, uint32_t tensor) {
  uint32_t root = layer->values[id].root;
  layer->lowering->tensor[root] = tensor;
  layer->lowering->built_in[root] = layer->lowering->layer;
}

/* Records a tensor as a result of a node, and whether it is divided over the devices. */
static void set_result(const struct onnx_layer *layer, uint32_t output, uint32_t tensor) {
  pz_graph_tensor(layer->builder->graph, tensor)->split = layer->sharding->dim[output] != 0;
  set_tensor(layer, output, tensor);
}

/* Copies the name of a value into buf, shortened and without control characters, and returns buf.
 * */
static const char *tensor_name(const struct onnx_layer *layer, uint32_t id,
                               char buf[LONGEST_NAME]) {
  const char *name = layer->values[id].name;
  return pz_text_plain(pz_text_copy(buf, LONGEST_NAME, name[0] ? name : "tensor"));
}

/* Returns the tensor of a value in this layer.  A parameter is added when it is first read, or for
 * each use if equal vectors were merged.  Data are added for each use, because they may be read in
 * several shapes. */
static uint32_t find_tensor(const struct onnx_layer *layer, uint32_t id) {
  const struct pz_onnx_value *value = &layer->values[id];
  struct pz_onnx_lowering *lowering = layer->lowering;
  bool merged = value->role == PZ_ONNX_PARAM && pz_onnx_is_merged(lowering->layering, id);
  bool is_built = lowering->built_in[value->root] == lowering->layer;
  if (is_built && !merged) return lowering->tensor[value->root];
  if (value->role == PZ_ONNX_ACTIVATION) /* the operator that computes it comes first */
    pz_raise(layer->call, PZ_INTERNAL, "%s: internal error", layer->graph->file);
  char name[LONGEST_NAME];
  if (value->role == PZ_ONNX_DATA) {
    int bytes = PZ_INDEX;
    if (!value->type || pz_onnx_is_float(value->type))
      bytes = PZ_B16;
    else if (value->type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
      bytes = PZ_BYTE;
    return pz_build_data(layer->builder, tensor_name(layer, id, name), bytes,
                         tensor_shape(layer, id));
  }
  int64_t whole = 1, local = local_span(layer, id, 0, value->rank);
  for (int i = 0; i < value->rank; i++) multiply_size(layer, &whole, value->dim[i]);
  struct pz_shape shape = value->rank == 1 ? PZ_SHAPE(local) : tensor_shape(layer, id);
  if (value->rank > 1 && local_dim(layer, id, 0) > 0)
    shape = PZ_SHAPE(local_dim(layer, id, 0), local / local_dim(layer, id, 0));
  uint32_t tensor =
      pz_build_param(layer->builder, tensor_name(layer, value->root, name), shape, whole,
                     pz_onnx_is_tied(layer->lowering->layering, layer->values[id].root,
                                     layer->segment->first, layer->segment->n));
  set_tensor(layer, id, tensor);
  return tensor;
}

/* ---- vector operators ----------------------------------------------------------------------- */

/* Returns whether an operator reads an input as a tensor.  Single numbers and stored shapes are no
 * operands. */
static bool is_operand(const struct onnx_layer *layer, uint32_t id) {
  int64_t n = 0;
  if (id == PZ_NONE) return false;
  const struct pz_onnx_value *input = &layer->values[id];
  if (input->role != PZ_ONNX_DATA) return true;
  bool stored_integers = input->ints && input->producer == PZ_NONE && input->initializer;
  if (input->has_real || stored_integers || input->rank < 0) return false;
  return pz_onnx_count_elements(input, &n) && n > 1;
}

/* Lists the operands of a node, activations first, followed by PZ_NONE, and returns their number.
 * The larger of two activations comes first, because it determines the sizes. */
static uint32_t list_operands(const struct onnx_layer *layer, const struct pz_onnx_node *node,
                              uint32_t list[PZ_OP_MOST_INPUTS]) {
  uint32_t n = 0;
  int64_t elements[PZ_OP_MOST_INPUTS] = {0};
  for (int pass = 0; pass < 2; pass++) /* lists the activations, then the others */
    for (uint32_t k = 0; k < node->n_in && n < PZ_OP_MOST_INPUTS - 1; k++) {
      if (!is_operand(layer, node->in[k])) continue;
      const struct pz_onnx_value *value = &layer->values[node->in[k]];
      bool is_activation = value->role == PZ_ONNX_ACTIVATION;
      if (is_activation != (pass == 0)) continue;
      if (is_activation) elements[n] = local_span(layer, node->in[k], 0, value->rank);
      list[n++] = node->in[k];
    }
  /* Only activations have a number of elements above 0 here. */
  bool swaps = n == 2 && elements[1] > elements[0];
  list[n] = PZ_NONE;
  if (swaps) {
    uint32_t first = list[0];
    list[0] = list[1];
    list[1] = first;
  }
  return n;
}

/* Adds a vector operator and records its result as the first result of the node.  Its shape is that
 * of the result unless *spec states one. */
static void add_operator(const struct onnx_layer *layer, const struct pz_onnx_node *node,
                         struct pz_op_spec *spec) {
  uint32_t output = node->out[0];
  spec->name = layer->name;
  spec->elem_bytes = PZ_B16;
  if (!spec->shape.n) spec->shape = tensor_shape(layer, output);
  set_result(layer, output, pz_build_op(layer->builder, spec));
}

/* Adds one vector operator of this kind (PZ_OP_*) on the operands of a node. */
static void lower_vector(const struct onnx_layer *layer, const struct pz_onnx_node *node,
                         int kind) {
  uint32_t list[PZ_OP_MOST_INPUTS], n = list_operands(layer, node, list);
  struct pz_op_spec spec = {.kind = kind};
  for (uint32_t i = 0; i < n; i++) spec.in[i] = find_tensor(layer, list[i]);
  spec.in[n] = PZ_NONE;
  if (kind == PZ_OP_TOPK) {
    spec.aux_shape = tensor_shape(layer, node->out[0]);
    spec.aux_bytes = PZ_INDEX;
  }
  add_operator(layer, node, &spec);
}

/* Returns the operator kind of a node with two operands, which depends on their roles: a sum with
 * data is a mask, a sum with a parameter is a bias, and a product with a number is a scaling.
 * Single numbers are not among the listed operands, so Max or Min of one operand clips it like a
 * ReLU. */
static int binary_kind(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  uint32_t list[PZ_OP_MOST_INPUTS], n = list_operands(layer, node, list);
  int kind = node->op->kind;
  if (kind == PZ_OP_POW || kind == PZ_OP_SCALE_MASK) return kind;
  bool clips = strcmp(node->type, "Max") == 0 || strcmp(node->type, "Min") == 0;
  if (n < 2) return clips ? PZ_OP_RELU : PZ_OP_SCALE;
  enum pz_onnx_role second = layer->values[list[1]].role;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_DATA) return PZ_OP_SCALE_MASK;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_PARAM) return PZ_OP_BIAS;
  if (kind == PZ_OP_MUL && n > 2) return PZ_OP_ADD; /* Max or Min of several tensors: like a sum */
  return kind;
}

/* Returns the number of rows of a norm.  Each row has its own statistics. */
static int64_t count_norm_rows(const struct onnx_layer *layer, const struct pz_onnx_node *node,
                               uint32_t input) {
  int rank = layer->values[input].rank;
  /* A fused group norm has its value in groups, samples x groups x the rest, as fourth input. */
  bool group_norm_pattern = node->fused >= 0 && node->n_in > 3;
  if (group_norm_pattern) return local_span(layer, node->in[3], 0, 2);
  if (node->fused >= 0) return rank ? local_span(layer, input, 0, rank - 1) : 1;
  if (strcmp(node->type, "BatchNormalization") == 0)
    return rank > 1 ? local_dim(layer, input, 1) : 1;
  if (strcmp(node->type, "InstanceNormalization") == 0)
    return local_span(layer, input, 0, rank < 2 ? rank : 2);
  if (strcmp(node->type, "GroupNormalization") == 0) {
    int64_t rows = pz_onnx_int_attribute(node, "num_groups", 1);
    if (rank < 1 || rows < 1) pz_raise_size_limit(layer->call, layer->graph->file);
    multiply_size(layer, &rows, local_dim(layer, input, 0));
    return rows;
  }
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", -1), rank);
  return local_span(layer, input, 0, axis < 0 ? 0 : axis);
}

/* Adds a norm, which saves its statistics for backward.  Inputs after scale and shift are running
 * statistics, which are data. */
static void lower_norm(const struct onnx_layer *layer, const struct pz_onnx_node *node, int kind) {
  uint32_t input = node->in[0], n = 1, most = kind == PZ_OP_RMSNORM ? 2 : 3;
  int64_t rows = count_norm_rows(layer, node, input);
  struct pz_op_spec spec = {.kind = kind, .aux_bytes = PZ_B32};
  spec.in[0] = find_tensor(layer, input);
  for (uint32_t i = 1; i < node->n_in && i < most; i++)
    if (is_operand(layer, node->in[i])) spec.in[n++] = find_tensor(layer, node->in[i]);
  spec.in[n] = PZ_NONE;
  spec.aux_shape = kind == PZ_OP_RMSNORM ? PZ_SHAPE(rows) : PZ_SHAPE(rows, 2);
  add_operator(layer, node, &spec);
}

/* ---- products ------------------------------------------------------------------------------- */

/* Adds a linear layer: rows of width_in values (in[0]) times a matrix (in[1]), plus a bias (in[2]),
 * which may be PZ_NONE.  The tensor-parallel group shares the work of an undivided layer if its
 * input has whole rows. */
static void lower_linear(const struct onnx_layer *layer, const struct pz_onnx_node *node,
                         const uint32_t in[3], int64_t width_in) {
  struct pz_builder *builder = layer->builder;
  uint32_t output = node->out[0], input = find_tensor(layer, in[0]);
  int64_t tp = layer->sharding->tp;
  uint8_t divide = layer->sharding->divide[node - pz_onnx_node(node->graph, 0)];
  const struct pz_onnx_value *result = &layer->values[output];
  int64_t width_out = result->rank ? result->dim[result->rank - 1] : 1;
  if (width_in < 1 || width_out < 1) pz_raise_size_limit(layer->call, layer->graph->file);
  bool bias = in[2] != PZ_NONE, has_entered = divide != PZ_DIVIDE_COLUMNS;
  /* The input of a layer that is divided by columns enters a tensor-parallel region.  If another
   * layer has entered the same input already, its result is used again. */
  const struct pz_vec *ops = &builder->graph->ops[PZ_FORWARD];
  for (uint32_t remaining = ops->n; remaining > 0 && !has_entered; remaining--) {
    const struct pz_op *op = pz_graph_op(builder->graph, PZ_FORWARD, remaining - 1);
    has_entered = op->kind == PZ_OP_TP_ENTER && op->in[0] == input;
    if (has_entered) input = op->out[0];
  }
  if (!has_entered) input = pz_build_enter(builder, layer->name, input);
  struct pz_linear linear = {
      .name = layer->name,
      .input = input,
      .in = width_in,
      .out = width_out,
      .divide = (enum pz_divide)divide,
      .bias = bias,
      .tied = pz_onnx_is_tied(layer->lowering->layering, layer->values[in[1]].root,
                              layer->segment->first, layer->segment->n),
      .tied_bias = bias && pz_onnx_is_tied(layer->lowering->layering, layer->values[in[2]].root,
                                           layer->segment->first, layer->segment->n)};
  /* The group shares the work of an undivided layer if its input has whole rows on each device. */
  const struct pz_tensor *tensor = pz_graph_tensor(builder->graph, input);
  bool whole_rows = !tensor->split && tensor->n_dims == 2 && tensor->shape[1] == width_in &&
                    tensor->role == PZ_ROLE_ACTIVATION;
  bool outside = divide == PZ_DIVIDE_NOT && tp > 1 && width_out >= tp && whole_rows;
  uint32_t product =
      outside ? pz_build_linear_outside(builder, &linear) : pz_build_linear(builder, &linear);
  if (divide == PZ_DIVIDE_ROWS) /* sum up the partial sums of the devices, then add the bias */
    product = pz_build_leave(builder, layer->name, product, bias ? width_out : 0);
  set_tensor(layer, output, product);
}

/* Adds a batched product of activations, or any other product that is not a linear layer. in[2] is
 * a bias, or PZ_NONE. */
static void lower_contraction(const struct onnx_layer *layer, const struct pz_onnx_node *node,
                              const uint32_t in[3], struct pz_dims dims) {
  uint32_t output = node->out[0];
  struct pz_contraction contraction = {.name = layer->name, .dims = dims, .bias = PZ_NONE};
  contraction.left = find_tensor(layer, in[0]);
  contraction.right = find_tensor(layer, in[1]);
  if (in[2] != PZ_NONE) contraction.bias = find_tensor(layer, in[2]);
  contraction.shape = tensor_shape(layer, output);
  set_result(layer, output, pz_build_contraction(layer->builder, &contraction));
}

/* Adds a MatMul as a linear layer if the right operand is a weight, otherwise as batched
 * products. */
static void lower_matmul(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  uint32_t left = node->in[0], right = node->in[1], output = node->out[0];
  uint32_t in[3] = {left, right, node->n_in > 2 ? node->in[2] : PZ_NONE};
  const struct pz_onnx_value *left_value = &layer->values[left],
                             *right_value = &layer->values[right];
  int left_rank = left_value->rank, right_rank = right_value->rank;
  bool right_is_param = right_value->role == PZ_ONNX_PARAM;
  if (right_is_param && right_rank == 2 && left_rank > 0) {
    lower_linear(layer, node, in, right_value->dim[0]);
    return;
  }
  bool has_rows = left_rank > 1, has_columns = right_rank > 1;
  int outer = layer->values[output].rank - has_rows - has_columns;
  struct pz_dims dims = {.batch = outer > 0 ? local_span(layer, output, 0, outer) : 1,
                         .m = has_rows ? local_dim(layer, left, left_rank - 2) : 1,
                         .n = has_columns ? local_dim(layer, right, right_rank - 1) : 1,
                         .k = left_rank ? local_dim(layer, left, left_rank - 1) : 1};
  if (left_value->role == PZ_ONNX_PARAM && !right_is_param) {
    /* The builder expects a weight as the second operand. */
    in[0] = right;
    in[1] = left;
    dims = (struct pz_dims){dims.batch, dims.n, dims.m, dims.k};
  }
  lower_contraction(layer, node, in, dims);
}

/* Adds a Gemm, whose operands may be transposed, as a linear layer or as a product. */
static void lower_gemm(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  uint32_t left = node->in[0], right = node->in[1], in[3] = {left, right, PZ_NONE};
  bool transpose_a = pz_onnx_int_attribute(node, "transA", 0);
  bool transpose_b = pz_onnx_int_attribute(node, "transB", 0);
  if (node->n_in > 2 && is_operand(layer, node->in[2])) in[2] = node->in[2];
  bool linear_bias = in[2] == PZ_NONE || layer->values[in[2]].role == PZ_ONNX_PARAM;
  const struct pz_onnx_value *weight = &layer->values[right];
  bool is_matrix = weight->role == PZ_ONNX_PARAM && weight->rank == 2;
  if (is_matrix && linear_bias && !transpose_a) {
    lower_linear(layer, node, in, weight->dim[transpose_b ? 1 : 0]);
    return;
  }
  struct pz_dims dims = {.batch = 1,
                         .m = local_dim(layer, left, transpose_a ? 1 : 0),
                         .n = local_dim(layer, right, transpose_b ? 0 : 1),
                         .k = local_dim(layer, left, transpose_a ? 0 : 1)};
  lower_contraction(layer, node, in, dims);
}

/* Adds a convolution as the product that computes it (im2col).  Its m dimension is the pixels of
 * all samples of the result, or of the input if the convolution is transposed.  The first two
 * dimensions of the weight are output and input channels, or input and output channels if it is
 * transposed; the others are the kernel, whose size multiplies k, or n if the convolution is
 * transposed. */
static void lower_conv(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  bool transposed = strcmp(node->type, "ConvTranspose") == 0;
  uint32_t input = node->in[0], weight = node->in[1], output = node->out[0];
  uint32_t in[3] = {input, weight, node->n_in > 2 ? node->in[2] : PZ_NONE};
  uint32_t image = transposed ? input : output;
  int64_t groups = pz_onnx_int_attribute(node, "group", 1);
  int rank = layer->values[weight].rank;
  bool valid = groups >= 1 && rank >= 3 && layer->values[input].rank == rank &&
               layer->values[output].rank == rank && local_dim(layer, weight, 0) % groups == 0;
  if (!valid)
    pz_onnx_raise(layer->call, node, PZ_BAD_INPUT,
                  "a group of %" PRId64 "; accepted: a number that divides its channels", groups);
  int64_t kernel = local_span(layer, weight, 2, rank), pixels = local_dim(layer, image, 0);
  int64_t channels = local_dim(layer, weight, 0) / groups; /* of one group */
  multiply_size(layer, &pixels, local_span(layer, image, 2, rank));
  struct pz_dims dims = {.batch = groups, .m = pixels};
  dims.n = transposed ? local_dim(layer, weight, 1) : channels;
  dims.k = transposed ? channels : local_dim(layer, weight, 1);
  multiply_size(layer, transposed ? &dims.n : &dims.k, kernel);
  lower_contraction(layer, node, in, dims);
}

/* Adds an Einsum of two operands as batched products. */
static void lower_einsum(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  struct pz_dims dims;
  if (!pz_onnx_einsum_product(node, &dims))
    pz_onnx_raise(layer->call, node, PZ_BAD_INPUT,
                  "this equation is not supported; accepted: two operands, letters, '...' and a "
                  "result");
  uint32_t in[3] = {node->in[0], node->in[1], PZ_NONE};
  if (layer->values[in[0]].role == PZ_ONNX_PARAM) {
    /* The builder expects a weight as the second operand. */
    in[0] = node->in[1];
    in[1] = node->in[0];
    dims = (struct pz_dims){dims.batch, dims.n, dims.m, dims.k};
  }
  lower_contraction(layer, node, in, dims);
}

/* Adds flash attention, one operator for scores, softmax and context. */
static void lower_attention(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  uint32_t query = node->in[0], key = node->in[1];
  int rank_q = layer->values[query].rank, rank_k = layer->values[key].rank;
  struct pz_dims dims = {.batch = local_span(layer, query, 0, rank_q - 2),
                         .m = local_dim(layer, query, rank_q - 2),
                         .n = local_dim(layer, key, rank_k - 1),
                         .k = local_dim(layer, query, rank_q - 1)};
  struct pz_flash flash = {.name = layer->name,
                           .in = {find_tensor(layer, query), find_tensor(layer, key),
                                  find_tensor(layer, node->in[2]), PZ_NONE},
                           .dims = dims,
                           .value_dim = dims.k,
                           .shape = PZ_SHAPE(dims.batch, dims.m, dims.k)};
  set_tensor(layer, node->out[0], pz_build_flash(layer->builder, &flash));
}

/* ---- moving data ---------------------------------------------------------------------------- */

/* Returns whether a node selects parts of an activation (Slice, Split, Gather with constant
 * indices), so that its results are views. */
static bool selects_part(const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  if (node->fused >= 0 || node->removed || !input || input->role != PZ_ONNX_ACTIVATION)
    return false;
  if (node->op->lower == PZ_LOWER_PART) return true;
  const struct pz_onnx_value *indices = pz_onnx_input(node, 1);
  return node->op->lower == PZ_LOWER_GATHER && indices && indices->ints;
}

/* Adds all parts of a value that this layer selects, as one Split whose results are views of the
 * value.  The first node that selects a part adds those of the other nodes, too. */
static void lower_part(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  if (!selects_part(node)) {
    lower_vector(layer, node, PZ_OP_COPY);
    return;
  }
  struct pz_graph *built = layer->builder->graph;
  const struct pz_onnx_value *input = &layer->values[node->in[0]];
  uint32_t whole = find_tensor(layer, node->in[0]),
           self = (uint32_t)(node - pz_onnx_node(node->graph, 0));
  uint32_t begin = layer->segment->first, end = begin + layer->segment->n, previous = PZ_NONE;
  uint32_t root = layer->values[node->out[0]].root;
  bool is_added = layer->lowering->built_in[root] == layer->lowering->layer;
  if (is_added) return; /* together with another node that selects a part */
  struct pz_vec parts;
  pz_vec_init(&parts, layer->call->arena, sizeof(uint32_t));
  for (uint32_t c = 0; c < input->n_consumers; c++) {
    uint32_t index = layer->graph->consumers[input->first_consumer + c];
    const struct pz_onnx_node *consumer = pz_onnx_node(layer->graph, index);
    uint32_t place = layer->lowering->layering->place[index];
    bool in_layer = place != PZ_NONE && place >= begin && place < end;
    bool repeated = index == previous; /* a node that reads the value twice is listed twice */
    previous = index;
    if (repeated || index < self || !in_layer) continue;
    if (!selects_part(consumer) || consumer->in[0] != node->in[0]) continue;
    for (uint32_t j = 0; j < consumer->n_out; j++) {
      uint32_t output = consumer->out[j];
      char name[LONGEST_NAME];
      if (output == PZ_NONE || !layer->values[output].live) continue;
      uint32_t part = pz_graph_add_tensor(layer->builder->graph, tensor_name(layer, output, name),
                                          PZ_ROLE_ACTIVATION, PZ_B16, tensor_shape(layer, output));
      pz_graph_tensor(built, part)->storage = pz_graph_tensor(built, whole)->storage;
      set_result(layer, output, part);
      pz_append(layer->call, &parts, &part);
    }
  }
  struct pz_op op = {.name = layer->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &whole,
                     .n_in = 1,
                     .out = parts.items,
                     .n_out = parts.n};
  pz_graph_add_op(built, PZ_FORWARD, &op);
}

/* Adds a concatenation of all inputs of a node. */
static void lower_concat(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  uint32_t output = node->out[0], n = 0;
  uint32_t *in = pz_alloc(layer->call, node->n_in, sizeof *in);
  for (uint32_t k = 0; k < node->n_in; k++)
    if (node->in[k] != PZ_NONE) in[n++] = find_tensor(layer, node->in[k]);
  uint32_t out = pz_graph_add_tensor(layer->builder->graph, layer->name, PZ_ROLE_ACTIVATION, PZ_B16,
                                     tensor_shape(layer, output));
  struct pz_shape shape = tensor_shape(layer, output);
  struct pz_op op = {.name = layer->name,
                     .kind = PZ_OP_CONCAT,
                     .op_class = PZ_CLASS_VECTOR,
                     .in = in,
                     .n_in = n,
                     .out = &out,
                     .n_out = 1,
                     .replicated = layer->sharding->tp > 1 && !layer->sharding->dim[output],
                     .dims = {1, shape.d[0], shape.n > 1 ? shape.d[1] : 1, 1}};
  set_result(layer, output, out);
  pz_graph_add_op(layer->builder->graph, PZ_FORWARD, &op);
}

/* Adds an embedding, which looks up rows of a table by index.  With constant indices, a Gather
 * selects rows of an activation instead. */
static void lower_gather(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  uint32_t table = node->in[0], ids = node->n_in > 1 ? node->in[1] : PZ_NONE;
  bool lookup = layer->values[table].role == PZ_ONNX_PARAM && layer->values[table].rank == 2 &&
                pz_onnx_int_attribute(node, "axis", 0) == 0 && ids != PZ_NONE;
  if (selects_part(node)) {
    lower_part(layer, node);
    return;
  }
  if (!lookup) {
    lower_vector(layer, node, PZ_OP_DISPATCH);
    return;
  }
  char name[LONGEST_NAME];
  struct pz_shape shape = PZ_SHAPE(local_span(layer, ids, 0, layer->values[ids].rank));
  uint32_t index = pz_build_data(layer->builder, tensor_name(layer, ids, name), PZ_INDEX, shape);
  struct pz_op_spec spec = {.kind = PZ_OP_EMBEDDING,
                            .in = {index, find_tensor(layer, table), PZ_NONE}};
  add_operator(layer, node, &spec);
  uint32_t output = node->out[0];
  if (layer->sharding->divide[node - pz_onnx_node(node->graph, 0)] == PZ_DIVIDE_ROWS)
    set_tensor(layer, output,
               pz_build_leave(layer->builder, layer->name, find_tensor(layer, output), 0));
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Raises an error if a node lacks operands, its result has no name, or a shape is unknown. */
static void check_node(const struct onnx_layer *layer, const struct pz_onnx_node *node) {
  enum pz_onnx_lower lower = node->op->lower;
  bool product = lower == PZ_LOWER_MATMUL || lower == PZ_LOWER_GEMM || lower == PZ_LOWER_CONV ||
                 lower == PZ_LOWER_EINSUM;
  uint32_t least = node->fused < 0 && product ? 2 : 1;
  for (uint32_t k = 0; k < least; k++)
    if (k >= node->n_in || node->in[k] == PZ_NONE)
      pz_onnx_raise(layer->call, node, PZ_BAD_INPUT, "has %u inputs; accepted: at least %u",
                    node->n_in, least);
  if (!pz_onnx_result(node, 0))
    pz_onnx_raise(layer->call, node, PZ_BAD_INPUT,
                  "its first result has no name; accepted: one with a name");
  for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
    const struct pz_onnx_value *value =
        i < node->n_in ? pz_onnx_input(node, i) : pz_onnx_result(node, i - node->n_in);
    if (value && value->rank < 0 && value->live)
      pz_onnx_raise(layer->call, node, PZ_BAD_INPUT,
                    "the shape of tensor '%.120s' is neither stated in the file nor can it be "
                    "inferred; accepted: a model exported with shapes",
                    value->name);
  }
}

/* Adds the operators of a node to the layer, according to its pattern or its type. */
static void lower_node(struct onnx_layer *layer, const struct pz_onnx_node *node) {
  check_node(layer, node);
  pz_text_plain(pz_text_copy(layer->name, sizeof layer->name, pz_onnx_node_name(node)));
  switch (node->fused) {
  case -1: break;
  case PZ_OP_MATMUL: lower_matmul(layer, node); return;
  case PZ_OP_ATTENTION: lower_attention(layer, node); return;
  case PZ_OP_LAYERNORM:
  case PZ_OP_RMSNORM: lower_norm(layer, node, node->fused); return;
  case PZ_OP_ROTARY: /* works in place, because backward does not read its input */
    lower_vector(layer, node, PZ_OP_ROTARY);
    pz_graph_tensor(layer->builder->graph, find_tensor(layer, node->out[0]))->storage =
        pz_graph_tensor(layer->builder->graph, find_tensor(layer, node->in[0]))->storage;
    return;
  default: lower_vector(layer, node, node->fused); return;
  }
  switch (node->op->lower) {
  case PZ_LOWER_MATMUL: lower_matmul(layer, node); break;
  case PZ_LOWER_GEMM: lower_gemm(layer, node); break;
  case PZ_LOWER_CONV: lower_conv(layer, node); break;
  case PZ_LOWER_EINSUM: lower_einsum(layer, node); break;
  case PZ_LOWER_BINARY: lower_vector(layer, node, binary_kind(layer, node)); break;
  case PZ_LOWER_NORM: lower_norm(layer, node, node->op->kind); break;
  case PZ_LOWER_PART: lower_part(layer, node); break;
  case PZ_LOWER_CONCAT: lower_concat(layer, node); break;
  case PZ_LOWER_GATHER: lower_gather(layer, node); break;
  default: lower_vector(layer, node, node->op->kind);
  }
}

/* Builds one instance of a segment: tensors that enter the layer, its operators, tensors that leave
 * it, and the loss in the last layer. */
void pz_onnx_build_layer(struct pz_builder *builder, void *ctx) {
  const struct pz_onnx_layer_task *task = ctx;
  struct pz_onnx_lowering *lowering = task->lowering;
  const struct pz_onnx_segment *segment = task->segment;
  const struct pz_onnx_layering *layering = lowering->layering;
  struct onnx_layer layer = {.call = task->call, .lowering = lowering, .builder = builder};
  layer.graph = layering->graph;
  layer.values = layering->graph->values.items;
  layer.sharding = lowering->sharding;
  layer.segment = segment;
  bool last =
      segment == pz_vec_at(&layering->segments, struct pz_onnx_segment, layering->segments.n - 1);
  struct pz_graph *built = builder->graph;
  uint32_t *also_in = pz_alloc(built->call, segment->n_in, sizeof *also_in);
  uint32_t *also_out = pz_alloc(built->call, segment->n_out, sizeof *also_out);
  lowering->layer++;
  /* The first value that enters is the input of the layer.  The other values enter beside it. */
  for (uint32_t i = 0; i < segment->n_in; i++) {
    uint32_t id = segment->in[i];
    char name[LONGEST_NAME];
    uint32_t tensor = pz_graph_add_tensor(layer.builder->graph, tensor_name(&layer, id, name),
                                          PZ_ROLE_ACTIVATION, PZ_B16, tensor_shape(&layer, id));
    set_tensor(&layer, id, tensor);
    if (i == 0)
      built->input = tensor;
    else
      also_in[built->n_also_in++] = tensor;
  }
  built->also_in = also_in;
  built->passing_bytes = segment->passing_bytes;
  for (uint32_t i = 0; i < segment->n; i++)
    lower_node(&layer, pz_onnx_node(layering->graph, layering->order[segment->first + i]));
  /* The first value that leaves is the output of the layer; in the last layer, it is the result
   * of the model.  The other values leave beside it. */
  if (!last && !segment->n_out)
    pz_raise(task->call, PZ_INTERNAL, "%s: internal error", layering->graph->file);
  uint32_t output = last ? layering->result : segment->out[0];
  for (uint32_t i = 0; i < segment->n_out; i++)
    if (segment->out[i] != layer.values[output].root)
      also_out[built->n_also_out++] = find_tensor(&layer, segment->out[i]);
  built->also_out = also_out;
  built->output = find_tensor(&layer, output);
  if (!last) return;
  /* The loss is computed from the model's result, unless that is a loss itself, one number for
   * each sample. */
  const struct pz_onnx_value *result = &layer.values[layering->result];
  bool is_loss = result->rank < 1 || result->dim[result->rank - 1] < 2;
  if (is_loss) return;
  builder->tokens = local_span(&layer, layering->result, 0, result->rank - 1);
  built->output = pz_kernel_loss(builder, built->output, false);
}
