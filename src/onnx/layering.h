/* The layers of an import: the operators of the graph in order, divided into segments and over a
 * tensor-parallel group, and built. */
#ifndef PZ_ONNX_LAYERING_H
#define PZ_ONNX_LAYERING_H

#include "onnx/graph.h"
#include "workload/build.h"

/* Consecutive operators that become one layer, which repeats `count` times. */
struct pz_onnx_segment {
  uint32_t first, n; /* places of the operators of the first instance: n places from `first` on */
  int64_t count;
  const char *name;
  const uint32_t *in;  /* values that it reads from earlier segments, the latest first */
  const uint32_t *out; /* values that it produces or reads, and that later segments read */
  uint32_t n_in, n_out;
  int64_t passing_bytes; /* bytes of earlier values that it does not read but later segments do */
  const uint32_t *from;  /* segments whose results it reads, in ascending order */
  uint32_t n_from;
};

/* The order of the operators of a graph, and its segments.  The place of an operator is its index
 * in `order`. */
struct pz_onnx_layering {
  const struct pz_onnx_graph *graph;
  uint32_t *order, n; /* indices of the n nodes that become operators, in order */
  /* Number of hoisted operators, which come first in the order.  They are computed from parameters
   * alone, for several layers. */
  uint32_t n_hoisted;
  uint32_t *place; /* indexed by node: its place in the order, or PZ_NONE */
  /* Indexed by root value: the first and the last place that read it, or PZ_NONE if none does.  The
   * last use of an output of the model may be n, the place after all operators. */
  uint32_t *first_use, *last_use;
  bool shares_matrices;   /* whether several products use the same matrix */
  uint32_t *crossing;     /* indexed by place: number of earlier values read at it or later */
  uint64_t *hash;         /* indexed by place: hash of the operator */
  struct pz_vec segments; /* list of struct pz_onnx_segment */
  uint32_t result;        /* the value from which the loss is computed */
};

/* ---- block.c -------------------------------------------------------------------------------- */

/* Finds the layers of a graph.  If `regex` is not NULL, consecutive operators whose node names
 * have the same text in its first group, or in its whole match, form an instance of a layer
 * instead. */
void pz_onnx_layering_make(struct pz_call *call, struct pz_onnx_layering *layering,
                           const struct pz_onnx_graph *graph, const char *regex);

/* ---- order.c -------------------------------------------------------------------------------- */

/* Sets all members of a layering except the hashes and the segments, in time linear in the
 * graph. */
void pz_onnx_order_make(struct pz_call *call, struct pz_onnx_layering *layering);

/* Returns whether each use of a parameter counts as a separate parameter, because an exporter
 * stored equal vectors, such as biases of zeros and norms of ones, only once.  If matrices are
 * shared too, all sharing is on purpose. */
bool pz_onnx_is_merged(const struct pz_onnx_layering *layering, uint32_t value);

/* Returns whether a parameter that operators [first, first + n) read belongs to an earlier or
 * later layer. */
bool pz_onnx_is_tied(const struct pz_onnx_layering *layering, uint32_t value, uint32_t first,
                     uint32_t n);

/* Returns the place at which a value is produced, or PZ_NONE if no operator produces it. */
uint32_t pz_onnx_produced_at(const struct pz_onnx_layering *layering, uint32_t value);

/* ---- sharding.c ----------------------------------------------------------------------------- */

/* The division of a graph over tp devices. */
struct pz_onnx_sharding {
  int64_t tp;
  uint8_t *dim;    /* indexed by value: 1 + the divided dimension, or 0 if it is whole */
  uint8_t *divide; /* indexed by node: enum pz_divide of its product */
};

/* Divides the tensors over tp devices.  Raises PZ_BAD_USE with the reason if the model cannot be
 * divided. */
void pz_onnx_shard(struct pz_call *call, const struct pz_onnx_layering *layering, int64_t tp,
                   struct pz_onnx_sharding *sharding);

/* ---- layer.c -------------------------------------------------------------------------------- */

/* State that the layers of a model share while they are built. */
struct pz_onnx_lowering {
  const struct pz_onnx_layering *layering;
  const struct pz_onnx_sharding *sharding;
  /* Indexed by root value: number of the latest layer that has a tensor for it (0: none), and the
   * index of this tensor in the graph of that layer. */
  uint32_t *built_in, *tensor;
  uint32_t layer; /* number of the layer that is being built, from 1 */
};

/* The argument of pz_onnx_build_layer(). */
struct pz_onnx_layer_task {
  struct pz_call *call;
  struct pz_onnx_lowering *lowering;
  const struct pz_onnx_segment *segment;
};

/* Builds one instance of a segment (a callback of struct pz_layer_plan).  The last segment of the
 * model ends with the loss. */
void pz_onnx_build_layer(struct pz_builder *builder, void *task);

#endif
