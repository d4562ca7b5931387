/* The passes over a layer's graph once it is built, in the order in which assemble.c runs them. */
#ifndef PZ_WORKLOAD_PASSES_H
#define PZ_WORKLOAD_PASSES_H

#include "workload/graph.h"

/* The backward graph, derived from the forward one operator at a time in reverse order, as a framework's
 * automatic differentiation runs it: fill graph.ops[PZ_BACKWARD].  For a matrix product both the input's
 * and the weight's gradient product are made, independent of each other.  PZ_NO_MEMORY and PZ_LIMIT are
 * the only errors. */
PZ_NODISCARD enum pz_status pz_backward_derive(struct pz_graph *g,
                                               const struct pz_workload_options *options);

/* Fusion: a matrix product absorbs the element-wise operators that alone consume its result, and
 * chains of element-wise operators become one.  Intermediate results are not written, unless
 * backward reads them.  Without products (pointwise) only chains; without both (modules) what the
 * kernel of a softmax always does, its scale and mask.  Both directions of g are rewritten; precedence is
 * kept: a member's result has no consumer outside its group. */
PZ_NODISCARD enum pz_status pz_fuse(struct pz_graph *g, enum pz_kernels kernels);

/* ---- memory: the tensors saved for backward, and the bytes live at each moment ---------------- */

/* Fill saved, activation_bytes, shared_bytes, output_bytes and live of a layer from its graph.  The
 * backward operators must be the derivatives alone, without recomputation. */
PZ_NODISCARD enum pz_status pz_memory_layer(struct pz_graph *g,
                                            const struct pz_workload_options *options,
                                            struct pz_layer *layer);

/* Bytes that a saved tensor with such uses (enum pz_saved_use) takes less in a form than in 16 bit. */
int64_t pz_saved_less(const struct pz_tensor *t, unsigned use, enum pz_saved_form form);

/* Peak bytes of one training step of the model: weights and gradients stay, the rest comes and
 * goes. */
PZ_NODISCARD enum pz_status pz_memory_peak(const struct pz_workload *w, int64_t *bytes);

#endif
