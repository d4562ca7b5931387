/* A layer's graph while it is being made: tensors, and operators of both directions in topological
 * order. Sized for a few hundred operators.  Knows nothing of models, chips or parallelism. */
#ifndef PZ_WORKLOAD_GRAPH_H
#define PZ_WORKLOAD_GRAPH_H

#include "core/map.h"
#include "core/vec.h"
#include "workload/op.h"

enum { PZ_OP_MOST_INPUTS = 8, PZ_OP_MOST_OUTPUTS = 4 };

struct pz_graph {
  struct pz_arena *arena;
  struct pz_vec tensors;              /* struct pz_tensor */
  struct pz_vec ops[2];               /* struct pz_op, by enum pz_direction */
  struct pz_map by_name;              /* data tensors that several operators share */
  uint32_t input, output;             /* what enters and leaves the layer; input PZ_NONE: nothing */
  uint32_t input_grad, output_grad;   /* their gradients, once backward is derived */
  const uint32_t *also_in, *also_out; /* further tensors that enter and leave; one that does both is
                                         carried along */
  uint32_t n_also_in, n_also_out;
  int64_t passing_bytes; /* that go past the layer to later ones */
};

/* Do operators run one by one, as in PyTorch's eager mode? */
static inline bool pz_kernels_eager(enum pz_kernels k) {
  return k == PZ_KERNELS_EAGER || k == PZ_KERNELS_OPERATORS;
}

struct pz_shape {
  int n;
  int64_t d[4];
};

#define PZ_SHAPE(...)                                                                              \
  (struct pz_shape) {                                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ }                     \
  }

void pz_graph_init(struct pz_graph *g, struct pz_arena *arena);

/* Tensor i; valid until the next tensor is added. */
struct pz_tensor *pz_graph_tensor(const struct pz_graph *g, uint32_t i);
struct pz_op *pz_graph_op(const struct pz_graph *g, enum pz_direction dir, uint32_t i);

/* New tensor that owns its bytes.  PZ_LIMIT above 2^50 bytes. */
PZ_NODISCARD enum pz_status pz_graph_add_tensor(struct pz_graph *g, const char *name,
                                                enum pz_tensor_role role, int elem_bytes,
                                                struct pz_shape shape, uint32_t *out);

/* Append a copy of *op; its name, in and out lists are copied too. */
PZ_NODISCARD enum pz_status pz_graph_add_op(struct pz_graph *g, enum pz_direction dir,
                                            const struct pz_op *op);

int64_t pz_tensor_bytes(const struct pz_tensor *t);
/* Those that memory holds at a time. */
int64_t pz_tensor_held_bytes(const struct pz_tensor *t);

/* Does tensor t leave the layer?  Does it enter and leave it? */
bool pz_graph_leaves(const struct pz_graph *g, uint32_t t);
bool pz_graph_carries(const struct pz_graph *g, uint32_t t);

/* Fill bytes, weight bytes and predecessors of every operator from its inputs and outputs. */
PZ_NODISCARD enum pz_status pz_graph_account(struct pz_graph *g);

#endif
