/* Shapes: sizes bound to symbolic dimensions, and shapes inferred where the file does not state
 * them, as the ONNX operator specifications (opsets 9 to 22) define. */
#ifndef PZ_ONNX_SHAPE_H
#define PZ_ONNX_SHAPE_H

#include "onnx/graph.h"

/* Bind symbolic dimensions of the inputs and give every value the shape that follows.  A value
 * whose shape cannot be known keeps rank -1. */
PZ_NODISCARD enum pz_status pz_onnx_shapes(struct pz_onnx_graph *g,
                                           const struct pz_workload_options *options);

#endif
