#include "onnx/argument.h"

#include "core/num.h"

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

void pz_onnx_kept_dims(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                       const struct pz_onnx_value *x, const struct pz_onnx_value *y,
                       int to[PZ_ONNX_MOST_RANK]) {
  bool adds = n->op->shape == PZ_SHAPE_UNSQUEEZE;
  size_t count;
  const int64_t *axes = pz_onnx_axes(g, n, "axes", 1, &count);
  int rank = adds ? y->rank : x->rank, k = 0;
  for (int i = 0; i < PZ_ONNX_MOST_RANK; i++) to[i] = -1;
  for (int i = 0; i < rank; i++) {
    bool listed = !adds && count == 0 && x->dim[i] == 1;
    for (size_t a = 0; a < count; a++) listed = listed || pz_onnx_axis(axes[a], rank) == i;
    if (listed) continue;
    to[adds ? k : i] = adds ? i : k;
    k++;
  }
}
