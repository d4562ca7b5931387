/* The passes over the graph of a built layer, in the order in which assemble.c runs them. */
#ifndef PZ_WORKLOAD_PASSES_H
#define PZ_WORKLOAD_PASSES_H

#include "workload/graph.h"

/* Derives the backward operators from the forward ones, in reverse order, as the automatic
 * differentiation of a framework does.  A matrix product gets two independent gradient products,
 * one for its input and one for its weight. */
void pz_backward_derive(struct pz_graph *graph, const struct pz_workload_options *options);

/* Fuses operators in both directions.  A matrix product absorbs the element-wise operators that
 * alone read its result, and a chain of element-wise operators becomes one.  Intermediate results
 * are written only if backward reads them.  PZ_KERNELS_POINTWISE fuses only chains, and
 * PZ_KERNELS_MODULES only scale and mask with the softmax. */
void pz_fuse(struct pz_graph *graph, enum pz_kernels kernels);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Sets the members of a layer about memory (saved, activation_bytes, shared_bytes, output_bytes,
 * live) from its graph, which must not contain recomputation yet. */
void pz_memory_layer(struct pz_graph *graph, const struct pz_workload_options *options,
                     struct pz_layer *layer);

/* Returns the bytes by which a saved tensor is smaller in this form than in 16 bit.  `uses` is a
 * set of enum pz_saved_use. */
int64_t pz_saved_less(const struct pz_tensor *tensor, unsigned uses, enum pz_saved_form form);

/* Returns the peak bytes of one training step of the model, with weights and gradients. */
int64_t pz_memory_peak(struct pz_call *call, const struct pz_workload *workload);

#endif
