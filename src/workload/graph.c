/* Operator graphs: adding tensors and operators, and the memory traffic and predecessors of each
 * operator.
 *
 * The builder (build.c) adds the forward operators of a layer, and the passes (passes.h) transform
 * them.  At the end, pz_graph_account() derives what the cost model needs: bytes read and written,
 * strided access, and precedence. */
#include "workload/graph.h"

#include <assert.h>
#include <string.h>

#include "core/num.h"

/* With this limit, the bytes of a layer's tensors can be added without checks for overflow. */
static const int64_t MOST_TENSOR_BYTES = INT64_C(1) << 50;

/* Makes an empty graph that allocates in the arena of the call. */
void pz_graph_init(struct pz_graph *graph, struct pz_call *call, const char *model) {
  *graph = (struct pz_graph){.call = call,
                             .model = model,
                             .input = PZ_NONE,
                             .output = PZ_NONE,
                             .input_grad = PZ_NONE,
                             .output_grad = PZ_NONE};
  pz_vec_init(&graph->tensors, call->arena, sizeof(struct pz_tensor));
  pz_vec_init(&graph->ops[PZ_FORWARD], call->arena, sizeof(struct pz_op));
  pz_vec_init(&graph->ops[PZ_BACKWARD], call->arena, sizeof(struct pz_op));
  pz_map_init(&graph->data_by_name, call->arena);
}

void pz_raise_size_limit(struct pz_call *call, const char *model) {
  pz_raise(call, PZ_LIMIT,
           "%s: a size at this sequence length and microbatch exceeds the limits "
           "(2^50 bytes per tensor, 2^63 FLOP in total)",
           model);
}

/* ---- tensors and operators ------------------------------------------------------------------- */

struct pz_tensor *pz_graph_tensor(const struct pz_graph *graph, uint32_t index) {
  assert(index < graph->tensors.n);
  return pz_vec_at(&graph->tensors, struct pz_tensor, index);
}

struct pz_op *pz_graph_op(const struct pz_graph *graph, enum pz_direction direction,
                          uint32_t index) {
  return pz_vec_at(&graph->ops[direction], struct pz_op, index);
}

/* Adds a tensor, which owns its storage until the builder makes it a view. */
uint32_t pz_graph_add_tensor(struct pz_graph *graph, const char *name, enum pz_tensor_role role,
                             int elem_bytes, struct pz_shape shape) {
  struct pz_tensor tensor = {.name = pz_copy_text(graph->call, name),
                             .role = role,
                             .n_dims = shape.n,
                             .elem_bytes = elem_bytes,
                             .elems = 1,
                             .storage = graph->tensors.n};
  bool fits = true;
  for (int i = 0; i < shape.n; i++) {
    tensor.shape[i] = shape.d[i];
    fits = fits && pz_mul(&tensor.elems, shape.d[i]);
  }
  int64_t bytes = tensor.elems;
  if (!fits || !pz_mul(&bytes, elem_bytes) || bytes > MOST_TENSOR_BYTES)
    pz_raise_size_limit(graph->call, graph->model);
  pz_append(graph->call, &graph->tensors, &tensor);
  return tensor.storage;
}

void pz_graph_add_op(struct pz_graph *graph, enum pz_direction direction, const struct pz_op *op) {
  struct pz_op copy = *op;
  copy.in = pz_copy(graph->call, op->in, op->n_in, sizeof *op->in);
  copy.out = pz_copy(graph->call, op->out, op->n_out, sizeof *op->out);
  copy.name = pz_copy_text(graph->call, op->name);
  pz_append(graph->call, &graph->ops[direction], &copy);
}

int64_t pz_tensor_bytes(const struct pz_tensor *tensor) {
  return tensor->elems * tensor->elem_bytes;
}

/* A tensor that passes through memory in parts is never there as a whole. */
int64_t pz_tensor_held_bytes(const struct pz_tensor *tensor) {
  return (tensor->held ? tensor->held : tensor->elems) * tensor->elem_bytes;
}

/* Returns whether a list of n tensors or operators contains an index. */
static bool contains(const uint32_t *list, uint32_t n, uint32_t index) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == index) return true;
  return false;
}

/* Returns whether a tensor is a result of the layer. */
bool pz_graph_leaves(const struct pz_graph *graph, uint32_t tensor) {
  return tensor == graph->output || contains(graph->also_out, graph->n_also_out, tensor);
}

/* Returns whether a tensor only passes through the layer. */
bool pz_graph_carries(const struct pz_graph *graph, uint32_t tensor) {
  bool enters = tensor == graph->input || contains(graph->also_in, graph->n_also_in, tensor);
  return enters && pz_graph_leaves(graph, tensor);
}

/* ---- accounting ------------------------------------------------------------------------------ */

/* Returns the bytes of one tensor that an operator reads or writes.  An embedding accesses only
 * the rows that it looks up, and a product of experts only the weights of experts that have
 * rows. */
static int64_t moved_bytes(const struct pz_graph *graph, const struct pz_op *op,
                           const struct pz_tensor *tensor) {
  int64_t bytes = pz_tensor_bytes(tensor);
  bool has_idle_experts = op->matmul_flop && tensor->experts > op->dims.batch;
  if (has_idle_experts) return bytes / tensor->experts * op->dims.batch;
  if (op->kind != PZ_OP_EMBEDDING) return bytes;
  /* forward reads the table and writes the rows; backward reads their gradient and writes the
   * table's */
  bool may_be_table = tensor->role == PZ_ROLE_PARAM || op->direction == PZ_BACKWARD;
  uint32_t rows = op->direction == PZ_FORWARD ? op->out[0] : op->in[0];
  int64_t rows_bytes = pz_tensor_bytes(pz_graph_tensor(graph, rows));
  return may_be_table && rows_bytes < bytes ? rows_bytes : bytes;
}

/* Sets the bytes that an operator reads and writes.  An input that is read twice counts once. */
static void sum_bytes(const struct pz_graph *graph, struct pz_op *op) {
  bool fits = true;
  op->bytes_read = 0;
  op->bytes_written = 0;
  op->weight_bytes = 0;
  if (op->op_class == PZ_CLASS_NONE) return;
  for (uint32_t i = 0; i < op->n_in; i++) {
    const struct pz_tensor *input = pz_graph_tensor(graph, op->in[i]);
    bool is_repeated = contains(op->in, i, op->in[i]);
    if (is_repeated) continue;
    int64_t bytes = moved_bytes(graph, op, input);
    fits = fits && pz_add(&op->bytes_read, bytes);
    if (fits && input->role == PZ_ROLE_PARAM) op->weight_bytes += bytes;
  }
  for (uint32_t i = 0; i < op->n_out; i++) {
    int64_t bytes = moved_bytes(graph, op, pz_graph_tensor(graph, op->out[i]));
    fits = fits && pz_add(&op->bytes_written, bytes);
  }
  if (!fits) pz_raise_size_limit(graph->call, graph->model);
}

/* Returns whether a vector operator accesses memory with a stride or a broadcast, because it moves
 * values, or its operands differ in shape or element size.  It then computes an address for every
 * value, which makes it slower than its bytes suggest. */
static bool is_strided(const struct pz_graph *graph, const struct pz_op *op) {
  bool moves_values = op->kind == PZ_OP_COPY || op->kind == PZ_OP_REPEAT ||
                      op->kind == PZ_OP_CONCAT || op->kind == PZ_OP_ROTATE_HALF;
  bool is_fused = op->n_tail > 0;
  if (op->op_class != PZ_CLASS_VECTOR || is_fused || !op->n_out) return false;
  if (moves_values) return true;
  if (!pz_op_info(op->kind)->elementwise || op->kind == PZ_OP_ROTARY) return false;
  const struct pz_tensor *output = pz_graph_tensor(graph, op->out[0]);
  for (uint32_t i = 0; i < op->n_in; i++) {
    const struct pz_tensor *input = pz_graph_tensor(graph, op->in[i]);
    if (input->elems < output->elems) return true;
    if (op->kind == PZ_OP_CAST && input->elem_bytes < output->elem_bytes) return true;
  }
  return false;
}

/* Lists the operators of the same direction that produce an operator's inputs, in ascending order.
 * producer[t] is the operator that produces tensor t, or PZ_NONE. */
static void find_predecessors(const struct pz_graph *graph, struct pz_op *op,
                              const uint32_t *producer) {
  uint32_t *list = pz_alloc(graph->call, op->n_in, sizeof *list), n = 0;
  for (uint32_t i = 0; i < op->n_in; i++) {
    uint32_t predecessor = producer[op->in[i]], position = n;
    if (predecessor == PZ_NONE || contains(list, n, predecessor)) continue;
    /* larger indices move up, so that the list stays sorted */
    for (; position > 0 && list[position - 1] > predecessor; position--)
      list[position] = list[position - 1];
    list[position] = predecessor;
    n++;
  }
  op->pred = list;
  op->n_pred = n;
}

/* Sets the bytes and the predecessors of every operator.  Operators are in topological order, so
 * producers come before their readers. */
void pz_graph_account(struct pz_graph *graph) {
  uint32_t n_tensors = graph->tensors.n;
  uint32_t *producer = pz_alloc(graph->call, n_tensors, sizeof *producer);
  for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    for (uint32_t t = 0; t < n_tensors; t++) producer[t] = PZ_NONE;
    for (uint32_t i = 0; i < graph->ops[direction].n; i++) {
      struct pz_op *op = pz_graph_op(graph, direction, i);
      find_predecessors(graph, op, producer);
      sum_bytes(graph, op);
      op->strided = is_strided(graph, op);
      for (uint32_t k = 0; k < op->n_out; k++) producer[op->out[k]] = i;
    }
  }
}
