#include "onnx/dims.h"

#include <string.h>

#include "core/num.h"

/* Letters from here on stand for the dimensions of an ellipsis, the last one for the rightmost. */
enum { FIRST_UNNAMED = 52 };

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* One term of an equation of `len` bytes from *at on; `unnamed` dimensions are an ellipsis'. */
static bool read_term(const uint8_t *text, size_t len, size_t *at, int unnamed,
                      struct pz_onnx_term *t) {
  *t = (struct pz_onnx_term){0};
  for (; *at < len && text[*at] != ',' && text[*at] != '-'; ++*at) {
    if (text[*at] == ' ') continue;
    if (*at + 3 <= len && memcmp(text + *at, "...", 3) == 0) {
      for (int i = 0; i < unnamed && t->rank < PZ_ONNX_MOST_RANK; i++)
        t->letter[t->rank++] = (uint8_t)(PZ_EINSUM_MOST_LETTERS - unnamed + i);
      *at += 2;
      continue;
    }
    const char *place = text[*at] ? strchr(alphabet, text[*at]) : NULL;
    if (!place || t->rank == PZ_ONNX_MOST_RANK) return false;
    t->letter[t->rank++] = (uint8_t)(place - alphabet);
  }
  return true;
}

/* How many dimensions the ellipsis of operand k stands for. */
static int unnamed_dims(const struct pz_onnx_value *v, const uint8_t *text, size_t len, size_t at) {
  struct pz_onnx_term named;
  if (!v || v->rank < 0 || !read_term(text, len, &at, 0, &named)) return -1;
  int n = v->rank - named.rank;
  return n <= PZ_EINSUM_MOST_LETTERS - FIRST_UNNAMED ? n : -1;
}

static bool read_sizes(struct pz_onnx_einsum *e, const struct pz_onnx_value *v, int k) {
  if (e->in[k].rank != v->rank) return false;
  for (int i = 0; i < v->rank; i++) {
    int64_t *size = &e->size[e->in[k].letter[i]];
    if (*size > 1 && v->dim[i] > 1 && *size != v->dim[i]) return false;
    if (v->dim[i] > *size) *size = v->dim[i];
  }
  return true;
}

bool pz_onnx_einsum_read(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                         struct pz_onnx_einsum *e) {
  const Onnx__AttributeProto *a = pz_onnx_attr(n, "equation");
  if (!a || !a->has_s || n->n_in < 1 || n->n_in > 2) return false;
  const uint8_t *text = a->s.data;
  size_t len = a->s.len, at = 0;
  int most = 0;
  *e = (struct pz_onnx_einsum){0};
  for (uint32_t k = 0; k < n->n_in; k++, at++) {
    const struct pz_onnx_value *v = pz_onnx_in(g, n, k);
    int unnamed = unnamed_dims(v, text, len, at);
    if (unnamed < 0 || !read_term(text, len, &at, unnamed, &e->in[k])) return false;
    if (!read_sizes(e, v, (int)k)) return false;
    if (unnamed > most) most = unnamed;
    if (at >= len || text[at] != (k + 1 < n->n_in ? ',' : '-')) return false;
  }
  if (at >= len || text[at] != '>') return false;
  at++;
  return read_term(text, len, &at, most, &e->out) && at == len;
}

/* The dimension of a term that a letter stands for, or -1. */
static int find_letter(const struct pz_onnx_term *t, int letter) {
  for (int i = 0; i < t->rank; i++)
    if (t->letter[i] == letter) return i;
  return -1;
}

bool pz_onnx_einsum_dims(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                         struct pz_dims *d) {
  struct pz_onnx_einsum e;
  if (n->n_in != 2 || !pz_onnx_einsum_read(g, n, &e)) return false;
  *d = (struct pz_dims){1, 1, 1, 1};
  for (int k = 0; k < PZ_EINSUM_MOST_LETTERS; k++) {
    bool a = find_letter(&e.in[0], k) >= 0, b = find_letter(&e.in[1], k) >= 0,
         y = find_letter(&e.out, k) >= 0;
    int64_t *side = a && b ? (y ? &d->batch : &d->k) : a ? (y ? &d->m : &d->k) : &d->n;
    if ((a || b) && !pz_mul(side, e.size[k])) return false;
  }
  return true;
}

/* ---- dimensions of a result --------------------------------------------------------------------- */

/* The dimension of the result y that each dimension of the input x becomes in a Squeeze or Unsqueeze;
 * -1 where it is dropped. */
static void kept_dims(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
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

static int matmul_source(const struct pz_onnx_value *x, bool left, int other_rank, int rank,
                         int i) {
  bool rows = left ? x->rank > 1 : other_rank > 1, cols = left ? other_rank > 1 : x->rank > 1;
  int outer = rank - rows - cols;
  if (i < outer) return i - (outer - (x->rank - 2));
  if (left) return rows && i == outer ? x->rank - 2 : -1;
  return cols && i == rank - 1 ? x->rank - 1 : -1;
}

static int gather_source(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, uint32_t k,
                         int i) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, 0), *at = pz_onnx_in(g, n, 1);
  int axis = x && at ? pz_onnx_axis(pz_onnx_int(n, "axis", 0), x->rank) : -1;
  if (axis < 0 || at->rank < 0) return -1;
  bool index = i >= axis && i < axis + at->rank;
  if (k) return index ? i - axis : -1;
  return index ? -1 : i < axis ? i : i + 1 - at->rank;
}

static int source_dim(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                      const struct pz_onnx_value *y, uint32_t k, int i) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, k), *other = pz_onnx_in(g, n, 1 - k);
  struct pz_onnx_einsum e;
  int to[PZ_ONNX_MOST_RANK], right = i - (y->rank - x->rank);
  size_t count;
  const int64_t *perm;
  switch (n->op->shape) {
  case PZ_SHAPE_RESHAPE:
  case PZ_SHAPE_FLATTEN:
  case PZ_SHAPE_SHAPE:
  case PZ_SHAPE_FILLED:
  case PZ_SHAPE_RANGE:
  case PZ_SHAPE_CONSTANT: return -1;
  case PZ_SHAPE_MATMUL:
    return k < 2 && other ? matmul_source(x, k == 0, other->rank, y->rank, i) : -1;
  case PZ_SHAPE_GEMM: return k == 0 && i == 0 ? pz_onnx_int(n, "transA", 0) != 0 : -1;
  case PZ_SHAPE_TRANSPOSE:
    perm = pz_onnx_ints(n, "perm", &count);
    return k ? -1 : (int)count == y->rank ? (int)perm[i] : y->rank - 1 - i;
  case PZ_SHAPE_GATHER: return k < 2 ? gather_source(g, n, k, i) : -1;
  case PZ_SHAPE_SQUEEZE:
  case PZ_SHAPE_UNSQUEEZE:
    kept_dims(g, n, x, y, to);
    for (int d = 0; d < x->rank && k == 0; d++)
      if (to[d] == i) return d;
    return -1;
  case PZ_SHAPE_REDUCE:
  case PZ_SHAPE_ARG: return k ? -1 : pz_onnx_int(n, "keepdims", 1) ? right : i == 0 ? 0 : -1;
  case PZ_SHAPE_EXPAND:
  case PZ_SHAPE_TILE: return k ? -1 : right;
  case PZ_SHAPE_EINSUM:
    if (k > 1 || !pz_onnx_einsum_read(g, n, &e) || e.out.rank != y->rank) return -1;
    return find_letter(&e.in[k], e.out.letter[i]);
  default: return right;
  }
}

int pz_onnx_source_dim(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                       const struct pz_onnx_value *y, uint32_t k, int i) {
  const struct pz_onnx_value *x = pz_onnx_in(g, n, k);
  int d = x && x->rank >= 0 ? source_dim(g, n, y, k, i) : -1;
  return d >= 0 && d < x->rank ? d : -1;
}
