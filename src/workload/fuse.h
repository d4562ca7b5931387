/* Fusion: a matrix product absorbs the element-wise operators that alone consume its result, and
 * chains of element-wise operators become one.  Intermediate results are not written, unless
 * backward reads them.  Without products (pointwise) only chains; without both (modules) what the
 * kernel of a softmax always does, its scale and mask. */
#ifndef PZ_WORKLOAD_FUSE_H
#define PZ_WORKLOAD_FUSE_H

#include "workload/graph.h"

/* Rewrite both directions of g.  Precedence is kept: a member's result has no consumer outside its
 * group. */
PZ_NODISCARD enum pz_status pz_fuse(struct pz_graph *g, enum pz_kernels kernels);

#endif
