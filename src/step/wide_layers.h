/* Layers at the ends of a model whose GEMMs stay in 16 bit while the others use 8 or 4 bit.
 * They become separate layers of the graph. */
#ifndef PZ_STEP_WIDE_LAYERS_H
#define PZ_STEP_WIDE_LAYERS_H

#include "core/call.h"

/* Sets `wide` for the `first` first and the `last` last repeated layers of a model, and with
 * `predict` for its layers of multi-token prediction.  Layers of the graph are split where
 * necessary; sums over all layers do not change. */
void pz_wide_layers(struct pz_call *call, struct pz_workload *workload, int64_t first, int64_t last,
                    bool predict);

#endif
