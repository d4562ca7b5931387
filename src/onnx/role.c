/* Roles: which values are parameters, data without a gradient, or activations; which values are
 * views; and on which values the outputs depend.
 *
 * The role of a result follows from the inputs of its node (assign_result_roles).  Files do not
 * tell parameters from initializers that are constants of the architecture. is_constant_table()
 * follows what is computed from an initializer: rotary angles end in sines and cosines, and masks
 * are added to attention scores before a softmax. */

#include "onnx/passes.h"

enum { DEEPEST = 12 }; /* most nodes that are followed from an initializer */

/* Returns whether a value is a constant and no parameter: a single number, known integers, or a
 * table of the architecture. */
static bool is_constant(const struct pz_onnx_value *value) {
  int64_t n;
  if (value->has_real || value->ints || value->constant_table) return true;
  if (value->initializer && !pz_onnx_is_float(value->type)) return true;
  return value->rank >= 0 && pz_onnx_count_elements(value, &n) && n <= 1;
}

/* Returns whether only a softmax uses the result of a node, after element-wise nodes and views. */
static bool leads_to_softmax(const struct pz_onnx_node *node) {
  for (int i = 0; i < DEEPEST; i++) {
    const struct pz_onnx_value *value = pz_onnx_result(node, 0);
    if (!value || value->n_consumers != 1) return false;
    node = pz_onnx_node(node->graph, node->graph->consumers[value->first_consumer]);
    if (strcmp(node->type, "Softmax") == 0) return true;
    if (node->op->lower != PZ_LOWER_VIEW && !node->op->elementwise) return false;
  }
  return false;
}

/* Returns whether a value is a table of rotary angles: whether everything that is computed from it,
 * through at most `depth` nodes, ends in sines and cosines. */
static bool is_angle(const struct pz_onnx_graph *graph, uint32_t id, int depth) {
  const struct pz_onnx_value *input = pz_onnx_value(graph, id);
  if (depth == 0 || !input->n_consumers || input->output) return false;
  for (uint32_t c = 0; c < input->n_consumers; c++) {
    const struct pz_onnx_node *node =
        pz_onnx_node(graph, graph->consumers[input->first_consumer + c]);
    if (node->fused >= 0) return false;
    if (strcmp(node->type, "Cos") == 0 || strcmp(node->type, "Sin") == 0) continue;
    if (node->op->lower == PZ_LOWER_DATA) continue;
    if (!pz_onnx_result(node, 0) || !is_angle(graph, node->out[0], depth - 1)) return false;
  }
  return true;
}

static bool is_constant_table(const struct pz_onnx_graph *graph, uint32_t id, int depth,
                              bool may_mask);

/* Returns whether a node's use of a value shows that the value is a constant of the architecture
 * and no trained parameter: the node takes its sine or cosine (rotary angles), rotates by it, adds
 * it to attention scores (a mask), or its result has no gradient.  If the node only moves the value
 * or combines it with constants and data, its result decides; at most `depth` nodes are followed.
 * Additions count as masks only if may_mask is set: a table that is looked up is a learned bias. */
static bool uses_as_constant(const struct pz_onnx_node *node, uint32_t id, int depth,
                             bool may_mask) {
  enum pz_onnx_lower lower = node->op->lower;
  if (node->fused == PZ_OP_ROTARY) { /* inputs: the rotated tensor, cosines, sines */
    bool is_rotated = node->n_in && node->in[0] == id;
    return node->n_in && !is_rotated;
  }
  bool is_other_pattern = node->fused >= 0;
  if (is_other_pattern) return false;
  if (strcmp(node->type, "Cos") == 0 || strcmp(node->type, "Sin") == 0) return true;
  bool no_gradient = lower == PZ_LOWER_DATA; /* comparisons, for example */
  if (no_gradient) return true;
  bool adds = strcmp(node->type, "Add") == 0 || strcmp(node->type, "Sub") == 0 ||
              strcmp(node->type, "Where") == 0;
  bool has_rows = pz_onnx_value(node->graph, id)->rank >= 2; /* as masks have, unlike biases */
  if (adds && may_mask && has_rows && leads_to_softmax(node)) return true;
  /* Otherwise, the node must only move the value, or combine it with constants and data. */
  bool looks_up = strcmp(node->type, "Gather") == 0 || node->op->shape == PZ_SHAPE_INDEXED;
  bool moves = lower == PZ_LOWER_VIEW || lower == PZ_LOWER_PART || lower == PZ_LOWER_EXPAND ||
               looks_up || strcmp(node->type, "Concat") == 0;
  bool combines = node->op->elementwise;
  if ((!moves && !combines) || !pz_onnx_result(node, 0)) return false;
  for (uint32_t i = 0; i < node->n_in; i++) {
    const struct pz_onnx_value *input = pz_onnx_input(node, i);
    if (!input || node->in[i] == id || is_constant(input)) continue;
    bool is_integer = input->type && !pz_onnx_is_float(input->type);
    if (input->role != PZ_ONNX_DATA && !is_integer) return false;
  }
  return is_constant_table(node->graph, node->out[0], depth - 1, may_mask && !looks_up);
}

/* Returns whether a value is a constant of the architecture, because the uses of all of its
 * consumers show it (uses_as_constant). */
static bool is_constant_table(const struct pz_onnx_graph *graph, uint32_t id, int depth,
                              bool may_mask) {
  const struct pz_onnx_value *value = pz_onnx_value(graph, id);
  if (value->constant_table) return true;
  if (depth == 0 || !value->n_consumers) return false;
  for (uint32_t c = 0; c < value->n_consumers; c++) {
    const struct pz_onnx_node *node =
        pz_onnx_node(graph, graph->consumers[value->first_consumer + c]);
    if (!uses_as_constant(node, id, depth, may_mask)) return false;
  }
  return true;
}

/* Returns whether a node processes a value sample by sample: element-wise with tensors that have
 * the same first dimension, or as the left operand of a product with a matrix. */
static bool works_by_sample(const struct pz_onnx_node *node, const struct pz_onnx_value *value) {
  if (node->op->lower == PZ_LOWER_MATMUL) {
    const struct pz_onnx_value *weight = pz_onnx_input(node, 1);
    return pz_onnx_input(node, 0) == value && weight && weight->rank == 2;
  }
  if (node->op->lower != PZ_LOWER_BINARY) return false;
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *input = pz_onnx_input(node, k);
    if (!input || input->rank < value->rank) continue; /* broadcast over the samples */
    if (input->rank > value->rank) return false;
    if (input->dim[0] != value->dim[0] && input->dim[0] != 1) return false;
  }
  return true;
}

/* A table with rows for the exported samples is a constant, such as a mask. */
void pz_onnx_find_batch_constants(struct pz_onnx_graph *graph, int64_t batch) {
  if (batch <= 1) return;
  for (uint32_t i = 0; i < graph->values.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, i);
    bool constant = value->initializer && value->n_consumers && pz_onnx_is_float(value->type) &&
                    value->rank >= 3 && value->dim[0] == batch;
    for (uint32_t c = 0; c < value->n_consumers && constant; c++)
      constant =
          works_by_sample(pz_onnx_node(graph, graph->consumers[value->first_consumer + c]), value);
    if (constant) value->constant_table = true;
  }
}

/* Assigns roles to the results of a node.  Views and the parts of a split parameter have the role
 * of the first input.  Other results are activations if an input is not data, and data otherwise.
 * With `eager`, broadcasts are no views. */
static void assign_result_roles(const struct pz_onnx_node *node, bool eager) {
  enum pz_onnx_lower lower = node->op->lower;
  if (node->op->shape == PZ_SHAPE_CONSTANT) return; /* has the role of an initializer */
  const struct pz_onnx_value *first = pz_onnx_input(node, 0);
  bool is_param = first && first->role == PZ_ONNX_PARAM;
  bool broadcasts = lower == PZ_LOWER_EXPAND && !eager && !is_param;
  bool view = first && node->fused < 0 && (lower == PZ_LOWER_VIEW || broadcasts);
  bool split_param = node->op->shape == PZ_SHAPE_SPLIT && is_param;
  enum pz_onnx_role role = PZ_ONNX_DATA;
  if (view || split_param) {
    role = first->role;
  } else if (lower != PZ_LOWER_DATA) {
    for (uint32_t i = 0; i < node->n_in; i++) {
      const struct pz_onnx_value *input = pz_onnx_input(node, i);
      if (input && input->role != PZ_ONNX_DATA) role = PZ_ONNX_ACTIVATION;
    }
  }
  for (uint32_t j = 0; j < node->n_out; j++) {
    struct pz_onnx_value *output = pz_onnx_result(node, j);
    if (!output) continue;
    bool integers = output->type && !pz_onnx_is_float(output->type);
    bool statistics = j > 0 && lower != PZ_LOWER_PART;
    output->role = integers || statistics ? PZ_ONNX_DATA : role;
    output->root = view && j == 0 ? first->root : node->out[j];
  }
}

/* Assigns roles to stored values and inputs, then to the results of all nodes. */
static void assign_all_roles(struct pz_onnx_graph *graph, bool eager) {
  for (uint32_t i = 0; i < graph->values.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, i);
    if (value->producer != PZ_NONE && !value->initializer) continue;
    value->role = value->initializer && !is_constant(value) ? PZ_ONNX_PARAM : PZ_ONNX_DATA;
  }
  for (uint32_t i = 0; i < graph->nodes.n; i++) assign_result_roles(pz_onnx_node(graph, i), eager);
}

/* Roles are assigned twice: finding constant tables requires to know which values are data. */
void pz_onnx_assign_roles(struct pz_onnx_graph *graph, bool eager) {
  assign_all_roles(graph, eager);
  for (uint32_t i = 0; i < graph->values.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, i);
    bool stored = value->producer == PZ_NONE || value->initializer;
    if (stored && value->role == PZ_ONNX_PARAM)
      value->constant_table =
          is_constant_table(graph, i, DEEPEST, true) || is_angle(graph, i, DEEPEST);
  }
  assign_all_roles(graph, eager);
}

/* Follows the graph from the outputs back to the inputs. */
void pz_onnx_find_live(struct pz_onnx_graph *graph) {
  for (uint32_t i = 0; i < graph->values.n; i++)
    pz_onnx_value(graph, i)->live = pz_onnx_value(graph, i)->output;
  for (uint32_t remaining = graph->nodes.n; remaining > 0; remaining--) {
    struct pz_onnx_node *node = pz_onnx_node(graph, remaining - 1);
    node->removed = true;
    for (uint32_t j = 0; j < node->n_out; j++) {
      const struct pz_onnx_value *output = pz_onnx_result(node, j);
      if (output && output->live) node->removed = false;
    }
    for (uint32_t k = 0; k < node->n_in && !node->removed; k++) {
      struct pz_onnx_value *input = pz_onnx_input(node, k);
      if (input) input->live = true;
    }
  }
}

/* Raises an error if the shape of a value that carries a gradient is unknown. */
void pz_onnx_check_shapes(struct pz_call *call, const struct pz_onnx_graph *graph) {
  for (uint32_t i = 0; i < graph->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    for (uint32_t j = 0; j < node->n_out && !node->removed; j++) {
      const struct pz_onnx_value *value = pz_onnx_result(node, j);
      if (!value || !value->live || value->role == PZ_ONNX_DATA || value->rank >= 0) continue;
      char inputs[300];
      pz_onnx_spell_inputs(node, inputs, sizeof inputs);
      pz_onnx_raise(call, node, PZ_BAD_INPUT,
                    "the shape of its result '%.100s' is not stated in the file and does not "
                    "follow from its inputs (%s); accepted: a model exported with shapes",
                    value->name, inputs);
    }
  }
}
