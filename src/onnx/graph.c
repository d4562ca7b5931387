/* Reading the graph of an ONNX file: consumers of values, attributes and arguments of nodes, and
 * the contents of small tensors. shape.c has the effect of operators on shapes. */
#include "onnx/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/num.h"

/* Returns the name of a node for messages: its own, or else that of its first result. */
const char *pz_onnx_node_name(const struct pz_onnx_node *node) {
  if (node->name && node->name[0]) return node->name;
  for (uint32_t j = 0; j < node->n_out; j++)
    if (node->out[j] != PZ_NONE) return pz_onnx_value(node->graph, node->out[j])->name;
  return node->type;
}

/* Raises an error about a node: "FILE: node 'NAME' (TYPE): ...". */
_Noreturn void pz_onnx_raise(struct pz_call *call, const struct pz_onnx_node *node,
                             enum pz_status status, const char *format, ...) {
  char reason[512];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  pz_raise_at(call, status, node->graph->file, 0, 0, "%s: node '%.200s' (%.80s): %s",
              node->graph->file, pz_onnx_node_name(node), node->type, reason);
}

/* Types 17 to 20 are the 8-bit floating-point formats, which older descriptions of ONNX lack. */
bool pz_onnx_is_float(int type) {
  return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 || (type >= 17 && type <= 20);
}

/* Counts the elements of a value of known shape; false if there are more than 2^62. */
bool pz_onnx_count_elements(const struct pz_onnx_value *value, int64_t *count) {
  *count = 1;
  for (int i = 0; i < value->rank; i++)
    if (!pz_mul(count, value->dim[i])) return false;
  return *count <= INT64_MAX / 2;
}

/* A counting sort: the first pass counts the consumers of each value, and the second one lists
 * them. */
void pz_onnx_link_consumers(struct pz_call *call, struct pz_onnx_graph *graph) {
  for (uint32_t i = 0; i < graph->values.n; i++) pz_onnx_value(graph, i)->n_consumers = 0;
  for (uint32_t i = 0; i < graph->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    if (node->removed) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      struct pz_onnx_value *value = pz_onnx_input(node, k);
      if (value) value->n_consumers++;
    }
  }
  uint32_t total = 0;
  for (uint32_t i = 0; i < graph->values.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, i);
    value->first_consumer = total;
    total += value->n_consumers;
    value->n_consumers = 0;
  }
  graph->consumers = pz_alloc(call, total, sizeof *graph->consumers);
  for (uint32_t i = 0; i < graph->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    if (node->removed) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      struct pz_onnx_value *value = pz_onnx_input(node, k);
      if (!value) continue;
      graph->consumers[value->first_consumer + value->n_consumers] = i;
      value->n_consumers++;
    }
  }
}

/* Writes the shapes of the first four inputs of a node, such as "[1, 8] and [7, 8]", into buf. */
void pz_onnx_spell_inputs(const struct pz_onnx_node *node, char *buf, size_t size) {
  enum { MOST_LISTED = 4, DIM_CHARS = 40 }; /* inputs; room for a size and its separators */
  size_t used = 0;
  buf[0] = '\0';
  for (uint32_t k = 0; k < node->n_in && k < MOST_LISTED; k++) {
    const struct pz_onnx_value *input = pz_onnx_input(node, k);
    if (!input || used + DIM_CHARS > size) continue;
    used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? " and " : "",
                             input->rank < 0 ? "unknown" : "[");
    for (int i = 0; i < input->rank && used + DIM_CHARS < size; i++)
      used += (size_t)snprintf(buf + used, size - used, "%s%" PRId64, i ? ", " : "", input->dim[i]);
    if (input->rank >= 0) used += (size_t)snprintf(buf + used, size - used, "]");
  }
}

/* Returns the attribute of this name, or NULL. */
const Onnx__AttributeProto *pz_onnx_attribute(const struct pz_onnx_node *node, const char *name) {
  for (size_t i = 0; i < node->n_attrs; i++)
    if (node->attrs[i]->name && strcmp(node->attrs[i]->name, name) == 0) return node->attrs[i];
  return NULL;
}

int64_t pz_onnx_int_attribute(const struct pz_onnx_node *node, const char *name, int64_t absent) {
  const Onnx__AttributeProto *attribute = pz_onnx_attribute(node, name);
  return attribute && attribute->has_i ? attribute->i : absent;
}

/* Returns an attribute that is a list of integers and its length, or NULL and a length of 0. */
const int64_t *pz_onnx_ints_attribute(const struct pz_onnx_node *node, const char *name,
                                      size_t *count) {
  const Onnx__AttributeProto *attribute = pz_onnx_attribute(node, name);
  *count = attribute ? attribute->n_ints : 0;
  return attribute ? attribute->ints : NULL;
}

/* The input has precedence: only newer opsets have it. */
const int64_t *pz_onnx_ints_argument(const struct pz_onnx_node *node, const char *attribute,
                                     uint32_t input, size_t *count) {
  const struct pz_onnx_value *value = pz_onnx_input(node, input);
  if (!value) return pz_onnx_ints_attribute(node, attribute, count);
  *count = value->ints ? value->n_ints : 0;
  return value->ints;
}

/* Converts an axis that counts from the last dimension if it is negative. */
int pz_onnx_axis_from_front(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? (int)axis : -1;
}

/* An index that is before the first element even when counted from the end becomes -1 before it is
 * limited. */
int64_t pz_onnx_clamp(int64_t index, int64_t n, int64_t least, int64_t most) {
  if (index < -n)
    index = -1; /* before the first element */
  else if (index < 0)
    index += n;
  if (index < least) return least;
  return index > most ? most : index;
}

/* A Slice has a range along each listed axis, and all elements along the others. */
bool pz_onnx_slice_ranges(const struct pz_onnx_node *node,
                          struct pz_onnx_range range[PZ_ONNX_MOST_RANK]) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  size_t n_starts, n_ends, n_axes, n_steps;
  const int64_t *starts = pz_onnx_ints_argument(node, "starts", 1, &n_starts);
  const int64_t *ends = pz_onnx_ints_argument(node, "ends", 2, &n_ends);
  const int64_t *axes = pz_onnx_ints_argument(node, "axes", 3, &n_axes);
  const int64_t *steps = pz_onnx_ints_argument(node, "steps", 4, &n_steps);
  if (!input || input->rank < 0 || !starts || !ends) return false;
  bool axes_fit = !n_axes || n_axes == n_starts, steps_fit = !n_steps || n_steps == n_starts;
  if (n_starts != n_ends || !axes_fit || !steps_fit) return false;
  for (int d = 0; d < input->rank; d++) range[d] = (struct pz_onnx_range){0, 1, input->dim[d]};
  for (size_t i = 0; i < n_starts; i++) {
    int axis = pz_onnx_axis_from_front(n_axes ? axes[i] : (int64_t)i, input->rank);
    int64_t step = n_steps ? steps[i] : 1;
    if (axis < 0 || step == 0 || step == INT64_MIN) return false;
    bool forward = step > 0; /* otherwise the last element is first, and `to` may be -1 */
    int64_t n = input->dim[axis], least = forward ? 0 : -1, most = forward ? n : n - 1;
    int64_t from = pz_onnx_clamp(starts[i], n, 0, most);
    int64_t to = pz_onnx_clamp(ends[i], n, least, most);
    int64_t distance = forward ? to - from : from - to, stride = forward ? step : -step;
    range[axis] =
        (struct pz_onnx_range){from, step, distance > 0 ? pz_ceil_div(distance, stride) : 0};
  }
  return true;
}

/* A single integer is stored as a real number, too. */
void pz_onnx_set_ints(struct pz_onnx_value *value, const int64_t *ints, int64_t n) {
  value->ints = ints;
  value->n_ints = (uint32_t)n;
  if (n == 1) {
    value->has_real = true;
    value->real = (double)ints[0];
  }
}

/* The number is stored in raw_data or in the field of its type; both 16-bit formats use
 * int32_data. */
void pz_onnx_read_real(struct pz_onnx_value *value, const Onnx__TensorProto *tensor) {
  const uint8_t *raw = tensor->raw_data.data;
  size_t raw_bytes = tensor->has_raw_data ? tensor->raw_data.len : 0;
  uint16_t half = 0;
  uint32_t bits;
  float number;
  bool has_half = raw_bytes >= 2 || tensor->n_int32_data;
  value->has_real = true;
  if (raw_bytes >= 2) memcpy(&half, raw, 2);
  if (tensor->n_int32_data) half = (uint16_t)tensor->int32_data[0];
  if (value->type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
      (raw_bytes >= 4 || tensor->n_float_data)) {
    number = tensor->n_float_data ? tensor->float_data[0] : 0;
    if (raw_bytes >= 4) memcpy(&number, raw, sizeof number);
    value->real = (double)number;
  } else if (value->type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE &&
             (raw_bytes >= 8 || tensor->n_double_data)) {
    value->real = tensor->n_double_data ? tensor->double_data[0] : 0;
    if (raw_bytes >= 8) memcpy(&value->real, raw, sizeof value->real);
  } else if (value->type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 && has_half) {
    bits = (uint32_t)half << 16; /* the upper half of a 32-bit number (IEEE 754) */
    memcpy(&number, &bits, sizeof number);
    value->real = (double)number;
  } else if (value->type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 && has_half) {
    /* IEEE 754 half precision: 1 bit sign, 5 bits exponent (bias 15), 10 bits mantissa */
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, mantissa = half & 1023;
    uint32_t exponent = (half >> 10) & 31, wide_exponent = exponent == 31 ? 255u : exponent + 112;
    bits = sign | wide_exponent << 23 | mantissa << 13;
    memcpy(&number, &bits, sizeof number);
    value->real = (double)number;
    bool is_subnormal = exponent == 0; /* a multiple of 2^-24 */
    if (is_subnormal) value->real = (sign ? -1.0 : 1.0) * mantissa / 16777216.0;
  } else {
    value->has_real = false;
  }
}

/* The integers are in the field of their type (int64_data, int32_data) or in raw_data. */
int64_t pz_onnx_tensor_int(const Onnx__TensorProto *tensor, int type, size_t i, bool *ok) {
  const uint8_t *raw = tensor->has_raw_data ? tensor->raw_data.data : NULL;
  size_t raw_bytes = tensor->has_raw_data ? tensor->raw_data.len : 0;
  int64_t wide = 0;
  int32_t narrow = 0;
  switch (type) {
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
    if (i < tensor->n_int64_data) return tensor->int64_data[i];
    *ok = raw_bytes / sizeof wide > i;
    if (*ok) memcpy(&wide, raw + sizeof wide * i, sizeof wide);
    return wide;
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    if (i < tensor->n_int32_data) return tensor->int32_data[i];
    *ok = raw_bytes / sizeof narrow > i;
    if (*ok) memcpy(&narrow, raw + sizeof narrow * i, sizeof narrow);
    return narrow;
  case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
    if (i < tensor->n_int32_data) return tensor->int32_data[i];
    *ok = raw_bytes > i;
    return *ok ? raw[i] : 0;
  default: *ok = false; return 0;
  }
}

/* Floating-point tensors are followed up to a few elements, such as the scales of a Resize. */
void pz_onnx_read_contents(struct pz_call *call, struct pz_onnx_value *value,
                           const Onnx__TensorProto *tensor) {
  int64_t n;
  if (!pz_onnx_count_elements(value, &n) || n > PZ_ONNX_MOST_INTS) return;
  if (pz_onnx_is_float(value->type)) {
    if (n == 1) pz_onnx_read_real(value, tensor);
    /* Contents of a few 32-bit numbers, such as the scales of a Resize, are followed too. */
    bool raw = tensor->has_raw_data && tensor->raw_data.len == (size_t)n * sizeof(float);
    bool single = value->type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    bool complete = raw || (int64_t)tensor->n_float_data == n;
    if (!single || n > PZ_ONNX_MOST_RANK || !complete) return;
    double *reals = pz_alloc(call, (size_t)n, sizeof *reals);
    for (int64_t i = 0; i < n; i++) {
      float number = raw ? 0 : tensor->float_data[i];
      if (raw) memcpy(&number, tensor->raw_data.data + (size_t)i * sizeof number, sizeof number);
      reals[i] = (double)number;
    }
    value->reals = reals;
    value->n_reals = (uint32_t)n;
    return;
  }
  int64_t *ints = pz_alloc(call, (size_t)n, sizeof *ints);
  bool ok = true;
  for (int64_t i = 0; i < n && ok; i++)
    ints[i] = pz_onnx_tensor_int(tensor, value->type, (size_t)i, &ok);
  if (ok) pz_onnx_set_ints(value, ints, n);
}
