/* Finding layers: the operators that carry gradients in topological order, cut into a first part,
 * blocks that repeat, and what stands between and after them.
 *
 * A block is the shortest period of the sequence of canonical hashes (type, attributes, shapes,
 * roles; never names) that repeats at least twice with the same wiring, where the whole run covers
 * the most operators.  More runs are looked for in what is left, so that an encoder and a decoder,
 * or the stages of a convolutional network, are each found. */
#ifndef PZ_ONNX_BLOCK_H
#define PZ_ONNX_BLOCK_H

#include "onnx/plan.h"

/* `regex` (may be NULL) overrides what is found: operators whose node names have the same text in
 * its first group (or its match) form an instance. */
PZ_NODISCARD enum pz_status pz_onnx_plan_make(struct pz_onnx_plan *p, const struct pz_onnx_graph *g,
                                              struct pz_arena *arena, const char *regex);

#endif
