/* Contents of a stored tensor, as far as shapes may be computed from them. */
#ifndef PZ_ONNX_TENSOR_H
#define PZ_ONNX_TENSOR_H

#include "onnx/graph.h"

/* Take what is known of a tensor's contents; false when out of memory. */
bool pz_onnx_tensor_read(struct pz_onnx_graph *g, struct pz_onnx_value *v,
                         const Onnx__TensorProto *t);

/* The number of a scalar v of a floating-point type, if the tensor has it. */
void pz_onnx_tensor_real(struct pz_onnx_value *v, const Onnx__TensorProto *t);

/* Element i of a tensor of an integer type; *ok becomes false where it is not there. */
int64_t pz_onnx_tensor_int(const Onnx__TensorProto *t, int type, size_t i, bool *ok);

/* The contents of v are these integers, which outlive it. */
void pz_onnx_set_ints(struct pz_onnx_value *v, const int64_t *ints, int64_t n);

#endif
