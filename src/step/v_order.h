/* The passes of a stage of a pipeline in a V, in the order in which frameworks issue them.
 *
 * Each stage has a near chunk, which microbatches pass on the way to the turn of the V, and a far one on the way back.
 * ZB-V: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 6, with the code of its authors.  DualPipe:
 * DeepSeek-V3, arXiv 2412.19437, section 3.2.1, and DualPipeV, each half of it bent into a V, with the code of its
 * authors. */
#ifndef PZ_STEP_V_ORDER_H
#define PZ_STEP_V_ORDER_H

#include "core/arena.h"

enum pz_v_pass_kind {
  PZ_V_FORWARD,
  PZ_V_INPUTS,  /* gradients of inputs */
  PZ_V_WEIGHTS, /* gradients of weights */
  PZ_V_BACKWARD /* both at once */
};

struct pz_v_pass {
  uint32_t microbatch;
  uint8_t kind;   /* enum pz_v_pass_kind */
  bool far;       /* of the far chunk */
  bool with_next; /* a forward that runs as one with the backward after it */
};

/* Writes at most 6 passes a microbatch, returns how many.  DualPipe: `stages` and `microbatches` of the V that is half
 * of it.  Microbatches: for DualPipe and DualPipeV at least 2 * stages. */
uint32_t pz_v_order(enum pz_pipeline_order order, uint32_t stages, uint32_t stage,
                    uint32_t microbatches, struct pz_v_pass *out);

#endif
