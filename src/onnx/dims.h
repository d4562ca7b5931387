/* Correspondence of dimensions: which dimension of an input a dimension of a result is, and Einsum
 * equations of one or two operands, "bhqd,bhkd->bhqk", with letters of both cases and an ellipsis
 * for leading dimensions. */
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
  int64_t size[PZ_EINSUM_MOST_LETTERS]; /* by letter */
};

/* Reads the equation of a node.  Returns false if it is not supported: more than two operands, no
 * result, or shapes that do not fit. */
bool pz_onnx_einsum_read(const struct pz_onnx_graph *graph, const struct pz_onnx_node *node,
                         struct pz_onnx_einsum *einsum);

/* Finds the sizes of an Einsum of two operands as a batched product, batch x (m x k)(k x n). 
 * Returns false if the equation is not supported. */
bool pz_onnx_einsum_product(const struct pz_onnx_graph *graph, const struct pz_onnx_node *node,
                            struct pz_dims *dims);

/* Returns the dimension of input k that becomes dimension d of the first result, which depends on
 * the node's type, or -1 if there is none or it is unknown.  The sizes may differ where the input
 * is broadcast.  Dimensions of a Reshape have no source. */
int pz_onnx_source_dim(const struct pz_onnx_graph *graph, const struct pz_onnx_node *node,
                       const struct pz_onnx_value *output, uint32_t k, int d);

#endif
