#include "onnx/graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"

const char *pz_onnx_node_name(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  if (n->name && n->name[0]) return n->name;
  for (uint32_t i = 0; i < n->n_out; i++)
    if (n->out[i] != PZ_NONE) return pz_onnx_value(g, n->out[i])->name;
  return n->type;
}

enum pz_status pz_onnx_fail(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                            enum pz_status status, const char *format, ...) {
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  pz_fail(g->err, status, "%s: node '%.200s' (%.80s): %s", g->file, pz_onnx_node_name(g, n),
          n->type, what);
  pz_error_at(g->err, g->file, 0, 0);
  return status;
}

static enum pz_status no_memory(const struct pz_onnx_graph *g) {
  return pz_fail(g->err, PZ_NO_MEMORY, "%s: out of memory for the graph", g->file);
}

bool pz_onnx_is_float(int type) {
  return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 || (type >= 17 && type <= 20);
}

bool pz_onnx_elems(const struct pz_onnx_value *v, int64_t *n) {
  *n = 1;
  for (int i = 0; i < v->rank; i++)
    if (!pz_mul(n, v->dim[i])) return false;
  return *n <= INT64_MAX / 2;
}

/* ---- attributes ----------------------------------------------------------------------------- */

const Onnx__AttributeProto *pz_onnx_attr(const struct pz_onnx_node *n, const char *name) {
  for (size_t i = 0; i < n->n_attrs; i++)
    if (n->attrs[i]->name && strcmp(n->attrs[i]->name, name) == 0) return n->attrs[i];
  return NULL;
}

int64_t pz_onnx_int(const struct pz_onnx_node *n, const char *name, int64_t absent) {
  const Onnx__AttributeProto *a = pz_onnx_attr(n, name);
  return a && a->has_i ? a->i : absent;
}

bool pz_onnx_text_is(const struct pz_onnx_node *n, const char *name, const char *value) {
  const Onnx__AttributeProto *a = pz_onnx_attr(n, name);
  return a && a->has_s && a->s.len == strlen(value) && memcmp(a->s.data, value, a->s.len) == 0;
}

const int64_t *pz_onnx_ints(const struct pz_onnx_node *n, const char *name, size_t *count) {
  const Onnx__AttributeProto *a = pz_onnx_attr(n, name);
  *count = a ? a->n_ints : 0;
  return a ? a->ints : NULL;
}

struct pz_onnx_value *pz_onnx_in(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                                 uint32_t i) {
  return i < n->n_in && n->in[i] != PZ_NONE ? pz_onnx_value(g, n->in[i]) : NULL;
}

enum pz_status pz_onnx_graph_users(struct pz_onnx_graph *g) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < g->values.n; i++) pz_onnx_value(g, i)->n_users = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
      const struct pz_onnx_node *n = pz_onnx_node(g, i);
      for (uint32_t k = 0; k < n->n_in && !n->gone; k++) {
        struct pz_onnx_value *v = pz_onnx_in(g, n, k);
        if (!v) continue;
        if (pass) g->users[v->first + v->n_users] = i;
        v->n_users++;
      }
    }
    if (pass) break;
    for (uint32_t i = 0; i < g->values.n; i++) {
      struct pz_onnx_value *v = pz_onnx_value(g, i);
      v->first = total;
      total += v->n_users;
      v->n_users = 0;
    }
    g->users = pz_arena_alloc(g->arena, total, sizeof *g->users);
    if (!g->users) return no_memory(g);
  }
  return PZ_OK;
}

void pz_onnx_spell_inputs(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, char *buf,
                          size_t size) {
  size_t used = 0;
  buf[0] = '\0';
  for (uint32_t k = 0; k < n->n_in && k < 4; k++) {
    const struct pz_onnx_value *x = pz_onnx_in(g, n, k);
    if (!x || used + 40 > size) continue;
    used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? " and " : "",
                             x->rank < 0 ? "unknown" : "[");
    for (int i = 0; i < x->rank && used + 40 < size; i++)
      used += (size_t)snprintf(buf + used, size - used, "%s%" PRId64, i ? ", " : "", x->dim[i]);
    if (x->rank >= 0) used += (size_t)snprintf(buf + used, size - used, "]");
  }
}
