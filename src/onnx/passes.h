/* The passes of an import, from the bytes of a file to a graph that can be cut into layers, in the order
 * in which import.c runs them. */
#ifndef PZ_ONNX_PASSES_H
#define PZ_ONNX_PASSES_H

#include "onnx/graph.h"

/* ---- file.c: bytes in, the protobuf message out, with limits ---------------------------------
 *
 * The message is copied once before it is unpacked, without what is not needed: contents of large
 * tensors, subgraphs, doc strings and fields this reader does not know.  So memory does not grow
 * with the weights, and nesting is checked before protobuf-c, which recurses without limit, sees
 * the bytes. */

enum {
  PZ_ONNX_MOST_FILE = INT32_MAX, /* bytes of a file: what protobuf allows */
  PZ_ONNX_MOST_KEPT = 128 << 20, /* bytes that are left of it without the weights */
  PZ_ONNX_MOST_DATA = 4096,      /* contents of a tensor that are kept, bytes */
  PZ_ONNX_MOST_NESTING = 24,     /* messages inside messages */
};

/* Unpack a model; all of it lives in the arena.  `name` stands for the file in messages. */
PZ_NODISCARD enum pz_status pz_onnx_read(const char *name, const void *data, size_t bytes,
                                         struct pz_arena *arena, Onnx__ModelProto **out,
                                         struct pz_error *err);

/* ---- reader.c: from the message to a graph --------------------------------------------------- */

/* Make the graph of a model: names resolved, nodes sorted, every type looked up. */
PZ_NODISCARD enum pz_status pz_onnx_graph_make(struct pz_onnx_graph *g, const Onnx__ModelProto *m,
                                               bool unknown_ops_vector);

/* ---- shape.c, constant.c ---------------------------------------------------------------------- */

/* Bind symbolic dimensions of the inputs and give every value the shape that follows, as the ONNX
 * operator specifications (opsets 9 to 22) define.  A value whose shape cannot be known keeps rank -1. */
PZ_NODISCARD enum pz_status pz_onnx_shapes(struct pz_onnx_graph *g,
                                           const struct pz_workload_options *options);

/* Contents of small integer tensors, from which exporters compute shapes.  After a node's result shapes
 * are known: its contents where they follow. */
bool pz_onnx_constant_node(struct pz_onnx_graph *g, const struct pz_onnx_node *n);

/* Is v filled with one number other than zero? */
bool pz_onnx_is_ones(const struct pz_onnx_graph *g, const struct pz_onnx_value *v);

/* ---- axes.c: other microbatch sizes and sequence lengths than the exported ones --------------
 *
 * Every dimension is followed back to the batch and sequence dimensions of the inputs, through reshapes
 * and transpositions, and scaled. */

/* What the file was exported for; 0: there is no such dimension. */
struct pz_onnx_sizes {
  int64_t batch, seq;
};

/* The batch and sequence sizes of the inputs. */
PZ_NODISCARD enum pz_status pz_onnx_sizes(struct pz_onnx_graph *g,
                                          const struct pz_workload_options *o,
                                          struct pz_onnx_sizes *out);

/* Change the shapes of all values to o->mbs samples of o->seq tokens (0: as exported). */
PZ_NODISCARD enum pz_status pz_onnx_rescale(struct pz_onnx_graph *g,
                                            const struct pz_workload_options *o,
                                            const struct pz_onnx_sizes *from);

/* ---- role.c: parameters, data and what carries gradients; views; what the outputs depend on - */

/* Fill role and root of every value, and `table` of initializers that are constants of the
 * architecture (rotary angles, masks).  `eager`: broadcasts are copies, not views. */
void pz_onnx_roles(struct pz_onnx_graph *g, bool eager);

/* Mark as tables initializers that have the exported batch as their first dimension and are added
 * to, or multiplied with, something sample by sample: parameters serve all samples alike. */
void pz_onnx_batch_tables(struct pz_onnx_graph *g, int64_t batch);

/* The shape of everything that carries a gradient is known; otherwise an error that names the
 * tensor. */
PZ_NODISCARD enum pz_status pz_onnx_check_shapes(const struct pz_onnx_graph *g);

/* Mark what the outputs need as live, the other nodes as gone. */
void pz_onnx_live(struct pz_onnx_graph *g);

/* ---- pattern.c -------------------------------------------------------------------------------
 *
 * Norms, activations, rotary embeddings and masks that exporters take apart are found by their
 * structure and become one operator each.  A pattern is applied by giving its last node the inputs of
 * the whole; what nothing reads any more is dropped later, and what something else still reads stays. */

/* Products with their bias; unless `eager`, norms, activations, gated activations, rotary
 * embeddings.  Wants users. */
PZ_NODISCARD enum pz_status pz_onnx_patterns(struct pz_onnx_graph *g, bool eager);

/* Scaling and masking of scores as one operator.  Wants users and roles. */
void pz_onnx_mask_patterns(struct pz_onnx_graph *g);

/* Scores, softmax and context as one flash-attention operator.  Wants users and roles. */
PZ_NODISCARD enum pz_status pz_onnx_attention_patterns(struct pz_onnx_graph *g);

#endif
