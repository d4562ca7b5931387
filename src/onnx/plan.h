/* The plan of an import: the graph's operators in order, cut into layers, divided and built. */
#ifndef PZ_ONNX_PLAN_H
#define PZ_ONNX_PLAN_H

#include "onnx/graph.h"
#include "workload/build.h"

struct pz_onnx_segment {
  uint32_t first, n; /* operators of one instance, as places in the order */
  int64_t count;
  const char *name;
  const uint32_t *in;  /* values it reads that layers before made, the latest first */
  const uint32_t *out; /* values that later layers read and that it made or reads */
  uint32_t n_in, n_out;
  int64_t passing_bytes; /* of values that only pass by */
  const uint32_t *from;  /* segments whose results it reads, ascending */
  uint32_t n_from;
};

struct pz_onnx_plan {
  const struct pz_onnx_graph *g;
  struct pz_arena *arena;
  uint32_t *order, n;  /* nodes that become operators */
  uint32_t n_hoisted;  /* how many of them are made from parameters alone, for several layers */
  uint32_t *place;     /* by node: its place in the order, or PZ_NONE */
  uint32_t *last_use;  /* by value (roots): last place that reads it; n: an output */
  uint32_t *first_use; /* the same for parameters: the first place */
  bool strict;         /* weights are shared between layers on purpose */
  uint32_t *crossing;  /* by place p: values made before p and read at p or later */
  uint64_t *hash;      /* by place */
  struct pz_vec segments;
  uint32_t result; /* the value the loss is taken of */
};

static inline const struct pz_onnx_node *pz_onnx_at(const struct pz_onnx_plan *p, uint32_t place) {
  return pz_onnx_node(p->g, p->order[place]);
}

/* ---- block.c ---------------------------------------------------------------------------------
 *
 * Finding layers: the operators that carry gradients in topological order, cut into a first part, blocks
 * that repeat, and what stands between and after them.  A block is the shortest period of the sequence
 * of canonical hashes (type, attributes, shapes, roles; never names) that repeats at least twice with the
 * same wiring, where the whole run covers the most operators.  More runs are looked for in what is left,
 * so that an encoder and a decoder, or the stages of a convolutional network, are each found. */

/* `regex` (may be NULL) overrides what is found: operators whose node names have the same text in
 * its first group (or its match) form an instance. */
PZ_NODISCARD enum pz_status pz_onnx_plan_make(struct pz_onnx_plan *p, const struct pz_onnx_graph *g,
                                              struct pz_arena *arena, const char *regex);

/* ---- order.c: those that carry gradients and contribute to an output ------------------------ */

/* Fill order, n, place, the uses, strict, crossing and result of a plan; linear in the graph. */
PZ_NODISCARD enum pz_status pz_onnx_order_make(struct pz_onnx_plan *p);

/* Is the node a product: of matrices, or a convolution? */
bool pz_onnx_is_product(const struct pz_onnx_node *n);

/* May a parameter be several?  Exporters store equal vectors (biases of zeros, norms of ones) once;
 * these count for each use, unless matrices are shared too. */
bool pz_onnx_is_merged(const struct pz_onnx_plan *p, uint32_t value);

/* Is a parameter that operators [first, first + n) read another's? */
bool pz_onnx_is_tied(const struct pz_onnx_plan *p, uint32_t value, uint32_t first, uint32_t n);

/* Where a value is made: its place in the order, or PZ_NONE when it is no operator's result. */
uint32_t pz_onnx_made_at(const struct pz_onnx_plan *p, uint32_t value);

/* ---- sharding.c ------------------------------------------------------------------------------
 *
 * Tensor parallelism: products with weights that share an input are divided by columns where everything
 * made from them can be followed, axis by axis, to products that are divided by rows, with a sum over the
 * group after them. */

struct pz_onnx_sharding {
  int64_t tp;
  uint8_t *dim;    /* by value: 1 + the dimension that is divided; 0: whole */
  uint8_t *divide; /* by node: enum pz_divide of its product */
};

/* Find how tensors are divided among tp devices.  PZ_BAD_USE, with the reason, when the model
 * cannot be divided so. */
PZ_NODISCARD enum pz_status pz_onnx_shard(struct pz_onnx_plan *p, int64_t tp,
                                          struct pz_onnx_sharding *out);

/* ---- layer.c: a segment as a layer, through the builder that the model families use --------- */

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
