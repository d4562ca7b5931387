/* Converts the message of an ONNX file to a graph: names are resolved to values, operator types
 * are looked up, duplicates and contradictions are refused, and the nodes are sorted.
 *
 * pz_onnx_graph_make() reads, in this order, the operator set, inputs, outputs and stated shapes
 * (read_value_infos), the initializers and the nodes.  Then it sorts the nodes topologically
 * (sort_nodes). */
#include <inttypes.h>

#include "onnx/passes.h"

enum { LEAST_OPSET = 9, MOST_OPSET = 22 };

/* Returns the index of the value with this name, which is added if there is none. */
static uint32_t find_or_add_value(struct pz_call *call, struct pz_onnx_graph *graph,
                                  const char *name) {
  uint32_t id = pz_map_get(&graph->by_name, name, strlen(name));
  if (id != PZ_NONE) return id;
  id = graph->values.n;
  struct pz_onnx_value value = {.name = name, .rank = -1, .producer = PZ_NONE, .root = id};
  pz_append(call, &graph->values, &value);
  pz_map_set(call, &graph->by_name, name, strlen(name), id);
  return id;
}

/* Raises PZ_LIMIT if a stated size of a dimension is negative or too large. */
static void check_dimension(struct pz_call *call, const struct pz_onnx_graph *graph,
                            const char *name, int64_t size) {
  if (size < 0 || size > PZ_ONNX_MOST_DIM)
    pz_raise_at(call, PZ_LIMIT, graph->file, 0, 0,
                "%s: tensor '%.200s' has a dimension of %" PRId64 "; accepted: 0 to %" PRId64,
                graph->file, name, size, PZ_ONNX_MOST_DIM);
}

/* Raises PZ_LIMIT if a tensor has too many dimensions. */
static void check_rank(struct pz_call *call, const struct pz_onnx_graph *graph, const char *name,
                       size_t rank) {
  if (rank > PZ_ONNX_MOST_RANK)
    pz_raise(call, PZ_LIMIT, "%s: tensor '%.200s' has %zu dimensions; accepted: at most %d",
             graph->file, name, rank, PZ_ONNX_MOST_RANK);
}

/* Reads the type and shape that a ValueInfoProto states.  A symbolic dimension has the size -1 and
 * the name "?" if it is unnamed. */
static void read_stated_type(struct pz_call *call, const struct pz_onnx_graph *graph,
                             struct pz_onnx_value *value, const Onnx__TypeProto *type) {
  bool is_tensor = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  if (!is_tensor || !type->tensor_type) return;
  value->type = type->tensor_type->has_elem_type ? type->tensor_type->elem_type : 0;
  const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
  if (!shape) return;
  check_rank(call, graph, value->name, shape->n_dim);
  value->rank = (int)shape->n_dim;
  value->shape_stated = true;
  const char **symbols = pz_alloc(call, shape->n_dim, sizeof *symbols);
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *dimension = shape->dim[i];
    if (dimension->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
      value->dim[i] = dimension->dim_value;
      check_dimension(call, graph, value->name, dimension->dim_value);
      continue;
    }
    bool named = dimension->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                 dimension->dim_param && dimension->dim_param[0];
    value->dim[i] = -1;
    value->shape_stated = false;
    symbols[i] = named ? dimension->dim_param : "?";
  }
  value->symbols = symbols;
}

/* Reads the stated types and shapes of inputs, outputs or other values.  Their indices are appended
 * to `list`, unless it is NULL. */
static void read_value_infos(struct pz_call *call, struct pz_onnx_graph *graph,
                             Onnx__ValueInfoProto *const *infos, size_t n, struct pz_vec *list) {
  for (size_t i = 0; i < n; i++) {
    uint32_t id = find_or_add_value(call, graph, infos[i]->name ? infos[i]->name : "");
    read_stated_type(call, graph, pz_onnx_value(graph, id), infos[i]->type);
    if (list) pz_append(call, list, &id);
  }
}

/* Reads the shapes and small contents of the stored tensors. */
static void read_initializers(struct pz_call *call, struct pz_onnx_graph *graph,
                              const Onnx__GraphProto *proto) {
  for (size_t i = 0; i < proto->n_initializer; i++) {
    const Onnx__TensorProto *tensor = proto->initializer[i];
    const char *name = tensor->name ? tensor->name : "";
    struct pz_onnx_value *value = pz_onnx_value(graph, find_or_add_value(call, graph, name));
    check_rank(call, graph, name, tensor->n_dims);
    bool agrees = !value->shape_stated || value->rank == (int)tensor->n_dims;
    for (int k = 0; value->shape_stated && agrees && k < value->rank; k++)
      agrees = value->dim[k] == tensor->dims[k];
    if (value->initializer)
      pz_raise(call, PZ_BAD_INPUT, "%s: initializer '%.200s' is there twice; accepted: once",
               graph->file, value->name);
    if (!agrees)
      pz_raise(call, PZ_BAD_INPUT,
               "%s: initializer '%.200s' has another shape than the file states for it; "
               "accepted: the same",
               graph->file, value->name);
    value->initializer = true;
    value->input = false; /* before IR version 4, initializers are inputs too */
    value->shape_stated = true;
    value->type = tensor->has_data_type ? tensor->data_type : 0;
    value->rank = (int)tensor->n_dims;
    for (size_t k = 0; k < tensor->n_dims; k++) {
      value->dim[k] = tensor->dims[k];
      check_dimension(call, graph, value->name, value->dim[k]);
    }
    pz_onnx_read_contents(call, value, tensor);
  }
}

/* Returns the indices of the values with these names, which are added to the graph if they are new,
 * or PZ_NONE for empty names. */
static uint32_t *read_names(struct pz_call *call, struct pz_onnx_graph *graph, char *const *names,
                            size_t n) {
  uint32_t *ids = pz_alloc(call, n, sizeof *ids);
  for (size_t i = 0; i < n; i++) {
    bool present = names[i] && names[i][0];
    ids[i] = present ? find_or_add_value(call, graph, names[i]) : PZ_NONE;
  }
  return ids;
}

/* Looks up the type of a node.  Raises an error if the node cannot be imported. */
static void look_up_type(struct pz_call *call, const Onnx__ModelProto *model,
                         struct pz_onnx_node *node, bool unknown_as_vector) {
  bool has_subgraph = false, is_local_function = false;
  for (size_t i = 0; i < node->n_attrs; i++)
    if (node->attrs[i]->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH ||
        node->attrs[i]->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS)
      has_subgraph = true;
  for (size_t i = 0; i < model->n_functions; i++) {
    const Onnx__FunctionProto *function = model->functions[i];
    const char *domain = function->domain ? function->domain : "";
    if (function->name && strcmp(function->name, node->type) == 0 &&
        strcmp(domain, node->domain) == 0)
      is_local_function = true;
  }
  node->op = pz_onnx_op_find(node->domain, node->type);
  if (is_local_function)
    pz_onnx_raise(call, node, PZ_BAD_INPUT,
                  "calls a local function of the model; accepted: a model exported with "
                  "its functions inlined");
  bool is_refused = node->op && node->op->lower == PZ_LOWER_REFUSE;
  if (has_subgraph || is_refused)
    pz_onnx_raise(call, node, PZ_BAD_INPUT,
                  "control flow with subgraphs is not imported; accepted: a model exported "
                  "without If, Loop and Scan");
  if (node->op) return;
  node->op = &pz_onnx_unknown_op;
  if (!unknown_as_vector)
    pz_onnx_raise(call, node, PZ_BAD_INPUT,
                  "operator type '%.80s' of domain '%.80s' is unknown; accepted with "
                  "--unknown-ops=vector, as element-wise work",
                  node->type, node->domain[0] ? node->domain : "ai.onnx");
}

/* Appends a node to the graph, and records it as the producer of its results. */
static void read_node(struct pz_call *call, struct pz_onnx_graph *graph,
                      const Onnx__ModelProto *model, const Onnx__NodeProto *proto,
                      bool unknown_as_vector) {
  struct pz_onnx_node node = {.graph = graph,
                              .type = proto->op_type ? proto->op_type : "",
                              .domain = proto->domain ? proto->domain : "",
                              .name = proto->name ? proto->name : "",
                              .attrs = proto->attribute,
                              .n_attrs = proto->n_attribute,
                              .n_in = (uint32_t)proto->n_input,
                              .n_out = (uint32_t)proto->n_output,
                              .fused = -1};
  if (strcmp(node.domain, "ai.onnx") == 0) node.domain = "";
  node.in = read_names(call, graph, proto->input, proto->n_input);
  node.out = read_names(call, graph, proto->output, proto->n_output);
  look_up_type(call, model, &node, unknown_as_vector);
  for (uint32_t j = 0; j < node.n_out; j++) {
    struct pz_onnx_value *value = pz_onnx_result(&node, j);
    if (!value) continue;
    if (value->producer != PZ_NONE || value->initializer || value->input)
      pz_onnx_raise(
          call, &node, PZ_BAD_INPUT,
          "produces tensor '%.120s', which another node, input or initializer already produces; "
          "accepted: one of them",
          value->name);
    value->producer = graph->nodes.n;
  }
  pz_append(call, &graph->nodes, &node);
}

/* Sorts the nodes topologically by Kahn's algorithm, with a queue in the order of the file, unless
 * they are sorted already.  Raises an error for an input that is not produced, and for a cycle. */
static void sort_nodes(struct pz_call *call, struct pz_onnx_graph *graph) {
  uint32_t n = graph->nodes.n, n_sorted = 0, n_ready = 0;
  uint32_t *missing_inputs = pz_alloc(call, n, sizeof *missing_inputs);
  uint32_t *ready = pz_alloc(call, n, sizeof *ready);
  bool in_order = true;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *value = pz_onnx_input(node, k);
      bool is_source = value && (value->initializer || value->input);
      if (value && value->producer == PZ_NONE && !is_source)
        pz_onnx_raise(call, node, PZ_BAD_INPUT,
                      "reads tensor '%.120s', which no node, input or initializer produces; "
                      "accepted: the name of one that is there",
                      value->name);
      if (!value || value->producer == PZ_NONE) continue;
      missing_inputs[i]++;
      if (value->producer >= i) in_order = false;
    }
    if (!missing_inputs[i]) ready[n_ready++] = i;
  }
  if (in_order) return;
  struct pz_onnx_node *sorted = pz_alloc(call, n, sizeof *sorted);
  for (; n_sorted < n_ready; n_sorted++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, ready[n_sorted]);
    sorted[n_sorted] = *node;
    for (uint32_t j = 0; j < node->n_out; j++) {
      const struct pz_onnx_value *value = pz_onnx_result(node, j);
      for (uint32_t c = 0; value && c < value->n_consumers; c++) {
        uint32_t consumer = graph->consumers[value->first_consumer + c];
        missing_inputs[consumer]--;
        if (missing_inputs[consumer] == 0) ready[n_ready++] = consumer;
      }
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (missing_inputs[i])
      pz_onnx_raise(call, pz_onnx_node(graph, i), PZ_BAD_INPUT,
                    "is part of a cycle, or follows one; accepted: a graph without cycles");
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < sorted[i].n_out; j++) {
      struct pz_onnx_value *value = pz_onnx_result(&sorted[i], j);
      if (value) value->producer = i;
    }
  memcpy(graph->nodes.items, sorted, n * sizeof *sorted);
  pz_onnx_link_consumers(call, graph);
}

/* Creates the graph of a model: resolves names, looks up operator types and sorts the nodes. */
void pz_onnx_graph_make(struct pz_call *call, struct pz_onnx_graph *graph, const char *file,
                        const Onnx__ModelProto *model, bool unknown_as_vector) {
  const Onnx__GraphProto *proto = model->graph;
  *graph = (struct pz_onnx_graph){.file = file};
  pz_vec_init(&graph->values, call->arena, sizeof(struct pz_onnx_value));
  pz_vec_init(&graph->nodes, call->arena, sizeof(struct pz_onnx_node));
  pz_vec_init(&graph->inputs, call->arena, sizeof(uint32_t));
  pz_vec_init(&graph->outputs, call->arena, sizeof(uint32_t));
  pz_map_init(&graph->by_name, call->arena);
  if (!proto || !proto->n_node)
    pz_raise(call, PZ_BAD_INPUT, "%s: the model has no nodes; accepted: 1 to %d", graph->file,
             PZ_ONNX_MOST_NODES);
  if (proto->n_node > PZ_ONNX_MOST_NODES)
    pz_raise(call, PZ_LIMIT, "%s: %zu nodes; accepted: at most %d", graph->file, proto->n_node,
             PZ_ONNX_MOST_NODES);
  for (size_t i = 0; i < model->n_opset_import; i++) {
    const char *domain = model->opset_import[i]->domain;
    bool standard = !domain || !domain[0] || strcmp(domain, "ai.onnx") == 0;
    if (standard) graph->opset = model->opset_import[i]->version;
  }
  if (graph->opset < LEAST_OPSET || graph->opset > MOST_OPSET)
    pz_raise_at(call, PZ_BAD_INPUT, graph->file, 0, 0,
                "%s: operator set version %" PRId64 "; accepted: %d to %d", graph->file,
                graph->opset, LEAST_OPSET, MOST_OPSET);
  read_value_infos(call, graph, proto->input, proto->n_input, &graph->inputs);
  read_value_infos(call, graph, proto->output, proto->n_output, &graph->outputs);
  read_value_infos(call, graph, proto->value_info, proto->n_value_info, NULL);
  for (uint32_t i = 0; i < graph->inputs.n; i++)
    pz_onnx_value(graph, *pz_vec_at(&graph->inputs, uint32_t, i))->input = true;
  for (uint32_t i = 0; i < graph->outputs.n; i++)
    pz_onnx_value(graph, *pz_vec_at(&graph->outputs, uint32_t, i))->output = true;
  read_initializers(call, graph, proto);
  for (size_t i = 0; i < proto->n_node; i++)
    read_node(call, graph, model, proto->node[i], unknown_as_vector);

  pz_onnx_link_consumers(call, graph);
  sort_nodes(call, graph);
}
