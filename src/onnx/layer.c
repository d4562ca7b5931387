/* Lowering: a segment of the graph becomes a layer, through the builder that the model families use.
 *
 * pz_onnx_build_layer() adds the tensors that enter the layer, lowers its nodes one by one (lower_node has a case for
 * each kind), and names the tensors that leave it.  A node becomes one operator, with the kind that the table in op.c
 * or a pattern gives it, on the sizes that this device holds.  Views become no operators; they are resolved to the
 * value that they are a view of (`root`).  Parameters and data become tensors when they are first read. */
#include <inttypes.h>

#include "core/num.h"
#include "core/text.h"
#include "onnx/dims.h"
#include "onnx/layering.h"
#include "workload/assemble.h"
#include "workload/kernels.h"

enum { LONGEST_NAME = 64, LONGEST_CHAIN = 8 };

/* A layer that is being built. */
struct building {
  struct pz_call *call;
  struct pz_onnx_lowering *lowering;
  struct pz_builder *builder;
  const struct pz_onnx_graph *graph;
  const struct pz_onnx_segment *segment;
  char name[LONGEST_NAME]; /* of the current operator */
};

struct pz_onnx_lowering *pz_onnx_lowering_new(struct pz_call *call,
                                              const struct pz_onnx_layering *layering,
                                              const struct pz_onnx_sharding *sharding) {
  struct pz_onnx_lowering *lowering = pz_alloc(call, 1, sizeof *lowering);
  uint32_t n = layering->graph->values.n;
  lowering->layering = layering;
  lowering->sharding = sharding;
  lowering->tensor = pz_alloc(call, n, sizeof *lowering->tensor);
  lowering->built_in = pz_alloc(call, n, sizeof *lowering->built_in);
  return lowering;
}

static const struct pz_onnx_value *value_at(const struct building *layer, uint32_t id) {
  return pz_onnx_value(layer->graph, id);
}

_Noreturn static void raise_size_limit(const struct building *layer) {
  pz_raise_size_limit(layer->call, layer->graph->file);
}

_Noreturn static void raise_internal(const struct building *layer) {
  pz_raise(layer->call, PZ_INTERNAL, "%s: internal error", layer->graph->file);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static bool is_sharded(const struct building *layer, uint32_t id) {
  return layer->lowering->sharding->tp > 1 && layer->lowering->sharding->dim[id] != 0;
}

/* Dimension i of a value on this device. */
static int64_t local_dim(const struct building *layer, uint32_t id, int i) {
  int64_t size = value_at(layer, id)->dim[i];
  bool divided = is_sharded(layer, id) && layer->lowering->sharding->dim[id] == i + 1;
  return divided ? pz_share(layer->builder, size) : size;
}

/* The product of dimensions [from, to) of a value on this device. */
static int64_t local_span(const struct building *layer, uint32_t id, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++)
    if (!pz_mul(&n, local_dim(layer, id, i))) raise_size_limit(layer);
  return n;
}

static int64_t local_elements(const struct building *layer, uint32_t id) {
  return local_span(layer, id, 0, value_at(layer, id)->rank);
}

static void multiply(const struct building *layer, int64_t *size, int64_t factor) {
  if (!pz_mul(size, factor)) raise_size_limit(layer);
}

/* Is a value an image, the result of convolutions, so that its last dimension is not a row of features? */
static bool is_image(const struct building *layer, uint32_t id) {
  for (int i = 0; i < LONGEST_CHAIN && id != PZ_NONE && value_at(layer, id)->producer != PZ_NONE;
       i++) {
    const struct pz_onnx_node *node = pz_onnx_node(layer->graph, value_at(layer, id)->producer);
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

/* The shape of a value's tensor: rows of the last dimension; an image has rows of pixels. */
static struct pz_shape tensor_shape(const struct building *layer, uint32_t id) {
  int rank = value_at(layer, id)->rank, from = rank - 1;
  if (rank < 1) return PZ_SHAPE(1, 1);
  if (rank == 1) return PZ_SHAPE(local_dim(layer, id, 0));
  if (rank >= 4 && is_image(layer, id)) from = 2;
  return PZ_SHAPE(local_span(layer, id, 0, from), local_span(layer, id, from, rank));
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void set_tensor(const struct building *layer, uint32_t id, uint32_t tensor) {
  uint32_t root = value_at(layer, id)->root;
  layer->lowering->tensor[root] = tensor;
  layer->lowering->built_in[root] = layer->lowering->layer;
}

/* Makes a tensor the result of a node. */
static void set_result(const struct building *layer, uint32_t y, uint32_t tensor) {
  pz_graph_tensor(layer->builder->graph, tensor)->split = is_sharded(layer, y);
  set_tensor(layer, y, tensor);
}

/* The name of a value, shortened and without control characters. */
static const char *tensor_name(const struct building *layer, uint32_t id, char buf[LONGEST_NAME]) {
  const char *name = value_at(layer, id)->name;
  return pz_text_plain(pz_text_copy(buf, LONGEST_NAME, name[0] ? name : "tensor"));
}

static bool is_tied(const struct building *layer, uint32_t id) {
  return pz_onnx_is_tied(layer->lowering->layering, value_at(layer, id)->root,
                         layer->segment->first, layer->segment->n);
}

static uint32_t add_parameter(const struct building *layer, uint32_t id) {
  const struct pz_onnx_value *input = value_at(layer, id);
  char buf[LONGEST_NAME];
  int64_t whole = 1, local = local_elements(layer, id);
  for (int i = 0; i < input->rank; i++) multiply(layer, &whole, input->dim[i]);
  struct pz_shape shape = input->rank == 1 ? PZ_SHAPE(local) : tensor_shape(layer, id);
  if (input->rank > 1 && local_dim(layer, id, 0) > 0)
    shape = PZ_SHAPE(local_dim(layer, id, 0), local / local_dim(layer, id, 0));
  return pz_build_param(layer->builder, tensor_name(layer, input->root, buf), shape, whole,
                        is_tied(layer, id));
}

static uint32_t add_data(const struct building *layer, uint32_t id) {
  const struct pz_onnx_value *input = value_at(layer, id);
  char buf[LONGEST_NAME];
  int bytes = PZ_INDEX;
  if (!input->type || pz_onnx_is_float(input->type))
    bytes = PZ_B16;
  else if (input->type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
    bytes = PZ_BYTE;
  return pz_build_data(layer->builder, tensor_name(layer, id, buf), bytes, tensor_shape(layer, id));
}

static uint32_t add_activation(const struct building *layer, const char *name, uint32_t id) {
  return pz_graph_add_tensor(layer->builder->graph, name, PZ_ROLE_ACTIVATION, PZ_B16,
                             tensor_shape(layer, id));
}

/* The tensor of a value in this layer.  A parameter is added when it is first read, and again for each use if equal
 * vectors were merged.  Data may be read in several shapes, so each is added under its own name. */
static uint32_t tensor_of(const struct building *layer, uint32_t id) {
  const struct pz_onnx_value *input = value_at(layer, id);
  bool merged = input->role == PZ_ONNX_PARAM && pz_onnx_is_merged(layer->lowering->layering, id);
  bool is_built = layer->lowering->built_in[input->root] == layer->lowering->layer;
  if (is_built && !merged) return layer->lowering->tensor[input->root];
  if (input->role == PZ_ONNX_ACTIVATION) raise_internal(layer);
  if (input->role == PZ_ONNX_DATA) return add_data(layer, id);
  uint32_t tensor = add_parameter(layer, id);
  set_tensor(layer, id, tensor);
  return tensor;
}

/* ---- vector operators ----------------------------------------------------------------------- */

/* Is an input a tensor that the operator reads?  Single numbers and stored shapes are not. */
static bool is_operand(const struct building *layer, uint32_t id) {
  int64_t n = 0;
  if (id == PZ_NONE) return false;
  const struct pz_onnx_value *input = value_at(layer, id);
  if (input->role != PZ_ONNX_DATA) return true;
  bool stored_integers = input->ints && input->producer == PZ_NONE && input->initializer;
  if (input->has_real || stored_integers || input->rank < 0) return false;
  return pz_onnx_count_elements(input, &n) && n > 1;
}

/* Lists the node's operands, activations first, followed by PZ_NONE.  The larger of two activations comes first,
 * because it determines the sizes. */
static uint32_t list_operands(const struct building *layer, const struct pz_onnx_node *node,
                              uint32_t list[PZ_OP_MOST_INPUTS]) {
  uint32_t n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t k = 0; k < node->n_in && n < PZ_OP_MOST_INPUTS - 1; k++) {
      if (!is_operand(layer, node->in[k])) continue;
      bool activation = value_at(layer, node->in[k])->role == PZ_ONNX_ACTIVATION;
      if (activation == (pass == 0)) list[n++] = node->in[k];
    }
  bool swap = n == 2 && value_at(layer, list[1])->role == PZ_ONNX_ACTIVATION &&
              local_elements(layer, list[1]) > local_elements(layer, list[0]);
  if (swap) {
    uint32_t first = list[0];
    list[0] = list[1];
    list[1] = first;
  }
  list[n] = PZ_NONE;
  return n;
}

static void add_operator(const struct building *layer, const struct pz_onnx_node *node,
                         struct pz_op_spec *e) {
  uint32_t y = node->out[0];
  e->name = layer->name;
  e->elem_bytes = PZ_B16;
  if (!e->shape.n) e->shape = tensor_shape(layer, y);
  set_result(layer, y, pz_build_op(layer->builder, e));
}

static void lower_vector(const struct building *layer, const struct pz_onnx_node *node, int kind) {
  uint32_t list[PZ_OP_MOST_INPUTS], n = list_operands(layer, node, list);
  struct pz_op_spec e = {.kind = kind};
  for (uint32_t i = 0; i < n; i++) e.in[i] = tensor_of(layer, list[i]);
  e.in[n] = PZ_NONE;
  if (kind == PZ_OP_TOPK) {
    e.aux_shape = tensor_shape(layer, node->out[0]);
    e.aux_bytes = PZ_INDEX;
  }
  add_operator(layer, node, &e);
}

/* The kind of a two-operand node depends on the roles of its operands: a sum with data masks, one with a parameter is
 * a bias, and a product with a number scales. */
static int binary_kind(const struct building *layer, const struct pz_onnx_node *node) {
  uint32_t list[PZ_OP_MOST_INPUTS], n = list_operands(layer, node, list);
  int kind = node->op->kind;
  if (kind == PZ_OP_POW || kind == PZ_OP_SCALE_MASK) return kind;
  bool clips = pz_onnx_is_type(node, "Max") || pz_onnx_is_type(node, "Min");
  if (n < 2) return clips ? PZ_OP_RELU : PZ_OP_SCALE;
  enum pz_onnx_role second = value_at(layer, list[1])->role;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_DATA) return PZ_OP_SCALE_MASK;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_PARAM) return PZ_OP_BIAS;
  if (kind == PZ_OP_MUL && n > 2) return PZ_OP_ADD;
  return kind;
}

/* The number of rows that have statistics of their own. */
static int64_t count_norm_rows(const struct building *layer, const struct pz_onnx_node *node,
                               uint32_t x) {
  int rank = value_at(layer, x)->rank;
  bool group_norm_pattern = node->fused >= 0 && node->n_in > 3;
  if (group_norm_pattern) return local_span(layer, node->in[3], 0, 2);
  if (node->fused >= 0) return rank ? local_span(layer, x, 0, rank - 1) : 1;
  if (pz_onnx_is_type(node, "BatchNormalization")) return rank > 1 ? local_dim(layer, x, 1) : 1;
  if (pz_onnx_is_type(node, "InstanceNormalization"))
    return local_span(layer, x, 0, rank < 2 ? rank : 2);
  if (pz_onnx_is_type(node, "GroupNormalization")) {
    int64_t rows = pz_onnx_int_attribute(node, "num_groups", 1);
    if (rank < 1 || rows < 1) raise_size_limit(layer);
    multiply(layer, &rows, local_dim(layer, x, 0));
    return rows;
  }
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", -1), rank);
  return local_span(layer, x, 0, axis < 0 ? 0 : axis);
}

/* A norm saves its statistics for backward.  Inputs after scale and shift are running statistics, which are data. */
static void lower_norm(const struct building *layer, const struct pz_onnx_node *node, int kind) {
  uint32_t x = node->in[0], n = 1, most = kind == PZ_OP_RMSNORM ? 2 : 3;
  int64_t rows = count_norm_rows(layer, node, x);
  struct pz_op_spec e = {.kind = kind, .aux_bytes = PZ_B32};
  e.in[0] = tensor_of(layer, x);
  for (uint32_t i = 1; i < node->n_in && i < most; i++)
    if (is_operand(layer, node->in[i])) e.in[n++] = tensor_of(layer, node->in[i]);
  e.in[n] = PZ_NONE;
  e.aux_shape = kind == PZ_OP_RMSNORM ? PZ_SHAPE(rows) : PZ_SHAPE(rows, 2);
  add_operator(layer, node, &e);
}

/* ---- products ------------------------------------------------------------------------------- */

static bool is_matrix(const struct building *layer, uint32_t id) {
  return value_at(layer, id)->role == PZ_ONNX_PARAM && value_at(layer, id)->rank == 2;
}

static enum pz_divide division(const struct building *layer, const struct pz_onnx_node *node) {
  if (layer->lowering->sharding->tp == 1) return PZ_DIVIDE_NOT;
  return (enum pz_divide)layer->lowering->sharding->divide[pz_onnx_node_index(layer->graph, node)];
}

/* Enters a tensor-parallel region with a tensor, once in a layer. */
static uint32_t enter_region(const struct building *layer, uint32_t t) {
  for (uint32_t remaining = layer->builder->graph->ops[PZ_FORWARD].n; remaining > 0; remaining--) {
    const struct pz_op *op = pz_graph_op(layer->builder->graph, PZ_FORWARD, remaining - 1);
    if (op->kind == PZ_OP_TP_ENTER && op->in[0] == t) return op->out[0];
  }
  return pz_build_enter(layer->builder, layer->name, t);
}

/* Leaves a region: the partial sums of a value are summed over the devices, and a bias of width `bias` > 0 is added. */
static void leave_region(const struct building *layer, uint32_t y, int64_t bias) {
  set_tensor(layer, y, pz_build_leave(layer->builder, layer->name, tensor_of(layer, y), bias));
}

/* A linear layer: rows of width width_in times a matrix, with a bias unless in[2] is PZ_NONE.  The work of an
 * undivided one outside of the regions is shared by the group, if its input consists of whole rows. */
static void lower_linear(const struct building *layer, const struct pz_onnx_node *node,
                         const uint32_t in[3], int64_t width_in) {
  uint32_t y = node->out[0], x = tensor_of(layer, in[0]);
  int64_t tp = layer->lowering->sharding->tp;
  enum pz_divide divide = division(layer, node);
  int64_t width_out =
      value_at(layer, y)->rank ? value_at(layer, y)->dim[value_at(layer, y)->rank - 1] : 1;
  if (width_in < 1 || width_out < 1) raise_size_limit(layer);
  bool bias = in[2] != PZ_NONE;
  struct pz_linear linear = {.name = layer->name,
                             .x = divide == PZ_DIVIDE_COLUMNS ? enter_region(layer, x) : x,
                             .in = width_in,
                             .out = width_out,
                             .divide = divide,
                             .bias = bias,
                             .tied = is_tied(layer, in[1]),
                             .tied_bias = bias && is_tied(layer, in[2])};
  const struct pz_tensor *t = pz_graph_tensor(layer->builder->graph, linear.x);
  bool whole_rows =
      !t->split && t->n_dims == 2 && t->shape[1] == width_in && t->role == PZ_ROLE_ACTIVATION;
  bool outside = divide == PZ_DIVIDE_NOT && tp > 1 && width_out >= tp && whole_rows;
  if (outside)
    set_tensor(layer, y, pz_build_linear_outside(layer->builder, &linear));
  else
    set_tensor(layer, y, pz_build_linear(layer->builder, &linear));
  if (divide == PZ_DIVIDE_ROWS) leave_region(layer, y, bias ? width_out : 0);
}

/* Any other product. */
static void lower_contraction(const struct building *layer, const struct pz_onnx_node *node,
                              const uint32_t in[3], struct pz_dims dims) {
  uint32_t y = node->out[0];
  struct pz_contraction contraction = {.name = layer->name, .dims = dims, .bias = PZ_NONE};
  contraction.a = tensor_of(layer, in[0]);
  contraction.c = tensor_of(layer, in[1]);
  if (in[2] != PZ_NONE) contraction.bias = tensor_of(layer, in[2]);
  contraction.shape = tensor_shape(layer, y);
  set_result(layer, y, pz_build_contraction(layer->builder, &contraction));
}

/* Exchanges the operands of a product, because the builder expects a weight second. */
static void exchange_operands(uint32_t in[3], struct pz_dims *dims) {
  uint32_t left = in[0];
  in[0] = in[1];
  in[1] = left;
  *dims = (struct pz_dims){dims->batch, dims->n, dims->m, dims->k};
}

static void lower_matmul(const struct building *layer, const struct pz_onnx_node *node) {
  uint32_t a = node->in[0], b = node->in[1], y = node->out[0];
  uint32_t in[3] = {a, b, node->n_in > 2 ? node->in[2] : PZ_NONE};
  if (is_matrix(layer, b) && value_at(layer, a)->rank > 0) {
    lower_linear(layer, node, in, value_at(layer, b)->dim[0]);
    return;
  }
  int rank_a = value_at(layer, a)->rank, rank_b = value_at(layer, b)->rank;
  bool has_rows = rank_a > 1, has_columns = rank_b > 1;
  int outer = value_at(layer, y)->rank - has_rows - has_columns;
  struct pz_dims dims = {.batch = outer > 0 ? local_span(layer, y, 0, outer) : 1,
                         .m = has_rows ? local_dim(layer, a, rank_a - 2) : 1,
                         .n = has_columns ? local_dim(layer, b, rank_b - 1) : 1,
                         .k = rank_a ? local_dim(layer, a, rank_a - 1) : 1};
  if (value_at(layer, a)->role == PZ_ONNX_PARAM && value_at(layer, b)->role != PZ_ONNX_PARAM)
    exchange_operands(in, &dims);
  lower_contraction(layer, node, in, dims);
}

static void lower_gemm(const struct building *layer, const struct pz_onnx_node *node) {
  uint32_t a = node->in[0], b = node->in[1], in[3] = {a, b, PZ_NONE};
  bool transpose_a = pz_onnx_int_attribute(node, "transA", 0);
  bool transpose_b = pz_onnx_int_attribute(node, "transB", 0);
  if (node->n_in > 2 && is_operand(layer, node->in[2])) in[2] = node->in[2];
  bool linear_bias = in[2] == PZ_NONE || value_at(layer, in[2])->role == PZ_ONNX_PARAM;
  if (is_matrix(layer, b) && linear_bias && !transpose_a) {
    lower_linear(layer, node, in, value_at(layer, b)->dim[transpose_b ? 1 : 0]);
    return;
  }
  struct pz_dims dims = {.batch = 1,
                         .m = local_dim(layer, a, transpose_a ? 1 : 0),
                         .n = local_dim(layer, b, transpose_b ? 0 : 1),
                         .k = local_dim(layer, a, transpose_a ? 0 : 1)};
  lower_contraction(layer, node, in, dims);
}

/* A convolution as the product that it is (im2col): pixels by channels.  The pixels that each take one pass of the
 * kernel are those of the result or, if it is transposed, of the input. */
static void lower_conv(const struct building *layer, const struct pz_onnx_node *node) {
  bool transposed = pz_onnx_is_type(node, "ConvTranspose");
  uint32_t x = node->in[0], weight = node->in[1], y = node->out[0];
  uint32_t in[3] = {x, weight, node->n_in > 2 ? node->in[2] : PZ_NONE};
  uint32_t image = transposed ? x : y;
  int64_t groups = pz_onnx_int_attribute(node, "group", 1);
  int rank = value_at(layer, weight)->rank;
  bool valid = groups >= 1 && rank >= 3 && value_at(layer, x)->rank == rank &&
               value_at(layer, y)->rank == rank && local_dim(layer, weight, 0) % groups == 0;
  if (!valid)
    pz_onnx_raise(layer->call, layer->graph, node, PZ_BAD_INPUT,
                  "a group of %" PRId64 "; accepted: a number that divides its channels", groups);
  int64_t kernel = local_span(layer, weight, 2, rank), pixels = local_dim(layer, image, 0);
  int64_t channels = local_dim(layer, weight, 0) / groups;
  multiply(layer, &pixels, local_span(layer, image, 2, rank));
  struct pz_dims dims = {groups, pixels, channels, local_dim(layer, weight, 1)};
  if (transposed) dims = (struct pz_dims){groups, pixels, local_dim(layer, weight, 1), channels};
  multiply(layer, transposed ? &dims.n : &dims.k, kernel);
  lower_contraction(layer, node, in, dims);
}

static void lower_einsum(const struct building *layer, const struct pz_onnx_node *node) {
  struct pz_dims dims;
  if (!pz_onnx_einsum_product(layer->graph, node, &dims))
    pz_onnx_raise(layer->call, layer->graph, node, PZ_BAD_INPUT,
                  "this equation is not supported; accepted: two operands, letters, '...' and a "
                  "result");
  uint32_t in[3] = {node->in[0], node->in[1], PZ_NONE};
  if (value_at(layer, in[0])->role == PZ_ONNX_PARAM) exchange_operands(in, &dims);
  lower_contraction(layer, node, in, dims);
}

/* One operator for scores, softmax and context. */
static void lower_attention(const struct building *layer, const struct pz_onnx_node *node) {
  uint32_t query = node->in[0], key = node->in[1];
  int rank_q = value_at(layer, query)->rank, rank_k = value_at(layer, key)->rank;
  struct pz_dims dims = {.batch = local_span(layer, query, 0, rank_q - 2),
                         .m = local_dim(layer, query, rank_q - 2),
                         .n = local_dim(layer, key, rank_k - 1),
                         .k = local_dim(layer, query, rank_q - 1)};
  struct pz_flash flash = {.name = layer->name,
                           .in = {tensor_of(layer, query), tensor_of(layer, key),
                                  tensor_of(layer, node->in[2]), PZ_NONE},
                           .dims = dims,
                           .value_dim = dims.k,
                           .shape = PZ_SHAPE(dims.batch, dims.m, dims.k)};
  set_tensor(layer, node->out[0], pz_build_flash(layer->builder, &flash));
}

/* ---- moving data ---------------------------------------------------------------------------- */

/* Does the node select parts of an activation, so that its results are views of it? */
static bool selects_part(const struct building *layer, const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(layer->graph, node, 0);
  if (node->fused >= 0 || node->removed || !input || input->role != PZ_ONNX_ACTIVATION)
    return false;
  if (node->op->lower == PZ_LOWER_PART) return true;
  const struct pz_onnx_value *indices = pz_onnx_input(layer->graph, node, 1);
  return node->op->lower == PZ_LOWER_GATHER && indices && indices->ints;
}

/* Adds the results of a node as views of the tensor `whole`. */
static void add_part_views(const struct building *layer, const struct pz_onnx_node *node,
                           uint32_t whole, struct pz_vec *parts) {
  for (uint32_t j = 0; j < node->n_out; j++) {
    uint32_t y = node->out[j];
    char buf[LONGEST_NAME];
    if (y == PZ_NONE || !value_at(layer, y)->live) continue;
    uint32_t part = add_activation(layer, tensor_name(layer, y, buf), y);
    pz_graph_tensor(layer->builder->graph, part)->storage =
        pz_graph_tensor(layer->builder->graph, whole)->storage;
    set_result(layer, y, part);
    pz_append(layer->call, parts, &part);
  }
}

/* Adds all parts of a value that this layer selects, with the first node that selects one: one Split for them all. */
static void lower_part(const struct building *layer, const struct pz_onnx_node *node) {
  if (!selects_part(layer, node)) {
    lower_vector(layer, node, PZ_OP_COPY);
    return;
  }
  uint32_t x = node->in[0], whole = tensor_of(layer, x),
           self = pz_onnx_node_index(layer->graph, node);
  bool is_added =
      layer->lowering->built_in[value_at(layer, node->out[0])->root] == layer->lowering->layer;
  if (is_added) return;
  struct pz_vec parts;
  pz_vec_init(&parts, layer->call->arena, sizeof(uint32_t));
  uint32_t previous = PZ_NONE;
  for (uint32_t c = 0; c < value_at(layer, x)->n_consumers; c++) {
    uint32_t index = layer->graph->consumers[value_at(layer, x)->first_consumer + c];
    const struct pz_onnx_node *consumer = pz_onnx_node(layer->graph, index);
    uint32_t at = layer->lowering->layering->place[index], begin = layer->segment->first;
    bool in_layer = at != PZ_NONE && at >= begin && at < begin + layer->segment->n;
    bool repeated = index == previous; /* it reads x twice */
    previous = index;
    if (repeated || index < self || !in_layer) continue;
    if (selects_part(layer, consumer) && consumer->in[0] == x)
      add_part_views(layer, consumer, whole, &parts);
  }
  struct pz_op op = {.name = layer->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &whole,
                     .n_in = 1,
                     .out = parts.items,
                     .n_out = parts.n};
  pz_graph_add_op(layer->builder->graph, PZ_FORWARD, &op);
}

static void lower_concat(const struct building *layer, const struct pz_onnx_node *node) {
  uint32_t y = node->out[0], n = 0;
  uint32_t *in = pz_alloc(layer->call, node->n_in, sizeof *in);
  for (uint32_t k = 0; k < node->n_in; k++)
    if (node->in[k] != PZ_NONE) in[n++] = tensor_of(layer, node->in[k]);
  uint32_t out = add_activation(layer, layer->name, y);
  struct pz_shape shape = tensor_shape(layer, y);
  struct pz_op op = {.name = layer->name,
                     .kind = PZ_OP_CONCAT,
                     .op_class = PZ_CLASS_VECTOR,
                     .in = in,
                     .n_in = n,
                     .out = &out,
                     .n_out = 1,
                     .replicated = layer->lowering->sharding->tp > 1 && !is_sharded(layer, y),
                     .dims = {1, shape.d[0], shape.n > 1 ? shape.d[1] : 1, 1}};
  set_result(layer, y, out);
  pz_graph_add_op(layer->builder->graph, PZ_FORWARD, &op);
}

/* Rows of a table by index.  With constant indices it selects some rows of an activation. */
static void lower_gather(const struct building *layer, const struct pz_onnx_node *node) {
  uint32_t table = node->in[0], ids = node->n_in > 1 ? node->in[1] : PZ_NONE;
  bool lookup = value_at(layer, table)->role == PZ_ONNX_PARAM &&
                value_at(layer, table)->rank == 2 && pz_onnx_int_attribute(node, "axis", 0) == 0 &&
                ids != PZ_NONE;
  if (selects_part(layer, node)) {
    lower_part(layer, node);
    return;
  }
  if (!lookup) {
    lower_vector(layer, node, PZ_OP_DISPATCH);
    return;
  }
  char buf[LONGEST_NAME];
  struct pz_shape shape = PZ_SHAPE(local_elements(layer, ids));
  uint32_t index = pz_build_data(layer->builder, tensor_name(layer, ids, buf), PZ_INDEX, shape);
  struct pz_op_spec e = {.kind = PZ_OP_EMBEDDING, .in = {index, tensor_of(layer, table), PZ_NONE}};
  add_operator(layer, node, &e);
  if (division(layer, node) == PZ_DIVIDE_ROWS) leave_region(layer, node->out[0], 0);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Raises an error if a node lacks operands or the name of its result, or if a shape is unknown. */
static void check_node(const struct building *layer, const struct pz_onnx_node *node) {
  enum pz_onnx_lower lower = node->op->lower;
  bool product = lower == PZ_LOWER_MATMUL || lower == PZ_LOWER_GEMM || lower == PZ_LOWER_CONV ||
                 lower == PZ_LOWER_EINSUM;
  uint32_t least = node->fused < 0 && product ? 2 : 1;
  for (uint32_t k = 0; k < least; k++)
    if (k >= node->n_in || node->in[k] == PZ_NONE)
      pz_onnx_raise(layer->call, layer->graph, node, PZ_BAD_INPUT,
                    "has %u inputs; accepted: at least %u", node->n_in, least);
  if (!pz_onnx_result(layer->graph, node, 0))
    pz_onnx_raise(layer->call, layer->graph, node, PZ_BAD_INPUT,
                  "its first result has no name; accepted: one with a name");
  for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
    const struct pz_onnx_value *value = i < node->n_in
                                            ? pz_onnx_input(layer->graph, node, i)
                                            : pz_onnx_result(layer->graph, node, i - node->n_in);
    if (value && value->rank < 0 && value->live)
      pz_onnx_raise(layer->call, layer->graph, node, PZ_BAD_INPUT,
                    "the shape of tensor '%.120s' is neither stated in the file nor can it be "
                    "inferred; accepted: a model exported with shapes",
                    value->name);
  }
}

/* A rotary embedding works in place, because backward does not read its input. */
static void lower_rotary(const struct building *layer, const struct pz_onnx_node *node) {
  lower_vector(layer, node, PZ_OP_ROTARY);
  pz_graph_tensor(layer->builder->graph, tensor_of(layer, node->out[0]))->storage =
      pz_graph_tensor(layer->builder->graph, tensor_of(layer, node->in[0]))->storage;
}

static void lower_node(struct building *layer, const struct pz_onnx_node *node) {
  check_node(layer, node);
  pz_text_plain(
      pz_text_copy(layer->name, sizeof layer->name, pz_onnx_node_name(layer->graph, node)));
  switch (node->fused) {
  case -1: break;
  case PZ_OP_MATMUL: lower_matmul(layer, node); return;
  case PZ_OP_ATTENTION: lower_attention(layer, node); return;
  case PZ_OP_LAYERNORM:
  case PZ_OP_RMSNORM: lower_norm(layer, node, node->fused); return;
  case PZ_OP_ROTARY: lower_rotary(layer, node); return;
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

/* ---- the layer ------------------------------------------------------------------------------ */

/* The first value that enters is the input of the layer, the others enter beside it. */
static void add_inputs(const struct building *layer) {
  struct pz_graph *built_graph = layer->builder->graph;
  uint32_t *also_in = pz_alloc(built_graph->call, layer->segment->n_in, sizeof *also_in);
  for (uint32_t i = 0; i < layer->segment->n_in; i++) {
    uint32_t id = layer->segment->in[i];
    char buf[LONGEST_NAME];
    uint32_t t = add_activation(layer, tensor_name(layer, id, buf), id);
    set_tensor(layer, id, t);
    if (i == 0)
      built_graph->input = t;
    else
      also_in[built_graph->n_also_in++] = t;
  }
  built_graph->also_in = also_in;
  built_graph->passing_bytes = layer->segment->passing_bytes;
}

/* Names what leaves the layer: `first`, which is the result of the model in the last layer, and the others beside it. */
static void name_outputs(const struct building *layer, uint32_t first) {
  struct pz_graph *built_graph = layer->builder->graph;
  uint32_t *also_out = pz_alloc(built_graph->call, layer->segment->n_out, sizeof *also_out);
  for (uint32_t i = 0; i < layer->segment->n_out; i++)
    if (layer->segment->out[i] != value_at(layer, first)->root)
      also_out[built_graph->n_also_out++] = tensor_of(layer, layer->segment->out[i]);
  built_graph->also_out = also_out;
  built_graph->output = tensor_of(layer, first);
}

void pz_onnx_build_layer(struct pz_call *call, struct pz_onnx_lowering *lowering,
                         struct pz_builder *builder, const struct pz_onnx_segment *segment) {
  const struct pz_onnx_layering *layering = lowering->layering;
  struct building m = {call, lowering, builder, layering->graph, segment, ""};
  bool last = segment == pz_onnx_segment(layering, layering->segments.n - 1);
  lowering->layer++;
  add_inputs(&m);
  for (uint32_t i = 0; i < segment->n; i++)
    lower_node(&m, pz_onnx_at(layering, segment->first + i));
  if (!last && !segment->n_out) raise_internal(&m);
  name_outputs(&m, last ? layering->result : segment->out[0]);
  if (!last) return;
  /* The loss is computed of the model's result, unless it is a loss itself, one number for each sample. */
  const struct pz_onnx_value *result = value_at(&m, layering->result);
  if (result->rank < 1 || result->dim[result->rank - 1] < 2) return;
  builder->tokens = local_span(&m, layering->result, 0, result->rank - 1);
  builder->graph->output = pz_kernel_loss(builder, builder->graph->output, false);
}
