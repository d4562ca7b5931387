#include "onnx/passes.h"

#include <math.h>
#include <string.h>

#include "core/num.h"
#include "onnx/dims.h"

static int64_t *alloc_ints(struct pz_onnx_graph *g, int64_t n) {
  return pz_arena_alloc(g->arena, (size_t)n, sizeof(int64_t));
}

/* ---- contents ------------------------------------------------------------------------------- */

/* Known contents of a value: integers, or a few real numbers. */
struct known {
  const int64_t *ints;
  const double *reals;
  int64_t n; /* 0: nothing is known */
};

static struct known known(const struct pz_onnx_value *v) {
  int64_t n;
  if (!v || v->rank < 0 || !pz_onnx_elems(v, &n) || n < 1) return (struct known){0};
  if (v->ints && v->n_ints == n) return (struct known){v->ints, NULL, n};
  if (v->reals && v->n_reals == n) return (struct known){NULL, v->reals, n};
  if (v->has_real && n == 1) return (struct known){NULL, &v->real, 1};
  return (struct known){0};
}

static double real_at(const struct known *k, int64_t i) {
  return k->ints ? (double)k->ints[i] : k->reals[i];
}

/* Results: integers, or real numbers where there are few of them. */
struct fresh {
  struct pz_onnx_value *y;
  int64_t *ints;
  double *reals;
  int64_t n;
};

/* Memory for the contents of y; n = 0 where they are not followed.  False: out of memory. */
static bool fresh(struct pz_onnx_graph *g, struct pz_onnx_value *y, bool real, struct fresh *f) {
  *f = (struct fresh){.y = y};
  if (y->rank < 0 || !pz_onnx_elems(y, &f->n)) f->n = 0;
  if (f->n > (real ? PZ_ONNX_MOST_RANK : PZ_ONNX_MOST_INTS)) f->n = 0;
  if (real)
    f->reals = pz_arena_alloc(g->arena, (size_t)f->n, sizeof *f->reals);
  else
    f->ints = alloc_ints(g, f->n);
  return f->ints || f->reals;
}

static void settle(const struct fresh *f) {
  if (f->ints) {
    pz_onnx_set_ints(f->y, f->ints, f->n);
    return;
  }
  f->y->reals = f->reals;
  f->y->n_reals = (uint32_t)f->n;
  f->y->has_real = f->n == 1;
  if (f->n == 1) f->y->real = f->reals[0];
}

/* ---- walks ---------------------------------------------------------------------------------- */

/* Goes over the elements of a result and tells where each comes from in an operand. */
struct walk {
  int rank;
  int64_t dim[PZ_ONNX_MOST_RANK], step[PZ_ONNX_MOST_RANK], first;
};

static int64_t walk_at(const struct walk *w, int64_t i) {
  int64_t at = w->first;
  for (int d = w->rank; d-- > 0; i /= w->dim[d]) at += i % w->dim[d] * w->step[d];
  return at;
}

/* Distance between neighbours along dimension d. */
static int64_t stride(const struct pz_onnx_value *x, int d) {
  int64_t n = 1;
  for (int i = d + 1; i < x->rank; i++) n *= x->dim[i];
  return n;
}

/* The elements of x in the shape of y, repeated where x has size 1. */
static struct walk spread(const struct pz_onnx_value *x, const struct pz_onnx_value *y) {
  struct walk w = {.rank = y->rank};
  for (int d = 0; d < y->rank; d++) {
    int i = d - (y->rank - x->rank);
    w.dim[d] = y->dim[d];
    w.step[d] = i >= 0 && x->dim[i] > 1 ? stride(x, i) : 0;
  }
  return w;
}

static struct walk transposed(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                              const struct pz_onnx_value *x, const struct pz_onnx_value *y) {
  struct walk w = {.rank = y->rank};
  for (int d = 0; d < y->rank; d++) {
    int from = pz_onnx_source_dim(g, n, y, 0, d);
    w.dim[d] = y->dim[d];
    w.step[d] = from >= 0 ? stride(x, from) : 0;
  }
  return w;
}

static struct walk sliced(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                          const struct pz_onnx_value *x, const struct pz_onnx_value *y) {
  struct walk w = spread(x, y);
  struct pz_onnx_range part[PZ_ONNX_MOST_RANK] = {{0, 0, 0}};
  if (x->rank != y->rank || !pz_onnx_slice_of(g, n, part)) return (struct walk){.first = -1};
  for (int d = 0; d < x->rank; d++) {
    w.first += part[d].from * stride(x, d);
    w.step[d] = part[d].count > 1 ? part[d].step * stride(x, d) : 0;
  }
  return w;
}

/* Copy along a walk. */
static bool copy(struct pz_onnx_graph *g, const struct pz_onnx_value *x, const struct walk *w,
                 struct pz_onnx_value *y) {
  struct known k = known(x);
  struct fresh f;
  if (!k.n || y->rank != w->rank) return true;
  if (!fresh(g, y, !k.ints, &f)) return false;
  for (int64_t i = 0; i < f.n; i++) {
    int64_t at = walk_at(w, i);
    if (at < 0 || at >= k.n) return true;
    if (k.ints)
      f.ints[i] = k.ints[at];
    else
      f.reals[i] = k.reals[at];
  }
  settle(&f);
  return true;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Integers by integers; false where there is no result. */
static bool combine_ints(const char *type, int64_t x, int64_t z, int64_t *y) {
  *y = x;
  if (strcmp(type, "Add") == 0) return pz_add(y, z);
  if (strcmp(type, "Sub") == 0) return z != INT64_MIN && pz_add(y, -z);
  if (strcmp(type, "Mul") == 0) return pz_mul(y, z);
  bool divides = z != 0 && !(x == INT64_MIN && z == -1);
  if (strcmp(type, "Div") == 0) *y = divides ? x / z : 0;
  if (strcmp(type, "Mod") == 0) {
    *y = divides ? x % z : 0;
    if (*y != 0 && (*y < 0) != (z < 0)) *y += z; /* the sign of the divisor */
  }
  if (strcmp(type, "Div") == 0 || strcmp(type, "Mod") == 0) return divides;
  if (strcmp(type, "Max") == 0) return *y = x > z ? x : z, true;
  if (strcmp(type, "Min") == 0) return *y = x < z ? x : z, true;
  if (strcmp(type, "And") == 0) return *y = x && z, true;
  if (strcmp(type, "Or") == 0) return *y = x || z, true;
  return false;
}

static bool combine_reals(const char *type, double x, double z, double *y) {
  if (strcmp(type, "Add") == 0) return *y = x + z, true;
  if (strcmp(type, "Sub") == 0) return *y = x - z, true;
  if (strcmp(type, "Mul") == 0) return *y = x * z, true;
  if (strcmp(type, "Div") == 0) return *y = x / z, z < 0 || z > 0;
  if (strcmp(type, "Pow") == 0) return *y = pow(x, z), isfinite(*y);
  if (strcmp(type, "Max") == 0) return *y = x > z ? x : z, true;
  if (strcmp(type, "Min") == 0) return *y = x < z ? x : z, true;
  return false;
}

static bool compare(const char *type, double x, double z, int64_t *y) {
  if (strcmp(type, "Equal") == 0) return *y = !(x < z) && !(x > z), true;
  if (strcmp(type, "Greater") == 0) return *y = x > z, true;
  if (strcmp(type, "GreaterOrEqual") == 0) return *y = x >= z, true;
  if (strcmp(type, "Less") == 0) return *y = x < z, true;
  if (strcmp(type, "LessOrEqual") == 0) return *y = x <= z, true;
  return false;
}

static bool binary(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *a = pz_onnx_in(g, n, 0), *b = pz_onnx_in(g, n, 1);
  struct known ka = known(a), kb = known(b);
  int64_t sign;
  bool compares = compare(n->type, 0, 0, &sign);
  struct fresh f;
  if (n->n_in != 2 || !ka.n || !kb.n || y->rank < a->rank || y->rank < b->rank) return true;
  bool real = !compares && !(ka.ints && kb.ints);
  if (!fresh(g, y, real, &f)) return false;
  struct walk wa = spread(a, y), wb = spread(b, y);
  for (int64_t i = 0; i < f.n; i++) {
    int64_t p = walk_at(&wa, i), q = walk_at(&wb, i);
    if (p >= ka.n || q >= kb.n) return true;
    bool ok = compares ? compare(n->type, real_at(&ka, p), real_at(&kb, q), &f.ints[i])
              : real   ? combine_reals(n->type, real_at(&ka, p), real_at(&kb, q), &f.reals[i])
                       : combine_ints(n->type, ka.ints[p], kb.ints[q], &f.ints[i]);
    if (!ok) return true;
  }
  settle(&f);
  return true;
}

static bool where(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  struct known k[3];
  struct walk w[3];
  struct fresh f;
  for (uint32_t i = 0; i < 3; i++) {
    const struct pz_onnx_value *v = pz_onnx_in(g, n, i);
    k[i] = known(v);
    if (!k[i].n || !k[i].ints || v->rank > y->rank) return true;
    w[i] = spread(v, y);
  }
  if (!fresh(g, y, false, &f)) return false;
  for (int64_t i = 0; i < f.n; i++) {
    int64_t at = walk_at(&w[0], i);
    if (at >= k[0].n) return true;
    int pick = k[0].ints[at] ? 1 : 2;
    at = walk_at(&w[pick], i);
    if (at >= k[pick].n) return true;
    f.ints[i] = k[pick].ints[at];
  }
  settle(&f);
  return true;
}

static bool concat(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  struct fresh f;
  int axis = pz_onnx_axis(pz_onnx_int(n, "axis", 0), y->rank);
  bool real = n->n_in > 0 && !known(pz_onnx_in(g, n, 0)).ints;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const struct pz_onnx_value *v = pz_onnx_in(g, n, i);
    /* an empty one is known */
    if (!v || v->rank != y->rank || axis < 0 || (v->dim[axis] > 0 && !known(v).n)) return true;
    if (v->dim[axis] > 0 && (known(v).ints == NULL) != real) return true;
  }
  if (!fresh(g, y, real, &f)) return false;
  int64_t inner = stride(y, axis), before = 0;
  for (uint32_t i = 0; i < n->n_in && f.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_in(g, n, i);
    struct known k = known(v);
    int64_t run = v->dim[axis] * inner;
    for (int64_t e = 0; e < k.n; e++) {
      int64_t at = e / run * y->dim[axis] * inner + before + e % run;
      if (at >= f.n) return true;
      if (real)
        f.reals[at] = k.reals[e];
      else
        f.ints[at] = k.ints[e];
    }
    before += run;
  }
  settle(&f);
  return true;
}

/* Elements by index along one axis. */
static bool gather(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0), *at = pz_onnx_in(g, n, 1);
  struct known k = known(x), index = known(at);
  int axis = k.n ? pz_onnx_axis(pz_onnx_int(n, "axis", 0), x->rank) : -1;
  struct fresh f;
  if (!k.ints || !index.ints || axis < 0) return true;
  if (!fresh(g, y, false, &f)) return false;
  int64_t inner = stride(x, axis);
  for (int64_t i = 0; i < f.n; i++) {
    int64_t row = i / inner, j = index.ints[row % index.n];
    if (j < 0) j += x->dim[axis];
    if (j < 0 || j >= x->dim[axis]) return true;
    int64_t from = (row / index.n * x->dim[axis] + j) * inner + i % inner;
    if (from >= k.n) return true;
    f.ints[i] = k.ints[from];
  }
  settle(&f);
  return true;
}

/* All parts of a vector. */
static bool split(struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!known(x).n || x->rank != 1) return true;
  int64_t before = 0;
  for (uint32_t o = 0; o < n->n_out; o++) {
    struct pz_onnx_value *y = n->out[o] == PZ_NONE ? NULL : pz_onnx_value(g, n->out[o]);
    if (!y || y->rank != 1) return true;
    struct walk w = {.rank = 1, .dim = {y->dim[0]}, .step = {1}, .first = before};
    if (!copy(g, x, &w, y)) return false;
    before += y->dim[0];
  }
  return true;
}

/* A reduction of all elements to one. */
static bool reduce(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  struct known k = known(pz_onnx_in(g, n, 0));
  static const char *const by[][2] = {
      {"ReduceProd", "Mul"}, {"ReduceSum", "Add"}, {"ReduceMax", "Max"}, {"ReduceMin", "Min"}};
  int64_t count;
  if (!k.ints || !pz_onnx_elems(y, &count) || count != 1) return true;
  int64_t *out = alloc_ints(g, 1);
  if (!out) return false;
  for (size_t t = 0; t < sizeof by / sizeof *by; t++) {
    if (strcmp(n->type, by[t][0]) != 0) continue;
    out[0] = k.ints[0];
    for (int64_t i = 1; i < k.n; i++)
      if (!combine_ints(by[t][1], out[0], k.ints[i], &out[0])) return true;
    pz_onnx_set_ints(y, out, 1);
  }
  return true;
}

/* All elements the same: the attribute `value`, zero by default. */
static bool filled(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const Onnx__AttributeProto *a = pz_onnx_attr(n, "value");
  int64_t count, v = 0;
  if (!pz_onnx_elems(y, &count) || count > PZ_ONNX_MOST_INTS) return true;
  bool ok = true;
  if (a && a->t) v = pz_onnx_tensor_int(a->t, a->t->data_type, 0, &ok);
  int64_t *out = ok ? alloc_ints(g, count) : NULL;
  if (!out) return !ok;
  for (int64_t i = 0; i < count; i++) out[i] = v;
  pz_onnx_set_ints(y, out, count);
  return true;
}

bool pz_onnx_is_ones(const struct pz_onnx_graph *g, const struct pz_onnx_value *v) {
  const struct pz_onnx_node *n = v->maker == PZ_NONE ? NULL : pz_onnx_node(g, v->maker);
  const Onnx__AttributeProto *a =
      n && n->op->shape == PZ_SHAPE_FILLED ? pz_onnx_attr(n, "value") : 0;
  if (!a || !a->t) return false;
  bool ok = true;
  if (!pz_onnx_is_float(a->t->data_type))
    return pz_onnx_tensor_int(a->t, a->t->data_type, 0, &ok) && ok;
  struct pz_onnx_value one = {.type = a->t->data_type};
  pz_onnx_tensor_real(&one, a->t);
  return one.has_real && (one.real < 0 || one.real > 0);
}

static bool range(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *from = pz_onnx_in(g, n, 0), *step = pz_onnx_in(g, n, 2);
  if (!from || !from->ints || !step || !step->ints || y->rank != 1) return true;
  if (!from->n_ints || !step->n_ints || y->dim[0] > PZ_ONNX_MOST_INTS) return true;
  int64_t *out = alloc_ints(g, y->dim[0]), v = from->ints[0];
  if (!out) return false;
  for (int64_t i = 0; i < y->dim[0]; i++) {
    out[i] = v;
    if (!pz_add(&v, step->ints[0])) return true;
  }
  pz_onnx_set_ints(y, out, y->dim[0]);
  return true;
}

static void shape(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!x || x->rank < 0) return;
  for (int i = 0; i < x->rank; i++)
    if (x->dim[i] < 0) return;
  int64_t from = pz_onnx_clamp(pz_onnx_int(n, "start", 0), x->rank, 0, x->rank),
          to = pz_onnx_clamp(pz_onnx_int(n, "end", x->rank), x->rank, 0, x->rank);
  int64_t *dims = alloc_ints(g, x->rank);
  if (!dims) return;
  memcpy(dims, x->dim, (size_t)x->rank * sizeof *dims);
  pz_onnx_set_ints(y, dims + from, from < to ? to - from : 0);
}

static bool size(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  int64_t *count = alloc_ints(g, 1);
  if (!count) return false;
  if (x && x->rank >= 0 && pz_onnx_elems(x, count)) pz_onnx_set_ints(y, count, 1);
  return true;
}

/* The result has the contents of the first input, in the same order. */
static void same(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!x) return;
  if (x->ints) pz_onnx_set_ints(y, x->ints, x->n_ints);
  y->reals = x->reals;
  y->n_reals = x->n_reals;
  if (x->has_real) {
    y->has_real = true;
    y->real = x->real;
  }
}

/* Real numbers become integers, and the other way round. */
static bool cast(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  struct known k = known(pz_onnx_in(g, n, 0));
  bool real = pz_onnx_is_float(y->type);
  struct fresh f;
  same(g, n, y);
  if (!k.n || !y->type || real == !k.ints) return true;
  y->ints = NULL;
  y->n_ints = 0;
  if (!fresh(g, y, real, &f)) return false;
  for (int64_t i = 0; i < f.n; i++) {
    double v = real_at(&k, i);
    if (real)
      f.reals[i] = v;
    else if (v > -9e18 && v < 9e18)
      f.ints[i] = (int64_t)v;
    else
      return true;
  }
  settle(&f);
  return true;
}

static bool apply(const char *type, double x, double *y) {
  if (strcmp(type, "Floor") == 0) return *y = floor(x), true;
  if (strcmp(type, "Ceil") == 0) return *y = ceil(x), true;
  if (strcmp(type, "Round") == 0) return *y = nearbyint(x), true;
  if (strcmp(type, "Sqrt") == 0) return *y = sqrt(x), x >= 0;
  if (strcmp(type, "Reciprocal") == 0) return *y = 1 / x, x < 0 || x > 0;
  if (strcmp(type, "Neg") == 0) return *y = -x, true;
  return false;
}

/* One number by one number. */
static bool unary(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  struct known k = known(pz_onnx_in(g, n, 0));
  struct fresh f;
  double r;
  bool negates = strcmp(n->type, "Neg") == 0, inverts = strcmp(n->type, "Not") == 0;
  if (!k.n || (k.ints ? !negates && !inverts : !apply(n->type, 1, &r))) return true;
  if (!fresh(g, y, !k.ints, &f)) return false;
  for (int64_t i = 0; i < f.n; i++) {
    if (k.ints)
      f.ints[i] = inverts ? !k.ints[i] : k.ints[i] == INT64_MIN ? INT64_MAX : -k.ints[i];
    else if (!apply(n->type, k.reals[i], &f.reals[i]))
      return true;
  }
  settle(&f);
  return true;
}

/* Elements along a walk over the first input. */
static bool move(struct pz_onnx_graph *g, const struct pz_onnx_node *n, struct pz_onnx_value *y) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0);
  if (!known(x).n || y->rank < 0) return true;
  struct walk w = n->op->shape == PZ_SHAPE_SLICE       ? sliced(g, n, x, y)
                  : n->op->shape == PZ_SHAPE_TRANSPOSE ? transposed(g, n, x, y)
                                                       : spread(x, y);
  return copy(g, x, &w, y);
}

bool pz_onnx_constant_node(struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  if (n->n_out < 1 || n->out[0] == PZ_NONE) return true;
  struct pz_onnx_value *y = pz_onnx_value(g, n->out[0]);
  switch (n->op->shape) {
  case PZ_SHAPE_SHAPE: shape(g, n, y); return true;
  case PZ_SHAPE_SCALAR: return size(g, n, y);
  case PZ_SHAPE_BROADCAST: return strcmp(n->type, "Where") == 0 ? where(g, n, y) : binary(g, n, y);
  case PZ_SHAPE_CONCAT: return y->rank < 0 || concat(g, n, y);
  case PZ_SHAPE_GATHER: return gather(g, n, y);
  case PZ_SHAPE_SLICE:
  case PZ_SHAPE_TRANSPOSE:
  case PZ_SHAPE_EXPAND: return move(g, n, y);
  case PZ_SHAPE_SPLIT: return split(g, n);
  case PZ_SHAPE_REDUCE: return reduce(g, n, y);
  case PZ_SHAPE_FILLED: return filled(g, n, y);
  case PZ_SHAPE_RANGE: return range(g, n, y);
  default: break;
  }
  if (strcmp(n->type, "Cast") == 0) return cast(g, n, y);
  if (n->op->rule == PZ_LOWER_VIEW) same(g, n, y);
  return n->op->shape != PZ_SHAPE_SAME || n->op->rule == PZ_LOWER_VIEW || unary(g, n, y);
}
