/* Shape inference: binds the symbolic dimensions of the inputs, and gives every value the shape
 * that follows from the operator specifications of ONNX (opsets 9 to 22).
 *
 * bind_dimension() gives a size to a dimension of an input.  Then infer_node() visits the nodes in
 * topological order.  Each operator type has a rule (shape_rules.def), a function that returns the
 * shape of the first result, `unknown` if it does not follow from the inputs, or `impossible` if
 * ONNX does not define the operator for these inputs.  A shape that the file states must agree
 * with the inferred one.  Exporters compute shapes inside the graph (Shape, Gather, Concat,
 * Reshape), so the contents of small tensors are followed at the same time (constant.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/num.h"
#include "onnx/passes.h"

/* ---- symbolic dimensions -------------------------------------------------------------------- */

/* Room for "INPUT:AXIS", by which the user refers to a dimension of an input. */
enum { PLACE_BYTES = 256 };

/* Checks that every --dim is "NAME=SIZE" and names a symbolic dimension of an input. */
static void check_dim_options(struct pz_call *call, const struct pz_onnx_graph *graph,
                              const struct pz_workload_options *options) {
  for (int i = 0; i < PZ_MOST_DIMS && options->dims[i]; i++) {
    const char *equals = strrchr(options->dims[i], '=');
    char *end = NULL;
    long long size = equals ? strtoll(equals + 1, &end, 10) : 0;
    bool well_formed = equals && equals != options->dims[i] && end != equals + 1 && !*end;
    if (!well_formed || size < 1 || size > PZ_ONNX_MOST_DIM)
      pz_raise(call, PZ_BAD_USE,
               "dimension '%.100s'; accepted: NAME=SIZE, the name of a symbolic dimension "
               "or INPUT:AXIS, and an integer from 1",
               options->dims[i]);
  }
  for (int i = 0; i < PZ_MOST_DIMS && options->dims[i]; i++) {
    bool found = false;
    for (uint32_t k = 0; k < graph->inputs.n && !found; k++) {
      const struct pz_onnx_value *value =
          pz_onnx_value(graph, *pz_vec_at(&graph->inputs, uint32_t, k));
      for (int d = 0; d < value->rank && value->symbols && !found; d++) {
        char place[PLACE_BYTES];
        if (!value->symbols[d]) continue;
        snprintf(place, sizeof place, "%.200s:%d", value->name, d);
        const char *names[] = {value->symbols[d], place};
        size_t length = strcspn(options->dims[i], "=");
        for (int j = 0; j < 2 && !found; j++)
          found = strlen(names[j]) == length && strncmp(options->dims[i], names[j], length) == 0;
      }
    }
    if (!found)
      pz_raise(call, PZ_BAD_USE,
               "--dim %.100s: no input of %s has a symbolic dimension of this name",
               options->dims[i], graph->file);
  }
}

/* Returns the size that an option "NAME=SIZE" (--dim) gives to this name, or 0 if there is none. */
static int64_t size_of_option(const struct pz_workload_options *options, const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < PZ_MOST_DIMS && options->dims[i]; i++)
    if (strncmp(options->dims[i], name, n) == 0 && options->dims[i][n] == '=')
      return strtoll(options->dims[i] + n + 1, NULL, 10);
  return 0;
}

/* Gives a symbolic dimension of an input the size that the user states, or else the microbatch
 * size if it is the batch, or the sequence length if it is the second dimension of token ids. */
static void bind_dimension(struct pz_call *call, const struct pz_onnx_graph *graph,
                           const struct pz_workload_options *options, struct pz_onnx_value *value,
                           int axis) {
  const char *name = value->symbols[axis];
  char place[PLACE_BYTES];
  snprintf(place, sizeof place, "%.200s:%d", value->name, axis);
  int64_t size = size_of_option(options, place);
  if (!size) size = size_of_option(options, name);
  bool batch = axis == 0;
  if (options->batch_dim)
    batch = strcmp(options->batch_dim, name) == 0 || strcmp(options->batch_dim, place) == 0;
  if (!size && batch) size = options->mbs;
  bool is_index = value->type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
                  value->type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
  bool is_sequence = axis == 1 && value->rank == 2 && is_index;
  if (!size && is_sequence) size = options->seq;
  if (!size)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: input '%.120s' has a symbolic dimension '%.80s' (axis %d); accepted with "
             "--dim %.80s=SIZE%s",
             graph->file, value->name, name, axis, name[0] == '?' ? place : name,
             axis == 1 && value->rank == 2 ? " or --seq" : "");
  value->dim[axis] = size;
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* The dimensions of a value.  The rank is negative if they are unknown or impossible. */
struct shape {
  int rank;
  int64_t dim[PZ_ONNX_MOST_RANK];
};

enum { UNKNOWN_RANK = -1, IMPOSSIBLE_RANK = -2 };
static const struct shape unknown = {.rank = UNKNOWN_RANK};
/* The shape of a result if ONNX does not define the operator for its inputs. */
static const struct shape impossible = {.rank = IMPOSSIBLE_RANK};

/* Returns the shape of input i of a node, which is unknown if the input is absent. */
static struct shape input_shape(const struct pz_onnx_node *node, uint32_t i) {
  const struct pz_onnx_value *value = pz_onnx_input(node, i);
  struct shape shape = {.rank = value ? value->rank : UNKNOWN_RANK};
  for (int d = 0; d < shape.rank; d++) shape.dim[d] = value->dim[d];
  return shape;
}

/* Returns the shape whose dimensions are the elements of input i, or `unknown` unless they are
 * known. */
static struct shape shape_from_contents(const struct pz_onnx_node *node, uint32_t i) {
  const struct pz_onnx_value *value = pz_onnx_input(node, i);
  if (!value || !value->ints || value->n_ints > PZ_ONNX_MOST_RANK) return unknown;
  struct shape output = {.rank = (int)value->n_ints};
  for (int d = 0; d < output.rank; d++) output.dim[d] = value->ints[d];
  return output;
}

/* Returns the attribute `axis`, counted from the front, or -1 if the shape is unknown or the axis
 * is out of range.  `absent` is its default in ONNX. */
static int axis_attribute(const struct pz_onnx_node *node, const struct shape *shape,
                          int64_t absent) {
  if (shape->rank < 0) return -1;
  return pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", absent), shape->rank);
}

/* Returns whether a shape is known and all its dimensions have a valid size. */
static bool is_known(const struct shape *shape) {
  if (shape->rank < 0) return false;
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] < 0 || shape->dim[i] > PZ_ONNX_MOST_DIM) return false;
  return true;
}

/* Sets *product to the product of dimensions [from, to).  Returns false if it overflows. */
static bool multiply_dimensions(const struct shape *shape, int from, int to, int64_t *product) {
  *product = 1;
  for (int i = from; i < to; i++)
    if (!pz_mul(product, shape->dim[i])) return false;
  return true;
}

/* Returns the shape of the result if two operands are broadcast to each other. */
static struct shape broadcast(struct shape left, struct shape right) {
  if (left.rank < 0 || right.rank < 0) return unknown;
  struct shape output = {.rank = left.rank > right.rank ? left.rank : right.rank};
  for (int i = 0; i < output.rank; i++) {
    int left_axis = i - (output.rank - left.rank), right_axis = i - (output.rank - right.rank);
    int64_t left_size = left_axis < 0 ? 1 : left.dim[left_axis];
    int64_t right_size = right_axis < 0 ? 1 : right.dim[right_axis];
    if (left_size != right_size && left_size != 1 && right_size != 1) return impossible;
    output.dim[i] = left_size == 1 ? right_size : left_size;
  }
  return output;
}

/* ---- rules: element-wise operators and products --------------------------------------------- */

/* The result has the shape to which all inputs are broadcast. */
static struct shape rule_broadcast(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  for (uint32_t i = 1; i < node->n_in; i++) output = broadcast(output, input_shape(node, i));
  return output;
}

/* The outer dimensions are broadcast.  The rows are those of the left operand, and the columns
 * those of the right one. */
static struct shape rule_matmul(const struct pz_onnx_node *node) {
  struct shape left = input_shape(node, 0), right = input_shape(node, 1);
  if (left.rank < 1 || right.rank < 1) return unknown;
  struct shape outer_left = left, outer_right = right;
  outer_left.rank = left.rank > 2 ? left.rank - 2 : 0;
  outer_right.rank = right.rank > 2 ? right.rank - 2 : 0;
  struct shape output = broadcast(outer_left, outer_right);
  int64_t right_rows = right.dim[right.rank > 1 ? right.rank - 2 : 0];
  if (output.rank < 0 || left.dim[left.rank - 1] != right_rows) return impossible;
  if (output.rank > PZ_ONNX_MOST_RANK - 2) return unknown;
  if (left.rank > 1) output.dim[output.rank++] = left.dim[left.rank - 2];
  if (right.rank > 1) output.dim[output.rank++] = right.dim[right.rank - 1];
  return output;
}

/* The result has the rows of the left operand and the columns of the right one, each after its
 * transposition. */
static struct shape rule_gemm(const struct pz_onnx_node *node) {
  struct shape left = input_shape(node, 0), right = input_shape(node, 1);
  if (left.rank < 0 || right.rank < 0) return unknown;
  if (left.rank != 2 || right.rank != 2) return impossible;
  bool transpose_a = pz_onnx_int_attribute(node, "transA", 0);
  bool transpose_b = pz_onnx_int_attribute(node, "transB", 0);
  if (left.dim[transpose_a ? 0 : 1] != right.dim[transpose_b ? 1 : 0]) return impossible;
  return (struct shape){2, {left.dim[transpose_a ? 1 : 0], right.dim[transpose_b ? 0 : 1]}};
}

/* The result has the dimensions whose letters follow "->" in the equation. */
static struct shape rule_einsum(const struct pz_onnx_node *node) {
  struct pz_onnx_einsum einsum;
  if (!pz_onnx_einsum_read(node, &einsum)) return unknown;
  struct shape output = {.rank = einsum.out.rank};
  for (int i = 0; i < output.rank; i++) output.dim[i] = einsum.size[einsum.out.letter[i]];
  return output;
}

/* ---- rules: convolutions and pooling -------------------------------------------------------- */

enum { MOST_WINDOW = 1 << 24 }; /* largest stride, dilation, kernel and padding */

/* Counts the positions of a window along spatial axis `axis` of `n_spatial`, which has `size`
 * input elements.  With automatic padding (SAME), there are ceil(size / stride).  Returns false if
 * there are none. */
static bool count_windows(const struct pz_onnx_node *node, int n_spatial, int axis, int64_t size,
                          int64_t kernel, int64_t *count) {
  size_t n_pads, n_strides, n_dilations;
  const int64_t *pads = pz_onnx_ints_attribute(node, "pads", &n_pads);
  const int64_t *strides = pz_onnx_ints_attribute(node, "strides", &n_strides);
  const int64_t *dilations = pz_onnx_ints_attribute(node, "dilations", &n_dilations);
  int64_t stride = axis < (int)n_strides ? strides[axis] : 1;
  int64_t dilation = axis < (int)n_dilations ? dilations[axis] : 1;
  if (stride < 1 || stride > MOST_WINDOW) return false;
  if (dilation < 1 || dilation > MOST_WINDOW) return false;
  if (kernel < 1 || kernel > MOST_WINDOW) return false;
  const Onnx__AttributeProto *auto_pad = pz_onnx_attribute(node, "auto_pad");
  const size_t length = strlen("SAME_UPPER");
  bool may_be_same = auto_pad && auto_pad->has_s && auto_pad->s.len == length;
  bool is_same = may_be_same && (memcmp(auto_pad->s.data, "SAME_UPPER", length) == 0 ||
                                 memcmp(auto_pad->s.data, "SAME_LOWER", length) == 0);
  if (is_same) {
    *count = pz_ceil_div(size, stride);
    return true;
  }
  int64_t padding = 0;
  if ((int)n_pads == 2 * n_spatial) {
    int64_t before = pads[axis], after = pads[axis + n_spatial];
    if (before < -MOST_WINDOW || before > MOST_WINDOW) return false;
    if (after < -MOST_WINDOW || after > MOST_WINDOW) return false;
    padding = before + after;
  }
  int64_t room = size + padding - ((kernel - 1) * dilation + 1);
  if (room < 0) return false;
  bool round_up = pz_onnx_int_attribute(node, "ceil_mode", 0);
  *count = (round_up ? pz_ceil_div(room, stride) : room / stride) + 1;
  return true;
}

/* The result has the output channels of the weight, and one element for each position of the
 * kernel. */
static struct shape rule_conv(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), weight = input_shape(node, 1), output = input;
  int64_t channels = weight.rank > 1 ? weight.dim[1] : 0;
  if (input.rank < 0 || weight.rank < 0) return unknown;
  if (input.rank < 3 || weight.rank != input.rank) return impossible;
  if (!pz_mul(&channels, pz_onnx_int_attribute(node, "group", 1)) || channels != input.dim[1])
    return impossible;
  output.dim[1] = weight.dim[0];
  for (int i = 2; i < input.rank; i++)
    if (!count_windows(node, input.rank - 2, i - 2, input.dim[i], weight.dim[i], &output.dim[i]))
      return impossible;
  return output;
}

/* A spatial dimension has stride (in - 1) + kernel + output_padding - padding elements, unless the
 * attribute output_shape states it. */
static struct shape rule_conv_transpose(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), weight = input_shape(node, 1), output = input;
  if (input.rank < 0 || weight.rank < 0) return unknown;
  if (input.rank < 3 || weight.rank != input.rank || weight.dim[0] != input.dim[1])
    return impossible;
  size_t n_pads, n_strides, n_more, n_stated;
  const int64_t *pads = pz_onnx_ints_attribute(node, "pads", &n_pads);
  const int64_t *strides = pz_onnx_ints_attribute(node, "strides", &n_strides);
  const int64_t *more = pz_onnx_ints_attribute(node, "output_padding", &n_more);
  const int64_t *stated = pz_onnx_ints_attribute(node, "output_shape", &n_stated);
  int n_spatial = input.rank - 2;
  output.dim[1] = weight.dim[1];
  if (!pz_mul(&output.dim[1], pz_onnx_int_attribute(node, "group", 1))) return unknown;
  for (int i = 0; i < n_spatial; i++) {
    int64_t size = input.dim[i + 2] - 1;
    bool fits = pz_mul(&size, i < (int)n_strides ? strides[i] : 1);
    fits = fits && pz_add(&size, weight.dim[i + 2]);
    if (i < (int)n_more) fits = fits && pz_add(&size, more[i]);
    if ((int)n_pads == 2 * n_spatial)
      for (int k = i; k < 2 * n_spatial; k += n_spatial)
        fits = fits && pads[k] > -PZ_ONNX_MOST_DIM && pz_add(&size, -pads[k]);
    if (!fits) return unknown;
    output.dim[i + 2] = (int)n_stated == n_spatial ? stated[i] : size;
  }
  return output;
}

/* Spatial dimensions have one element for each position of the window; the batch and the channels
 * are kept. */
static struct shape rule_pool(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = input;
  size_t n_kernel;
  const int64_t *kernel = pz_onnx_ints_attribute(node, "kernel_shape", &n_kernel);
  if (input.rank < 0) return unknown;
  if (input.rank < 3 || (int)n_kernel != input.rank - 2) return impossible;
  for (int i = 2; i < input.rank; i++)
    if (!count_windows(node, input.rank - 2, i - 2, input.dim[i], kernel[i - 2], &output.dim[i]))
      return impossible;
  return output;
}

/* All spatial dimensions, which follow the batch and the channels, become 1. */
static struct shape rule_global_pool(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  for (int i = 2; i < output.rank; i++) output.dim[i] = 1;
  return output;
}

/* Raises an error if strides, dilations or kernels of a convolution or pooling are invalid for any
 * input. */
static void check_windows(struct pz_call *call, const struct pz_onnx_node *node) {
  static const char *const names[] = {"strides", "dilations", "kernel_shape"};
  enum pz_onnx_shape_rule rule = node->op->shape;
  if (rule != PZ_SHAPE_CONV && rule != PZ_SHAPE_CONV_TRANSPOSE && rule != PZ_SHAPE_POOL) return;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    size_t count;
    const int64_t *list = pz_onnx_ints_attribute(node, names[k], &count);
    for (size_t i = 0; i < count; i++)
      if (list[i] < 1 || list[i] > MOST_WINDOW)
        pz_onnx_raise(call, node, PZ_BAD_INPUT, "%s has %" PRId64 "; accepted: 1 to %d", names[k],
                      list[i], MOST_WINDOW);
  }
}

/* ---- rules: reductions and changes of the layout -------------------------------------------- */

/* Reductions over the axes of an attribute or input, and ArgMax and ArgMin over one axis, drop
 * these axes, or keep them with size 1. */
static struct shape rule_reduce(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = {0};
  bool arg = node->op->shape == PZ_SHAPE_ARG;
  bool keep = pz_onnx_int_attribute(node, "keepdims", 1) != 0;
  bool reduced[PZ_ONNX_MOST_RANK] = {false};
  size_t count = 1;
  int64_t arg_axis = pz_onnx_int_attribute(node, "axis", 0);
  const int64_t *axes = &arg_axis;
  const struct pz_onnx_value *axes_input = pz_onnx_input(node, 1);
  bool has_unknown_axes = !arg && axes_input && !axes_input->ints;
  if (input.rank < 0 || has_unknown_axes) return unknown;
  if (!arg) axes = pz_onnx_ints_argument(node, "axes", 1, &count);
  if (!count && pz_onnx_int_attribute(node, "noop_with_empty_axes", 0)) return input;
  for (int i = 0; i < input.rank; i++) reduced[i] = count == 0;
  for (size_t i = 0; i < count; i++) {
    int axis = pz_onnx_axis_from_front(axes[i], input.rank);
    if (axis < 0) return unknown;
    reduced[axis] = true;
  }
  for (int i = 0; i < input.rank; i++)
    if (!reduced[i] || keep) output.dim[output.rank++] = reduced[i] ? 1 : input.dim[i];
  return output;
}

/* The second input states the new shape, in which 0 copies a dimension (unless allowzero is set),
 * and one -1 is inferred. */
static struct shape rule_reshape(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = shape_from_contents(node, 1);
  if (input.rank < 0 || output.rank < 0) return unknown;
  bool zero_is_size = pz_onnx_int_attribute(node, "allowzero", 0) != 0;
  int inferred = -1;
  int64_t all, others = 1;
  for (int i = 0; i < output.rank; i++) {
    if (output.dim[i] == 0 && !zero_is_size && i < input.rank) output.dim[i] = input.dim[i];
    if (output.dim[i] == -1 && inferred < 0)
      inferred = i;
    else if (!pz_mul(&others, output.dim[i]))
      return unknown;
  }
  if (!multiply_dimensions(&input, 0, input.rank, &all)) return unknown;
  if (inferred < 0) return others == all ? output : impossible;
  if (others <= 0 || all % others) return impossible;
  output.dim[inferred] = all / others;
  return output;
}

/* Merges the dimensions before the axis, and those from the axis on. */
static struct shape rule_flatten(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = {.rank = 2};
  int64_t axis = pz_onnx_int_attribute(node, "axis", 1);
  if (axis < 0) axis += input.rank;
  if (input.rank < 0 || axis < 0 || axis > input.rank) return unknown;
  bool fits = multiply_dimensions(&input, 0, (int)axis, &output.dim[0]) &&
              multiply_dimensions(&input, (int)axis, input.rank, &output.dim[1]);
  return fits ? output : unknown;
}

/* The dimensions are in the order of the attribute `perm`, or reversed without it. */
static struct shape rule_transpose(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = input;
  size_t count;
  const int64_t *perm = pz_onnx_ints_attribute(node, "perm", &count);
  if (input.rank < 0) return unknown;
  if (count && (int)count != input.rank) return impossible;
  for (int i = 0; i < input.rank; i++) {
    int64_t from = count ? perm[i] : input.rank - 1 - i;
    if (from < 0 || from >= input.rank) return impossible;
    output.dim[i] = input.dim[from];
  }
  return output;
}

/* Drops the listed dimensions, or all dimensions of size 1 if none is listed. */
static struct shape rule_squeeze(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = {0};
  size_t count;
  const int64_t *axes = pz_onnx_ints_argument(node, "axes", 1, &count);
  for (int i = 0; i < input.rank; i++) {
    bool dropped = count == 0 && input.dim[i] == 1;
    for (size_t k = 0; k < count; k++)
      dropped = dropped || pz_onnx_axis_from_front(axes[k], input.rank) == i;
    if (!dropped) output.dim[output.rank++] = input.dim[i];
  }
  return input.rank < 0 ? unknown : output;
}

/* Inserts dimensions of size 1 at the listed axes of the result. */
static struct shape rule_unsqueeze(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), output = {0};
  size_t count;
  const int64_t *axes = pz_onnx_ints_argument(node, "axes", 1, &count);
  if (input.rank < 0 || !count || input.rank + (int)count > PZ_ONNX_MOST_RANK) return unknown;
  output.rank = input.rank + (int)count;
  int from = 0;
  for (int i = 0; i < output.rank; i++) {
    bool added = false;
    for (size_t k = 0; k < count; k++)
      added = added || pz_onnx_axis_from_front(axes[k], output.rank) == i;
    if (!added && from >= input.rank) return unknown;
    output.dim[i] = added ? 1 : input.dim[from];
    if (!added) from++;
  }
  return output;
}

/* Blocks of spatial elements become channels (SpaceToDepth), or the reverse (DepthToSpace). */
static struct shape rule_depth(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  int64_t block = pz_onnx_int_attribute(node, "blocksize", 0);
  if (output.rank != 4 || block < 1 || block > 1 << 16) return unknown;
  bool to_space = strcmp(node->type, "DepthToSpace") == 0;
  output.dim[1] = to_space ? output.dim[1] / (block * block) : output.dim[1] * block * block;
  for (int i = 2; i < 4; i++)
    output.dim[i] = to_space ? output.dim[i] * block : output.dim[i] / block;
  return output;
}

/* ---- rules: parts and repetitions ----------------------------------------------------------- */

/* The inputs follow each other along the axis, so that their sizes add up. */
static struct shape rule_concat(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  int axis = axis_attribute(node, &output, 0);
  if (axis < 0) return unknown;
  for (uint32_t i = 1; i < node->n_in; i++) {
    struct shape input = input_shape(node, i);
    if (input.rank != output.rank || input.dim[axis] < 0 ||
        !pz_add(&output.dim[axis], input.dim[axis]))
      return unknown;
  }
  return output;
}

/* Returns the shape of result j of a Split.  Its size is stated, or the axis is divided into
 * num_outputs equal parts, of which the last one may be smaller. */
static struct shape rule_split(const struct pz_onnx_node *node, uint32_t j) {
  struct shape input = input_shape(node, 0);
  int axis = axis_attribute(node, &input, 0);
  size_t count;
  const int64_t *sizes = pz_onnx_ints_argument(node, "split", 1, &count);
  bool has_unknown_sizes = pz_onnx_input(node, 1) && !sizes;
  if (axis < 0 || has_unknown_sizes) return unknown;
  if (sizes && count) {
    if (j >= count) return unknown;
    input.dim[axis] = sizes[j];
    return input;
  }
  int64_t parts = pz_onnx_int_attribute(node, "num_outputs", node->n_out);
  if (parts < 1) return unknown;
  int64_t part = pz_ceil_div(input.dim[axis], parts), rest = input.dim[axis] - part * (int64_t)j;
  input.dim[axis] = rest < part ? rest : part;
  return input;
}

/* Each dimension has the number of elements that the slice selects. */
static struct shape rule_slice(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  struct pz_onnx_range range[PZ_ONNX_MOST_RANK] = {{0, 0, 0}};
  if (!pz_onnx_slice_ranges(node, range)) return unknown;
  for (int d = 0; d < output.rank; d++) output.dim[d] = range[d].count;
  return output;
}

/* The dimensions of the indices replace the axis of the input. */
static struct shape rule_gather(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), indices = input_shape(node, 1), output = {0};
  int axis = axis_attribute(node, &input, 0);
  if (axis < 0 || indices.rank < 0 || input.rank + indices.rank - 1 > PZ_ONNX_MOST_RANK)
    return unknown;
  for (int i = 0; i < axis; i++) output.dim[output.rank++] = input.dim[i];
  for (int i = 0; i < indices.rank; i++) output.dim[output.rank++] = indices.dim[i];
  for (int i = axis + 1; i < input.rank; i++) output.dim[output.rank++] = input.dim[i];
  return output;
}

/* The indices select slices of the input by its leading dimensions. */
static struct shape rule_gather_nd(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), indices = input_shape(node, 1), output = {0};
  int64_t batch = pz_onnx_int_attribute(node, "batch_dims", 0);
  if (input.rank < 1 || indices.rank < 1 || batch < 0 || batch > input.rank) return unknown;
  int64_t indexed = indices.dim[indices.rank - 1] + batch;
  if (indexed < 0 || indexed > input.rank) return unknown;
  if (indices.rank - 1 + input.rank - indexed > PZ_ONNX_MOST_RANK) return unknown;
  for (int i = 0; i < indices.rank - 1; i++) output.dim[output.rank++] = indices.dim[i];
  for (int64_t i = indexed; i < input.rank; i++) output.dim[output.rank++] = input.dim[i];
  return output;
}

/* Each dimension is repeated as often as the second input says. */
static struct shape rule_tile(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0), repeats = shape_from_contents(node, 1);
  if (output.rank != repeats.rank) return unknown;
  for (int i = 0; i < output.rank; i++)
    if (!pz_mul(&output.dim[i], repeats.dim[i])) return unknown;
  return output;
}

/* Adds the padding before and after each dimension, or each listed one. */
static struct shape rule_pad(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  size_t count, n_axes = 0;
  const int64_t *pads = pz_onnx_ints_argument(node, "pads", 1, &count), *axes = NULL;
  if (node->n_in > 3) axes = pz_onnx_ints_argument(node, "axes", 3, &n_axes);
  size_t half = n_axes ? n_axes : (size_t)(output.rank > 0 ? output.rank : 0);
  if (output.rank < 0 || !pads || count != 2 * half) return unknown;
  for (size_t i = 0; i < half; i++) {
    int axis = pz_onnx_axis_from_front(n_axes ? axes[i] : (int64_t)i, output.rank);
    if (axis < 0 || !pz_add(&output.dim[axis], pads[i]) ||
        !pz_add(&output.dim[axis], pads[i + half]))
      return unknown;
  }
  return output;
}

/* The fourth input states the sizes, or they follow from scales (third input; second input before
 * opset 11). */
static struct shape rule_resize(const struct pz_onnx_node *node) {
  struct shape input = input_shape(node, 0), sizes = shape_from_contents(node, 3);
  const struct pz_onnx_value *scales = pz_onnx_input(node, node->n_in > 2 ? 2 : 1);
  if (input.rank < 0) return unknown;
  if (input.rank == sizes.rank && node->n_in > 3) return sizes;
  if (!scales || (int)scales->n_reals != input.rank) return unknown;
  for (int i = 0; i < input.rank; i++) {
    double size = (double)input.dim[i] * scales->reals[i];
    if (!(size >= 0 && size <= (double)PZ_ONNX_MOST_DIM)) return unknown;
    input.dim[i] = (int64_t)size;
  }
  return input;
}

/* ---- rules: results made from numbers ------------------------------------------------------- */

/* Returns the only integer of an input, or NULL if its contents are unknown. */
static const int64_t *known_int(const struct pz_onnx_node *node, uint32_t i) {
  const struct pz_onnx_value *value = pz_onnx_input(node, i);
  return value && value->ints && value->n_ints == 1 ? value->ints : NULL;
}

/* The result has the shape of the tensor or list in the attribute, or is a scalar. */
static struct shape rule_constant(const struct pz_onnx_node *node) {
  const Onnx__AttributeProto *tensor = pz_onnx_attribute(node, "value");
  const Onnx__AttributeProto *ints = pz_onnx_attribute(node, "value_ints");
  const Onnx__AttributeProto *floats = pz_onnx_attribute(node, "value_floats");
  struct shape output = {0};
  if (tensor && tensor->t) {
    if (tensor->t->n_dims > PZ_ONNX_MOST_RANK) return unknown;
    output.rank = (int)tensor->t->n_dims;
    for (int i = 0; i < output.rank; i++) output.dim[i] = tensor->t->dims[i];
    return output;
  }
  if (ints) return (struct shape){1, {(int64_t)ints->n_ints}};
  if (floats) return (struct shape){1, {(int64_t)floats->n_floats}};
  bool scalar = pz_onnx_attribute(node, "value_int") || pz_onnx_attribute(node, "value_float");
  return scalar ? output : unknown;
}

/* The result has ceil((limit - start) / step) numbers. */
static struct shape rule_range(const struct pz_onnx_node *node) {
  const int64_t *start = known_int(node, 0), *limit = known_int(node, 1),
                *delta = known_int(node, 2);
  if (!start || !limit || !delta) return unknown;
  int64_t distance = *limit, step = *delta;
  if (step == 0 || step == INT64_MIN || *start == INT64_MIN) return unknown;
  if (!pz_add(&distance, -*start)) return unknown;
  if (step < 0) {
    distance = distance == INT64_MIN ? INT64_MAX : -distance;
    step = -step;
  }
  return (struct shape){1, {distance > 0 ? pz_ceil_div(distance, step) : 0}};
}

/* The axis has as many elements as the second input says. */
static struct shape rule_topk(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  const int64_t *k = known_int(node, 1);
  int axis = axis_attribute(node, &output, -1);
  if (axis < 0 || !k) return unknown;
  output.dim[axis] = *k;
  return output;
}

/* Inserts a dimension of size `depth` at the axis. */
static struct shape rule_one_hot(const struct pz_onnx_node *node) {
  struct shape output = input_shape(node, 0);
  const int64_t *depth = known_int(node, 1);
  if (output.rank < 0 || output.rank >= PZ_ONNX_MOST_RANK || !depth) return unknown;
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", -1), output.rank + 1);
  if (axis < 0) return unknown;
  for (int i = output.rank; i > axis; i--) output.dim[i] = output.dim[i - 1];
  output.dim[axis] = *depth;
  output.rank++;
  return output;
}

/* The number of nonzero elements depends on contents.  It is known for tensors of ones, whose
 * elements exporters count with this operator. */
static struct shape rule_non_zero(const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  int64_t count = 0;
  if (!input || input->rank < 0) return unknown;
  for (uint32_t i = 0; input->ints && i < input->n_ints; i++) count += input->ints[i] != 0;
  bool all_count = !input->ints && pz_onnx_is_nonzero_fill(node->graph, input) &&
                   pz_onnx_count_elements(input, &count);
  if (!input->ints && !all_count) return unknown;
  return (struct shape){2, {input->rank, count}};
}

/* The result is a vector with an element for each dimension of the input from `start` to `end`. */
static struct shape rule_shape(const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  if (!input || input->rank < 0) return unknown;
  int64_t start = pz_onnx_int_attribute(node, "start", 0);
  int64_t end = pz_onnx_int_attribute(node, "end", input->rank);
  start = pz_onnx_clamp(start, input->rank, 0, input->rank);
  end = pz_onnx_clamp(end, input->rank, 0, input->rank);
  return (struct shape){1, {end > start ? end - start : 0}};
}

/* ---- inference ------------------------------------------------------------------------------ */

/* A rule returns the shape of the first result of a node. */
typedef struct shape shape_rule(const struct pz_onnx_node *node);

static shape_rule *const rules[] = {
#define SHAPE(name, rule) rule,
#include "onnx/shape_rules.def"
};

/* Returns the shape of result j of a node. */
static struct shape infer_shape(const struct pz_onnx_node *node, uint32_t j) {
  enum pz_onnx_shape_rule rule = node->op->shape;
  if (rule == PZ_SHAPE_SPLIT) return rule_split(node, j);
  /* Further results of norms are statistics.  Those of TopK, pooling and Dropout have the shape of
   * the first result. */
  bool like_first =
      rule == PZ_SHAPE_TOPK || rule == PZ_SHAPE_POOL || node->op->kind == PZ_OP_DROPOUT;
  if (j > 0 && !like_first) return unknown;
  switch (rule) {
  case PZ_SHAPE_SAME: return input_shape(node, 0);
  case PZ_SHAPE_INDEXED: return input_shape(node, 1);
  case PZ_SHAPE_EXPAND: return broadcast(input_shape(node, 0), shape_from_contents(node, 1));
  case PZ_SHAPE_FILLED: return shape_from_contents(node, 0);
  case PZ_SHAPE_SCALAR: return (struct shape){0};
  default: return rules[rule] ? rules[rule](node) : unknown;
  }
}

/* Returns the element type (TensorProto.DataType) of result j, or 0 if it is unknown.  Only whether
 * it is floating-point matters. */
static int infer_type(const struct pz_onnx_node *node, uint32_t j) {
  const struct pz_onnx_value *like = pz_onnx_input(node, 0);
  enum pz_onnx_shape_rule rule = node->op->shape;
  if (strcmp(node->type, "Cast") == 0) return (int)pz_onnx_int_attribute(node, "to", 0);
  bool index = rule == PZ_SHAPE_SHAPE || rule == PZ_SHAPE_SCALAR || rule == PZ_SHAPE_ARG ||
               rule == PZ_SHAPE_NON_ZERO || (rule == PZ_SHAPE_TOPK && j == 1);
  if (index) return ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  bool compares = node->op->lower == PZ_LOWER_DATA && node->op->elementwise;
  if (compares) return ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
  if (rule == PZ_SHAPE_FILLED) {
    const Onnx__AttributeProto *value = pz_onnx_attribute(node, "value");
    return value && value->t ? value->t->data_type : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  }
  if (strcmp(node->type, "Where") == 0 || strcmp(node->type, "CastLike") == 0)
    like = pz_onnx_input(node, 1);
  if (rule == PZ_SHAPE_ONE_HOT) like = pz_onnx_input(node, 2);
  return like ? like->type : 0;
}

/* Sets the contents of a Constant.  It is treated as an initializer, because some exporters store
 * weights in this way. */
static void read_constant(struct pz_call *call, const struct pz_onnx_node *node) {
  struct pz_onnx_value *value = pz_onnx_result(node, 0);
  if (node->op->shape != PZ_SHAPE_CONSTANT || !value) return;
  value->initializer = true;
  const Onnx__AttributeProto *tensor = pz_onnx_attribute(node, "value");
  const Onnx__AttributeProto *ints = pz_onnx_attribute(node, "value_ints");
  const Onnx__AttributeProto *one_int = pz_onnx_attribute(node, "value_int");
  const Onnx__AttributeProto *one_float = pz_onnx_attribute(node, "value_float");
  if (tensor && tensor->t) {
    value->type = tensor->t->data_type;
    if (value->rank >= 0) pz_onnx_read_contents(call, value, tensor->t);
    return;
  }
  if (ints && ints->n_ints <= PZ_ONNX_MOST_INTS) {
    value->ints = ints->ints;
    value->n_ints = (uint32_t)ints->n_ints;
  }
  if (one_int) pz_onnx_set_ints(value, &one_int->i, 1);
  if (one_float) {
    value->has_real = true;
    value->real = (double)one_float->f;
  }
}

/* Writes the sizes of `rank` dimensions as "[1, 8]" into buf and returns buf. */
static const char *spell_shape(char *buf, size_t size, int rank, const int64_t *dim) {
  int used = snprintf(buf, size, "[");
  for (int i = 0; i < rank && used < (int)size; i++)
    used += snprintf(buf + used, size - (size_t)used, "%s%" PRId64, i ? ", " : "", dim[i]);
  snprintf(buf + used, used < (int)size ? size - (size_t)used : 0, "]");
  return buf;
}

/* Infers the shapes, types and contents of the results of a node. */
static void infer_node(struct pz_call *call, const struct pz_onnx_node *node) {
  enum { LONGEST_SHAPE = 24 * PZ_ONNX_MOST_RANK }; /* a size has at most 20 characters */
  check_windows(call, node);
  for (uint32_t j = 0; j < node->n_out; j++) {
    struct pz_onnx_value *value = pz_onnx_result(node, j);
    if (!value) continue;
    if (!value->type) value->type = infer_type(node, j);
    struct shape shape = infer_shape(node, j);
    if (shape.rank == IMPOSSIBLE_RANK) {
      char inputs[300];
      pz_onnx_spell_inputs(node, inputs, sizeof inputs);
      pz_onnx_raise(call, node, PZ_BAD_INPUT,
                    "a result's shape does not follow from its inputs (%s); accepted: inputs "
                    "that ONNX defines it for",
                    inputs);
    }
    if (value->shape_stated) { /* the file must not state another shape than the inferred one */
      bool same = shape.rank == value->rank;
      for (int i = 0; i < shape.rank && same; i++) same = shape.dim[i] == value->dim[i];
      if (same || !is_known(&shape)) continue;
      char stated[LONGEST_SHAPE], inferred[LONGEST_SHAPE];
      pz_onnx_raise(call, node, PZ_BAD_INPUT,
                    "the file states the shape %s of '%.120s', its inputs %s; accepted: the same",
                    spell_shape(stated, sizeof stated, value->rank, value->dim), value->name,
                    spell_shape(inferred, sizeof inferred, shape.rank, shape.dim));
    }
    if (!is_known(&shape)) shape = unknown;
    value->rank = shape.rank;
    for (int i = 0; i < shape.rank; i++) value->dim[i] = shape.dim[i];
  }
  read_constant(call, node);
  pz_onnx_follow_contents(call, node);
}

/* Nodes are in topological order, so that the shapes of their inputs are known. */
void pz_onnx_infer_shapes(struct pz_call *call, struct pz_onnx_graph *graph,
                          const struct pz_workload_options *options) {
  check_dim_options(call, graph, options);
  for (uint32_t i = 0; i < graph->inputs.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, *pz_vec_at(&graph->inputs, uint32_t, i));
    for (int d = 0; d < value->rank && !value->initializer; d++)
      if (value->dim[d] < 0) bind_dimension(call, graph, options, value, d);
    value->shape_stated = true;
  }
  for (uint32_t i = 0; i < graph->nodes.n; i++) infer_node(call, pz_onnx_node(graph, i));
}
