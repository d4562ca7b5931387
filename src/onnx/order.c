/* The order of the operators: the nodes that carry gradients and contribute to an output, and how
 * long their results are needed.
 *
 * pz_onnx_order_make() finds those nodes (classify_nodes) and lists them in topological order,
 * hoisted ones first.  It records where every value is first and last used and whether matrices
 * are shared (note_uses), and counts the values that cross each place, which determines where the
 * order can be cut into layers. */
#include "onnx/layering.h"

/* Returns the place of the operator that computes a value, or PZ_NONE. */
uint32_t pz_onnx_produced_at(const struct pz_onnx_layering *layering, uint32_t id) {
  const struct pz_onnx_value *value = pz_onnx_value(layering->graph, id);
  return value->producer == PZ_NONE ? PZ_NONE : layering->place[value->producer];
}

/* Returns whether a value has at most one dimension above 1, as the scale or the shift of a norm
 * has. */
static bool is_vector(const struct pz_onnx_value *value) {
  int wide = 0;
  for (int i = 0; i < value->rank; i++) wide += value->dim[i] > 1;
  return wide < 2;
}

/* Returns whether each use of a vector counts as a separate parameter, because exporters store
 * equal vectors, such as biases of zeros, once for all layers. */
bool pz_onnx_is_merged(const struct pz_onnx_layering *layering, uint32_t id) {
  uint32_t root = pz_onnx_value(layering->graph, id)->root;
  return !layering->shares_matrices && is_vector(pz_onnx_value(layering->graph, root));
}

/* Returns whether a parameter that operators [first, first + n) read belongs to another layer.  It
 * belongs to the layer that reads it first. */
bool pz_onnx_is_tied(const struct pz_onnx_layering *layering, uint32_t value, uint32_t first,
                     uint32_t n) {
  uint32_t first_use = layering->first_use[pz_onnx_value(layering->graph, value)->root];
  if (pz_onnx_is_merged(layering, value)) return false;
  return first_use < first || first_use >= first + n;
}

/* The position that a node gets in the order. */
enum position {
  NO_OPERATOR, /* is not in the order */
  IN_ORDER,    /* keeps its position in the file */
  INVARIANT,   /* independent of the inputs' contents, or element-wise work on such values */
  HOISTED,     /* invariant, but read by several operators, and therefore moved to the front */
};

/* Returns whether a node becomes an operator: whether a result carries a gradient and is no view.
 * */
static bool is_operator(const struct pz_onnx_node *node) {
  if (node->removed) return false;
  for (uint32_t j = 0; j < node->n_out; j++) {
    const struct pz_onnx_value *value = pz_onnx_result(node, j);
    if (value && value->role == PZ_ONNX_ACTIVATION && value->root == node->out[j]) return true;
  }
  return false;
}

/* Returns whether `mark`, an array by value, is set for a result of the node. */
static bool any_result_marked(const struct pz_onnx_node *node, const bool *mark) {
  for (uint32_t j = 0; j < node->n_out; j++)
    if (node->out[j] != PZ_NONE && mark[node->out[j]]) return true;
  return false;
}

/* Marks the values on which an output with a gradient depends.  Nodes that lead only to indices or
 * comparisons are not part of training. */
static void mark_needed(const struct pz_onnx_graph *graph, bool *needed) {
  for (uint32_t i = 0; i < graph->outputs.n; i++) {
    const struct pz_onnx_value *value =
        pz_onnx_value(graph, *pz_vec_at(&graph->outputs, uint32_t, i));
    if (value->role == PZ_ONNX_ACTIVATION && value->rank >= 0) needed[value->root] = true;
  }
  for (uint32_t remaining = graph->nodes.n; remaining > 0; remaining--) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, remaining - 1);
    if (!is_operator(node) || !any_result_marked(node, needed)) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *input = pz_onnx_input(node, k);
      if (input) needed[input->root] = true;
    }
  }
}

/* Returns whether the node is element-wise work on results of invariant nodes and on data.
 * `position` (enum position) is known for the nodes before it. */
static bool extends_invariant(const struct pz_onnx_node *node, const uint8_t *position) {
  bool has_invariant_input = false;
  if (node->fused >= 0 || !node->op->elementwise) return false;
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, k);
    if (!value || value->role == PZ_ONNX_DATA) continue;
    uint32_t producer = pz_onnx_value(node->graph, value->root)->producer;
    if (value->role != PZ_ONNX_ACTIVATION || producer == PZ_NONE) return false;
    if (position[producer] != INVARIANT) return false;
    has_invariant_input = true;
  }
  return has_invariant_input;
}

/* Sets the position of every node.  Nodes that are computed from parameters alone and read by
 * several layers, such as a bias from relative positions, are hoisted to the front, with the masks
 * that are added to them.  Exporters write such nodes into the first layer, which would then
 * differ from the other layers. */
static void classify_nodes(struct pz_call *call, const struct pz_onnx_graph *graph,
                           uint8_t *position) {
  uint32_t n = graph->nodes.n;
  bool *dependent = pz_alloc(call, graph->values.n, sizeof *dependent);
  bool *needed = pz_alloc(call, graph->values.n, sizeof *needed);
  /* n_readers[i]: operators in order that read results of node i, counted up to 2 */
  uint8_t *n_readers = pz_alloc(call, n, sizeof *n_readers);
  /* Mark the values that depend on the contents of the inputs, not only on their sizes. */
  for (uint32_t i = 0; i < graph->values.n; i++) dependent[i] = pz_onnx_value(graph, i)->input;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    bool reads_dependent = false;
    for (uint32_t k = 0; k < node->n_in; k++)
      if (node->in[k] != PZ_NONE && dependent[node->in[k]]) reads_dependent = true;
    bool reads_size_only = node->op->shape == PZ_SHAPE_SHAPE || node->op->shape == PZ_SHAPE_SCALAR;
    for (uint32_t j = 0; j < node->n_out; j++)
      if (node->out[j] != PZ_NONE) dependent[node->out[j]] = reads_dependent && !reads_size_only;
  }
  /* Find the operators, and those that compute the same for all inputs. */
  mark_needed(graph, needed);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    if (!is_operator(node) || !any_result_marked(node, needed)) continue;
    bool invariant = !any_result_marked(node, dependent) || extends_invariant(node, position);
    position[i] = invariant ? INVARIANT : IN_ORDER;
  }
  /* Hoist invariant nodes with two readers in the order, and the invariant nodes that hoisted ones
   * read.  Readers are visited before the nodes that they read. */
  for (uint32_t remaining = n; remaining > 0; remaining--) {
    uint32_t i = remaining - 1;
    if (position[i] == NO_OPERATOR) continue;
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *value = pz_onnx_input(node, k);
      uint32_t producer = value ? pz_onnx_value(graph, value->root)->producer : PZ_NONE;
      if (producer == PZ_NONE || position[producer] != INVARIANT) continue;
      if (position[i] == IN_ORDER && n_readers[producer] < 2) n_readers[producer]++;
      if (position[i] == HOISTED || n_readers[producer] == 2) position[producer] = HOISTED;
    }
  }
}

/* Records the first and the last use of every value, and whether several products use the same
 * matrix, which means that it is shared on purpose.  An embedding that is also the output matrix
 * does not count, because its lookup is no product.  The loss is computed from the first
 * floating-point output.  That output, and other outputs that no operator reads, are needed until
 * the end. */
static void note_uses(struct pz_call *call, struct pz_onnx_layering *layering) {
  const struct pz_onnx_graph *graph = layering->graph;
  bool *used_by_product = pz_alloc(call, graph->values.n, sizeof *used_by_product);
  for (uint32_t place = 0; place < layering->n; place++) {
    const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
    bool is_product =
        node->fused == PZ_OP_MATMUL || (node->fused < 0 && node->op->kind == PZ_OP_MATMUL);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *value = pz_onnx_input(node, k);
      if (!value || value->role == PZ_ONNX_DATA) continue;
      uint32_t root = value->root;
      if (layering->first_use[root] == PZ_NONE) layering->first_use[root] = place;
      layering->last_use[root] = place;
      bool is_param = value->role == PZ_ONNX_PARAM;
      if (!is_product || !is_param || is_vector(pz_onnx_value(graph, root))) continue;
      if (used_by_product[root]) layering->shares_matrices = true;
      used_by_product[root] = true;
    }
  }
  layering->result = PZ_NONE;
  for (uint32_t i = 0; i < graph->outputs.n; i++) {
    uint32_t id = *pz_vec_at(&graph->outputs, uint32_t, i);
    const struct pz_onnx_value *value = pz_onnx_value(graph, id);
    if (value->role != PZ_ONNX_ACTIVATION || value->rank < 0) continue;
    if (layering->result == PZ_NONE) layering->result = id;
    uint32_t *last_use = &layering->last_use[value->root];
    if (layering->result == id || *last_use == PZ_NONE) *last_use = layering->n;
  }
}

/* Lists the operators, hoisted ones first, and records where values are used and alive. */
void pz_onnx_order_make(struct pz_call *call, struct pz_onnx_layering *layering) {
  uint32_t n = layering->graph->nodes.n, n_values = layering->graph->values.n;
  uint8_t *position = pz_alloc(call, n, sizeof *position);
  layering->order = pz_alloc(call, n, sizeof *layering->order);
  layering->place = pz_alloc(call, n, sizeof *layering->place);
  layering->first_use = pz_alloc(call, n_values, sizeof *layering->first_use);
  layering->last_use = pz_alloc(call, n_values, sizeof *layering->last_use);
  layering->crossing = pz_alloc(call, (size_t)n + 2, sizeof *layering->crossing);
  for (uint32_t i = 0; i < n; i++) layering->place[i] = PZ_NONE;
  for (uint32_t i = 0; i < n_values; i++) {
    layering->first_use[i] = PZ_NONE;
    layering->last_use[i] = PZ_NONE;
  }
  classify_nodes(call, layering->graph, position);
  for (int pass = 0; pass < 2; pass++) { /* lists the hoisted operators, then the others */
    bool hoisted_pass = pass == 0;
    if (!hoisted_pass) layering->n_hoisted = layering->n;
    for (uint32_t i = 0; i < n; i++) {
      bool hoisted = position[i] == HOISTED;
      if (position[i] == NO_OPERATOR || hoisted != hoisted_pass) continue;
      layering->place[i] = layering->n;
      layering->order[layering->n++] = i;
    }
  }
  note_uses(call, layering);
  /* Count the activations that cross each place: those that are produced before it and read at it
   * or later.  One that is produced at place p and last read at place q crosses p + 1 to q, so the
   * count rises at p + 1 and falls at q + 1.  These differences (modulo 2^32) are summed up at the
   * end.  Views do not count, because they have no bytes of their own. */
  for (uint32_t place = 0; place < layering->n; place++) {
    const struct pz_onnx_node *node = pz_onnx_node(layering->graph, layering->order[place]);
    for (uint32_t j = 0; j < node->n_out; j++) {
      const struct pz_onnx_value *value = pz_onnx_result(node, j);
      bool is_view = value && value->root != node->out[j];
      if (!value || is_view || value->role != PZ_ONNX_ACTIVATION) continue;
      uint32_t last_use = layering->last_use[node->out[j]];
      if (last_use == PZ_NONE) continue; /* it is never read */
      layering->crossing[place + 1]++;
      layering->crossing[last_use + 1]--;
    }
  }
  for (uint32_t place = 1; place <= layering->n; place++)
    layering->crossing[place] += layering->crossing[place - 1];
}
