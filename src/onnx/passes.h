/* The passes of an import, from the bytes of a file to a graph that can be divided into layers, in
 * the order in which import.c runs them. */
#ifndef PZ_ONNX_PASSES_H
#define PZ_ONNX_PASSES_H

#include "onnx/graph.h"

/* ---- file.c --------------------------------------------------------------------------------- */

/* Limits of a file. */
enum {
  PZ_ONNX_MOST_FILE = INT32_MAX, /* most bytes of a file, the limit of protobuf */
  PZ_ONNX_MOST_KEPT = 128 << 20, /* most bytes of a file without the weights */
  PZ_ONNX_MOST_DATA = 4096,      /* most bytes of a tensor whose contents are read */
  PZ_ONNX_MOST_NESTING = 24,     /* most levels of nested messages */
};

/* Unpacks a model into the memory of the call.  `name` stands for the file in messages. */
const Onnx__ModelProto *pz_onnx_unpack(struct pz_call *call, const char *name, const void *data,
                                       size_t bytes);

/* ---- reader.c ------------------------------------------------------------------------------- */

/* Creates the graph of a model: names are resolved, operator types are looked up, and nodes are in
 * topological order.  `file` is the name in messages; unknown_as_vector accepts unknown types as
 * element-wise work. */
void pz_onnx_graph_make(struct pz_call *call, struct pz_onnx_graph *graph, const char *file,
                        const Onnx__ModelProto *model, bool unknown_as_vector);

/* ---- shape.c, constant.c -------------------------------------------------------------------- */

/* Binds the symbolic dimensions of the inputs and infers the shapes of all values.  A value whose
 * shape cannot be known keeps rank -1. */
void pz_onnx_infer_shapes(struct pz_call *call, struct pz_onnx_graph *graph,
                          const struct pz_workload_options *options);

/* Computes the contents of a node's results if those of its inputs are known.  The shapes of the
 * results must be known. */
void pz_onnx_follow_contents(struct pz_call *call, const struct pz_onnx_node *node);

/* Returns whether a value is filled with one number other than zero. */
bool pz_onnx_is_nonzero_fill(const struct pz_onnx_graph *graph, const struct pz_onnx_value *value);

/* ---- axes.c --------------------------------------------------------------------------------- */

/* Batch and sequence sizes for which a file was exported, or 0 if there is no such dimension. */
struct pz_onnx_sizes {
  int64_t batch, seq;
};

/* Finds the batch and sequence sizes of the inputs. */
struct pz_onnx_sizes pz_onnx_exported_sizes(struct pz_call *call, const struct pz_onnx_graph *graph,
                                            const struct pz_workload_options *options);

/* Changes the shapes of all values to options->mbs samples of options->seq tokens.  A sequence
 * length of 0 stands for the exported one. */
void pz_onnx_rescale(struct pz_call *call, struct pz_onnx_graph *graph,
                     const struct pz_workload_options *options,
                     const struct pz_onnx_sizes *exported);

/* ---- role.c --------------------------------------------------------------------------------- */

/* Fills the role and root of every value, and marks initializers that are constants of the
 * architecture, such as rotary angles and masks.  With `eager`, broadcasts are copies, not
 * views. */
void pz_onnx_assign_roles(struct pz_onnx_graph *graph, bool eager);

/* Marks initializers as constants if their first dimension is the exported batch and they are used
 * sample by sample, because parameters are the same for all samples. */
void pz_onnx_find_batch_constants(struct pz_onnx_graph *graph, int64_t batch);

/* Raises an error if the shape of a value that carries a gradient is unknown. */
void pz_onnx_check_shapes(struct pz_call *call, const struct pz_onnx_graph *graph);

/* Marks the values that the outputs depend on as live, and the nodes that they do not depend on as
 * removed. */
void pz_onnx_find_live(struct pz_onnx_graph *graph);

/* ---- pattern.c ------------------------------------------------------------------------------ */

/* Fuses products with their bias and, unless `eager`, norms, activations, gated activations and
 * rotary embeddings.  Requires the consumers of values. */
void pz_onnx_fuse_patterns(struct pz_call *call, struct pz_onnx_graph *graph, bool eager);

/* Fuses the scaling and the masking of attention scores.  Requires the consumers and roles of
 * values. */
void pz_onnx_fuse_masks(struct pz_onnx_graph *graph);

/* Fuses scores, softmax and context into one operator for flash attention.  Requires the consumers
 * and roles of values. */
void pz_onnx_fuse_attention(struct pz_call *call, struct pz_onnx_graph *graph);

#endif
