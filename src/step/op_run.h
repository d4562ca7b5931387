/* What one operator of a pass runs on a device. */
#ifndef PZ_STEP_OP_RUN_H
#define PZ_STEP_OP_RUN_H

#include "cost/cost.h"
#include "schedule/model/rate_modes.h"

/* An operator as a number of equal kernel calls that run one after another. */
struct pz_op_run {
  enum { PZ_RUN_NONE, PZ_RUN_GEMM, PZ_RUN_ATTENTION, PZ_RUN_ELEMENTWISE, PZ_RUN_LINK } kind;
  double s;            /* seconds of all calls, at the clock that the chip's power limit allows */
  double cast_s;       /* seconds to cast the operands of an 8-bit or 4-bit GEMM, before it */
  double merge_s;      /* part of s: adding up the results of the turns of ring attention */
  double calls;        /* number of kernel calls */
  struct pz_work work; /* of one call, at the chip's highest clock */
  /* Seconds and dynamic joules with each share of a limited power budget
   * (schedule/model/rate_modes.h).  They are computed on demand from the largest share downward;
   * `levels` counts those that are valid, from the end. */
  double level_s[PZ_RATE_LEVELS], level_j[PZ_RATE_LEVELS];
  int levels;
  bool weight_gradient; /* the GEMM computes the gradient of a weight */
  bool streamed;        /* a collective whose result a GEMM can read while it arrives */
};

#endif
