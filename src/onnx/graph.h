/* The graph of an ONNX file as the importer sees it: values (tensors) and nodes (operators) by
 * index, nodes in topological order, and the results of the passes: shapes, contents of small
 * tensors, roles, patterns.
 *
 * The graph lives in the memory of the call that imports the file.  It has up to a million nodes,
 * so every pass is linear in the graph, or nearly so. op.c has the table of operator types;
 * graph.c reads attributes, arguments and stored tensors.  Nothing here knows layers or devices. */
#ifndef PZ_ONNX_GRAPH_H
#define PZ_ONNX_GRAPH_H

#include <onnx.pb-c.h>
#include <string.h>

#include "core/map.h"
#include "core/vec.h"
#include "workload/op.h"

/* ---- operator types: one row each, with the shape inference and the work that is counted ---- */

/* The rule by which the shape of the result follows from the inputs. */
enum pz_onnx_shape_rule {
#define SHAPE(name, rule) PZ_SHAPE_##name,
#include "onnx/shape_rules.def"
};

/* Ways in which an operator is lowered to operators of a workload. */
enum pz_onnx_lower {
  PZ_LOWER_VIEW,   /* another name for the same bytes */
  PZ_LOWER_PART,   /* some of the bytes of the first input */
  PZ_LOWER_DATA,   /* a result that never has a gradient */
  PZ_LOWER_VECTOR, /* one vector operator of the row's kind */
  PZ_LOWER_BINARY, /* a vector operator with two operands; a single number makes it a scaling */
  PZ_LOWER_MATMUL,
  PZ_LOWER_GEMM,
  PZ_LOWER_CONV,
  PZ_LOWER_EINSUM,
  PZ_LOWER_NORM,
  PZ_LOWER_GATHER,
  PZ_LOWER_CONCAT,
  PZ_LOWER_EXPAND,
  PZ_LOWER_REFUSE, /* the type is not imported, which is an error */
};

/* A row of the table of operator types. */
struct pz_onnx_op {
  const char *types; /* type names, separated by blanks */
  enum pz_onnx_shape_rule shape;
  enum pz_onnx_lower lower;
  int kind;         /* PZ_OP_* kind as which the work is counted */
  bool elementwise; /* whether each result element depends only on input elements at its place */
};

/* Returns the table row of an operator type, or NULL if the type is unknown. */
const struct pz_onnx_op *pz_onnx_op_find(const char *domain, const char *type);

/* The table row that is used for unknown types. */
extern const struct pz_onnx_op pz_onnx_unknown_op;

/* ---- values and nodes ----------------------------------------------------------------------- */

enum {
  PZ_ONNX_MOST_RANK = 8,
  PZ_ONNX_MOST_NODES = 1 << 20,
  PZ_ONNX_MOST_INTS = 512, /* most elements of an integer tensor whose contents are followed */
};

/* Largest accepted dimension.  A larger one is probably a mistake. */
#define PZ_ONNX_MOST_DIM (INT64_C(1) << 40)

/* Roles of values in training. */
enum pz_onnx_role {
  PZ_ONNX_DATA,       /* no gradient: an input, a constant, or computed from these alone */
  PZ_ONNX_PARAM,      /* a trained tensor, or a view of one */
  PZ_ONNX_ACTIVATION, /* computed from a parameter */
};

/* Meanings of a factor of a dimension. */
enum pz_onnx_axis { PZ_AXIS_NONE, PZ_AXIS_BATCH, PZ_AXIS_SEQ };

enum { PZ_ONNX_MOST_FACTORS = 4 };

/* A dimension as a product of factors, the outermost factor first. */
struct pz_onnx_factored_dim {
  int n;
  struct {
    int64_t size;
    enum pz_onnx_axis axis;
  } factor[PZ_ONNX_MOST_FACTORS];
};

struct pz_onnx_value {
  const char *name;
  const char *const *symbols; /* by dimension: its name if it is symbolic, or NULL */
  int type;                   /* TensorProto.DataType, or 0 if unknown */
  int rank;                   /* -1 if the shape is unknown */
  int64_t dim[PZ_ONNX_MOST_RANK];
  uint32_t producer; /* node that computes it, or PZ_NONE */
  bool input, initializer, output;
  bool shape_stated;   /* whether the file states its shape */
  bool constant_table; /* a constant table of the architecture, not a trained parameter */
  bool live;           /* whether an output of the model depends on it */
  const int64_t *ints; /* contents if they are known integers, or NULL */
  uint32_t n_ints;
  const double *reals; /* contents if they are a few known real numbers, or NULL */
  uint32_t n_reals;
  bool has_real; /* whether it has one element, whose value is `real` */
  double real;
  enum pz_onnx_role role;
  uint32_t root; /* the value whose bytes this view shows, or this value itself */
  uint32_t first_consumer, n_consumers;      /* its part of graph->consumers */
  struct pz_onnx_factored_dim *factored_dim; /* by dimension, or NULL unless sizes are rescaled */
};

struct pz_onnx_node {
  const struct pz_onnx_graph *graph; /* the graph that contains the node */
  const char *type, *domain, *name;
  const struct pz_onnx_op *op;
  Onnx__AttributeProto *const *attrs;
  size_t n_attrs;
  uint32_t *in, *out; /* indices of values, or PZ_NONE for absent optional ones */
  uint32_t n_in, n_out;
  int fused;    /* PZ_OP_* kind of the pattern that ends with this node, or -1 */
  bool removed; /* whether no output of the model depends on it */
};

struct pz_onnx_graph {
  const char *file;            /* file name for error messages */
  struct pz_vec values, nodes; /* struct pz_onnx_value, struct pz_onnx_node */
  struct pz_map by_name;       /* map from names to indices of values */
  uint32_t *consumers;         /* the nodes that read each value, grouped by value */
  struct pz_vec inputs, outputs;
  int64_t opset;
};

/* Returns value i of a graph. */
static inline struct pz_onnx_value *pz_onnx_value(const struct pz_onnx_graph *graph, uint32_t i) {
  return pz_vec_at(&graph->values, struct pz_onnx_value, i);
}

/* Returns node i of a graph, in topological order. */
static inline struct pz_onnx_node *pz_onnx_node(const struct pz_onnx_graph *graph, uint32_t i) {
  return pz_vec_at(&graph->nodes, struct pz_onnx_node, i);
}

/* Returns input i of a node, or NULL if it is absent. */
static inline struct pz_onnx_value *pz_onnx_input(const struct pz_onnx_node *node, uint32_t i) {
  return i < node->n_in && node->in[i] != PZ_NONE ? pz_onnx_value(node->graph, node->in[i]) : NULL;
}

/* Returns result i of a node, or NULL if it is absent. */
static inline struct pz_onnx_value *pz_onnx_result(const struct pz_onnx_node *node, uint32_t i) {
  return i < node->n_out && node->out[i] != PZ_NONE ? pz_onnx_value(node->graph, node->out[i])
                                                    : NULL;
}

/* Sets the consumers of all values from the nodes that are not removed. */
void pz_onnx_link_consumers(struct pz_call *call, struct pz_onnx_graph *graph);

/* Returns the name of a node for messages: its own, or else that of its first result. */
const char *pz_onnx_node_name(const struct pz_onnx_node *node);

/* Counts the elements of a value of known shape.  Returns false if there are more than 2^62. */
bool pz_onnx_count_elements(const struct pz_onnx_value *value, int64_t *count);

/* Returns whether a TensorProto.DataType is a floating-point type. */
bool pz_onnx_is_float(int type);

/* Raises an error about a node: "FILE: node 'NAME' (TYPE): ...". */
_Noreturn void pz_onnx_raise(struct pz_call *call, const struct pz_onnx_node *node,
                             enum pz_status status, const char *format, ...) PZ_PRINTF(4, 5);

/* Writes the shapes of the first four inputs of a node, such as "[1, 8] and [7, 8]", into buf. */
void pz_onnx_spell_inputs(const struct pz_onnx_node *node, char *buf, size_t size);

/* ---- attributes and arguments of a node ----------------------------------------------------- */

/* Returns the attribute of this name, or NULL. */
const Onnx__AttributeProto *pz_onnx_attribute(const struct pz_onnx_node *node, const char *name);

/* Returns an integer attribute, or `absent` if there is none. */
int64_t pz_onnx_int_attribute(const struct pz_onnx_node *node, const char *name, int64_t absent);

/* Returns an attribute that is a list of integers and sets *count.  Returns NULL and sets *count
 * to 0 if there is none. */
const int64_t *pz_onnx_ints_attribute(const struct pz_onnx_node *node, const char *name,
                                      size_t *count);

/* Returns the integers of an argument that is an input in newer opsets and an attribute in older
 * ones. */
const int64_t *pz_onnx_ints_argument(const struct pz_onnx_node *node, const char *attribute,
                                     uint32_t input, size_t *count);

/* Converts an axis that counts from the end if it is negative to one that counts from the front.
 * Returns -1 if it is out of range. */
int pz_onnx_axis_from_front(int64_t axis, int rank);

/* Converts an index into n elements, which counts from the end if it is negative, to one from the
 * front, limited to [least, most]. */
int64_t pz_onnx_clamp(int64_t index, int64_t n, int64_t least, int64_t most);

/* The elements that a slice selects along one dimension: `count` elements, every step-th one from
 * `from` on. */
struct pz_onnx_range {
  int64_t from, step, count;
};

/* Finds the elements that a Slice selects along each dimension of its input.  Returns false if
 * they are unknown. */
bool pz_onnx_slice_ranges(const struct pz_onnx_node *node,
                          struct pz_onnx_range range[PZ_ONNX_MOST_RANK]);

/* ---- correspondence of dimensions (dims.c) -------------------------------------------------- */

/* Einsum equations have one or two operands, such as "bhqd,bhkd->bhqk", with letters of both
 * cases, and an ellipsis for leading dimensions. */
enum { PZ_EINSUM_MOST_LETTERS = 64 };

/* The dimensions of an operand or the result of an equation. */
struct pz_onnx_term {
  int rank;
  uint8_t letter[PZ_ONNX_MOST_RANK]; /* by dimension, less than PZ_EINSUM_MOST_LETTERS */
};

struct pz_onnx_einsum {
  struct pz_onnx_term in[2], out;
  int64_t size[PZ_EINSUM_MOST_LETTERS]; /* size of the dimensions that each letter stands for */
};

/* Reads the equation of a node.  Returns false if it is not supported: more than two operands, no
 * result, or shapes that do not fit. */
bool pz_onnx_einsum_read(const struct pz_onnx_node *node, struct pz_onnx_einsum *einsum);

/* Finds the sizes of an Einsum of two operands as a batched product of m x k and k x n matrices.
 * Returns false if the equation is not supported. */
bool pz_onnx_einsum_product(const struct pz_onnx_node *node, struct pz_dims *dims);

/* Returns the dimension of an input that becomes dimension `dim` of the first result, according to
 * the type of the node.  Returns -1 if there is none or it is unknown.  The sizes may differ if
 * the input is broadcast.  Dimensions of a Reshape have no source. */
int pz_onnx_source_dim(const struct pz_onnx_node *node, const struct pz_onnx_value *output,
                       uint32_t input_index, int dim);

/* ---- contents of stored tensors, as far as shapes may be computed from them ----------------- */

/* Sets the contents of *value from a stored tensor, if they are small enough to be followed. */
void pz_onnx_read_contents(struct pz_call *call, struct pz_onnx_value *value,
                           const Onnx__TensorProto *tensor);

/* Sets value->real from a stored tensor, if *value is a floating-point scalar whose number the
 * tensor contains. */
void pz_onnx_read_real(struct pz_onnx_value *value, const Onnx__TensorProto *tensor);

/* Returns element i of a tensor of an integer type.  Sets *ok to false if there is none. */
int64_t pz_onnx_tensor_int(const Onnx__TensorProto *tensor, int type, size_t i, bool *ok);

/* Sets the contents of *value to these integers, which must outlive it. */
void pz_onnx_set_ints(struct pz_onnx_value *value, const int64_t *ints, int64_t n);

#endif
