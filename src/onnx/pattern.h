/* Patterns: norms, activations, rotary embeddings and masks that exporters take apart are found by
 * their structure and become one operator each.
 *
 * A pattern is applied by giving its last node the inputs of the whole; what nothing reads any more
 * is dropped later, and what something else still reads stays. */
#ifndef PZ_ONNX_PATTERN_H
#define PZ_ONNX_PATTERN_H

#include "onnx/graph.h"

/* Products with their bias; unless `eager`, norms, activations, gated activations, rotary
 * embeddings.  Wants users. */
PZ_NODISCARD enum pz_status pz_onnx_patterns(struct pz_onnx_graph *g, bool eager);

/* Scaling and masking of scores as one operator.  Wants users and roles. */
void pz_onnx_mask_patterns(struct pz_onnx_graph *g);

/* Scores, softmax and context as one flash-attention operator.  Wants users and roles. */
PZ_NODISCARD enum pz_status pz_onnx_attention_patterns(struct pz_onnx_graph *g);

#endif
