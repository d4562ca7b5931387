/* The order of the operators: the nodes that carry gradients and contribute to an output, and how long their results
 * are needed.
 *
 * pz_onnx_order_make() finds those nodes (classify_nodes), writes them in topological order with hoisted ones at the
 * front, and notes for every value where it is first and last used (note_uses, note_outputs), whether matrices are
 * shared (note_sharing), and how many values cross each place (count_crossings), for cutting the order into layers. */
#include "onnx/layering.h"

/* ---- questions ------------------------------------------------------------------------------ */

uint32_t pz_onnx_produced_at(const struct pz_onnx_layering *l, uint32_t value) {
  const struct pz_onnx_value *v = pz_onnx_value(l->g, value);
  return v->producer == PZ_NONE ? PZ_NONE : l->place[v->producer];
}

bool pz_onnx_is_product(const struct pz_onnx_node *node) {
  return node->fused == PZ_OP_MATMUL || (node->fused < 0 && node->op->kind == PZ_OP_MATMUL);
}

/* Has the value at most one dimension above 1, like a scale or a shift? */
static bool is_vector(const struct pz_onnx_value *v) {
  int wide = 0;
  for (int i = 0; i < v->rank; i++) wide += v->dim[i] > 1;
  return wide < 2;
}

bool pz_onnx_is_merged(const struct pz_onnx_layering *l, uint32_t value) {
  const struct pz_onnx_value *v = pz_onnx_value(l->g, value);
  return !l->shares_matrices && is_vector(pz_onnx_value(l->g, v->root));
}

bool pz_onnx_is_tied(const struct pz_onnx_layering *l, uint32_t value, uint32_t first, uint32_t n) {
  uint32_t first_use = l->first_use[pz_onnx_value(l->g, value)->root];
  if (pz_onnx_is_merged(l, value)) return false;
  return first_use < first || first_use >= first + n;
}

/* ---- hoisting ------------------------------------------------------------------------------- */

enum position {
  NO_OPERATOR,
  IN_ORDER, /* stays where the file has it */
  INVARIANT, /* does not depend on the contents of the inputs, or is element-wise work on such values */
  HOISTED, /* invariant and read by several operators: moved to the front */
};

/* Does a node become an operator?  Views and nodes without a gradient do not. */
static bool is_operator(const struct pz_onnx_graph *g, const struct pz_onnx_node *node) {
  if (node->removed) return false;
  for (uint32_t o = 0; o < node->n_out; o++) {
    const struct pz_onnx_value *v = pz_onnx_result(g, node, o);
    if (v && v->role == PZ_ONNX_ACTIVATION && v->root == node->out[o]) return true;
  }
  return false;
}

static bool any_result_marked(const struct pz_onnx_node *node, const bool *mark) {
  for (uint32_t o = 0; o < node->n_out; o++)
    if (node->out[o] != PZ_NONE && mark[node->out[o]]) return true;
  return false;
}

/* Marks the values that depend on the contents of the inputs, not only on their sizes. */
static void mark_input_dependent(const struct pz_onnx_graph *g, bool *dependent) {
  for (uint32_t i = 0; i < g->values.n; i++) dependent[i] = pz_onnx_value(g, i)->input;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    bool any = false;
    for (uint32_t k = 0; k < node->n_in; k++)
      if (node->in[k] != PZ_NONE && dependent[node->in[k]]) any = true;
    if (node->op->shape == PZ_SHAPE_SHAPE || node->op->shape == PZ_SHAPE_SCALAR) any = false;
    for (uint32_t o = 0; o < node->n_out; o++)
      if (node->out[o] != PZ_NONE) dependent[node->out[o]] = any;
  }
}

/* Marks the values that an output with a gradient depends on.  Nodes that lead only to indices or comparisons are not
 * part of training. */
static void mark_needed(const struct pz_onnx_graph *g, bool *needed) {
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->outputs, uint32_t, i));
    if (v->role == PZ_ONNX_ACTIVATION && v->rank >= 0) needed[v->root] = true;
  }
  for (uint32_t remaining = g->nodes.n; remaining > 0; remaining--) {
    const struct pz_onnx_node *node = pz_onnx_node(g, remaining - 1);
    if (!is_operator(g, node) || !any_result_marked(node, needed)) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *x = pz_onnx_input(g, node, k);
      if (x) needed[x->root] = true;
    }
  }
}

/* Is the node element-wise work on invariant values and data? */
static bool extends_invariant(const struct pz_onnx_graph *g, const struct pz_onnx_node *node,
                              const uint8_t *position) {
  bool any = false;
  if (node->fused >= 0 || !node->op->elementwise) return false;
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *v = pz_onnx_input(g, node, k);
    if (!v || v->role == PZ_ONNX_DATA) continue;
    uint32_t producer = pz_onnx_value(g, v->root)->producer;
    if (v->role != PZ_ONNX_ACTIVATION || producer == PZ_NONE) return false;
    if (position[producer] != INVARIANT) return false;
    any = true;
  }
  return any;
}

/* Finds the position of every node.  What is computed from parameters alone and read by several layers, such as a
 * bias from relative positions, is hoisted to the front, together with the masks that are added to it, although
 * exporters write it where the first layer uses it.  Otherwise the layers would not be alike. */
static void classify_nodes(struct pz_call *call, const struct pz_onnx_graph *g, uint8_t *position) {
  uint32_t n = g->nodes.n;
  bool *dependent = pz_alloc(call, g->values.n, sizeof *dependent);
  bool *needed = pz_alloc(call, g->values.n, sizeof *needed);
  uint8_t *n_readers = pz_alloc(call, n, sizeof *n_readers); /* operators in order; at most 2 */
  mark_input_dependent(g, dependent);
  mark_needed(g, needed);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    if (!is_operator(g, node) || !any_result_marked(node, needed)) continue;
    bool invariant = !any_result_marked(node, dependent) || extends_invariant(g, node, position);
    position[i] = invariant ? INVARIANT : IN_ORDER;
  }
  for (uint32_t remaining = n; remaining > 0; remaining--) {
    uint32_t i = remaining - 1;
    if (position[i] == NO_OPERATOR) continue;
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_input(g, node, k);
      uint32_t producer = v ? pz_onnx_value(g, v->root)->producer : PZ_NONE;
      if (producer == PZ_NONE || position[producer] != INVARIANT) continue;
      if (position[i] == IN_ORDER && n_readers[producer] < 2) n_readers[producer]++;
      if (position[i] == HOISTED || n_readers[producer] == 2) position[producer] = HOISTED;
    }
  }
}

/* ---- uses ----------------------------------------------------------------------------------- */

static void note_uses(struct pz_onnx_layering *l) {
  for (uint32_t at = 0; at < l->n; at++) {
    const struct pz_onnx_node *node = pz_onnx_at(l, at);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_input(l->g, node, k);
      if (!v || v->role == PZ_ONNX_DATA) continue;
      if (l->first_use[v->root] == PZ_NONE) l->first_use[v->root] = at;
      l->last_use[v->root] = at;
    }
  }
}

/* The loss is computed of the first floating-point output.  Other outputs that nothing reads are kept until the end. */
static void note_outputs(struct pz_onnx_layering *l) {
  l->result = PZ_NONE;
  for (uint32_t i = 0; i < l->g->outputs.n; i++) {
    uint32_t id = *pz_vec_at(&l->g->outputs, uint32_t, i);
    const struct pz_onnx_value *v = pz_onnx_value(l->g, id);
    if (v->role != PZ_ONNX_ACTIVATION || v->rank < 0) continue;
    if (l->result == PZ_NONE) l->result = id;
    if (l->result == id || l->last_use[v->root] == PZ_NONE) l->last_use[v->root] = l->n;
  }
}

/* A matrix that several products use is shared on purpose.  (An embedding and a head are one product.) */
static void note_sharing(struct pz_call *call, struct pz_onnx_layering *l) {
  bool *used = pz_alloc(call, l->g->values.n, sizeof *used);
  for (uint32_t at = 0; at < l->n; at++) {
    const struct pz_onnx_node *node = pz_onnx_at(l, at);
    if (!pz_onnx_is_product(node)) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_input(l->g, node, k);
      if (!v || v->role != PZ_ONNX_PARAM || is_vector(pz_onnx_value(l->g, v->root))) continue;
      if (used[v->root]) l->shares_matrices = true;
      used[v->root] = true;
    }
  }
}

/* Counts differences first, modulo 2^32, and then sums them up. */
static void count_crossings(struct pz_onnx_layering *l) {
  for (uint32_t at = 0; at < l->n; at++) {
    const struct pz_onnx_node *node = pz_onnx_at(l, at);
    for (uint32_t o = 0; o < node->n_out; o++) {
      const struct pz_onnx_value *v = pz_onnx_result(l->g, node, o);
      if (!v || v->root != node->out[o] || v->role != PZ_ONNX_ACTIVATION) continue;
      uint32_t last = l->last_use[node->out[o]];
      if (last == PZ_NONE) continue;
      l->crossing[at + 1]++;
      l->crossing[last + 1]--;
    }
  }
  for (uint32_t at = 1; at <= l->n; at++) l->crossing[at] += l->crossing[at - 1];
}

void pz_onnx_order_make(struct pz_call *call, struct pz_onnx_layering *l) {
  uint32_t n = l->g->nodes.n, n_values = l->g->values.n;
  uint8_t *position = pz_alloc(call, n, sizeof *position);
  l->order = pz_alloc(call, n, sizeof *l->order);
  l->place = pz_alloc(call, n, sizeof *l->place);
  l->first_use = pz_alloc(call, n_values, sizeof *l->first_use);
  l->last_use = pz_alloc(call, n_values, sizeof *l->last_use);
  l->crossing = pz_alloc(call, (size_t)n + 2, sizeof *l->crossing);
  for (uint32_t i = 0; i < n; i++) l->place[i] = PZ_NONE;
  for (uint32_t i = 0; i < n_values; i++) {
    l->first_use[i] = PZ_NONE;
    l->last_use[i] = PZ_NONE;
  }
  classify_nodes(call, l->g, position);
  for (int pass = 0; pass < 2; pass++) {
    bool hoisted_pass = pass == 0;
    if (!hoisted_pass) l->n_hoisted = l->n;
    for (uint32_t i = 0; i < n; i++) {
      bool hoisted = position[i] == HOISTED;
      if (position[i] == NO_OPERATOR || hoisted != hoisted_pass) continue;
      l->place[i] = l->n;
      l->order[l->n++] = i;
    }
  }
  note_uses(l);
  note_outputs(l);
  note_sharing(call, l);
  count_crossings(l);
}
