/* The plan of an import: the graph's operators in order (order.h), cut into layers (block.h). */
#ifndef PZ_ONNX_PLAN_H
#define PZ_ONNX_PLAN_H

#include "onnx/graph.h"

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

#endif
