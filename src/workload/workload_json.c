/* A workload as JSON, with the member names of phaze.h, and as a Graphviz drawing.
 *
 * JSON values are built without checks: jansson passes NULL on if memory is exhausted, and
 * pz_json_built() finally raises the error. */
#include "workload/workload.h"

#include <inttypes.h>

#include "workload/op.h"

/* Sets a member to a whole number. */
static void set_int(json_t *object, const char *key, int64_t value) {
  json_object_set_new(object, key, json_integer(value));
}

/* Sets a member to a text, or to null for NULL. Names from ONNX files may be invalid UTF-8. */
static void set_text(json_t *object, const char *key, const char *value) {
  json_t *text = value ? json_string(value) : json_null();
  json_object_set_new(object, key, text ? text : json_string("(not UTF-8)"));
}

/* Returns a list of n indices of tensors, operators or layers. */
static json_t *ids_json(const uint32_t *ids, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
  return list;
}

/* Returns the name of an operator kind: "gelu", or "gelu_backward" for its derivative.  The
 * derivatives of a product are products, so their name has no suffix. */
static json_t *kind_json(int kind, enum pz_direction direction) {
  bool is_derivative = direction == PZ_BACKWARD && pz_op_info(kind)->grad == PZ_GRAD_POINTWISE;
  return json_sprintf("%s%s", pz_op_kind_name(kind), is_derivative ? "_backward" : "");
}

/* Returns an operator with its sizes, work and predecessors.  `id` is its index in the list. */
static json_t *op_json(const struct pz_op *op, uint32_t id) {
  static const char *const peers[] = {NULL, "expert", "expert_tensor", "context"};
  json_t *object = json_object(), *tail = json_array();
  set_int(object, "id", id);
  set_text(object, "name", op->name);
  json_object_set_new(object, "kind", kind_json(op->kind, op->direction));
  set_text(object, "class", pz_op_class_name(op->op_class));
  json_object_set_new(object, "dims",
                      json_pack("{s:I,s:I,s:I,s:I}", "batch", (json_int_t)op->dims.batch, "m",
                                (json_int_t)op->dims.m, "n", (json_int_t)op->dims.n, "k",
                                (json_int_t)op->dims.k));
  set_int(object, "flop", op->flop);
  set_int(object, "matmul_flop", op->matmul_flop);
  set_int(object, "bytes_read", op->bytes_read);
  set_int(object, "bytes_written", op->bytes_written);
  set_int(object, "weight_bytes", op->weight_bytes);
  if (op->scratch_bytes) set_int(object, "scratch_bytes", op->scratch_bytes);
  if (op->grouped) json_object_set_new(object, "grouped", json_true());
  if (op->peers) set_text(object, "peers", peers[op->peers]);
  if (op->replicated) json_object_set_new(object, "replicated", json_true());
  for (uint32_t i = 0; i < op->n_tail; i++)
    json_array_append_new(tail, json_pack("{s:o,s:I}", "kind",
                                          kind_json(op->tail[i].kind, op->tail[i].direction),
                                          "elements", (json_int_t)op->tail[i].elems));
  if (op->n_tail) json_object_set(object, "tail", tail);
  json_decref(tail);
  json_object_set_new(object, "predecessors", ids_json(op->pred, op->n_pred));
  return object;
}

/* Returns a layer with its saved tensors and operators. */
static json_t *layer_json(const struct pz_layer *layer) {
  json_t *object = json_object(), *saved = json_array();
  for (uint32_t i = 0; i < layer->n_saved; i++) {
    const struct pz_tensor *tensor = &layer->tensors[layer->saved[i]];
    json_t *entry = json_object(), *shape = json_array();
    set_text(entry, "tensor", tensor->name);
    for (int d = 0; d < tensor->n_dims; d++)
      json_array_append_new(shape, json_integer(tensor->shape[d]));
    json_object_set_new(entry, "shape", shape);
    set_int(entry, "bytes", tensor->elems * tensor->elem_bytes);
    json_array_append_new(saved, entry);
  }
  set_text(object, "name", layer->name);
  set_int(object, "count", layer->count);
  json_object_set_new(object, "from", ids_json(layer->from, layer->n_from));
  set_int(object, "params", layer->params);
  set_int(object, "split_params", layer->split_params);
  set_int(object, "tied_params", layer->tied_params);
  set_int(object, "group_grad_params", layer->group_grad_params);
  if (layer->expert_params) set_int(object, "expert_params", layer->expert_params);
  set_int(object, "param_bytes", 2 * layer->params); /* 16-bit weights */
  set_int(object, "activation_bytes", layer->activation_bytes);
  set_int(object, "shared_bytes", layer->shared_bytes);
  set_int(object, "buffer_bytes", layer->buffer_bytes);
  set_int(object, "output_bytes", layer->output_bytes);
  json_object_set_new(object, "saved", saved);
  for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < layer->ops[direction].n; i++)
      json_array_append_new(list, op_json(&layer->ops[direction].op[i], i));
    json_object_set_new(object, direction == PZ_FORWARD ? "forward" : "backward", list);
  }
  return object;
}

/* Returns the options of a workload.  Degrees of parallelism that do nothing are omitted. */
static json_t *options_json(const struct pz_workload_options *options) {
  json_t *object = json_object();
  set_int(object, "seq", options->seq);
  set_int(object, "mbs", options->mbs);
  set_int(object, "tp", options->tp);
  set_int(object, "slice", options->slice);
  if (options->ep > 1) set_int(object, "ep", options->ep);
  if (options->etp != options->tp && options->etp) set_int(object, "etp", options->etp);
  if (options->cp > 1) set_int(object, "cp", options->cp);
  if (options->cp > 1) set_text(object, "cp_form", pz_context_names[options->cp_form]);
  if (options->mtp) json_object_set_new(object, "mtp", json_true());
  set_int(object, "num_layers", options->num_layers);
  json_object_set_new(object, "sequence_parallel", json_boolean(options->sequence_parallel));
  json_object_set_new(object, "dropout",
                      options->dropout < 0 ? json_null() : json_real(options->dropout));
  set_text(object, "kernels", pz_kernels_names[options->kernels]);
  set_text(object, "attention", pz_attention_names[options->attention]);
  set_text(object, "recompute", pz_recompute_names[options->recompute]);
  return object;
}

/* Returns a workload.  Rarely used members are omitted if they have their default. */
json_t *pz_workload_json(struct pz_call *call, const struct pz_workload *workload) {
  json_t *object = json_object(), *layers = json_array(), *order = json_array();
  set_text(object, "model", workload->model);
  set_text(object, "family", workload->family);
  json_object_set_new(object, "options", options_json(&workload->options));
  for (uint32_t i = 0; i < workload->n_layers; i++)
    json_array_append_new(layers, layer_json(&workload->layers[i]));
  json_object_set_new(object, "layers", layers);
  /* The order, such as [{"unit": [1, 2], "repeats": 21}], is written unless the layers run in the
   * order of the list. */
  bool follows_list = true;
  for (uint32_t i = 0; i < workload->n_order; i++) {
    const struct pz_segment *segment = &workload->order[i];
    if (segment->n_unit > 1 || segment->unit[0] != i) follows_list = false;
    json_array_append_new(order,
                          json_pack("{s:o,s:I}", "unit", ids_json(segment->unit, segment->n_unit),
                                    "repeats", (json_int_t)segment->repeats));
  }
  if (!follows_list) json_object_set(object, "order", order);
  json_decref(order);
  const struct pz_totals *totals = &workload->totals;
  json_t *sums = json_object();
  set_int(sums, "params", totals->params);
  set_int(sums, "model_params", totals->model_params);
  set_int(sums, "split_params", totals->split_params);
  if (totals->expert_params) set_int(sums, "expert_params", totals->expert_params);
  if (totals->active_params != totals->model_params)
    set_int(sums, "active_params", totals->active_params);
  if (totals->model_trained_params != totals->model_params)
    set_int(sums, "model_trained_params", totals->model_trained_params);
  set_int(sums, "param_bytes", totals->param_bytes);
  set_int(sums, "forward_flop", totals->forward_flop);
  set_int(sums, "backward_flop", totals->backward_flop);
  set_int(sums, "matmul_forward_flop", totals->matmul_forward_flop);
  set_int(sums, "matmul_backward_flop", totals->matmul_backward_flop);
  set_int(sums, "activation_bytes", totals->activation_bytes);
  set_int(sums, "peak_bytes", totals->peak_bytes);
  set_int(sums, "layers", totals->layers);
  set_int(sums, "ops", totals->ops);
  json_object_set_new(object, "totals", sums);
  return pz_json_built(call, object);
}

/* ---- a Graphviz drawing ---------------------------------------------------------------------- */

/* Writes the contents of a quoted string of the DOT language. */
static void write_quoted(const char *text, FILE *out) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', out);
    fputc(*text, out);
  }
}

/* Draws the operators of one direction of a layer as nodes of a cluster. */
static void draw_layer(const struct pz_layer *layer, uint32_t index, enum pz_direction direction,
                       FILE *out) {
  static const char *const names[] = {"forward", "backward"};
  static const char *const colours[] = {"#9ecae1", "#c7e9c0", "#6baed6", "#eeeeee", "#fdae6b"};
  const struct pz_ops *ops = &layer->ops[direction];
  fprintf(out, "  subgraph cluster_%" PRIu32 "_%d {\n    label=\"", index, direction);
  write_quoted(layer->name, out);
  fprintf(out, " x%" PRId64 ", %s\";\n", layer->count, names[direction]);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    fprintf(out, "    n%" PRIu32 "_%d_%" PRIu32 " [label=\"", index, direction, i);
    write_quoted(op->name, out);
    fprintf(out, "\",fillcolor=\"%s\"];\n", colours[op->op_class]);
    for (uint32_t k = 0; k < op->n_pred; k++)
      fprintf(out, "    n%" PRIu32 "_%d_%" PRIu32 " -> n%" PRIu32 "_%d_%" PRIu32 ";\n", index,
              direction, op->pred[k], index, direction, i);
  }
  fprintf(out, "  }\n");
}

struct text_arguments {
  const struct pz_workload *workload;
  enum pz_workload_form form;
  char **text;
};

/* Writes a workload as JSON or as a drawing (a callback of pz_border). */
static void write_workload(struct pz_call *call, void *ctx) {
  const struct text_arguments *args = ctx;
  pz_require(call, args->workload, "workload");
  pz_require(call, args->text, "text");
  pz_require_range(call, "form", (int64_t)args->form, PZ_WORKLOAD_JSON, PZ_WORKLOAD_DOT);
  struct pz_buffer *buffer = pz_buffer_new(call);
  if (args->form == PZ_WORKLOAD_JSON) {
    pz_json_print(call, buffer, pz_workload_json(call, args->workload));
  } else {
    FILE *out = pz_buffer_open(call, buffer);
    const struct pz_workload *workload = args->workload;
    fprintf(out, "digraph \"");
    write_quoted(workload->model, out);
    fprintf(out, "\" {\n  node [shape=box,style=filled,fontname=\"sans-serif\"];\n");
    for (uint32_t i = 0; i < workload->n_layers; i++) {
      draw_layer(&workload->layers[i], i, PZ_FORWARD, out);
      draw_layer(&workload->layers[i], i, PZ_BACKWARD, out);
    }
    fprintf(out, "}\n");
    pz_buffer_flush(call, out);
  }
  *args->text = pz_buffer_take(call, buffer);
}

enum pz_status pz_workload_text(const struct pz_workload *workload, enum pz_workload_form form,
                                char **text, struct pz_error *err) {
  struct text_arguments args = {workload, form, text};
  return pz_border(write_workload, &args, err);
}
