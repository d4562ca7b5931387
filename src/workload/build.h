/* The builder: adds one forward operator at a time to a graph, divided for a tensor-parallel slice.
 *
 * Errors are sticky: after the first one every call does nothing and returns PZ_NONE, so that a
 * family can be written as straight code and checked once at the end. */
#ifndef PZ_WORKLOAD_BUILD_H
#define PZ_WORKLOAD_BUILD_H

#include "workload/graph.h"

enum { PZ_B16 = 2, PZ_B32 = 4, PZ_BYTE = 1, PZ_INDEX = 8 };

struct pz_builder {
  struct pz_graph *graph;
  const struct pz_workload_options *options;
  enum pz_status status;
  int64_t part;   /* tokens of a sample on this device: seq / cp */
  int64_t tokens; /* mbs * part */
  bool repeats;   /* the layer's weights are those of another: they count there */
  int64_t params, split_params, tied_params, model_params, group_grad_params;
  int64_t expert_params, model_expert_params;
  int64_t trained_params, trained_expert_params, model_trained_params;
  struct pz_adapting {
    bool now;          /* parameters of an adapter are added: they are trained */
    uint32_t x, first; /* what the last adapter read, and its first product; PZ_NONE: none */
    int group;         /* of layers that share it */
    uint32_t pending;  /* what is added behind the sum of the next pz_build_leave */
    int found;         /* layers that may have adapters, a set of enum pz_lora_module */
  } adapting;
};

/* How a weight is divided over the tensor-parallel group. */
enum pz_divide {
  PZ_DIVIDE_NOT,
  PZ_DIVIDE_COLUMNS, /* of the outputs: each device makes its share of the features */
  PZ_DIVIDE_ROWS,    /* of the inputs: each device makes a partial sum of all features */
};

struct pz_linear {
  const char *name;
  uint32_t x; /* rows x in */
  int64_t in, out;
  enum pz_divide divide;
  bool bias;
  bool tied;       /* the weight belongs to another layer */
  bool tied_bias;  /* so does the bias */
  bool outside;    /* before a region: its gradient is whole where the work is repeated */
  int64_t experts; /* > 0: one weight for each; rows are spread evenly over them */
};

/* A call to pz_build_op. */
struct pz_emit {
  int kind;
  const char *name;
  uint32_t in[PZ_OP_MOST_INPUTS]; /* PZ_NONE entries are skipped */
  struct pz_shape shape;          /* of the output; n = 0: as the first input */
  int elem_bytes;                 /* of the output; 0: as the first input */
  struct pz_shape aux_shape; /* a second output kept for backward (mask, statistics); n = 0: none */
  int aux_bytes;
  uint32_t *aux;       /* where its tensor goes; may be NULL */
  enum pz_peers peers; /* of a collective */
  bool divides;        /* the result is this device's part of what the first input has whole */
};

void pz_builder_init(struct pz_builder *b, struct pz_graph *graph,
                     const struct pz_workload_options *options);

/* Operators run one by one; norms, activations and softmax are several of them each, as in Hugging
 * Face's code. */
bool pz_eager(const struct pz_builder *b);
bool pz_composite(const struct pz_builder *b);

/* Rows of tensors outside the tensor-parallel regions: all tokens, or this device's share with
 * sequence parallelism. */
int64_t pz_rows_outside(const struct pz_builder *b);

/* Do the experts lie on a grid of their own, beside that of tensor parallelism? */
bool pz_folded(const struct pz_builder *b);

/* The experts that this device holds of n. */
int64_t pz_local_experts(const struct pz_builder *b, int64_t n);

/* Devices that a collective joins. */
int64_t pz_peers_number(const struct pz_workload_options *o, enum pz_peers peers);

/* This slice's share of n things: n / tp, the first n % tp slices one more. */
int64_t pz_share(const struct pz_builder *b, int64_t n);

/* The activation that enters the layer. */
uint32_t pz_build_input(struct pz_builder *b, int64_t width);
/* A tensor that leaves the layer beside its result. */
void pz_build_also_out(struct pz_builder *b, uint32_t x);
/* An activation of this width that enters the layer beside its input, is read, and goes on to the
 * next layer. */
uint32_t pz_build_carried(struct pz_builder *b, const char *name, int64_t width);
/* Name the layer's result. */
void pz_build_output(struct pz_builder *b, uint32_t x);

/* Data without gradient, the same tensor for the same name. */
uint32_t pz_build_data(struct pz_builder *b, const char *name, int elem_bytes,
                       struct pz_shape shape);

/* A parameter: `shape` is this slice's, `whole` counts the undivided one. */
uint32_t pz_build_param(struct pz_builder *b, const char *name, struct pz_shape shape,
                        int64_t whole, bool tied);

/* One operator with one result (and maybe an auxiliary one).  Returns the result. */
uint32_t pz_build_op(struct pz_builder *b, const struct pz_emit *e);

/* The same of x and y (PZ_NONE: of x alone), as wide as x and of its shape, or of a shape given. */
uint32_t pz_build_step(struct pz_builder *b, int kind, const char *name, uint32_t x, uint32_t y);
uint32_t pz_build_shaped(struct pz_builder *b, int kind, const char *name, uint32_t x, uint32_t y,
                         struct pz_shape shape);

/* Values as wide as `bytes`. */
uint32_t pz_build_cast(struct pz_builder *b, const char *name, uint32_t x, int bytes);

/* "name.part" into buf.  Returns buf. */
enum { PZ_BUILD_NAME = 112 };
char *pz_build_name(char buf[PZ_BUILD_NAME], const char *name, const char *part);

/* Views of `parts` tensors of the given widths in x, with these names. */
struct pz_split {
  const char *name;
  uint32_t x;
  int parts;
  int64_t widths[PZ_OP_MOST_OUTPUTS];
  const char *names[PZ_OP_MOST_OUTPUTS];
};
void pz_build_split(struct pz_builder *b, const struct pz_split *s, uint32_t *out);

/* Two views side by side as one tensor again; `copy`: it is written anew, else it stands where
 * `whole` does. */
uint32_t pz_build_join(struct pz_builder *b, const char *name, const uint32_t parts[2],
                       uint32_t whole, bool copy);

/* x times a weight, with what tensor parallelism needs before and after left to the caller.  With a
 * bias and rows divided the bias must come after the sum: see pz_build_leave. */
uint32_t pz_build_linear(struct pz_builder *b, const struct pz_linear *l);

/* A product of two activations or of any shape, with a bias that is added (PZ_NONE: none). */
struct pz_contract {
  const char *name;
  uint32_t a, c, bias;
  struct pz_dims dims;
  struct pz_shape shape; /* of the result */
};
uint32_t pz_build_contract(struct pz_builder *b, const struct pz_contract *c);

/* Flash attention: batch x m queries, n keys.  Values may be wider or narrower than queries and keys. */
struct pz_flash {
  const char *name;
  uint32_t in[4];      /* query, key, value, sinks or PZ_NONE */
  struct pz_dims dims; /* k: of query and key */
  int64_t value_dim;
  struct pz_shape shape; /* of the result */
  int64_t span;          /* as in pz_op */
};
uint32_t pz_build_flash(struct pz_builder *b, const struct pz_flash *f);

/* A recurrence in chunks: PZ_OP_SSM_SCAN or PZ_OP_DELTA_RULE, dims as ops.def has them. */
struct pz_scan {
  int kind;
  const char *name;
  uint32_t in[PZ_OP_MOST_INPUTS]; /* PZ_NONE after the last */
  struct pz_dims dims;
  int64_t groups; /* of all samples: Mamba-2's products of B and C are common to a group's heads */
  int64_t span;   /* tokens of a chunk */
  struct pz_shape shape, saved; /* of the result, and of what is saved beside */
};
uint32_t pz_build_scan(struct pz_builder *b, const struct pz_scan *s);

/* Into a tensor-parallel region (gather rows, or mark for the backward sum), and out of it (sum
 * over the group, to all or scattered); bias > 0 adds a bias of that width after the sum. */
uint32_t pz_build_enter(struct pz_builder *b, const char *name, uint32_t x);
uint32_t pz_build_leave(struct pz_builder *b, const char *name, uint32_t x, int64_t bias);

/* On the experts' own grid, with a result of so many rows.  PZ_OP_ALL_TO_ALL: rows of tokens to the devices that hold their
 * experts, and back; PZ_OP_ALL_GATHER, PZ_OP_REDUCE_SCATTER: rows of all devices over which
 * each expert is divided, and the sums of their parts. */
uint32_t pz_build_on_grid(struct pz_builder *b, int kind, const char *name, uint32_t x,
                          int64_t rows);

/* Sum over the group, to all. */
uint32_t pz_build_all_reduce(struct pz_builder *b, const char *name, uint32_t x);

/* A linear layer outside the regions: work divided over the group by columns and the result
 * gathered, or by rows of tokens with sequence parallelism. */
uint32_t pz_build_linear_outside(struct pz_builder *b, const struct pz_linear *l);

#endif
