/* Layers at the ends of a model whose GEMMs stay in 16 bit while the others use 8 or 4 bit.
 * They become separate layers of the graph. */
#ifndef PZ_STEP_WIDE_LAYERS_H
#define PZ_STEP_WIDE_LAYERS_H

#include "core/call.h"

/* Sets `wide` for the first `n_first` and the last `n_last` repeated layers of a model, and with
 * `wide_predict` for its layers of multi-token prediction.  Layers of the graph are split where
 * necessary; sums over all layers do not change. */
void pz_wide_layers(struct pz_call *call, struct pz_workload *workload, int64_t n_first,
                    int64_t n_last, bool wide_predict);

#endif
