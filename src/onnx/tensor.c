#include "onnx/tensor.h"

#include <math.h>
#include <string.h>

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
