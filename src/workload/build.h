/* The builder: adds forward operators to the graph of a layer, one call per operator, with the
 * sizes that one device of a tensor-parallel group holds.  A model family is written as straight
 * code that calls the functions of this file.
 *
 * A tensor is identified by its index in the graph.  Functions return the index of the result.  A
 * "region" is a part of the layer whose work is divided over the tensor-parallel group: columns of
 * a first weight, rows of a second one.  Outside of the regions, every device has all tokens or,
 * with sequence parallelism, its share of the rows.
 *
 * This file does not know model families or chips. */
#ifndef PZ_WORKLOAD_BUILD_H
#define PZ_WORKLOAD_BUILD_H

#include "workload/graph.h"

/* Bytes of an element. */
enum { PZ_B16 = 2, PZ_B32 = 4, PZ_BYTE = 1, PZ_INDEX = 8 };

struct pz_builder {
  struct pz_graph *graph;
  const struct pz_workload_options *options;
  int64_t local_seq;    /* tokens of one sample on this device: seq / cp */
  int64_t tokens;       /* tokens of a microbatch on this device: mbs * local_seq */
  bool repeats_weights; /* the weights belong to another layer, which counts them */
  /* parameters, as in struct pz_layer */
  int64_t params, split_params, tied_params, model_params, group_grad_params;
  int64_t expert_params, model_expert_params;
  int64_t trained_params, trained_expert_params, model_trained_params;
  struct pz_adapter_state {
    bool building;      /* the parameters now added belong to an adapter, so they are trained */
    uint32_t input;     /* input of the latest adapter, PZ_NONE before the first one */
    uint32_t projected; /* that input times the first matrix of the adapter */
    int group;        /* linear layers that may share this product, a set of enum pz_lora_module */
    uint32_t pending; /* adapter result that the next pz_build_leave() adds, or PZ_NONE */
    int found;        /* layers that can have adapters, a set of enum pz_lora_module */
  } adapter;
};

/* How a weight is divided over the tensor-parallel group. */
enum pz_divide {
  PZ_DIVIDE_NOT,
  PZ_DIVIDE_COLUMNS, /* by outputs: each device computes its share of the features */
  PZ_DIVIDE_ROWS,    /* by inputs: each device computes a partial sum of all features */
};

/* A linear layer. */
struct pz_linear {
  const char *name;
  uint32_t x; /* input, rows of `in` values */
  int64_t in, out;
  enum pz_divide divide;
  bool bias;
  bool tied;       /* the weight belongs to another layer */
  bool tied_bias;  /* the bias belongs to another layer */
  bool outside;    /* before a region: where devices repeat its work, each has the whole gradient */
  int64_t experts; /* > 0: one weight for each expert, and the rows are spread evenly over them */
};

/* An operator that pz_build_op() adds. */
struct pz_op_spec {
  int kind;
  const char *name;
  uint32_t in[PZ_OP_MOST_INPUTS]; /* PZ_NONE after the last */
  struct pz_shape shape;          /* of the result; n = 0: the shape of the first input */
  int elem_bytes;                 /* of the result; 0: as in the first input */
  struct pz_shape aux_shape; /* of a second output for backward (mask, statistics); n = 0: none */
  int aux_bytes;             /* of an element of the second output */
  uint32_t *aux;             /* receives the second output, unless it is NULL */
  enum pz_peers peers;       /* of a collective */
  bool divides;              /* the result is this device's share of a whole first input */
};

void pz_builder_init(struct pz_builder *builder, struct pz_graph *graph,
                     const struct pz_workload_options *options);

/* ---- sizes on this device -------------------------------------------------------------------- */

/* Returns whether operators run one by one. */
bool pz_is_eager(const struct pz_builder *builder);

/* Returns whether norms, activations and softmax are several operators each, as in Hugging Face's
 * eager code. */
bool pz_is_composite(const struct pz_builder *builder);

/* Returns the rows of a tensor outside of the tensor-parallel regions. */
int64_t pz_rows_outside(const struct pz_builder *builder);

/* Returns whether the experts have a grid of devices of their own: expert parallelism, or an
 * expert-tensor-parallel degree other than the tensor-parallel degree. */
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

/* Marks a tensor that leaves the layer beside its result. */
void pz_build_also_out(struct pz_builder *builder, uint32_t tensor);

/* Adds an activation that enters the layer beside its main input, and goes on to the next layer
 * unchanged. */
uint32_t pz_build_carried(struct pz_builder *builder, const char *name, int64_t width);

/* Adds data without a gradient, such as token ids.  A second call with the same name returns the
 * same tensor. */
uint32_t pz_build_data(struct pz_builder *builder, const char *name, int elem_bytes,
                       struct pz_shape shape);

/* Adds a parameter with `shape` on this device.  `whole` is the number of elements of the undivided
 * parameter. */
uint32_t pz_build_param(struct pz_builder *builder, const char *name, struct pz_shape shape,
                        int64_t whole, bool tied);

/* ---- operators ------------------------------------------------------------------------------- */

/* Adds an operator and returns its result. */
uint32_t pz_build_op(struct pz_builder *builder, const struct pz_op_spec *spec);

/* Add an operator of one or two inputs (`second` may be PZ_NONE) whose result has the shape of the
 * first input. */
uint32_t pz_build_unary(struct pz_builder *builder, int kind, const char *name, uint32_t input);
uint32_t pz_build_binary(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second);

/* Like pz_build_binary(), with a result of another shape. */
uint32_t pz_build_shaped(struct pz_builder *builder, int kind, const char *name, uint32_t first,
                         uint32_t second, struct pz_shape shape);

/* Converts the values of a tensor to `bytes` bytes each. */
uint32_t pz_build_cast(struct pz_builder *builder, const char *name, uint32_t input, int bytes);

/* Writes "name.part" into buf and returns buf. */
enum { PZ_BUILD_NAME = 112 };
char *pz_build_name(char buf[PZ_BUILD_NAME], const char *name, const char *part);

/* Divides the columns of x into views of the given widths, whose indices are written to `out`. */
struct pz_split {
  const char *name;
  uint32_t x;
  int parts;
  int64_t widths[PZ_OP_MOST_OUTPUTS];
  const char *names[PZ_OP_MOST_OUTPUTS];
};
void pz_build_split(struct pz_builder *builder, const struct pz_split *split, uint32_t *out);

/* Joins two views of the tensor `whole` into one tensor again: written anew if `copy` is set,
 * otherwise in the place of `whole`. */
uint32_t pz_build_join(struct pz_builder *builder, const char *name, const uint32_t parts[2],
                       uint32_t whole, bool copy);

/* Multiplies the input by a weight, and adds its adapter if the options ask for one.  The caller
 * enters and leaves the region.  If rows are divided, the bias is added by pz_build_leave(), after
 * the sum. */
uint32_t pz_build_linear(struct pz_builder *builder, const struct pz_linear *linear);

/* Returns a linear layer outside of the regions.  The group divides its work by columns and
 * gathers the result, or, with sequence parallelism, every device computes its own rows. */
uint32_t pz_build_linear_outside(struct pz_builder *builder, const struct pz_linear *linear);

/* A batch of matrix products, a (m x k) times c (k x n), with a bias that is added unless it is
 * PZ_NONE. */
struct pz_contraction {
  const char *name;
  uint32_t a, c, bias;
  struct pz_dims dims;
  struct pz_shape shape; /* of the result */
};
uint32_t pz_build_contraction(struct pz_builder *builder, const struct pz_contraction *contraction);

/* Flash attention of m queries to n keys in each of `batch` heads. */
struct pz_flash {
  const char *name;
  uint32_t in[4];        /* query, key, value, and sinks (or PZ_NONE) */
  struct pz_dims dims;   /* k is the width of query and key */
  int64_t value_dim;     /* width of a value */
  struct pz_shape shape; /* of the result */
  int64_t span;          /* as in struct pz_op */
};
uint32_t pz_build_flash(struct pz_builder *builder, const struct pz_flash *flash);

/* A recurrence computed in chunks: PZ_OP_SSM_SCAN or PZ_OP_DELTA_RULE, with dims as in ops.def. */
struct pz_scan {
  int kind;
  const char *name;
  uint32_t in[PZ_OP_MOST_INPUTS]; /* PZ_NONE after the last */
  struct pz_dims dims;
  int64_t groups; /* of all samples; Mamba-2 multiplies B and C once for each group of heads */
  int64_t span;   /* tokens of a chunk */
  struct pz_shape shape, saved; /* of the result, and of what is saved for backward beside it */
};
uint32_t pz_build_scan(struct pz_builder *builder, const struct pz_scan *scan);

/* ---- collectives ----------------------------------------------------------------------------- */

/* Enters a region: gathers the rows with sequence parallelism, otherwise marks where backward sums
 * the gradients. */
uint32_t pz_build_enter(struct pz_builder *builder, const char *name, uint32_t input);

/* Leaves a region: sums the partial results over the group, to all devices or scattered by rows,
 * and adds a bias of bias_width values, unless that is 0. */
uint32_t pz_build_leave(struct pz_builder *builder, const char *name, uint32_t input,
                        int64_t bias_width);

/* Returns a collective on the experts' own grid, with a result of `rows` rows.  PZ_OP_ALL_TO_ALL
 * sends rows of tokens to the devices that hold their experts, or back.  PZ_OP_ALL_GATHER and
 * PZ_OP_REDUCE_SCATTER join the devices over which each expert is divided. */
uint32_t pz_build_on_grid(struct pz_builder *builder, int kind, const char *name, uint32_t input,
                          int64_t rows);

/* Sums a tensor over the tensor-parallel group. */
uint32_t pz_build_all_reduce(struct pz_builder *builder, const char *name, uint32_t input);

#endif
