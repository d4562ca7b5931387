/* Constant folding of small tensors, from which exporters compute shapes inside the graph.
 *
 * pz_onnx_follow_contents() is called after the shapes of a node's results are known.  It computes
 * the contents of the results if those of the inputs are known, which are integers or a few real
 * numbers.  Other contents stay unknown, which is never an error. */
#include <math.h>

#include "core/num.h"
#include "onnx/passes.h"

/* ---- contents ------------------------------------------------------------------------------- */

/* Known contents of a value, as integers or as real numbers; n is 0 if they are unknown. */
struct contents {
  const int64_t *ints;
  const double *reals;
  int64_t n;
};

/* Returns the contents of a value if all of them are known, and otherwise contents with n = 0.  The
 * value may be NULL. */
static struct contents known_contents(const struct pz_onnx_value *value) {
  int64_t n;
  if (!value || value->rank < 0 || !pz_onnx_count_elements(value, &n) || n < 1)
    return (struct contents){0};
  if (value->ints && value->n_ints == n) return (struct contents){value->ints, NULL, n};
  if (value->reals && value->n_reals == n) return (struct contents){NULL, value->reals, n};
  if (value->has_real && n == 1) return (struct contents){NULL, &value->real, 1};
  return (struct contents){0};
}

/* Contents of a result that are being computed, as integers or as real numbers. */
struct new_contents {
  struct pz_onnx_value *output;
  int64_t *ints;
  double *reals;
  int64_t n; /* number of elements, or 0 if they are too many to be followed */
};

/* Allocates the contents of a result, as real numbers (`real`) or as integers.  Their n is 0 if the
 * elements are too many to be followed; then nothing is computed. */
static struct new_contents allocate_contents(struct pz_call *call, struct pz_onnx_value *output,
                                             bool real) {
  struct new_contents contents = {.output = output};
  int64_t most = real ? PZ_ONNX_MOST_RANK : PZ_ONNX_MOST_INTS;
  bool is_countable = output->rank >= 0 && pz_onnx_count_elements(output, &contents.n);
  if (!is_countable || contents.n > most) contents.n = 0;
  if (real)
    contents.reals = pz_alloc(call, (size_t)contents.n, sizeof *contents.reals);
  else
    contents.ints = pz_alloc(call, (size_t)contents.n, sizeof *contents.ints);
  return contents;
}

/* Stores computed contents in the result. */
static void store_contents(const struct new_contents *contents) {
  struct pz_onnx_value *output = contents->output;
  if (contents->ints) {
    pz_onnx_set_ints(output, contents->ints, contents->n);
    return;
  }
  output->reals = contents->reals;
  output->n_reals = (uint32_t)contents->n;
  output->has_real = contents->n == 1;
  if (contents->n == 1) output->real = contents->reals[0];
}

/* ---- element maps --------------------------------------------------------------------------- */

/* Maps the elements of a result to those elements of an operand from which they are copied. */
struct element_map {
  int rank;
  int64_t dim[PZ_ONNX_MOST_RANK]; /* shape of the result */
  /* distance in the operand between neighbours along each dimension of the result */
  int64_t step[PZ_ONNX_MOST_RANK];
  int64_t first; /* index in the operand of the first element of the result */
};

/* Returns the index in the operand from which element i of the result is copied. */
static int64_t mapped_index(const struct element_map *map, int64_t i) {
  int64_t index = map->first;
  for (int d = map->rank - 1; d >= 0; d--) {
    index += i % map->dim[d] * map->step[d];
    i /= map->dim[d];
  }
  return index;
}

/* Returns the distance, in elements, between neighbours along a dimension of a tensor in row-major
 * order. */
static int64_t stride(const struct pz_onnx_value *input, int dim) {
  int64_t n = 1;
  for (int i = dim + 1; i < input->rank; i++) n *= input->dim[i];
  return n;
}

/* Returns the map from the elements of a result to those of an input that is broadcast to the shape
 * of the result. */
static struct element_map broadcast_map(const struct pz_onnx_value *input,
                                        const struct pz_onnx_value *output) {
  struct element_map map = {.rank = output->rank};
  for (int d = 0; d < output->rank; d++) {
    int i = d - (output->rank - input->rank);
    map.dim[d] = output->dim[d];
    map.step[d] = i >= 0 && input->dim[i] > 1 ? stride(input, i) : 0;
  }
  return map;
}

/* Copies the known contents of an input to the result through an element map. */
static void copy_mapped(struct pz_call *call, const struct pz_onnx_value *input,
                        const struct element_map *map, struct pz_onnx_value *output) {
  struct contents from = known_contents(input);
  if (!from.n || output->rank != map->rank) return;
  struct new_contents to = allocate_contents(call, output, !from.ints);
  for (int64_t i = 0; i < to.n; i++) {
    int64_t index = mapped_index(map, i);
    if (index < 0 || index >= from.n) return;
    if (to.ints)
      to.ints[i] = from.ints[index];
    else
      to.reals[i] = from.reals[index];
  }
  store_contents(&to);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

/* Computes `left` OP `right` for integers; `type` is the operator type of ONNX. Returns false if it
 * is unknown or the result is undefined. */
static bool combine_ints(const char *type, int64_t left, int64_t right, int64_t *result) {
  *result = left;
  if (strcmp(type, "Add") == 0) return pz_add(result, right);
  if (strcmp(type, "Sub") == 0) return right != INT64_MIN && pz_add(result, -right);
  if (strcmp(type, "Mul") == 0) return pz_mul(result, right);
  bool divides = right != 0 && !(left == INT64_MIN && right == -1);
  if (strcmp(type, "Div") == 0) {
    *result = divides ? left / right : 0;
    return divides;
  }
  if (strcmp(type, "Mod") == 0) {
    *result = divides ? left % right : 0;
    bool other_sign = *result != 0 && (*result < 0) != (right < 0);
    if (other_sign) *result += right; /* the result has the sign of the divisor */
    return divides;
  }
  if (strcmp(type, "Max") == 0)
    *result = pz_max(left, right);
  else if (strcmp(type, "Min") == 0)
    *result = pz_min(left, right);
  else if (strcmp(type, "And") == 0)
    *result = left && right;
  else if (strcmp(type, "Or") == 0)
    *result = left || right;
  else
    return false;
  return true;
}

/* Computes `left` OP `right` for real numbers.  Returns false if the operator `type` is unknown or
 * the result is undefined. */
static bool combine_reals(const char *type, double left, double right, double *result) {
  bool divides = strcmp(type, "Div") == 0, raises = strcmp(type, "Pow") == 0;
  if (strcmp(type, "Add") == 0)
    *result = left + right;
  else if (strcmp(type, "Sub") == 0)
    *result = left - right;
  else if (strcmp(type, "Mul") == 0)
    *result = left * right;
  else if (divides)
    *result = left / right;
  else if (raises)
    *result = pow(left, right);
  else if (strcmp(type, "Max") == 0)
    *result = left > right ? left : right;
  else if (strcmp(type, "Min") == 0)
    *result = left < right ? left : right;
  else
    return false;
  if (divides) return right < 0 || right > 0;
  return !raises || isfinite(*result);
}

/* Computes the comparison `left` OP `right`; `type` is the operator type of ONNX. Returns false if
 * it is no comparison. */
static bool compare_reals(const char *type, double left, double right, int64_t *result) {
  if (strcmp(type, "Equal") == 0)
    *result = !(left < right) && !(left > right);
  else if (strcmp(type, "Greater") == 0)
    *result = left > right;
  else if (strcmp(type, "GreaterOrEqual") == 0)
    *result = left >= right;
  else if (strcmp(type, "Less") == 0)
    *result = left < right;
  else if (strcmp(type, "LessOrEqual") == 0)
    *result = left <= right;
  else
    return false;
  return true;
}

/* Applies an operator of one operand to a real number.  Returns false if the operator `type` is
 * unknown or the result is undefined. */
static bool apply_to_real(const char *type, double operand, double *result) {
  bool is_root = strcmp(type, "Sqrt") == 0, inverts = strcmp(type, "Reciprocal") == 0;
  if (strcmp(type, "Floor") == 0)
    *result = floor(operand);
  else if (strcmp(type, "Ceil") == 0)
    *result = ceil(operand);
  else if (strcmp(type, "Round") == 0)
    *result = nearbyint(operand);
  else if (is_root)
    *result = sqrt(operand);
  else if (inverts)
    *result = 1 / operand;
  else if (strcmp(type, "Neg") == 0)
    *result = -operand;
  else
    return false;
  if (is_root) return operand >= 0;
  return !inverts || operand < 0 || operand > 0;
}

/* Computes an operator of one operand, such as Neg or Sqrt, for every element. */
static void fold_unary(struct pz_call *call, const struct pz_onnx_node *node,
                       struct pz_onnx_value *output) {
  struct contents operand = known_contents(pz_onnx_input(node, 0));
  double ignored;
  bool negates = strcmp(node->type, "Neg") == 0, inverts = strcmp(node->type, "Not") == 0;
  bool applies = operand.ints ? negates || inverts : apply_to_real(node->type, 1, &ignored);
  if (!operand.n || !applies) return;
  struct new_contents result = allocate_contents(call, output, !operand.ints);
  for (int64_t i = 0; i < result.n; i++) {
    if (!operand.ints) {
      if (!apply_to_real(node->type, operand.reals[i], &result.reals[i])) return;
    } else if (inverts) {
      result.ints[i] = !operand.ints[i];
    } else {
      result.ints[i] = operand.ints[i] == INT64_MIN ? INT64_MAX : -operand.ints[i];
    }
  }
  store_contents(&result);
}

/* Computes an operator of two operands, such as Add or Less, for every element, with broadcasting.
 * */
static void fold_binary(struct pz_call *call, const struct pz_onnx_node *node,
                        struct pz_onnx_value *output) {
  const struct pz_onnx_value *left_value = pz_onnx_input(node, 0);
  const struct pz_onnx_value *right_value = pz_onnx_input(node, 1);
  struct contents left = known_contents(left_value), right = known_contents(right_value);
  if (node->n_in != 2 || !left.n || !right.n) return;
  if (output->rank < left_value->rank || output->rank < right_value->rank) return;
  int64_t ignored;
  bool compares = compare_reals(node->type, 0, 0, &ignored);
  bool real = !compares && !(left.ints && right.ints);
  struct new_contents result = allocate_contents(call, output, real);
  struct element_map left_map = broadcast_map(left_value, output),
                     right_map = broadcast_map(right_value, output);
  for (int64_t i = 0; i < result.n; i++) {
    int64_t left_index = mapped_index(&left_map, i);
    int64_t right_index = mapped_index(&right_map, i);
    bool valid;
    if (left_index >= left.n || right_index >= right.n) return;
    if (compares)
      valid = compare_reals(
          node->type, left.ints ? (double)left.ints[left_index] : left.reals[left_index],
          right.ints ? (double)right.ints[right_index] : right.reals[right_index], &result.ints[i]);
    else if (real)
      valid = combine_reals(node->type,
                            left.ints ? (double)left.ints[left_index] : left.reals[left_index],
                            right.ints ? (double)right.ints[right_index] : right.reals[right_index],
                            &result.reals[i]);
    else
      valid =
          combine_ints(node->type, left.ints[left_index], right.ints[right_index], &result.ints[i]);
    if (!valid) return;
  }
  store_contents(&result);
}

/* Computes Where(condition, a, b) for integers. */
static void fold_where(struct pz_call *call, const struct pz_onnx_node *node,
                       struct pz_onnx_value *output) {
  struct contents in[3];
  struct element_map map[3];
  for (uint32_t i = 0; i < 3; i++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, i);
    in[i] = known_contents(value);
    if (!in[i].n || !in[i].ints || value->rank > output->rank) return;
    map[i] = broadcast_map(value, output);
  }
  struct new_contents result = allocate_contents(call, output, false);
  for (int64_t i = 0; i < result.n; i++) {
    int64_t index = mapped_index(&map[0], i);
    if (index >= in[0].n) return;
    int chosen = in[0].ints[index] ? 1 : 2;
    index = mapped_index(&map[chosen], i);
    if (index >= in[chosen].n) return;
    result.ints[i] = in[chosen].ints[index];
  }
  store_contents(&result);
}

/* Computes a reduction (ReduceProd, ReduceSum, ReduceMax, ReduceMin) of all elements to one
 * integer. */
static void fold_reduction(struct pz_call *call, const struct pz_onnx_node *node,
                           struct pz_onnx_value *output) {
  static const char *const combined_by[][2] = {
      {"ReduceProd", "Mul"}, {"ReduceSum", "Add"}, {"ReduceMax", "Max"}, {"ReduceMin", "Min"}};
  struct contents operand = known_contents(pz_onnx_input(node, 0));
  int64_t count;
  if (!operand.ints || !pz_onnx_count_elements(output, &count) || count != 1) return;
  for (size_t row = 0; row < sizeof combined_by / sizeof *combined_by; row++) {
    if (strcmp(node->type, combined_by[row][0]) != 0) continue;
    int64_t *result = pz_alloc(call, 1, sizeof *result);
    *result = operand.ints[0];
    for (int64_t i = 1; i < operand.n; i++)
      if (!combine_ints(combined_by[row][1], *result, operand.ints[i], result)) return;
    pz_onnx_set_ints(output, result, 1);
  }
}

/* ---- moving elements ------------------------------------------------------------------------ */

/* Gives a result the contents of the first input, whose elements it has in unchanged order. */
static void copy_contents(const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  if (!input) return;
  if (input->ints) pz_onnx_set_ints(output, input->ints, input->n_ints);
  output->reals = input->reals;
  output->n_reals = input->n_reals;
  if (input->has_real) {
    output->has_real = true;
    output->real = input->real;
  }
}

/* Computes Cast for known contents: converts between integers and floating-point numbers. */
static void fold_cast(struct pz_call *call, const struct pz_onnx_node *node,
                      struct pz_onnx_value *output) {
  struct contents operand = known_contents(pz_onnx_input(node, 0));
  bool real = pz_onnx_is_float(output->type);
  copy_contents(node, output);
  bool converts = operand.n && output->type && real != !operand.ints;
  if (!converts) return;
  output->ints = NULL;
  output->n_ints = 0;
  struct new_contents result = allocate_contents(call, output, real);
  for (int64_t i = 0; i < result.n; i++) {
    double number = operand.ints ? (double)operand.ints[i] : operand.reals[i];
    bool fits = number > -9e18 && number < 9e18; /* int64_t reaches 9.2e18 */
    if (!real && !fits) return;
    if (real)
      result.reals[i] = number;
    else
      result.ints[i] = (int64_t)number;
  }
  store_contents(&result);
}

/* Computes Slice, Transpose and Expand, which move elements. */
static void fold_move(struct pz_call *call, const struct pz_onnx_node *node,
                      struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  struct pz_onnx_range range[PZ_ONNX_MOST_RANK] = {{0, 0, 0}};
  if (!input || !known_contents(input).n || output->rank < 0) return;
  struct element_map map = broadcast_map(input, output);
  if (node->op->shape == PZ_SHAPE_SLICE) {
    if (input->rank != output->rank || !pz_onnx_slice_ranges(node, range)) return;
    for (int d = 0; d < input->rank; d++) {
      map.first += range[d].from * stride(input, d);
      map.step[d] = range[d].count > 1 ? range[d].step * stride(input, d) : 0;
    }
  } else if (node->op->shape == PZ_SHAPE_TRANSPOSE) {
    for (int d = 0; d < output->rank; d++) {
      int from = pz_onnx_source_dim(node, output, 0, d);
      map.step[d] = from >= 0 ? stride(input, from) : 0;
    }
  }
  copy_mapped(call, input, &map, output);
}

/* Computes Concat, whose inputs follow each other along one axis. */
static void fold_concat(struct pz_call *call, const struct pz_onnx_node *node,
                        struct pz_onnx_value *output) {
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", 0), output->rank);
  if (output->rank < 0) return;
  bool real = node->n_in > 0 && !known_contents(pz_onnx_input(node, 0)).ints;
  for (uint32_t i = 0; i < node->n_in; i++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, i);
    if (!value || value->rank != output->rank || axis < 0) return;
    if (value->dim[axis] <= 0) continue; /* an empty tensor contributes no elements */
    struct contents part = known_contents(value);
    if (!part.n || (part.ints == NULL) != real) return;
  }
  struct new_contents result = allocate_contents(call, output, real);
  int64_t inner = stride(output, axis), before = 0;
  for (uint32_t i = 0; i < node->n_in && result.n; i++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, i);
    if (!value) return;
    struct contents part = known_contents(value);
    /* `run` counts the elements of this part that are adjacent in the result. */
    int64_t run = value->dim[axis] * inner;
    for (int64_t e = 0; e < part.n; e++) {
      int64_t index = e / run * output->dim[axis] * inner + before + e % run;
      if (index >= result.n) return;
      if (real)
        result.reals[index] = part.reals[e];
      else
        result.ints[index] = part.ints[e];
    }
    before += run;
  }
  store_contents(&result);
}

/* Computes Gather, which selects integers by their index along one axis. */
static void fold_gather(struct pz_call *call, const struct pz_onnx_node *node,
                        struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  struct contents data = known_contents(input);
  struct contents indices = known_contents(pz_onnx_input(node, 1));
  if (!data.ints || !indices.ints) return;
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", 0), input->rank);
  if (axis < 0) return;
  struct new_contents result = allocate_contents(call, output, false);
  int64_t inner = stride(input, axis);
  for (int64_t i = 0; i < result.n; i++) {
    int64_t row = i / inner, index = indices.ints[row % indices.n];
    if (index < 0) index += input->dim[axis];
    if (index < 0 || index >= input->dim[axis]) return;
    int64_t from = (row / indices.n * input->dim[axis] + index) * inner + i % inner;
    if (from >= data.n) return;
    result.ints[i] = data.ints[from];
  }
  store_contents(&result);
}

/* Computes the parts of a Split of a vector. */
static void fold_split(struct pz_call *call, const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  if (!input || input->rank != 1 || !known_contents(input).n) return;
  int64_t before = 0;
  for (uint32_t j = 0; j < node->n_out; j++) {
    struct pz_onnx_value *output = pz_onnx_result(node, j);
    if (!output || output->rank != 1) return;
    struct element_map map = {.rank = 1, .dim = {output->dim[0]}, .step = {1}, .first = before};
    copy_mapped(call, input, &map, output);
    before += output->dim[0];
  }
}

/* ---- new contents --------------------------------------------------------------------------- */

/* Computes ConstantOfShape, whose elements all equal the attribute `value`, 0 by default. */
static void fold_filled(struct pz_call *call, const struct pz_onnx_node *node,
                        struct pz_onnx_value *output) {
  const Onnx__AttributeProto *attribute = pz_onnx_attribute(node, "value");
  int64_t count, value = 0;
  bool ok = true;
  if (!pz_onnx_count_elements(output, &count) || count > PZ_ONNX_MOST_INTS) return;
  if (attribute && attribute->t)
    value = pz_onnx_tensor_int(attribute->t, attribute->t->data_type, 0, &ok);
  if (!ok) return;
  int64_t *ints = pz_alloc(call, (size_t)count, sizeof *ints);
  for (int64_t i = 0; i < count; i++) ints[i] = value;
  pz_onnx_set_ints(output, ints, count);
}

/* Exporters fill tensors by ConstantOfShape.  Only its attribute `value` is examined. */
bool pz_onnx_is_nonzero_fill(const struct pz_onnx_graph *graph, const struct pz_onnx_value *value) {
  if (value->producer == PZ_NONE) return false;
  const struct pz_onnx_node *node = pz_onnx_node(graph, value->producer);
  if (node->op->shape != PZ_SHAPE_FILLED) return false;
  const Onnx__AttributeProto *attribute = pz_onnx_attribute(node, "value");
  if (!attribute || !attribute->t) return false;
  int type = attribute->t->data_type;
  if (!pz_onnx_is_float(type)) {
    bool ok = true;
    return pz_onnx_tensor_int(attribute->t, type, 0, &ok) && ok;
  }
  struct pz_onnx_value filler = {.type = type};
  pz_onnx_read_real(&filler, attribute->t);
  return filler.has_real && (filler.real < 0 || filler.real > 0);
}

/* Computes Range: integers from a start value on, in equal steps. */
static void fold_range(struct pz_call *call, const struct pz_onnx_node *node,
                       struct pz_onnx_value *output) {
  const struct pz_onnx_value *start = pz_onnx_input(node, 0), *step = pz_onnx_input(node, 2);
  bool has_start = start && start->ints && start->n_ints;
  bool has_step = step && step->ints && step->n_ints;
  if (!has_start || !has_step) return;
  if (output->rank != 1 || output->dim[0] > PZ_ONNX_MOST_INTS) return;
  int64_t *ints = pz_alloc(call, (size_t)output->dim[0], sizeof *ints), number = start->ints[0];
  for (int64_t i = 0; i < output->dim[0]; i++) {
    ints[i] = number;
    if (!pz_add(&number, step->ints[0])) return;
  }
  pz_onnx_set_ints(output, ints, output->dim[0]);
}

/* Computes Size, and Shape or the part of it between two axes. */
static void fold_shape(struct pz_call *call, const struct pz_onnx_node *node,
                       struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  if (!input || input->rank < 0) return;
  if (node->op->shape == PZ_SHAPE_SCALAR) {
    int64_t *count = pz_alloc(call, 1, sizeof *count);
    if (pz_onnx_count_elements(input, count)) pz_onnx_set_ints(output, count, 1);
    return;
  }
  for (int i = 0; i < input->rank; i++)
    if (input->dim[i] < 0) return;
  int64_t start = pz_onnx_int_attribute(node, "start", 0);
  int64_t end = pz_onnx_int_attribute(node, "end", input->rank);
  start = pz_onnx_clamp(start, input->rank, 0, input->rank);
  end = pz_onnx_clamp(end, input->rank, 0, input->rank);
  int64_t *dims = pz_copy(call, input->dim, (size_t)input->rank, sizeof *dims);
  pz_onnx_set_ints(output, dims + start, start < end ? end - start : 0);
}

/* Folds a node if it is of a type from which exporters compute shapes. */
void pz_onnx_follow_contents(struct pz_call *call, const struct pz_onnx_node *node) {
  struct pz_onnx_value *output = pz_onnx_result(node, 0);
  if (!output) return;
  switch (node->op->shape) {
  case PZ_SHAPE_SHAPE:
  case PZ_SHAPE_SCALAR: fold_shape(call, node, output); return;
  case PZ_SHAPE_BROADCAST:
    if (strcmp(node->type, "Where") == 0)
      fold_where(call, node, output);
    else
      fold_binary(call, node, output);
    return;
  case PZ_SHAPE_CONCAT: fold_concat(call, node, output); return;
  case PZ_SHAPE_GATHER: fold_gather(call, node, output); return;
  case PZ_SHAPE_SLICE:
  case PZ_SHAPE_TRANSPOSE:
  case PZ_SHAPE_EXPAND: fold_move(call, node, output); return;
  case PZ_SHAPE_SPLIT: fold_split(call, node); return;
  case PZ_SHAPE_REDUCE: fold_reduction(call, node, output); return;
  case PZ_SHAPE_FILLED: fold_filled(call, node, output); return;
  case PZ_SHAPE_RANGE: fold_range(call, node, output); return;
  default: break;
  }
  if (strcmp(node->type, "Cast") == 0)
    fold_cast(call, node, output);
  else if (node->op->lower == PZ_LOWER_VIEW)
    copy_contents(node, output);
  else if (node->op->shape == PZ_SHAPE_SAME)
    fold_unary(call, node, output);
}
