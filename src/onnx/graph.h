/* The graph of an ONNX file as the importer sees it: values (tensors) and nodes (operators) by
 * index, nodes in topological order, and what the passes find out about them: shapes, contents of
 * small tensors, roles, patterns.
 *
 * The graph and everything in it live in the memory of the call that imports the file.  It is sized
 * for 100,000 nodes, so every pass is linear in the graph, or nearly so.  op.c has the table of
 * operator types; graph.c has the functions that read attributes, arguments and stored tensors.
 * Nothing here knows of layers or devices. */
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

/* How the operator is lowered to operators of a workload. */
enum pz_onnx_lower {
  PZ_LOWER_VIEW,   /* another name for the same bytes */
  PZ_LOWER_PART,   /* some of the bytes of its input */
  PZ_LOWER_DATA,   /* a result that never has a gradient */
  PZ_LOWER_VECTOR, /* one vector operator of `kind` */
  PZ_LOWER_BINARY, /* a vector operator with two operands; a constant operand makes it a scaling */
  PZ_LOWER_MATMUL,
  PZ_LOWER_GEMM,
  PZ_LOWER_CONV,
  PZ_LOWER_EINSUM,
  PZ_LOWER_NORM,
  PZ_LOWER_GATHER,
  PZ_LOWER_CONCAT,
  PZ_LOWER_EXPAND,
  PZ_LOWER_REFUSE, /* an error: the type is not imported */
};

struct pz_onnx_op {
  const char *types; /* type names, separated by blanks */
  enum pz_onnx_shape_rule shape;
  enum pz_onnx_lower lower;
  int kind;         /* the PZ_OP_* that the work is counted as */
  bool elementwise; /* each element of the result depends on the elements at the same place */
};

/* Returns the table row of an operator type, or NULL if the type is unknown. */
const struct pz_onnx_op *pz_onnx_op_find(const char *domain, const char *type);

/* Returns the row that stands for unknown types. */
const struct pz_onnx_op *pz_onnx_op_unknown(void);

/* ---- values and nodes ----------------------------------------------------------------------- */

enum {
  PZ_ONNX_MOST_RANK = 8,
  PZ_ONNX_MOST_NODES = 1 << 20,
  PZ_ONNX_MOST_INTS = 512, /* elements of an integer tensor whose contents are followed */
};

/* A larger dimension is refused, because it is probably a mistake. */
#define PZ_ONNX_MOST_DIM (INT64_C(1) << 40)

enum pz_onnx_role {
  PZ_ONNX_DATA,       /* has no gradient: an input, a constant, or computed from these alone */
  PZ_ONNX_PARAM,      /* a trained tensor, or a view of one */
  PZ_ONNX_ACTIVATION, /* computed from a parameter */
};

/* What a factor of a dimension is: the microbatch, the sequence, or neither. */
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
  int type;                   /* TensorProto.DataType; 0 if unknown */
  int rank;                   /* -1 if the shape is unknown */
  int64_t dim[PZ_ONNX_MOST_RANK];
  uint32_t producer; /* node, or PZ_NONE */
  bool input, initializer, output;
  bool shape_stated;   /* the file states the shape */
  bool constant_table; /* an initializer that is a constant of the architecture, not a parameter */
  bool live;           /* an output depends on it */
  const int64_t *ints; /* contents, where they are known integers */
  uint32_t n_ints;
  const double *reals; /* contents, where they are a few floating-point numbers */
  uint32_t n_reals;
  bool has_real; /* it has one element, whose value is `real` */
  double real;
  enum pz_onnx_role role;
  uint32_t root;                             /* the value that this one is a view of, or itself */
  uint32_t first_consumer, n_consumers;      /* consumers: g->consumers[first_consumer ...] */
  struct pz_onnx_factored_dim *factored_dim; /* by dimension; only where sizes are rescaled */
};

struct pz_onnx_node {
  const struct pz_onnx_graph *graph; /* the graph that contains the node */
  const char *type, *domain, *name;
  const struct pz_onnx_op *op;
  Onnx__AttributeProto *const *attrs;
  size_t n_attrs;
  uint32_t *in, *out; /* values; PZ_NONE for an optional one that is absent */
  uint32_t n_in, n_out;
  int fused;    /* the PZ_OP_* of a pattern that this node, its last one, stands for; -1 if none */
  bool removed; /* no output depends on it */
};

struct pz_onnx_graph {
  const char *file;            /* for messages */
  struct pz_vec values, nodes; /* struct pz_onnx_value, struct pz_onnx_node */
  struct pz_map by_name;       /* values */
  uint32_t *consumers;         /* the nodes that read each value, grouped by value */
  struct pz_vec inputs, outputs;
  int64_t opset;
};

static inline struct pz_onnx_value *pz_onnx_value(const struct pz_onnx_graph *graph, uint32_t i) {
  return pz_vec_at(&graph->values, struct pz_onnx_value, i);
}

static inline struct pz_onnx_node *pz_onnx_node(const struct pz_onnx_graph *graph, uint32_t i) {
  return pz_vec_at(&graph->nodes, struct pz_onnx_node, i);
}

/* Returns the index of a node in its graph. */
static inline uint32_t pz_onnx_node_index(const struct pz_onnx_node *node) {
  return (uint32_t)(node - pz_onnx_node(node->graph, 0));
}

/* Return input or result i of a node, or NULL if it is absent. */
static inline struct pz_onnx_value *pz_onnx_input(const struct pz_onnx_node *node, uint32_t i) {
  return i < node->n_in && node->in[i] != PZ_NONE ? pz_onnx_value(node->graph, node->in[i]) : NULL;
}

static inline struct pz_onnx_value *pz_onnx_result(const struct pz_onnx_node *node, uint32_t i) {
  return i < node->n_out && node->out[i] != PZ_NONE ? pz_onnx_value(node->graph, node->out[i])
                                                    : NULL;
}

/* Returns whether the node has this operator type of ONNX. */
static inline bool pz_onnx_is_type(const struct pz_onnx_node *node, const char *type) {
  return strcmp(node->type, type) == 0;
}

/* Fills the consumers of all values from the nodes that are not removed. */
void pz_onnx_link_consumers(struct pz_call *call, struct pz_onnx_graph *graph);

/* Returns the node's name for messages: its own, or else that of its first result. */
const char *pz_onnx_node_name(const struct pz_onnx_node *node);

/* Counts the elements of a value of known shape.  Returns false if there are more than 2^62. */
bool pz_onnx_count_elements(const struct pz_onnx_value *value, int64_t *count);

bool pz_onnx_is_float(int type);

/* Raises an error about a node: "FILE: node 'NAME' (TYPE): ...". */
_Noreturn void pz_onnx_raise(struct pz_call *call, const struct pz_onnx_node *node,
                             enum pz_status status, const char *format, ...) PZ_PRINTF(4, 5);

/* Writes the shapes of a node's first four inputs, "[1, 8] and [7, 8]", into buf. */
void pz_onnx_spell_inputs(const struct pz_onnx_node *node, char *buf, size_t size);

/* ---- attributes and arguments of a node ----------------------------------------------------- */

/* Returns the attribute of this name, or NULL. */
const Onnx__AttributeProto *pz_onnx_attribute(const struct pz_onnx_node *node, const char *name);

/* Returns an integer attribute, or `absent` if there is none. */
int64_t pz_onnx_int_attribute(const struct pz_onnx_node *node, const char *name, int64_t absent);

/* Returns an attribute that is a list of integers, or NULL with a count of 0 if there is none. */
const int64_t *pz_onnx_ints_attribute(const struct pz_onnx_node *node, const char *name,
                                      size_t *count);

/* Returns whether the attribute is this text. */
bool pz_onnx_attribute_is(const struct pz_onnx_node *node, const char *name, const char *text);

/* Returns the integers of an argument that newer opsets have as an input and older ones as an
 * attribute. */
const int64_t *pz_onnx_ints_argument(const struct pz_onnx_node *node, const char *attribute,
                                     uint32_t input, size_t *count);

/* Returns an axis, which counts from the last one if it is negative, as counted from the first one,
 * or -1 if it is out of range. */
int pz_onnx_axis_from_front(int64_t axis, int rank);

/* Returns an index into n elements, which counts from the end if it is negative, limited to [least,
 * most]. */
int64_t pz_onnx_clamp(int64_t index, int64_t n, int64_t least, int64_t most);

/* The elements that a slice selects along one dimension: every step-th one, beginning with
 * `from`. */
struct pz_onnx_range {
  int64_t from, step, count;
};

/* Finds which elements a Slice selects along each dimension of its input.  Returns false if that is
 * unknown. */
bool pz_onnx_slice_ranges(const struct pz_onnx_node *node,
                          struct pz_onnx_range range[PZ_ONNX_MOST_RANK]);

/* ---- correspondence of dimensions (dims.c) -------------------------------------------------- */

/* Einsum equations have one or two operands, such as "bhqd,bhkd->bhqk", letters of both cases, and
 * an ellipsis for leading dimensions. */
enum { PZ_EINSUM_MOST_LETTERS = 64 };

struct pz_onnx_term {
  int rank;
  uint8_t letter[PZ_ONNX_MOST_RANK]; /* by dimension; below PZ_EINSUM_MOST_LETTERS */
};

struct pz_onnx_einsum {
  struct pz_onnx_term in[2], out;
  int64_t size[PZ_EINSUM_MOST_LETTERS]; /* by letter */
};

/* Reads the equation of a node.  Returns false if it is not supported: more than two operands, no
 * result, or shapes that do not fit. */
bool pz_onnx_einsum_read(const struct pz_onnx_node *node, struct pz_onnx_einsum *einsum);

/* Finds the sizes of an Einsum of two operands as a batched product, batch x (m x k)(k x n).
 * Returns false if the equation is not supported. */
bool pz_onnx_einsum_product(const struct pz_onnx_node *node, struct pz_dims *dims);

/* Returns the dimension of an input that becomes dimension `dim` of the first result, which depends
 * on the node's type, or -1 if there is none or it is unknown.  The sizes may differ where the
 * input is broadcast.  Dimensions of a Reshape have no source. */
int pz_onnx_source_dim(const struct pz_onnx_node *node, const struct pz_onnx_value *output,
                       uint32_t input_index, int dim);

/* ---- contents of stored tensors, as far as shapes may be computed from them ----------------- */

/* Stores the contents of a tensor in *value, as far as they are followed. */
void pz_onnx_read_contents(struct pz_call *call, struct pz_onnx_value *value,
                           const Onnx__TensorProto *tensor);

/* Stores the number of a tensor in *value, which is a scalar of a floating-point type, if the
 * tensor has one. */
void pz_onnx_read_real(struct pz_onnx_value *value, const Onnx__TensorProto *tensor);

/* Returns element i of a tensor of an integer type, or sets *ok to false if there is none. */
int64_t pz_onnx_tensor_int(const Onnx__TensorProto *tensor, int type, size_t i, bool *ok);

/* Sets the contents of *value to these integers, which must outlive it. */
void pz_onnx_set_ints(struct pz_onnx_value *value, const int64_t *ints, int64_t n);

#endif
