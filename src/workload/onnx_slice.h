/* Tensor parallelism of an imported graph: products with weights that share an input are divided by
 * columns where everything made from them can be followed, axis by axis, to products that are
 * divided by rows, with a sum over the group after them. */
#ifndef PZ_WORKLOAD_ONNX_SLICE_H
#define PZ_WORKLOAD_ONNX_SLICE_H

#include "workload/build.h"
#include "workload/onnx_block.h"

struct pz_onnx_cuts {
  int64_t tp;
  uint8_t *dim;    /* by value: 1 + the dimension that is divided; 0: whole */
  uint8_t *divide; /* by node: enum pz_divide of its product */
  uint32_t regions;
};

/* Find the cuts at options->tp.  PZ_BAD_USE, with what stands in the way, when the model cannot be
 * divided by it. */
PZ_NODISCARD enum pz_status pz_onnx_slice(struct pz_onnx_plan *p, int64_t tp,
                                          struct pz_onnx_cuts *out);

#endif
