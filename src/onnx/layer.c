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
  struct pz_builder *b;
  const struct pz_onnx_graph *g;
  const struct pz_onnx_segment *segment;
  char name[LONGEST_NAME]; /* of the current operator */
};

struct pz_onnx_lowering *pz_onnx_lowering_new(struct pz_call *call,
                                              const struct pz_onnx_layering *layering,
                                              const struct pz_onnx_sharding *sharding) {
  struct pz_onnx_lowering *lowering = pz_alloc(call, 1, sizeof *lowering);
  uint32_t n = layering->g->values.n;
  lowering->layering = layering;
  lowering->sharding = sharding;
  lowering->tensor = pz_alloc(call, n, sizeof *lowering->tensor);
  lowering->built_in = pz_alloc(call, n, sizeof *lowering->built_in);
  return lowering;
}

static const struct pz_onnx_value *value(const struct building *m, uint32_t v) {
  return pz_onnx_value(m->g, v);
}

_Noreturn static void raise_size_limit(const struct building *m) {
  pz_raise_size_limit(m->call, m->g->file);
}

_Noreturn static void raise_internal(const struct building *m) {
  pz_raise(m->call, PZ_INTERNAL, "%s: internal error", m->g->file);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static bool is_sharded(const struct building *m, uint32_t v) {
  return m->lowering->sharding->tp > 1 && m->lowering->sharding->dim[v] != 0;
}

/* Dimension i of a value on this device. */
static int64_t local_dim(const struct building *m, uint32_t v, int i) {
  int64_t size = value(m, v)->dim[i];
  bool divided = is_sharded(m, v) && m->lowering->sharding->dim[v] == i + 1;
  return divided ? pz_share(m->b, size) : size;
}

/* The product of dimensions [from, to) of a value on this device. */
static int64_t local_span(const struct building *m, uint32_t v, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++)
    if (!pz_mul(&n, local_dim(m, v, i))) raise_size_limit(m);
  return n;
}

static int64_t local_elements(const struct building *m, uint32_t v) {
  return local_span(m, v, 0, value(m, v)->rank);
}

static void multiply(const struct building *m, int64_t *size, int64_t factor) {
  if (!pz_mul(size, factor)) raise_size_limit(m);
}

/* Is a value an image, the result of convolutions, so that its last dimension is not a row of features? */
static bool is_image(const struct building *m, uint32_t v) {
  for (int i = 0; i < LONGEST_CHAIN && v != PZ_NONE && value(m, v)->producer != PZ_NONE; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(m->g, value(m, v)->producer);
    bool plain = node->fused < 0;
    if (plain && (node->op->lower == PZ_LOWER_CONV || node->op->shape == PZ_SHAPE_POOL))
      return true;
    bool keeps_layout = !plain || node->op->elementwise || node->op->lower == PZ_LOWER_NORM ||
                        node->op->lower == PZ_LOWER_CONCAT;
    if (!keeps_layout || !node->n_in) return false;
    v = node->in[0];
  }
  return false;
}

/* The shape of a value's tensor: rows of the last dimension; an image has rows of pixels. */
static struct pz_shape tensor_shape(const struct building *m, uint32_t v) {
  int rank = value(m, v)->rank, from = rank - 1;
  if (rank < 1) return PZ_SHAPE(1, 1);
  if (rank == 1) return PZ_SHAPE(local_dim(m, v, 0));
  if (rank >= 4 && is_image(m, v)) from = 2;
  return PZ_SHAPE(local_span(m, v, 0, from), local_span(m, v, from, rank));
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void set_tensor(const struct building *m, uint32_t v, uint32_t tensor) {
  uint32_t root = value(m, v)->root;
  m->lowering->tensor[root] = tensor;
  m->lowering->built_in[root] = m->lowering->layer;
}

/* Makes a tensor the result of a node. */
static void set_result(const struct building *m, uint32_t y, uint32_t tensor) {
  pz_graph_tensor(m->b->graph, tensor)->split = is_sharded(m, y);
  set_tensor(m, y, tensor);
}

/* The name of a value, shortened and without control characters. */
static const char *tensor_name(const struct building *m, uint32_t v, char buf[LONGEST_NAME]) {
  const char *name = value(m, v)->name;
  return pz_text_plain(pz_text_copy(buf, LONGEST_NAME, name[0] ? name : "tensor"));
}

static bool is_tied(const struct building *m, uint32_t v) {
  return pz_onnx_is_tied(m->lowering->layering, value(m, v)->root, m->segment->first,
                         m->segment->n);
}

static uint32_t add_parameter(const struct building *m, uint32_t v) {
  const struct pz_onnx_value *x = value(m, v);
  char buf[LONGEST_NAME];
  int64_t whole = 1, local = local_elements(m, v);
  for (int i = 0; i < x->rank; i++) multiply(m, &whole, x->dim[i]);
  struct pz_shape shape = x->rank == 1 ? PZ_SHAPE(local) : tensor_shape(m, v);
  if (x->rank > 1 && local_dim(m, v, 0) > 0)
    shape = PZ_SHAPE(local_dim(m, v, 0), local / local_dim(m, v, 0));
  return pz_build_param(m->b, tensor_name(m, x->root, buf), shape, whole, is_tied(m, v));
}

static uint32_t add_data(const struct building *m, uint32_t v) {
  const struct pz_onnx_value *x = value(m, v);
  char buf[LONGEST_NAME];
  int bytes = PZ_INDEX;
  if (!x->type || pz_onnx_is_float(x->type))
    bytes = PZ_B16;
  else if (x->type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
    bytes = PZ_BYTE;
  return pz_build_data(m->b, tensor_name(m, v, buf), bytes, tensor_shape(m, v));
}

static uint32_t add_activation(const struct building *m, const char *name, uint32_t v) {
  return pz_graph_add_tensor(m->b->graph, name, PZ_ROLE_ACTIVATION, PZ_B16, tensor_shape(m, v));
}

/* The tensor of a value in this layer.  A parameter is added when it is first read, and again for each use if equal
 * vectors were merged.  Data may be read in several shapes, so each is added under its own name. */
static uint32_t tensor_of(const struct building *m, uint32_t v) {
  const struct pz_onnx_value *x = value(m, v);
  bool merged = x->role == PZ_ONNX_PARAM && pz_onnx_is_merged(m->lowering->layering, v);
  bool is_built = m->lowering->built_in[x->root] == m->lowering->layer;
  if (is_built && !merged) return m->lowering->tensor[x->root];
  if (x->role == PZ_ONNX_ACTIVATION) raise_internal(m);
  if (x->role == PZ_ONNX_DATA) return add_data(m, v);
  uint32_t tensor = add_parameter(m, v);
  set_tensor(m, v, tensor);
  return tensor;
}

/* ---- vector operators ----------------------------------------------------------------------- */

/* Is an input a tensor that the operator reads?  Single numbers and stored shapes are not. */
static bool is_operand(const struct building *m, uint32_t v) {
  int64_t n = 0;
  if (v == PZ_NONE) return false;
  const struct pz_onnx_value *x = value(m, v);
  if (x->role != PZ_ONNX_DATA) return true;
  bool stored_integers = x->ints && x->producer == PZ_NONE && x->initializer;
  if (x->has_real || stored_integers || x->rank < 0) return false;
  return pz_onnx_count_elements(x, &n) && n > 1;
}

/* Lists the node's operands, activations first, followed by PZ_NONE.  The larger of two activations comes first,
 * because it determines the sizes. */
static uint32_t list_operands(const struct building *m, const struct pz_onnx_node *node,
                              uint32_t list[PZ_OP_MOST_INPUTS]) {
  uint32_t n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t k = 0; k < node->n_in && n < PZ_OP_MOST_INPUTS - 1; k++) {
      if (!is_operand(m, node->in[k])) continue;
      bool activation = value(m, node->in[k])->role == PZ_ONNX_ACTIVATION;
      if (activation == (pass == 0)) list[n++] = node->in[k];
    }
  bool swap = n == 2 && value(m, list[1])->role == PZ_ONNX_ACTIVATION &&
              local_elements(m, list[1]) > local_elements(m, list[0]);
  if (swap) {
    uint32_t first = list[0];
    list[0] = list[1];
    list[1] = first;
  }
  list[n] = PZ_NONE;
  return n;
}

static void add_operator(const struct building *m, const struct pz_onnx_node *node,
                         struct pz_op_spec *e) {
  uint32_t y = node->out[0];
  e->name = m->name;
  e->elem_bytes = PZ_B16;
  if (!e->shape.n) e->shape = tensor_shape(m, y);
  set_result(m, y, pz_build_op(m->b, e));
}

static void lower_vector(const struct building *m, const struct pz_onnx_node *node, int kind) {
  uint32_t list[PZ_OP_MOST_INPUTS], n = list_operands(m, node, list);
  struct pz_op_spec e = {.kind = kind};
  for (uint32_t i = 0; i < n; i++) e.in[i] = tensor_of(m, list[i]);
  e.in[n] = PZ_NONE;
  if (kind == PZ_OP_TOPK) {
    e.aux_shape = tensor_shape(m, node->out[0]);
    e.aux_bytes = PZ_INDEX;
  }
  add_operator(m, node, &e);
}

/* The kind of a two-operand node depends on the roles of its operands: a sum with data masks, one with a parameter is
 * a bias, and a product with a number scales. */
static int binary_kind(const struct building *m, const struct pz_onnx_node *node) {
  uint32_t list[PZ_OP_MOST_INPUTS], n = list_operands(m, node, list);
  int kind = node->op->kind;
  if (kind == PZ_OP_POW || kind == PZ_OP_SCALE_MASK) return kind;
  bool clips = pz_onnx_is_type(node, "Max") || pz_onnx_is_type(node, "Min");
  if (n < 2) return clips ? PZ_OP_RELU : PZ_OP_SCALE;
  enum pz_onnx_role second = value(m, list[1])->role;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_DATA) return PZ_OP_SCALE_MASK;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_PARAM) return PZ_OP_BIAS;
  if (kind == PZ_OP_MUL && n > 2) return PZ_OP_ADD;
  return kind;
}

/* The number of rows that have statistics of their own. */
static int64_t count_norm_rows(const struct building *m, const struct pz_onnx_node *node,
                               uint32_t x) {
  int rank = value(m, x)->rank;
  bool group_norm_pattern = node->fused >= 0 && node->n_in > 3;
  if (group_norm_pattern) return local_span(m, node->in[3], 0, 2);
  if (node->fused >= 0) return rank ? local_span(m, x, 0, rank - 1) : 1;
  if (pz_onnx_is_type(node, "BatchNormalization")) return rank > 1 ? local_dim(m, x, 1) : 1;
  if (pz_onnx_is_type(node, "InstanceNormalization"))
    return local_span(m, x, 0, rank < 2 ? rank : 2);
  if (pz_onnx_is_type(node, "GroupNormalization")) {
    int64_t rows = pz_onnx_int_attribute(node, "num_groups", 1);
    if (rank < 1 || rows < 1) raise_size_limit(m);
    multiply(m, &rows, local_dim(m, x, 0));
    return rows;
  }
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", -1), rank);
  return local_span(m, x, 0, axis < 0 ? 0 : axis);
}

/* A norm saves its statistics for backward.  Inputs after scale and shift are running statistics, which are data. */
static void lower_norm(const struct building *m, const struct pz_onnx_node *node, int kind) {
  uint32_t x = node->in[0], n = 1, most = kind == PZ_OP_RMSNORM ? 2 : 3;
  int64_t rows = count_norm_rows(m, node, x);
  struct pz_op_spec e = {.kind = kind, .aux_bytes = PZ_B32};
  e.in[0] = tensor_of(m, x);
  for (uint32_t i = 1; i < node->n_in && i < most; i++)
    if (is_operand(m, node->in[i])) e.in[n++] = tensor_of(m, node->in[i]);
  e.in[n] = PZ_NONE;
  e.aux_shape = kind == PZ_OP_RMSNORM ? PZ_SHAPE(rows) : PZ_SHAPE(rows, 2);
  add_operator(m, node, &e);
}

/* ---- products ------------------------------------------------------------------------------- */

static bool is_matrix(const struct building *m, uint32_t v) {
  return value(m, v)->role == PZ_ONNX_PARAM && value(m, v)->rank == 2;
}

static enum pz_divide division(const struct building *m, const struct pz_onnx_node *node) {
  if (m->lowering->sharding->tp == 1) return PZ_DIVIDE_NOT;
  return (enum pz_divide)m->lowering->sharding->divide[pz_onnx_node_index(m->g, node)];
}

/* Enters a tensor-parallel region with a tensor, once in a layer. */
static uint32_t enter_region(const struct building *m, uint32_t t) {
  for (uint32_t remaining = m->b->graph->ops[PZ_FORWARD].n; remaining > 0; remaining--) {
    const struct pz_op *op = pz_graph_op(m->b->graph, PZ_FORWARD, remaining - 1);
    if (op->kind == PZ_OP_TP_ENTER && op->in[0] == t) return op->out[0];
  }
  return pz_build_enter(m->b, m->name, t);
}

/* Leaves a region: the partial sums of a value are summed over the devices, and a bias of width `bias` > 0 is added. */
static void leave_region(const struct building *m, uint32_t y, int64_t bias) {
  set_tensor(m, y, pz_build_leave(m->b, m->name, tensor_of(m, y), bias));
}

/* A linear layer: rows of width width_in times a matrix, with a bias unless in[2] is PZ_NONE.  The work of an
 * undivided one outside of the regions is shared by the group, if its input consists of whole rows. */
static void lower_linear(const struct building *m, const struct pz_onnx_node *node,
                         const uint32_t in[3], int64_t width_in) {
  uint32_t y = node->out[0], x = tensor_of(m, in[0]);
  int64_t tp = m->lowering->sharding->tp;
  enum pz_divide divide = division(m, node);
  int64_t width_out = value(m, y)->rank ? value(m, y)->dim[value(m, y)->rank - 1] : 1;
  if (width_in < 1 || width_out < 1) raise_size_limit(m);
  bool bias = in[2] != PZ_NONE;
  struct pz_linear linear = {.name = m->name,
                             .x = divide == PZ_DIVIDE_COLUMNS ? enter_region(m, x) : x,
                             .in = width_in,
                             .out = width_out,
                             .divide = divide,
                             .bias = bias,
                             .tied = is_tied(m, in[1]),
                             .tied_bias = bias && is_tied(m, in[2])};
  const struct pz_tensor *t = pz_graph_tensor(m->b->graph, linear.x);
  bool whole_rows =
      !t->split && t->n_dims == 2 && t->shape[1] == width_in && t->role == PZ_ROLE_ACTIVATION;
  bool outside = divide == PZ_DIVIDE_NOT && tp > 1 && width_out >= tp && whole_rows;
  if (outside)
    set_tensor(m, y, pz_build_linear_outside(m->b, &linear));
  else
    set_tensor(m, y, pz_build_linear(m->b, &linear));
  if (divide == PZ_DIVIDE_ROWS) leave_region(m, y, bias ? width_out : 0);
}

/* Any other product. */
static void lower_contraction(const struct building *m, const struct pz_onnx_node *node,
                              const uint32_t in[3], struct pz_dims dims) {
  uint32_t y = node->out[0];
  struct pz_contraction contraction = {.name = m->name, .dims = dims, .bias = PZ_NONE};
  contraction.a = tensor_of(m, in[0]);
  contraction.c = tensor_of(m, in[1]);
  if (in[2] != PZ_NONE) contraction.bias = tensor_of(m, in[2]);
  contraction.shape = tensor_shape(m, y);
  set_result(m, y, pz_build_contraction(m->b, &contraction));
}

/* Exchanges the operands of a product, because the builder expects a weight second. */
static void exchange_operands(uint32_t in[3], struct pz_dims *dims) {
  uint32_t left = in[0];
  in[0] = in[1];
  in[1] = left;
  *dims = (struct pz_dims){dims->batch, dims->n, dims->m, dims->k};
}

static void lower_matmul(const struct building *m, const struct pz_onnx_node *node) {
  uint32_t a = node->in[0], b = node->in[1], y = node->out[0];
  uint32_t in[3] = {a, b, node->n_in > 2 ? node->in[2] : PZ_NONE};
  if (is_matrix(m, b) && value(m, a)->rank > 0) {
    lower_linear(m, node, in, value(m, b)->dim[0]);
    return;
  }
  int rank_a = value(m, a)->rank, rank_b = value(m, b)->rank;
  bool has_rows = rank_a > 1, has_columns = rank_b > 1;
  int outer = value(m, y)->rank - has_rows - has_columns;
  struct pz_dims dims = {.batch = outer > 0 ? local_span(m, y, 0, outer) : 1,
                         .m = has_rows ? local_dim(m, a, rank_a - 2) : 1,
                         .n = has_columns ? local_dim(m, b, rank_b - 1) : 1,
                         .k = rank_a ? local_dim(m, a, rank_a - 1) : 1};
  if (value(m, a)->role == PZ_ONNX_PARAM && value(m, b)->role != PZ_ONNX_PARAM)
    exchange_operands(in, &dims);
  lower_contraction(m, node, in, dims);
}

static void lower_gemm(const struct building *m, const struct pz_onnx_node *node) {
  uint32_t a = node->in[0], b = node->in[1], in[3] = {a, b, PZ_NONE};
  bool transpose_a = pz_onnx_int_attribute(node, "transA", 0);
  bool transpose_b = pz_onnx_int_attribute(node, "transB", 0);
  if (node->n_in > 2 && is_operand(m, node->in[2])) in[2] = node->in[2];
  bool linear_bias = in[2] == PZ_NONE || value(m, in[2])->role == PZ_ONNX_PARAM;
  if (is_matrix(m, b) && linear_bias && !transpose_a) {
    lower_linear(m, node, in, value(m, b)->dim[transpose_b ? 1 : 0]);
    return;
  }
  struct pz_dims dims = {.batch = 1,
                         .m = local_dim(m, a, transpose_a ? 1 : 0),
                         .n = local_dim(m, b, transpose_b ? 0 : 1),
                         .k = local_dim(m, a, transpose_a ? 0 : 1)};
  lower_contraction(m, node, in, dims);
}

/* A convolution as the product that it is (im2col): pixels by channels.  The pixels that each take one pass of the
 * kernel are those of the result or, if it is transposed, of the input. */
static void lower_conv(const struct building *m, const struct pz_onnx_node *node) {
  bool transposed = pz_onnx_is_type(node, "ConvTranspose");
  uint32_t x = node->in[0], weight = node->in[1], y = node->out[0];
  uint32_t in[3] = {x, weight, node->n_in > 2 ? node->in[2] : PZ_NONE};
  uint32_t image = transposed ? x : y;
  int64_t groups = pz_onnx_int_attribute(node, "group", 1);
  int rank = value(m, weight)->rank;
  bool valid = groups >= 1 && rank >= 3 && value(m, x)->rank == rank && value(m, y)->rank == rank &&
               local_dim(m, weight, 0) % groups == 0;
  if (!valid)
    pz_onnx_raise(m->call, m->g, node, PZ_BAD_INPUT,
                  "a group of %" PRId64 "; accepted: a number that divides its channels", groups);
  int64_t kernel = local_span(m, weight, 2, rank), pixels = local_dim(m, image, 0);
  int64_t channels = local_dim(m, weight, 0) / groups;
  multiply(m, &pixels, local_span(m, image, 2, rank));
  struct pz_dims dims = {groups, pixels, channels, local_dim(m, weight, 1)};
  if (transposed) dims = (struct pz_dims){groups, pixels, local_dim(m, weight, 1), channels};
  multiply(m, transposed ? &dims.n : &dims.k, kernel);
  lower_contraction(m, node, in, dims);
}

static void lower_einsum(const struct building *m, const struct pz_onnx_node *node) {
  struct pz_dims dims;
  if (!pz_onnx_einsum_product(m->g, node, &dims))
    pz_onnx_raise(m->call, m->g, node, PZ_BAD_INPUT,
                  "this equation is not supported; accepted: two operands, letters, '...' and a "
                  "result");
  uint32_t in[3] = {node->in[0], node->in[1], PZ_NONE};
  if (value(m, in[0])->role == PZ_ONNX_PARAM) exchange_operands(in, &dims);
  lower_contraction(m, node, in, dims);
}

/* One operator for scores, softmax and context. */
static void lower_attention(const struct building *m, const struct pz_onnx_node *node) {
  uint32_t query = node->in[0], key = node->in[1];
  int rank_q = value(m, query)->rank, rank_k = value(m, key)->rank;
  struct pz_dims dims = {.batch = local_span(m, query, 0, rank_q - 2),
                         .m = local_dim(m, query, rank_q - 2),
                         .n = local_dim(m, key, rank_k - 1),
                         .k = local_dim(m, query, rank_q - 1)};
  struct pz_flash flash = {
      .name = m->name,
      .in = {tensor_of(m, query), tensor_of(m, key), tensor_of(m, node->in[2]), PZ_NONE},
      .dims = dims,
      .value_dim = dims.k,
      .shape = PZ_SHAPE(dims.batch, dims.m, dims.k)};
  set_tensor(m, node->out[0], pz_build_flash(m->b, &flash));
}

/* ---- moving data ---------------------------------------------------------------------------- */

/* Does the node select parts of an activation, so that its results are views of it? */
static bool selects_part(const struct building *m, const struct pz_onnx_node *node) {
  const struct pz_onnx_value *x = pz_onnx_input(m->g, node, 0);
  if (node->fused >= 0 || node->removed || !x || x->role != PZ_ONNX_ACTIVATION) return false;
  if (node->op->lower == PZ_LOWER_PART) return true;
  const struct pz_onnx_value *indices = pz_onnx_input(m->g, node, 1);
  return node->op->lower == PZ_LOWER_GATHER && indices && indices->ints;
}

/* Adds the results of a node as views of the tensor `whole`. */
static void add_part_views(const struct building *m, const struct pz_onnx_node *node,
                           uint32_t whole, struct pz_vec *parts) {
  for (uint32_t o = 0; o < node->n_out; o++) {
    uint32_t y = node->out[o];
    char buf[LONGEST_NAME];
    if (y == PZ_NONE || !value(m, y)->live) continue;
    uint32_t part = add_activation(m, tensor_name(m, y, buf), y);
    pz_graph_tensor(m->b->graph, part)->storage = pz_graph_tensor(m->b->graph, whole)->storage;
    set_result(m, y, part);
    pz_append(m->call, parts, &part);
  }
}

/* Adds all parts of a value that this layer selects, with the first node that selects one: one Split for them all. */
static void lower_part(const struct building *m, const struct pz_onnx_node *node) {
  if (!selects_part(m, node)) {
    lower_vector(m, node, PZ_OP_COPY);
    return;
  }
  uint32_t x = node->in[0], whole = tensor_of(m, x), self = pz_onnx_node_index(m->g, node);
  bool is_added = m->lowering->built_in[value(m, node->out[0])->root] == m->lowering->layer;
  if (is_added) return;
  struct pz_vec parts;
  pz_vec_init(&parts, m->call->arena, sizeof(uint32_t));
  uint32_t previous = PZ_NONE;
  for (uint32_t c = 0; c < value(m, x)->n_consumers; c++) {
    uint32_t index = m->g->consumers[value(m, x)->first_consumer + c];
    const struct pz_onnx_node *consumer = pz_onnx_node(m->g, index);
    uint32_t at = m->lowering->layering->place[index], begin = m->segment->first;
    bool in_layer = at != PZ_NONE && at >= begin && at < begin + m->segment->n;
    bool repeated = index == previous; /* it reads x twice */
    previous = index;
    if (repeated || index < self || !in_layer) continue;
    if (selects_part(m, consumer) && consumer->in[0] == x)
      add_part_views(m, consumer, whole, &parts);
  }
  struct pz_op op = {.name = m->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &whole,
                     .n_in = 1,
                     .out = parts.items,
                     .n_out = parts.n};
  pz_graph_add_op(m->b->graph, PZ_FORWARD, &op);
}

static void lower_concat(const struct building *m, const struct pz_onnx_node *node) {
  uint32_t y = node->out[0], n = 0;
  uint32_t *in = pz_alloc(m->call, node->n_in, sizeof *in);
  for (uint32_t k = 0; k < node->n_in; k++)
    if (node->in[k] != PZ_NONE) in[n++] = tensor_of(m, node->in[k]);
  uint32_t out = add_activation(m, m->name, y);
  struct pz_shape shape = tensor_shape(m, y);
  struct pz_op op = {.name = m->name,
                     .kind = PZ_OP_CONCAT,
                     .op_class = PZ_CLASS_VECTOR,
                     .in = in,
                     .n_in = n,
                     .out = &out,
                     .n_out = 1,
                     .replicated = m->lowering->sharding->tp > 1 && !is_sharded(m, y),
                     .dims = {1, shape.d[0], shape.n > 1 ? shape.d[1] : 1, 1}};
  set_result(m, y, out);
  pz_graph_add_op(m->b->graph, PZ_FORWARD, &op);
}

/* Rows of a table by index.  With constant indices it selects some rows of an activation. */
static void lower_gather(const struct building *m, const struct pz_onnx_node *node) {
  uint32_t table = node->in[0], ids = node->n_in > 1 ? node->in[1] : PZ_NONE;
  bool lookup = value(m, table)->role == PZ_ONNX_PARAM && value(m, table)->rank == 2 &&
                pz_onnx_int_attribute(node, "axis", 0) == 0 && ids != PZ_NONE;
  if (selects_part(m, node)) {
    lower_part(m, node);
    return;
  }
  if (!lookup) {
    lower_vector(m, node, PZ_OP_DISPATCH);
    return;
  }
  char buf[LONGEST_NAME];
  struct pz_shape shape = PZ_SHAPE(local_elements(m, ids));
  uint32_t index = pz_build_data(m->b, tensor_name(m, ids, buf), PZ_INDEX, shape);
  struct pz_op_spec e = {.kind = PZ_OP_EMBEDDING, .in = {index, tensor_of(m, table), PZ_NONE}};
  add_operator(m, node, &e);
  if (division(m, node) == PZ_DIVIDE_ROWS) leave_region(m, node->out[0], 0);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Raises an error if a node lacks operands or the name of its result, or if a shape is unknown. */
static void check_node(const struct building *m, const struct pz_onnx_node *node) {
  enum pz_onnx_lower lower = node->op->lower;
  bool product = lower == PZ_LOWER_MATMUL || lower == PZ_LOWER_GEMM || lower == PZ_LOWER_CONV ||
                 lower == PZ_LOWER_EINSUM;
  uint32_t least = node->fused < 0 && product ? 2 : 1;
  for (uint32_t k = 0; k < least; k++)
    if (k >= node->n_in || node->in[k] == PZ_NONE)
      pz_onnx_raise(m->call, m->g, node, PZ_BAD_INPUT, "has %u inputs; accepted: at least %u",
                    node->n_in, least);
  if (!pz_onnx_result(m->g, node, 0))
    pz_onnx_raise(m->call, m->g, node, PZ_BAD_INPUT,
                  "its first result has no name; accepted: one with a name");
  for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
    const struct pz_onnx_value *v =
        i < node->n_in ? pz_onnx_input(m->g, node, i) : pz_onnx_result(m->g, node, i - node->n_in);
    if (v && v->rank < 0 && v->live)
      pz_onnx_raise(m->call, m->g, node, PZ_BAD_INPUT,
                    "the shape of tensor '%.120s' is neither stated in the file nor can it be "
                    "inferred; accepted: a model exported with shapes",
                    v->name);
  }
}

/* A rotary embedding works in place, because backward does not read its input. */
static void lower_rotary(const struct building *m, const struct pz_onnx_node *node) {
  lower_vector(m, node, PZ_OP_ROTARY);
  pz_graph_tensor(m->b->graph, tensor_of(m, node->out[0]))->storage =
      pz_graph_tensor(m->b->graph, tensor_of(m, node->in[0]))->storage;
}

static void lower_node(struct building *m, const struct pz_onnx_node *node) {
  check_node(m, node);
  pz_text_plain(pz_text_copy(m->name, sizeof m->name, pz_onnx_node_name(m->g, node)));
  switch (node->fused) {
  case -1: break;
  case PZ_OP_MATMUL: lower_matmul(m, node); return;
  case PZ_OP_ATTENTION: lower_attention(m, node); return;
  case PZ_OP_LAYERNORM:
  case PZ_OP_RMSNORM: lower_norm(m, node, node->fused); return;
  case PZ_OP_ROTARY: lower_rotary(m, node); return;
  default: lower_vector(m, node, node->fused); return;
  }
  switch (node->op->lower) {
  case PZ_LOWER_MATMUL: lower_matmul(m, node); break;
  case PZ_LOWER_GEMM: lower_gemm(m, node); break;
  case PZ_LOWER_CONV: lower_conv(m, node); break;
  case PZ_LOWER_EINSUM: lower_einsum(m, node); break;
  case PZ_LOWER_BINARY: lower_vector(m, node, binary_kind(m, node)); break;
  case PZ_LOWER_NORM: lower_norm(m, node, node->op->kind); break;
  case PZ_LOWER_PART: lower_part(m, node); break;
  case PZ_LOWER_CONCAT: lower_concat(m, node); break;
  case PZ_LOWER_GATHER: lower_gather(m, node); break;
  default: lower_vector(m, node, node->op->kind);
  }
}

/* ---- the layer ------------------------------------------------------------------------------ */

/* The first value that enters is the input of the layer, the others enter beside it. */
static void add_inputs(const struct building *m) {
  struct pz_graph *g = m->b->graph;
  uint32_t *also_in = pz_alloc(g->call, m->segment->n_in, sizeof *also_in);
  for (uint32_t i = 0; i < m->segment->n_in; i++) {
    uint32_t v = m->segment->in[i];
    char buf[LONGEST_NAME];
    uint32_t t = add_activation(m, tensor_name(m, v, buf), v);
    set_tensor(m, v, t);
    if (i == 0)
      g->input = t;
    else
      also_in[g->n_also_in++] = t;
  }
  g->also_in = also_in;
  g->passing_bytes = m->segment->passing_bytes;
}

/* Names what leaves the layer: `first`, which is the result of the model in the last layer, and the others beside it. */
static void name_outputs(const struct building *m, uint32_t first) {
  struct pz_graph *g = m->b->graph;
  uint32_t *also_out = pz_alloc(g->call, m->segment->n_out, sizeof *also_out);
  for (uint32_t i = 0; i < m->segment->n_out; i++)
    if (m->segment->out[i] != value(m, first)->root)
      also_out[g->n_also_out++] = tensor_of(m, m->segment->out[i]);
  g->also_out = also_out;
  g->output = tensor_of(m, first);
}

void pz_onnx_build_layer(struct pz_call *call, struct pz_onnx_lowering *lowering,
                         struct pz_builder *builder, const struct pz_onnx_segment *segment) {
  const struct pz_onnx_layering *l = lowering->layering;
  struct building m = {call, lowering, builder, l->g, segment, ""};
  bool last = segment == pz_onnx_segment(l, l->segments.n - 1);
  lowering->layer++;
  add_inputs(&m);
  for (uint32_t i = 0; i < segment->n; i++) lower_node(&m, pz_onnx_at(l, segment->first + i));
  if (!last && !segment->n_out) raise_internal(&m);
  name_outputs(&m, last ? l->result : segment->out[0]);
  if (!last) return;
  /* The loss is computed of the model's result, unless it is a loss itself, one number for each sample. */
  const struct pz_onnx_value *result = value(&m, l->result);
  if (result->rank < 1 || result->dim[result->rank - 1] < 2) return;
  builder->tokens = local_span(&m, l->result, 0, result->rank - 1);
  builder->graph->output = pz_kernel_loss(builder, builder->graph->output, false);
}
