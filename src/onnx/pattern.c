#include "onnx/passes.h"

#include <math.h>
#include <string.h>

enum { DEEPEST = 6, LONGEST = 6 };

static bool is(const struct pz_onnx_node *n, const char *type) {
  return n && n->fused < 0 && strcmp(n->type, type) == 0;
}

static const struct pz_onnx_node *maker(const struct pz_onnx_graph *g, uint32_t v) {
  uint32_t m = v == PZ_NONE ? PZ_NONE : pz_onnx_value(g, v)->maker;
  return m == PZ_NONE ? NULL : pz_onnx_node(g, m);
}

/* The value itself, behind conversions. */
static uint32_t plain(const struct pz_onnx_graph *g, uint32_t v) {
  for (const struct pz_onnx_node *n = maker(g, v);
       (is(n, "Cast") || is(n, "Identity")) && n->n_in && n->in[0] != PZ_NONE; n = maker(g, v))
    v = n->in[0];
  return v;
}

static const struct pz_onnx_node *plain_maker(const struct pz_onnx_graph *g, uint32_t v) {
  return maker(g, plain(g, v));
}

/* A single number that is known before the run: an initializer, or a value computed from shapes. */
static bool is_scalar(const struct pz_onnx_graph *g, uint32_t v) {
  int64_t n;
  if (v == PZ_NONE) return false;
  const struct pz_onnx_value *x = pz_onnx_value(g, v);
  return x->has_real || (x->init && x->rank >= 0 && pz_onnx_elems(x, &n) && n == 1);
}

static bool is_number(const struct pz_onnx_graph *g, uint32_t v, double number) {
  const struct pz_onnx_value *x = v == PZ_NONE ? NULL : pz_onnx_value(g, v);
  return x && x->has_real && fabs(x->real - number) < 1e-3;
}

static bool is_weight(const struct pz_onnx_graph *g, uint32_t v) {
  v = plain(g, v);
  return v != PZ_NONE && pz_onnx_value(g, v)->init && !is_scalar(g, v);
}

/* An initializer behind conversions and transpositions, or a part of one. */
static bool is_weight_view(const struct pz_onnx_graph *g, uint32_t v) {
  for (int i = 0; i < LONGEST && v != PZ_NONE; i++) {
    const struct pz_onnx_node *n = maker(g, v);
    if (!n) return is_weight(g, v);
    if ((n->op->rule != PZ_LOWER_VIEW && n->op->shape != PZ_SHAPE_SPLIT) || !n->n_in) return false;
    v = n->in[0];
  }
  return false;
}

/* The one node that reads v, behind conversions; *via is the value it reads. */
static struct pz_onnx_node *only_user(const struct pz_onnx_graph *g, uint32_t v, uint32_t *via) {
  for (int i = 0; i < LONGEST; i++) {
    const struct pz_onnx_value *x = pz_onnx_value(g, v);
    if (x->n_users != 1 || x->output) return NULL;
    struct pz_onnx_node *n = pz_onnx_node(g, g->users[x->first]);
    *via = v;
    if (!is(n, "Cast") && !is(n, "Identity")) return n;
    if (n->n_out < 1 || n->out[0] == PZ_NONE) return NULL;
    v = n->out[0];
  }
  return NULL;
}

/* The operand of a two-operand node that is not `v`. */
static uint32_t other(const struct pz_onnx_node *n, uint32_t v) {
  if (n->n_in != 2) return PZ_NONE;
  return n->in[0] == v ? n->in[1] : n->in[0];
}

static bool has_out(const struct pz_onnx_node *n) { return n->n_out >= 1 && n->out[0] != PZ_NONE; }

static enum pz_status become(struct pz_onnx_graph *g, struct pz_onnx_node *n, int kind,
                             const uint32_t in[4]) {
  uint32_t *copy = pz_arena_alloc(g->arena, 4, sizeof *copy), count = 0;
  if (!copy) return pz_onnx_no_memory(g);
  while (count < 4 && in[count] != PZ_NONE) count++;
  memcpy(copy, in, count * sizeof *copy);
  n->in = copy;
  n->n_in = count;
  n->fused = kind;
  return PZ_OK;
}

/* ---- norms ---------------------------------------------------------------------------------- */

/* d where v = mean(d^2), or PZ_NONE. */
static uint32_t mean_square_of(const struct pz_onnx_graph *g, uint32_t v) {
  const struct pz_onnx_node *mean = plain_maker(g, v);
  if (!is(mean, "ReduceMean") || !mean->n_in) return PZ_NONE;
  const struct pz_onnx_node *square = plain_maker(g, mean->in[0]);
  if (!square || square->n_in != 2) return PZ_NONE;
  if (is(square, "Pow") && is_number(g, square->in[1], 2)) return plain(g, square->in[0]);
  if (is(square, "Mul") && plain(g, square->in[0]) == plain(g, square->in[1]))
    return plain(g, square->in[0]);
  return PZ_NONE;
}

/* sqrt(mean(d^2) + epsilon): d, or PZ_NONE. */
static uint32_t deviation_of(const struct pz_onnx_graph *g, const struct pz_onnx_node *root) {
  if (!root->n_in || root->in[0] == PZ_NONE) return PZ_NONE;
  const struct pz_onnx_node *sum = plain_maker(g, root->in[0]);
  if (!is(sum, "Add") || sum->n_in != 2) return mean_square_of(g, root->in[0]);
  for (int i = 0; i < 2; i++)
    if (is_scalar(g, sum->in[i])) return mean_square_of(g, sum->in[1 - i]);
  return PZ_NONE;
}

/* d / root or d * (1 / root): the node that makes it. */
static struct pz_onnx_node *normalised(const struct pz_onnx_graph *g, struct pz_onnx_node *root,
                                       uint32_t d) {
  uint32_t via, v = root->out[0];
  struct pz_onnx_node *n = only_user(g, v, &via);
  bool inverse = is(n, "Reciprocal") || (is(n, "Div") && is_scalar(g, n->in[0]));
  if (inverse && has_out(n)) n = only_user(g, n->out[0], &via);
  if (!(is(n, "Mul") || is(n, "Div")) || !has_out(n)) return NULL;
  uint32_t left = other(n, via);
  return left != PZ_NONE && plain(g, left) == d ? n : NULL;
}

/* x where d = x - mean(x), else d itself with *centred false. */
static uint32_t centre_of(const struct pz_onnx_graph *g, uint32_t d, bool *centred) {
  const struct pz_onnx_node *sub = maker(g, d);
  *centred = false;
  if (!is(sub, "Sub") || sub->n_in != 2) return d;
  const struct pz_onnx_node *mean = plain_maker(g, sub->in[1]);
  uint32_t x = plain(g, sub->in[0]);
  if (!is(mean, "ReduceMean") || !mean->n_in || plain(g, mean->in[0]) != x) return d;
  *centred = true;
  return x;
}

/* The parameter of a scale or a shift: a weight, or 1 + a weight; PZ_NONE: none. */
static uint32_t scale_of(const struct pz_onnx_graph *g, uint32_t v) {
  if (v == PZ_NONE) return v;
  if (is_weight_view(g, v)) return plain(g, v);
  const struct pz_onnx_node *sum = plain_maker(g, v);
  if (!is(sum, "Add") || sum->n_in != 2) return PZ_NONE;
  for (int i = 0; i < 2; i++)
    if (is_scalar(g, sum->in[i]) && is_weight_view(g, sum->in[1 - i]))
      return plain(g, sum->in[1 - i]);
  return PZ_NONE;
}

/* Takes a scale and a shift that follow `last` into in[1] and in[2]; the node that comes last. */
static struct pz_onnx_node *scaled_by(const struct pz_onnx_graph *g, struct pz_onnx_node *last,
                                      uint32_t in[4]) {
  uint32_t via = PZ_NONE;
  struct pz_onnx_node *next = only_user(g, last->out[0], &via);
  if (!is(next, "Mul") || !has_out(next) || scale_of(g, other(next, via)) == PZ_NONE) return last;
  in[1] = scale_of(g, other(next, via));
  last = next;
  next = only_user(g, last->out[0], &via);
  if (!is(next, "Add") || !has_out(next) || !is_weight_view(g, other(next, via))) return last;
  in[2] = plain(g, other(next, via));
  return next;
}

static enum pz_status find_norm(struct pz_onnx_graph *g, struct pz_onnx_node *root) {
  if (!has_out(root)) return PZ_OK;
  uint32_t d = deviation_of(g, root);
  struct pz_onnx_node *last = d == PZ_NONE ? NULL : normalised(g, root, d);
  if (!last) return PZ_OK;
  bool centred;
  uint32_t in[4] = {centre_of(g, d, &centred), PZ_NONE, PZ_NONE, PZ_NONE};
  last = scaled_by(g, last, in);
  return become(g, last, centred ? PZ_OP_LAYERNORM : PZ_OP_RMSNORM, in);
}

/* A group norm that is taken apart: reshape(x) to groups, an instance norm, back, scale and shift.
 * in[3] keeps the rows. */
static enum pz_status find_group_norm(struct pz_onnx_graph *g, struct pz_onnx_node *norm) {
  const struct pz_onnx_node *groups = norm->n_in ? maker(g, norm->in[0]) : NULL;
  uint32_t via;
  if (!is(groups, "Reshape") || !groups->n_in || groups->in[0] == PZ_NONE || !has_out(norm))
    return PZ_OK;
  struct pz_onnx_node *back = only_user(g, norm->out[0], &via);
  if (!is(back, "Reshape") || !has_out(back)) return PZ_OK;
  uint32_t in[4] = {groups->in[0], PZ_NONE, PZ_NONE, norm->in[0]};
  struct pz_onnx_node *last = scaled_by(g, back, in);
  if (in[2] == PZ_NONE) return PZ_OK;
  return become(g, last, PZ_OP_LAYERNORM, in);
}

/* ---- activations ---------------------------------------------------------------------------- */

static bool is_elementwise(const struct pz_onnx_node *n) {
  return n && n->fused < 0 && n->op->elementwise;
}

/* Is v a function of x and numbers, element by element? */
static bool derived(const struct pz_onnx_graph *g, uint32_t v, uint32_t x, int depth) {
  if (v == PZ_NONE) return false;
  v = plain(g, v);
  if (v == x) return true;
  const struct pz_onnx_node *n = maker(g, v);
  if (!is_elementwise(n) || depth == 0) return false;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (!is_scalar(g, n->in[i]) && !derived(g, n->in[i], x, depth - 1)) return false;
  return n->n_in > 0;
}

/* The value x such that `o` is x, or x times a number, and `inner` is a function of x. */
static uint32_t common_source(const struct pz_onnx_graph *g, uint32_t inner, uint32_t o) {
  uint32_t x = plain(g, o);
  if (derived(g, inner, x, DEEPEST)) return x;
  const struct pz_onnx_node *n = maker(g, x);
  if (!(is(n, "Mul") || is(n, "Div")) || n->n_in != 2) return PZ_NONE;
  for (int i = 0; i < 2; i++)
    if (is_scalar(g, n->in[i])) {
      x = plain(g, n->in[1 - i]);
      return derived(g, inner, x, DEEPEST) ? x : PZ_NONE;
    }
  return PZ_NONE;
}

/* x f(x) with numbers in between, from the node that makes f: GELU in its forms, SiLU. */
static enum pz_status find_activation(struct pz_onnx_graph *g, struct pz_onnx_node *anchor,
                                      int kind) {
  if (!has_out(anchor) || !anchor->n_in || anchor->in[0] == PZ_NONE) return PZ_OK;
  struct pz_onnx_node *last = NULL;
  uint32_t x = PZ_NONE, via = anchor->out[0];
  for (int i = 0; i < LONGEST; i++) {
    struct pz_onnx_node *n = only_user(g, last ? last->out[0] : via, &via);
    bool scales = is(n, "Mul") || is(n, "Div"), shifts = is(n, "Add") || is(n, "Sub");
    if (!(scales || shifts) || n->n_in != 2 || !has_out(n)) break;
    uint32_t o = other(n, via);
    if (is_scalar(g, o) && (x == PZ_NONE || scales)) {
      if (x != PZ_NONE)
        last = n;
      else
        via = n->out[0];
      continue;
    }
    uint32_t source = x == PZ_NONE && is(n, "Mul") ? common_source(g, anchor->in[0], o) : PZ_NONE;
    if (source == PZ_NONE) break;
    x = source;
    last = n;
  }
  if (!last) return PZ_OK;
  return become(g, last, kind, (uint32_t[4]){x, PZ_NONE, PZ_NONE, PZ_NONE});
}

/* silu(x) * y */
static enum pz_status find_gated(struct pz_onnx_graph *g, struct pz_onnx_node *silu) {
  uint32_t via;
  struct pz_onnx_node *n = only_user(g, silu->out[0], &via);
  if (!is(n, "Mul") || n->n_in != 2) return PZ_OK;
  uint32_t y = other(n, via);
  if (y == PZ_NONE || is_scalar(g, y) || is_weight(g, y)) return PZ_OK;
  return become(g, n, PZ_OP_SWIGLU, (uint32_t[4]){silu->in[0], y, PZ_NONE, PZ_NONE});
}

/* ---- rotary --------------------------------------------------------------------------------- */

static bool is_view(const struct pz_onnx_node *n) {
  return n && n->fused < 0 && n->op->rule == PZ_LOWER_VIEW && n->n_in && n->in[0] != PZ_NONE;
}

/* The node that makes v, behind views. */
static const struct pz_onnx_node *view_maker(const struct pz_onnx_graph *g, uint32_t v) {
  const struct pz_onnx_node *n = maker(g, v);
  for (int i = 0; i < LONGEST && is_view(n); i++) n = maker(g, n->in[0]);
  return n;
}

/* x where v is some of its columns. */
static uint32_t part_of(const struct pz_onnx_graph *g, uint32_t v) {
  const struct pz_onnx_node *n = view_maker(g, v);
  return (is(n, "Slice") || is(n, "Split") || is(n, "Gather")) && n->n_in ? n->in[0] : PZ_NONE;
}

/* concat(-x2, x1) of halves, or of every other column as pairs: x, or PZ_NONE. */
static uint32_t half_turned(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  if (n->n_in != 2) return PZ_NONE;
  const struct pz_onnx_node *neg = view_maker(g, n->in[0]);
  if (!is(neg, "Neg") || !neg->n_in) return PZ_NONE;
  uint32_t a = part_of(g, neg->in[0]), b = part_of(g, n->in[1]);
  return a == b ? a : PZ_NONE;
}

/* The one node that reads v, behind views. */
static struct pz_onnx_node *only_user_of_view(const struct pz_onnx_graph *g, uint32_t v,
                                              uint32_t *via) {
  struct pz_onnx_node *n = only_user(g, v, via);
  for (int i = 0; i < LONGEST && is_view(n) && has_out(n); i++) n = only_user(g, n->out[0], via);
  return n;
}

static void mark_table(struct pz_onnx_graph *g, uint32_t v) { pz_onnx_value(g, v)->table = true; }

/* x cos + half_turned(x) sin */
static enum pz_status find_rotary(struct pz_onnx_graph *g, struct pz_onnx_node *turn) {
  uint32_t x = half_turned(g, turn), via;
  struct pz_onnx_node *mul =
      x == PZ_NONE || !has_out(turn) ? NULL : only_user_of_view(g, turn->out[0], &via);
  if (!is(mul, "Mul") || !has_out(mul)) return PZ_OK;
  uint32_t sin = other(mul, via);
  struct pz_onnx_node *sum = only_user(g, mul->out[0], &via);
  if (!is(sum, "Add") || sin == PZ_NONE) return PZ_OK;
  const struct pz_onnx_node *straight = plain_maker(g, other(sum, via));
  if (!is(straight, "Mul") || straight->n_in != 2) return PZ_OK;
  if (plain(g, straight->in[0]) != plain(g, x) && plain(g, straight->in[1]) != plain(g, x))
    return PZ_OK;
  bool second = plain(g, straight->in[0]) == plain(g, x);
  uint32_t cos = straight->in[second ? 1 : 0];
  if (cos == PZ_NONE) return PZ_OK;
  mark_table(g, cos);
  mark_table(g, sin);
  return become(g, sum, PZ_OP_ROTARY, (uint32_t[4]){x, cos, sin, PZ_NONE});
}

/* ---- products ------------------------------------------------------------------------------- */

/* x W + b with b as wide as the result. */
static enum pz_status find_bias(struct pz_onnx_graph *g, struct pz_onnx_node *product) {
  uint32_t via;
  if (product->n_in != 2 || !has_out(product) || !is_weight_view(g, product->in[1])) return PZ_OK;
  struct pz_onnx_node *sum = only_user(g, product->out[0], &via);
  if (!is(sum, "Add") || !has_out(sum)) return PZ_OK;
  uint32_t bias = other(sum, via);
  if (bias == PZ_NONE || !is_weight_view(g, bias)) return PZ_OK;
  const struct pz_onnx_value *b = pz_onnx_value(g, bias), *y = pz_onnx_value(g, via),
                             *w = pz_onnx_value(g, product->in[1]);
  if (b->rank < 1 || b->rank > y->rank || w->rank != 2) return PZ_OK;
  for (int i = 0; i < b->rank; i++)
    if (b->dim[i] != (i + 1 < b->rank ? 1 : y->dim[y->rank - 1])) return PZ_OK;
  return become(g, sum, PZ_OP_MATMUL, (uint32_t[4]){product->in[0], product->in[1], bias, PZ_NONE});
}

/* ---- guards --------------------------------------------------------------------------------- */

/* A softmax of rows that are masked whole is no number, and exporters put zeros there:
 * where(isnan(x), 0, x) is x. */
static enum pz_status find_guard(struct pz_onnx_graph *g, struct pz_onnx_node *n) {
  const struct pz_onnx_node *test = n->n_in == 3 ? plain_maker(g, n->in[0]) : NULL;
  if (!is(test, "IsNaN") || !test->n_in || test->in[0] != n->in[2] || !is_scalar(g, n->in[1]))
    return PZ_OK;
  n->type = "Identity";
  n->op = pz_onnx_op_find("", n->type);
  n->in = &n->in[2];
  n->n_in = 1;
  return PZ_OK;
}

/* ---- all ------------------------------------------------------------------------------------ */

static enum pz_status find_at(struct pz_onnx_graph *g, struct pz_onnx_node *n, bool eager) {
  if (is(n, "MatMul")) return find_bias(g, n);
  if (eager) return PZ_OK;
  if (is(n, "Sqrt")) return find_norm(g, n);
  if (is(n, "InstanceNormalization")) return find_group_norm(g, n);
  if (is(n, "Erf") || is(n, "Tanh")) return find_activation(g, n, PZ_OP_GELU);
  if (is(n, "Sigmoid") || is(n, "HardSigmoid")) return find_activation(g, n, PZ_OP_SILU);
  if (is(n, "Concat")) return find_rotary(g, n);
  if (is(n, "Where")) return find_guard(g, n);
  if (n->fused == PZ_OP_SILU) return find_gated(g, n);
  return PZ_OK;
}

enum pz_status pz_onnx_patterns(struct pz_onnx_graph *g, bool eager) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < g->nodes.n && status == PZ_OK; i++)
    status = find_at(g, pz_onnx_node(g, i), eager);
  return status;
}

/* From softmax up to the product that makes the scores, and down to the one that uses them. */
static enum pz_status find_attention(struct pz_onnx_graph *g, const struct pz_onnx_node *softmax) {
  uint32_t via = softmax->in[0];
  const struct pz_onnx_node *scores = plain_maker(g, via);
  for (int i = 0; i < LONGEST && scores && scores->op->elementwise && scores->n_in; i++) {
    uint32_t next = PZ_NONE;
    for (uint32_t k = 0; k < scores->n_in; k++)
      if (scores->in[k] != PZ_NONE && pz_onnx_value(g, scores->in[k])->role == PZ_ONNX_ACT)
        next = scores->in[k];
    scores = next == PZ_NONE ? NULL : plain_maker(g, next);
  }
  struct pz_onnx_node *context = only_user(g, softmax->out[0], &via);
  if (!is(scores, "MatMul") || !is(context, "MatMul") || scores->n_in != 2) return PZ_OK;
  if (context->n_in != 2 || context->in[0] != via || !has_out(context)) return PZ_OK;
  const struct pz_onnx_value *q = pz_onnx_value(g, scores->in[0]),
                             *k = pz_onnx_value(g, scores->in[1]);
  if (q->role != PZ_ONNX_ACT || k->role != PZ_ONNX_ACT || q->rank < 3 || k->rank != q->rank)
    return PZ_OK;
  return become(g, context, PZ_OP_ATTENTION,
                (uint32_t[4]){scores->in[0], scores->in[1], context->in[1], PZ_NONE});
}

enum pz_status pz_onnx_attention_patterns(struct pz_onnx_graph *g) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < g->nodes.n && status == PZ_OK; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(g, i);
    if (is(n, "Softmax") && has_out(n) && n->n_in && n->in[0] != PZ_NONE)
      status = find_attention(g, n);
  }
  return status;
}

/* (s * number) + mask: the sum takes s itself, and counts the scaling. */
void pz_onnx_mask_patterns(struct pz_onnx_graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    struct pz_onnx_node *n = pz_onnx_node(g, i);
    if (!is(n, "Add") || n->n_in != 2 || !has_out(n)) continue;
    for (int k = 0; k < 2; k++) {
      if (n->in[0] == PZ_NONE || n->in[1] == PZ_NONE) break;
      const struct pz_onnx_value *mask = pz_onnx_value(g, n->in[k]);
      const struct pz_onnx_node *scale = maker(g, n->in[1 - k]);
      if (mask->role != PZ_ONNX_DATA || is_scalar(g, n->in[k])) continue;
      if (pz_onnx_value(g, n->in[1 - k])->role != PZ_ONNX_ACT) continue;
      if (!(is(scale, "Mul") || is(scale, "Div")) || scale->n_in != 2) continue;
      if (pz_onnx_value(g, n->in[1 - k])->n_users != 1) continue;
      for (int s = 0; s < 2; s++)
        if (is_scalar(g, scale->in[s]) && scale->in[1 - s] != PZ_NONE) {
          n->in[1 - k] = scale->in[1 - s];
          break;
        }
    }
  }
}
