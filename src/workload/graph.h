/* The operator graph of one layer while it is built: tensors, and the operators of both directions
 * in topological order, up to some hundreds of them.  This file does not know models, chips, or
 * parallelism.
 *
 * Tensors and operators are identified by their index; PZ_NONE stands for no tensor.  A graph
 * allocates in the arena of the call that builds it, and lives as long as this call. */
#ifndef PZ_WORKLOAD_GRAPH_H
#define PZ_WORKLOAD_GRAPH_H

#include "core/map.h"
#include "core/vec.h"
#include "workload/op.h"

enum { PZ_OP_MOST_INPUTS = 8, PZ_OP_MOST_OUTPUTS = 4 };

struct pz_graph {
  struct pz_call *call;
  const char *model;          /* name of the model, for error messages */
  struct pz_vec tensors;      /* list of struct pz_tensor */
  struct pz_vec ops[2];       /* list of struct pz_op for each enum pz_direction */
  struct pz_map data_by_name; /* index of each data tensor that several operators share */
  uint32_t input, output; /* main input and result of the layer; the embedding layer has no input */
  /* gradients of `input` and `output`, set when backward is derived */
  uint32_t input_grad, output_grad;
  const uint32_t *also_in; /* tensors other than `input` that enter the layer */
  /* Tensors other than `output` that leave the layer, including those that it only passes on. */
  const uint32_t *also_out;
  uint32_t n_also_in, n_also_out;
  int64_t passing_bytes; /* bytes of tensors of earlier layers that later layers read */
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
/* Returns operator `index` of a direction. */
struct pz_op *pz_graph_op(const struct pz_graph *graph, enum pz_direction direction,
                          uint32_t index);

/* Adds a tensor with memory of its own and returns its index.  More than 2^50 bytes raise an
 * error. */
uint32_t pz_graph_add_tensor(struct pz_graph *graph, const char *name, enum pz_tensor_role role,
                             int elem_bytes, struct pz_shape shape);

/* Appends a copy of *op, with copies of its name and its input and output lists. */
void pz_graph_add_op(struct pz_graph *graph, enum pz_direction direction, const struct pz_op *op);

/* Raises PZ_LIMIT because a tensor or a sum of the model is too large. */
_Noreturn void pz_raise_size_limit(struct pz_call *call, const char *model);

int64_t pz_tensor_bytes(const struct pz_tensor *tensor);

/* Returns the bytes of a tensor that are in memory at a time, which are fewer than all if it
 * passes through memory in parts. */
int64_t pz_tensor_held_bytes(const struct pz_tensor *tensor);

/* Return whether a tensor leaves the layer, or both enters and leaves it. */
bool pz_graph_leaves(const struct pz_graph *graph, uint32_t tensor);
bool pz_graph_carries(const struct pz_graph *graph, uint32_t tensor);

/* Fills in the bytes, weight bytes and predecessors of every operator from its inputs and
 * outputs. */
void pz_graph_account(struct pz_graph *graph);

#endif
