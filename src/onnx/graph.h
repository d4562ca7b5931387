/* An ONNX graph as this importer sees it: values and nodes by index, nodes in topological order,
 * with what later passes find out about them (shapes, contents, roles, patterns).
 *
 * Sized for 100,000 nodes; every pass is linear in the graph or nearly so. */
#ifndef PZ_ONNX_GRAPH_H
#define PZ_ONNX_GRAPH_H

#include "core/map.h"
#include "core/vec.h"
#include "onnx/file.h"
#include "onnx/op.h"

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

/* The shapes of a node's inputs, "[1, 8] and [7, 8]", into buf. */
void pz_onnx_spell_inputs(const struct pz_onnx_graph *g, const struct pz_onnx_node *n, char *buf,
                          size_t size);

#endif
