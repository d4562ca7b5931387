/* The order of a graph's operators for layers: those that carry gradients and contribute to an
 * output, topologically; consumers of each value, and shared values. */
#ifndef PZ_ONNX_ORDER_H
#define PZ_ONNX_ORDER_H

#include "onnx/plan.h"

/* Fill order, n, place, the uses, strict, crossing and result of a plan; linear in the graph. */
PZ_NODISCARD enum pz_status pz_onnx_order_make(struct pz_onnx_plan *p);

/* Is the node a product: of matrices, or a convolution? */
bool pz_onnx_is_product(const struct pz_onnx_node *n);

/* May a parameter be several?  Exporters store equal vectors (biases of zeros, norms of ones) once;
 * these count for each use, unless matrices are shared too. */
bool pz_onnx_is_merged(const struct pz_onnx_plan *p, uint32_t value);

/* Is a parameter that operators [first, first + n) read another's? */
bool pz_onnx_is_tied(const struct pz_onnx_plan *p, uint32_t value, uint32_t first, uint32_t n);

/* Where a value is made: its place in the order, or PZ_NONE when it is no operator's result. */
uint32_t pz_onnx_made_at(const struct pz_onnx_plan *p, uint32_t value);

#endif
