/* From the protobuf message of a model to its graph. */
#ifndef PZ_ONNX_READER_H
#define PZ_ONNX_READER_H

#include "onnx/graph.h"

/* Make the graph of a model: names resolved, nodes sorted, every type looked up. */
PZ_NODISCARD enum pz_status pz_onnx_graph_make(struct pz_onnx_graph *g, const Onnx__ModelProto *m,
                                               bool unknown_ops_vector);

#endif
