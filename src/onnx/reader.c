/* From the message of an ONNX file to a graph: names are resolved to values, operator types are looked up, what is
 * stated twice or contradicts itself is refused, and the nodes are sorted.
 *
 * pz_onnx_graph_make() reads, in this order, the operator set, inputs, outputs and stated shapes (read_value_infos),
 * the initializers and the nodes, and brings the nodes into topological order (sort_nodes). */
#include <inttypes.h>

#include "onnx/passes.h"

enum { LEAST_OPSET = 9, MOST_OPSET = 22 };

/* ---- values --------------------------------------------------------------------------------- */

/* Returns the value of this name, which is added if there is none. */
static uint32_t find_or_add_value(struct pz_call *call, struct pz_onnx_graph *g, const char *name) {
  uint32_t id = pz_map_get(&g->by_name, name, strlen(name));
  if (id != PZ_NONE) return id;
  id = g->values.n;
  struct pz_onnx_value v = {.name = name, .rank = -1, .producer = PZ_NONE, .root = id};
  pz_append(call, &g->values, &v);
  pz_map_set(call, &g->by_name, name, strlen(name), id);
  return id;
}

static void check_dimension(struct pz_call *call, const struct pz_onnx_graph *g, const char *name,
                            int64_t size) {
  if (size < 0 || size > PZ_ONNX_MOST_DIM)
    pz_raise_at(call, PZ_LIMIT, g->file, 0, 0,
                "%s: tensor '%.200s' has a dimension of %" PRId64 "; accepted: 0 to %" PRId64,
                g->file, name, size, PZ_ONNX_MOST_DIM);
}

static void check_rank(struct pz_call *call, const struct pz_onnx_graph *g, const char *name,
                       size_t rank) {
  if (rank > PZ_ONNX_MOST_RANK)
    pz_raise(call, PZ_LIMIT, "%s: tensor '%.200s' has %zu dimensions; accepted: at most %d",
             g->file, name, rank, PZ_ONNX_MOST_RANK);
}

/* Reads the type and shape that a ValueInfoProto states.  A symbolic dimension is -1, and its name is "?" if it has
 * none. */
static void read_stated_type(struct pz_call *call, const struct pz_onnx_graph *g,
                             struct pz_onnx_value *v, const Onnx__TypeProto *type) {
  bool is_tensor = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  if (!is_tensor || !type->tensor_type) return;
  v->type = type->tensor_type->has_elem_type ? type->tensor_type->elem_type : 0;
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  if (!shape) return;
  check_rank(call, g, v->name, shape->n_dim);
  v->rank = (int)shape->n_dim;
  v->shape_stated = true;
  const char **symbols = pz_alloc(call, shape->n_dim, sizeof *symbols);
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
      v->dim[i] = d->dim_value;
      check_dimension(call, g, v->name, d->dim_value);
      continue;
    }
    bool named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                 d->dim_param && d->dim_param[0];
    v->dim[i] = -1;
    v->shape_stated = false;
    symbols[i] = named ? d->dim_param : "?";
  }
  v->symbols = symbols;
}

/* Reads inputs, outputs or stated shapes.  The values are appended to `list`, unless it is NULL. */
static void read_value_infos(struct pz_call *call, struct pz_onnx_graph *g,
                             Onnx__ValueInfoProto *const *infos, size_t n, struct pz_vec *list) {
  for (size_t i = 0; i < n; i++) {
    uint32_t id = find_or_add_value(call, g, infos[i]->name ? infos[i]->name : "");
    read_stated_type(call, g, pz_onnx_value(g, id), infos[i]->type);
    if (list) pz_append(call, list, &id);
  }
}

static void read_initializers(struct pz_call *call, struct pz_onnx_graph *g,
                              const Onnx__GraphProto *graph) {
  for (size_t i = 0; i < graph->n_initializer; i++) {
    const Onnx__TensorProto *t = graph->initializer[i];
    const char *name = t->name ? t->name : "";
    struct pz_onnx_value *v = pz_onnx_value(g, find_or_add_value(call, g, name));
    check_rank(call, g, name, t->n_dims);
    bool agrees = !v->shape_stated || v->rank == (int)t->n_dims;
    for (int k = 0; v->shape_stated && agrees && k < v->rank; k++) agrees = v->dim[k] == t->dims[k];
    if (v->initializer)
      pz_raise(call, PZ_BAD_INPUT, "%s: initializer '%.200s' is there twice; accepted: once",
               g->file, v->name);
    if (!agrees)
      pz_raise(call, PZ_BAD_INPUT,
               "%s: initializer '%.200s' has another shape than the file states for it; "
               "accepted: the same",
               g->file, v->name);
    v->initializer = true;
    v->input = false; /* before IR version 4, initializers are inputs too */
    v->shape_stated = true;
    v->type = t->has_data_type ? t->data_type : 0;
    v->rank = (int)t->n_dims;
    for (size_t k = 0; k < t->n_dims; k++) {
      v->dim[k] = t->dims[k];
      check_dimension(call, g, v->name, v->dim[k]);
    }
    pz_onnx_read_contents(call, v, t);
  }
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static uint32_t *read_names(struct pz_call *call, struct pz_onnx_graph *g, char *const *names,
                            size_t n) {
  uint32_t *ids = pz_alloc(call, n, sizeof *ids);
  for (size_t i = 0; i < n; i++) {
    bool present = names[i] && names[i][0];
    ids[i] = present ? find_or_add_value(call, g, names[i]) : PZ_NONE;
  }
  return ids;
}

static bool is_local_function(const Onnx__ModelProto *model, const struct pz_onnx_node *node) {
  for (size_t i = 0; i < model->n_functions; i++) {
    const Onnx__FunctionProto *f = model->functions[i];
    const char *domain = f->domain ? f->domain : "";
    if (f->name && strcmp(f->name, node->type) == 0 && strcmp(domain, node->domain) == 0)
      return true;
  }
  return false;
}

/* Looks up the type of a node.  Raises an error if the node cannot be imported. */
static void look_up_type(struct pz_call *call, const struct pz_onnx_graph *g,
                         const Onnx__ModelProto *model, struct pz_onnx_node *node,
                         bool unknown_as_vector) {
  bool has_subgraph = false;
  for (size_t i = 0; i < node->n_attrs; i++)
    if (node->attrs[i]->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH ||
        node->attrs[i]->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS)
      has_subgraph = true;
  node->op = pz_onnx_op_find(node->domain, node->type);
  if (is_local_function(model, node))
    pz_onnx_raise(call, g, node, PZ_BAD_INPUT,
                  "calls a local function of the model; accepted: a model exported with "
                  "its functions inlined");
  if (has_subgraph || (node->op && node->op->lower == PZ_LOWER_REFUSE))
    pz_onnx_raise(call, g, node, PZ_BAD_INPUT,
                  "control flow with subgraphs is not imported; accepted: a model exported "
                  "without If, Loop and Scan");
  if (node->op) return;
  node->op = pz_onnx_op_unknown();
  if (!unknown_as_vector)
    pz_onnx_raise(call, g, node, PZ_BAD_INPUT,
                  "operator type '%.80s' of domain '%.80s' is unknown; accepted with "
                  "--unknown-ops=vector, as element-wise work",
                  node->type, node->domain[0] ? node->domain : "ai.onnx");
}

static void read_node(struct pz_call *call, struct pz_onnx_graph *g, const Onnx__ModelProto *model,
                      const Onnx__NodeProto *p, bool unknown_as_vector) {
  struct pz_onnx_node node = {.type = p->op_type ? p->op_type : "",
                              .domain = p->domain ? p->domain : "",
                              .name = p->name ? p->name : "",
                              .attrs = p->attribute,
                              .n_attrs = p->n_attribute,
                              .n_in = (uint32_t)p->n_input,
                              .n_out = (uint32_t)p->n_output,
                              .fused = -1};
  if (strcmp(node.domain, "ai.onnx") == 0) node.domain = "";
  node.in = read_names(call, g, p->input, p->n_input);
  node.out = read_names(call, g, p->output, p->n_output);
  look_up_type(call, g, model, &node, unknown_as_vector);
  for (uint32_t o = 0; o < node.n_out; o++) {
    struct pz_onnx_value *v = pz_onnx_result(g, &node, o);
    if (!v) continue;
    if (v->producer != PZ_NONE || v->initializer || v->input)
      pz_onnx_raise(
          call, g, &node, PZ_BAD_INPUT,
          "produces tensor '%.120s', which another node, input or initializer already produces; "
          "accepted: one of them",
          v->name);
    v->producer = g->nodes.n;
  }
  pz_append(call, &g->nodes, &node);
}

static void check_all_produced(struct pz_call *call, const struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_input(g, node, k);
      if (v && v->producer == PZ_NONE && !v->initializer && !v->input)
        pz_onnx_raise(call, g, node, PZ_BAD_INPUT,
                      "reads tensor '%.120s', which no node, input or initializer produces; "
                      "accepted: the name of one that is there",
                      v->name);
    }
  }
}

/* ---- topological order ---------------------------------------------------------------------- */

/* Sorts the nodes by Kahn's algorithm, with a queue in the order of the file.  Does nothing if the file is in
 * topological order already. */
static void sort_nodes(struct pz_call *call, struct pz_onnx_graph *g) {
  uint32_t n = g->nodes.n, n_sorted = 0, n_ready = 0;
  uint32_t *missing_inputs = pz_alloc(call, n, sizeof *missing_inputs);
  uint32_t *ready = pz_alloc(call, n, sizeof *ready);
  bool in_order = true;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *v = pz_onnx_input(g, node, k);
      if (!v || v->producer == PZ_NONE) continue;
      missing_inputs[i]++;
      if (v->producer >= i) in_order = false;
    }
    if (!missing_inputs[i]) ready[n_ready++] = i;
  }
  if (in_order) return;
  struct pz_onnx_node *sorted = pz_alloc(call, n, sizeof *sorted);
  for (; n_sorted < n_ready; n_sorted++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, ready[n_sorted]);
    sorted[n_sorted] = *node;
    for (uint32_t o = 0; o < node->n_out; o++) {
      const struct pz_onnx_value *v = pz_onnx_result(g, node, o);
      for (uint32_t c = 0; v && c < v->n_consumers; c++) {
        uint32_t consumer = g->consumers[v->first_consumer + c];
        missing_inputs[consumer]--;
        if (missing_inputs[consumer] == 0) ready[n_ready++] = consumer;
      }
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (missing_inputs[i])
      pz_onnx_raise(call, g, pz_onnx_node(g, i), PZ_BAD_INPUT,
                    "is part of a cycle, or follows one; accepted: a graph without cycles");
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t o = 0; o < sorted[i].n_out; o++) {
      struct pz_onnx_value *v = pz_onnx_result(g, &sorted[i], o);
      if (v) v->producer = i;
    }
  memcpy(g->nodes.items, sorted, n * sizeof *sorted);
  pz_onnx_link_consumers(call, g);
}

/* ---- the graph ------------------------------------------------------------------------------ */

static void read_opset(struct pz_call *call, struct pz_onnx_graph *g,
                       const Onnx__ModelProto *model) {
  for (size_t i = 0; i < model->n_opset_import; i++) {
    const char *domain = model->opset_import[i]->domain;
    bool standard = !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
    if (standard) g->opset = model->opset_import[i]->version;
  }
  if (g->opset < LEAST_OPSET || g->opset > MOST_OPSET)
    pz_raise_at(call, PZ_BAD_INPUT, g->file, 0, 0,
                "%s: operator set version %" PRId64 "; accepted: %d to %d", g->file, g->opset,
                LEAST_OPSET, MOST_OPSET);
}

void pz_onnx_graph_make(struct pz_call *call, struct pz_onnx_graph *g, const char *file,
                        const Onnx__ModelProto *model, bool unknown_as_vector) {
  const Onnx__GraphProto *graph = model->graph;
  *g = (struct pz_onnx_graph){.file = file};
  pz_vec_init(&g->values, call->arena, sizeof(struct pz_onnx_value));
  pz_vec_init(&g->nodes, call->arena, sizeof(struct pz_onnx_node));
  pz_vec_init(&g->inputs, call->arena, sizeof(uint32_t));
  pz_vec_init(&g->outputs, call->arena, sizeof(uint32_t));
  pz_map_init(&g->by_name, call->arena);
  if (!graph || !graph->n_node)
    pz_raise(call, PZ_BAD_INPUT, "%s: the model has no nodes; accepted: 1 to %d", g->file,
             PZ_ONNX_MOST_NODES);
  if (graph->n_node > PZ_ONNX_MOST_NODES)
    pz_raise(call, PZ_LIMIT, "%s: %zu nodes; accepted: at most %d", g->file, graph->n_node,
             PZ_ONNX_MOST_NODES);
  read_opset(call, g, model);
  read_value_infos(call, g, graph->input, graph->n_input, &g->inputs);
  read_value_infos(call, g, graph->output, graph->n_output, &g->outputs);
  read_value_infos(call, g, graph->value_info, graph->n_value_info, NULL);
  for (uint32_t i = 0; i < g->inputs.n; i++)
    pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i))->input = true;
  for (uint32_t i = 0; i < g->outputs.n; i++)
    pz_onnx_value(g, *pz_vec_at(&g->outputs, uint32_t, i))->output = true;
  read_initializers(call, g, graph);
  for (size_t i = 0; i < graph->n_node; i++)
    read_node(call, g, model, graph->node[i], unknown_as_vector);
  check_all_produced(call, g);
  pz_onnx_link_consumers(call, g);
  sort_nodes(call, g);
}
