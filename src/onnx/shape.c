#include "onnx/passes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "onnx/dims.h"

/* ---- symbolic dimensions --------------------------------------------------------------------- */

/* The size that --dim gives to a name; 0: none. */
static int64_t asked(const struct pz_workload_options *o, const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < PZ_MOST_DIMS && o->dims[i]; i++)
    if (strncmp(o->dims[i], name, n) == 0 && o->dims[i][n] == '=')
      return strtoll(o->dims[i] + n + 1, NULL, 10);
  return 0;
}

static enum pz_status check_asked(const struct pz_onnx_graph *g,
                                  const struct pz_workload_options *o) {
  for (int i = 0; i < PZ_MOST_DIMS && o->dims[i]; i++) {
    const char *eq = strrchr(o->dims[i], '=');
    char *end = NULL;
    long long v = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || eq == o->dims[i] || end == eq + 1 || *end || v < 1 || v > PZ_ONNX_MOST_DIM)
      return pz_fail(g->err, PZ_BAD_USE,
                     "dimension '%.100s'; accepted: NAME=SIZE, the name of a symbolic dimension "
                     "or INPUT:AXIS, and an integer from 1",
                     o->dims[i]);
  }
  return PZ_OK;
}

static bool is_index(int type) {
  return type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
}

/* Size of symbolic dimension i of input v: as asked; the first one the microbatch, the second one
 * of token ids the sequence. */
static enum pz_status bind_dim(struct pz_onnx_graph *g, const struct pz_workload_options *o,
                               struct pz_onnx_value *v, int i) {
  const char *name = v->symbols[i];
  char place[256];
  snprintf(place, sizeof place, "%.200s:%d", v->name, i);
  int64_t size = asked(o, place);
  if (!size) size = asked(o, name);
  bool batch =
      o->batch_dim ? strcmp(o->batch_dim, name) == 0 || strcmp(o->batch_dim, place) == 0 : i == 0;
  if (!size && batch) size = o->mbs;
  if (!size && i == 1 && v->rank == 2 && is_index(v->type)) size = o->seq;
  if (!size)
    return pz_fail(g->err, PZ_BAD_INPUT,
                   "%s: input '%.120s' has a symbolic dimension '%.80s' (axis %d); accepted with "
                   "--dim %.80s=SIZE%s",
                   g->file, v->name, name, i, name[0] == '?' ? place : name,
                   i == 1 && v->rank == 2 ? " or --seq" : "");
  v->dim[i] = size;
  return PZ_OK;
}

/* Is the name before '=' one of an input's symbolic dimensions? */
static bool names_dim(const struct pz_onnx_graph *g, const char *text) {
  size_t n = strcspn(text, "=");
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i));
    for (int d = 0; d < v->rank && v->symbols; d++) {
      char place[256];
      if (!v->symbols[d]) continue;
      snprintf(place, sizeof place, "%.200s:%d", v->name, d);
      if (strlen(v->symbols[d]) == n && strncmp(text, v->symbols[d], n) == 0) return true;
      if (strlen(place) == n && strncmp(text, place, n) == 0) return true;
    }
  }
  return false;
}

static enum pz_status check_names(const struct pz_onnx_graph *g,
                                  const struct pz_workload_options *o) {
  for (int i = 0; i < PZ_MOST_DIMS && o->dims[i]; i++)
    if (!names_dim(g, o->dims[i]))
      return pz_fail(g->err, PZ_BAD_USE,
                     "--dim %.100s: no input of %s has a symbolic dimension of this name",
                     o->dims[i], g->file);
  return PZ_OK;
}

static enum pz_status bind_inputs(struct pz_onnx_graph *g, const struct pz_workload_options *o) {
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i));
    for (int d = 0; d < v->rank && !v->init; d++) {
      if (v->dim[d] >= 0) continue;
      enum pz_status status = bind_dim(g, o, v, d);
      if (status != PZ_OK) return status;
    }
    v->given = true;
  }
  return PZ_OK;
}

/* A size for every symbolic dimension of the inputs: as options->dims name it, else the microbatch
 * for the first one and the sequence length for the second of token ids.  PZ_BAD_USE for a name
 * that no input has, PZ_BAD_INPUT for a dimension without a size. */
static enum pz_status bind_all(struct pz_onnx_graph *g, const struct pz_workload_options *o) {
  enum pz_status status = check_asked(g, o);
  if (status == PZ_OK) status = check_names(g, o);
  return status == PZ_OK ? bind_inputs(g, o) : status;
}

/* ---- helpers -------------------------------------------------------------------------------- */

struct shape {
  int rank;
  int64_t d[PZ_ONNX_MOST_RANK];
};

static struct shape shape_of(const struct pz_onnx_value *v) {
  struct shape s = {.rank = v ? v->rank : -1};
  for (int i = 0; i < s.rank; i++) s.d[i] = v->dim[i];
  return s;
}

static const struct shape unknown = {.rank = -1};
/* The inputs are known, and no such operator takes them. */
enum { IMPOSSIBLE = -2 };
static const struct shape impossible = {.rank = IMPOSSIBLE};

static bool known(const struct shape *s) {
  if (s->rank < 0) return false;
  for (int i = 0; i < s->rank; i++)
    if (s->d[i] < 0 || s->d[i] > PZ_ONNX_MOST_DIM) return false;
  return true;
}

static bool product(const struct shape *s, int from, int to, int64_t *out) {
  *out = 1;
  for (int i = from; i < to; i++)
    if (!pz_mul(out, s->d[i])) return false;
  return true;
}

static struct shape broadcast(struct shape a, struct shape b) {
  if (a.rank < 0 || b.rank < 0) return unknown;
  struct shape y = {.rank = a.rank > b.rank ? a.rank : b.rank};
  for (int i = 0; i < y.rank; i++) {
    int ia = i - (y.rank - a.rank), ib = i - (y.rank - b.rank);
    int64_t da = ia < 0 ? 1 : a.d[ia], db = ib < 0 ? 1 : b.d[ib];
    if (da != db && da != 1 && db != 1) return impossible;
    y.d[i] = da == 1 ? db : da;
  }
  return y;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static struct shape rule_broadcast(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  for (uint32_t i = 1; i < n->n_in; i++) y = broadcast(y, shape_of(pz_onnx_in(g, n, i)));
  return y;
}

static struct shape rule_matmul(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape a = shape_of(pz_onnx_in(g, n, 0)), b = shape_of(pz_onnx_in(g, n, 1));
  if (a.rank < 1 || b.rank < 1) return unknown;
  struct shape left = a, right = b;
  left.rank = a.rank > 2 ? a.rank - 2 : 0;
  right.rank = b.rank > 2 ? b.rank - 2 : 0;
  struct shape y = broadcast(left, right);
  int64_t k = b.d[b.rank > 1 ? b.rank - 2 : 0];
  if (y.rank < 0 || a.d[a.rank - 1] != k) return impossible;
  if (y.rank > PZ_ONNX_MOST_RANK - 2) return unknown;
  if (a.rank > 1) y.d[y.rank++] = a.d[a.rank - 2];
  if (b.rank > 1) y.d[y.rank++] = b.d[b.rank - 1];
  return y;
}

static struct shape rule_gemm(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape a = shape_of(pz_onnx_in(g, n, 0)), b = shape_of(pz_onnx_in(g, n, 1));
  if (a.rank < 0 || b.rank < 0) return unknown;
  if (a.rank != 2 || b.rank != 2) return impossible;
  bool ta = pz_onnx_int(n, "transA", 0), tb = pz_onnx_int(n, "transB", 0);
  if (a.d[ta ? 0 : 1] != b.d[tb ? 1 : 0]) return impossible;
  return (struct shape){2, {a.d[ta ? 1 : 0], b.d[tb ? 0 : 1]}};
}

/* Padding before and after spatial axis i, of `spatial`; SAME pads so that out = ceil(in / s). */
static bool windows(const struct pz_onnx_node *n, int spatial, int i, int64_t in, int64_t kernel,
                    int64_t *out) {
  size_t n_pads, n_strides, n_dil;
  const int64_t *pads = pz_onnx_ints(n, "pads", &n_pads),
                *strides = pz_onnx_ints(n, "strides", &n_strides),
                *dil = pz_onnx_ints(n, "dilations", &n_dil);
  int64_t stride = i < (int)n_strides ? strides[i] : 1, d = i < (int)n_dil ? dil[i] : 1;
  const int64_t most = 1 << 24;
  if (stride < 1 || stride > most || d < 1 || d > most || kernel < 1 || kernel > most) return false;
  if (pz_onnx_text_is(n, "auto_pad", "SAME_UPPER") ||
      pz_onnx_text_is(n, "auto_pad", "SAME_LOWER")) {
    *out = pz_ceil_div(in, stride);
    return true;
  }
  int64_t pad = 0;
  if ((int)n_pads == 2 * spatial) {
    if (pads[i] < -most || pads[i] > most || pads[i + spatial] < -most || pads[i + spatial] > most)
      return false;
    pad = pads[i] + pads[i + spatial];
  }
  int64_t span = in + pad - ((kernel - 1) * d + 1);
  if (span < 0) return false;
  *out = (pz_onnx_int(n, "ceil_mode", 0) ? pz_ceil_div(span, stride) : span / stride) + 1;
  return true;
}

static struct shape rule_conv(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), w = shape_of(pz_onnx_in(g, n, 1)), y = x;
  int64_t channels = w.rank > 1 ? w.d[1] : 0;
  if (x.rank < 0 || w.rank < 0) return unknown;
  if (x.rank < 3 || w.rank != x.rank || !pz_mul(&channels, pz_onnx_int(n, "group", 1)) ||
      channels != x.d[1])
    return impossible;
  y.d[1] = w.d[0];
  for (int i = 2; i < x.rank; i++)
    if (!windows(n, x.rank - 2, i - 2, x.d[i], w.d[i], &y.d[i])) return impossible;
  return y;
}

static struct shape rule_conv_transpose(const struct pz_onnx_graph *g,
                                        const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), w = shape_of(pz_onnx_in(g, n, 1)), y = x;
  if (x.rank < 0 || w.rank < 0) return unknown;
  if (x.rank < 3 || w.rank != x.rank || w.d[0] != x.d[1]) return impossible;
  size_t n_pads, n_strides, n_more, n_shape;
  const int64_t *pads = pz_onnx_ints(n, "pads", &n_pads),
                *strides = pz_onnx_ints(n, "strides", &n_strides),
                *more = pz_onnx_ints(n, "output_padding", &n_more),
                *shape = pz_onnx_ints(n, "output_shape", &n_shape);
  int spatial = x.rank - 2;
  y.d[1] = w.d[1];
  if (!pz_mul(&y.d[1], pz_onnx_int(n, "group", 1))) return unknown;
  for (int i = 0; i < spatial; i++) {
    int64_t out = x.d[i + 2] - 1;
    bool ok = pz_mul(&out, i < (int)n_strides ? strides[i] : 1) && pz_add(&out, w.d[i + 2]) &&
              (i >= (int)n_more || pz_add(&out, more[i]));
    if ((int)n_pads == 2 * spatial)
      for (int k = i; k < 2 * spatial; k += spatial)
        ok = ok && pads[k] > -PZ_ONNX_MOST_DIM && pz_add(&out, -pads[k]);
    if (!ok) return unknown;
    y.d[i + 2] = (int)n_shape == spatial ? shape[i] : out;
  }
  return y;
}

static struct shape rule_pool(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = x;
  size_t n_kernel;
  const int64_t *kernel = pz_onnx_ints(n, "kernel_shape", &n_kernel);
  if (x.rank < 0) return unknown;
  if (x.rank < 3 || (int)n_kernel != x.rank - 2) return impossible;
  for (int i = 2; i < x.rank; i++)
    if (!windows(n, x.rank - 2, i - 2, x.d[i], kernel[i - 2], &y.d[i])) return impossible;
  return y;
}

static struct shape rule_global_pool(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  for (int i = 2; i < y.rank; i++) y.d[i] = 1;
  return y;
}

static struct shape rule_reduce(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = {0};
  bool arg = n->op->shape == PZ_SHAPE_ARG, keep = pz_onnx_int(n, "keepdims", 1) != 0;
  bool gone[PZ_ONNX_MOST_RANK] = {false};
  size_t count = 0;
  int64_t one = pz_onnx_int(n, "axis", 0);
  const struct pz_onnx_value *given = pz_onnx_in(g, n, 1);
  if (x.rank < 0 || (!arg && given && !given->ints)) return unknown;
  const int64_t *axes = arg ? &one : pz_onnx_axes(g, n, "axes", 1, &count);
  if (arg) count = 1;
  if (!count && pz_onnx_int(n, "noop_with_empty_axes", 0)) return x;
  for (int i = 0; i < x.rank; i++) gone[i] = count == 0;
  for (size_t i = 0; i < count; i++) {
    int a = pz_onnx_axis(axes[i], x.rank);
    if (a < 0) return unknown;
    gone[a] = true;
  }
  for (int i = 0; i < x.rank; i++)
    if (!gone[i] || keep) y.d[y.rank++] = gone[i] ? 1 : x.d[i];
  return y;
}

static struct shape rule_reshape(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *to = pz_onnx_in(g, n, 1);
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = {0};
  if (x.rank < 0 || !to || !to->ints || to->n_ints > PZ_ONNX_MOST_RANK) return unknown;
  bool zero = pz_onnx_int(n, "allowzero", 0) != 0;
  int open = -1;
  int64_t all, rest = 1;
  y.rank = (int)to->n_ints;
  for (int i = 0; i < y.rank; i++) {
    y.d[i] = to->ints[i];
    if (y.d[i] == 0 && !zero && i < x.rank) y.d[i] = x.d[i];
    if (y.d[i] == -1 && open < 0)
      open = i;
    else if (!pz_mul(&rest, y.d[i]))
      return unknown;
  }
  if (!product(&x, 0, x.rank, &all)) return unknown;
  if (open >= 0) {
    if (rest <= 0 || all % rest) return impossible;
    y.d[open] = all / rest;
  } else if (rest != all) {
    return impossible;
  }
  return y;
}

static struct shape rule_flatten(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = {.rank = 2};
  int64_t a = pz_onnx_int(n, "axis", 1);
  if (a < 0) a += x.rank;
  if (x.rank < 0 || a < 0 || a > x.rank) return unknown;
  return product(&x, 0, (int)a, &y.d[0]) && product(&x, (int)a, x.rank, &y.d[1]) ? y : unknown;
}

static struct shape rule_transpose(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = x;
  size_t count;
  const int64_t *perm = pz_onnx_ints(n, "perm", &count);
  if (x.rank < 0) return unknown;
  if (count && (int)count != x.rank) return impossible;
  for (int i = 0; i < x.rank; i++) {
    int64_t from = count ? perm[i] : x.rank - 1 - i;
    if (from < 0 || from >= x.rank) return impossible;
    y.d[i] = x.d[from];
  }
  return y;
}

static struct shape rule_squeeze(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = {0};
  size_t count;
  const int64_t *axes = pz_onnx_axes(g, n, "axes", 1, &count);
  for (int i = 0; i < x.rank; i++) {
    bool gone = count == 0 && x.d[i] == 1;
    for (size_t k = 0; k < count; k++) gone = gone || pz_onnx_axis(axes[k], x.rank) == i;
    if (!gone) y.d[y.rank++] = x.d[i];
  }
  return x.rank < 0 ? unknown : y;
}

static struct shape rule_unsqueeze(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = {0};
  size_t count;
  const int64_t *axes = pz_onnx_axes(g, n, "axes", 1, &count);
  if (x.rank < 0 || !count || x.rank + (int)count > PZ_ONNX_MOST_RANK) return unknown;
  y.rank = x.rank + (int)count;
  int from = 0;
  for (int i = 0; i < y.rank; i++) {
    bool added = false;
    for (size_t k = 0; k < count; k++) added = added || pz_onnx_axis(axes[k], y.rank) == i;
    if (!added && from >= x.rank) return unknown;
    y.d[i] = added ? 1 : x.d[from++];
  }
  return y;
}

static struct shape rule_concat(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  int axis = y.rank < 0 ? -1 : pz_onnx_axis(pz_onnx_int(n, "axis", 0), y.rank);
  if (axis < 0) return unknown;
  for (uint32_t i = 1; i < n->n_in; i++) {
    struct shape x = shape_of(pz_onnx_in(g, n, i));
    if (x.rank != y.rank || x.d[axis] < 0 || !pz_add(&y.d[axis], x.d[axis])) return unknown;
  }
  return y;
}

/* Result `o` of a Split. */
static struct shape rule_split(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                               uint32_t o) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0));
  int axis = x.rank < 0 ? -1 : pz_onnx_axis(pz_onnx_int(n, "axis", 0), x.rank);
  size_t count;
  const int64_t *sizes = pz_onnx_axes(g, n, "split", 1, &count);
  if (axis < 0 || (pz_onnx_in(g, n, 1) && !sizes)) return unknown;
  if (sizes && count) {
    if (o >= count) return unknown;
    x.d[axis] = sizes[o];
    return x;
  }
  int64_t parts = pz_onnx_int(n, "num_outputs", n->n_out);
  if (parts < 1) return unknown;
  int64_t each = pz_ceil_div(x.d[axis], parts), left = x.d[axis] - each * (int64_t)o;
  x.d[axis] = left < each ? left : each;
  return x;
}

static struct shape rule_slice(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  struct pz_onnx_range range[PZ_ONNX_MOST_RANK] = {{0, 0, 0}};
  if (!pz_onnx_slice_of(g, n, range)) return unknown;
  for (int d = 0; d < y.rank; d++) y.d[d] = range[d].count;
  return y;
}

static struct shape rule_gather(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), at = shape_of(pz_onnx_in(g, n, 1)), y = {0};
  int axis = x.rank < 0 ? -1 : pz_onnx_axis(pz_onnx_int(n, "axis", 0), x.rank);
  if (axis < 0 || at.rank < 0 || x.rank + at.rank - 1 > PZ_ONNX_MOST_RANK) return unknown;
  for (int i = 0; i < axis; i++) y.d[y.rank++] = x.d[i];
  for (int i = 0; i < at.rank; i++) y.d[y.rank++] = at.d[i];
  for (int i = axis + 1; i < x.rank; i++) y.d[y.rank++] = x.d[i];
  return y;
}

static struct shape rule_gather_nd(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), at = shape_of(pz_onnx_in(g, n, 1)), y = {0};
  int64_t batch = pz_onnx_int(n, "batch_dims", 0);
  if (x.rank < 1 || at.rank < 1 || batch < 0 || batch > x.rank) return unknown;
  int64_t used = at.d[at.rank - 1] + batch;
  if (used < 0 || used > x.rank || at.rank - 1 + x.rank - used > PZ_ONNX_MOST_RANK) return unknown;
  for (int i = 0; i < at.rank - 1; i++) y.d[y.rank++] = at.d[i];
  for (int64_t i = used; i < x.rank; i++) y.d[y.rank++] = x.d[i];
  return y;
}

static struct shape contents(const struct pz_onnx_value *v) {
  struct shape y = {0};
  if (!v || !v->ints || v->n_ints > PZ_ONNX_MOST_RANK) return unknown;
  y.rank = (int)v->n_ints;
  for (int i = 0; i < y.rank; i++) y.d[i] = v->ints[i];
  return y;
}

static struct shape rule_tile(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0)), by = contents(pz_onnx_in(g, n, 1));
  if (y.rank != by.rank) return unknown;
  for (int i = 0; i < y.rank; i++)
    if (!pz_mul(&y.d[i], by.d[i])) return unknown;
  return y;
}

static struct shape rule_pad(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  size_t count, n_axes = 0;
  const int64_t *pads = pz_onnx_axes(g, n, "pads", 1, &count), *axes = NULL;
  if (n->n_in > 3) axes = pz_onnx_axes(g, n, "axes", 3, &n_axes);
  size_t half = n_axes ? n_axes : (size_t)(y.rank > 0 ? y.rank : 0);
  if (y.rank < 0 || !pads || count != 2 * half) return unknown;
  for (size_t i = 0; i < half; i++) {
    int a = pz_onnx_axis(n_axes ? axes[i] : (int64_t)i, y.rank);
    if (a < 0 || !pz_add(&y.d[a], pads[i]) || !pz_add(&y.d[a], pads[i + half])) return unknown;
  }
  return y;
}

/* Sizes as integers (fourth input), or scales (third; second before opset 11). */
static struct shape rule_resize(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape x = shape_of(pz_onnx_in(g, n, 0)), y = contents(pz_onnx_in(g, n, 3));
  const struct pz_onnx_value *scales = pz_onnx_in(g, n, n->n_in > 2 ? 2 : 1);
  if (x.rank < 0) return unknown;
  if (x.rank == y.rank && n->n_in > 3) return y;
  if (!scales || (int)scales->n_reals != x.rank) return unknown;
  for (int i = 0; i < x.rank; i++) {
    double size = (double)x.d[i] * scales->reals[i];
    if (!(size >= 0 && size <= (double)PZ_ONNX_MOST_DIM)) return unknown;
    x.d[i] = (int64_t)size;
  }
  return x;
}

static struct shape rule_constant(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  (void)g;
  const Onnx__AttributeProto *a = pz_onnx_attr(n, "value");
  struct shape y = {0};
  if (a && a->t) {
    if (a->t->n_dims > PZ_ONNX_MOST_RANK) return unknown;
    y.rank = (int)a->t->n_dims;
    for (int i = 0; i < y.rank; i++) y.d[i] = a->t->dims[i];
  } else if ((a = pz_onnx_attr(n, "value_ints"))) {
    y = (struct shape){1, {(int64_t)a->n_ints}};
  } else if ((a = pz_onnx_attr(n, "value_floats"))) {
    y = (struct shape){1, {(int64_t)a->n_floats}};
  } else if (!pz_onnx_attr(n, "value_int") && !pz_onnx_attr(n, "value_float")) {
    return unknown;
  }
  return y;
}

static struct shape rule_range(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *v[3];
  for (uint32_t i = 0; i < 3; i++) {
    v[i] = pz_onnx_in(g, n, i);
    if (!v[i] || !v[i]->ints || v[i]->n_ints != 1) return unknown;
  }
  int64_t span = v[1]->ints[0], step = v[2]->ints[0];
  if (step == 0 || step == INT64_MIN || v[0]->ints[0] == INT64_MIN ||
      !pz_add(&span, -v[0]->ints[0]))
    return unknown;
  if (step < 0) span = span == INT64_MIN ? INT64_MAX : -span, step = -step;
  return (struct shape){1, {span > 0 ? pz_ceil_div(span, step) : 0}};
}

static struct shape rule_topk(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  const struct pz_onnx_value *k = pz_onnx_in(g, n, 1);
  int axis = y.rank < 0 ? -1 : pz_onnx_axis(pz_onnx_int(n, "axis", -1), y.rank);
  if (axis < 0 || !k || !k->ints || k->n_ints != 1) return unknown;
  y.d[axis] = k->ints[0];
  return y;
}

static struct shape rule_one_hot(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  const struct pz_onnx_value *depth = pz_onnx_in(g, n, 1);
  if (y.rank < 0 || y.rank >= PZ_ONNX_MOST_RANK || !depth || !depth->ints || depth->n_ints != 1)
    return unknown;
  int axis = pz_onnx_axis(pz_onnx_int(n, "axis", -1), y.rank + 1);
  if (axis < 0) return unknown;
  for (int i = y.rank; i > axis; i--) y.d[i] = y.d[i - 1];
  y.d[axis] = depth->ints[0];
  y.rank++;
  return y;
}

static struct shape rule_depth(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct shape y = shape_of(pz_onnx_in(g, n, 0));
  int64_t block = pz_onnx_int(n, "blocksize", 0);
  if (y.rank != 4 || block < 1 || block > 1 << 16) return unknown;
  bool to_space = strcmp(n->type, "DepthToSpace") == 0;
  y.d[1] = to_space ? y.d[1] / (block * block) : y.d[1] * block * block;
  for (int i = 2; i < 4; i++) y.d[i] = to_space ? y.d[i] * block : y.d[i] / block;
  return y;
}

/* Where elements are not zero: a matter of contents, but exporters count with it over ones. */
static struct shape rule_non_zero(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  int64_t count = 0;
  if (!x || x->rank < 0) return unknown;
  for (uint32_t i = 0; x->ints && i < x->n_ints; i++) count += x->ints[i] != 0;
  if (!x->ints && !(pz_onnx_is_ones(g, x) && pz_onnx_elems(x, &count))) return unknown;
  return (struct shape){2, {x->rank, count}};
}

static struct shape rule_einsum(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  struct pz_onnx_einsum e;
  if (!pz_onnx_einsum_read(g, n, &e)) return unknown;
  struct shape y = {.rank = e.out.rank};
  for (int i = 0; i < y.rank; i++) y.d[i] = e.size[e.out.letter[i]];
  return y;
}

/* ---- all of them ---------------------------------------------------------------------------- */

typedef struct shape rule(const struct pz_onnx_graph *g, const struct pz_onnx_node *n);

static struct shape rule_same(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  return shape_of(pz_onnx_in(g, n, 0));
}
static struct shape rule_indexed(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  return shape_of(pz_onnx_in(g, n, 1));
}
static struct shape rule_expand(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  return broadcast(shape_of(pz_onnx_in(g, n, 0)), contents(pz_onnx_in(g, n, 1)));
}
static struct shape rule_filled(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  return contents(pz_onnx_in(g, n, 0));
}
static struct shape rule_scalar(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  (void)g;
  (void)n;
  return (struct shape){0};
}
static struct shape rule_shape(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!x || x->rank < 0) return unknown;
  int64_t from = pz_onnx_clamp(pz_onnx_int(n, "start", 0), x->rank, 0, x->rank),
          to = pz_onnx_clamp(pz_onnx_int(n, "end", x->rank), x->rank, 0, x->rank);
  return (struct shape){1, {to > from ? to - from : 0}};
}

static rule *const rules[] = {
#define SHAPE(name, rule) rule,
#include "onnx/shape_rules.def"
};

static struct shape infer(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, uint32_t o) {
  enum pz_onnx_shape_rule r = n->op->shape;
  if (r == PZ_SHAPE_SPLIT) return rule_split(g, n, o);
  /* further results of norms are statistics, those of TopK and Dropout are like the first */
  if (o > 0 && r != PZ_SHAPE_TOPK && r != PZ_SHAPE_POOL && n->op->kind != PZ_OP_DROPOUT)
    return unknown;
  return rules[r] ? rules[r](g, n) : unknown;
}

static bool read_constant(struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  if (n->op->shape != PZ_SHAPE_CONSTANT || !n->n_out || n->out[0] == PZ_NONE) return true;
  struct pz_onnx_value *v = pz_onnx_value(g, n->out[0]);
  v->init = true; /* some exporters write weights so */
  const Onnx__AttributeProto *a = pz_onnx_attr(n, "value"), *ints = pz_onnx_attr(n, "value_ints"),
                             *one = pz_onnx_attr(n, "value_int"),
                             *real = pz_onnx_attr(n, "value_float");
  if (a && a->t) {
    v->type = a->t->data_type;
    return v->rank < 0 || pz_onnx_tensor_read(g, v, a->t);
  }
  if (ints && ints->n_ints <= PZ_ONNX_MOST_INTS)
    v->ints = ints->ints, v->n_ints = (uint32_t)ints->n_ints;
  if (one) v->ints = &one->i, v->n_ints = 1, v->has_real = true, v->real = (double)one->i;
  if (real) v->has_real = true, v->real = (double)real->f;
  return true;
}

/* The type of a result: where it matters is whether it is floating-point. */
static int type_of(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, uint32_t o) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  enum pz_onnx_shape_rule r = n->op->shape;
  const Onnx__AttributeProto *a = pz_onnx_attr(n, "value");
  if (strcmp(n->type, "Cast") == 0) return (int)pz_onnx_int(n, "to", 0);
  if (r == PZ_SHAPE_SHAPE || r == PZ_SHAPE_SCALAR || r == PZ_SHAPE_ARG || r == PZ_SHAPE_NON_ZERO ||
      (r == PZ_SHAPE_TOPK && o == 1))
    return ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  if (n->op->rule == PZ_LOWER_DATA && n->op->elementwise)
    return ONNX__TENSOR_PROTO__DATA_TYPE__BOOL; /* comparisons */
  if (r == PZ_SHAPE_FILLED)
    return a && a->t ? a->t->data_type : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  if (strcmp(n->type, "Where") == 0 || strcmp(n->type, "CastLike") == 0) x = pz_onnx_in(g, n, 1);
  if (r == PZ_SHAPE_ONE_HOT) x = pz_onnx_in(g, n, 2);
  return x ? x->type : 0;
}

/* Windows that move by nothing, or hold nothing, whatever the input is. */
static enum pz_status check_windows(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  static const char *const names[] = {"strides", "dilations", "kernel_shape"};
  enum { MOST = 1 << 24 };
  enum pz_onnx_shape_rule r = n->op->shape;
  if (r != PZ_SHAPE_CONV && r != PZ_SHAPE_CONV_TRANSPOSE && r != PZ_SHAPE_POOL) return PZ_OK;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    size_t count;
    const int64_t *list = pz_onnx_ints(n, names[k], &count);
    for (size_t i = 0; i < count; i++)
      if (list[i] < 1 || list[i] > MOST)
        return pz_onnx_fail(g, n, PZ_BAD_INPUT, "%s has %" PRId64 "; accepted: 1 to %d", names[k],
                            list[i], MOST);
  }
  return PZ_OK;
}

static const char *shape_text(char *buf, size_t size, const struct shape *s) {
  int used = snprintf(buf, size, "[");
  for (int i = 0; i < s->rank && used < (int)size; i++)
    used += snprintf(buf + used, size - (size_t)used, "%s%" PRId64, i ? ", " : "", s->d[i]);
  snprintf(buf + used, used < (int)size ? size - (size_t)used : 0, "]");
  return buf;
}

/* The shape that the file states for result `o`, against the one that follows from the inputs. */
static enum pz_status check_given(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                                  uint32_t o, const struct shape *s) {
  enum { LONGEST_SHAPE = 24 * PZ_ONNX_MOST_RANK };
  char stated[LONGEST_SHAPE], follows[LONGEST_SHAPE];
  const struct pz_onnx_value *v = pz_onnx_value(g, n->out[o]);
  struct shape given = shape_of(v);
  bool same = s->rank == given.rank;
  for (int i = 0; i < s->rank && same; i++) same = s->d[i] == given.d[i];
  if (same || !known(s)) return PZ_OK;
  return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                      "the file states the shape %s of '%.120s', its inputs %s; accepted: the same",
                      shape_text(stated, sizeof stated, &given), v->name,
                      shape_text(follows, sizeof follows, s));
}

static enum pz_status infer_result(struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                                   uint32_t o) {
  struct pz_onnx_value *v = pz_onnx_value(g, n->out[o]);
  if (!v->type) v->type = type_of(g, n, o);
  struct shape s = infer(g, n, o);
  if (s.rank == IMPOSSIBLE) {
    char inputs[300];
    pz_onnx_spell_inputs(g, n, inputs, sizeof inputs);
    return pz_onnx_fail(g, n, PZ_BAD_INPUT,
                        "a result's shape does not follow from its inputs (%s); accepted: inputs "
                        "that ONNX defines it for",
                        inputs);
  }
  if (v->given) return check_given(g, n, o, &s);
  if (!known(&s)) s = unknown;
  v->rank = s.rank;
  for (int i = 0; i < s.rank; i++) v->dim[i] = s.d[i];
  return PZ_OK;
}

static enum pz_status infer_node(struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  enum pz_status status = check_windows(g, n);
  for (uint32_t o = 0; o < n->n_out && status == PZ_OK; o++)
    if (n->out[o] != PZ_NONE) status = infer_result(g, n, o);
  if (status != PZ_OK) return status;
  return read_constant(g, n) && pz_onnx_constant_node(g, n) ? PZ_OK : pz_onnx_no_memory(g);
}

enum pz_status pz_onnx_shapes(struct pz_onnx_graph *g, const struct pz_workload_options *options) {
  enum pz_status status = bind_all(g, options);
  for (uint32_t i = 0; i < g->nodes.n && status == PZ_OK; i++)
    status = infer_node(g, pz_onnx_node(g, i));
  return status;
}
