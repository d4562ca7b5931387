/* Tensor parallelism of an imported graph.
 *
 * As in Megatron-LM (Shoeybi et al., 2019), products with weights that read the same value form a
 * group and are divided by columns, if everything that is computed from them can be followed, axis
 * by axis, to products that are then divided by rows, with a sum over the devices after them.
 * try_group() is one such trial: it visits the nodes of a layer in order and marks which dimension
 * of each value is divided (follow_node has a case for each kind of operator).  A trial fails if
 * an operator cannot work on a part of its input, or if a divided value leaves the layer; then its
 * marks are undone. shard_segment() tries the groups of a layer in several passes, because some
 * products can only be divided together with those of another input, or without one of their
 * group. */
#include <inttypes.h>
#include <stdio.h>

#include "core/num.h"
#include "onnx/layering.h"

/* Most other inputs with which one is paired, and most products that a late pass tries, so that the
 * time stays linear in the graph. */
enum { MOST_PAIRS = 8, MOST_TRIES = 64 };

/* Smallest accepted share of the multiplications that are in divided products.  In a convolutional
 * network, for example, only the classifier can be divided. */
#define LEAST_SHARE 0.1

/* The outcome of a trial, or of following the division through an operator. */
enum outcome {
  FITS,
  BLOCKED, /* an operator cannot work on a part of its input */
  UNEVEN,  /* the tensor-parallel degree does not divide a dimension */
};

/* The divided part of a dimension: a factor `size` of the dimension, after factors whose product
 * is `outer`.  Heads that are merged with the batch are such a part. */
struct divided_part {
  int64_t outer, size;
};

/* No part of the current node's input: divide_dim() then divides a dimension as a whole. */
static const struct divided_part NO_PART = {1, 0};

/* State of the trials over the layers of a graph. */
struct sharder {
  struct pz_call *call;
  const struct pz_onnx_layering *layering;
  const struct pz_onnx_graph *graph;
  const struct pz_onnx_value *values;
  const struct pz_onnx_segment *segment;
  struct pz_onnx_sharding *sharding;
  struct pz_vec marked_values, marked_nodes; /* values and nodes that the current trial divides */
  uint32_t trial;     /* number of the current trial, an attempt to divide one group, from 1 */
  uint32_t *trial_of; /* indexed by value: number of the trial that divided it, or 0 */
  struct divided_part *part; /* indexed by value: the divided part of its divided dimension */
  /* The divided part of the first divided input of the current node; NO_PART if all are whole. */
  struct divided_part current_part;
  /* Products of the trial after which values are whole again or, as classes, enter the loss. */
  uint32_t n_division_ends;
  uint32_t only_product;           /* node of the only product that is tried, or PZ_NONE for all */
  uint32_t excluded_product;       /* node of a product that is not tried, or PZ_NONE */
  const struct pz_onnx_node *node; /* node that the current trial visits */
  int64_t uneven_size;             /* the latest size that the degree does not divide */
};

/* ---- marks of a trial ----------------------------------------------------------------------- */

/* Returns the divided dimension of input k of a node, or -1 if the input is whole or absent. */
static int divided_dim(const struct sharder *sharder, const struct pz_onnx_node *node, uint32_t k) {
  return k < node->n_in && node->in[k] != PZ_NONE ? (int)sharder->sharding->dim[node->in[k]] - 1
                                                  : -1;
}

/* Records that the current trial divides dimension `dim` of a value. */
static void mark_value(struct sharder *sharder, uint32_t id, int dim, struct divided_part part) {
  if (sharder->sharding->dim[id] == dim + 1) return;
  sharder->sharding->dim[id] = (uint8_t)(dim + 1);
  sharder->trial_of[id] = sharder->trial;
  sharder->part[id] = part;
  pz_append(sharder->call, &sharder->marked_values, &id);
}

/* Divides dimension `dim` of a value if the tensor-parallel degree divides its size.  If the
 * dimension contains the divided part of the current node's input, that part is divided. */
static enum outcome divide_dim(struct sharder *sharder, uint32_t id, int dim) {
  if (dim < 0 || dim >= sharder->values[id].rank) return BLOCKED;
  int64_t size = sharder->values[id].dim[dim];
  struct divided_part part = {1, size};
  const struct divided_part *current = &sharder->current_part;
  /* The dimension contains the part if its factors are: others, current->outer, current->size. */
  bool contains_part =
      current->size > 1 && size % current->size == 0 && size / current->size % current->outer == 0;
  if (contains_part) part = *current;
  if (part.size % sharder->sharding->tp) {
    sharder->uneven_size = part.size;
    return UNEVEN;
  }
  mark_value(sharder, id, dim, part);
  return FITS;
}

/* ---- following the division through nodes --------------------------------------------------- */

/* Divides the reshaped form of an input: the first dimension that shares with the divided part a
 * factor which the degree divides.  A reshape keeps the order of the elements, so dimensions are
 * compared by the product of the sizes before them (`begin`) and up to them (`end`). */
static enum outcome follow_reshape(struct sharder *sharder, uint32_t input, int divided,
                                   uint32_t output) {
  const struct pz_onnx_value *from = &sharder->values[input], *to = &sharder->values[output];
  int64_t part_begin = sharder->part[input].outer, begin = 1, shared = 0;
  for (int k = 0; k < divided; k++) part_begin *= from->dim[k] > 0 ? from->dim[k] : 1;
  int64_t part_end = part_begin * sharder->part[input].size;
  for (int j = 0; j < to->rank; j++) {
    int64_t end = begin * (to->dim[j] > 0 ? to->dim[j] : 1);
    int64_t low = pz_max(part_begin, begin), high = pz_min(part_end, end);
    if (high > low && high % low == 0) {
      shared = high / low;
      if (shared % sharder->sharding->tp == 0) {
        mark_value(sharder, output, j, (struct divided_part){low / begin, shared});
        return FITS;
      }
    }
    begin = end;
  }
  sharder->uneven_size = shared;
  return shared ? UNEVEN : BLOCKED;
}

/* Divides the dimension of the result that corresponds to the divided dimension of the first
 * input. */
static enum outcome follow_moved_dim(struct sharder *sharder, const struct pz_onnx_node *node) {
  int divided = divided_dim(sharder, node, 0);
  const struct pz_onnx_value *output = &sharder->values[node->out[0]];
  for (int d = 0; d < output->rank && divided >= 0; d++)
    if (pz_onnx_source_dim(node, output, 0, d) == divided)
      return divide_dim(sharder, node->out[0], d);
  return BLOCKED;
}

/* Results of common_distance() that are no distances. */
enum { NONE_DIVIDED = -1, DIVIDED_DIFFERENTLY = -2 };

/* Returns how far the divided dimension of a node's operands is from the last one (0 for the last
 * one itself), NONE_DIVIDED, or DIVIDED_DIFFERENTLY.  Broadcasts align dimensions from the last. */
static int common_distance(const struct sharder *sharder, const struct pz_onnx_node *node) {
  int common = NONE_DIVIDED;
  for (uint32_t k = 0; k < node->n_in; k++) {
    int divided = divided_dim(sharder, node, k);
    if (divided < 0) continue;
    int from_right = sharder->values[node->in[k]].rank - 1 - divided;
    bool same_outer = sharder->part[node->in[k]].outer == sharder->current_part.outer;
    if (common >= 0 && (from_right != common || !same_outer)) return DIVIDED_DIFFERENTLY;
    common = from_right;
  }
  return common;
}

/* Divides an element-wise operator.  All activations must be divided in the same way, and
 * parameters are divided with them. */
static enum outcome follow_elementwise(struct sharder *sharder, const struct pz_onnx_node *node) {
  int from_right = common_distance(sharder, node);
  uint32_t output = node->out[0];
  if (from_right < 0) return BLOCKED;
  for (uint32_t k = 0; k < node->n_in; k++) {
    if (node->in[k] == PZ_NONE || divided_dim(sharder, node, k) >= 0) continue;
    const struct pz_onnx_value *input = &sharder->values[node->in[k]];
    int dim = input->rank - 1 - from_right;
    if (dim < 0 || input->dim[dim] == 1) continue; /* it is broadcast over the dimension */
    if (input->role == PZ_ONNX_ACTIVATION) return BLOCKED;
    if (input->role == PZ_ONNX_PARAM && divide_dim(sharder, node->in[k], dim) != FITS)
      return UNEVEN;
  }
  return divide_dim(sharder, output, sharder->values[output].rank - 1 - from_right);
}

/* Returns whether a node is the product of an activation with a weight of two dimensions. */
static bool is_linear(const struct pz_onnx_node *node) {
  const struct pz_onnx_value *weight = pz_onnx_input(node, 1);
  if (!weight || weight->role != PZ_ONNX_PARAM || weight->rank != 2) return false;
  if (!pz_onnx_result(node, 0) || node->in[0] == PZ_NONE) return false;
  if (node->fused >= 0) return node->fused == PZ_OP_MATMUL;
  if (node->op->lower == PZ_LOWER_MATMUL) return true;
  return node->op->lower == PZ_LOWER_GEMM && !pz_onnx_int_attribute(node, "transA", 0);
}

/* Divides a product of two activations along a batch dimension: one before the last two, which are
 * the rows and columns of its matrices. */
static enum outcome follow_batched_product(struct sharder *sharder,
                                           const struct pz_onnx_node *node) {
  int from_right = common_distance(sharder, node);
  uint32_t output = node->out[0];
  if (from_right < 2) return BLOCKED;
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *input = pz_onnx_input(node, k);
    int dim = input ? input->rank - 1 - from_right : -1;
    if (dim >= 0 && input->dim[dim] > 1 && divided_dim(sharder, node, k) < 0) return BLOCKED;
  }
  return divide_dim(sharder, output, sharder->values[output].rank - 1 - from_right);
}

/* Follows the division of a product's input.  A linear layer whose input features are divided is
 * divided by rows, and its result is whole again; other products are divided by batch. */
static enum outcome follow_matmul(struct sharder *sharder, const struct pz_onnx_node *node) {
  if (!is_linear(node)) return follow_batched_product(sharder, node);
  bool features_divided = divided_dim(sharder, node, 0) == sharder->values[node->in[0]].rank - 1;
  uint32_t index = (uint32_t)(node - pz_onnx_node(node->graph, 0));
  bool is_undivided = sharder->sharding->divide[index] == PZ_DIVIDE_NOT;
  if (!features_divided || !is_undivided) return BLOCKED;
  sharder->sharding->divide[index] = PZ_DIVIDE_ROWS;
  pz_append(sharder->call, &sharder->marked_nodes, &index);
  sharder->n_division_ends++;
  return FITS;
}

/* Divides the results of a node that selects parts of its input. */
static enum outcome follow_part(struct sharder *sharder, const struct pz_onnx_node *node) {
  int divided = divided_dim(sharder, node, 0);
  if (divided < 0) return BLOCKED;
  for (uint32_t j = 0; j < node->n_out; j++) {
    if (node->out[j] == PZ_NONE) continue;
    enum outcome outcome = divide_dim(sharder, node->out[j], divided);
    if (outcome != FITS) return outcome;
  }
  return FITS;
}

/* Divides the results of a node that has a divided input, according to its pattern or type. */
static enum outcome follow_node(struct sharder *sharder, const struct pz_onnx_node *node) {
  /* divide_dim() divides the same part of the results as of the first divided input */
  sharder->current_part = NO_PART;
  for (uint32_t k = 0; k < node->n_in; k++)
    if (divided_dim(sharder, node, k) >= 0) {
      sharder->current_part = sharder->part[node->in[k]];
      break;
    }
  bool reads_sizes_only = node->fused < 0 && node->op->lower == PZ_LOWER_DATA;
  if (reads_sizes_only) return FITS;
  const struct pz_onnx_value *output = pz_onnx_result(node, 0);
  if (!output || output->rank < 0) return BLOCKED;
  bool reshapes = node->op->shape == PZ_SHAPE_RESHAPE || node->op->shape == PZ_SHAPE_FLATTEN;
  int divided = divided_dim(sharder, node, 0);
  int rank = node->in[0] == PZ_NONE ? 0 : sharder->values[node->in[0]].rank;
  /* The axis along which a softmax or norm works.  A fused norm works along the last one. */
  int axis = node->fused >= 0
                 ? rank - 1
                 : pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", -1), rank);
  bool is_before_axis = divided >= 0 && divided < axis;
  uint32_t out = node->out[0];
  switch (node->fused) {
  case -1: break;
  case PZ_OP_MATMUL: return follow_matmul(sharder, node);
  case PZ_OP_ATTENTION: return follow_batched_product(sharder, node);
  case PZ_OP_LAYERNORM:
  case PZ_OP_RMSNORM: return is_before_axis ? divide_dim(sharder, out, divided) : BLOCKED;
  default: return follow_elementwise(sharder, node);
  }
  switch (node->op->lower) {
  case PZ_LOWER_VIEW:
  case PZ_LOWER_EXPAND:
    if (reshapes && divided >= 0) return follow_reshape(sharder, node->in[0], divided, out);
    return follow_moved_dim(sharder, node);
  case PZ_LOWER_GATHER: return follow_moved_dim(sharder, node);
  case PZ_LOWER_MATMUL:
  case PZ_LOWER_GEMM: return follow_matmul(sharder, node);
  case PZ_LOWER_PART: return follow_part(sharder, node);
  case PZ_LOWER_BINARY:
  case PZ_LOWER_CONCAT: return follow_elementwise(sharder, node);
  case PZ_LOWER_NORM: return is_before_axis ? divide_dim(sharder, out, divided) : BLOCKED;
  default: break;
  }
  if (node->op->elementwise) return follow_elementwise(sharder, node);
  bool softmax = node->op->kind == PZ_OP_SOFTMAX || node->op->kind == PZ_OP_LOG_SOFTMAX;
  bool is_beside_axis = divided >= 0 && divided != axis;
  return softmax && is_beside_axis ? divide_dim(sharder, out, divided) : BLOCKED;
}

/* ---- a trial -------------------------------------------------------------------------------- */

/* Returns whether no divided value leaves the layer, except for the result of the model, which the
 * loss accepts in parts. */
static bool stays_inside(const struct sharder *sharder) {
  uint32_t end = sharder->segment->first + sharder->segment->n;
  const struct pz_onnx_value *result = &sharder->values[sharder->layering->result];
  bool result_columns_divided = sharder->sharding->dim[sharder->layering->result] == result->rank;
  for (uint32_t i = 0; i < sharder->marked_values.n; i++) {
    const struct pz_onnx_value *value =
        &sharder->values[*pz_vec_at(&sharder->marked_values, uint32_t, i)];
    uint32_t last_use = sharder->layering->last_use[value->root];
    if (value->role != PZ_ONNX_ACTIVATION || last_use == PZ_NONE) continue;
    bool goes_to_loss = value->root == result->root && result_columns_divided;
    if (last_use >= end && !goes_to_loss) return false;
  }
  return true;
}

/* Divides a product of the group by columns.  The classes of the model's result may be divided
 * into shares that differ by one. */
static enum outcome divide_columns(struct sharder *sharder, const struct pz_onnx_node *node) {
  const struct pz_onnx_value *output = &sharder->values[node->out[0]];
  int last = output->rank - 1;
  sharder->current_part = NO_PART; /* the input is whole (is_free_product) */
  uint32_t index = (uint32_t)(node - pz_onnx_node(node->graph, 0));
  sharder->sharding->divide[index] = PZ_DIVIDE_COLUMNS;
  pz_append(sharder->call, &sharder->marked_nodes, &index);
  bool is_result = output->root == sharder->values[sharder->layering->result].root;
  if (!is_result || last < 0) return divide_dim(sharder, node->out[0], last);
  if (output->dim[last] < sharder->sharding->tp) return BLOCKED;
  mark_value(sharder, node->out[0], last, (struct divided_part){1, output->dim[last]});
  sharder->n_division_ends++;
  return FITS;
}

/* Returns whether a product can be divided by columns: it is linear and not yet divided, and its
 * input is whole. */
static bool is_free_product(const struct sharder *sharder, const struct pz_onnx_node *node) {
  bool undivided = sharder->sharding->divide[node - pz_onnx_node(node->graph, 0)] == PZ_DIVIDE_NOT;
  return is_linear(node) && undivided && divided_dim(sharder, node, 0) < 0;
}

/* Divides all products of this layer that read `input` or `second` by columns, and follows the
 * division through the nodes that read their results. */
static enum outcome try_group(struct sharder *sharder, uint32_t input, uint32_t second) {
  uint32_t begin = sharder->segment->first, end = begin + sharder->segment->n;
  uint32_t first = PZ_NONE, last = 0; /* the first and the last node of the layer */
  for (uint32_t place = begin; place < end; place++) {
    if (sharder->layering->order[place] < first) first = sharder->layering->order[place];
    if (sharder->layering->order[place] > last) last = sharder->layering->order[place];
  }
  /* Visit all nodes between them in topological order, so that inputs are divided before
   * results. */
  for (uint32_t i = first; i <= last; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(sharder->graph, i);
    uint32_t place = sharder->layering->place[i];
    bool is_view = place == PZ_NONE; /* a view has no place and belongs to all layers */
    bool elsewhere = !is_view && (place < begin || place >= end);
    if (node->removed || elsewhere) continue;
    sharder->node = node;
    enum outcome outcome = FITS;
    bool member = !is_view && is_free_product(sharder, node) &&
                  (sharder->only_product == PZ_NONE || sharder->only_product == i) &&
                  sharder->excluded_product != i;
    if (member) {
      uint32_t read = sharder->values[node->in[0]].root;
      member = read == input || read == second;
    }
    bool reads_mark = false; /* whether the node reads a value that this trial has divided */
    for (uint32_t k = 0; k < node->n_in && !reads_mark; k++)
      reads_mark =
          divided_dim(sharder, node, k) >= 0 && sharder->trial_of[node->in[k]] == sharder->trial;
    if (member)
      outcome = divide_columns(sharder, node);
    else if (reads_mark)
      outcome = follow_node(sharder, node);
    if (outcome != FITS) return outcome;
  }
  /* Dividing a group is useful only if its division ends, and possible only within the layer. */
  return sharder->n_division_ends && stays_inside(sharder) ? FITS : BLOCKED;
}

/* Tries to divide the products that read `input` or `second`.  The marks of the trial are kept if
 * the group fits, and undone otherwise. */
static enum outcome attempt_group(struct sharder *sharder, uint32_t input, uint32_t second) {
  struct pz_onnx_sharding *sharding = sharder->sharding;
  sharder->marked_values.n = 0;
  sharder->marked_nodes.n = 0;
  sharder->n_division_ends = 0;
  sharder->trial++;
  enum outcome outcome = try_group(sharder, input, second);
  if (outcome == FITS) return FITS;
  for (uint32_t i = 0; i < sharder->marked_values.n; i++)
    sharding->dim[*pz_vec_at(&sharder->marked_values, uint32_t, i)] = 0;
  for (uint32_t i = 0; i < sharder->marked_nodes.n; i++)
    sharding->divide[*pz_vec_at(&sharder->marked_nodes, uint32_t, i)] = PZ_DIVIDE_NOT;
  return outcome;
}

/* Tries the products that read an input together with those of another input, such as a decoder's
 * query with the encoder's keys and values. */
static void attempt_pairs(struct sharder *sharder, uint32_t input) {
  uint32_t last_tried = input, n_tried = 0;
  for (uint32_t k = 0; k < sharder->segment->n && n_tried < MOST_PAIRS; k++) {
    const struct pz_onnx_node *node = pz_onnx_node(
        sharder->layering->graph, sharder->layering->order[sharder->segment->first + k]);
    if (!is_free_product(sharder, node)) continue;
    uint32_t other_input = sharder->values[node->in[0]].root;
    if (other_input == input || other_input == last_tried) continue;
    last_tried = other_input;
    n_tried++;
    if (attempt_group(sharder, input, other_input) != BLOCKED) return;
  }
}

/* ---- all trials of a layer ------------------------------------------------------------------ */

/* The passes over the products of a layer.  The product that computes the model's result is tried
 * first, so that it is divided by columns rather than by rows, and the result stays divided. */
enum pass {
  RESULT,
  GROUPS,
  PAIRS,
  WITHOUT_ONE, /* all but one of the products that read an input: experts but not their router */
  ALONE,       /* one product alone: an MLP beside an attention that cannot be divided */
  N_PASSES,
};

/* Divides the products of a layer.  Raises an error if the tensor-parallel degree does not divide
 * a dimension of a whole group.  In the later passes, this only means that the products do not
 * belong together. */
static void shard_segment(struct sharder *sharder) {
  uint32_t result_root = sharder->values[sharder->layering->result].root;
  for (int pass = RESULT; pass < N_PASSES; pass++) {
    uint32_t n_tried = 0;
    for (uint32_t k = 0; k < sharder->segment->n && n_tried < MOST_TRIES; k++) {
      uint32_t index = sharder->layering->order[sharder->segment->first + k];
      const struct pz_onnx_node *node = pz_onnx_node(sharder->graph, index);
      if (!is_free_product(sharder, node)) continue;
      if (pass >= PAIRS) n_tried++; /* only late passes have a limit on products */
      uint32_t input = sharder->values[node->in[0]].root;
      if (pass == RESULT && sharder->values[node->out[0]].root != result_root) continue;
      if (pass == PAIRS) {
        attempt_pairs(sharder, input);
        continue;
      }
      if (pass == ALONE) sharder->only_product = index;
      if (pass == WITHOUT_ONE) sharder->excluded_product = index;
      enum outcome outcome = attempt_group(sharder, input, input);
      sharder->only_product = PZ_NONE;
      sharder->excluded_product = PZ_NONE;
      if (outcome == UNEVEN && pass <= GROUPS)
        pz_onnx_raise(sharder->call, sharder->node, PZ_BAD_USE,
                      "tensor-parallel degree %" PRId64 " does not divide %" PRId64
                      " (heads or features) here",
                      sharder->sharding->tp, sharder->uneven_size);
    }
  }
}

/* Returns the number of multiplications of a product, or 0 for other nodes: the elements of the
 * result times the terms of the sum for each. */
static double multiplications(const struct pz_onnx_node *node) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  const struct pz_onnx_value *weight = pz_onnx_input(node, 1);
  const struct pz_onnx_value *output = pz_onnx_result(node, 0);
  int64_t n_results = 0, n_weights = 0;
  if (!(node->fused == PZ_OP_MATMUL || (node->fused < 0 && node->op->kind == PZ_OP_MATMUL)) ||
      !input || !weight)
    return 0;
  if (input->rank < 1 || weight->rank < 1) return 0;
  if (!output || !pz_onnx_count_elements(output, &n_results)) return 0;
  bool conv = node->fused < 0 && node->op->lower == PZ_LOWER_CONV;
  if (conv && pz_onnx_count_elements(weight, &n_weights) && weight->dim[0] > 0)
    return (double)n_results * (double)n_weights / (double)weight->dim[0];
  return (double)n_results * (double)input->dim[input->rank - 1];
}

/* Returns the share of the model's multiplications that are in divided products. */
static double divided_share(const struct sharder *sharder) {
  double all = 0, divided = 0;
  for (uint32_t i = 0; i < sharder->layering->segments.n; i++) {
    const struct pz_onnx_segment *segment =
        pz_vec_at(&sharder->layering->segments, struct pz_onnx_segment, i);
    for (uint32_t place = segment->first; place < segment->first + segment->n; place++) {
      const struct pz_onnx_node *node =
          pz_onnx_node(sharder->layering->graph, sharder->layering->order[place]);
      double work = (double)segment->count * multiplications(node);
      all += work;
      if (work <= 0) continue;
      bool is_divided = sharder->sharding->divide[sharder->layering->order[place]] != PZ_DIVIDE_NOT;
      if (is_divided || sharder->sharding->dim[node->out[0]]) divided += work;
    }
  }
  return all > 0 ? divided / all : 0;
}

/* Divides the tensors over tp devices: the products layer by layer, then the embedding tables.  A
 * model of which too small a share can be divided is an error. */
void pz_onnx_shard(struct pz_call *call, const struct pz_onnx_layering *layering, int64_t tp,
                   struct pz_onnx_sharding *sharding) {
  const struct pz_onnx_graph *graph = layering->graph;
  *sharding = (struct pz_onnx_sharding){.tp = tp};
  sharding->dim = pz_alloc(call, graph->values.n, sizeof *sharding->dim);
  sharding->divide = pz_alloc(call, graph->nodes.n, sizeof *sharding->divide);
  if (tp == 1) return;
  struct sharder sharder = {
      .call = call, .layering = layering, .graph = graph, .sharding = sharding};
  sharder.values = graph->values.items;
  sharder.only_product = PZ_NONE;
  sharder.excluded_product = PZ_NONE;
  sharder.trial_of = pz_alloc(call, graph->values.n, sizeof *sharder.trial_of);
  sharder.part = pz_alloc(call, graph->values.n, sizeof *sharder.part);
  pz_vec_init(&sharder.marked_values, call->arena, sizeof(uint32_t));
  pz_vec_init(&sharder.marked_nodes, call->arena, sizeof(uint32_t));
  for (uint32_t i = 0; i < layering->segments.n; i++) {
    sharder.segment = pz_vec_at(&layering->segments, struct pz_onnx_segment, i);
    shard_segment(&sharder);
  }
  double share = divided_share(&sharder);
  if (share < LEAST_SHARE)
    pz_raise(call, PZ_BAD_USE,
             "%s: %.0f%% of its work can be divided over a tensor-parallel group (products "
             "by columns that end in products by rows; wanted: at least %.0f%%); accepted: "
             "--tp 1",
             graph->file, 100 * share, 100 * LEAST_SHARE);
  /* Divide embedding tables, in which token ids from an input look up rows, by rows. */
  for (uint32_t place = 0; place < sharder.layering->n; place++) {
    const struct pz_onnx_node *node =
        pz_onnx_node(sharder.layering->graph, sharder.layering->order[place]);
    const struct pz_onnx_value *table = pz_onnx_input(node, 0);
    const struct pz_onnx_value *ids = pz_onnx_input(node, 1);
    bool is_gather = node->fused < 0 && node->op->lower == PZ_LOWER_GATHER;
    if (!is_gather || !table || !ids) continue;
    bool lookup = table->role == PZ_ONNX_PARAM && table->rank == 2 &&
                  pz_onnx_int_attribute(node, "axis", 0) == 0 && sharder.values[ids->root].input;
    if (!lookup || table->dim[0] < sharder.sharding->tp) continue;
    sharder.sharding->dim[node->in[0]] = 1;
    sharder.sharding->divide[sharder.layering->order[place]] = PZ_DIVIDE_ROWS;
  }
}
