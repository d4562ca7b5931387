/* Shapes: sizes bound to symbolic dimensions, and shapes inferred where the file does not state
 * them, as the ONNX operator specifications (opsets 9 to 22) define. */
#ifndef PZ_WORKLOAD_ONNX_SHAPE_H
#define PZ_WORKLOAD_ONNX_SHAPE_H

#include "workload/onnx_graph.h"

/* Bind symbolic dimensions of the inputs and give every value the shape that follows.  A value
 * whose shape cannot be known keeps rank -1. */
PZ_NODISCARD enum pz_status pz_onnx_shapes(struct pz_onnx_graph *g,
                                           const struct pz_workload_options *options);

/* Axis `a` of a tensor of rank `rank`, counted from the front; -1 when out of range. */
int pz_onnx_axis(int64_t a, int rank);

/* The integers of an attribute, or of an input where newer opsets have them. */
const int64_t *pz_onnx_axes(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                            const char *attr, uint32_t input, size_t *count);

/* What a slice takes of one dimension: every step-th element, beginning with `from`. */
struct pz_onnx_cut {
  int64_t from, step, count;
};

/* What a Slice takes of each dimension of its input; false where that is not known. */
bool pz_onnx_slice_of(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                      struct pz_onnx_cut cut[PZ_ONNX_MOST_RANK]);

#endif
