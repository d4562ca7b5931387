/* The builder adds forward operators to the graph of a layer, one call per operator, with the
 * sizes that one device of a tensor-parallel group holds.  A model family is straight code that
 * calls the functions of this file.
 *
 * Tensors are identified by their index in the graph, and functions return the index of the
 * result.  A "region" is a part of the layer whose work is divided over the tensor-parallel group:
 * by columns of a first weight and by rows of a second one.  Outside of the regions, every device
 * has all tokens or, with sequence parallelism, its share of the rows.
 *
 * This file does not know model families or chips. */
#ifndef PZ_WORKLOAD_BUILD_H
#define PZ_WORKLOAD_BUILD_H

#include "workload/graph.h"

/* Element sizes in bytes: 16-bit and 32-bit numbers, bytes, and indices. */
enum { PZ_B16 = 2, PZ_B32 = 4, PZ_BYTE = 1, PZ_INDEX = 8 };

/* A layer that is being built, with the parameters that it has so far. */
struct pz_builder {
  struct pz_graph *graph;
  const struct pz_workload_options *options;
  bool eager;        /* operators run one by one, as in PyTorch's eager mode */
  bool composite;    /* norms, activations and softmax are several operators each (Hugging Face) */
  int64_t local_seq; /* tokens of one sample on this device: seq / cp */
  int64_t tokens;    /* tokens of a microbatch on this device: mbs * local_seq */
  int64_t
      rows_outside; /* rows of this device outside of the regions: `tokens`, or a share of them */
  bool repeats_weights; /* the layer uses the weights of another layer, which counts them */
  /* numbers of parameters, as in struct pz_layer */
  int64_t params, split_params, tied_params, model_params, group_grad_params;
  int64_t expert_params, model_expert_params;
  int64_t trained_params, trained_expert_params, model_trained_params;
  struct pz_adapter_state {
    bool building;  /* parameters that are added now belong to an adapter, so they are trained */
    uint32_t input; /* input of the latest adapter, or PZ_NONE before the first one */
    uint32_t projected; /* product of that input and the first matrix of the adapter */
    int group;          /* set of enum pz_lora_module: linear layers that may share `projected` */
    uint32_t pending;   /* adapter result that the next pz_build_leave() adds, or PZ_NONE */
    int found;          /* set of enum pz_lora_module: linear layers that can have adapters */
  } adapter;
};

/* How a weight is divided over the tensor-parallel group. */
enum pz_divide {
  PZ_DIVIDE_NOT,
  PZ_DIVIDE_COLUMNS, /* divided by outputs: each device computes its share of the features */
  PZ_DIVIDE_ROWS,    /* divided by inputs: each device computes a partial sum of all features */
};

/* Describes a linear layer. */
struct pz_linear {
  const char *name;
  uint32_t input; /* input tensor, rows of `in` values */
  int64_t in, out;
  enum pz_divide divide;
  bool bias;
  bool tied;            /* the weight belongs to another layer */
  bool tied_bias;       /* the bias belongs to another layer */
  bool outside_regions; /* devices that repeat its work each have the whole gradient */
  int64_t experts;      /* number of experts with a weight each, over which rows are spread, or 0 */
};

/* Describes an operator that pz_build_op() adds. */
struct pz_op_spec {
  int kind;
  const char *name;
  uint32_t in[PZ_OP_MOST_INPUTS]; /* input tensors, ended by PZ_NONE */
  struct pz_shape shape;          /* shape of the result; n is 0 for that of the first input */
  int elem_bytes;                 /* element size of the result, or 0 for that of the first input */
  /* shape of a second output for backward (mask, statistics), or n = 0 */
  struct pz_shape aux_shape;
  int aux_bytes;       /* element size of the second output */
  uint32_t *aux;       /* receives the index of the second output, unless it is NULL */
  enum pz_peers peers; /* devices that a collective joins */
  bool divides;        /* the result is this device's share of an undivided first input */
};

void pz_builder_init(struct pz_builder *builder, struct pz_graph *graph,
                     const struct pz_workload_options *options);

/* ---- sizes on this device -------------------------------------------------------------------- */

/* Returns whether the experts have a grid of devices of their own, because there is expert
 * parallelism, or the expert-tensor-parallel and tensor-parallel degrees differ. */
bool pz_has_expert_grid(const struct pz_workload_options *options);

/* Returns how many of n experts this device holds. */
int64_t pz_local_experts(const struct pz_builder *builder, int64_t n);

/* Returns the number of devices that a collective joins. */
int64_t pz_count_peers(const struct pz_workload_options *options, enum pz_peers peers);

/* Returns this device's share of n items over the tensor-parallel group; the first n % tp devices
 * have one more. */
int64_t pz_share(const struct pz_builder *builder, int64_t n);

/* ---- inputs and outputs of the layer --------------------------------------------------------- */

/* Adds the main input of the layer, an activation of `width` values in a row. */
uint32_t pz_build_input(struct pz_builder *builder, int64_t width);

/* Marks a tensor that leaves the layer in addition to its main result. */
void pz_build_also_out(struct pz_builder *builder, uint32_t tensor);

/* Adds an activation that enters the layer in addition to its main input and is passed on to the
 * next layer unchanged. */
uint32_t pz_build_carried(struct pz_builder *builder, const char *name, int64_t width);

/* Adds data without a gradient, such as token ids.  A second call with the same name returns the
 * same tensor. */
uint32_t pz_build_data(struct pz_builder *builder, const char *name, int elem_bytes,
                       struct pz_shape shape);

/* Adds a parameter with `shape` on this device and `whole` elements before it is divided.  A tied
 * parameter belongs to another layer. */
uint32_t pz_build_param(struct pz_builder *builder, const char *name, struct pz_shape shape,
                        int64_t whole, bool tied);

/* ---- operators ------------------------------------------------------------------------------- */

/* Adds an operator and returns its result. */
uint32_t pz_build_op(struct pz_builder *builder, const struct pz_op_spec *spec);

/* Add an operator of one or two inputs, whose result has the shape of the first input.  `second`
 * may be PZ_NONE. */
uint32_t pz_build_unary(struct pz_builder *builder, int kind, const char *name, uint32_t input);
uint32_t pz_build_binary(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second);

/* Like pz_build_binary(), with a result of another shape. */
uint32_t pz_build_shaped(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second, struct pz_shape shape);

/* Adds a conversion of a tensor to elements of `bytes` bytes. */
uint32_t pz_build_cast(struct pz_builder *builder, const char *name, uint32_t input, int bytes);

/* Writes "NAME.PART" into buf and returns buf. */
enum { PZ_BUILD_NAME = 112 };
char *pz_build_name(char buf[PZ_BUILD_NAME], const char *name, const char *part);

/* Describes a split of the columns of a tensor into views of the given widths. */
struct pz_split {
  const char *name;
  uint32_t whole;
  int64_t widths[PZ_OP_MOST_OUTPUTS];
  const char *names[PZ_OP_MOST_OUTPUTS]; /* names of the views; NULL ends a shorter list */
};
/* Adds a split, and writes the indices of the views to `out`. */
void pz_build_split(struct pz_builder *builder, const struct pz_split *split, uint32_t *out);

/* Joins two views of the tensor `whole` into one tensor, in new memory if `copy` is set, otherwise
 * in the memory of `whole`. */
uint32_t pz_build_join(struct pz_builder *builder, const char *name, const uint32_t parts[2],
                       uint32_t whole, bool copy);

/* Adds a linear layer, and its adapter if the options ask for one.  The caller enters and leaves
 * the region.  If rows are divided, pz_build_leave() adds the bias after the sum over devices. */
uint32_t pz_build_linear(struct pz_builder *builder, const struct pz_linear *linear);

/* Adds a linear layer outside of the regions.  The group divides its work by columns and gathers
 * the result; with sequence parallelism, every device computes its own rows. */
uint32_t pz_build_linear_outside(struct pz_builder *builder, const struct pz_linear *linear);

/* Describes a batch of matrix products, left (m x k) times right (k x n), plus a bias unless that
 * is PZ_NONE. */
struct pz_contraction {
  const char *name;
  uint32_t left, right, bias;
  struct pz_dims dims;
  struct pz_shape shape; /* shape of the result */
};
uint32_t pz_build_contraction(struct pz_builder *builder, const struct pz_contraction *contraction);

/* Describes flash attention of m queries to n keys in each of `batch` heads. */
struct pz_flash {
  const char *name;
  uint32_t in[4];        /* query, key, value, and sinks (or PZ_NONE) */
  struct pz_dims dims;   /* numbers of heads, queries and keys; k is the width of query and key */
  int64_t value_dim;     /* values of a value head */
  struct pz_shape shape; /* shape of the result */
  int64_t span;          /* queries that attend to the same keys */
};
uint32_t pz_build_flash(struct pz_builder *builder, const struct pz_flash *flash);

/* Describes a recurrence that is computed in chunks: PZ_OP_SSM_SCAN or PZ_OP_DELTA_RULE, with dims
 * as in ops.def. */
struct pz_scan {
  int kind;
  const char *name;
  uint32_t in[PZ_OP_MOST_INPUTS]; /* input tensors, ended by PZ_NONE */
  struct pz_dims dims;
  /* groups of all samples; Mamba-2 multiplies B and C once for each group of heads */
  int64_t groups;
  int64_t span; /* tokens of a chunk */
  /* shapes of the result and of the second output, which is saved for backward */
  struct pz_shape shape, saved;
};
uint32_t pz_build_scan(struct pz_builder *builder, const struct pz_scan *scan);

/* ---- collectives ----------------------------------------------------------------------------- */

/* Enters a region.  With sequence parallelism, it gathers the rows; otherwise it marks where
 * backward sums up the gradients. */
uint32_t pz_build_enter(struct pz_builder *builder, const char *name, uint32_t input);

/* Leaves a region: sums up the partial results over the group, scatters the rows with sequence
 * parallelism, and adds a bias of bias_width values unless that is 0. */
uint32_t pz_build_leave(struct pz_builder *builder, const char *name, uint32_t input,
                        int64_t bias_width);

/* Adds a collective over a group of devices, with a result of the given shape, or returns the input
 * if the group has one device.  PZ_OP_ALL_TO_ALL sends rows of tokens to the devices that hold
 * their experts, or exchanges tokens for heads over the context group, or back. */
uint32_t pz_build_exchange(struct pz_builder *builder, int kind, enum pz_peers peers,
                           const char *name, uint32_t input, struct pz_shape shape);

/* Adds an all-reduce of a tensor over the tensor-parallel group. */
uint32_t pz_build_all_reduce(struct pz_builder *builder, const char *name, uint32_t input);

#endif
