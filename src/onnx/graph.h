/* An ONNX graph as this importer sees it: values and nodes by index, nodes in topological order,
 * with what later passes find out about them (shapes, contents, roles, patterns).
 *
 * Sized for 100,000 nodes; every pass is linear in the graph or nearly so. */
#ifndef PZ_ONNX_GRAPH_H
#define PZ_ONNX_GRAPH_H

#include <onnx.pb-c.h>

#include "core/map.h"
#include "core/vec.h"
#include "workload/op.h"

/* ---- operator types: one row each, with the shape inference and the work counted ------------ */

/* How the result's shape follows from the inputs. */
enum pz_onnx_shape_rule {
#define SHAPE(name, rule) PZ_SHAPE_##name,
#include "onnx/shape_rules.def"
};

/* How the operator is counted. */
enum pz_onnx_lower {
  PZ_LOWER_VIEW,   /* another name for the same bytes */
  PZ_LOWER_PART,   /* some of the bytes of its input */
  PZ_LOWER_DATA,   /* never has a gradient */
  PZ_LOWER_VECTOR, /* one vector operator of `kind` */
  PZ_LOWER_BINARY, /* of two operands; with a constant for one it is a scaling */
  PZ_LOWER_MATMUL,
  PZ_LOWER_GEMM,
  PZ_LOWER_CONV,
  PZ_LOWER_EINSUM,
  PZ_LOWER_NORM,
  PZ_LOWER_GATHER,
  PZ_LOWER_CONCAT,
  PZ_LOWER_EXPAND,
  PZ_LOWER_REFUSE,
};

struct pz_onnx_op {
  const char *types; /* words */
  enum pz_onnx_shape_rule shape;
  enum pz_onnx_lower rule;
  int kind;         /* PZ_OP_* that the work is counted as */
  bool elementwise; /* each element from elements at the same place */
};

/* NULL where the type is not known. */
const struct pz_onnx_op *pz_onnx_op_find(const char *domain, const char *type);

/* The row for types that are not known. */
const struct pz_onnx_op *pz_onnx_op_unknown(void);

/* ---- values and nodes ----------------------------------------------------------------------- */

enum {
  PZ_ONNX_MOST_RANK = 8,
  PZ_ONNX_MOST_NODES = 1 << 20,
  PZ_ONNX_MOST_INTS = 512, /* elements of an integer tensor whose contents are followed */
};

/* Largest dimension: beyond it is taken for a mistake. */
#define PZ_ONNX_MOST_DIM (INT64_C(1) << 40)

enum pz_onnx_role {
  PZ_ONNX_DATA,  /* inputs, constants and what is made from them: no gradient */
  PZ_ONNX_PARAM, /* a trained tensor, or a view of one */
  PZ_ONNX_ACT,   /* made from a parameter */
};

/* Which size of a step a factor of a dimension stands for. */
enum pz_onnx_axis { PZ_AXIS_NONE, PZ_AXIS_BATCH, PZ_AXIS_SEQ };

enum { PZ_ONNX_MOST_FACTORS = 4 };

/* A dimension as a product, outer factor first. */
struct pz_onnx_dim {
  int n;
  struct {
    int64_t size;
    enum pz_onnx_axis axis;
  } factor[PZ_ONNX_MOST_FACTORS];
};

struct pz_onnx_value {
  const char *name;
  const char *const
      *symbols; /* of an input: names of its dimensions, NULL where they are numbers */
  int type;     /* TensorProto.DataType, 0: unknown */
  int rank;     /* -1: unknown */
  int64_t dim[PZ_ONNX_MOST_RANK];
  uint32_t maker;                  /* node, or PZ_NONE */
  bool input, init, output, given; /* given: the file states the shape */
  bool table;                      /* a constant of the model's, not a parameter */
  bool live;
  const int64_t *ints; /* contents where they are known integers */
  uint32_t n_ints;
  const double *reals; /* contents of a few floating-point numbers: scales of a resizing */
  uint32_t n_reals;
  bool has_real; /* one element whose value is known */
  double real;
  enum pz_onnx_role role;
  uint32_t root;            /* the value this is a view of, itself otherwise */
  uint32_t first, n_users;  /* consumers: g->users[first ...] */
  struct pz_onnx_dim *dims; /* by dimension, where sizes are to change */
};

struct pz_onnx_node {
  const char *type, *domain, *name;
  const struct pz_onnx_op *op;
  Onnx__AttributeProto *const *attrs;
  size_t n_attrs;
  uint32_t *in, *out; /* values; PZ_NONE: an optional one that is absent */
  uint32_t n_in, n_out;
  int fused; /* a pattern found: PZ_OP_* of the whole, which this node stands for; else -1 */
  bool gone; /* part of a pattern that another node stands for */
};

struct pz_onnx_graph {
  const char *file;
  struct pz_arena *arena;
  struct pz_vec values, nodes; /* struct pz_onnx_value, struct pz_onnx_node */
  struct pz_map by_name;
  uint32_t *users; /* consumers of all values, in groups */
  struct pz_vec inputs, outputs;
  int64_t opset;
  struct pz_error *err;
};

static inline struct pz_onnx_value *pz_onnx_value(const struct pz_onnx_graph *g, uint32_t i) {
  return pz_vec_at(&g->values, struct pz_onnx_value, i);
}

static inline struct pz_onnx_node *pz_onnx_node(const struct pz_onnx_graph *g, uint32_t i) {
  return pz_vec_at(&g->nodes, struct pz_onnx_node, i);
}

/* Fill users, first and n_users from the nodes that are not gone. */
PZ_NODISCARD enum pz_status pz_onnx_graph_users(struct pz_onnx_graph *g);

/* Input i of a node, or NULL. */
struct pz_onnx_value *pz_onnx_in(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                                 uint32_t i);

/* Attributes; `absent` where there is none of the right type. */
int64_t pz_onnx_int(const struct pz_onnx_node *n, const char *name, int64_t absent);
bool pz_onnx_text_is(const struct pz_onnx_node *n, const char *name, const char *value);
const Onnx__AttributeProto *pz_onnx_attr(const struct pz_onnx_node *n, const char *name);
/* A list of integers; n = 0 and NULL where absent. */
const int64_t *pz_onnx_ints(const struct pz_onnx_node *n, const char *name, size_t *count);

/* How a node is called in messages: its name, or that of its first result. */
const char *pz_onnx_node_name(const struct pz_onnx_graph *g, const struct pz_onnx_node *n);

/* Elements of a value of known shape; false when beyond 2^62. */
bool pz_onnx_elems(const struct pz_onnx_value *v, int64_t *n);

bool pz_onnx_is_float(int type);

/* Raise an error about a node: "FILE: node 'N' (TYPE): what". */
enum pz_status pz_onnx_fail(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                            enum pz_status status, const char *format, ...) PZ_PRINTF(4, 5);

/* The error that there is no memory for what belongs to a graph. */
enum pz_status pz_onnx_no_memory(const struct pz_onnx_graph *g);

/* The shapes of a node's inputs, "[1, 8] and [7, 8]", into buf. */
void pz_onnx_spell_inputs(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, char *buf,
                          size_t size);

/* ---- arguments of a node: from its attributes or, in newer opsets, from inputs whose contents are
 * known ---- */

/* Axis `a` of a tensor of rank `rank`, counted from the front; -1 when out of range. */
int pz_onnx_axis(int64_t a, int rank);

/* The integers of an attribute, or of an input where newer opsets have them. */
const int64_t *pz_onnx_axes(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                            const char *attr, uint32_t input, size_t *count);

/* Index v of a dimension of n elements, counted from the end where negative, kept in [least, most].
 */
int64_t pz_onnx_clamp(int64_t v, int64_t n, int64_t least, int64_t most);

/* What a slice takes of one dimension: every step-th element, beginning with `from`. */
struct pz_onnx_range {
  int64_t from, step, count;
};

/* What a Slice takes of each dimension of its input; false where that is not known. */
bool pz_onnx_slice_of(const struct pz_onnx_graph *g, const struct pz_onnx_node *n,
                      struct pz_onnx_range range[PZ_ONNX_MOST_RANK]);

/* ---- contents of a stored tensor, as far as shapes may be computed from them ---------------- */

/* Take what is known of a tensor's contents; false when out of memory. */
bool pz_onnx_tensor_read(struct pz_onnx_graph *g, struct pz_onnx_value *v,
                         const Onnx__TensorProto *t);

/* The number of a scalar v of a floating-point type, if the tensor has it. */
void pz_onnx_tensor_real(struct pz_onnx_value *v, const Onnx__TensorProto *t);

/* Element i of a tensor of an integer type; *ok becomes false where it is not there. */
int64_t pz_onnx_tensor_int(const Onnx__TensorProto *t, int type, size_t i, bool *ok);

/* The contents of v are these integers, which outlive it. */
void pz_onnx_set_ints(struct pz_onnx_value *v, const int64_t *ints, int64_t n);

#endif
