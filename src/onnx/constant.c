/* Constant folding of small tensors, from which exporters compute shapes inside the graph.
 *
 * pz_onnx_follow_contents() is called after the shapes of a node's results are known.  Where the contents of its
 * inputs are known, integers or a few floating-point numbers, it computes those of its results.  Results whose
 * contents do not follow, or are too many, stay unknown; that is never an error. */
#include <math.h>

#include "core/num.h"
#include "onnx/dims.h"
#include "onnx/passes.h"

/* ---- contents ------------------------------------------------------------------------------- */

/* The known contents of a value: integers or floating-point numbers.  n is 0 if they are unknown. */
struct contents {
  const int64_t *ints;
  const double *reals;
  int64_t n;
};

static struct contents known_contents(const struct pz_onnx_value *value) {
  int64_t n;
  if (!value || value->rank < 0 || !pz_onnx_count_elements(value, &n) || n < 1)
    return (struct contents){0};
  if (value->ints && value->n_ints == n) return (struct contents){value->ints, NULL, n};
  if (value->reals && value->n_reals == n) return (struct contents){NULL, value->reals, n};
  if (value->has_real && n == 1) return (struct contents){NULL, &value->real, 1};
  return (struct contents){0};
}

static double real_at(const struct contents *c, int64_t i) {
  return c->ints ? (double)c->ints[i] : c->reals[i];
}

/* Contents of a result that are being computed: integers or floating-point numbers. */
struct new_contents {
  struct pz_onnx_value *y;
  int64_t *ints;
  double *reals;
  int64_t n; /* 0 if the contents are too many to be followed */
};

static struct new_contents new_contents(struct pz_call *call, struct pz_onnx_value *output,
                                        bool real) {
  struct new_contents c = {.y = output};
  int64_t most = real ? PZ_ONNX_MOST_RANK : PZ_ONNX_MOST_INTS;
  if (output->rank < 0 || !pz_onnx_count_elements(output, &c.n) || c.n > most) c.n = 0;
  if (real)
    c.reals = pz_alloc(call, (size_t)c.n, sizeof *c.reals);
  else
    c.ints = pz_alloc(call, (size_t)c.n, sizeof *c.ints);
  return c;
}

static void copy_element(const struct new_contents *to, int64_t i, const struct contents *from,
                         int64_t k) {
  if (to->ints)
    to->ints[i] = from->ints[k];
  else
    to->reals[i] = from->reals[k];
}

static void store_contents(const struct new_contents *c) {
  if (c->ints) {
    pz_onnx_set_ints(c->y, c->ints, c->n);
    return;
  }
  c->y->reals = c->reals;
  c->y->n_reals = (uint32_t)c->n;
  c->y->has_real = c->n == 1;
  if (c->n == 1) c->y->real = c->reals[0];
}

/* ---- element maps --------------------------------------------------------------------------- */

/* Maps the elements of a result to the elements of an operand that they come from. */
struct element_map {
  int rank;
  int64_t dim[PZ_ONNX_MOST_RANK];  /* of the result */
  int64_t step[PZ_ONNX_MOST_RANK]; /* in the operand, along each dimension of the result */
  int64_t first;
};

static int64_t mapped_index(const struct element_map *map, int64_t i) {
  int64_t at = map->first;
  for (int d = map->rank - 1; d >= 0; d--) {
    at += i % map->dim[d] * map->step[d];
    i /= map->dim[d];
  }
  return at;
}

/* The distance in memory between neighbours along dimension d. */
static int64_t stride(const struct pz_onnx_value *input, int d) {
  int64_t n = 1;
  for (int i = d + 1; i < input->rank; i++) n *= input->dim[i];
  return n;
}

/* x broadcast to the shape of y: repeated where x has size 1. */
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

static struct element_map transpose_map(const struct pz_onnx_graph *graph,
                                        const struct pz_onnx_node *node,
                                        const struct pz_onnx_value *input,
                                        const struct pz_onnx_value *output) {
  struct element_map map = {.rank = output->rank};
  for (int d = 0; d < output->rank; d++) {
    int from = pz_onnx_source_dim(graph, node, output, 0, d);
    map.dim[d] = output->dim[d];
    map.step[d] = from >= 0 ? stride(input, from) : 0;
  }
  return map;
}

/* Returns a map of rank 0 whose index is negative if the slice is unknown. */
static struct element_map slice_map(const struct pz_onnx_graph *graph,
                                    const struct pz_onnx_node *node,
                                    const struct pz_onnx_value *input,
                                    const struct pz_onnx_value *output) {
  struct element_map map = broadcast_map(input, output);
  struct pz_onnx_range range[PZ_ONNX_MOST_RANK] = {{0, 0, 0}};
  if (input->rank != output->rank || !pz_onnx_slice_ranges(graph, node, range))
    return (struct element_map){.first = -1};
  for (int d = 0; d < input->rank; d++) {
    map.first += range[d].from * stride(input, d);
    map.step[d] = range[d].count > 1 ? range[d].step * stride(input, d) : 0;
  }
  return map;
}

static void copy_mapped(struct pz_call *call, const struct pz_onnx_value *input,
                        const struct element_map *map, struct pz_onnx_value *output) {
  struct contents from = known_contents(input);
  if (!from.n || output->rank != map->rank) return;
  struct new_contents to = new_contents(call, output, !from.ints);
  for (int64_t i = 0; i < to.n; i++) {
    int64_t at = mapped_index(map, i);
    if (at < 0 || at >= from.n) return;
    copy_element(&to, i, &from, at);
  }
  store_contents(&to);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

/* Computes x OP z for integers.  Returns false if there is no result. */
static bool combine_ints(const char *type, int64_t x, int64_t z, int64_t *y) {
  *y = x;
  if (strcmp(type, "Add") == 0) return pz_add(y, z);
  if (strcmp(type, "Sub") == 0) return z != INT64_MIN && pz_add(y, -z);
  if (strcmp(type, "Mul") == 0) return pz_mul(y, z);
  bool divides = z != 0 && !(x == INT64_MIN && z == -1);
  if (strcmp(type, "Div") == 0) {
    *y = divides ? x / z : 0;
    return divides;
  }
  if (strcmp(type, "Mod") == 0) {
    *y = divides ? x % z : 0;
    bool other_sign = *y != 0 && (*y < 0) != (z < 0);
    if (other_sign) *y += z; /* the result has the sign of the divisor */
    return divides;
  }
  if (strcmp(type, "Max") == 0)
    *y = pz_max(x, z);
  else if (strcmp(type, "Min") == 0)
    *y = pz_min(x, z);
  else if (strcmp(type, "And") == 0)
    *y = x && z;
  else if (strcmp(type, "Or") == 0)
    *y = x || z;
  else
    return false;
  return true;
}

static bool combine_reals(const char *type, double x, double z, double *y) {
  bool valid = true;
  if (strcmp(type, "Add") == 0) {
    *y = x + z;
  } else if (strcmp(type, "Sub") == 0) {
    *y = x - z;
  } else if (strcmp(type, "Mul") == 0) {
    *y = x * z;
  } else if (strcmp(type, "Div") == 0) {
    *y = x / z;
    valid = z < 0 || z > 0;
  } else if (strcmp(type, "Pow") == 0) {
    *y = pow(x, z);
    valid = isfinite(*y);
  } else if (strcmp(type, "Max") == 0) {
    *y = x > z ? x : z;
  } else if (strcmp(type, "Min") == 0) {
    *y = x < z ? x : z;
  } else {
    valid = false;
  }
  return valid;
}

/* Computes a comparison.  Returns false if the type is none. */
static bool compare_reals(const char *type, double x, double z, int64_t *y) {
  if (strcmp(type, "Equal") == 0)
    *y = !(x < z) && !(x > z);
  else if (strcmp(type, "Greater") == 0)
    *y = x > z;
  else if (strcmp(type, "GreaterOrEqual") == 0)
    *y = x >= z;
  else if (strcmp(type, "Less") == 0)
    *y = x < z;
  else if (strcmp(type, "LessOrEqual") == 0)
    *y = x <= z;
  else
    return false;
  return true;
}

static bool apply_to_real(const char *type, double x, double *y) {
  bool valid = true;
  if (strcmp(type, "Floor") == 0) {
    *y = floor(x);
  } else if (strcmp(type, "Ceil") == 0) {
    *y = ceil(x);
  } else if (strcmp(type, "Round") == 0) {
    *y = nearbyint(x);
  } else if (strcmp(type, "Sqrt") == 0) {
    *y = sqrt(x);
    valid = x >= 0;
  } else if (strcmp(type, "Reciprocal") == 0) {
    *y = 1 / x;
    valid = x < 0 || x > 0;
  } else if (strcmp(type, "Neg") == 0) {
    *y = -x;
  } else {
    valid = false;
  }
  return valid;
}

static void fold_unary(struct pz_call *call, const struct pz_onnx_graph *graph,
                       const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  struct contents x = known_contents(pz_onnx_input(graph, node, 0));
  double ignored;
  bool negates = pz_onnx_is_type(node, "Neg"), inverts = pz_onnx_is_type(node, "Not");
  bool applies = x.ints ? negates || inverts : apply_to_real(node->type, 1, &ignored);
  if (!x.n || !applies) return;
  struct new_contents result = new_contents(call, output, !x.ints);
  for (int64_t i = 0; i < result.n; i++) {
    if (!x.ints) {
      if (!apply_to_real(node->type, x.reals[i], &result.reals[i])) return;
    } else if (inverts) {
      result.ints[i] = !x.ints[i];
    } else {
      result.ints[i] = x.ints[i] == INT64_MIN ? INT64_MAX : -x.ints[i];
    }
  }
  store_contents(&result);
}

static void fold_binary(struct pz_call *call, const struct pz_onnx_graph *graph,
                        const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *a = pz_onnx_input(graph, node, 0), *b = pz_onnx_input(graph, node, 1);
  struct contents x = known_contents(a), z = known_contents(b);
  if (node->n_in != 2 || !x.n || !z.n || output->rank < a->rank || output->rank < b->rank) return;
  int64_t ignored;
  bool compares = compare_reals(node->type, 0, 0, &ignored);
  bool real = !compares && !(x.ints && z.ints);
  struct new_contents result = new_contents(call, output, real);
  struct element_map map_a = broadcast_map(a, output), map_b = broadcast_map(b, output);
  for (int64_t i = 0; i < result.n; i++) {
    int64_t p = mapped_index(&map_a, i), q = mapped_index(&map_b, i);
    bool valid;
    if (p >= x.n || q >= z.n) return;
    if (compares)
      valid = compare_reals(node->type, real_at(&x, p), real_at(&z, q), &result.ints[i]);
    else if (real)
      valid = combine_reals(node->type, real_at(&x, p), real_at(&z, q), &result.reals[i]);
    else
      valid = combine_ints(node->type, x.ints[p], z.ints[q], &result.ints[i]);
    if (!valid) return;
  }
  store_contents(&result);
}

/* Where(condition, a, b) of integers. */
static void fold_where(struct pz_call *call, const struct pz_onnx_graph *graph,
                       const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  struct contents in[3];
  struct element_map map[3];
  for (uint32_t i = 0; i < 3; i++) {
    const struct pz_onnx_value *value = pz_onnx_input(graph, node, i);
    in[i] = known_contents(value);
    if (!in[i].n || !in[i].ints || value->rank > output->rank) return;
    map[i] = broadcast_map(value, output);
  }
  struct new_contents result = new_contents(call, output, false);
  for (int64_t i = 0; i < result.n; i++) {
    int64_t at = mapped_index(&map[0], i);
    if (at >= in[0].n) return;
    int chosen = in[0].ints[at] ? 1 : 2;
    at = mapped_index(&map[chosen], i);
    if (at >= in[chosen].n) return;
    result.ints[i] = in[chosen].ints[at];
  }
  store_contents(&result);
}

/* A reduction of all elements to one. */
static void fold_reduction(struct pz_call *call, const struct pz_onnx_graph *graph,
                           const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  static const char *const combined_by[][2] = {
      {"ReduceProd", "Mul"}, {"ReduceSum", "Add"}, {"ReduceMax", "Max"}, {"ReduceMin", "Min"}};
  struct contents x = known_contents(pz_onnx_input(graph, node, 0));
  int64_t count;
  if (!x.ints || !pz_onnx_count_elements(output, &count) || count != 1) return;
  for (size_t t = 0; t < sizeof combined_by / sizeof *combined_by; t++) {
    if (!pz_onnx_is_type(node, combined_by[t][0])) continue;
    int64_t *result = pz_alloc(call, 1, sizeof *result);
    *result = x.ints[0];
    for (int64_t i = 1; i < x.n; i++)
      if (!combine_ints(combined_by[t][1], *result, x.ints[i], result)) return;
    pz_onnx_set_ints(output, result, 1);
  }
}

/* ---- moving elements ------------------------------------------------------------------------ */

/* The contents of the first input, in the same order. */
static void copy_contents(const struct pz_onnx_graph *graph, const struct pz_onnx_node *node,
                          struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(graph, node, 0);
  if (!input) return;
  if (input->ints) pz_onnx_set_ints(output, input->ints, input->n_ints);
  output->reals = input->reals;
  output->n_reals = input->n_reals;
  if (input->has_real) {
    output->has_real = true;
    output->real = input->real;
  }
}

/* Converts between integers and floating-point numbers. */
static void fold_cast(struct pz_call *call, const struct pz_onnx_graph *graph,
                      const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  struct contents x = known_contents(pz_onnx_input(graph, node, 0));
  bool real = pz_onnx_is_float(output->type);
  copy_contents(graph, node, output);
  bool converts = x.n && output->type && real != !x.ints;
  if (!converts) return;
  output->ints = NULL;
  output->n_ints = 0;
  struct new_contents result = new_contents(call, output, real);
  for (int64_t i = 0; i < result.n; i++) {
    double number = real_at(&x, i);
    bool fits = number > -9e18 && number < 9e18;
    if (!real && !fits) return;
    if (real)
      result.reals[i] = number;
    else
      result.ints[i] = (int64_t)number;
  }
  store_contents(&result);
}

/* Slice, Transpose and Expand. */
static void fold_move(struct pz_call *call, const struct pz_onnx_graph *graph,
                      const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(graph, node, 0);
  struct element_map map;
  if (!input || !known_contents(input).n || output->rank < 0) return;
  if (node->op->shape == PZ_SHAPE_SLICE)
    map = slice_map(graph, node, input, output);
  else if (node->op->shape == PZ_SHAPE_TRANSPOSE)
    map = transpose_map(graph, node, input, output);
  else
    map = broadcast_map(input, output);
  copy_mapped(call, input, &map, output);
}

static void fold_concat(struct pz_call *call, const struct pz_onnx_graph *graph,
                        const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", 0), output->rank);
  if (output->rank < 0) return;
  bool real = node->n_in > 0 && !known_contents(pz_onnx_input(graph, node, 0)).ints;
  for (uint32_t i = 0; i < node->n_in; i++) {
    const struct pz_onnx_value *value = pz_onnx_input(graph, node, i);
    if (!value || value->rank != output->rank || axis < 0) return;
    if (value->dim[axis] <= 0) continue; /* the contents of an empty tensor are known */
    struct contents part = known_contents(value);
    if (!part.n || (part.ints == NULL) != real) return;
  }
  struct new_contents result = new_contents(call, output, real);
  int64_t inner = stride(output, axis), before = 0;
  for (uint32_t i = 0; i < node->n_in && result.n; i++) {
    const struct pz_onnx_value *value = pz_onnx_input(graph, node, i);
    if (!value) return;
    struct contents part = known_contents(value);
    int64_t run =
        value->dim[axis] * inner; /* elements of this part that are adjacent in the result */
    for (int64_t e = 0; e < part.n; e++) {
      int64_t at = e / run * output->dim[axis] * inner + before + e % run;
      if (at >= result.n) return;
      copy_element(&result, at, &part, e);
    }
    before += run;
  }
  store_contents(&result);
}

/* Integers by index along one axis. */
static void fold_gather(struct pz_call *call, const struct pz_onnx_graph *graph,
                        const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(graph, node, 0);
  struct contents data = known_contents(input);
  struct contents indices = known_contents(pz_onnx_input(graph, node, 1));
  if (!data.ints || !indices.ints) return;
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", 0), input->rank);
  if (axis < 0) return;
  struct new_contents result = new_contents(call, output, false);
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

/* All parts of a vector. */
static void fold_split(struct pz_call *call, const struct pz_onnx_graph *graph,
                       const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(graph, node, 0);
  if (!input || input->rank != 1 || !known_contents(input).n) return;
  int64_t before = 0;
  for (uint32_t j = 0; j < node->n_out; j++) {
    struct pz_onnx_value *output = pz_onnx_result(graph, node, j);
    if (!output || output->rank != 1) return;
    struct element_map map = {.rank = 1, .dim = {output->dim[0]}, .step = {1}, .first = before};
    copy_mapped(call, input, &map, output);
    before += output->dim[0];
  }
}

/* ---- new contents --------------------------------------------------------------------------- */

/* ConstantOfShape: all elements have the value of the attribute, 0 by default. */
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

static void fold_range(struct pz_call *call, const struct pz_onnx_graph *graph,
                       const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *start = pz_onnx_input(graph, node, 0),
                             *step = pz_onnx_input(graph, node, 2);
  if (!start || !start->ints || !start->n_ints || !step || !step->ints || !step->n_ints) return;
  if (output->rank != 1 || output->dim[0] > PZ_ONNX_MOST_INTS) return;
  int64_t *ints = pz_alloc(call, (size_t)output->dim[0], sizeof *ints), number = start->ints[0];
  for (int64_t i = 0; i < output->dim[0]; i++) {
    ints[i] = number;
    if (!pz_add(&number, step->ints[0])) return;
  }
  pz_onnx_set_ints(output, ints, output->dim[0]);
}

static void fold_shape(struct pz_call *call, const struct pz_onnx_graph *graph,
                       const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(graph, node, 0);
  if (!input || input->rank < 0) return;
  for (int i = 0; i < input->rank; i++)
    if (input->dim[i] < 0) return;
  int64_t start = pz_onnx_int_attribute(node, "start", 0);
  int64_t end = pz_onnx_int_attribute(node, "end", input->rank);
  start = pz_onnx_clamp(start, input->rank, 0, input->rank);
  end = pz_onnx_clamp(end, input->rank, 0, input->rank);
  int64_t *dims = pz_copy(call, input->dim, (size_t)input->rank, sizeof *dims);
  pz_onnx_set_ints(output, dims + start, start < end ? end - start : 0);
}

static void fold_size(struct pz_call *call, const struct pz_onnx_graph *graph,
                      const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(graph, node, 0);
  int64_t *count = pz_alloc(call, 1, sizeof *count);
  if (input && input->rank >= 0 && pz_onnx_count_elements(input, count))
    pz_onnx_set_ints(output, count, 1);
}

void pz_onnx_follow_contents(struct pz_call *call, const struct pz_onnx_graph *graph,
                             const struct pz_onnx_node *node) {
  struct pz_onnx_value *output = pz_onnx_result(graph, node, 0);
  if (!output) return;
  switch (node->op->shape) {
  case PZ_SHAPE_SHAPE: fold_shape(call, graph, node, output); return;
  case PZ_SHAPE_SCALAR: fold_size(call, graph, node, output); return;
  case PZ_SHAPE_BROADCAST:
    if (pz_onnx_is_type(node, "Where"))
      fold_where(call, graph, node, output);
    else
      fold_binary(call, graph, node, output);
    return;
  case PZ_SHAPE_CONCAT: fold_concat(call, graph, node, output); return;
  case PZ_SHAPE_GATHER: fold_gather(call, graph, node, output); return;
  case PZ_SHAPE_SLICE:
  case PZ_SHAPE_TRANSPOSE:
  case PZ_SHAPE_EXPAND: fold_move(call, graph, node, output); return;
  case PZ_SHAPE_SPLIT: fold_split(call, graph, node); return;
  case PZ_SHAPE_REDUCE: fold_reduction(call, graph, node, output); return;
  case PZ_SHAPE_FILLED: fold_filled(call, node, output); return;
  case PZ_SHAPE_RANGE: fold_range(call, graph, node, output); return;
  default: break;
  }
  if (pz_onnx_is_type(node, "Cast"))
    fold_cast(call, graph, node, output);
  else if (node->op->lower == PZ_LOWER_VIEW)
    copy_contents(graph, node, output);
  else if (node->op->shape == PZ_SHAPE_SAME)
    fold_unary(call, graph, node, output);
}
