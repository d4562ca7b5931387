/* Contents of small integer tensors, from which exporters compute shapes. */
#ifndef PZ_ONNX_CONSTANT_H
#define PZ_ONNX_CONSTANT_H

#include "onnx/graph.h"

/* After a node's result shapes are known: its contents where they follow. */
bool pz_onnx_constant_node(struct pz_onnx_graph *g, const struct pz_onnx_node *n);

/* Is v filled with one number other than zero? */
bool pz_onnx_is_ones(const struct pz_onnx_graph *g, const struct pz_onnx_value *v);

#endif
