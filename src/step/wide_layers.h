/* Layers at the ends of a model whose GEMMs stay in 16 bit where the others have 8 or 4: kinds of
 * layers of their own. */
#ifndef PZ_STEP_WIDE_LAYERS_H
#define PZ_STEP_WIDE_LAYERS_H

#include "core/call.h"

/* The first and the last of the repeated layers of a model, so many, or all, become kinds of
 * layers with `wide` set; `predict`: those of multi-token prediction too, which are not counted.
 * Sums stay. */
void pz_wide_layers(struct pz_call *call, struct pz_workload *workload, int64_t first, int64_t last,
                    bool predict);

#endif
