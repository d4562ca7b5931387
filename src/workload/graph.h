/* The operator graph of one layer while it is built: tensors, and the operators of both directions
 * in topological order.  Graphs have up to some hundred operators.  This file does not know models,
 * chips, or parallelism.
 *
 * Tensors and operators are identified by their index; PZ_NONE stands for no tensor.  A graph lives
 * only as long as the call that builds it, in whose arena it allocates. */
#ifndef PZ_WORKLOAD_GRAPH_H
#define PZ_WORKLOAD_GRAPH_H

#include "core/map.h"
#include "core/vec.h"
#include "workload/op.h"

enum { PZ_OP_MOST_INPUTS = 8, PZ_OP_MOST_OUTPUTS = 4 };

struct pz_graph {
  struct pz_call *call;
  const char *model;          /* name of the model, for error messages */
  struct pz_vec tensors;      /* struct pz_tensor */
  struct pz_vec ops[2];       /* struct pz_op, by enum pz_direction */
  struct pz_map data_by_name; /* index of each data tensor that several operators share */
  uint32_t input, output;     /* main input and result of the layer; the first layer has no input */
  uint32_t input_grad, output_grad; /* gradients of these two, set when backward is derived */
  const uint32_t *also_in;          /* further tensors that enter the layer */
  /* Further tensors that leave the layer, among them those only passed on */
  const uint32_t *also_out;
  uint32_t n_also_in, n_also_out;
  int64_t passing_bytes; /* bytes of tensors that bypass this layer on their way to later ones */
};

/* Returns whether operators run one by one, as in PyTorch's eager mode. */
static inline bool pz_kernels_eager(enum pz_kernels kernels) {
  return kernels == PZ_KERNELS_EAGER || kernels == PZ_KERNELS_OPERATORS;
}

/* The dimensions of a tensor.  PZ_SHAPE(a, b) is the shape with the dimensions a and b. */
struct pz_shape {
  int n;
  int64_t d[4];
};

#define PZ_SHAPE(...)                                                                              \
  (struct pz_shape) {                                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ }                     \
  }

void pz_graph_init(struct pz_graph *graph, struct pz_call *call, const char *model);

/* Returns tensor `index`.  The address is valid until the next tensor is added. */
struct pz_tensor *pz_graph_tensor(const struct pz_graph *graph, uint32_t index);
struct pz_op *pz_graph_op(const struct pz_graph *graph, enum pz_direction direction,
                          uint32_t index);

/* Adds a tensor with bytes of its own and returns its index.  More than 2^50 bytes are an error. */
uint32_t pz_graph_add_tensor(struct pz_graph *graph, const char *name, enum pz_tensor_role role,
                             int elem_bytes, struct pz_shape shape);

/* Appends a copy of *op with copies of its name and its lists of inputs and outputs. */
void pz_graph_add_op(struct pz_graph *graph, enum pz_direction direction, const struct pz_op *op);

/* Raises PZ_LIMIT: a tensor or a sum of the model is too large. */
_Noreturn void pz_raise_size_limit(struct pz_call *call, const char *model);

int64_t pz_tensor_bytes(const struct pz_tensor *tensor);

/* Returns the bytes of a tensor that are in memory at a time: less than all if it passes through
 * memory in parts. */
int64_t pz_tensor_held_bytes(const struct pz_tensor *tensor);

/* Returns whether a tensor leaves the layer, or both enters and leaves it. */
bool pz_graph_leaves(const struct pz_graph *graph, uint32_t tensor);
bool pz_graph_carries(const struct pz_graph *graph, uint32_t tensor);

/* Fills in the bytes, weight bytes and predecessors of every operator from its inputs and
 * outputs. */
void pz_graph_account(struct pz_graph *graph);

#endif
