/* The kinds of operators.  The table ops.def states the class of each kind, the rule of its
 * gradient, what its backward reads, and its floating-point operations per element. */
#ifndef PZ_WORKLOAD_OP_H
#define PZ_WORKLOAD_OP_H

#include "core/status.h"

enum pz_op_kind {
#define OP(kind, name, op_class, grad, saves, elementwise, forward, backward) PZ_OP_##kind,
#include "workload/ops.def"
  PZ_OP_KINDS,
};

/* Forward inputs and outputs that the backward of an operator reads, as a set. */
enum {
  PZ_SAVE_IN0 = 1,  /* the first input */
  PZ_SAVE_REST = 2, /* all other inputs */
  PZ_SAVE_OUT = 4,  /* the result */
  PZ_SAVE_AUX = 8,  /* the auxiliary output, such as a dropout mask or the statistics of a norm */
};

/* Rules by which the gradients of an operator's inputs are derived from the gradient of its
 * result. */
enum pz_grad_rule {
  PZ_GRAD_NONE,       /* the operator has no gradient */
  PZ_GRAD_PASS,       /* the gradient of the result, summed up if an input was broadcast */
  PZ_GRAD_POINTWISE,  /* one operator computes the gradients of all inputs */
  PZ_GRAD_PRODUCT,    /* one matrix product for the gradient of each factor */
  PZ_GRAD_SPLIT,      /* the gradients of the parts are joined into one tensor */
  PZ_GRAD_JOIN,       /* the gradients are views of parts of the gradient */
  PZ_GRAD_COLLECTIVE, /* the gradient is exchanged by the dual collective */
};

/* A row of ops.def. */
struct pz_op_info {
  const char *name;
  enum pz_op_class op_class;
  enum pz_grad_rule grad;
  unsigned saves;   /* set of PZ_SAVE_*: what backward reads */
  bool elementwise; /* whether it can be fused into the operator that produces its input */
  int flop[2];      /* FLOP per element, by enum pz_direction */
};

/* Returns the row of a kind, or NULL if it is unknown. */
const struct pz_op_info *pz_op_info(int kind);

/* Returns whether an operator is a recurrence that is scanned in chunks (Mamba, delta rule). */
static inline bool pz_op_is_scan(int kind) {
  return kind == PZ_OP_SSM_SCAN || kind == PZ_OP_DELTA_RULE;
}

/* Returns whether an operator is attention or a scan, whose FLOP do not follow from its dims as
 * those of a GEMM do. */
static inline bool pz_op_mixes_tokens(int kind) {
  return kind == PZ_OP_ATTENTION || pz_op_is_scan(kind);
}

/* Returns whether an operator, in either direction, belongs to an adapter (LoRA) of a linear
 * layer. */
bool pz_op_adapts(const struct pz_op *op);

#endif
