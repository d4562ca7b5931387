/* The order of a graph's operators for layers: those that carry gradients and contribute to an
 * output, topologically; consumers of each value, and shared values. */
#ifndef PZ_WORKLOAD_ONNX_ORDER_H
#define PZ_WORKLOAD_ONNX_ORDER_H

#include "workload/onnx_block.h"

/* Fill order, n, place, the uses, strict, crossing and result of a plan; linear in the graph. */
PZ_NODISCARD enum pz_status pz_onnx_order_make(struct pz_onnx_plan *p);

/* Is the node a product: of matrices, or a convolution? */
bool pz_onnx_is_product(const struct pz_onnx_node *n);

#endif
