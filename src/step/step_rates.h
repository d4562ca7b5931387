/* What a step computes, over what the devices could: throughput, MFU and HFU (Korthikanti et al., arXiv 2205.05198).
 *
 * FLOP of a token: 6 for each parameter of a GEMM that it meets, and attention.  `mfu` counts of attention the keys that a
 * token attends to: half of a causal sequence, a window, a chunk.  `mfu_conventional` counts it in full in every layer, 12 x
 * layers x width of the heads x sequence, as PaLM (Chowdhery et al., arXiv 2204.02311, appendix B) and most papers since
 * print it.  `hfu` adds to mfu's FLOP those that the plan recomputes.  All are over the data-sheet peak of the precision. */
#ifndef PZ_STEP_STEP_RATES_H
#define PZ_STEP_STEP_RATES_H

#include "step/step_model.h"

/* Fill tokens, parameters, throughput and utilisation of a prediction with a step time. */
void pz_step_rates(struct pz_call *call, const struct pz_step_model *m, const struct pz_plan *plan,
                   struct pz_prediction *out);

#endif
