/* Which dimension of an input a dimension of the result is; Einsum equations of one or two operands:
 * "bhqd,bhkd->bhqk", with letters of both cases and an ellipsis for leading dimensions. */
#ifndef PZ_ONNX_DIMS_H
#define PZ_ONNX_DIMS_H

#include "onnx/graph.h"

enum { PZ_EINSUM_MOST_LETTERS = 64 };

struct pz_onnx_term {
  int rank;
  uint8_t letter[PZ_ONNX_MOST_RANK]; /* by dimension; below PZ_EINSUM_MOST_LETTERS */
};

struct pz_onnx_einsum {
  struct pz_onnx_term in[2], out;
  int64_t size[PZ_EINSUM_MOST_LETTERS];
};

/* False where the equation is not read: more operands, no result, or shapes that do not fit. */
bool pz_onnx_einsum_read(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                         struct pz_onnx_einsum *e);

/* Of two operands: sizes of the product it is, batch x (m x k)(k x n). */
bool pz_onnx_einsum_dims(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                         struct pz_dims *d);

/* The dimension of input k that dimension i of the first result y is, by the node's type; -1: of none, or
 * it is not known.  Sizes may differ where the input is broadcast.  Reshapes have none. */
int pz_onnx_source_dim(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                       const struct pz_onnx_value *y, uint32_t k, int i);

#endif
