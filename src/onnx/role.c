#include "onnx/passes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 12 };

static bool is_constant(const struct pz_onnx_value *v) {
  int64_t n;
  if (!v) return true;
  return v->has_real || v->ints || v->table || (v->init && !pz_onnx_is_float(v->type)) ||
         (v->rank >= 0 && pz_onnx_elems(v, &n) && n <= 1);
}

/* Made of inputs and constants alone? */
static bool is_data(const struct pz_onnx_value *v) {
  return !v || v->role == PZ_ONNX_DATA || (v->type && !pz_onnx_is_float(v->type));
}

static bool leads_to_softmax(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  for (int i = 0; i < DEEPEST; i++) {
    if (n->n_out < 1 || n->out[0] == PZ_NONE) return false;
    const struct pz_onnx_value *v = pz_onnx_value(g, n->out[0]);
    if (v->n_users != 1) return false;
    n = pz_onnx_node(g, g->users[v->first]);
    if (strcmp(n->type, "Softmax") == 0) return true;
    if (n->op->rule != PZ_LOWER_VIEW && !n->op->elementwise) return false;
  }
  return false;
}

/* Is v turned into angles: does everything made from it end in sines and cosines? */
static bool is_angle(const struct pz_onnx_graph *g, uint32_t v, int depth) {
  const struct pz_onnx_value *x = pz_onnx_value(g, v);
  if (depth == 0 || !x->n_users || x->output) return false;
  for (uint32_t u = 0; u < x->n_users; u++) {
    const struct pz_onnx_node *n = pz_onnx_node(g, g->users[x->first + u]);
    if (n->fused >= 0) return false;
    if (strcmp(n->type, "Cos") == 0 || strcmp(n->type, "Sin") == 0) continue;
    if (n->op->rule == PZ_LOWER_DATA) continue;
    if (n->n_out < 1 || n->out[0] == PZ_NONE || !is_angle(g, n->out[0], depth - 1)) return false;
  }
  return true;
}

static bool is_table(const struct pz_onnx_graph *g, uint32_t v, int depth, bool masks);

/* Does this use of v speak for a constant of the architecture?  What is added to scores is a mask,
 * unless it is looked up: then it is a learned bias. */
static bool constant_use(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, uint32_t v,
                         int depth, bool masks) {
  const char *t = n->type;
  if (n->fused == PZ_OP_ROTARY) return n->n_in && n->in[0] != v;
  if (n->fused >= 0) return false;
  if (strcmp(t, "Cos") == 0 || strcmp(t, "Sin") == 0) return true;
  if (n->op->rule == PZ_LOWER_DATA) return true; /* comparisons have no gradient */
  const struct pz_onnx_value *x = pz_onnx_value(g, v);
  bool sum = strcmp(t, "Add") == 0 || strcmp(t, "Sub") == 0 || strcmp(t, "Where") == 0;
  if (sum && masks && x->rank >= 2 && leads_to_softmax(g, n)) return true;
  masks = masks && strcmp(t, "Gather") != 0 && n->op->shape != PZ_SHAPE_INDEXED;
  bool moves = n->op->rule == PZ_LOWER_VIEW || n->op->rule == PZ_LOWER_PART ||
               n->op->rule == PZ_LOWER_EXPAND || strcmp(t, "Concat") == 0 ||
               strcmp(t, "Gather") == 0 || n->op->shape == PZ_SHAPE_INDEXED || n->op->elementwise;
  for (uint32_t i = 0; i < n->n_in && moves; i++)
    moves = n->in[i] == v || is_constant(pz_onnx_in(g, n, i)) || is_data(pz_onnx_in(g, n, i));
  return moves && n->n_out >= 1 && n->out[0] != PZ_NONE && is_table(g, n->out[0], depth - 1, masks);
}

static bool is_table(const struct pz_onnx_graph *g, uint32_t v, int depth, bool masks) {
  const struct pz_onnx_value *x = pz_onnx_value(g, v);
  if (x->table) return true;
  if (depth == 0 || !x->n_users) return false;
  for (uint32_t u = 0; u < x->n_users; u++)
    if (!constant_use(g, pz_onnx_node(g, g->users[x->first + u]), v, depth, masks)) return false;
  return true;
}

static enum pz_onnx_role role_of_source(const struct pz_onnx_value *v) {
  return !v->init || is_constant(v) ? PZ_ONNX_DATA : PZ_ONNX_PARAM;
}

static enum pz_onnx_role role_of_result(const struct pz_onnx_graph *g,
                                        const struct pz_onnx_node *n) {
  enum pz_onnx_role role = PZ_ONNX_DATA;
  if (n->op->rule == PZ_LOWER_DATA) return role;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const struct pz_onnx_value *x = pz_onnx_in(g, n, i);
    if (x && x->role != PZ_ONNX_DATA) role = PZ_ONNX_ACT;
  }
  return role;
}

static bool is_view(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, bool eager) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (n->fused >= 0 || !x) return false;
  if (n->op->rule == PZ_LOWER_VIEW) return true;
  return n->op->rule == PZ_LOWER_EXPAND && !eager && x->role != PZ_ONNX_PARAM;
}

static void set_results(struct pz_onnx_graph *g, const struct pz_onnx_node *n, bool eager) {
  if (n->op->shape == PZ_SHAPE_CONSTANT) return; /* a source */
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  bool view = is_view(g, n, eager);
  /* weights that are stored as one and split for use are as many parameters */
  bool parts = n->op->shape == PZ_SHAPE_SPLIT && x && x->role == PZ_ONNX_PARAM;
  enum pz_onnx_role role = x && (view || parts) ? x->role : role_of_result(g, n);
  for (uint32_t o = 0; o < n->n_out; o++) {
    if (n->out[o] == PZ_NONE) continue;
    struct pz_onnx_value *y = pz_onnx_value(g, n->out[o]);
    bool indices = y->type && !pz_onnx_is_float(y->type);
    y->role = indices || (o > 0 && n->op->rule != PZ_LOWER_PART) ? PZ_ONNX_DATA : role;
    y->root = x && view && o == 0 ? x->root : n->out[o];
  }
}

/* Does the node work sample by sample: on elements of tensors of one first dimension, or with a
 * matrix? */
static bool by_sample(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                      const struct pz_onnx_value *v) {
  const struct pz_onnx_value *w = pz_onnx_in(g, n, 1);
  if (n->op->rule == PZ_LOWER_MATMUL) return pz_onnx_in(g, n, 0) == v && w && w->rank == 2;
  if (n->op->rule != PZ_LOWER_BINARY) return false;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *x = pz_onnx_in(g, n, k);
    if (x && x->rank > v->rank) return false;
    if (x && x->rank == v->rank && x->dim[0] != v->dim[0] && x->dim[0] != 1) return false;
  }
  return true;
}

void pz_onnx_batch_tables(struct pz_onnx_graph *g, int64_t batch) {
  for (uint32_t i = 0; i < g->values.n && batch > 1; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, i);
    bool table =
        v->init && v->n_users && pz_onnx_is_float(v->type) && v->rank >= 3 && v->dim[0] == batch;
    for (uint32_t u = 0; u < v->n_users && table; u++)
      table = by_sample(g, pz_onnx_node(g, g->users[v->first + u]), v);
    v->table = v->table || table;
  }
}

static void set_roles(struct pz_onnx_graph *g, bool eager) {
  for (uint32_t i = 0; i < g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, i);
    if (v->maker == PZ_NONE || v->init) v->role = role_of_source(v);
  }
  for (uint32_t i = 0; i < g->nodes.n; i++) set_results(g, pz_onnx_node(g, i), eager);
}

/* Twice: what is data must be known to tell tables from parameters. */
void pz_onnx_roles(struct pz_onnx_graph *g, bool eager) {
  set_roles(g, eager);
  for (uint32_t i = 0; i < g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, i);
    if ((v->maker != PZ_NONE && !v->init) || v->role != PZ_ONNX_PARAM) continue;
    v->table = is_table(g, i, DEEPEST, true) || is_angle(g, i, DEEPEST);
  }
  set_roles(g, eager);
}

void pz_onnx_live(struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->values.n; i++)
    pz_onnx_value(g, i)->live = pz_onnx_value(g, i)->output;
  for (uint32_t i = g->nodes.n; i-- > 0;) {
    struct pz_onnx_node *n = pz_onnx_node(g, i);
    bool live = false;
    for (uint32_t o = 0; o < n->n_out; o++)
      live = live || (n->out[o] != PZ_NONE && pz_onnx_value(g, n->out[o])->live);
    n->gone = !live;
    for (uint32_t k = 0; k < n->n_in && live; k++)
      if (n->in[k] != PZ_NONE) pz_onnx_value(g, n->in[k])->live = true;
  }
}

enum pz_status pz_onnx_check_shapes(const struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(g, i);
    for (uint32_t o = 0; o < n->n_out && !n->gone; o++) {
      const struct pz_onnx_value *v = n->out[o] == PZ_NONE ? NULL : pz_onnx_value(g, n->out[o]);
      if (!v || !v->live || v->role == PZ_ONNX_DATA || v->rank >= 0) continue;
      char inputs[300];
      pz_onnx_spell_inputs(g, n, inputs, sizeof inputs);
      return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                          "the shape of its result '%.100s' is not stated in the file and does not "
                          "follow from its inputs (%s); accepted: a model exported with shapes",
                          v->name, inputs);
    }
  }
  return PZ_OK;
}
