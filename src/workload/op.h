/* The kinds of operators: one table that says of each what class it has, how its gradient is
 * formed, what its backward reads, and how many floating-point operations an element takes. */
#ifndef PZ_WORKLOAD_OP_H
#define PZ_WORKLOAD_OP_H

#include "core/status.h"

enum pz_op_kind {
#define OP(kind, name, op_class, grad, saves, elementwise, forward, backward) PZ_OP_##kind,
#include "workload/ops.def"
  PZ_OP_KINDS,
};

/* What backward reads of an operator's inputs and outputs. */
enum {
  PZ_SAVE_IN0 = 1,  /* the first input */
  PZ_SAVE_REST = 2, /* the others */
  PZ_SAVE_OUT = 4,  /* the result */
  PZ_SAVE_AUX = 8,  /* the auxiliary one */
};

enum pz_grad_rule {
  PZ_GRAD_NONE,
  PZ_GRAD_PASS,       /* the gradient itself; its sum where an input was broadcast */
  PZ_GRAD_POINTWISE,  /* one operator for all inputs */
  PZ_GRAD_PRODUCT,    /* one product for each factor */
  PZ_GRAD_SPLIT,      /* the parts' gradients joined */
  PZ_GRAD_JOIN,       /* parts of the gradient, as views */
  PZ_GRAD_COLLECTIVE, /* the dual collective */
};

struct pz_op_info {
  const char *name;
  enum pz_op_class op_class;
  enum pz_grad_rule grad;
  unsigned saves;
  bool elementwise; /* may be folded into the operator before it */
  int flop[2];      /* per element, by direction */
};

const struct pz_op_info *pz_op_info(int kind);

/* Mixes tokens by states that pass from chunk to chunk: in place of attention. */
static inline bool pz_op_is_scan(int kind) {
  return kind == PZ_OP_SSM_SCAN || kind == PZ_OP_DELTA_RULE;
}

/* Attention or a scan: its products are no GEMM of its dims. */
static inline bool pz_op_mixes_tokens(int kind) {
  return kind == PZ_OP_ATTENTION || pz_op_is_scan(kind);
}
/* Is it of an adapter of a linear layer, in either direction? */
bool pz_op_adapts(const struct pz_op *op);

#endif
