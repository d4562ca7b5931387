#include "onnx/graph.h"

#include <inttypes.h>
#include <math.h>
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

enum pz_status pz_onnx_no_memory(const struct pz_onnx_graph *g) {
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
    if (!g->users) return pz_onnx_no_memory(g);
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

/* ---- arguments ------------------------------------------------------------------------------ */

int pz_onnx_axis(int64_t a, int rank) {
  if (a < 0) a += rank;
  return a >= 0 && a < rank ? (int)a : -1;
}

const int64_t *pz_onnx_axes(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                            const char *attr, uint32_t input, size_t *count) {
  const struct pz_onnx_value *v = pz_onnx_in(g, n, input);
  if (!v) return pz_onnx_ints(n, attr, count);
  *count = v->ints ? v->n_ints : 0;
  return v->ints;
}

int64_t pz_onnx_clamp(int64_t v, int64_t n, int64_t least, int64_t most) {
  if (v < 0) v = v < -n ? -1 : v + n;
  return v < least ? least : v > most ? most : v;
}

static bool slice_axis(int64_t n, int64_t from, int64_t to, struct pz_onnx_range *range) {
  int64_t step = range->step;
  if (step == 0 || step == INT64_MIN) return false;
  if (step > 0) {
    range->from = pz_onnx_clamp(from, n, 0, n);
    to = pz_onnx_clamp(to, n, 0, n);
    range->count = to > range->from ? pz_ceil_div(to - range->from, step) : 0;
  } else {
    range->from = pz_onnx_clamp(from, n, 0, n - 1);
    to = to < -n ? -1 : pz_onnx_clamp(to, n, -1, n - 1);
    range->count = range->from > to ? pz_ceil_div(range->from - to, -step) : 0;
  }
  return true;
}

bool pz_onnx_slice_of(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                      struct pz_onnx_range range[PZ_ONNX_MOST_RANK]) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  size_t n_from, n_to, n_axes, n_steps;
  const int64_t *from = pz_onnx_axes(g, n, "starts", 1, &n_from),
                *to = pz_onnx_axes(g, n, "ends", 2, &n_to),
                *axes = pz_onnx_axes(g, n, "axes", 3, &n_axes),
                *steps = pz_onnx_axes(g, n, "steps", 4, &n_steps);
  if (!x || x->rank < 0 || !from || !to || n_from != n_to) return false;
  if ((n_axes && n_axes != n_from) || (n_steps && n_steps != n_from)) return false;
  for (int d = 0; d < x->rank; d++) range[d] = (struct pz_onnx_range){0, 1, x->dim[d]};
  for (size_t i = 0; i < n_from; i++) {
    int a = pz_onnx_axis(n_axes ? axes[i] : (int64_t)i, x->rank);
    if (a < 0) return false;
    range[a].step = n_steps ? steps[i] : 1;
    if (!slice_axis(x->dim[a], from[i], to[i], &range[a])) return false;
  }
  return true;
}

/* ---- stored tensors ------------------------------------------------------------------------- */

void pz_onnx_set_ints(struct pz_onnx_value *v, const int64_t *ints, int64_t n) {
  v->ints = ints;
  v->n_ints = (uint32_t)n;
  if (n == 1) {
    v->has_real = true;
    v->real = (double)ints[0];
  }
}

static float bits_to_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static double half_to_real(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
  if (e == 0) return (h & 0x8000 ? -1.0 : 1.0) * m / 16777216.0;
  return (double)bits_to_float(sign | (e == 31 ? 255u << 23 : (e + 112) << 23) | m << 13);
}

void pz_onnx_tensor_real(struct pz_onnx_value *v, const Onnx__TensorProto *t) {
  const uint8_t *raw = t->raw_data.data;
  size_t n = t->has_raw_data ? t->raw_data.len : 0;
  uint16_t h = 0;
  v->has_real = true;
  if (n >= 2) memcpy(&h, raw, 2);
  if (t->n_int32_data) h = (uint16_t)t->int32_data[0];
  if (v->type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT && (n >= 4 || t->n_float_data)) {
    float f = t->n_float_data ? t->float_data[0] : 0;
    if (n >= 4) memcpy(&f, raw, sizeof f);
    v->real = (double)f;
  } else if (v->type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE && (n >= 8 || t->n_double_data)) {
    v->real = t->n_double_data ? t->double_data[0] : 0;
    if (n >= 8) memcpy(&v->real, raw, sizeof v->real);
  } else if (v->type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 && (n >= 2 || t->n_int32_data)) {
    v->real = (double)bits_to_float((uint32_t)h << 16);
  } else if (v->type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 && (n >= 2 || t->n_int32_data)) {
    v->real = half_to_real(h);
  } else {
    v->has_real = false;
  }
}

static bool read_reals(struct pz_onnx_graph *g, struct pz_onnx_value *v, const Onnx__TensorProto *t,
                       int64_t n) {
  bool raw = t->has_raw_data && t->raw_data.len == (size_t)n * sizeof(float);
  if (!raw && (int64_t)t->n_float_data != n) return true;
  double *reals = pz_arena_alloc(g->arena, (size_t)n, sizeof *reals);
  if (!reals) return false;
  for (int64_t i = 0; i < n; i++) {
    float f = raw ? 0 : t->float_data[i];
    if (raw) memcpy(&f, t->raw_data.data + (size_t)i * sizeof f, sizeof f);
    reals[i] = (double)f;
  }
  v->reals = reals;
  v->n_reals = (uint32_t)n;
  return true;
}

int64_t pz_onnx_tensor_int(const Onnx__TensorProto *t, int type, size_t i, bool *ok) {
  const uint8_t *raw = t->has_raw_data ? t->raw_data.data : NULL;
  size_t n = t->has_raw_data ? t->raw_data.len : 0;
  int64_t wide = 0;
  int32_t narrow = 0;
  switch (type) {
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
    if (i < t->n_int64_data) return t->int64_data[i];
    if ((*ok = n / 8 > i)) memcpy(&wide, raw + 8 * i, sizeof wide);
    return wide;
  case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    if (i < t->n_int32_data) return t->int32_data[i];
    if ((*ok = n / 4 > i)) memcpy(&narrow, raw + 4 * i, sizeof narrow);
    return narrow;
  case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
    if (i < t->n_int32_data) return t->int32_data[i];
    return (*ok = n > i) ? raw[i] : 0;
  default: *ok = false; return 0;
  }
}

bool pz_onnx_tensor_read(struct pz_onnx_graph *g, struct pz_onnx_value *v,
                         const Onnx__TensorProto *t) {
  int64_t n;
  if (!pz_onnx_elems(v, &n) || n > PZ_ONNX_MOST_INTS) return true;
  if (pz_onnx_is_float(v->type)) {
    if (n == 1) pz_onnx_tensor_real(v, t);
    return v->type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || n > PZ_ONNX_MOST_RANK ||
           read_reals(g, v, t, n);
  }
  int64_t *ints = pz_arena_alloc(g->arena, (size_t)n, sizeof *ints);
  bool ok = true;
  if (!ints) return false;
  for (int64_t i = 0; i < n && ok; i++) ints[i] = pz_onnx_tensor_int(t, v->type, (size_t)i, &ok);
  if (ok) pz_onnx_set_ints(v, ints, n);
  return true;
}
