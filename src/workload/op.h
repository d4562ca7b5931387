/* The kinds of operators: one table that says of each what class it has, how its gradient is
 * formed, what its backward reads, and how many floating-point operations an element takes. */
#ifndef PZ_WORKLOAD_OP_H
#define PZ_WORKLOAD_OP_H

#include "core/status.h"

enum pz_op_kind {
  PZ_OP_MATMUL,
  PZ_OP_ATTENTION, /* flash attention: both products and the softmax, scores never written */
  PZ_OP_ADD,
  PZ_OP_BIAS,
  PZ_OP_MUL,
  PZ_OP_SCALE, /* times or plus a constant */
  PZ_OP_SCALE_MASK,
  PZ_OP_POW,
  PZ_OP_MEAN,
  PZ_OP_RSQRT,
  PZ_OP_TANH,
  PZ_OP_COS,
  PZ_OP_SIN,
  PZ_OP_ROTATE_HALF, /* (-x2, x1): negate and concatenate */
  PZ_OP_CONCAT,
  PZ_OP_CAST,
  PZ_OP_COPY,
  PZ_OP_REPEAT, /* key/value heads copied to their query groups */
  PZ_OP_GELU,
  PZ_OP_RELU,
  PZ_OP_SILU,
  PZ_OP_SWIGLU,
  PZ_OP_SIGMOID,
  PZ_OP_SOFTMAX,
  PZ_OP_LOG_SOFTMAX,
  PZ_OP_NLL_LOSS,
  PZ_OP_CROSS_ENTROPY,
  PZ_OP_LAYERNORM,
  PZ_OP_RMSNORM,
  PZ_OP_DROPOUT,
  PZ_OP_ROTARY,
  PZ_OP_EMBEDDING,
  PZ_OP_REDUCE, /* sum over rows */
  PZ_OP_TOPK,
  PZ_OP_DISPATCH,    /* rows of tokens to rows of experts */
  PZ_OP_GATHER_ROWS, /* the same as PyTorch's index_select does it, backward by PZ_OP_SCATTER_ADD */
  PZ_OP_SCATTER_ADD, /* rows added up at their tokens by index_add */
  PZ_OP_SORT,        /* rows from several devices by expert, or back */
  PZ_OP_COMBINE,     /* weighted sum of the experts' rows of each token */
  PZ_OP_SPLIT,       /* views of parts of one tensor */
  PZ_OP_TP_ENTER,    /* nothing forward; all-reduce of the gradient */
  PZ_OP_ALL_REDUCE,
  PZ_OP_ALL_GATHER, /* of rows (sequence parallelism) */
  PZ_OP_REDUCE_SCATTER,
  PZ_OP_ALL_TO_ALL,     /* rows of tokens to and from their experts' devices */
  PZ_OP_GATHER_COLUMNS, /* all-gather of columns; the gradient is a slice */
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

#endif
