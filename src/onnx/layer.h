/* A segment of an ONNX graph as a layer: operators of phaze, one after the other, through the
 * builder that the model families use. */
#ifndef PZ_ONNX_LAYER_H
#define PZ_ONNX_LAYER_H

#include "onnx/sharding.h"

/* What all layers of a model share while they are made. */
struct pz_onnx_lowering {
  const struct pz_onnx_plan *plan;
  const struct pz_onnx_sharding *sharding;
  uint32_t *tensor; /* by value: its tensor in the layer being made */
  uint32_t *made;   /* by value: the layer that entry is for */
  uint32_t layer;   /* counts up */
};

PZ_NODISCARD enum pz_status pz_onnx_lowering_init(struct pz_onnx_lowering *l,
                                                  const struct pz_onnx_plan *plan,
                                                  const struct pz_onnx_sharding *sharding);

/* Build one instance of a segment; the last one of the model ends with the loss.  Errors go to the
 * builder, sentences to the graph's error. */
void pz_onnx_layer_build(struct pz_onnx_lowering *l, struct pz_builder *b,
                         const struct pz_onnx_segment *s);

#endif
