/* Tensor parallelism of an imported graph: products with weights that share an input are divided by
 * columns where everything made from them can be followed, axis by axis, to products that are
 * divided by rows, with a sum over the group after them. */
#ifndef PZ_ONNX_SHARDING_H
#define PZ_ONNX_SHARDING_H

#include "onnx/plan.h"
#include "workload/build.h"

struct pz_onnx_sharding {
  int64_t tp;
  uint8_t *dim;    /* by value: 1 + the dimension that is divided; 0: whole */
  uint8_t *divide; /* by node: enum pz_divide of its product */
  uint32_t regions;
};

/* Find how tensors are divided among tp devices.  PZ_BAD_USE, with the reason, when the model
 * cannot be divided so. */
PZ_NODISCARD enum pz_status pz_onnx_shard(struct pz_onnx_plan *p, int64_t tp,
                                          struct pz_onnx_sharding *out);

#endif
