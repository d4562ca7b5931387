/* Throughput and utilisation of a step: what it computes, over what the devices could compute (MFU
 * and HFU, Korthikanti et al., arXiv 2205.05198).
 *
 * A token has 6 FLOP for each parameter of a GEMM that it passes, and those of attention.  `mfu`
 * counts the keys that a token attends to: half of a causal sequence, a window, a chunk.
 * `mfu_conventional` counts attention in full in every layer, 12 x layers x width of the heads x
 * sequence, as PaLM (Chowdhery et al., arXiv 2204.02311, appendix B) and most papers since then
 * print it.  `hfu` adds the FLOP that the plan recomputes to those of mfu.  All are relative to
 * the data-sheet peak of the precision. */
#ifndef PZ_STEP_STEP_RATES_H
#define PZ_STEP_STEP_RATES_H

#include "step/step_model.h"

/* Sets tokens, parameters, throughput and utilisation of a prediction whose step time is known.
 * Allocates intermediate data. */
void pz_step_rates(struct pz_call *call, const struct pz_step_model *model,
                   const struct pz_plan *plan, struct pz_prediction *out);

#endif
