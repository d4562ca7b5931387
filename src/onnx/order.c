#include "onnx/plan.h"

uint32_t pz_onnx_made_at(const struct pz_onnx_plan *p, uint32_t value) {
  const struct pz_onnx_value *v = pz_onnx_value(p->g, value);
  return v->maker == PZ_NONE ? PZ_NONE : p->place[v->maker];
}

/* Does a node become an operator?  Views do not, nor what has no gradient. */
static bool is_operator(const struct pz_onnx_graph *g, const struct pz_onnx_node *n) {
  if (n->gone) return false;
  for (uint32_t o = 0; o < n->n_out; o++) {
    if (n->out[o] == PZ_NONE) continue;
    const struct pz_onnx_value *v = pz_onnx_value(g, n->out[o]);
    if (v->role == PZ_ONNX_ACT && v->root == n->out[o]) return true;
  }
  return false;
}

static void note_uses(struct pz_onnx_plan *p, uint32_t at) {
  const struct pz_onnx_node *n = pz_onnx_at(p, at);
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *v = pz_onnx_in(p->g, n, k);
    if (!v || v->role == PZ_ONNX_DATA) continue;
    if (p->first_use[v->root] == PZ_NONE) p->first_use[v->root] = at;
    p->last_use[v->root] = at;
  }
}

/* The loss is taken of the first floating-point output; of others those that nothing reads are
 * kept to the end. */
static void note_outputs(struct pz_onnx_plan *p) {
  p->result = PZ_NONE;
  for (uint32_t i = 0; i < p->g->outputs.n; i++) {
    uint32_t id = *pz_vec_at(&p->g->outputs, uint32_t, i);
    const struct pz_onnx_value *v = pz_onnx_value(p->g, id);
    if (v->role != PZ_ONNX_ACT || v->rank < 0) continue;
    if (p->result == PZ_NONE) p->result = id;
    if (p->result == id || p->last_use[v->root] == PZ_NONE) p->last_use[v->root] = p->n;
  }
}

/* At most one dimension above 1: a scale or a shift. */
static bool is_vector(const struct pz_onnx_value *v) {
  int wide = 0;
  for (int i = 0; i < v->rank; i++) wide += v->dim[i] > 1;
  return wide < 2;
}

bool pz_onnx_is_merged(const struct pz_onnx_plan *p, uint32_t value) {
  const struct pz_onnx_value *v = pz_onnx_value(p->g, value);
  return !p->strict && is_vector(pz_onnx_value(p->g, v->root));
}

bool pz_onnx_is_tied(const struct pz_onnx_plan *p, uint32_t value, uint32_t first, uint32_t n) {
  const struct pz_onnx_value *v = pz_onnx_value(p->g, value);
  uint32_t use = p->first_use[v->root];
  if (pz_onnx_is_merged(p, value)) return false;
  return use < first || use >= first + n;
}

bool pz_onnx_is_product(const struct pz_onnx_node *n) {
  return n->fused == PZ_OP_MATMUL || (n->fused < 0 && n->op->kind == PZ_OP_MATMUL);
}

/* Matrices that several products use are shared on purpose; an embedding and a head are one
 * product. */
static enum pz_status note_sharing(struct pz_onnx_plan *p) {
  bool *used = pz_arena_alloc(p->arena, p->g->values.n, sizeof *used);
  if (!used) return pz_onnx_no_memory(p->g);
  for (uint32_t at = 0; at < p->n; at++) {
    const struct pz_onnx_node *n = pz_onnx_at(p, at);
    for (uint32_t k = 0; k < n->n_in && pz_onnx_is_product(n); k++) {
      const struct pz_onnx_value *v = pz_onnx_in(p->g, n, k);
      if (!v || v->role != PZ_ONNX_PARAM || is_vector(pz_onnx_value(p->g, v->root))) continue;
      p->strict = p->strict || used[v->root];
      used[v->root] = true;
    }
  }
  return PZ_OK;
}

static enum pz_status count_crossings(struct pz_onnx_plan *p) {
  for (uint32_t at = 0; at < p->n; at++) {
    const struct pz_onnx_node *n = pz_onnx_at(p, at);
    for (uint32_t o = 0; o < n->n_out; o++) {
      if (n->out[o] == PZ_NONE || pz_onnx_value(p->g, n->out[o])->root != n->out[o]) continue;
      uint32_t last = p->last_use[n->out[o]];
      if (last == PZ_NONE || pz_onnx_value(p->g, n->out[o])->role != PZ_ONNX_ACT) continue;
      p->crossing[at + 1]++;
      p->crossing[last + 1]--; /* wraps, and comes back when summed up */
    }
  }
  for (uint32_t at = 1; at <= p->n; at++) p->crossing[at] += p->crossing[at - 1];
  return PZ_OK;
}

/* By value: does it depend on what the inputs contain, not just on their sizes? */
static void mark_fed(const struct pz_onnx_plan *p, bool *fed) {
  for (uint32_t i = 0; i < p->g->values.n; i++) fed[i] = pz_onnx_value(p->g, i)->input;
  for (uint32_t i = 0; i < p->g->nodes.n; i++) {
    const struct pz_onnx_node *n = pz_onnx_node(p->g, i);
    bool any = false;
    for (uint32_t k = 0; k < n->n_in; k++) any = any || (n->in[k] != PZ_NONE && fed[n->in[k]]);
    if (n->op->shape == PZ_SHAPE_SHAPE || n->op->shape == PZ_SHAPE_SCALAR) any = false;
    for (uint32_t o = 0; o < n->n_out; o++)
      if (n->out[o] != PZ_NONE) fed[n->out[o]] = any;
  }
}

static bool is_marked(const struct pz_onnx_node *n, const bool *mark) {
  for (uint32_t o = 0; o < n->n_out; o++)
    if (n->out[o] != PZ_NONE && mark[n->out[o]]) return true;
  return false;
}

/* By value: does an output with a gradient depend on it?  What ends in indices or comparisons alone
 * is no work of training. */
static void mark_needed(const struct pz_onnx_plan *p, bool *needed) {
  const struct pz_onnx_graph *g = p->g;
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->outputs, uint32_t, i));
    if (v->role == PZ_ONNX_ACT && v->rank >= 0) needed[v->root] = true;
  }
  for (uint32_t i = g->nodes.n; i-- > 0;) {
    const struct pz_onnx_node *n = pz_onnx_node(g, i);
    if (!is_operator(g, n) || !is_marked(n, needed)) continue;
    for (uint32_t k = 0; k < n->n_in; k++)
      if (n->in[k] != PZ_NONE) needed[pz_onnx_value(g, n->in[k])->root] = true;
  }
}

/* ---- hoisting ------------------------------------------------------------------------------- */

enum position {
  NO_OPERATOR,
  IN_ORDER,  /* where the file has it */
  INVARIANT, /* made from parameters alone, or from that and data */
  HOISTED,   /* the same, and several others read it: moved to the front */
};

/* Is the node element-wise work on what is invariant, and on data? */
static bool follows_invariant(const struct pz_onnx_plan *p, const struct pz_onnx_node *n,
                              const uint8_t *position) {
  bool any = false;
  if (n->fused >= 0 || !n->op->elementwise) return false;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *v = pz_onnx_in(p->g, n, k);
    if (!v || v->role == PZ_ONNX_DATA) continue;
    uint32_t from = pz_onnx_value(p->g, v->root)->maker;
    if (v->role != PZ_ONNX_ACT || from == PZ_NONE || position[from] != INVARIANT) return false;
    any = true;
  }
  return any;
}

/* Hoist what an operator reads if several operators in order read it, or a hoisted one. */
static void note_readers(const struct pz_onnx_plan *p, uint32_t node, uint8_t *position,
                         uint8_t *readers) {
  const struct pz_onnx_node *n = pz_onnx_node(p->g, node);
  for (uint32_t k = 0; k < n->n_in; k++) {
    const struct pz_onnx_value *v = pz_onnx_in(p->g, n, k);
    uint32_t from = v ? pz_onnx_value(p->g, v->root)->maker : PZ_NONE;
    if (from == PZ_NONE || position[from] != INVARIANT) continue;
    if (position[node] == IN_ORDER && readers[from] < 2) readers[from]++;
    if (position[node] == HOISTED || readers[from] == 2) position[from] = HOISTED;
  }
}

/* What is made from parameters alone (a bias from relative positions) and read by several layers
 * is hoisted to the front, with the masks added to it, although exporters write it where the first
 * layer uses it: layers are alike then. */
static enum pz_status find_hoisted(const struct pz_onnx_plan *p, uint8_t *position) {
  uint32_t n = p->g->nodes.n, values = p->g->values.n;
  bool *fed = pz_arena_alloc(p->arena, values, sizeof *fed);
  bool *needed = pz_arena_alloc(p->arena, values, sizeof *needed);
  uint8_t *readers = pz_arena_alloc(p->arena, n, sizeof *readers);
  if (!fed || !needed || !readers) return pz_onnx_no_memory(p->g);
  mark_fed(p, fed);
  mark_needed(p, needed);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(p->g, i);
    if (!is_operator(p->g, node) || !is_marked(node, needed)) continue;
    position[i] =
        !is_marked(node, fed) || follows_invariant(p, node, position) ? INVARIANT : IN_ORDER;
  }
  for (uint32_t i = n; i-- > 0;)
    if (position[i] != NO_OPERATOR) note_readers(p, i, position, readers);
  return PZ_OK;
}

static enum pz_status alloc_arrays(struct pz_onnx_plan *p) {
  uint32_t n = p->g->nodes.n, values = p->g->values.n;
  p->order = pz_arena_alloc(p->arena, n, sizeof *p->order);
  p->place = pz_arena_alloc(p->arena, n, sizeof *p->place);
  p->last_use = pz_arena_alloc(p->arena, values, sizeof *p->last_use);
  p->first_use = pz_arena_alloc(p->arena, values, sizeof *p->first_use);
  p->crossing = pz_arena_alloc(p->arena, (size_t)n + 2, sizeof *p->crossing);
  if (!p->order || !p->place || !p->last_use || !p->first_use || !p->crossing)
    return pz_onnx_no_memory(p->g);
  for (uint32_t i = 0; i < n; i++) p->place[i] = PZ_NONE;
  for (uint32_t i = 0; i < values; i++) p->last_use[i] = p->first_use[i] = PZ_NONE;
  return PZ_OK;
}

enum pz_status pz_onnx_order_make(struct pz_onnx_plan *p) {
  uint32_t n = p->g->nodes.n;
  uint8_t *position = pz_arena_alloc(p->arena, n, sizeof *position);
  if (!position) return pz_onnx_no_memory(p->g);
  enum pz_status status = alloc_arrays(p);
  if (status == PZ_OK) status = find_hoisted(p, position);
  if (status != PZ_OK) return status;
  for (int pass = 0; pass < 2; pass++) {
    p->n_hoisted = p->n;
    for (uint32_t i = 0; i < n; i++) {
      if (position[i] == NO_OPERATOR || (position[i] == HOISTED) == (pass == 1)) continue;
      p->place[i] = p->n;
      p->order[p->n++] = i;
    }
  }
  for (uint32_t at = 0; at < p->n; at++) note_uses(p, at);
  note_outputs(p);
  status = note_sharing(p);
  return status == PZ_OK ? count_crossings(p) : status;
}
