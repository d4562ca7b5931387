/* Fusion replaces groups of operators by one operator each, as fused kernels and torch.compile do.
 *
 * A group begins with a matrix product, a softmax or an element-wise operator.  It grows by
 * operators that alone read the result of its last member (find_joined_producer).  The fused
 * operator reads what the group reads from outside, and writes what operators outside of the group
 * need (collect_operands).  The order of operators stays valid, because no operator outside of a
 * group reads the result of an inner member. */
#include "workload/passes.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"

enum { MOST_MEMBERS = 12, LONGEST_NAME = 120 };

/* A group of operators that are fused, in their order. */
struct group {
  uint32_t member[MOST_MEMBERS];
  uint32_t n;
};

/* State of the pass over one direction of a layer. */
struct fusion {
  struct pz_graph *graph;
  enum pz_direction direction;
  enum pz_kernels kernels;
  uint32_t *n_readers; /* by tensor: how often operators of this direction read it */
  uint32_t *producer;  /* by tensor: the operator of this direction that produces it, or PZ_NONE */
  /* By tensor: whether it must be written although no operator of this direction reads it, because
   * the other direction does, or because it leaves the layer. */
  const bool *kept;
  /* By operator: the group that ends with it, or an empty group. */
  struct group *group;
};

/* Returns operator `index` of the direction that is being fused. */
static const struct pz_op *op_at(const struct fusion *fusion, uint32_t index) {
  return pz_graph_op(fusion->graph, fusion->direction, index);
}

/* Counts how often the operators of a direction read each tensor. */
static void count_readers(const struct pz_graph *graph, enum pz_direction direction,
                          uint32_t *n_readers) {
  for (uint32_t i = 0; i < graph->ops[direction].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, direction, i);
    for (uint32_t k = 0; k < op->n_in; k++) n_readers[op->in[k]]++;
  }
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Returns whether a group that ends with operator `last` can be extended: the operator must be
 * fusible, pass a single result to a single reader, and the group must have room for one more. */
static bool can_lead(const struct fusion *fusion, uint32_t last) {
  const struct pz_op *op = op_at(fusion, last);
  bool is_product = op->op_class == PZ_CLASS_TENSOR && fusion->kernels == PZ_KERNELS_FUSED;
  bool is_elementwise = op->op_class == PZ_CLASS_VECTOR && pz_op_info(op->kind)->elementwise;
  if (!is_product && !is_elementwise && op->kind != PZ_OP_SOFTMAX) return false;
  if (fusion->n_readers[op->out[0]] != 1 || fusion->group[last].n >= MOST_MEMBERS) return false;
  for (uint32_t k = 1; k < op->n_out; k++)
    if (fusion->n_readers[op->out[k]]) return false;
  return true;
}

/* Returns the last operator of the group that operator `index` joins, or PZ_NONE if it begins a
 * group.  It joins a group whose result it reads, if that is as large as its own result; a group
 * that begins with a matrix product is preferred to one of vector operators. */
static uint32_t find_joined_producer(const struct fusion *fusion, uint32_t index) {
  const struct pz_op *op = op_at(fusion, index);
  uint32_t best = PZ_NONE;
  bool best_is_product = false;
  if (op->op_class != PZ_CLASS_VECTOR) return PZ_NONE;
  int64_t elements = pz_graph_tensor(fusion->graph, op->out[0])->elems;
  for (uint32_t k = 0; k < op->n_in; k++) {
    uint32_t input = op->in[k], group_end = fusion->producer[input];
    if (group_end == PZ_NONE || op_at(fusion, group_end)->out[0] != input) continue;
    if (pz_graph_tensor(fusion->graph, input)->elems != elements) continue;
    /* Element-wise operators are fused except by PZ_KERNELS_MODULES, and a softmax is fused only
     * with its scale and mask, except by PZ_KERNELS_FUSED. */
    int kind = op->kind, end_kind = op_at(fusion, group_end)->kind;
    bool has_softmax = kind == PZ_OP_SOFTMAX || end_kind == PZ_OP_SOFTMAX;
    bool has_mask = kind == PZ_OP_SCALE_MASK || end_kind == PZ_OP_SCALE_MASK;
    bool can_follow = has_softmax
                          ? has_mask && fusion->kernels != PZ_KERNELS_FUSED
                          : fusion->kernels != PZ_KERNELS_MODULES && pz_op_info(kind)->elementwise;
    if (!can_follow || !can_lead(fusion, group_end)) continue;
    uint32_t first = fusion->group[group_end].member[0];
    bool is_product = op_at(fusion, first)->op_class == PZ_CLASS_TENSOR;
    if (best == PZ_NONE || (is_product && !best_is_product)) {
      best = group_end;
      best_is_product = is_product;
    }
  }
  return best;
}

/* ---- fused operators ------------------------------------------------------------------------- */

/* Appends an index to a list unless the list contains it. */
static void append_once(struct pz_call *call, struct pz_vec *list, uint32_t index) {
  for (uint32_t i = 0; i < list->n; i++)
    if (*pz_vec_at(list, uint32_t, i) == index) return;
  pz_append(call, list, &index);
}

/* Returns whether a member of the group produces a tensor. */
static bool is_produced_inside(const struct fusion *fusion, const struct group *group,
                               uint32_t tensor) {
  uint32_t producer = fusion->producer[tensor];
  for (uint32_t k = 0; k < group->n && producer != PZ_NONE; k++)
    if (group->member[k] == producer) return true;
  return false;
}

/* Sets the operands of a fused operator: the inputs of the group from outside, and the results that
 * leave the group or that `kept` marks, that of the last member first. */
static void collect_operands(const struct fusion *fusion, const struct group *group,
                             struct pz_op *fused) {
  struct pz_call *call = fusion->graph->call;
  struct pz_vec in, out;
  pz_vec_init(&in, call->arena, sizeof(uint32_t));
  pz_vec_init(&out, call->arena, sizeof(uint32_t));
  uint32_t last = group->member[group->n - 1];
  append_once(call, &out, op_at(fusion, last)->out[0]);
  for (uint32_t k = 0; k < group->n; k++) {
    const struct pz_op *op = op_at(fusion, group->member[k]);
    for (uint32_t i = 0; i < op->n_in; i++)
      if (!is_produced_inside(fusion, group, op->in[i])) append_once(call, &in, op->in[i]);
    for (uint32_t i = 0; i < op->n_out; i++) {
      uint32_t result = op->out[i];
      bool leaves_group = group->member[k] == last && fusion->n_readers[result] > 0;
      if (leaves_group || fusion->kept[result]) append_once(call, &out, result);
    }
  }
  fused->in = in.items;
  fused->n_in = in.n;
  fused->out = out.items;
  fused->n_out = out.n;
}

/* Adds all members but the first, the tail of the fused operator, to its name ("a+b+c"), its FLOP
 * and its list of tail operators. */
static void add_tail(const struct fusion *fusion, const struct group *group, struct pz_op *fused) {
  struct pz_graph *graph = fusion->graph;
  struct pz_tail *tail = pz_alloc(graph->call, group->n - 1, sizeof *tail);
  char name[LONGEST_NAME];
  int used = snprintf(name, sizeof name, "%s", fused->name);
  for (uint32_t k = 1; k < group->n; k++) {
    const struct pz_op *op = op_at(fusion, group->member[k]);
    tail[k - 1] = (struct pz_tail){.kind = op->kind,
                                   .direction = op->direction,
                                   .elems = pz_graph_tensor(graph, op->out[0])->elems,
                                   .replicated = op->replicated};
    if (!pz_add(&fused->flop, op->flop)) pz_raise_size_limit(graph->call, graph->model);
    if (used > 0 && (size_t)used < sizeof name)
      used += snprintf(name + used, sizeof name - (size_t)used, "+%s", op->name);
  }
  fused->name = pz_copy_text(graph->call, name);
  fused->tail = tail;
  fused->n_tail = group->n - 1;
}

/* Forms the groups of one direction and replaces the operators by one for each group. */
static void fuse_direction(struct pz_graph *graph, enum pz_direction direction,
                           enum pz_kernels kernels, const bool *kept) {
  uint32_t n_tensors = graph->tensors.n, n_ops = graph->ops[direction].n;
  struct fusion fusion = {.graph = graph, .direction = direction, .kernels = kernels, .kept = kept};
  fusion.n_readers = pz_alloc(graph->call, n_tensors, sizeof *fusion.n_readers);
  fusion.producer = pz_alloc(graph->call, n_tensors, sizeof *fusion.producer);
  fusion.group = pz_alloc(graph->call, n_ops, sizeof *fusion.group);
  /* Finds the producer of each tensor, and counts its readers, one of which may be a next layer. */
  for (uint32_t t = 0; t < n_tensors; t++) fusion.producer[t] = PZ_NONE;
  for (uint32_t i = 0; i < n_ops; i++) {
    const struct pz_op *op = op_at(&fusion, i);
    for (uint32_t k = 0; k < op->n_out; k++) fusion.producer[op->out[k]] = i;
  }
  count_readers(graph, direction, fusion.n_readers);
  if (direction == PZ_FORWARD) {
    fusion.n_readers[graph->output]++;
    for (uint32_t i = 0; i < graph->n_also_out; i++) fusion.n_readers[graph->also_out[i]]++;
  }
  /* Each operator joins the group of one of its inputs, or begins a group. */
  for (uint32_t i = 0; i < n_ops; i++) {
    uint32_t group_end = find_joined_producer(&fusion, i);
    struct group *group = &fusion.group[i];
    if (group_end != PZ_NONE) {
      *group = fusion.group[group_end];
      fusion.group[group_end].n = 0;
    }
    group->member[group->n] = i;
    group->n++;
  }
  /* Replaces each group by one operator, which begins as a copy of the group's first member. */
  struct pz_vec ops;
  pz_vec_init(&ops, graph->call->arena, sizeof(struct pz_op));
  for (uint32_t i = 0; i < n_ops; i++) {
    const struct group *group = &fusion.group[i];
    if (group->n == 0) continue;
    struct pz_op fused = *op_at(&fusion, group->member[0]);
    if (group->n > 1) {
      collect_operands(&fusion, group, &fused);
      add_tail(&fusion, group, &fused);
      if (fused.op_class == PZ_CLASS_TENSOR) fused.op_class = PZ_CLASS_FUSED;
    }
    pz_append(graph->call, &ops, &fused);
  }
  graph->ops[direction] = ops;
}

/* Fuses the operators of both directions.  Each direction must write some tensors that none of its
 * own operators reads (`kept`): forward writes what backward reads and what leaves the layer, and
 * backward writes the gradients of the parameters and of the layer's input. */
void pz_fuse(struct pz_graph *graph, enum pz_kernels kernels) {
  uint32_t n_tensors = graph->tensors.n;
  uint32_t *backward_readers = pz_alloc(graph->call, n_tensors, sizeof *backward_readers);
  bool *kept = pz_alloc(graph->call, n_tensors, sizeof *kept);
  count_readers(graph, PZ_BACKWARD, backward_readers);
  for (uint32_t t = 0; t < n_tensors; t++)
    kept[t] = backward_readers[t] > 0 || pz_graph_leaves(graph, t);
  fuse_direction(graph, PZ_FORWARD, kernels, kept);
  for (uint32_t t = 0; t < n_tensors; t++)
    kept[t] = backward_readers[t] == 0 && pz_graph_tensor(graph, t)->role == PZ_ROLE_GRAD;
  fuse_direction(graph, PZ_BACKWARD, kernels, kept);
}
