/* Other microbatch sizes and sequence lengths than the exported ones.
 *
 * Every dimension is written as a product of factors, some of which are the batch or the sequence size.  The factors
 * of the inputs are known (factor_inputs); those of constants are guessed from their sizes (factor_initializers);
 * those of results follow through the nodes in topological order (factor_result), also through reshapes, which divide
 * and merge dimensions (factor_reshape).  In the end every batch and sequence factor gets its new size
 * (apply_new_sizes).  A factor that changes and cannot be followed is an error. */
#include <inttypes.h>
#include <stdio.h>

#include "core/num.h"
#include "onnx/dims.h"
#include "onnx/passes.h"

/* ---- the exported sizes --------------------------------------------------------------------- */

/* Returns the batch axis of an input, the first one unless the user states another; -1 if the input has none. */
static int batch_axis(const struct pz_workload_options *o, const struct pz_onnx_value *v) {
  if (!o->batch_dim) return 0;
  size_t n = strlen(v->name);
  bool names_input = strncmp(o->batch_dim, v->name, n) == 0 && o->batch_dim[n] == ':';
  if (names_input) {
    const char *digit = o->batch_dim + n + 1;
    bool valid = digit[0] >= '0' && digit[0] <= '7' && !digit[1];
    return valid ? digit[0] - '0' : -1;
  }
  for (int i = 0; i < v->rank; i++)
    if (v->symbols && v->symbols[i] && strcmp(v->symbols[i], o->batch_dim) == 0) return i;
  return -1;
}

struct pz_onnx_sizes pz_onnx_exported_sizes(struct pz_call *call, const struct pz_onnx_graph *g,
                                            const struct pz_workload_options *o) {
  struct pz_onnx_sizes sizes = {0};
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i));
    if (v->initializer) continue;
    int axis = v->rank < 1 ? -1 : batch_axis(o, v);
    bool token_ids = v->rank == 2 && v->type && !pz_onnx_is_float(v->type);
    if (axis >= 0 && axis < v->rank && !sizes.batch) sizes.batch = v->dim[axis];
    if (token_ids && !sizes.seq) sizes.seq = v->dim[axis == 1 ? 0 : 1];
  }
  if (o->batch_dim && !sizes.batch)
    pz_raise(call, PZ_BAD_USE,
             "%s: no input has the batch dimension '%.100s'; accepted: the name of a "
             "symbolic dimension, or INPUT:AXIS",
             g->file, o->batch_dim);
  return sizes;
}

/* ---- factors of inputs and constants -------------------------------------------------------- */

struct rescaling {
  struct pz_onnx_graph *g;
  const struct pz_workload_options *options;
  struct pz_onnx_sizes exported, wanted;
};

static struct pz_onnx_factored_dim plain_dim(int64_t size) {
  return (struct pz_onnx_factored_dim){1, {{size, PZ_AXIS_NONE}}};
}

static bool dim_has_axis(const struct pz_onnx_factored_dim *d, enum pz_onnx_axis axis) {
  for (int i = 0; i < d->n; i++)
    if (d->factor[i].axis == axis) return true;
  return false;
}

static bool dim_has_any_axis(const struct pz_onnx_factored_dim *d) {
  return dim_has_axis(d, PZ_AXIS_BATCH) || dim_has_axis(d, PZ_AXIS_SEQ);
}

/* Guesses from its size what dimension i of a constant or of a computed mask is. */
static struct pz_onnx_factored_dim guess_dim(const struct rescaling *r, int64_t size, int i) {
  struct pz_onnx_factored_dim d = plain_dim(size);
  if (size > 1 && size == r->exported.seq) d.factor[0].axis = PZ_AXIS_SEQ;
  if (i == 0 && size > 1 && size == r->exported.batch) d.factor[0].axis = PZ_AXIS_BATCH;
  return d;
}

/* Gives a value factored dimensions without axes. */
static void init_factors(struct pz_call *call, struct pz_onnx_value *v) {
  size_t rank = v->rank > 0 ? (size_t)v->rank : 0;
  v->factored_dim = pz_alloc(call, rank, sizeof *v->factored_dim);
  for (size_t i = 0; i < rank; i++) v->factored_dim[i] = plain_dim(v->dim[i]);
}

static void factor_inputs(struct pz_call *call, const struct rescaling *r) {
  for (uint32_t i = 0; i < r->g->inputs.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(r->g, *pz_vec_at(&r->g->inputs, uint32_t, i));
    if (v->initializer || v->rank < 1) continue;
    init_factors(call, v);
    int axis = batch_axis(r->options, v);
    bool has_sequence = !pz_onnx_is_float(v->type) || v->rank == 3;
    for (int d = 0; d < v->rank; d++) {
      bool may_be_batch = d == axis || (axis < 0 && d == 0);
      bool may_be_sequence = has_sequence && (d < 2 || v->rank != 3);
      if (may_be_batch && v->dim[d] == r->exported.batch)
        v->factored_dim[d].factor[0].axis = PZ_AXIS_BATCH;
      else if (may_be_sequence && v->dim[d] == r->exported.seq)
        v->factored_dim[d].factor[0].axis = PZ_AXIS_SEQ;
    }
  }
}

/* Parameters do not change with the batch or the sequence; constants may. */
static void factor_initializers(struct pz_call *call, const struct rescaling *r) {
  for (uint32_t i = 0; i < r->g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(r->g, i);
    if (v->factored_dim || v->producer != PZ_NONE) continue;
    init_factors(call, v);
    if (pz_onnx_is_float(v->type) && !v->constant_table) continue;
    for (int d = 0; d < v->rank; d++) v->factored_dim[d] = guess_dim(r, v->dim[d], d);
  }
}

/* ---- reshapes ------------------------------------------------------------------------------- */

/* The factors of all dimensions of an input, of which those before `next` are used up. */
struct factor_list {
  int n, next;
  struct {
    int64_t size;
    enum pz_onnx_axis axis;
  } item[PZ_ONNX_MOST_RANK * PZ_ONNX_MOST_FACTORS];
};

static bool append_factor(struct pz_onnx_factored_dim *d, int64_t size, enum pz_onnx_axis axis) {
  bool merge = axis == PZ_AXIS_NONE && d->n && d->factor[d->n - 1].axis == PZ_AXIS_NONE;
  if (merge) return pz_mul(&d->factor[d->n - 1].size, size);
  if (d->n == PZ_ONNX_MOST_FACTORS) return false;
  d->factor[d->n].size = size;
  d->factor[d->n].axis = axis;
  d->n++;
  return true;
}

/* Uses factors up until they make one dimension of this size.  A factor without axis may be divided between
 * dimensions.  Factors of size 1 are the batch or sequence of an export with one sample or token.  Those that follow
 * go to the next dimension, of size next_size (0 if there is none), if that one has size 1 too or is a part of the
 * next factor: features that become heads are heads of each sample. */
static bool fill_dimension(struct factor_list *list, int64_t size, int64_t next_size,
                           struct pz_onnx_factored_dim *d) {
  int64_t missing = size;
  *d = (struct pz_onnx_factored_dim){0};
  while (missing > 1) {
    if (list->next >= list->n) return false;
    int64_t factor = list->item[list->next].size;
    enum pz_onnx_axis axis = list->item[list->next].axis;
    if (factor > 0 && missing % factor == 0) {
      if (!append_factor(d, factor, axis)) return false;
      missing /= factor;
      list->next++;
    } else if (axis == PZ_AXIS_NONE && factor > 0 && factor % missing == 0) {
      if (!append_factor(d, missing, axis)) return false;
      list->item[list->next].size = factor / missing;
      missing = 1;
    } else {
      return false;
    }
  }
  int64_t next_factor = 1;
  for (int i = list->next; i < list->n && next_factor == 1; i++) next_factor = list->item[i].size;
  bool stop = size > 1 && next_size > 0 && (next_size == 1 || next_size < next_factor);
  while (!stop && list->next < list->n && list->item[list->next].size == 1) {
    if (!append_factor(d, 1, list->item[list->next].axis)) return false;
    list->next++;
    stop = size == 1;
  }
  return true;
}

/* Distributes the factors of x over the dimensions of its reshaped form y.  Returns false if they do not fit. */
static bool factor_reshape(const struct pz_onnx_value *x, struct pz_onnx_value *y) {
  struct factor_list list = {0};
  for (int i = 0; i < x->rank; i++)
    for (int k = 0; k < x->factored_dim[i].n; k++) {
      int64_t size = x->factored_dim[i].factor[k].size;
      enum pz_onnx_axis axis = x->factored_dim[i].factor[k].axis;
      if (axis == PZ_AXIS_NONE && size == 1) continue;
      list.item[list.n].size = size;
      list.item[list.n].axis = axis;
      list.n++;
    }
  for (int j = 0; j < y->rank; j++) {
    int64_t next_size = j + 1 < y->rank ? y->dim[j + 1] : 0;
    if (!fill_dimension(&list, y->dim[j], next_size, &y->factored_dim[j])) return false;
    if (!y->factored_dim[j].n) y->factored_dim[j] = plain_dim(y->dim[j]);
  }
  for (; list.next < list.n && y->rank > 0; list.next++) {
    if (list.item[list.next].size != 1) return false;
    if (!append_factor(&y->factored_dim[y->rank - 1], 1, list.item[list.next].axis)) return false;
  }
  return true;
}

/* ---- factors of results --------------------------------------------------------------------- */

static bool value_has_axis(const struct pz_onnx_value *x, enum pz_onnx_axis axis) {
  for (int i = 0; x->factored_dim && i < x->rank; i++)
    if (dim_has_axis(&x->factored_dim[i], axis)) return true;
  return false;
}

static _Noreturn void raise_lost_axis(struct pz_call *call, const struct rescaling *r,
                                      const struct pz_onnx_node *node, enum pz_onnx_axis axis) {
  bool batch = axis == PZ_AXIS_BATCH;
  pz_onnx_raise(call, r->g, node, PZ_BAD_USE,
                "the %s dimension cannot be followed through it; accepted: %s %" PRId64
                " as exported",
                batch ? "batch" : "sequence", batch ? "--mbs" : "--seq",
                batch ? r->exported.batch : r->exported.seq);
}

/* May the result lack an axis that an operand has?  Reductions and selections remove axes, and a product sums over
 * one, which cannot be the batch. */
static bool may_drop_axis(const struct pz_onnx_node *node, enum pz_onnx_axis axis) {
  switch (node->op->lower) {
  case PZ_LOWER_MATMUL:
  case PZ_LOWER_GEMM:
  case PZ_LOWER_EINSUM: return axis != PZ_AXIS_BATCH;
  case PZ_LOWER_CONV:
  case PZ_LOWER_NORM:
  case PZ_LOWER_BINARY:
  case PZ_LOWER_CONCAT: return false;
  case PZ_LOWER_VIEW: return node->op->shape == PZ_SHAPE_SQUEEZE;
  default: return !node->op->elementwise && node->op->shape != PZ_SHAPE_POOL;
  }
}

/* Raises an error if an axis whose size changes is lost on the way, because the sizes after it would be wrong.
 * Values with known integers are shapes, which have no axes. */
static void check_axes_kept(struct pz_call *call, const struct rescaling *r,
                            const struct pz_onnx_node *node, const struct pz_onnx_value *y) {
  static const enum pz_onnx_axis axes[] = {PZ_AXIS_BATCH, PZ_AXIS_SEQ};
  const bool changes[] = {r->wanted.batch != r->exported.batch, r->wanted.seq != r->exported.seq};
  for (int a = 0; a < 2; a++) {
    if (!changes[a] || y->ints || may_drop_axis(node, axes[a]) || value_has_axis(y, axes[a]))
      continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *x = pz_onnx_input(r->g, node, k);
      if (x && !x->ints && value_has_axis(x, axes[a])) raise_lost_axis(call, r, node, axes[a]);
    }
  }
}

/* Finds the factors of a result.  A dimension has those of the dimension of an input that it is, if the sizes agree;
 * inputs with an axis have precedence. */
static void factor_result(struct pz_call *call, const struct rescaling *r,
                          const struct pz_onnx_node *node, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_input(r->g, node, 0);
  enum pz_onnx_shape_rule rule = node->op->shape;
  if (rule == PZ_SHAPE_RESHAPE || rule == PZ_SHAPE_FLATTEN) {
    bool has_axes =
        x && x->rank >= 0 && (value_has_axis(x, PZ_AXIS_BATCH) || value_has_axis(x, PZ_AXIS_SEQ));
    if (has_axes && !factor_reshape(x, y)) {
      bool batch_changes = r->wanted.batch != r->exported.batch;
      raise_lost_axis(call, r, node, batch_changes ? PZ_AXIS_BATCH : PZ_AXIS_SEQ);
    }
    return;
  }
  bool computed = rule == PZ_SHAPE_FILLED || rule == PZ_SHAPE_RANGE || rule == PZ_SHAPE_CONSTANT ||
                  node->op->lower == PZ_LOWER_EXPAND;
  for (int i = 0; i < y->rank; i++) {
    if (computed) y->factored_dim[i] = guess_dim(r, y->dim[i], i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      x = pz_onnx_input(r->g, node, k);
      int from = pz_onnx_source_dim(r->g, node, y, k, i);
      if (!x || !x->factored_dim || from < 0 || x->dim[from] != y->dim[i]) continue;
      if (!dim_has_any_axis(&y->factored_dim[i])) y->factored_dim[i] = x->factored_dim[from];
    }
  }
}

/* ---- rescaling ------------------------------------------------------------------------------ */

/* Returns the new size of a dimension, or -1 if it overflows. */
static int64_t new_size(const struct rescaling *r, const struct pz_onnx_factored_dim *d) {
  int64_t size = 1;
  for (int k = 0; k < d->n; k++) {
    int64_t factor = d->factor[k].size;
    if (d->factor[k].axis == PZ_AXIS_BATCH) factor = r->wanted.batch;
    if (d->factor[k].axis == PZ_AXIS_SEQ) factor = r->wanted.seq;
    if (!pz_mul(&size, factor)) return -1;
  }
  return size;
}

static void apply_new_sizes(struct pz_call *call, const struct rescaling *r) {
  for (uint32_t i = 0; i < r->g->values.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(r->g, i);
    for (int d = 0; v->factored_dim && d < v->rank; d++) {
      v->dim[d] = new_size(r, &v->factored_dim[d]);
      if (v->dim[d] < 0 || v->dim[d] > PZ_ONNX_MOST_DIM)
        pz_raise(call, PZ_LIMIT, "%s: tensor '%.120s' becomes too large", r->g->file, v->name);
    }
  }
}

void pz_onnx_rescale(struct pz_call *call, struct pz_onnx_graph *g,
                     const struct pz_workload_options *options,
                     const struct pz_onnx_sizes *exported) {
  struct rescaling r = {.g = g, .options = options, .exported = *exported, .wanted = *exported};
  if (!exported->seq && options->seq)
    pz_raise(call, PZ_BAD_USE,
             "%s has no sequence dimension (an integer input of samples x tokens); --seq "
             "cannot change it",
             g->file);
  if (!exported->batch && options->mbs != 1)
    pz_raise(call, PZ_BAD_USE,
             "%s has no batch dimension; accepted: --batch-dim INPUT:AXIS to name it", g->file);
  if (options->seq) r.wanted.seq = options->seq;
  if (exported->batch) r.wanted.batch = options->mbs;
  if (r.wanted.batch == exported->batch && r.wanted.seq == exported->seq) return;
  factor_inputs(call, &r);
  factor_initializers(call, &r);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(g, i);
    for (uint32_t o = 0; o < node->n_out; o++) {
      struct pz_onnx_value *y = pz_onnx_result(g, node, o);
      if (!y) continue;
      init_factors(call, y);
      if (y->rank < 0) continue;
      factor_result(call, &r, node, y);
      if (o == 0) check_axes_kept(call, &r, node, y);
    }
  }
  apply_new_sizes(call, &r);
}
