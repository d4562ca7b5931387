/* A workload as JSON, field by field as phaze.h has it, and as a drawing. */
#include "workload/workload.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "workload/op.h"

static void set_int(json_t *o, const char *key, int64_t v) {
  json_object_set_new(o, key, json_integer(v));
}

static void set_text(json_t *o, const char *key, const char *v) {
  json_t *text = v ? json_string(v) : json_null();
  json_object_set_new(o, key, text ? text : json_string("(not UTF-8)"));
}

static json_t *ids_json(const uint32_t *ids, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
  return list;
}

/* "gelu" or, as a derivative, "gelu_backward"; a product's derivatives are products. */
static json_t *kind_json(int kind, enum pz_direction dir) {
  enum pz_grad_rule rule = pz_op_info(kind)->grad;
  bool derivative = dir == PZ_BACKWARD && rule == PZ_GRAD_POINTWISE;
  return json_sprintf("%s%s", pz_op_kind_name(kind), derivative ? "_backward" : "");
}

static json_t *tail_json(const struct pz_op *op) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < op->n_tail; i++) {
    const struct pz_tail *t = &op->tail[i];
    json_array_append_new(list, json_pack("{s:o,s:I}", "kind", kind_json(t->kind, t->direction),
                                          "elements", (json_int_t)t->elems));
  }
  return list;
}

static json_t *op_json(const struct pz_op *op, uint32_t id) {
  json_t *o = json_object();
  set_int(o, "id", id);
  set_text(o, "name", op->name);
  json_object_set_new(o, "kind", kind_json(op->kind, op->direction));
  set_text(o, "class", pz_op_class_name(op->op_class));
  json_object_set_new(o, "dims",
                      json_pack("{s:I,s:I,s:I,s:I}", "batch", (json_int_t)op->dims.batch, "m",
                                (json_int_t)op->dims.m, "n", (json_int_t)op->dims.n, "k",
                                (json_int_t)op->dims.k));
  set_int(o, "flop", op->flop);
  set_int(o, "matmul_flop", op->matmul_flop);
  set_int(o, "bytes_read", op->bytes_read);
  set_int(o, "bytes_written", op->bytes_written);
  set_int(o, "weight_bytes", op->weight_bytes);
  if (op->scratch_bytes) set_int(o, "scratch_bytes", op->scratch_bytes);
  static const char *const peers[] = {NULL, "expert", "expert_tensor", "context"};
  if (op->grouped) json_object_set_new(o, "grouped", json_true());
  if (op->peers) set_text(o, "peers", peers[op->peers]);
  if (op->replicated) json_object_set_new(o, "replicated", json_true());
  if (op->n_tail) json_object_set_new(o, "tail", tail_json(op));
  json_object_set_new(o, "predecessors", ids_json(op->pred, op->n_pred));
  return o;
}

static json_t *ops_json(const struct pz_ops *ops) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < ops->n; i++) json_array_append_new(list, op_json(&ops->op[i], i));
  return list;
}

static json_t *saved_json(const struct pz_layer *l) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < l->n_saved; i++) {
    const struct pz_tensor *t = &l->tensors[l->saved[i]];
    json_t *o = json_object(), *shape = json_array();
    set_text(o, "tensor", t->name);
    for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
    json_object_set_new(o, "shape", shape);
    set_int(o, "bytes", t->elems * t->elem_bytes);
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *layer_json(const struct pz_layer *l) {
  json_t *o = json_object();
  set_text(o, "name", l->name);
  set_int(o, "count", l->count);
  json_object_set_new(o, "from", ids_json(l->from, l->n_from));
  set_int(o, "params", l->params);
  set_int(o, "split_params", l->split_params);
  set_int(o, "tied_params", l->tied_params);
  set_int(o, "group_grad_params", l->group_grad_params);
  if (l->expert_params) set_int(o, "expert_params", l->expert_params);
  set_int(o, "param_bytes", 2 * l->params);
  set_int(o, "activation_bytes", l->activation_bytes);
  set_int(o, "shared_bytes", l->shared_bytes);
  set_int(o, "buffer_bytes", l->buffer_bytes);
  set_int(o, "output_bytes", l->output_bytes);
  json_object_set_new(o, "saved", saved_json(l));
  json_object_set_new(o, "forward", ops_json(&l->ops[PZ_FORWARD]));
  json_object_set_new(o, "backward", ops_json(&l->ops[PZ_BACKWARD]));
  return o;
}

static json_t *options_json(const struct pz_workload_options *opt) {
  json_t *o = json_object();
  set_int(o, "seq", opt->seq);
  set_int(o, "mbs", opt->mbs);
  set_int(o, "tp", opt->tp);
  set_int(o, "slice", opt->slice);
  if (opt->ep > 1) set_int(o, "ep", opt->ep);
  if (opt->etp != opt->tp && opt->etp) set_int(o, "etp", opt->etp);
  if (opt->cp > 1) set_int(o, "cp", opt->cp);
  if (opt->cp > 1) set_text(o, "cp_form", pz_context_names[opt->cp_form]);
  if (opt->mtp) json_object_set_new(o, "mtp", json_true());
  set_int(o, "num_layers", opt->num_layers);
  json_object_set_new(o, "sequence_parallel", json_boolean(opt->sequence_parallel));
  json_object_set_new(o, "dropout", opt->dropout < 0 ? json_null() : json_real(opt->dropout));
  set_text(o, "kernels", pz_kernels_names[opt->kernels]);
  set_text(o, "attention", pz_attention_names[opt->attention]);
  set_text(o, "recompute", pz_recompute_names[opt->recompute]);
  return o;
}

static json_t *totals_json(const struct pz_totals *t) {
  json_t *o = json_object();
  set_int(o, "params", t->params);
  set_int(o, "model_params", t->model_params);
  set_int(o, "split_params", t->split_params);
  if (t->expert_params) set_int(o, "expert_params", t->expert_params);
  if (t->active_params != t->model_params) set_int(o, "active_params", t->active_params);
  if (t->model_trained_params != t->model_params)
    set_int(o, "model_trained_params", t->model_trained_params);
  set_int(o, "param_bytes", t->param_bytes);
  set_int(o, "forward_flop", t->forward_flop);
  set_int(o, "backward_flop", t->backward_flop);
  set_int(o, "matmul_forward_flop", t->matmul_forward_flop);
  set_int(o, "matmul_backward_flop", t->matmul_backward_flop);
  set_int(o, "activation_bytes", t->activation_bytes);
  set_int(o, "peak_bytes", t->peak_bytes);
  set_int(o, "layers", t->layers);
  set_int(o, "ops", t->ops);
  return o;
}

/* [{"unit": [1, 2], "repeats": 21}]: where it is not just one layer after the other. */
static json_t *order_json(const struct pz_workload *w) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < w->n_order; i++) {
    const struct pz_segment *s = &w->order[i];
    json_array_append_new(list, json_pack("{s:o,s:I}", "unit", ids_json(s->unit, s->n_unit),
                                          "repeats", (json_int_t)s->repeats));
  }
  return list;
}

static bool is_grouped(const struct pz_workload *w) {
  for (uint32_t i = 0; i < w->n_order; i++)
    if (w->order[i].n_unit > 1 || w->order[i].unit[0] != i) return false;
  return true;
}

json_t *pz_workload_json(const struct pz_workload *w) {
  json_t *o = json_object(), *layers = json_array();
  set_text(o, "model", w->model);
  set_text(o, "family", w->family);
  json_object_set_new(o, "options", options_json(&w->options));
  for (uint32_t i = 0; i < w->n_layers; i++)
    json_array_append_new(layers, layer_json(&w->layers[i]));
  json_object_set_new(o, "layers", layers);
  if (!is_grouped(w)) json_object_set_new(o, "order", order_json(w));
  json_object_set_new(o, "totals", totals_json(&w->totals));
  return o;
}

/* ---- a Graphviz drawing: one box a layer and direction, one node an operator --------------------- */

static const char *colour(enum pz_op_class c) {
  static const char *const by_class[] = {"#9ecae1", "#c7e9c0", "#6baed6", "#eeeeee", "#fdae6b"};
  return by_class[c];
}

/* Quoted as DOT wants it. */
static void quote(const char *s, FILE *out) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fputc('\\', out);
    fputc(*s, out);
  }
}

static void cluster(const struct pz_layer *l, uint32_t index, enum pz_direction d, FILE *out) {
  static const char *const name[] = {"forward", "backward"};
  fprintf(out, "  subgraph cluster_%" PRIu32 "_%d {\n    label=\"", index, d);
  quote(l->name, out);
  fprintf(out, " x%" PRId64 ", %s\";\n", l->count, name[d]);
  for (uint32_t i = 0; i < l->ops[d].n; i++) {
    const struct pz_op *op = &l->ops[d].op[i];
    fprintf(out, "    n%" PRIu32 "_%d_%" PRIu32 " [label=\"", index, d, i);
    quote(op->name, out);
    fprintf(out, "\",fillcolor=\"%s\"];\n", colour(op->op_class));
    for (uint32_t p = 0; p < op->n_pred; p++)
      fprintf(out, "    n%" PRIu32 "_%d_%" PRIu32 " -> n%" PRIu32 "_%d_%" PRIu32 ";\n", index, d,
              op->pred[p], index, d, i);
  }
  fprintf(out, "  }\n");
}

static void put_dot(const struct pz_workload *w, FILE *out) {
  fprintf(out, "digraph \"");
  quote(w->model, out);
  fprintf(out, "\" {\n  node [shape=box,style=filled,fontname=\"sans-serif\"];\n");
  for (uint32_t i = 0; i < w->n_layers; i++) {
    cluster(&w->layers[i], i, PZ_FORWARD, out);
    cluster(&w->layers[i], i, PZ_BACKWARD, out);
  }
  fprintf(out, "}\n");
}

enum pz_status pz_workload_text(const struct pz_workload *w, enum pz_workload_form form,
                                char **text, struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {w, "workload"}, {text, "text"});
  if (status == PZ_OK)
    status = pz_need_range("form", (int64_t)form, PZ_WORKLOAD_JSON, PZ_WORKLOAD_DOT, err);
  if (status != PZ_OK) return status;
  if (form == PZ_WORKLOAD_JSON) {
    json_t *j = pz_workload_json(w);
    status = pz_json_text(j, text, err);
    json_decref(j);
    return status;
  }
  struct pz_buffer b = {0};
  FILE *out = pz_buffer_stream(&b);
  if (out) put_dot(w, out);
  if (out && pz_buffer_close(out)) return *text = b.text, PZ_OK;
  pz_free(b.text);
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the graph");
}
