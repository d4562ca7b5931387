/* Contents of small integer tensors, from which exporters compute shapes. */
#ifndef PZ_WORKLOAD_ONNX_CONST_H
#define PZ_WORKLOAD_ONNX_CONST_H

#include "workload/onnx_graph.h"

/* Take what is known of a tensor's contents; false when out of memory. */
bool pz_onnx_const_read(struct pz_onnx_graph *g, struct pz_onnx_value *v,
                        const Onnx__TensorProto *t);

/* After a node's result shapes are known: its contents where they follow. */
bool pz_onnx_const_node(struct pz_onnx_graph *g, const struct pz_onnx_node *n);

/* Is v filled with one number other than zero? */
bool pz_onnx_is_ones(const struct pz_onnx_graph *g, const struct pz_onnx_value *v);

#endif
