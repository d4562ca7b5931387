#include "workload/kernels.h"

/* A part of a kernel. */
static uint32_t step(struct pz_builder *b, int kind, const char *name, const char *part, uint32_t x,
                     uint32_t y) {
  char full[PZ_BUILD_NAME];
  return pz_build_step(b, kind, pz_build_name(full, name, part), x, y);
}

static uint32_t cast(struct pz_builder *b, const char *name, const char *part, uint32_t x,
                     int bytes) {
  char full[PZ_BUILD_NAME];
  return pz_build_cast(b, pz_build_name(full, name, part), x, bytes);
}

static int64_t elems(const struct pz_builder *b, uint32_t x) {
  return b->status == PZ_OK && x != PZ_NONE ? pz_graph_tensor(b->graph, x)->elems : 0;
}

static uint32_t norm_param(struct pz_builder *b, const char *name, const char *part,
                           int64_t width) {
  char full[PZ_BUILD_NAME];
  return pz_build_param(b, pz_build_name(full, name, part), PZ_SHAPE(width), width, false);
}

uint32_t pz_kernel_layernorm(struct pz_builder *b, const char *name, uint32_t x, int64_t width,
                             bool affine) {
  /* mean and reciprocal deviation of each row, 32 bit, are kept */
  struct pz_emit e = {.kind = PZ_OP_LAYERNORM,
                      .name = name,
                      .in = {x, PZ_NONE, PZ_NONE, PZ_NONE},
                      .aux_shape = PZ_SHAPE(elems(b, x) / width, 2),
                      .aux_bytes = PZ_B32};
  if (affine) {
    e.in[1] = norm_param(b, name, "weight", width);
    e.in[2] = norm_param(b, name, "bias", width);
  }
  return pz_build_op(b, &e);
}

/* Rows of `width` values.  The weight may be PZ_NONE; `divided`: of each row a device has a part. */
struct rows {
  int64_t width;
  uint32_t weight;
  bool divided;
};

/* Convert to 32 bit, square, mean, rsqrt, multiply, convert back, multiply by the weight if any. */
static uint32_t rmsnorm_eager(struct pz_builder *b, const char *name, uint32_t x, struct rows r) {
  char part[PZ_BUILD_NAME];
  uint32_t wide = cast(b, name, "to_f32", x, PZ_B32);
  uint32_t square = step(b, PZ_OP_POW, name, "square", wide, PZ_NONE);
  uint32_t mean = pz_build_shaped(b, PZ_OP_MEAN, pz_build_name(part, name, "mean"), square, PZ_NONE,
                                  PZ_SHAPE(elems(b, x) / r.width, 1));
  /* rows that are divided have one mean, which every device goes on with */
  if (mean != PZ_NONE && r.divided) pz_graph_tensor(b->graph, mean)->split = false;
  uint32_t rsqrt = step(b, PZ_OP_RSQRT, name, "rsqrt", mean, PZ_NONE);
  uint32_t scaled = step(b, PZ_OP_MUL, name, "normalise", wide, rsqrt);
  uint32_t narrow = cast(b, name, "to_b16", scaled, PZ_B16);
  return r.weight == PZ_NONE ? narrow : step(b, PZ_OP_MUL, name, "weigh", narrow, r.weight);
}

static uint32_t rmsnorm(struct pz_builder *b, const char *name, uint32_t x, struct rows r) {
  if (pz_composite(b)) return rmsnorm_eager(b, name, x, r);
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_RMSNORM,
                                          .name = name,
                                          .in = {x, r.weight, PZ_NONE},
                                          .aux_shape = PZ_SHAPE(elems(b, x) / r.width),
                                          .aux_bytes = PZ_B32});
}

uint32_t pz_kernel_rmsnorm(struct pz_builder *b, const char *name, uint32_t x, int64_t width) {
  return rmsnorm(b, name, x, (struct rows){width, norm_param(b, name, "weight", width), false});
}

uint32_t pz_kernel_rmsnorm_inside(struct pz_builder *b, const char *name, uint32_t x,
                                  int64_t width) {
  if (b->options->tp > 1 && !b->options->sequence_parallel) b->group_grad_params += width;
  return pz_kernel_rmsnorm(b, name, x, width);
}

/* This device's part of a weight. */
static uint32_t norm_part(struct pz_builder *b, const char *name, int64_t width) {
  char full[PZ_BUILD_NAME];
  pz_build_name(full, name, "weight");
  return pz_build_param(b, full, PZ_SHAPE(width / b->options->tp), width, false);
}

uint32_t pz_kernel_rmsnorm_divided(struct pz_builder *b, const char *name, uint32_t x,
                                   int64_t width) {
  struct rows r = {width / b->options->tp, norm_part(b, name, width), b->options->tp > 1};
  return rmsnorm(b, name, x, r);
}

uint32_t pz_kernel_rmsnorm_groups(struct pz_builder *b, const char *name, uint32_t x, int64_t width,
                                  int64_t group) {
  return rmsnorm(b, name, x, (struct rows){group, norm_part(b, name, width), false});
}

uint32_t pz_kernel_rmsnorm_plain(struct pz_builder *b, const char *name, uint32_t x,
                                 int64_t width) {
  return rmsnorm(b, name, x, (struct rows){width, PZ_NONE, false});
}

uint32_t pz_kernel_cap(struct pz_builder *b, const char *name, uint32_t x) {
  x = step(b, PZ_OP_SCALE, name, "divide", x, PZ_NONE);
  x = step(b, PZ_OP_TANH, name, "tanh", x, PZ_NONE);
  return pz_build_step(b, PZ_OP_SCALE, name, x, PZ_NONE);
}

/* 0.5 x (1 + tanh(c (x + a x^3))) as the framework runs it: eight element-wise operators. */
static uint32_t gelu_tanh_eager(struct pz_builder *b, const char *name, uint32_t x) {
  uint32_t half = step(b, PZ_OP_SCALE, name, "half", x, PZ_NONE);
  uint32_t cube = step(b, PZ_OP_POW, name, "cube", x, PZ_NONE);
  uint32_t scaled = step(b, PZ_OP_SCALE, name, "scale_cube", cube, PZ_NONE);
  uint32_t sum = step(b, PZ_OP_ADD, name, "add", x, scaled);
  uint32_t inner = step(b, PZ_OP_SCALE, name, "scale", sum, PZ_NONE);
  uint32_t tanh = step(b, PZ_OP_TANH, name, "tanh", inner, PZ_NONE);
  uint32_t one_more = step(b, PZ_OP_SCALE, name, "add_one", tanh, PZ_NONE);
  return pz_build_step(b, PZ_OP_MUL, name, half, one_more);
}

/* 0.5 x (1 + tanh(c x (1 + a x x))): nine operators, and three more tensors for backward. */
static uint32_t gelu_fast_eager(struct pz_builder *b, const char *name, uint32_t x) {
  uint32_t half = step(b, PZ_OP_SCALE, name, "half", x, PZ_NONE);
  uint32_t scaled = step(b, PZ_OP_SCALE, name, "scale", x, PZ_NONE);
  uint32_t small = step(b, PZ_OP_SCALE, name, "scale_small", x, PZ_NONE);
  uint32_t square = step(b, PZ_OP_MUL, name, "square", small, x);
  uint32_t factor = step(b, PZ_OP_SCALE, name, "add_one_inside", square, PZ_NONE);
  uint32_t inner = step(b, PZ_OP_MUL, name, "inner", scaled, factor);
  uint32_t tanh = step(b, PZ_OP_TANH, name, "tanh", inner, PZ_NONE);
  uint32_t one_more = step(b, PZ_OP_SCALE, name, "add_one", tanh, PZ_NONE);
  return pz_build_step(b, PZ_OP_MUL, name, half, one_more);
}

uint32_t pz_kernel_activation(struct pz_builder *b, const char *name, enum pz_act act, uint32_t x) {
  if (pz_composite(b) && act == PZ_ACT_GELU_TANH) return gelu_tanh_eager(b, name, x);
  if (pz_composite(b) && act == PZ_ACT_GELU_FAST) return gelu_fast_eager(b, name, x);
  if (pz_eager(b) && act == PZ_ACT_RELU2) x = step(b, PZ_OP_RELU, name, "relu", x, PZ_NONE);
  int kind = act == PZ_ACT_RELU    ? PZ_OP_RELU
             : act == PZ_ACT_RELU2 ? PZ_OP_POW
             : act == PZ_ACT_SILU  ? PZ_OP_SILU
                                   : PZ_OP_GELU;
  return pz_build_step(b, kind, name, x, PZ_NONE);
}

uint32_t pz_kernel_gated(struct pz_builder *b, const char *name, enum pz_act act, uint32_t gate,
                         uint32_t up) {
  if (!pz_eager(b) && act == PZ_ACT_SILU) return pz_build_step(b, PZ_OP_SWIGLU, name, gate, up);
  uint32_t a = pz_kernel_activation(b, "act", act, gate);
  return pz_build_step(b, PZ_OP_MUL, name, a, up);
}

uint32_t pz_kernel_softmax(struct pz_builder *b, const char *name, uint32_t x, uint32_t sinks,
                           bool f32) {
  if (!pz_composite(b) || !f32) return pz_build_step(b, PZ_OP_SOFTMAX, name, x, sinks);
  uint32_t wide = cast(b, name, "to_f32", x, PZ_B32);
  uint32_t y = pz_build_step(b, PZ_OP_SOFTMAX, name, wide, sinks);
  return cast(b, name, "to_b16", y, PZ_B16);
}

/* x cos + rotate_half(x) sin; the fused kernel works in place, as backward needs nothing of x. */
static uint32_t rotate(struct pz_builder *b, const char *name, uint32_t x, uint32_t cos,
                       uint32_t sin, bool in_place) {
  if (pz_eager(b)) {
    uint32_t straight = step(b, PZ_OP_MUL, name, "cos", x, cos);
    uint32_t half = step(b, PZ_OP_ROTATE_HALF, name, "rotate_half", x, PZ_NONE);
    uint32_t turned = step(b, PZ_OP_MUL, name, "sin", half, sin);
    return pz_build_step(b, PZ_OP_ADD, name, straight, turned);
  }
  uint32_t y = pz_build_op(
      b, &(struct pz_emit){.kind = PZ_OP_ROTARY, .name = name, .in = {x, cos, sin, PZ_NONE}});
  if (y != PZ_NONE && in_place)
    pz_graph_tensor(b->graph, y)->storage = pz_graph_tensor(b->graph, x)->storage;
  return y;
}

uint32_t pz_kernel_rotary(struct pz_builder *b, const char *name, uint32_t x, int64_t dims,
                          int64_t head_dim) {
  uint32_t cos = pz_build_data(b, "cos", PZ_B16, PZ_SHAPE(b->part, dims));
  uint32_t sin = pz_build_data(b, "sin", PZ_B16, PZ_SHAPE(b->part, dims));
  /* a view of a joint projection is written anew: the value keeps the whole of it */
  bool own = x == PZ_NONE || pz_graph_tensor(b->graph, x)->storage == x;
  if (dims == head_dim) return rotate(b, name, x, cos, sin, own);
  int64_t heads = elems(b, x) / head_dim / b->tokens;
  char join[PZ_BUILD_NAME];
  struct pz_split split = {.name = "rotary_split",
                           .x = x,
                           .parts = 2,
                           .widths = {heads * dims, heads * (head_dim - dims)},
                           .names = {"rotated", "passed"}};
  uint32_t part[2];
  pz_build_split(b, &split, part);
  part[0] = rotate(b, name, part[0], cos, sin, true);
  return pz_build_join(b, pz_build_name(join, name, "join"), part, x, pz_eager(b));
}

uint32_t pz_kernel_dropout(struct pz_builder *b, const char *name, uint32_t x, double p) {
  if (b->options->dropout >= 0 && p > 0) p = b->options->dropout;
  if (!(p > 0)) return x;
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_DROPOUT,
                                          .name = name,
                                          .in = {x, PZ_NONE},
                                          .aux_shape = PZ_SHAPE(elems(b, x)),
                                          .aux_bytes = PZ_BYTE});
}

uint32_t pz_kernel_add(struct pz_builder *b, const char *name, uint32_t x, uint32_t y) {
  return pz_build_step(b, PZ_OP_ADD, name, x, y);
}

static uint32_t embedding(struct pz_builder *b, const char *name, int64_t rows, int64_t table,
                          int64_t width, bool divide, bool tied) {
  char full[PZ_BUILD_NAME];
  uint32_t ids = pz_build_data(b, pz_build_name(full, name, "ids"), PZ_INDEX, PZ_SHAPE(rows));
  if (ids == PZ_NONE) return PZ_NONE;
  /* outside the regions sequence parallelism gives each device rows of its own */
  pz_graph_tensor(b->graph, ids)->split = !divide && b->options->sequence_parallel;
  int64_t local = divide ? pz_share(b, table) : table;
  uint32_t weight = pz_build_param(b, pz_build_name(full, name, "weight"), PZ_SHAPE(local, width),
                                   table * width, tied);
  uint32_t y = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_EMBEDDING,
                                                .name = name,
                                                .in = {ids, weight, PZ_NONE},
                                                .shape = PZ_SHAPE(rows, width),
                                                .elem_bytes = PZ_B16});
  return divide ? pz_build_leave(b, name, y, 0) : y;
}

uint32_t pz_kernel_embedding(struct pz_builder *b, const char *name, int64_t rows, int64_t table,
                             int64_t width, bool divide) {
  return embedding(b, name, rows, table, width, divide, false);
}

uint32_t pz_kernel_embedding_tied(struct pz_builder *b, const char *name, int64_t table,
                                  int64_t width) {
  return embedding(b, name, b->tokens, table, width, true, true);
}

/* With the vocabulary divided, maximum, sum and target logit of each token meet over the group. */
uint32_t pz_kernel_loss(struct pz_builder *b, uint32_t logits, bool f32) {
  uint32_t labels = pz_build_data(b, "labels", PZ_INDEX, PZ_SHAPE(b->tokens));
  bool divided = b->options->tp > 1;
  struct pz_emit e = {.kind = PZ_OP_CROSS_ENTROPY,
                      .name = "loss",
                      .in = {logits, labels, PZ_NONE},
                      .shape = PZ_SHAPE(b->tokens, divided ? 3 : 1),
                      .elem_bytes = PZ_B32,
                      .aux_shape = PZ_SHAPE(b->tokens),
                      .aux_bytes = PZ_B32};
  if (pz_eager(b)) {
    if (f32) logits = cast(b, "loss", "to_f32", logits, PZ_B32);
    e.kind = PZ_OP_NLL_LOSS;
    e.in[0] = step(b, PZ_OP_LOG_SOFTMAX, "loss", "log_softmax", logits, PZ_NONE);
    e.aux_shape.n = 0;
  }
  uint32_t loss = pz_build_op(b, &e);
  return divided ? pz_build_all_reduce(b, "loss", loss) : loss;
}
