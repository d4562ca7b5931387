/* Kernels as operators, in the fused and the eager implementation.
 *
 * Operators of one eager kernel are named "KERNEL.PART".  If builder->composite is set, a kernel is
 * decomposed as in Hugging Face's code; if only builder->eager is set, it is decomposed only if
 * PyTorch has no kernel for it. */
#include "workload/kernels.h"

/* Adds a unary operator of a kernel, named "NAME.PART". */
static uint32_t build_unary(struct pz_builder *builder, int kind, const char *name,
                            const char *part, uint32_t input) {
  char full[PZ_BUILD_NAME];
  return pz_build_unary(builder, kind, pz_build_name(full, name, part), input);
}

/* Adds a binary operator of a kernel, named "NAME.PART". */
static uint32_t build_binary(struct pz_builder *builder, int kind, const char *name,
                             const char *part, uint32_t first, uint32_t second) {
  char full[PZ_BUILD_NAME];
  return pz_build_binary(builder, kind, pz_build_name(full, name, part), first, second);
}

/* Adds a conversion to `bytes` bytes in a kernel, named "NAME.PART". */
static uint32_t build_cast(struct pz_builder *builder, const char *name, const char *part,
                           uint32_t input, int bytes) {
  char full[PZ_BUILD_NAME];
  return pz_build_cast(builder, pz_build_name(full, name, part), input, bytes);
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* Adds a parameter of a norm.  This device has local_width of its `width` values. */
static uint32_t add_norm_param(struct pz_builder *builder, const char *name, const char *part,
                               int64_t local_width, int64_t width) {
  char full[PZ_BUILD_NAME];
  return pz_build_param(builder, pz_build_name(full, name, part), PZ_SHAPE(local_width), width,
                        false);
}

/* Adds a layer norm.  Backward reads the mean and the reciprocal deviation of each row, in 32
 * bit. */
uint32_t pz_kernel_layernorm(struct pz_builder *builder, const char *name, uint32_t input,
                             int64_t width, bool affine) {
  struct pz_op_spec norm = {.kind = PZ_OP_LAYERNORM,
                            .name = name,
                            .in = {input, PZ_NONE, PZ_NONE, PZ_NONE},
                            .aux_shape =
                                PZ_SHAPE(pz_graph_tensor(builder->graph, input)->elems / width, 2),
                            .aux_bytes = PZ_B32};
  if (affine) {
    norm.in[1] = add_norm_param(builder, name, "weight", width, width);
    norm.in[2] = add_norm_param(builder, name, "bias", width, width);
  }
  return pz_build_op(builder, &norm);
}

/* Adds an RMS norm of rows that have `width` values on this device.  `weight` is PZ_NONE for a norm
 * without weights.  `divided` is whether other devices have further values of every row. */
static uint32_t build_rmsnorm(struct pz_builder *builder, const char *name, uint32_t input,
                              int64_t width, uint32_t weight, bool divided) {
  int64_t rows = pz_graph_tensor(builder->graph, input)->elems / width;
  if (!builder->composite)
    return pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_RMSNORM,
                                                     .name = name,
                                                     .in = {input, weight, PZ_NONE},
                                                     .aux_shape = PZ_SHAPE(rows),
                                                     .aux_bytes = PZ_B32});
  char mean_name[PZ_BUILD_NAME];
  uint32_t wide = build_cast(builder, name, "to_f32", input, PZ_B32);
  uint32_t square = build_unary(builder, PZ_OP_POW, name, "square", wide);
  uint32_t mean = pz_build_shaped(builder, PZ_OP_MEAN, pz_build_name(mean_name, name, "mean"),
                                  square, PZ_NONE, PZ_SHAPE(rows, 1));
  /* Devices that divide a row exchange its mean, so each has the whole mean. */
  if (divided) pz_graph_tensor(builder->graph, mean)->split = false;
  uint32_t rsqrt = build_unary(builder, PZ_OP_RSQRT, name, "rsqrt", mean);
  uint32_t scaled = build_binary(builder, PZ_OP_MUL, name, "normalise", wide, rsqrt);
  uint32_t narrow = build_cast(builder, name, "to_b16", scaled, PZ_B16);
  if (weight == PZ_NONE) return narrow;
  return build_binary(builder, PZ_OP_MUL, name, "weigh", narrow, weight);
}

/* Adds an RMS norm.  Inside of a region, the devices sum up their gradients of the weight, so it is
 * counted in group_grad_params; with sequence parallelism, pz_build_param() counts it. */
uint32_t pz_kernel_rmsnorm(struct pz_builder *builder, const char *name, uint32_t input,
                           int64_t width, enum pz_norm_kind kind) {
  const struct pz_workload_options *options = builder->options;
  uint32_t weight = PZ_NONE;
  if (kind == PZ_NORM_INSIDE && options->tp > 1 && !options->sequence_parallel)
    builder->group_grad_params += width;
  if (kind != PZ_NORM_PLAIN) weight = add_norm_param(builder, name, "weight", width, width);
  const bool divides_rows = false;
  return build_rmsnorm(builder, name, input, width, weight, divides_rows);
}

/* Adds an RMS norm of each group of values.  A group that is the whole row is spread over the
 * devices, each of which has width / tp values of it. */
uint32_t pz_kernel_rmsnorm_divided(struct pz_builder *builder, const char *name, uint32_t input,
                                   int64_t width, int64_t group_width) {
  int64_t tp = builder->options->tp;
  bool spreads_groups = group_width == width;
  uint32_t weight = add_norm_param(builder, name, "weight", width / tp, width);
  return build_rmsnorm(builder, name, input, spreads_groups ? width / tp : group_width, weight,
                       spreads_groups && tp > 1);
}

/* ---- element-wise functions, softmax --------------------------------------------------------- */

/* Adds cap * tanh(input / cap). */
uint32_t pz_kernel_cap(struct pz_builder *builder, const char *name, uint32_t input) {
  uint32_t divided = build_unary(builder, PZ_OP_SCALE, name, "divide", input);
  uint32_t tanh = build_unary(builder, PZ_OP_TANH, name, "tanh", divided);
  return pz_build_unary(builder, PZ_OP_SCALE, name, tanh);
}

/* Adds 0.5 x (1 + tanh(c (x + a x^3))) as PyTorch runs it, in eight element-wise operators, or in
 * the form 0.5 x (1 + tanh(c x (1 + a x x))) of Hugging Face's gelu_fast, in nine operators that
 * save three more tensors for backward. */
static uint32_t build_gelu_tanh(struct pz_builder *builder, const char *name, enum pz_act act,
                                uint32_t input) {
  uint32_t half = build_unary(builder, PZ_OP_SCALE, name, "half", input), inner;
  if (act == PZ_ACT_GELU_TANH) {
    uint32_t cube = build_unary(builder, PZ_OP_POW, name, "cube", input);
    uint32_t scaled = build_unary(builder, PZ_OP_SCALE, name, "scale_cube", cube);
    uint32_t sum = build_binary(builder, PZ_OP_ADD, name, "add", input, scaled);
    inner = build_unary(builder, PZ_OP_SCALE, name, "scale", sum);
  } else {
    uint32_t scaled = build_unary(builder, PZ_OP_SCALE, name, "scale", input);
    uint32_t small = build_unary(builder, PZ_OP_SCALE, name, "scale_small", input);
    uint32_t square = build_binary(builder, PZ_OP_MUL, name, "square", small, input);
    uint32_t factor = build_unary(builder, PZ_OP_SCALE, name, "add_one_inside", square);
    inner = build_binary(builder, PZ_OP_MUL, name, "inner", scaled, factor);
  }
  uint32_t tanh = build_unary(builder, PZ_OP_TANH, name, "tanh", inner);
  uint32_t plus_one = build_unary(builder, PZ_OP_SCALE, name, "add_one", tanh);
  return pz_build_binary(builder, PZ_OP_MUL, name, half, plus_one);
}

/* Adds an activation function.  In eager code, the tanh forms of GELU are many operators. */
uint32_t pz_kernel_activation(struct pz_builder *builder, const char *name, enum pz_act act,
                              uint32_t input) {
  bool has_tanh = act == PZ_ACT_GELU_TANH || act == PZ_ACT_GELU_FAST;
  if (builder->composite && has_tanh) return build_gelu_tanh(builder, name, act, input);
  if (builder->eager && act == PZ_ACT_RELU2)
    input = build_unary(builder, PZ_OP_RELU, name, "relu", input);
  int kind = PZ_OP_GELU;
  if (act == PZ_ACT_RELU) kind = PZ_OP_RELU;
  if (act == PZ_ACT_RELU2) kind = PZ_OP_POW;
  if (act == PZ_ACT_SILU) kind = PZ_OP_SILU;
  return pz_build_unary(builder, kind, name, input);
}

/* Adds act(gate) * up. */
uint32_t pz_kernel_gated(struct pz_builder *builder, const char *name, enum pz_act act,
                         uint32_t gate, uint32_t up) {
  if (!builder->eager && act == PZ_ACT_SILU)
    return pz_build_binary(builder, PZ_OP_SWIGLU, name, gate, up);
  uint32_t activated = pz_kernel_activation(builder, "act", act, gate);
  return pz_build_binary(builder, PZ_OP_MUL, name, activated, up);
}

/* Adds a softmax.  Only composite kernels convert to 32 bit and back by operators of their own. */
uint32_t pz_kernel_softmax(struct pz_builder *builder, const char *name, uint32_t input,
                           uint32_t sinks, bool f32) {
  if (!builder->composite || !f32)
    return pz_build_binary(builder, PZ_OP_SOFTMAX, name, input, sinks);
  uint32_t wide = build_cast(builder, name, "to_f32", input, PZ_B32);
  uint32_t result = pz_build_binary(builder, PZ_OP_SOFTMAX, name, wide, sinks);
  return build_cast(builder, name, "to_b16", result, PZ_B16);
}

/* Adds dropout unless its probability is 0.  Backward reads the mask, one byte per value. */
uint32_t pz_kernel_dropout(struct pz_builder *builder, const char *name, uint32_t input,
                           double probability) {
  if (builder->options->dropout >= 0 && probability > 0) probability = builder->options->dropout;
  if (!(probability > 0)) return input;
  return pz_build_op(
      builder,
      &(struct pz_op_spec){.kind = PZ_OP_DROPOUT,
                           .name = name,
                           .in = {input, PZ_NONE},
                           .aux_shape = PZ_SHAPE(pz_graph_tensor(builder->graph, input)->elems),
                           .aux_bytes = PZ_BYTE});
}

/* ---- rotary embedding ------------------------------------------------------------------------ */

/* Adds the rotation of all values of a head, x cos + rotate_half(x) sin.  If in_place is set, the
 * fused kernel writes its result over x, which backward does not read. */
static uint32_t build_rotation(struct pz_builder *builder, const char *name, uint32_t input,
                               uint32_t cos, uint32_t sin, bool in_place) {
  if (builder->eager) {
    uint32_t scaled = build_binary(builder, PZ_OP_MUL, name, "cos", input, cos);
    uint32_t half = build_unary(builder, PZ_OP_ROTATE_HALF, name, "rotate_half", input);
    uint32_t rotated = build_binary(builder, PZ_OP_MUL, name, "sin", half, sin);
    return pz_build_binary(builder, PZ_OP_ADD, name, scaled, rotated);
  }
  uint32_t result = pz_build_op(
      builder,
      &(struct pz_op_spec){.kind = PZ_OP_ROTARY, .name = name, .in = {input, cos, sin, PZ_NONE}});
  if (in_place)
    pz_graph_tensor(builder->graph, result)->storage =
        pz_graph_tensor(builder->graph, input)->storage;
  return result;
}

/* Rotates query or key by position.  If only part of a head is rotated, it is split off and
 * joined. */
uint32_t pz_kernel_rotary(struct pz_builder *builder, const char *name, uint32_t input,
                          int64_t dims, int64_t head_dim) {
  uint32_t cos = pz_build_data(builder, "cos", PZ_B16, PZ_SHAPE(builder->local_seq, dims));
  uint32_t sin = pz_build_data(builder, "sin", PZ_B16, PZ_SHAPE(builder->local_seq, dims));
  /* A view of a joint projection is not overwritten, because other views keep the tensor alive. */
  bool is_view = pz_graph_tensor(builder->graph, input)->storage != input;
  if (dims == head_dim) return build_rotation(builder, name, input, cos, sin, !is_view);
  int64_t heads = pz_graph_tensor(builder->graph, input)->elems / head_dim / builder->tokens;
  struct pz_split split = {.name = "rotary_split",
                           .whole = input,
                           .widths = {heads * dims, heads * (head_dim - dims)},
                           .names = {"rotated", "passed"}};
  uint32_t parts[2];
  char join_name[PZ_BUILD_NAME];
  pz_build_split(builder, &split, parts);
  const bool in_place = true; /* fused kernels join the parts in the memory of the input */
  parts[0] = build_rotation(builder, name, parts[0], cos, sin, in_place);
  return pz_build_join(builder, pz_build_name(join_name, name, "join"), parts, input,
                       builder->eager);
}

/* ---- embeddings and loss --------------------------------------------------------------------- */

/* Adds a lookup of rows in a table.  Devices that divide the table each look up the rows that they
 * have, and sum up the results. */
uint32_t pz_kernel_embedding(struct pz_builder *builder, const char *name, int64_t n_rows,
                             int64_t table_rows, int64_t width, enum pz_table kind) {
  bool divides = kind != PZ_TABLE_WHOLE;
  char full[PZ_BUILD_NAME];
  uint32_t ids =
      pz_build_data(builder, pz_build_name(full, name, "ids"), PZ_INDEX, PZ_SHAPE(n_rows));
  /* With sequence parallelism, each device looks up its own rows in an undivided table. */
  pz_graph_tensor(builder->graph, ids)->split = !divides && builder->options->sequence_parallel;
  int64_t local_rows = divides ? pz_share(builder, table_rows) : table_rows;
  uint32_t table =
      pz_build_param(builder, pz_build_name(full, name, "weight"), PZ_SHAPE(local_rows, width),
                     table_rows * width, kind == PZ_TABLE_TIED);
  uint32_t result = pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_EMBEDDING,
                                                              .name = name,
                                                              .in = {ids, table, PZ_NONE},
                                                              .shape = PZ_SHAPE(n_rows, width),
                                                              .elem_bytes = PZ_B16});
  return divides ? pz_build_leave(builder, name, result, 0) : result;
}

/* Adds the loss.  If the vocabulary is divided, the group exchanges three values of each token: the
 * maximum of its logits, the sum of their exponentials, and the logit of the label. */
uint32_t pz_kernel_loss(struct pz_builder *builder, uint32_t logits, bool f32) {
  uint32_t labels = pz_build_data(builder, "labels", PZ_INDEX, PZ_SHAPE(builder->tokens));
  bool divided = builder->options->tp > 1;
  struct pz_op_spec loss = {.kind = PZ_OP_CROSS_ENTROPY,
                            .name = "loss",
                            .in = {logits, labels, PZ_NONE},
                            .shape = PZ_SHAPE(builder->tokens, divided ? 3 : 1),
                            .elem_bytes = PZ_B32,
                            .aux_shape = PZ_SHAPE(builder->tokens),
                            .aux_bytes = PZ_B32};
  if (builder->eager) {
    if (f32) logits = build_cast(builder, "loss", "to_f32", logits, PZ_B32);
    loss.kind = PZ_OP_NLL_LOSS;
    loss.in[0] = build_unary(builder, PZ_OP_LOG_SOFTMAX, "loss", "log_softmax", logits);
    loss.aux_shape.n = 0;
  }
  uint32_t result = pz_build_op(builder, &loss);
  return divided ? pz_build_all_reduce(builder, "loss", result) : result;
}
