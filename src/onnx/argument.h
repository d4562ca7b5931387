/* Arguments of a node: axes and slices, from its attributes or, in newer opsets, from inputs whose
 * contents are known. */
#ifndef PZ_ONNX_ARGUMENT_H
#define PZ_ONNX_ARGUMENT_H

#include "onnx/graph.h"

/* Axis `a` of a tensor of rank `rank`, counted from the front; -1 when out of range. */
int pz_onnx_axis(int64_t a, int rank);

/* The integers of an attribute, or of an input where newer opsets have them. */
const int64_t *pz_onnx_axes(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                            const char *attr, uint32_t input, size_t *count);

/* Index v of a dimension of n elements, counted from the end where negative, kept in [least, most].
 */
int64_t pz_onnx_clamp(int64_t v, int64_t n, int64_t least, int64_t most);

/* What a slice takes of one dimension: every step-th element, beginning with `from`. */
struct pz_onnx_range {
  int64_t from, step, count;
};

/* What a Slice takes of each dimension of its input; false where that is not known. */
bool pz_onnx_slice_of(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                      struct pz_onnx_range range[PZ_ONNX_MOST_RANK]);

/* The dimension of the result y that each dimension of the input x becomes in a Squeeze or
 * Unsqueeze;
 * -1 where it is dropped. */
void pz_onnx_kept_dims(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                       const struct pz_onnx_value *x, const struct pz_onnx_value *y,
                       int to[PZ_ONNX_MOST_RANK]);

#endif
