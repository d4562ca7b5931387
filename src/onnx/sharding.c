#include "onnx/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "onnx/dims.h"

enum { MOST_PAIRS = 8, MOST_TRIES = 64 };

/* Of the multiplications, those in divided products: below this a group is not worth it, and the
 * classifier of a convolutional network is all that was found. */
#define LEAST_SHARE 0.1

/* How a trial ended. */
enum trial {
  FITS,
  STOPS,  /* an operator that cannot work on a part of its input */
  UNEVEN, /* the degree does not divide a dimension */
};

/* The part of a dimension that is divided: after `outer` others, of `size`.  Heads that are merged
 * with the batch are such a part. */
struct factor {
  int64_t outer, size;
};

struct sharder {
  struct pz_onnx_plan *p;
  const struct pz_onnx_graph *g;
  const struct pz_onnx_segment *s;
  struct pz_onnx_sharding *c;
  struct pz_vec values, nodes;   /* what the trial has marked */
  uint32_t *trial_of, trial;     /* by value: the trial that marked it */
  struct factor *factor, now;    /* by value; of the node being looked at */
  uint32_t rows;                 /* products by rows in it */
  uint32_t only, without;        /* of the products of an input one alone, or all but one */
  const struct pz_onnx_node *at; /* where it ended */
  int64_t uneven;                /* the dimension that is not divided */
  enum pz_status status;
};

static const struct pz_onnx_value *value(const struct sharder *t, uint32_t v) {
  return pz_onnx_value(t->g, v);
}

/* What is divided of dimension i of v: the same as of the node's input, if it fits. */
static struct factor factor_in(const struct sharder *t, uint32_t v, int i) {
  int64_t d = value(t, v)->dim[i];
  if (t->now.size > 1 && d % t->now.size == 0 && d / t->now.size % t->now.outer == 0) return t->now;
  return (struct factor){1, d};
}

static bool mark(struct sharder *t, uint32_t v, int dim, struct factor f) {
  if (t->c->dim[v] == dim + 1) return true;
  t->c->dim[v] = (uint8_t)(dim + 1);
  t->trial_of[v] = t->trial;
  t->factor[v] = f;
  if (!pz_vec_push(&t->values, &v)) t->status = PZ_NO_MEMORY;
  return t->status == PZ_OK;
}

static void set_divide(struct sharder *t, uint32_t node, enum pz_divide divide) {
  t->c->divide[node] = (uint8_t)divide;
  if (!pz_vec_push(&t->nodes, &node)) t->status = PZ_NO_MEMORY;
}

static void undo(struct sharder *t) {
  for (uint32_t i = 0; i < t->values.n; i++) t->c->dim[*pz_vec_at(&t->values, uint32_t, i)] = 0;
  for (uint32_t i = 0; i < t->nodes.n; i++)
    t->c->divide[*pz_vec_at(&t->nodes, uint32_t, i)] = PZ_DIVIDE_NOT;
}

/* Mark dimension i of v if the degree divides it. */
static enum trial shard(struct sharder *t, uint32_t v, int i) {
  if (i < 0 || i >= value(t, v)->rank) return STOPS;
  struct factor f = factor_in(t, v, i);
  if (f.size % t->c->tp) {
    t->uneven = f.size;
    return UNEVEN;
  }
  mark(t, v, i, f);
  return FITS;
}

/* The divided dimension of an input, or -1. */
static int sharded_dim(const struct sharder *t, const struct pz_onnx_node *n, uint32_t k) {
  return k < n->n_in && n->in[k] != PZ_NONE ? (int)t->c->dim[n->in[k]] - 1 : -1;
}

/* ---- views ---------------------------------------------------------------------------------- */

/* Where what is divided of dimension i of x lies in the result of a reshape: in the first dimension
 * that shares a factor with it which the degree divides. */
static enum trial shard_reshape(struct sharder *t, uint32_t x, int i, uint32_t y) {
  const struct pz_onnx_value *a = value(t, x), *b = value(t, y);
  int64_t before = 1, at = 1;
  for (int k = 0; k < i; k++) before *= a->dim[k] > 0 ? a->dim[k] : 1;
  before *= t->factor[x].outer;
  int64_t end = before * t->factor[x].size, shared = 0;
  for (int j = 0; j < b->rank; j++) {
    int64_t next = at * (b->dim[j] > 0 ? b->dim[j] : 1);
    int64_t lo = before > at ? before : at, hi = end < next ? end : next;
    if (hi > lo && hi % lo == 0) {
      shared = hi / lo;
      if (shared % t->c->tp == 0) {
        mark(t, y, j, (struct factor){lo / at, shared});
        return FITS;
      }
    }
    at = next;
  }
  t->uneven = shared;
  return shared ? UNEVEN : STOPS;
}

/* The dimension of the result that dimension i of the first input becomes. */
static enum trial shard_moved(struct sharder *t, const struct pz_onnx_node *n, int i) {
  const struct pz_onnx_value *y = value(t, n->out[0]);
  for (int d = 0; d < y->rank && i >= 0; d++)
    if (pz_onnx_source_dim(t->g, n, y, 0, d) == i) return shard(t, n->out[0], d);
  return STOPS;
}

static enum trial shard_view(struct sharder *t, const struct pz_onnx_node *n) {
  int i = sharded_dim(t, n, 0);
  bool reshapes = n->op->shape == PZ_SHAPE_RESHAPE || n->op->shape == PZ_SHAPE_FLATTEN;
  return i >= 0 && reshapes ? shard_reshape(t, n->in[0], i, n->out[0]) : shard_moved(t, n, i);
}

/* ---- operators ------------------------------------------------------------------------------ */

/* The place from the right at which the operands are divided; -2: at different ones. */
static int common_shard(const struct sharder *t, const struct pz_onnx_node *n) {
  int right = -1;
  for (uint32_t k = 0; k < n->n_in; k++) {
    int i = sharded_dim(t, n, k);
    if (i < 0) continue;
    int r = value(t, n->in[k])->rank - 1 - i;
    if (right >= 0 && r != right) return -2;
    if (right >= 0 && t->factor[n->in[k]].outer != t->now.outer) return -2;
    right = r;
  }
  return right;
}

/* Element by element: other activations must be divided alike, parameters are. */
static enum trial shard_elementwise(struct sharder *t, const struct pz_onnx_node *n) {
  int right = common_shard(t, n);
  if (right < 0) return STOPS;
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (n->in[k] == PZ_NONE || sharded_dim(t, n, k) >= 0) continue;
    const struct pz_onnx_value *x = value(t, n->in[k]);
    int i = x->rank - 1 - right;
    if (i < 0 || x->dim[i] == 1) continue;
    if (x->role == PZ_ONNX_ACT) return STOPS;
    if (x->role == PZ_ONNX_PARAM && shard(t, n->in[k], i) != FITS) return UNEVEN;
  }
  return shard(t, n->out[0], value(t, n->out[0])->rank - 1 - right);
}

/* Works along `axis`, which must be whole. */
static enum trial shard_along(struct sharder *t, const struct pz_onnx_node *n, int axis,
                              bool rest) {
  int i = sharded_dim(t, n, 0);
  if (i < 0 || i == axis || (rest && i > axis)) return STOPS;
  return shard(t, n->out[0], i);
}

static bool is_matrix(const struct sharder *t, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *w = pz_onnx_in(t->g, n, 1);
  return w && w->role == PZ_ONNX_PARAM && w->rank == 2;
}

static bool is_linear(const struct sharder *t, const struct pz_onnx_node *n) {
  if (!is_matrix(t, n) || !n->n_out || n->out[0] == PZ_NONE || n->in[0] == PZ_NONE) return false;
  if (n->fused == PZ_OP_MATMUL) return true;
  if (n->fused >= 0) return false;
  return n->op->rule == PZ_LOWER_MATMUL ||
         (n->op->rule == PZ_LOWER_GEMM && !pz_onnx_int(n, "transA", 0));
}

/* Two activations divided over what is outside of the product. */
static enum trial shard_product(struct sharder *t, const struct pz_onnx_node *n) {
  int right = common_shard(t, n);
  if (right < 2) return STOPS;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *x = pz_onnx_in(t->g, n, k);
    int i = x ? x->rank - 1 - right : -1;
    if (i >= 0 && x->dim[i] > 1 && sharded_dim(t, n, k) < 0) return STOPS;
  }
  return shard(t, n->out[0], value(t, n->out[0])->rank - 1 - right);
}

static enum trial shard_matmul(struct sharder *t, const struct pz_onnx_node *n) {
  if (!is_linear(t, n)) return shard_product(t, n);
  uint32_t node = (uint32_t)(n - pz_onnx_node(t->g, 0));
  if (sharded_dim(t, n, 0) != value(t, n->in[0])->rank - 1) return STOPS;
  if (t->c->divide[node] != PZ_DIVIDE_NOT) return STOPS;
  set_divide(t, node, PZ_DIVIDE_ROWS);
  t->rows++;
  return FITS;
}

static enum trial shard_part(struct sharder *t, const struct pz_onnx_node *n) {
  int i = sharded_dim(t, n, 0);
  enum trial r = i < 0 ? STOPS : FITS;
  for (uint32_t o = 0; o < n->n_out && r == FITS; o++)
    if (n->out[o] != PZ_NONE) r = shard(t, n->out[o], i);
  return r;
}

static enum trial shard_norm(struct sharder *t, const struct pz_onnx_node *n) {
  int rank = value(t, n->in[0])->rank;
  int axis = n->fused >= 0 ? rank - 1 : pz_onnx_axis(pz_onnx_int(n, "axis", -1), rank);
  return shard_along(t, n, axis, true);
}

static enum trial shard_fused(struct sharder *t, const struct pz_onnx_node *n) {
  switch (n->fused) {
  case PZ_OP_MATMUL: return shard_matmul(t, n);
  case PZ_OP_ATTENTION: return shard_product(t, n);
  case PZ_OP_LAYERNORM:
  case PZ_OP_RMSNORM: return shard_norm(t, n);
  default: return shard_elementwise(t, n);
  }
}

/* What is divided of the first divided input. */
static struct factor factor_of(const struct sharder *t, const struct pz_onnx_node *n) {
  for (uint32_t k = 0; k < n->n_in; k++)
    if (sharded_dim(t, n, k) >= 0) return t->factor[n->in[k]];
  return (struct factor){1, 0};
}

static enum trial shard_node(struct sharder *t, const struct pz_onnx_node *n) {
  t->now = factor_of(t, n);
  if (n->fused < 0 && n->op->rule == PZ_LOWER_DATA) return FITS; /* reads sizes, not contents */
  if (!n->n_out || n->out[0] == PZ_NONE || value(t, n->out[0])->rank < 0) return STOPS;
  if (n->fused >= 0) return shard_fused(t, n);
  switch (n->op->rule) {
  case PZ_LOWER_VIEW:
  case PZ_LOWER_EXPAND: return shard_view(t, n);
  case PZ_LOWER_BINARY: return shard_elementwise(t, n);
  case PZ_LOWER_MATMUL:
  case PZ_LOWER_GEMM: return shard_matmul(t, n);
  case PZ_LOWER_PART: return shard_part(t, n);
  case PZ_LOWER_GATHER: return shard_moved(t, n, sharded_dim(t, n, 0));
  case PZ_LOWER_CONCAT: return shard_elementwise(t, n);
  case PZ_LOWER_NORM: return shard_norm(t, n);
  default: break;
  }
  if (n->op->elementwise) return shard_elementwise(t, n);
  bool softmax = n->op->kind == PZ_OP_SOFTMAX || n->op->kind == PZ_OP_LOG_SOFTMAX;
  if (!softmax) return STOPS;
  return shard_along(t, n, pz_onnx_axis(pz_onnx_int(n, "axis", -1), value(t, n->in[0])->rank),
                     false);
}

/* ---- regions -------------------------------------------------------------------------------- */

static bool reads_sharded(const struct sharder *t, const struct pz_onnx_node *n) {
  for (uint32_t k = 0; k < n->n_in; k++)
    if (sharded_dim(t, n, k) >= 0 && t->trial_of[n->in[k]] == t->trial) return true;
  return false;
}

/* Nothing divided may leave the layer, but the model's result may: the loss takes it in parts. */
static bool stays_inside(const struct sharder *t) {
  uint32_t end = t->s->first + t->s->n;
  const struct pz_onnx_value *result = value(t, t->p->result);
  for (uint32_t i = 0; i < t->values.n; i++) {
    uint32_t v = *pz_vec_at(&t->values, uint32_t, i), root = value(t, v)->root;
    if (value(t, v)->role != PZ_ONNX_ACT || t->p->last_use[root] == PZ_NONE) continue;
    bool loss = root == result->root && t->c->dim[t->p->result] == result->rank;
    if (t->p->last_use[root] >= end && !loss) return false;
  }
  return true;
}

/* A product of the group: its columns are divided. */
static enum trial shard_columns(struct sharder *t, const struct pz_onnx_node *n) {
  uint32_t y = n->out[0];
  t->now = (struct factor){1, 0};
  set_divide(t, (uint32_t)(n - pz_onnx_node(t->g, 0)), PZ_DIVIDE_COLUMNS);
  int last = value(t, y)->rank - 1;
  if (value(t, y)->root != value(t, t->p->result)->root || last < 0) return shard(t, y, last);
  if (value(t, y)->dim[last] < t->c->tp) return STOPS;
  mark(t, y, last, (struct factor){1, value(t, y)->dim[last]}); /* shares may differ by one */
  t->rows++;
  return FITS;
}

/* An operator of another layer; views belong to all. */
static bool is_elsewhere(const struct sharder *t, uint32_t node) {
  uint32_t at = t->p->place[node];
  return at != PZ_NONE && (at < t->s->first || at >= t->s->first + t->s->n);
}

static bool reads_either(const struct sharder *t, const struct pz_onnx_node *n, uint32_t a,
                         uint32_t b) {
  uint32_t root = value(t, n->in[0])->root;
  return root == a || root == b;
}

/* Divide all products that read `input`, or `second`, in this layer by columns, and follow. */
static enum trial try_group(struct sharder *t, uint32_t input, uint32_t second) {
  uint32_t from = PZ_NONE, last = 0;
  enum trial r = FITS;
  for (uint32_t k = t->s->first; k < t->s->first + t->s->n; k++) {
    if (t->p->order[k] < from) from = t->p->order[k];
    if (t->p->order[k] > last) last = t->p->order[k];
  }
  for (uint32_t i = from; i <= last && r == FITS; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(t->g, i);
    if (n->gone || is_elsewhere(t, i)) continue;
    t->at = n;
    bool member = t->p->place[i] != PZ_NONE && is_linear(t, n) &&
                  reads_either(t, n, input, second) && sharded_dim(t, n, 0) < 0 &&
                  t->c->divide[i] == PZ_DIVIDE_NOT && (t->only == PZ_NONE || t->only == i) &&
                  t->without != i;
    if (member)
      r = shard_columns(t, n);
    else if (reads_sharded(t, n))
      r = shard_node(t, n);
    if (t->status != PZ_OK) return STOPS;
  }
  if (r == FITS && (!t->rows || !stays_inside(t))) r = STOPS;
  return r;
}

static enum pz_status refuse(const struct sharder *t) {
  return pz_onnx_fail(t->g, t->at, PZ_BAD_USE,
                      "tensor-parallel degree %" PRId64 " does not divide %" PRId64
                      " (heads or features) here",
                      t->c->tp, t->uneven);
}

static bool is_free(const struct sharder *t, uint32_t node) {
  const struct pz_onnx_node *n = pz_onnx_node(t->g, node);
  return is_linear(t, n) && t->c->divide[node] == PZ_DIVIDE_NOT && sharded_dim(t, n, 0) < 0;
}

/* One trial; what it marked stays if it fits. */
static enum trial attempt(struct sharder *t, uint32_t input, uint32_t second) {
  pz_vec_init(&t->values, t->p->arena, sizeof(uint32_t));
  pz_vec_init(&t->nodes, t->p->arena, sizeof(uint32_t));
  t->rows = 0;
  t->trial++;
  enum trial r = try_group(t, input, second);
  if (r != FITS) undo(t);
  return r;
}

/* With the products of one other input: a decoder's query and the encoder's keys and values. */
static enum trial attempt_pairs(struct sharder *t, uint32_t input) {
  enum trial r = STOPS;
  uint32_t tried = input;
  for (uint32_t k = 0, n = 0; k < t->s->n && n < MOST_PAIRS && r == STOPS; k++) {
    uint32_t node = t->p->order[t->s->first + k];
    if (!is_free(t, node)) continue;
    uint32_t other = value(t, pz_onnx_node(t->g, node)->in[0])->root;
    if (other == input || other == tried) continue;
    tried = other;
    n++;
    r = attempt(t, input, other);
  }
  return r == UNEVEN ? STOPS : r; /* the pair may not belong together */
}

/* A product without the others of its input: an MLP beside an attention that cannot be divided. Or
 * the others without it: experts beside their router. */
static enum trial attempt_some(struct sharder *t, uint32_t input, uint32_t node, bool alone) {
  t->only = alone ? node : PZ_NONE;
  t->without = alone ? PZ_NONE : node;
  enum trial r = attempt(t, input, input);
  t->only = t->without = PZ_NONE;
  return r == UNEVEN ? STOPS : r;
}

/* What is tried, in this order.  The product that makes the model's result is divided first: by
 * columns, so that the result stays divided, rather than by rows. */
enum pass { RESULT, GROUPS, PAIRS, WITHOUT_ONE, ALONE, N_PASSES };

static enum trial try_pass(struct sharder *t, enum pass pass, uint32_t node) {
  const struct pz_onnx_node *n = pz_onnx_node(t->g, node);
  uint32_t input = value(t, n->in[0])->root;
  bool result = value(t, n->out[0])->root == value(t, t->p->result)->root;
  switch (pass) {
  case RESULT: return result ? attempt(t, input, input) : STOPS;
  case GROUPS: return attempt(t, input, input);
  case PAIRS: return attempt_pairs(t, input);
  default: return attempt_some(t, input, node, pass == ALONE);
  }
}

static enum pz_status slice_segment(struct sharder *t) {
  for (int pass = RESULT; pass < N_PASSES; pass++)
    for (uint32_t k = 0, tries = 0; k < t->s->n && tries < MOST_TRIES && t->status == PZ_OK; k++) {
      uint32_t node = t->p->order[t->s->first + k];
      if (!is_free(t, node)) continue;
      if (pass >= PAIRS) tries++;
      if (try_pass(t, (enum pass)pass, node) == UNEVEN) return refuse(t);
    }
  return t->status;
}

/* Tables that the inputs look up are divided by rows. */
static void slice_tables(struct sharder *t) {
  for (uint32_t at = 0; at < t->p->n; at++) {
    uint32_t node = t->p->order[at];
    const struct pz_onnx_node *n = pz_onnx_node(t->g, node);
    const struct pz_onnx_value *table = pz_onnx_in(t->g, n, 0), *ids = pz_onnx_in(t->g, n, 1);
    if (n->fused >= 0 || n->op->rule != PZ_LOWER_GATHER || !table || !ids) continue;
    bool lookup = table->role == PZ_ONNX_PARAM && table->rank == 2 &&
                  pz_onnx_int(n, "axis", 0) == 0 && value(t, ids->root)->input;
    if (!lookup || table->dim[0] < t->c->tp) continue;
    t->c->dim[n->in[0]] = 1;
    t->c->divide[node] = PZ_DIVIDE_ROWS;
  }
}

/* Multiplications of a product: for each element of the result as many as it sums up. */
static double work_of(const struct sharder *t, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *x = pz_onnx_in(t->g, n, 0), *w = pz_onnx_in(t->g, n, 1);
  int64_t y = 0, size = 0;
  if (!pz_onnx_is_product(n) || !x || !w || x->rank < 1 || w->rank < 1) return 0;
  if (!n->n_out || n->out[0] == PZ_NONE || !pz_onnx_elems(value(t, n->out[0]), &y)) return 0;
  bool conv = n->fused < 0 && n->op->rule == PZ_LOWER_CONV;
  if (conv && pz_onnx_elems(w, &size) && w->dim[0] > 0)
    return (double)y * (double)size / (double)w->dim[0];
  return (double)y * (double)x->dim[x->rank - 1];
}

/* Which part of the work in products is divided. */
static double divided_share(struct sharder *t) {
  double all = 0, divided = 0;
  for (uint32_t i = 0; i < t->p->segments.n; i++) {
    const struct pz_onnx_segment *s = pz_vec_at(&t->p->segments, struct pz_onnx_segment, i);
    for (uint32_t at = s->first; at < s->first + s->n; at++) {
      uint32_t node = t->p->order[at];
      const struct pz_onnx_node *n = pz_onnx_node(t->g, node);
      double work = (double)s->count * work_of(t, n);
      all += work;
      if (work > 0 && (t->c->divide[node] != PZ_DIVIDE_NOT || t->c->dim[n->out[0]]))
        divided += work;
    }
  }
  return all > 0 ? divided / all : 0;
}

static enum pz_status slice_all(struct sharder *t) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < t->p->segments.n && status == PZ_OK; i++) {
    t->s = pz_vec_at(&t->p->segments, struct pz_onnx_segment, i);
    status = slice_segment(t);
  }
  double share = status == PZ_OK ? divided_share(t) : 1;
  if (share < LEAST_SHARE)
    status = pz_fail(t->g->err, PZ_BAD_USE,
                     "%s: %.0f%% of its work can be divided over a tensor-parallel group (products "
                     "by columns that end in products by rows; wanted: at least %.0f%%); accepted: "
                     "--tp 1",
                     t->g->file, 100 * share, 100 * LEAST_SHARE);
  if (status == PZ_OK) slice_tables(t);
  return status;
}

enum pz_status pz_onnx_shard(struct pz_onnx_plan *p, int64_t tp, struct pz_onnx_sharding *out) {
  *out = (struct pz_onnx_sharding){.tp = tp};
  if (tp == 1) return PZ_OK;
  out->dim = pz_arena_alloc(p->arena, p->g->values.n, sizeof *out->dim);
  out->divide = pz_arena_alloc(p->arena, p->g->nodes.n, sizeof *out->divide);
  struct sharder t = {.p = p, .g = p->g, .c = out, .only = PZ_NONE, .without = PZ_NONE};
  t.trial_of = pz_arena_alloc(p->arena, p->g->values.n, sizeof *t.trial_of);
  t.factor = pz_arena_alloc(p->arena, p->g->values.n, sizeof *t.factor);
  if (!out->dim || !out->divide || !t.trial_of || !t.factor) return pz_onnx_no_memory(p->g);
  return slice_all(&t);
}
