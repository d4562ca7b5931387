/* Other microbatch sizes and sequence lengths than the exported ones: every dimension is followed
 * back to the batch and sequence dimensions of the inputs, through reshapes and transpositions, and
 * scaled. */
#ifndef PZ_ONNX_AXES_H
#define PZ_ONNX_AXES_H

#include "onnx/graph.h"

/* What the file was exported for; 0: there is no such dimension. */
struct pz_onnx_sizes {
  int64_t batch, seq;
};

/* The batch and sequence sizes of the inputs. */
PZ_NODISCARD enum pz_status pz_onnx_sizes(struct pz_onnx_graph *g,
                                          const struct pz_workload_options *o,
                                          struct pz_onnx_sizes *out);

/* Change the shapes of all values to o->mbs samples of o->seq tokens (0: as exported). */
PZ_NODISCARD enum pz_status pz_onnx_rescale(struct pz_onnx_graph *g,
                                            const struct pz_workload_options *o,
                                            const struct pz_onnx_sizes *from);

#endif
