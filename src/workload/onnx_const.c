#include "workload/onnx_const.h"

#include <string.h>

#include "core/num.h"

static int64_t *room(struct pz_onnx_graph *g, int64_t n) {
  return pz_arena_alloc(g->arena, (size_t)n, sizeof(int64_t));
}

static void set(struct pz_onnx_value *v, const int64_t *ints, int64_t n) {
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

/* The one number of a scalar of a floating-point type. */
static void read_real(struct pz_onnx_value *v, const Onnx__TensorProto *t) {
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
  float *reals = pz_arena_alloc(g->arena, (size_t)n, sizeof *reals);
  if (!reals) return false;
  bool raw = t->has_raw_data && t->raw_data.len == (size_t)n * sizeof *reals;
  if (raw && n)
    memcpy(reals, t->raw_data.data, t->raw_data.len);
  else if (!raw && (int64_t)t->n_float_data == n && n)
    memcpy(reals, t->float_data, (size_t)n * sizeof *reals);
  else
    return true;
  v->reals = reals;
  v->n_reals = (uint32_t)n;
  return true;
}

static int64_t element(const Onnx__TensorProto *t, int type, size_t i, bool *ok) {
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

bool pz_onnx_const_read(struct pz_onnx_graph *g, struct pz_onnx_value *v,
                        const Onnx__TensorProto *t) {
  int64_t n;
  if (!pz_onnx_elems(v, &n) || n > PZ_ONNX_MOST_INTS) return true;
  if (pz_onnx_is_float(v->type)) {
    if (n == 1) read_real(v, t);
    return v->type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || n > PZ_ONNX_MOST_RANK ||
           read_reals(g, v, t, n);
  }
  int64_t *ints = room(g, n);
  bool ok = true;
  if (!ints) return false;
  for (int64_t i = 0; i < n && ok; i++) ints[i] = element(t, v->type, (size_t)i, &ok);
  if (ok) set(v, ints, n);
  return true;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Two operands of which one may be a single number. */
static bool binary(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *a = pz_onnx_in(g, n, 0), *b = pz_onnx_in(g, n, 1);
  if (!a || !b || !a->ints || !b->ints || !a->n_ints || !b->n_ints) return true;
  uint32_t count = a->n_ints > b->n_ints ? a->n_ints : b->n_ints;
  if ((a->n_ints != count && a->n_ints != 1) || (b->n_ints != count && b->n_ints != 1)) return true;
  int64_t *out = room(g, count);
  if (!out) return false;
  bool ok = true;
  for (uint32_t i = 0; i < count && ok; i++) {
    int64_t x = a->ints[a->n_ints == 1 ? 0 : i], z = b->ints[b->n_ints == 1 ? 0 : i];
    out[i] = x;
    if (strcmp(n->type, "Add") == 0)
      ok = pz_add(&out[i], z);
    else if (strcmp(n->type, "Sub") == 0)
      ok = z != INT64_MIN && pz_add(&out[i], -z);
    else if (strcmp(n->type, "Mul") == 0)
      ok = pz_mul(&out[i], z);
    else if (strcmp(n->type, "Div") == 0)
      ok = z != 0 && !(x == INT64_MIN && z == -1);
    else if (strcmp(n->type, "Equal") == 0)
      out[i] = x == z;
    else if (strcmp(n->type, "Max") == 0)
      out[i] = x > z ? x : z;
    else if (strcmp(n->type, "Min") == 0)
      out[i] = x < z ? x : z;
    else
      ok = false;
    if (ok && strcmp(n->type, "Div") == 0) out[i] = x / z;
  }
  if (ok) set(y, out, count);
  return true;
}

static bool where(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *v[3];
  uint32_t count = 1;
  for (uint32_t i = 0; i < 3; i++) {
    v[i] = pz_onnx_in(g, n, i);
    if (!v[i] || !v[i]->ints || !v[i]->n_ints) return true;
    if (v[i]->n_ints > count) count = v[i]->n_ints;
  }
  for (int i = 0; i < 3; i++)
    if (v[i]->n_ints != 1 && v[i]->n_ints != count) return true;
  int64_t *out = room(g, count);
  if (!out) return false;
  for (uint32_t i = 0; i < count; i++) {
    const struct pz_onnx_value *from = v[v[0]->ints[v[0]->n_ints == 1 ? 0 : i] ? 1 : 2];
    out[i] = from->ints[from->n_ints == 1 ? 0 : i];
  }
  set(y, out, count);
  return true;
}

static bool concat(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  int64_t total = 0, at = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const struct pz_onnx_value *v = pz_onnx_in(g, n, i);
    if (!v || !v->ints || v->rank != 1) return true;
    total += v->n_ints;
  }
  int64_t *out = total <= PZ_ONNX_MOST_INTS ? room(g, total) : NULL;
  if (!out) return total > PZ_ONNX_MOST_INTS;
  for (uint32_t i = 0; i < n->n_in; i++)
    for (uint32_t k = 0; k < pz_onnx_in(g, n, i)->n_ints; k++)
      out[at++] = pz_onnx_in(g, n, i)->ints[k];
  set(y, out, total);
  return true;
}

/* Elements of a vector by index. */
static bool gather(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0), *at = pz_onnx_in(g, n, 1);
  if (!x || !at || !x->ints || !at->ints || x->rank != 1) return true;
  int64_t *out = room(g, at->n_ints);
  if (!out) return false;
  for (uint32_t i = 0; i < at->n_ints; i++) {
    int64_t k = at->ints[i] < 0 ? at->ints[i] + x->n_ints : at->ints[i];
    if (k < 0 || k >= x->n_ints) return true;
    out[i] = x->ints[k];
  }
  set(y, out, at->n_ints);
  return true;
}

static int64_t clamp(int64_t v, int64_t n) {
  if (v < 0) v = v < -n ? 0 : v + n;
  return v > n ? n : v;
}

static bool slice(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0), *from = pz_onnx_in(g, n, 1),
                             *to = pz_onnx_in(g, n, 2), *step = pz_onnx_in(g, n, 4);
  if (!x || !x->ints || x->rank != 1) return true;
  if (step && (!step->ints || step->n_ints != 1 || step->ints[0] != 1)) return true;
  size_t n_starts, n_ends;
  const int64_t *starts = pz_onnx_ints(n, "starts", &n_starts),
                *ends = pz_onnx_ints(n, "ends", &n_ends);
  if (from && from->ints && to && to->ints) {
    starts = from->ints, n_starts = from->n_ints;
    ends = to->ints, n_ends = to->n_ints;
  }
  if (n_starts != 1 || n_ends != 1) return true;
  int64_t a = clamp(starts[0], x->n_ints), b = clamp(ends[0], x->n_ints);
  set(y, x->ints + (a < b ? a : b), a < b ? b - a : 0);
  return true;
}

/* All elements the same: the attribute `value`, zero by default. */
static bool filled(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const Onnx__AttributeProto *a = pz_onnx_attr(n, "value");
  int64_t count, v = 0;
  if (!pz_onnx_elems(y, &count) || count > PZ_ONNX_MOST_INTS) return true;
  bool ok = true;
  if (a && a->t) v = element(a->t, a->t->data_type, 0, &ok);
  int64_t *out = ok ? room(g, count) : NULL;
  if (!out) return !ok;
  for (int64_t i = 0; i < count; i++) out[i] = v;
  set(y, out, count);
  return true;
}

static bool range(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *from = pz_onnx_in(g, n, 0), *step = pz_onnx_in(g, n, 2);
  if (!from || !from->ints || !step || !step->ints || y->rank != 1) return true;
  if (!from->n_ints || !step->n_ints || y->dim[0] > PZ_ONNX_MOST_INTS) return true;
  int64_t *out = room(g, y->dim[0]), v = from->ints[0];
  if (!out) return false;
  for (int64_t i = 0; i < y->dim[0]; i++) {
    out[i] = v;
    if (!pz_add(&v, step->ints[0])) return true;
  }
  set(y, out, y->dim[0]);
  return true;
}

static void shape(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!x || x->rank < 0) return;
  for (int i = 0; i < x->rank; i++)
    if (x->dim[i] < 0) return;
  int64_t from = clamp(pz_onnx_int(n, "start", 0), x->rank),
          to = clamp(pz_onnx_int(n, "end", x->rank), x->rank);
  int64_t *copy = room(g, x->rank);
  if (!copy) return;
  memcpy(copy, x->dim, (size_t)x->rank * sizeof *copy);
  set(y, copy + from, from < to ? to - from : 0);
}

/* The node's one result has the contents of its first input. */
static void same(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!x) return;
  if (x->ints) set(y, x->ints, x->n_ints);
  if (x->has_real) {
    y->has_real = true;
    y->real = x->real;
  }
}

bool pz_onnx_const_node(struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  if (n->n_out < 1 || n->out[0] == PZ_NONE) return true;
  struct pz_onnx_value *y = pz_onnx_value(g, n->out[0]);
  switch (n->op->shape) {
  case PZ_SHAPE_SHAPE: shape(g, n, y); return true;
  case PZ_SHAPE_BROADCAST: return strcmp(n->type, "Where") == 0 ? where(g, n, y) : binary(g, n, y);
  case PZ_SHAPE_CONCAT: return concat(g, n, y);
  case PZ_SHAPE_GATHER: return gather(g, n, y);
  case PZ_SHAPE_SLICE: return slice(g, n, y);
  case PZ_SHAPE_FILLED: return filled(g, n, y);
  case PZ_SHAPE_RANGE: return range(g, n, y);
  default: break;
  }
  if (n->op->rule == PZ_LOWER_VIEW && n->op->shape != PZ_SHAPE_TRANSPOSE) same(g, n, y);
  return true;
}
