/* Memory of a layer: the tensors saved for backward, and the bytes live at each moment while the
 * layer runs. */
#ifndef PZ_WORKLOAD_MEMORY_H
#define PZ_WORKLOAD_MEMORY_H

#include "workload/graph.h"

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
