/* Sizes for the symbolic dimensions of a graph's inputs. */
#ifndef PZ_ONNX_BINDING_H
#define PZ_ONNX_BINDING_H

#include "onnx/graph.h"

/* A size for every symbolic dimension of the inputs: as options->dims name it, else the microbatch
 * for the first one and the sequence length for the second of token ids.  PZ_BAD_USE for a name
 * that no input has, PZ_BAD_INPUT for a dimension without a size. */
PZ_NODISCARD enum pz_status pz_onnx_bind(struct pz_onnx_graph *g,
                                         const struct pz_workload_options *options);

#endif
