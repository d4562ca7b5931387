/* What the parts of a step take of a chip's resources, whatever the chip: operations of arrays and lanes, bytes. */
#ifndef PZ_PLACE_PART_WORK_H
#define PZ_PLACE_PART_WORK_H

#include "place/plan_parts.h"

struct pz_part_work {
  double attention_flop, attention_ops, ops, bytes; /* of attention; of element-wise operators */
  double tail_ops;                                  /* of lanes, beside products */
  double macs;                                      /* of products */
};

/* By part of an open shape, zero before. */
PZ_NODISCARD enum pz_status pz_part_work_of(const struct pz_plan_question *q,
                                            const struct pz_step_shape *x,
                                            struct pz_part_work out[PZ_PART_NUMBERS],
                                            struct pz_error *err);

/* Is it one of the products that count as macs? */
bool pz_part_has_product(const struct pz_op *op);

#endif
