/* Roles: which values are parameters, which are data, and which carry gradients; which are views; and which the
 * outputs depend on.
 *
 * A role follows from the inputs of a node (assign_result_roles).  The difficult part is initializers that are
 * constants of the architecture, not parameters: the file does not tell them apart.  is_constant_table() looks at
 * what becomes of them: rotary angles end in sines and cosines, masks are added to attention scores before a softmax. */

#include "onnx/passes.h"

enum { DEEPEST = 12 }; /* nodes that are followed from an initializer */

/* ---- constants of the architecture ---------------------------------------------------------- */

static bool is_constant(const struct pz_onnx_value *v) {
  int64_t n;
  if (v->has_real || v->ints || v->constant_table) return true;
  if (v->initializer && !pz_onnx_is_float(v->type)) return true;
  return v->rank >= 0 && pz_onnx_count_elements(v, &n) && n <= 1;
}

static bool is_data(const struct pz_onnx_value *v) {
  return v->role == PZ_ONNX_DATA || (v->type && !pz_onnx_is_float(v->type));
}

/* Is the result of the node used by a softmax alone, after element-wise nodes and views? */
static bool leads_to_softmax(const struct pz_onnx_graph *g, const struct pz_onnx_node *node) {
  for (int i = 0; i < DEEPEST; i++) {
    const struct pz_onnx_value *v = pz_onnx_result(g, node, 0);
    if (!v || v->n_consumers != 1) return false;
    node = pz_onnx_node(g, g->consumers[v->first_consumer]);
    if (pz_onnx_is_type(node, "Softmax")) return true;
    if (node->op->lower != PZ_LOWER_VIEW && !node->op->elementwise) return false;
  }
  return false;
}

static bool is_sine_or_cosine(const struct pz_onnx_node *node) {
  return pz_onnx_is_type(node, "Cos") || pz_onnx_is_type(node, "Sin");
}

/* Does everything that is computed from v end in sines and cosines? */
static bool is_angle(const struct pz_onnx_graph *g, uint32_t v, int depth) {
  const struct pz_onnx_value *x = pz_onnx_value(g, v);
  if (depth == 0 || !x->n_consumers || x->output) return false;
  for (uint32_t c = 0; c < x->n_consumers; c++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, g->consumers[x->first_consumer + c]);
    if (node->fused >= 0) return false;
    if (is_sine_or_cosine(node) || node->op->lower == PZ_LOWER_DATA) continue;
    if (!pz_onnx_result(g, node, 0) || !is_angle(g, node->out[0], depth - 1)) return false;
  }
  return true;
}

static bool is_constant_table(const struct pz_onnx_graph *g, uint32_t v, int depth, bool may_mask);

/* Does a node only move v around, or combine it with constants and data? */
static bool moves_constant(const struct pz_onnx_graph *g, const struct pz_onnx_node *node,
                           uint32_t v) {
  enum pz_onnx_lower lower = node->op->lower;
  bool moves = lower == PZ_LOWER_VIEW || lower == PZ_LOWER_PART || lower == PZ_LOWER_EXPAND ||
               node->op->shape == PZ_SHAPE_INDEXED || node->op->elementwise ||
               pz_onnx_is_type(node, "Concat") || pz_onnx_is_type(node, "Gather");
  if (!moves) return false;
  for (uint32_t i = 0; i < node->n_in; i++) {
    const struct pz_onnx_value *x = pz_onnx_input(g, node, i);
    if (x && node->in[i] != v && !is_constant(x) && !is_data(x)) return false;
  }
  return true;
}

/* Does a node use v like a constant of the architecture?  With may_mask, a sum with attention scores makes v a mask.
 * A table that is looked up is a learned bias instead. */
static bool uses_as_constant(const struct pz_onnx_graph *g, const struct pz_onnx_node *node,
                             uint32_t v, int depth, bool may_mask) {
  if (node->fused == PZ_OP_ROTARY) return node->n_in && node->in[0] != v;
  if (node->fused >= 0) return false;
  bool no_gradient = node->op->lower == PZ_LOWER_DATA; /* comparisons, for example */
  if (is_sine_or_cosine(node) || no_gradient) return true;
  bool adds = pz_onnx_is_type(node, "Add") || pz_onnx_is_type(node, "Sub") ||
              pz_onnx_is_type(node, "Where");
  if (adds && may_mask && pz_onnx_value(g, v)->rank >= 2 && leads_to_softmax(g, node)) return true;
  bool looked_up = pz_onnx_is_type(node, "Gather") || node->op->shape == PZ_SHAPE_INDEXED;
  if (!moves_constant(g, node, v) || !pz_onnx_result(g, node, 0)) return false;
  return is_constant_table(g, node->out[0], depth - 1, may_mask && !looked_up);
}

static bool is_constant_table(const struct pz_onnx_graph *g, uint32_t v, int depth, bool may_mask) {
  const struct pz_onnx_value *x = pz_onnx_value(g, v);
  if (x->constant_table) return true;
  if (depth == 0 || !x->n_consumers) return false;
  for (uint32_t c = 0; c < x->n_consumers; c++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, g->consumers[x->first_consumer + c]);
    if (!uses_as_constant(g, node, v, depth, may_mask)) return false;
  }
  return true;
}

/* Does the node combine v sample by sample: element-wise with tensors whose first dimension agrees, or with a matrix? */
static bool works_by_sample(const struct pz_onnx_graph *g, const struct pz_onnx_node *node,
                            const struct pz_onnx_value *v) {
  if (node->op->lower == PZ_LOWER_MATMUL) {
    const struct pz_onnx_value *weight = pz_onnx_input(g, node, 1);
    return pz_onnx_input(g, node, 0) == v && weight && weight->rank == 2;
  }
  if (node->op->lower != PZ_LOWER_BINARY) return false;
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *x = pz_onnx_input(g, node, k);
    if (x && x->rank > v->rank) return false;
    if (x && x->rank == v->rank && x->dim[0] != v->dim[0] && x->dim[0] != 1) return false;
  }
  return true;
}

void pz_onnx_find_batch_constants(struct pz_onnx_graph *g, int64_t batch) {
  if (batch <= 1) return;
  for (uint32_t i = 0; i < g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, i);
    bool constant = v->initializer && v->n_consumers && pz_onnx_is_float(v->type) && v->rank >= 3 &&
                    v->dim[0] == batch;
    for (uint32_t c = 0; c < v->n_consumers && constant; c++)
      constant = works_by_sample(g, pz_onnx_node(g, g->consumers[v->first_consumer + c]), v);
    if (constant) v->constant_table = true;
  }
}

/* ---- roles ---------------------------------------------------------------------------------- */

static bool is_view(const struct pz_onnx_graph *g, const struct pz_onnx_node *node, bool eager) {
  const struct pz_onnx_value *x = pz_onnx_input(g, node, 0);
  if (node->fused >= 0 || !x) return false;
  if (node->op->lower == PZ_LOWER_VIEW) return true;
  return node->op->lower == PZ_LOWER_EXPAND && !eager && x->role != PZ_ONNX_PARAM;
}

/* Views and the parts of a split parameter have the role of their input.  Other results are activations if an input
 * is not data. */
static void assign_result_roles(struct pz_onnx_graph *g, const struct pz_onnx_node *node,
                                bool eager) {
  if (node->op->shape == PZ_SHAPE_CONSTANT) return; /* has the role of an initializer */
  const struct pz_onnx_value *x = pz_onnx_input(g, node, 0);
  bool view = is_view(g, node, eager);
  bool split_param = node->op->shape == PZ_SHAPE_SPLIT && x && x->role == PZ_ONNX_PARAM;
  enum pz_onnx_role role = PZ_ONNX_DATA;
  if (x && (view || split_param)) {
    role = x->role;
  } else if (node->op->lower != PZ_LOWER_DATA) {
    for (uint32_t i = 0; i < node->n_in; i++) {
      const struct pz_onnx_value *input = pz_onnx_input(g, node, i);
      if (input && input->role != PZ_ONNX_DATA) role = PZ_ONNX_ACTIVATION;
    }
  }
  for (uint32_t o = 0; o < node->n_out; o++) {
    struct pz_onnx_value *y = pz_onnx_result(g, node, o);
    if (!y) continue;
    bool integers = y->type && !pz_onnx_is_float(y->type);
    bool statistics = o > 0 && node->op->lower != PZ_LOWER_PART;
    y->role = integers || statistics ? PZ_ONNX_DATA : role;
    y->root = x && view && o == 0 ? x->root : node->out[o];
  }
}

static void assign_all_roles(struct pz_onnx_graph *g, bool eager) {
  for (uint32_t i = 0; i < g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, i);
    if (v->producer != PZ_NONE && !v->initializer) continue;
    v->role = v->initializer && !is_constant(v) ? PZ_ONNX_PARAM : PZ_ONNX_DATA;
  }
  for (uint32_t i = 0; i < g->nodes.n; i++) assign_result_roles(g, pz_onnx_node(g, i), eager);
}

/* Roles are assigned twice, because what is data must be known to tell constants from parameters. */
void pz_onnx_assign_roles(struct pz_onnx_graph *g, bool eager) {
  assign_all_roles(g, eager);
  for (uint32_t i = 0; i < g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, i);
    bool stored = v->producer == PZ_NONE || v->initializer;
    if (stored && v->role == PZ_ONNX_PARAM)
      v->constant_table = is_constant_table(g, i, DEEPEST, true) || is_angle(g, i, DEEPEST);
  }
  assign_all_roles(g, eager);
}

/* ---- live values ---------------------------------------------------------------------------- */

void pz_onnx_find_live(struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->values.n; i++)
    pz_onnx_value(g, i)->live = pz_onnx_value(g, i)->output;
  for (uint32_t remaining = g->nodes.n; remaining > 0; remaining--) {
    struct pz_onnx_node *node = pz_onnx_node(g, remaining - 1);
    node->removed = true;
    for (uint32_t o = 0; o < node->n_out; o++) {
      const struct pz_onnx_value *y = pz_onnx_result(g, node, o);
      if (y && y->live) node->removed = false;
    }
    for (uint32_t k = 0; k < node->n_in && !node->removed; k++) {
      struct pz_onnx_value *x = pz_onnx_input(g, node, k);
      if (x) x->live = true;
    }
  }
}

void pz_onnx_check_shapes(struct pz_call *call, const struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    for (uint32_t o = 0; o < node->n_out && !node->removed; o++) {
      const struct pz_onnx_value *v = pz_onnx_result(g, node, o);
      if (!v || !v->live || v->role == PZ_ONNX_DATA || v->rank >= 0) continue;
      char inputs[300];
      pz_onnx_spell_inputs(g, node, inputs, sizeof inputs);
      pz_onnx_raise(call, g, node, PZ_BAD_INPUT,
                    "the shape of its result '%.100s' is not stated in the file and does not "
                    "follow from its inputs (%s); accepted: a model exported with shapes",
                    v->name, inputs);
    }
  }
}
