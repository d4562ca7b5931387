/* A workload as a Graphviz drawing: one box a layer and direction, one node an operator. */
#include <inttypes.h>

#include "workload/workload.h"
#include "workload/workload_json.h"

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

void pz_workload_dot(const struct pz_workload *w, FILE *out) {
  fprintf(out, "digraph \"");
  quote(w->model, out);
  fprintf(out, "\" {\n  node [shape=box,style=filled,fontname=\"sans-serif\"];\n");
  for (uint32_t i = 0; i < w->n_layers; i++) {
    cluster(&w->layers[i], i, PZ_FORWARD, out);
    cluster(&w->layers[i], i, PZ_BACKWARD, out);
  }
  fprintf(out, "}\n");
}
