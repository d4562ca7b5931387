#include "onnx/einsum.h"

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

int pz_onnx_einsum_find(const struct pz_onnx_term *t, int letter) {
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
    bool a = pz_onnx_einsum_find(&e.in[0], k) >= 0, b = pz_onnx_einsum_find(&e.in[1], k) >= 0,
         y = pz_onnx_einsum_find(&e.out, k) >= 0;
    int64_t *side = a && b ? (y ? &d->batch : &d->k) : a ? (y ? &d->m : &d->k) : &d->n;
    if ((a || b) && !pz_mul(side, e.size[k])) return false;
  }
  return true;
}
