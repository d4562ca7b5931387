#include "workload/graph.h"

#include <string.h>

#include "core/num.h"

/* So that the tensors of a layer can be added up without checks. */
static const int64_t MOST_TENSOR_BYTES = INT64_C(1) << 50;

void pz_graph_init(struct pz_graph *g, struct pz_arena *arena) {
  *g = (struct pz_graph){.arena = arena,
                         .input = PZ_NONE,
                         .output = PZ_NONE,
                         .input_grad = PZ_NONE,
                         .output_grad = PZ_NONE};
  pz_vec_init(&g->tensors, arena, sizeof(struct pz_tensor));
  pz_vec_init(&g->ops[PZ_FORWARD], arena, sizeof(struct pz_op));
  pz_vec_init(&g->ops[PZ_BACKWARD], arena, sizeof(struct pz_op));
  pz_map_init(&g->by_name, arena);
}

struct pz_tensor *pz_graph_tensor(const struct pz_graph *g, uint32_t i) {
  return pz_vec_at(&g->tensors, struct pz_tensor, i);
}

struct pz_op *pz_graph_op(const struct pz_graph *g, enum pz_direction dir, uint32_t i) {
  return pz_vec_at(&g->ops[dir], struct pz_op, i);
}

int64_t pz_tensor_bytes(const struct pz_tensor *t) { return t->elems * t->elem_bytes; }

int64_t pz_tensor_held_bytes(const struct pz_tensor *t) {
  return (t->held ? t->held : t->elems) * t->elem_bytes;
}

enum pz_status pz_graph_add_tensor(struct pz_graph *g, const char *name, enum pz_tensor_role role,
                                   int elem_bytes, struct pz_shape shape, uint32_t *out) {
  struct pz_tensor t = {.role = role, .n_dims = shape.n, .elem_bytes = elem_bytes, .elems = 1};
  for (int i = 0; i < shape.n; i++) {
    t.shape[i] = shape.d[i];
    if (!pz_mul(&t.elems, shape.d[i])) return PZ_LIMIT;
  }
  int64_t bytes = t.elems;
  if (!pz_mul(&bytes, elem_bytes) || bytes > MOST_TENSOR_BYTES) return PZ_LIMIT;
  t.name = pz_arena_strdup(g->arena, name);
  t.storage = g->tensors.n;
  if (!t.name || !pz_vec_push(&g->tensors, &t)) return PZ_NO_MEMORY;
  *out = t.storage;
  return PZ_OK;
}

static const uint32_t *copy_ids(struct pz_arena *arena, const uint32_t *ids, uint32_t n) {
  uint32_t *copy = pz_arena_alloc(arena, n, sizeof *copy);
  if (copy && n) memcpy(copy, ids, n * sizeof *copy);
  return copy;
}

enum pz_status pz_graph_add_op(struct pz_graph *g, enum pz_direction dir, const struct pz_op *op) {
  struct pz_op copy = *op;
  copy.in = copy_ids(g->arena, op->in, op->n_in);
  copy.out = copy_ids(g->arena, op->out, op->n_out);
  copy.name = pz_arena_strdup(g->arena, op->name);
  return copy.in && copy.out && copy.name && pz_vec_push(&g->ops[dir], &copy) ? PZ_OK
                                                                              : PZ_NO_MEMORY;
}

static bool listed(const uint32_t *ids, uint32_t n, uint32_t id) {
  for (uint32_t i = 0; i < n; i++)
    if (ids[i] == id) return true;
  return false;
}

bool pz_graph_leaves(const struct pz_graph *g, uint32_t t) {
  return t == g->output || listed(g->also_out, g->n_also_out, t);
}

bool pz_graph_carries(const struct pz_graph *g, uint32_t t) {
  return (t == g->input || listed(g->also_in, g->n_also_in, t)) && pz_graph_leaves(g, t);
}

/* Bytes one operator moves for tensor t.  Of an embedding table only the rows looked up move, of
 * experts only those that have rows. */
static int64_t moved(const struct pz_graph *g, const struct pz_op *op, const struct pz_tensor *t) {
  int64_t bytes = pz_tensor_bytes(t);
  if (op->matmul_flop && t->experts > op->dims.batch) return bytes / t->experts * op->dims.batch;
  if (op->kind != PZ_OP_EMBEDDING) return bytes;
  bool table = t->role == PZ_ROLE_PARAM || op->direction == PZ_BACKWARD;
  const struct pz_tensor *rows =
      pz_graph_tensor(g, op->direction == PZ_FORWARD ? op->out[0] : op->in[0]);
  return table && pz_tensor_bytes(rows) < bytes ? pz_tensor_bytes(rows) : bytes;
}

/* Element-wise on operands of different shape or width, or moving values: addresses are computed for
 * every value. */
static bool is_strided(const struct pz_graph *g, const struct pz_op *op) {
  bool moves = op->kind == PZ_OP_COPY || op->kind == PZ_OP_REPEAT || op->kind == PZ_OP_CONCAT ||
               op->kind == PZ_OP_ROTATE_HALF;
  if (op->op_class != PZ_CLASS_VECTOR || op->n_tail || !op->n_out) return false;
  if (moves) return true;
  if (!pz_op_info(op->kind)->elementwise || op->kind == PZ_OP_ROTARY) return false;
  const struct pz_tensor *out = pz_graph_tensor(g, op->out[0]);
  for (uint32_t i = 0; i < op->n_in; i++) {
    const struct pz_tensor *in = pz_graph_tensor(g, op->in[i]);
    if (in->elems < out->elems) return true;
    if (op->kind == PZ_OP_CAST && in->elem_bytes < out->elem_bytes) return true;
  }
  return false;
}

static bool sum_bytes(const struct pz_graph *g, struct pz_op *op) {
  op->bytes_read = op->bytes_written = op->weight_bytes = 0;
  if (op->op_class == PZ_CLASS_NONE) return true;
  for (uint32_t i = 0; i < op->n_in; i++) {
    const struct pz_tensor *t = pz_graph_tensor(g, op->in[i]);
    if (listed(op->in, i, op->in[i])) continue;
    if (!pz_add(&op->bytes_read, moved(g, op, t))) return false;
    if (t->role == PZ_ROLE_PARAM) op->weight_bytes += moved(g, op, t);
  }
  for (uint32_t i = 0; i < op->n_out; i++)
    if (!pz_add(&op->bytes_written, moved(g, op, pz_graph_tensor(g, op->out[i])))) return false;
  return true;
}

/* Predecessors: the operators of this direction that made an input, ascending and once each. */
static bool find_preds(const struct pz_graph *g, struct pz_op *op, const uint32_t *maker) {
  uint32_t *pred = pz_arena_alloc(g->arena, op->n_in, sizeof *pred), n = 0;
  if (!pred) return false;
  for (uint32_t i = 0; i < op->n_in; i++) {
    uint32_t m = maker[op->in[i]], at = n;
    if (m == PZ_NONE || listed(pred, n, m)) continue;
    while (at > 0 && pred[at - 1] > m) {
      pred[at] = pred[at - 1];
      at--;
    }
    pred[at] = m;
    n++;
  }
  op->pred = pred;
  op->n_pred = n;
  return true;
}

enum pz_status pz_graph_account(struct pz_graph *g) {
  uint32_t *maker = pz_arena_alloc(g->arena, g->tensors.n, sizeof *maker);
  if (!maker) return PZ_NO_MEMORY;
  for (enum pz_direction dir = PZ_FORWARD; dir <= PZ_BACKWARD; dir++) {
    for (uint32_t t = 0; t < g->tensors.n; t++) maker[t] = PZ_NONE;
    for (uint32_t i = 0; i < g->ops[dir].n; i++) {
      struct pz_op *op = pz_graph_op(g, dir, i);
      if (!find_preds(g, op, maker)) return PZ_NO_MEMORY;
      if (!sum_bytes(g, op)) return PZ_LIMIT;
      op->strided = is_strided(g, op);
      for (uint32_t o = 0; o < op->n_out; o++) maker[op->out[o]] = i;
    }
  }
  return PZ_OK;
}
