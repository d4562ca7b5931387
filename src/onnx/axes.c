#include "onnx/passes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "onnx/dims.h"

/* ---- what the file was exported for --------------------------------------------------------- */

/* The batch axis of an input: as asked for, or the first. */
static int batch_axis(const struct pz_workload_options *o, const struct pz_onnx_value *v) {
  if (!o->batch_dim) return 0;
  size_t n = strlen(v->name);
  if (strncmp(o->batch_dim, v->name, n) == 0 && o->batch_dim[n] == ':') {
    const char *digit = o->batch_dim + n + 1;
    return digit[0] >= '0' && digit[0] <= '7' && !digit[1] ? digit[0] - '0' : -1;
  }
  for (int i = 0; i < v->rank; i++)
    if (v->symbols && v->symbols[i] && strcmp(v->symbols[i], o->batch_dim) == 0) return i;
  return -1;
}

static bool is_ids(const struct pz_onnx_value *v) {
  return v->rank == 2 && v->type && !pz_onnx_is_float(v->type);
}

enum pz_status pz_onnx_sizes(struct pz_onnx_graph *g, const struct pz_workload_options *o,
                             struct pz_onnx_sizes *out) {
  *out = (struct pz_onnx_sizes){0};
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i));
    int axis = v->init || v->rank < 1 ? -1 : batch_axis(o, v);
    if (axis >= 0 && axis < v->rank && !out->batch) out->batch = v->dim[axis];
    if (is_ids(v) && !v->init && !out->seq) out->seq = v->dim[axis == 1 ? 0 : 1];
  }
  if (o->batch_dim && !out->batch)
    return pz_fail(g->err, PZ_BAD_USE,
                   "%s: no input has the batch dimension '%.100s'; accepted: the name of a "
                   "symbolic dimension, or INPUT:AXIS",
                   g->file, o->batch_dim);
  return PZ_OK;
}

/* ---- following ------------------------------------------------------------------------------ */

struct follow {
  struct pz_onnx_graph *g;
  const struct pz_workload_options *o;
  struct pz_onnx_sizes from, to;
  enum pz_status status;
};

static struct pz_onnx_dim constant(int64_t size) {
  return (struct pz_onnx_dim){1, {{size, PZ_AXIS_NONE}}};
}

static bool tagged(const struct pz_onnx_dim *d) {
  for (int i = 0; i < d->n; i++)
    if (d->factor[i].axis != PZ_AXIS_NONE) return true;
  return false;
}

/* A dimension of a constant or of a made-up mask: by its size. */
static struct pz_onnx_dim guess(const struct follow *f, int64_t size, int i) {
  struct pz_onnx_dim d = constant(size);
  if (size > 1 && size == f->from.seq) d.factor[0].axis = PZ_AXIS_SEQ;
  if (i == 0 && size > 1 && size == f->from.batch) d.factor[0].axis = PZ_AXIS_BATCH;
  return d;
}

static struct pz_onnx_dim *dims_of(struct follow *f, struct pz_onnx_value *v) {
  int n = v->rank > 0 ? v->rank : 0;
  v->dims = pz_arena_alloc(f->g->arena, (size_t)n, sizeof *v->dims);
  if (!v->dims) {
    f->status = pz_onnx_no_memory(f->g);
    return NULL;
  }
  for (int i = 0; i < n; i++) v->dims[i] = constant(v->dim[i]);
  return v->dims;
}

static void set_inputs(struct follow *f) {
  for (uint32_t i = 0; i < f->g->inputs.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(f->g, *pz_vec_at(&f->g->inputs, uint32_t, i));
    if (v->init || v->rank < 1 || !dims_of(f, v)) continue;
    int axis = batch_axis(f->o, v);
    bool sequence = !pz_onnx_is_float(v->type) || v->rank == 3;
    for (int d = 0; d < v->rank; d++) {
      bool batch = d == axis || (axis < 0 && d == 0);
      if (batch && v->dim[d] == f->from.batch)
        v->dims[d].factor[0].axis = PZ_AXIS_BATCH;
      else if (sequence && v->dim[d] == f->from.seq && (d < 2 || v->rank != 3))
        v->dims[d].factor[0].axis = PZ_AXIS_SEQ;
    }
  }
}

static void set_inits(struct follow *f) {
  for (uint32_t i = 0; i < f->g->values.n && f->status == PZ_OK; i++) {
    struct pz_onnx_value *v = pz_onnx_value(f->g, i);
    if (v->dims || v->maker != PZ_NONE || !dims_of(f, v)) continue;
    if (pz_onnx_is_float(v->type) && !v->table) continue;
    for (int d = 0; d < v->rank; d++) v->dims[d] = guess(f, v->dim[d], d);
  }
}

/* ---- reshapes ------------------------------------------------------------------------------- */

struct factors {
  int n, at;
  struct {
    int64_t size;
    enum pz_onnx_axis axis;
  } f[PZ_ONNX_MOST_RANK * PZ_ONNX_MOST_FACTORS];
};

static void list_factors(const struct pz_onnx_value *x, struct factors *all) {
  for (int i = 0; i < x->rank; i++)
    for (int k = 0; k < x->dims[i].n; k++) {
      if (x->dims[i].factor[k].axis == PZ_AXIS_NONE && x->dims[i].factor[k].size == 1) continue;
      all->f[all->n].size = x->dims[i].factor[k].size;
      all->f[all->n++].axis = x->dims[i].factor[k].axis;
    }
}

static bool take(struct pz_onnx_dim *d, int64_t size, enum pz_onnx_axis axis) {
  bool merge = axis == PZ_AXIS_NONE && d->n && d->factor[d->n - 1].axis == PZ_AXIS_NONE;
  if (merge) return pz_mul(&d->factor[d->n - 1].size, size);
  if (d->n == PZ_ONNX_MOST_FACTORS) return false;
  d->factor[d->n].size = size;
  d->factor[d->n++].axis = axis;
  return true;
}

/* The next factor above 1. */
static int64_t next_factor(const struct factors *all) {
  for (int i = all->at; i < all->n; i++)
    if (all->f[i].size != 1) return all->f[i].size;
  return 1;
}

/* Factors for one dimension of `size`; factors of size 1 that come next are left to the dimension
 * of size `next` after it (0: none) if that one is 1 too, or is a part of its factor: features that
 * become heads are heads of each sample. */
static bool fill_dim(struct factors *all, int64_t size, int64_t next, struct pz_onnx_dim *d) {
  int64_t need = size;
  *d = (struct pz_onnx_dim){0};
  while (need > 1) {
    if (all->at >= all->n) return false;
    int64_t s = all->f[all->at].size;
    enum pz_onnx_axis axis = all->f[all->at].axis;
    if (s > 0 && need % s == 0) {
      if (!take(d, s, axis)) return false;
      need /= s;
      all->at++;
    } else if (axis == PZ_AXIS_NONE && s > 0 && s % need == 0) {
      if (!take(d, need, axis)) return false;
      all->f[all->at].size = s / need;
      need = 1;
    } else {
      return false;
    }
  }
  /* factors of size 1 are the batch or sequence of an export with one sample or token */
  bool stop = size > 1 && next > 0 && (next == 1 || next < next_factor(all));
  while (!stop && all->at < all->n && all->f[all->at].size == 1) {
    if (!take(d, 1, all->f[all->at].axis)) return false;
    all->at++;
    stop = size == 1;
  }
  return true;
}

static bool reshape(const struct pz_onnx_value *x, struct pz_onnx_value *y) {
  struct factors all = {0};
  list_factors(x, &all);
  for (int j = 0; j < y->rank; j++) {
    int64_t next = j + 1 < y->rank ? y->dim[j + 1] : 0;
    if (!fill_dim(&all, y->dim[j], next, &y->dims[j])) return false;
    if (!y->dims[j].n) y->dims[j] = constant(y->dim[j]);
  }
  for (; all.at < all.n && y->rank > 0; all.at++)
    if (all.f[all.at].size != 1 || !take(&y->dims[y->rank - 1], 1, all.f[all.at].axis))
      return false;
  return true;
}

/* ---- other nodes ---------------------------------------------------------------------------- */

/* Dimension i of y takes its factors from dimension k of x, if it has that size. */
static void inherit(struct pz_onnx_value *y, int i, const struct pz_onnx_value *x, int k) {
  if (!x || !x->dims || k < 0) return;
  if (x->dim[k] == y->dim[i] && (tagged(&x->dims[k]) || !tagged(&y->dims[i])) &&
      !(tagged(&y->dims[i]) && tagged(&x->dims[k])))
    y->dims[i] = x->dims[k];
}

static void lost(struct follow *f, const struct pz_onnx_node *n, enum pz_onnx_axis axis) {
  if (f->status != PZ_OK) return;
  bool batch = axis == PZ_AXIS_BATCH;
  f->status = pz_onnx_fail(
      f->g, n, PZ_BAD_USE,
      "the %s dimension cannot be followed through it; accepted: %s %" PRId64 " as exported",
      batch ? "batch" : "sequence", batch ? "--mbs" : "--seq", batch ? f->from.batch : f->from.seq);
}

static bool any_tag(const struct pz_onnx_value *x) {
  for (int i = 0; i < x->rank; i++)
    if (tagged(&x->dims[i])) return true;
  return false;
}

static bool has_axis(const struct pz_onnx_value *x, enum pz_onnx_axis axis) {
  for (int i = 0; x && x->dims && i < x->rank; i++)
    for (int k = 0; k < x->dims[i].n; k++)
      if (x->dims[i].factor[k].axis == axis) return true;
  return false;
}

/* May an axis of an operand be gone from the result?  Reductions and selections take it away, a
 * product what it sums over; the samples of a batch have nothing to sum. */
static bool may_drop(const struct pz_onnx_node *n, enum pz_onnx_axis axis) {
  switch (n->op->rule) {
  case PZ_LOWER_MATMUL:
  case PZ_LOWER_GEMM:
  case PZ_LOWER_EINSUM: return axis != PZ_AXIS_BATCH;
  case PZ_LOWER_CONV:
  case PZ_LOWER_NORM:
  case PZ_LOWER_BINARY:
  case PZ_LOWER_CONCAT: return false;
  case PZ_LOWER_VIEW: return n->op->shape == PZ_SHAPE_SQUEEZE;
  default: return !n->op->elementwise && n->op->shape != PZ_SHAPE_POOL;
  }
}

/* An axis whose size changes must not be lost on the way: sizes after it would be wrong. */
static void check_kept(struct follow *f, const struct pz_onnx_node *n,
                       const struct pz_onnx_value *y) {
  for (int a = PZ_AXIS_BATCH; a <= PZ_AXIS_SEQ; a++) {
    enum pz_onnx_axis axis = (enum pz_onnx_axis)a;
    bool changes = axis == PZ_AXIS_BATCH ? f->to.batch != f->from.batch : f->to.seq != f->from.seq;
    if (!changes || y->ints || may_drop(n, axis) || has_axis(y, axis)) continue;
    for (uint32_t k = 0; k < n->n_in; k++) {
      const struct pz_onnx_value *x = pz_onnx_in(f->g, n, k);
      if (x && !x->ints && has_axis(x, axis)) lost(f, n, axis); /* known integers are shapes */
    }
  }
}

static void follow_result(struct follow *f, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(f->g, n, 0);
  enum pz_onnx_shape_rule r = n->op->shape;
  if (r == PZ_SHAPE_RESHAPE || r == PZ_SHAPE_FLATTEN) {
    if (x && x->dims && x->rank >= 0 && any_tag(x) && !reshape(x, y))
      lost(f, n, f->to.batch != f->from.batch ? PZ_AXIS_BATCH : PZ_AXIS_SEQ);
    return;
  }
  bool made = r == PZ_SHAPE_FILLED || r == PZ_SHAPE_RANGE || r == PZ_SHAPE_CONSTANT ||
              n->op->rule == PZ_LOWER_EXPAND;
  for (int i = 0; i < y->rank; i++) {
    if (made) y->dims[i] = guess(f, y->dim[i], i);
    for (uint32_t k = 0; k < n->n_in; k++)
      inherit(y, i, pz_onnx_in(f->g, n, k), pz_onnx_source_dim(f->g, n, y, k, i));
  }
}

static int64_t scaled(const struct follow *f, const struct pz_onnx_dim *d) {
  int64_t size = 1;
  for (int k = 0; k < d->n; k++) {
    enum pz_onnx_axis a = d->factor[k].axis;
    int64_t by = a == PZ_AXIS_BATCH ? f->to.batch
                 : a == PZ_AXIS_SEQ ? f->to.seq
                                    : d->factor[k].size;
    if (!pz_mul(&size, by)) return -1;
  }
  return size;
}

static void scale_all(struct follow *f) {
  for (uint32_t i = 0; i < f->g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(f->g, i);
    for (int d = 0; v->dims && d < v->rank && f->status == PZ_OK; d++) {
      v->dim[d] = scaled(f, &v->dims[d]);
      if (v->dim[d] < 0 || v->dim[d] > PZ_ONNX_MOST_DIM)
        f->status = pz_fail(f->g->err, PZ_LIMIT, "%s: tensor '%.120s' becomes too large",
                            f->g->file, v->name);
    }
  }
}

static enum pz_status check_wanted(const struct follow *f) {
  if (!f->from.seq && f->o->seq)
    return pz_fail(f->g->err, PZ_BAD_USE,
                   "%s has no sequence dimension (an integer input of samples x tokens); --seq "
                   "cannot change it",
                   f->g->file);
  if (!f->from.batch && f->o->mbs != 1)
    return pz_fail(f->g->err, PZ_BAD_USE,
                   "%s has no batch dimension; accepted: --batch-dim INPUT:AXIS to name it",
                   f->g->file);
  return PZ_OK;
}

enum pz_status pz_onnx_rescale(struct pz_onnx_graph *g, const struct pz_workload_options *o,
                               const struct pz_onnx_sizes *from) {
  struct follow f = {.g = g, .o = o, .from = *from, .to = *from};
  if (o->seq) f.to.seq = o->seq;
  if (from->batch) f.to.batch = o->mbs;
  enum pz_status status = check_wanted(&f);
  if (status != PZ_OK) return status;
  if (f.to.batch == from->batch && f.to.seq == from->seq) return PZ_OK;
  set_inputs(&f);
  set_inits(&f);
  for (uint32_t i = 0; i < g->nodes.n && f.status == PZ_OK; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(g, i);
    for (uint32_t k = 0; k < n->n_out && f.status == PZ_OK; k++) {
      if (n->out[k] == PZ_NONE) continue;
      struct pz_onnx_value *y = pz_onnx_value(g, n->out[k]);
      if (!dims_of(&f, y) || y->rank < 0) continue;
      follow_result(&f, n, y);
      if (k == 0) check_kept(&f, n, y);
    }
  }
  if (f.status == PZ_OK) scale_all(&f);
  return f.status;
}
