/* The kinds of operators.  The table ops.def gives the class of each kind, how its gradient is
 * formed, what its backward reads, and the floating-point operations that it spends on an
 * element. */
#ifndef PZ_WORKLOAD_OP_H
#define PZ_WORKLOAD_OP_H

#include "core/status.h"

enum pz_op_kind {
#define OP(kind, name, op_class, grad, saves, elementwise, forward, backward) PZ_OP_##kind,
#include "workload/ops.def"
  PZ_OP_KINDS,
};

/* What the backward of an operator reads of its forward inputs and outputs, as a set. */
enum {
  PZ_SAVE_IN0 = 1,  /* the first input */
  PZ_SAVE_REST = 2, /* all other inputs */
  PZ_SAVE_OUT = 4,  /* the result */
  PZ_SAVE_AUX = 8,  /* the auxiliary output, such as a dropout mask or the statistics of a norm */
};

/* How the gradients of an operator's inputs are formed from the gradient of its result. */
enum pz_grad_rule {
  PZ_GRAD_NONE,       /* the operator has no gradient */
  PZ_GRAD_PASS,       /* the gradient itself, summed up where an input was broadcast */
  PZ_GRAD_POINTWISE,  /* one operator computes the gradients of all inputs */
  PZ_GRAD_PRODUCT,    /* one matrix product for each factor */
  PZ_GRAD_SPLIT,      /* the gradients of the parts, joined into one tensor */
  PZ_GRAD_JOIN,       /* views of the parts of the gradient */
  PZ_GRAD_COLLECTIVE, /* the dual collective */
};

struct pz_op_info {
  const char *name;
  enum pz_op_class op_class;
  enum pz_grad_rule grad;
  unsigned saves;   /* what backward reads, a set of PZ_SAVE_* */
  bool elementwise; /* can be fused into the operator that produces its input */
  int flop[2];      /* per element, by enum pz_direction */
};

const struct pz_op_info *pz_op_info(int kind);

/* Returns whether an operator is a recurrence that is scanned in chunks (Mamba, delta rule). */
static inline bool pz_op_is_scan(int kind) {
  return kind == PZ_OP_SSM_SCAN || kind == PZ_OP_DELTA_RULE;
}

/* Returns whether an operator is attention or a scan.  Its FLOP are not those of one GEMM with its
 * dims. */
static inline bool pz_op_mixes_tokens(int kind) {
  return kind == PZ_OP_ATTENTION || pz_op_is_scan(kind);
}

/* Returns whether an operator, in either direction, belongs to an adapter (LoRA) of a linear
 * layer. */
bool pz_op_adapts(const struct pz_op *op);

#endif
