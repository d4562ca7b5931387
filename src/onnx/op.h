/* ONNX operator types: one row each, with the shape inference and the work counted. */
#ifndef PZ_ONNX_OP_H
#define PZ_ONNX_OP_H

#include "workload/op.h"

/* How the result's shape follows from the inputs. */
enum pz_onnx_shape_rule {
  PZ_SHAPE_SAME, /* as the first input */
  PZ_SHAPE_BROADCAST,
  PZ_SHAPE_MATMUL,
  PZ_SHAPE_GEMM,
  PZ_SHAPE_CONV,
  PZ_SHAPE_CONV_TRANSPOSE,
  PZ_SHAPE_POOL,
  PZ_SHAPE_GLOBAL_POOL,
  PZ_SHAPE_REDUCE,
  PZ_SHAPE_ARG, /* a reduction to indices */
  PZ_SHAPE_RESHAPE,
  PZ_SHAPE_FLATTEN,
  PZ_SHAPE_TRANSPOSE,
  PZ_SHAPE_SQUEEZE,
  PZ_SHAPE_UNSQUEEZE,
  PZ_SHAPE_CONCAT,
  PZ_SHAPE_SPLIT,
  PZ_SHAPE_SLICE,
  PZ_SHAPE_GATHER,
  PZ_SHAPE_INDEXED, /* as the second input: GatherElements */
  PZ_SHAPE_GATHER_ND,
  PZ_SHAPE_EXPAND,
  PZ_SHAPE_TILE,
  PZ_SHAPE_PAD,
  PZ_SHAPE_RESIZE,
  PZ_SHAPE_SHAPE,
  PZ_SHAPE_SCALAR,
  PZ_SHAPE_CONSTANT,
  PZ_SHAPE_FILLED, /* the input is the shape: ConstantOfShape */
  PZ_SHAPE_RANGE,
  PZ_SHAPE_TOPK,
  PZ_SHAPE_ONE_HOT,
  PZ_SHAPE_DEPTH, /* DepthToSpace, SpaceToDepth */
  PZ_SHAPE_EINSUM,
  PZ_SHAPE_NON_ZERO,
  PZ_SHAPE_UNKNOWN, /* only the file can tell */
};

/* How the operator is counted. */
enum pz_onnx_lower {
  PZ_LOWER_VIEW,   /* another name for the same bytes */
  PZ_LOWER_PART,   /* some of the bytes of its input */
  PZ_LOWER_DATA,   /* never has a gradient */
  PZ_LOWER_VECTOR, /* one vector operator of `kind` */
  PZ_LOWER_BINARY, /* of two operands; with a constant for one it is a scaling */
  PZ_LOWER_MATMUL,
  PZ_LOWER_GEMM,
  PZ_LOWER_CONV,
  PZ_LOWER_EINSUM,
  PZ_LOWER_NORM,
  PZ_LOWER_GATHER,
  PZ_LOWER_CONCAT,
  PZ_LOWER_EXPAND,
  PZ_LOWER_REFUSE,
};

struct pz_onnx_op {
  const char *type;
  enum pz_onnx_shape_rule shape;
  enum pz_onnx_lower rule;
  int kind;         /* PZ_OP_* that the work is counted as */
  bool elementwise; /* each element from elements at the same place */
};

/* NULL where the type is not known. */
const struct pz_onnx_op *pz_onnx_op_find(const char *domain, const char *type);

/* The row for types that are not known. */
const struct pz_onnx_op *pz_onnx_op_unknown(void);

#endif
