#include "onnx/passes.h"

#include <inttypes.h>
#include <string.h>

enum { LEAST_OPSET = 9, MOST_OPSET = 22 };

/* ---- values --------------------------------------------------------------------------------- */

static enum pz_status value_of(struct pz_onnx_graph *g, const char *name, uint32_t *out) {
  uint32_t id = pz_map_get(&g->by_name, name, strlen(name));
  if (id == PZ_NONE) {
    struct pz_onnx_value v = {.name = name, .rank = -1, .maker = PZ_NONE, .root = g->values.n};
    id = g->values.n;
    if (!pz_vec_push(&g->values, &v) || pz_map_put(&g->by_name, name, strlen(name), id) != PZ_OK)
      return pz_onnx_no_memory(g);
  }
  *out = id;
  return PZ_OK;
}

static enum pz_status check_dim(const struct pz_onnx_graph *g, const char *name, int64_t d) {
  if (d >= 0 && d <= PZ_ONNX_MOST_DIM) return PZ_OK;
  pz_fail(g->err, PZ_LIMIT,
          "%s: tensor '%.200s' has a dimension of %" PRId64 "; accepted: 0 to %" PRId64, g->file,
          name, d, PZ_ONNX_MOST_DIM);
  pz_error_at(g->err, g->file, 0, 0);
  return PZ_LIMIT;
}

static enum pz_status check_rank(const struct pz_onnx_graph *g, const char *name, size_t rank) {
  if (rank <= PZ_ONNX_MOST_RANK) return PZ_OK;
  return pz_fail(g->err, PZ_LIMIT, "%s: tensor '%.200s' has %zu dimensions; accepted: at most %d",
                 g->file, name, rank, PZ_ONNX_MOST_RANK);
}

/* Type and shape as a ValueInfoProto gives them; a dimension that is no number is -1. */
static enum pz_status read_type(struct pz_onnx_graph *g, const Onnx__ValueInfoProto *info,
                                uint32_t id) {
  struct pz_onnx_value *v = pz_onnx_value(g, id);
  const Onnx__TypeProto *t = info->type;
  if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type) return PZ_OK;
  v->type = t->tensor_type->has_elem_type ? t->tensor_type->elem_type : 0;
  const Onnx__TensorShapeProto *s = t->tensor_type->shape;
  if (!s) return PZ_OK;
  enum pz_status status = check_rank(g, v->name, s->n_dim);
  if (status != PZ_OK) return status;
  v->rank = (int)s->n_dim;
  v->given = true;
  const char **symbols = pz_arena_alloc(g->arena, s->n_dim, sizeof *symbols);
  if (!symbols) return pz_onnx_no_memory(g);
  for (size_t i = 0; i < s->n_dim && status == PZ_OK; i++) {
    const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
    bool number = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    bool named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    v->dim[i] = number ? d->dim_value : -1;
    if (number) status = check_dim(g, v->name, d->dim_value);
    if (!number) v->given = false;
    symbols[i] = number ? NULL : named && d->dim_param && d->dim_param[0] ? d->dim_param : "?";
  }
  v->symbols = symbols;
  return status;
}

static enum pz_status read_infos(struct pz_onnx_graph *g, Onnx__ValueInfoProto *const *infos,
                                 size_t n, struct pz_vec *list) {
  for (size_t i = 0; i < n; i++) {
    const char *name = infos[i]->name ? infos[i]->name : "";
    uint32_t id = PZ_NONE;
    enum pz_status status = value_of(g, name, &id);
    if (status == PZ_OK) status = read_type(g, infos[i], id);
    if (status != PZ_OK) return status;
    if (list && !pz_vec_push(list, &id)) return pz_onnx_no_memory(g);
  }
  return PZ_OK;
}

/* A weight that is there twice, or whose shape an input of the same name states otherwise. */
static enum pz_status check_stated(const struct pz_onnx_graph *g, const struct pz_onnx_value *v,
                                   const Onnx__TensorProto *t) {
  bool same = !v->given || v->rank == (int)t->n_dims;
  for (int k = 0; v->given && same && k < v->rank; k++) same = v->dim[k] == t->dims[k];
  if (same && !v->init) return PZ_OK;
  return pz_fail(g->err, PZ_BAD_INPUT, "%s: initializer '%.200s' %s", g->file, v->name,
                 v->init ? "is there twice; accepted: once"
                         : "has another shape than the file states for it; accepted: the same");
}

static enum pz_status read_inits(struct pz_onnx_graph *g, const Onnx__GraphProto *p) {
  for (size_t i = 0; i < p->n_initializer; i++) {
    const Onnx__TensorProto *t = p->initializer[i];
    uint32_t id = PZ_NONE;
    enum pz_status status = value_of(g, t->name ? t->name : "", &id);
    if (status == PZ_OK) status = check_rank(g, t->name ? t->name : "", t->n_dims);
    if (status != PZ_OK) return status;
    struct pz_onnx_value *v = pz_onnx_value(g, id);
    status = check_stated(g, v, t);
    if (status != PZ_OK) return status;
    v->init = true;
    v->input = false; /* before IR version 4 initializers are inputs too */
    v->given = true;
    v->type = t->has_data_type ? t->data_type : 0;
    v->rank = (int)t->n_dims;
    for (size_t k = 0; k < t->n_dims && status == PZ_OK; k++)
      status = check_dim(g, v->name, v->dim[k] = t->dims[k]);
    if (status == PZ_OK && !pz_onnx_tensor_read(g, v, t)) status = pz_onnx_no_memory(g);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static enum pz_status read_names(struct pz_onnx_graph *g, char *const *names, size_t n,
                                 uint32_t **out) {
  uint32_t *ids = pz_arena_alloc(g->arena, n, sizeof *ids);
  if (!ids) return pz_onnx_no_memory(g);
  for (size_t i = 0; i < n; i++) {
    ids[i] = PZ_NONE;
    if (!names[i] || !names[i][0]) continue;
    enum pz_status status = value_of(g, names[i], &ids[i]);
    if (status != PZ_OK) return status;
  }
  *out = ids;
  return PZ_OK;
}

static enum pz_status claim_outputs(struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                                    uint32_t index) {
  for (uint32_t i = 0; n->out && i < n->n_out; i++) {
    if (n->out[i] == PZ_NONE) continue;
    struct pz_onnx_value *v = pz_onnx_value(g, n->out[i]);
    if (v->maker != PZ_NONE || v->init || v->input)
      return pz_onnx_fail(
          g, n, PZ_BAD_INPUT,
          "produces tensor '%.120s', which another node, input or initializer already produces; "
          "accepted: one of them",
          v->name);
    v->maker = index;
  }
  return PZ_OK;
}

static bool has_subgraph(const struct pz_onnx_node *n) {
  for (size_t i = 0; i < n->n_attrs; i++)
    if (n->attrs[i]->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH ||
        n->attrs[i]->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS)
      return true;
  return false;
}

static bool is_local_function(const Onnx__ModelProto *m, const struct pz_onnx_node *n) {
  for (size_t i = 0; i < m->n_functions; i++) {
    const Onnx__FunctionProto *f = m->functions[i];
    if (f->name && strcmp(f->name, n->type) == 0 &&
        strcmp(f->domain ? f->domain : "", n->domain) == 0)
      return true;
  }
  return false;
}

/* What kind of node it is, or why it cannot be imported. */
static enum pz_status classify(const struct pz_onnx_graph *g, const Onnx__ModelProto *m,
                               struct pz_onnx_node *n, bool unknown_vector) {
  n->op = pz_onnx_op_find(n->domain, n->type);
  if (is_local_function(m, n))
    return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                        "calls a local function of the model; accepted: a model exported with "
                        "its functions inlined");
  if (has_subgraph(n) || (n->op && n->op->rule == PZ_LOWER_REFUSE))
    return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                        "control flow with subgraphs is not imported; accepted: a model exported "
                        "without If, Loop and Scan");
  if (n->op) return PZ_OK;
  n->op = pz_onnx_op_unknown();
  if (unknown_vector) return PZ_OK;
  return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                      "operator type '%.80s' of domain '%.80s' is unknown; accepted with "
                      "--unknown-ops=vector, as element-wise work",
                      n->type, n->domain[0] ? n->domain : "ai.onnx");
}

static enum pz_status read_node(struct pz_onnx_graph *g, const Onnx__ModelProto *m,
                                const Onnx__NodeProto *p, bool unknown_vector) {
  struct pz_onnx_node n = {.type = p->op_type ? p->op_type : "",
                           .domain = p->domain ? p->domain : "",
                           .name = p->name ? p->name : "",
                           .attrs = p->attribute,
                           .n_attrs = p->n_attribute,
                           .n_in = (uint32_t)p->n_input,
                           .n_out = (uint32_t)p->n_output,
                           .fused = -1};
  if (strcmp(n.domain, "ai.onnx") == 0) n.domain = "";
  enum pz_status status = read_names(g, p->input, p->n_input, &n.in);
  if (status == PZ_OK) status = read_names(g, p->output, p->n_output, &n.out);
  if (status == PZ_OK) status = classify(g, m, &n, unknown_vector);
  if (status == PZ_OK) status = claim_outputs(g, &n, g->nodes.n);
  if (status != PZ_OK) return status;
  return pz_vec_push(&g->nodes, &n) ? PZ_OK : pz_onnx_no_memory(g);
}

static enum pz_status check_made(const struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(g, i);
    for (uint32_t k = 0; k < n->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_in(g, n, k);
      if (v && v->maker == PZ_NONE && !v->init && !v->input)
        return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                            "reads tensor '%.120s', which no node, input or initializer produces; "
                            "accepted: the name of one that is there",
                            v->name);
    }
  }
  return PZ_OK;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Nodes whose inputs are all there go first, in the order of the file. */
static enum pz_status sort_nodes(struct pz_onnx_graph *g) {
  uint32_t n = g->nodes.n, *waits = pz_arena_alloc(g->arena, n, sizeof *waits), done = 0;
  struct pz_onnx_node *sorted = pz_arena_alloc(g->arena, n, sizeof *sorted);
  uint32_t *queue = pz_arena_alloc(g->arena, n, sizeof *queue), tail = 0;
  if (!waits || !sorted || !queue) return pz_onnx_no_memory(g);
  bool in_order = true;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_in(g, node, k);
      if (!v || v->maker == PZ_NONE) continue;
      waits[i]++;
      in_order = in_order && v->maker < i;
    }
    if (!waits[i]) queue[tail++] = i;
  }
  if (in_order) return PZ_OK;
  while (done < tail) {
    const struct pz_onnx_node *node = pz_onnx_node(g, queue[done]);
    sorted[done++] = *node;
    for (uint32_t o = 0; o < node->n_out; o++) {
      const struct pz_onnx_value *v =
          node->out[o] == PZ_NONE ? NULL : pz_onnx_value(g, node->out[o]);
      for (uint32_t u = 0; v && u < v->n_users; u++)
        if (--waits[g->users[v->first + u]] == 0) queue[tail++] = g->users[v->first + u];
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (waits[i])
      return pz_onnx_fail(g, pz_onnx_node(g, i), PZ_BAD_INPUT,
                          "is part of a cycle, or follows one; accepted: a graph without cycles");
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t o = 0; o < sorted[i].n_out; o++)
      if (sorted[i].out[o] != PZ_NONE) pz_onnx_value(g, sorted[i].out[o])->maker = i;
  memcpy(g->nodes.items, sorted, n * sizeof *sorted);
  return pz_onnx_graph_users(g);
}

static enum pz_status check_opset(struct pz_onnx_graph *g, const Onnx__ModelProto *m) {
  for (size_t i = 0; i < m->n_opset_import; i++) {
    const char *d = m->opset_import[i]->domain;
    if (!d || !d[0] || strcmp(d, "ai.onnx") == 0) g->opset = m->opset_import[i]->version;
  }
  if (g->opset >= LEAST_OPSET && g->opset <= MOST_OPSET) return PZ_OK;
  pz_fail(g->err, PZ_BAD_INPUT, "%s: operator set version %" PRId64 "; accepted: %d to %d", g->file,
          g->opset, LEAST_OPSET, MOST_OPSET);
  pz_error_at(g->err, g->file, 0, 0);
  return PZ_BAD_INPUT;
}

static enum pz_status read_graph(struct pz_onnx_graph *g, const Onnx__ModelProto *m,
                                 bool unknown_vector) {
  const Onnx__GraphProto *p = m->graph;
  enum pz_status status = read_infos(g, p->input, p->n_input, &g->inputs);
  if (status == PZ_OK) status = read_infos(g, p->output, p->n_output, &g->outputs);
  if (status == PZ_OK) status = read_infos(g, p->value_info, p->n_value_info, NULL);
  for (uint32_t i = 0; i < g->inputs.n && status == PZ_OK; i++)
    pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i))->input = true;
  for (uint32_t i = 0; i < g->outputs.n && status == PZ_OK; i++)
    pz_onnx_value(g, *pz_vec_at(&g->outputs, uint32_t, i))->output = true;
  if (status == PZ_OK) status = read_inits(g, p);
  for (size_t i = 0; i < p->n_node && status == PZ_OK; i++)
    status = read_node(g, m, p->node[i], unknown_vector);
  return status;
}

enum pz_status pz_onnx_graph_make(struct pz_onnx_graph *g, const Onnx__ModelProto *m,
                                  bool unknown_vector) {
  pz_vec_init(&g->values, g->arena, sizeof(struct pz_onnx_value));
  pz_vec_init(&g->nodes, g->arena, sizeof(struct pz_onnx_node));
  pz_vec_init(&g->inputs, g->arena, sizeof(uint32_t));
  pz_vec_init(&g->outputs, g->arena, sizeof(uint32_t));
  pz_map_init(&g->by_name, g->arena);
  if (!m->graph || !m->graph->n_node)
    return pz_fail(g->err, PZ_BAD_INPUT, "%s: the model has no nodes; accepted: 1 to %d", g->file,
                   PZ_ONNX_MOST_NODES);
  if (m->graph->n_node > PZ_ONNX_MOST_NODES)
    return pz_fail(g->err, PZ_LIMIT, "%s: %zu nodes; accepted: at most %d", g->file,
                   m->graph->n_node, PZ_ONNX_MOST_NODES);
  enum pz_status status = check_opset(g, m);
  if (status == PZ_OK) status = read_graph(g, m, unknown_vector);
  if (status == PZ_OK) status = check_made(g);
  if (status == PZ_OK) status = pz_onnx_graph_users(g);
  return status == PZ_OK ? sort_nodes(g) : status;
}
