/* The backward graph, derived from the forward one operator at a time in reverse order, as a
 * framework's automatic differentiation runs it. */
#ifndef PZ_WORKLOAD_BACKWARD_H
#define PZ_WORKLOAD_BACKWARD_H

#include "workload/graph.h"

/* Fill graph.ops[PZ_BACKWARD].  For a matrix product both the input's and the weight's gradient
 * product are made, independent of each other.  PZ_NO_MEMORY and PZ_LIMIT are the only errors. */
PZ_NODISCARD enum pz_status pz_backward_derive(struct pz_graph *g,
                                               const struct pz_workload_options *options);

#endif
