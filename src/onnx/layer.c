#include "onnx/plan.h"

#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "onnx/dims.h"
#include "workload/kernels.h"

enum { LONGEST_NAME = 64 };

/* One layer being made. */
struct make {
  struct pz_onnx_lowering *l;
  struct pz_builder *b;
  const struct pz_onnx_graph *g;
  const struct pz_onnx_segment *s;
  char name[LONGEST_NAME]; /* of the operator being made */
};

enum pz_status pz_onnx_lowering_init(struct pz_onnx_lowering *l, const struct pz_onnx_plan *plan,
                                     const struct pz_onnx_sharding *sharding) {
  uint32_t n = plan->g->values.n;
  *l = (struct pz_onnx_lowering){.plan = plan, .sharding = sharding};
  l->tensor = pz_arena_alloc(plan->arena, n, sizeof *l->tensor);
  l->made = pz_arena_alloc(plan->arena, n, sizeof *l->made);
  return l->tensor && l->made ? PZ_OK : pz_onnx_no_memory(plan->g);
}

static void fail(struct make *m, enum pz_status status) {
  if (m->b->status == PZ_OK) m->b->status = status;
}

static const struct pz_onnx_value *value(const struct make *m, uint32_t v) {
  return pz_onnx_value(m->g, v);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Dimension i of a value on this device. */
static int64_t dim(const struct make *m, uint32_t v, int i) {
  const struct pz_onnx_sharding *c = m->l->sharding;
  int64_t d = value(m, v)->dim[i];
  return c->tp > 1 && c->dim[v] == i + 1 ? pz_share(m->b, d) : d;
}

static bool is_sharded(const struct make *m, uint32_t v) {
  return m->l->sharding->tp > 1 && m->l->sharding->dim[v] != 0;
}

static int64_t span(struct make *m, uint32_t v, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++)
    if (!pz_mul(&n, dim(m, v, i))) fail(m, PZ_LIMIT);
  return n;
}

static int64_t elems(struct make *m, uint32_t v) { return span(m, v, 0, value(m, v)->rank); }

/* Does a value come out of convolutions, so that its last dimension is no row? */
static bool is_image(const struct make *m, uint32_t v) {
  for (int i = 0; i < 8 && v != PZ_NONE && value(m, v)->maker != PZ_NONE; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(m->g, value(m, v)->maker);
    if (n->fused < 0 && (n->op->rule == PZ_LOWER_CONV || n->op->shape == PZ_SHAPE_POOL))
      return true;
    bool same = n->fused >= 0 || n->op->elementwise || n->op->rule == PZ_LOWER_NORM ||
                n->op->rule == PZ_LOWER_CONCAT;
    if (!same || !n->n_in) return false;
    v = n->in[0];
  }
  return false;
}

/* Rows of the last dimension; images as rows of pixels. */
static struct pz_shape shape_of(struct make *m, uint32_t v) {
  int rank = value(m, v)->rank, from = rank - 1;
  if (rank < 1) return PZ_SHAPE(1, 1);
  if (rank >= 4 && is_image(m, v)) from = 2;
  if (rank == 1) return PZ_SHAPE(dim(m, v, 0));
  return PZ_SHAPE(span(m, v, 0, from), span(m, v, from, rank));
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void set_tensor(struct make *m, uint32_t v, uint32_t t) {
  uint32_t root = value(m, v)->root;
  m->l->tensor[root] = t;
  m->l->made[root] = m->l->layer;
}

static const char *short_name(struct make *m, const char *name, char buf[LONGEST_NAME]) {
  (void)m;
  return pz_text_plain(pz_text_copy(buf, LONGEST_NAME, name[0] ? name : "tensor"));
}

static bool tied(const struct make *m, uint32_t root) {
  return pz_onnx_is_tied(m->l->plan, root, m->s->first, m->s->n);
}

static uint32_t new_param(struct make *m, uint32_t v) {
  const struct pz_onnx_value *x = value(m, v);
  char buf[LONGEST_NAME];
  int64_t whole = 1, local = elems(m, v);
  for (int i = 0; i < x->rank; i++)
    if (!pz_mul(&whole, x->dim[i])) fail(m, PZ_LIMIT);
  struct pz_shape shape = x->rank == 1 ? PZ_SHAPE(local) : shape_of(m, v);
  if (x->rank > 1 && dim(m, v, 0) > 0) shape = PZ_SHAPE(dim(m, v, 0), local / dim(m, v, 0));
  return pz_build_param(m->b, short_name(m, value(m, x->root)->name, buf), shape, whole,
                        tied(m, x->root));
}

static uint32_t new_data(struct make *m, uint32_t v) {
  const struct pz_onnx_value *x = value(m, v);
  char buf[LONGEST_NAME];
  int bytes = pz_onnx_is_float(x->type) || !x->type            ? PZ_B16
              : x->type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL ? PZ_BYTE
                                                               : PZ_INDEX;
  return pz_build_data(m->b, short_name(m, x->name, buf), bytes, shape_of(m, v));
}

/* The tensor of a value in this layer, made on first use if it is a parameter or data. */
static uint32_t tensor(struct make *m, uint32_t v) {
  const struct pz_onnx_value *x = value(m, v);
  if (m->b->status != PZ_OK) return PZ_NONE;
  bool merged = x->role == PZ_ONNX_PARAM && pz_onnx_is_merged(m->l->plan, v);
  if (m->l->made[x->root] == m->l->layer && !merged) return m->l->tensor[x->root];
  if (x->role == PZ_ONNX_ACT) {
    fail(m, PZ_INTERNAL);
    return PZ_NONE;
  }
  /* data may be read in several shapes: each is kept under its own name */
  uint32_t t = x->role == PZ_ONNX_PARAM ? new_param(m, v) : new_data(m, v);
  if (x->role == PZ_ONNX_PARAM) set_tensor(m, v, t);
  return t;
}

/* An activation that comes from a layer before. */
static uint32_t new_input(struct make *m, uint32_t v) {
  uint32_t t = PZ_NONE;
  char buf[LONGEST_NAME];
  if (m->b->status != PZ_OK) return t;
  enum pz_status s = pz_graph_add_tensor(m->b->graph, short_name(m, value(m, v)->name, buf),
                                         PZ_ROLE_ACTIVATION, PZ_B16, shape_of(m, v), &t);
  if (s != PZ_OK) fail(m, s);
  set_tensor(m, v, t);
  return t;
}

/* ---- operators ------------------------------------------------------------------------------ */

/* Operands that are tensors worth reading: no lone numbers, no shapes. */
static bool is_operand(const struct make *m, uint32_t v) {
  int64_t n = 0;
  if (v == PZ_NONE) return false;
  const struct pz_onnx_value *x = value(m, v);
  if (x->role != PZ_ONNX_DATA) return true;
  return !x->has_real && !(x->ints && x->maker == PZ_NONE && x->init) && x->rank >= 0 &&
         pz_onnx_elems(x, &n) && n > 1;
}

/* The node's operands, activations first, in a list that ends with PZ_NONE. */
static uint32_t operands(struct make *m, const struct pz_onnx_node *n,
                         uint32_t list[PZ_OP_MOST_INPUTS]) {
  uint32_t count = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t k = 0; k < n->n_in && count < PZ_OP_MOST_INPUTS - 1; k++) {
      if (!is_operand(m, n->in[k])) continue;
      if ((value(m, n->in[k])->role == PZ_ONNX_ACT) == (pass == 0)) list[count++] = n->in[k];
    }
  /* the larger of two comes first, as it gives the sizes */
  if (count == 2 && value(m, list[1])->role == PZ_ONNX_ACT &&
      elems(m, list[1]) > elems(m, list[0])) {
    uint32_t first = list[0];
    list[0] = list[1];
    list[1] = first;
  }
  list[count] = PZ_NONE;
  return count;
}

static void emit(struct make *m, const struct pz_onnx_node *n, struct pz_emit *e) {
  uint32_t y = n->out[0];
  e->name = m->name;
  if (!e->shape.n) e->shape = shape_of(m, y);
  e->elem_bytes = PZ_B16;
  uint32_t t = pz_build_op(m->b, e);
  if (t != PZ_NONE) pz_graph_tensor(m->b->graph, t)->split = is_sharded(m, y);
  set_tensor(m, y, t);
}

static void lower_vector(struct make *m, const struct pz_onnx_node *n, int kind) {
  uint32_t list[PZ_OP_MOST_INPUTS];
  struct pz_emit e = {.kind = kind};
  uint32_t count = operands(m, n, list);
  for (uint32_t i = 0; i <= count; i++) e.in[i] = list[i] == PZ_NONE ? PZ_NONE : tensor(m, list[i]);
  if (kind == PZ_OP_TOPK) {
    e.aux_shape = shape_of(m, n->out[0]);
    e.aux_bytes = PZ_INDEX;
  }
  emit(m, n, &e);
}

/* What a two-operand node is, given what its operands are. */
static int binary_kind(struct make *m, const struct pz_onnx_node *n, const uint32_t *list,
                       uint32_t count) {
  int kind = n->op->kind;
  if (kind == PZ_OP_POW || kind == PZ_OP_SCALE_MASK) return kind;
  bool clips = strcmp(n->type, "Max") == 0 || strcmp(n->type, "Min") == 0;
  if (count < 2) return clips ? PZ_OP_RELU : PZ_OP_SCALE;
  enum pz_onnx_role second = value(m, list[1])->role;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_DATA) return PZ_OP_SCALE_MASK;
  if (kind == PZ_OP_ADD && second == PZ_ONNX_PARAM) return PZ_OP_BIAS;
  if (kind == PZ_OP_MUL && count > 2) return PZ_OP_ADD;
  return kind;
}

static void lower_binary(struct make *m, const struct pz_onnx_node *n) {
  uint32_t list[PZ_OP_MOST_INPUTS];
  uint32_t count = operands(m, n, list);
  lower_vector(m, n, binary_kind(m, n, list, count));
}

/* Rows that share their statistics. */
static int64_t norm_rows(struct make *m, const struct pz_onnx_node *n, uint32_t x) {
  int rank = value(m, x)->rank;
  if (n->fused >= 0 && n->n_in > 3) return span(m, n->in[3], 0, 2); /* groups of channels */
  if (n->fused >= 0) return rank ? span(m, x, 0, rank - 1) : 1;
  if (strcmp(n->type, "BatchNormalization") == 0) return rank > 1 ? dim(m, x, 1) : 1;
  if (strcmp(n->type, "InstanceNormalization") == 0) return span(m, x, 0, rank < 2 ? rank : 2);
  if (strcmp(n->type, "GroupNormalization") == 0) {
    int64_t rows = pz_onnx_int(n, "num_groups", 1);
    if (rank < 1 || rows < 1 || !pz_mul(&rows, dim(m, x, 0))) fail(m, PZ_LIMIT);
    return rows;
  }
  int axis = pz_onnx_axis(pz_onnx_int(n, "axis", -1), rank);
  return span(m, x, 0, axis < 0 ? 0 : axis);
}

static void lower_norm(struct make *m, const struct pz_onnx_node *n, int kind) {
  uint32_t x = n->in[0], k = 1;
  struct pz_emit e = {.kind = kind, .aux_bytes = PZ_B32};
  int64_t rows = norm_rows(m, n, x);
  e.in[0] = tensor(m, x);
  uint32_t most = kind == PZ_OP_RMSNORM ? 2 : 3; /* running statistics come after, and are data */
  for (uint32_t i = 1; i < n->n_in && i < most; i++)
    if (is_operand(m, n->in[i])) e.in[k++] = tensor(m, n->in[i]);
  e.in[k] = PZ_NONE;
  e.aux_shape = kind == PZ_OP_RMSNORM ? PZ_SHAPE(rows) : PZ_SHAPE(rows, 2);
  emit(m, n, &e);
}

/* ---- products ------------------------------------------------------------------------------- */

/* A weight of two dimensions as one factor of a product, or no. */
static bool is_matrix(const struct make *m, uint32_t v) {
  return value(m, v)->role == PZ_ONNX_PARAM && value(m, v)->rank == 2;
}

/* Into a tensor-parallel region, once for each value. */
static uint32_t entered(struct make *m, uint32_t x, enum pz_divide divide) {
  uint32_t t = tensor(m, x);
  if (divide != PZ_DIVIDE_COLUMNS || t == PZ_NONE) return t;
  for (uint32_t i = m->b->graph->ops[PZ_FORWARD].n; i-- > 0;) {
    const struct pz_op *op = pz_graph_op(m->b->graph, PZ_FORWARD, i);
    if (op->kind == PZ_OP_TP_ENTER && op->in[0] == t) return op->out[0];
  }
  return pz_build_enter(m->b, m->name, t);
}

static enum pz_divide divide_of(const struct make *m, const struct pz_onnx_node *n) {
  if (m->l->sharding->tp == 1) return PZ_DIVIDE_NOT;
  return (enum pz_divide)m->l->sharding->divide[n - pz_onnx_node(m->g, 0)];
}

/* Out of a region: partial sums meet over the group; a bias > 0 of that width comes after. */
static void leave(struct make *m, uint32_t y, int64_t bias) {
  uint32_t t = tensor(m, y);
  if (t != PZ_NONE) set_tensor(m, y, pz_build_leave(m->b, m->name, t, bias));
}

/* May the work of an undivided product be shared by the group?  Its input must stand in rows. */
static bool stands_outside(const struct make *m, uint32_t x, int64_t in, int64_t out) {
  if (m->l->sharding->tp == 1 || x == PZ_NONE || out < m->l->sharding->tp) return false;
  const struct pz_tensor *t = pz_graph_tensor(m->b->graph, x);
  return !t->split && t->n_dims == 2 && t->shape[1] == in && t->role == PZ_ROLE_ACTIVATION;
}

/* x (rows x in) times a matrix, with a bias or PZ_NONE. */
static void lower_linear(struct make *m, const struct pz_onnx_node *n, const uint32_t in[3],
                         int64_t width_in) {
  uint32_t y = n->out[0];
  enum pz_divide divide = divide_of(m, n);
  int64_t out = value(m, y)->rank ? value(m, y)->dim[value(m, y)->rank - 1] : 1;
  struct pz_linear l = {.name = m->name,
                        .x = entered(m, in[0], divide),
                        .in = width_in,
                        .out = out,
                        .divide = divide,
                        .bias = in[2] != PZ_NONE,
                        .tied = tied(m, value(m, in[1])->root),
                        .tied_bias = in[2] != PZ_NONE && tied(m, value(m, in[2])->root)};
  if (width_in < 1 || out < 1) fail(m, PZ_LIMIT);
  bool outside = divide == PZ_DIVIDE_NOT && stands_outside(m, l.x, width_in, out);
  set_tensor(m, y, outside ? pz_build_linear_outside(m->b, &l) : pz_build_linear(m->b, &l));
  if (divide == PZ_DIVIDE_ROWS) leave(m, y, l.bias ? out : 0);
}

/* Any other product. */
static void lower_product(struct make *m, const struct pz_onnx_node *n, const uint32_t in[3],
                          struct pz_dims dims) {
  uint32_t y = n->out[0];
  struct pz_contract c = {.name = m->name,
                          .a = tensor(m, in[0]),
                          .c = tensor(m, in[1]),
                          .bias = in[2] == PZ_NONE ? PZ_NONE : tensor(m, in[2]),
                          .dims = dims,
                          .shape = shape_of(m, y)};
  uint32_t t = pz_build_contract(m->b, &c);
  if (t != PZ_NONE) pz_graph_tensor(m->b->graph, t)->split = is_sharded(m, y);
  set_tensor(m, y, t);
}

/* batch x (m x k)(k x n) of a MatMul on this device. */
static struct pz_dims matmul_dims(struct make *m, uint32_t a, uint32_t c, uint32_t y) {
  int ra = value(m, a)->rank, rc = value(m, c)->rank, ry = value(m, y)->rank;
  bool rows = ra > 1, cols = rc > 1;
  int outer = ry - rows - cols;
  return (struct pz_dims){outer > 0 ? span(m, y, 0, outer) : 1, rows ? dim(m, a, ra - 2) : 1,
                          cols ? dim(m, c, rc - 1) : 1, ra ? dim(m, a, ra - 1) : 1};
}

static void lower_matmul(struct make *m, const struct pz_onnx_node *n) {
  uint32_t in[3] = {n->in[0], n->in[1], n->n_in > 2 ? n->in[2] : PZ_NONE};
  if (is_matrix(m, in[1]) && value(m, in[0])->rank > 0) {
    lower_linear(m, n, in, value(m, in[1])->dim[0]);
    return;
  }
  struct pz_dims d = matmul_dims(m, in[0], in[1], n->out[0]);
  if (value(m, in[0])->role == PZ_ONNX_PARAM && value(m, in[1])->role != PZ_ONNX_PARAM) {
    uint32_t turned[3] = {in[1], in[0], in[2]}; /* the weight comes second */
    lower_product(m, n, turned, (struct pz_dims){d.batch, d.n, d.m, d.k});
    return;
  }
  lower_product(m, n, in, d);
}

static void lower_gemm(struct make *m, const struct pz_onnx_node *n) {
  bool ta = pz_onnx_int(n, "transA", 0), tb = pz_onnx_int(n, "transB", 0);
  uint32_t in[3] = {n->in[0], n->in[1], PZ_NONE};
  if (n->n_in > 2 && is_operand(m, n->in[2])) in[2] = n->in[2];
  bool bias = in[2] == PZ_NONE || value(m, in[2])->role == PZ_ONNX_PARAM;
  if (is_matrix(m, in[1]) && bias && !ta) {
    lower_linear(m, n, in, value(m, in[1])->dim[tb ? 1 : 0]);
    return;
  }
  struct pz_dims d = {1, dim(m, in[0], ta ? 1 : 0), dim(m, in[1], tb ? 0 : 1),
                      dim(m, in[0], ta ? 0 : 1)};
  lower_product(m, n, in, d);
}

/* A convolution as the product it is: pixels by channels. */
static void lower_conv(struct make *m, const struct pz_onnx_node *n) {
  bool turned = strcmp(n->type, "ConvTranspose") == 0;
  uint32_t x = n->in[0], w = n->in[1], y = n->out[0];
  uint32_t in[3] = {x, w, n->n_in > 2 ? n->in[2] : PZ_NONE};
  int64_t groups = pz_onnx_int(n, "group", 1), kernel;
  int rank = value(m, w)->rank;
  if (groups < 1 || rank < 3 || value(m, x)->rank != rank || value(m, y)->rank != rank ||
      dim(m, w, 0) % groups) {
    fail(m, pz_onnx_fail(m->g, n, PZ_BAD_INPUT,
                         "a group of %lld; accepted: a number that divides its channels",
                         (long long)groups));
    return;
  }
  kernel = span(m, w, 2, rank);
  uint32_t image = turned ? x : y; /* the pixels that each take one pass of the kernel */
  int64_t pixels = dim(m, image, 0);
  if (!pz_mul(&pixels, span(m, image, 2, rank))) fail(m, PZ_LIMIT);
  struct pz_dims d = {groups, pixels, dim(m, w, 0) / groups, dim(m, w, 1)};
  if (turned) d = (struct pz_dims){groups, pixels, dim(m, w, 1), dim(m, w, 0) / groups};
  if (!pz_mul(turned ? &d.n : &d.k, kernel)) fail(m, PZ_LIMIT);
  lower_product(m, n, in, d);
}

static void lower_einsum(struct make *m, const struct pz_onnx_node *n) {
  struct pz_dims d;
  if (!pz_onnx_einsum_dims(m->g, n, &d)) {
    fail(m, pz_onnx_fail(
                m->g, n, PZ_BAD_INPUT,
                "this equation is not supported; accepted: two operands, letters, '...' and a "
                "result"));
    return;
  }
  uint32_t in[3] = {n->in[0], n->in[1], PZ_NONE};
  if (value(m, in[0])->role == PZ_ONNX_PARAM) {
    uint32_t turned[3] = {in[1], in[0], PZ_NONE};
    lower_product(m, n, turned, (struct pz_dims){d.batch, d.n, d.m, d.k});
    return;
  }
  lower_product(m, n, in, d);
}

/* One operator for scores, softmax and context. */
static void lower_attention(struct make *m, const struct pz_onnx_node *n) {
  uint32_t q = n->in[0], k = n->in[1], y = n->out[0];
  int rq = value(m, q)->rank, rk = value(m, k)->rank;
  struct pz_dims d = {span(m, q, 0, rq - 2), dim(m, q, rq - 2), dim(m, k, rk - 1),
                      dim(m, q, rq - 1)};
  struct pz_flash f = {.name = m->name,
                       .in = {tensor(m, q), tensor(m, k), tensor(m, n->in[2]), PZ_NONE},
                       .dims = d,
                       .value_dim = d.k,
                       .shape = PZ_SHAPE(d.batch, d.m, d.k)};
  set_tensor(m, y, pz_build_flash(m->b, &f));
}

/* ---- moving data ---------------------------------------------------------------------------- */

static bool is_part(const struct make *m, const struct pz_onnx_node *n) {
  if (n->fused >= 0 || n->gone || !pz_onnx_in(m->g, n, 0)) return false;
  if (pz_onnx_in(m->g, n, 0)->role != PZ_ONNX_ACT) return false;
  if (n->op->rule == PZ_LOWER_PART) return true;
  const struct pz_onnx_value *at = pz_onnx_in(m->g, n, 1);
  return n->op->rule == PZ_LOWER_GATHER && at && at->ints;
}

static bool in_segment(const struct make *m, uint32_t node) {
  uint32_t at = m->l->plan->place[node];
  return at != PZ_NONE && at >= m->s->first && at < m->s->first + m->s->n;
}

/* Tensors for the parts that one node takes, as views. */
static void add_parts(struct make *m, const struct pz_onnx_node *n, uint32_t whole,
                      struct pz_vec *parts) {
  for (uint32_t o = 0; o < n->n_out && m->b->status == PZ_OK; o++) {
    uint32_t y = n->out[o], t = PZ_NONE;
    char buf[LONGEST_NAME];
    if (y == PZ_NONE || !value(m, y)->live) continue;
    enum pz_status s = pz_graph_add_tensor(m->b->graph, short_name(m, value(m, y)->name, buf),
                                           PZ_ROLE_ACTIVATION, PZ_B16, shape_of(m, y), &t);
    if (s != PZ_OK) {
      fail(m, s);
      return;
    }
    struct pz_tensor *x = pz_graph_tensor(m->b->graph, t);
    x->storage = pz_graph_tensor(m->b->graph, whole)->storage;
    x->split = is_sharded(m, y);
    set_tensor(m, y, t);
    if (!pz_vec_push(parts, &t)) fail(m, PZ_NO_MEMORY);
  }
}

/* All parts of a value that this layer takes, with its first taker: one operator for them all. */
static void lower_part(struct make *m, const struct pz_onnx_node *n) {
  if (!is_part(m, n)) {
    lower_vector(m, n, PZ_OP_COPY);
    return;
  }
  uint32_t x = n->in[0], whole = tensor(m, x), self = (uint32_t)(n - pz_onnx_node(m->g, 0));
  struct pz_vec parts;
  if (m->b->status != PZ_OK || m->l->made[value(m, n->out[0])->root] == m->l->layer) return;
  pz_vec_init(&parts, m->b->graph->arena, sizeof(uint32_t));
  uint32_t before = PZ_NONE;
  for (uint32_t u = 0; u < value(m, x)->n_users; u++) {
    uint32_t user = m->g->users[value(m, x)->first + u];
    const struct pz_onnx_node *taker = pz_onnx_node(m->g, user);
    if (user != before && user >= self && in_segment(m, user) && is_part(m, taker) &&
        taker->in[0] == x)
      add_parts(m, taker, whole, &parts);
    before = user;
  }
  struct pz_op op = {.name = m->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &whole,
                     .n_in = 1,
                     .out = parts.items,
                     .n_out = parts.n};
  if (m->b->status == PZ_OK) fail(m, pz_graph_add_op(m->b->graph, PZ_FORWARD, &op));
}

static void lower_concat(struct make *m, const struct pz_onnx_node *n) {
  struct pz_vec in;
  uint32_t y = n->out[0], out = PZ_NONE;
  pz_vec_init(&in, m->b->graph->arena, sizeof(uint32_t));
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t t = n->in[k] == PZ_NONE ? PZ_NONE : tensor(m, n->in[k]);
    if (t != PZ_NONE && !pz_vec_push(&in, &t)) fail(m, PZ_NO_MEMORY);
  }
  if (m->b->status != PZ_OK) return;
  struct pz_shape s = shape_of(m, y);
  fail(m, pz_graph_add_tensor(m->b->graph, m->name, PZ_ROLE_ACTIVATION, PZ_B16, s, &out));
  if (m->b->status != PZ_OK) return;
  pz_graph_tensor(m->b->graph, out)->split = is_sharded(m, y);
  struct pz_op op = {.name = m->name,
                     .kind = PZ_OP_CONCAT,
                     .op_class = PZ_CLASS_VECTOR,
                     .in = in.items,
                     .n_in = in.n,
                     .out = &out,
                     .n_out = 1,
                     .replicated = m->l->sharding->tp > 1 && !is_sharded(m, y),
                     .dims = {1, s.d[0], s.n > 1 ? s.d[1] : 1, 1}};
  fail(m, pz_graph_add_op(m->b->graph, PZ_FORWARD, &op));
  set_tensor(m, y, out);
}

/* Rows of a table by index; with constant indices some rows of an activation, as a view. */
static void lower_gather(struct make *m, const struct pz_onnx_node *n) {
  uint32_t table = n->in[0], ids = n->n_in > 1 ? n->in[1] : PZ_NONE;
  if (is_part(m, n)) {
    lower_part(m, n);
    return;
  }
  bool lookup = value(m, table)->role == PZ_ONNX_PARAM && pz_onnx_int(n, "axis", 0) == 0 &&
                ids != PZ_NONE && value(m, table)->rank == 2;
  if (!lookup) {
    lower_vector(m, n, PZ_OP_DISPATCH);
    return;
  }
  char buf[LONGEST_NAME];
  uint32_t index = pz_build_data(m->b, short_name(m, value(m, ids)->name, buf), PZ_INDEX,
                                 PZ_SHAPE(elems(m, ids)));
  struct pz_emit e = {.kind = PZ_OP_EMBEDDING, .in = {index, tensor(m, table), PZ_NONE}};
  emit(m, n, &e);
  if (divide_of(m, n) == PZ_DIVIDE_ROWS) leave(m, n->out[0], 0);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Every shape the operator needs is known. */
static bool check_shapes(struct make *m, const struct pz_onnx_node *n) {
  for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
    uint32_t v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
    if (v == PZ_NONE || value(m, v)->rank >= 0 || !value(m, v)->live) continue;
    fail(m, pz_onnx_fail(m->g, n, PZ_BAD_INPUT,
                         "the shape of tensor '%.120s' is neither stated in the file nor can it be "
                         "inferred; accepted: a model exported with shapes",
                         value(m, v)->name));
    return false;
  }
  return true;
}

static bool check_operands(struct make *m, const struct pz_onnx_node *n, uint32_t least) {
  for (uint32_t k = 0; k < least; k++)
    if (k >= n->n_in || n->in[k] == PZ_NONE) {
      fail(m, pz_onnx_fail(m->g, n, PZ_BAD_INPUT, "has %u inputs; accepted: at least %u", n->n_in,
                           least));
      return false;
    }
  if (n->n_out && n->out[0] != PZ_NONE) return true;
  fail(m, pz_onnx_fail(m->g, n, PZ_BAD_INPUT,
                       "its first result has no name; accepted: one with a name"));
  return false;
}

static void lower_fused(struct make *m, const struct pz_onnx_node *n) {
  uint32_t y = n->out[0];
  switch (n->fused) {
  case PZ_OP_MATMUL: lower_matmul(m, n); break;
  case PZ_OP_ATTENTION: lower_attention(m, n); break;
  case PZ_OP_LAYERNORM:
  case PZ_OP_RMSNORM: lower_norm(m, n, n->fused); break;
  case PZ_OP_ROTARY:
    lower_vector(m, n, n->fused);
    /* in place: backward needs nothing of what was there */
    if (m->b->status == PZ_OK)
      pz_graph_tensor(m->b->graph, tensor(m, y))->storage =
          pz_graph_tensor(m->b->graph, tensor(m, n->in[0]))->storage;
    break;
  default: lower_vector(m, n, n->fused);
  }
}

static bool two_operands(enum pz_onnx_lower rule) {
  return rule == PZ_LOWER_MATMUL || rule == PZ_LOWER_GEMM || rule == PZ_LOWER_CONV ||
         rule == PZ_LOWER_EINSUM;
}

static void lower_node(struct make *m, const struct pz_onnx_node *n) {
  uint32_t least = n->fused >= 0 ? 1 : two_operands(n->op->rule) ? 2 : 1;
  if (!check_operands(m, n, least) || !check_shapes(m, n)) return;
  pz_text_plain(pz_text_copy(m->name, sizeof m->name, pz_onnx_node_name(m->g, n)));
  if (n->fused >= 0) {
    lower_fused(m, n);
    return;
  }
  switch (n->op->rule) {
  case PZ_LOWER_MATMUL: lower_matmul(m, n); break;
  case PZ_LOWER_GEMM: lower_gemm(m, n); break;
  case PZ_LOWER_CONV: lower_conv(m, n); break;
  case PZ_LOWER_EINSUM: lower_einsum(m, n); break;
  case PZ_LOWER_BINARY: lower_binary(m, n); break;
  case PZ_LOWER_NORM: lower_norm(m, n, n->op->kind); break;
  case PZ_LOWER_PART: lower_part(m, n); break;
  case PZ_LOWER_CONCAT: lower_concat(m, n); break;
  case PZ_LOWER_GATHER: lower_gather(m, n); break;
  default: lower_vector(m, n, n->op->kind);
  }
}

/* ---- the layer ------------------------------------------------------------------------------ */

static void begin(struct make *m) {
  struct pz_graph *g = m->b->graph;
  uint32_t *more = pz_arena_alloc(g->arena, m->s->n_in, sizeof *more);
  if (!more) fail(m, PZ_NO_MEMORY);
  for (uint32_t i = 0; i < m->s->n_in && m->b->status == PZ_OK; i++) {
    uint32_t t = new_input(m, m->s->in[i]);
    if (i == 0)
      g->input = t;
    else
      more[g->n_also_in++] = t;
  }
  g->also_in = more;
  g->passing_bytes = m->s->passing_bytes;
}

/* What leaves the layer: the first of its results and, beside it, the others.  Of the last layer the first
 * is the result of the model. */
static void finish(struct make *m, uint32_t first) {
  struct pz_graph *g = m->b->graph;
  uint32_t *more = pz_arena_alloc(g->arena, m->s->n_out, sizeof *more);
  if (!more) fail(m, PZ_NO_MEMORY);
  for (uint32_t i = 0; i < m->s->n_out && m->b->status == PZ_OK; i++)
    if (m->s->out[i] != value(m, first)->root) more[g->n_also_out++] = tensor(m, m->s->out[i]);
  g->also_out = more;
  g->output = tensor(m, first);
}

/* The loss taken of the model's result, unless it is a loss, or one number a sample. */
static void add_loss(struct make *m, uint32_t y) {
  const struct pz_onnx_value *v = value(m, y);
  if (m->b->status != PZ_OK || v->rank < 1 || v->dim[v->rank - 1] < 2) return;
  m->b->tokens = span(m, y, 0, v->rank - 1);
  m->b->graph->output = pz_kernel_loss(m->b, m->b->graph->output, false);
}

void pz_onnx_layer_build(struct pz_onnx_lowering *l, struct pz_builder *b,
                         const struct pz_onnx_segment *s) {
  struct make m = {.l = l, .b = b, .g = l->plan->g, .s = s};
  l->layer++;
  begin(&m);
  for (uint32_t i = 0; i < s->n && b->status == PZ_OK; i++)
    lower_node(&m, pz_onnx_node(m.g, l->plan->order[s->first + i]));
  if (b->status != PZ_OK) return;
  const struct pz_vec *all = &l->plan->segments;
  bool last = s == pz_vec_at(all, struct pz_onnx_segment, all->n - 1);
  if (!last && !s->n_out) fail(&m, PZ_INTERNAL);
  if (b->status != PZ_OK) return;
  finish(&m, last ? l->plan->result : s->out[0]);
  if (last) add_loss(&m, l->plan->result);
}
