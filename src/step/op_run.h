/* What one operator of a pass runs on a device. */
#ifndef PZ_STEP_OP_RUN_H
#define PZ_STEP_OP_RUN_H

#include "cost/cost.h"
#include "schedule/model/rate_modes.h"

/* So many calls, one after another, of what `work` does at the chip's clock. */
struct pz_op_run {
  enum { PZ_RUN_NONE, PZ_RUN_GEMM, PZ_RUN_ATTENTION, PZ_RUN_ELEMENTWISE, PZ_RUN_LINK } kind;
  double s;       /* of all, within the chip's watts */
  double cast_s;  /* element-wise, before a product in 8 bit */
  double merge_s; /* of s: results of a ring's turns added up */
  double calls;
  struct pz_work work;
  /* with each share of the watts beside those at rest (schedule/model/rate_modes.h), where these are limited: its time
   * and dynamic energy; found when first asked for, from the largest share down */
  double level_s[PZ_RATE_LEVELS], level_j[PZ_RATE_LEVELS];
  int levels;   /* that are known */
  bool weight;  /* a product for the gradient of weights */
  bool gathers; /* a collective whose GEMM reads it as it arrives */
};

#endif
