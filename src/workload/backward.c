#include "workload/passes.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "workload/build.h"

struct backward {
  struct pz_graph *g;
  const struct pz_workload_options *options;
  bool *needs;     /* by forward tensor: has a gradient */
  uint32_t *grad;  /* by forward tensor: its gradient so far, or PZ_NONE */
  uint32_t *again; /* by forward tensor: made again, or PZ_NONE */
  enum pz_status status;
};

static struct pz_tensor *tensor(const struct backward *b, uint32_t i) {
  return pz_graph_tensor(b->g, i);
}

static bool failed(struct backward *b, enum pz_status status) {
  if (b->status == PZ_OK) b->status = status;
  return b->status != PZ_OK;
}

/* A new tensor shaped like forward tensor t. */
static uint32_t like(struct backward *b, uint32_t t, const char *suffix) {
  struct pz_tensor x = *tensor(b, t);
  struct pz_shape shape = {.n = x.n_dims};
  memcpy(shape.d, x.shape, sizeof shape.d);
  char name[112];
  snprintf(name, sizeof name, "%s.%s", x.name, suffix);
  uint32_t id = PZ_NONE;
  if (b->status != PZ_OK ||
      failed(b, pz_graph_add_tensor(b->g, name, PZ_ROLE_GRAD, x.elem_bytes, shape, &id)))
    return PZ_NONE;
  tensor(b, id)->split = x.split;
  tensor(b, id)->tied = x.tied;
  tensor(b, id)->held = x.held;
  return id;
}

/* What an operator of the backward direction reads and writes. */
struct ends {
  const uint32_t *in;
  uint32_t n_in;
  const uint32_t *out;
  uint32_t n_out;
};

/* An operator of the backward direction that stands for `op`; its name comes later. */
static struct pz_op derived(const struct pz_op *op, int kind, struct ends ends) {
  return (struct pz_op){.kind = kind,
                        .direction = PZ_BACKWARD,
                        .op_class = pz_op_info(kind)->op_class,
                        .replicated = op->replicated,
                        .peers = op->peers,
                        .dims = op->dims,
                        .span = op->span,
                        .in = ends.in,
                        .n_in = ends.n_in,
                        .out = ends.out,
                        .n_out = ends.n_out};
}

static void add(struct backward *b, struct pz_op op, const struct pz_op *from, const char *suffix) {
  if (b->status != PZ_OK) return;
  char name[128];
  snprintf(name, sizeof name, "%s.%s", from->name, suffix);
  op.name = name;
  failed(b, pz_graph_add_op(b->g, PZ_BACKWARD, &op));
}

/* Gradient `g` flows into forward tensor t; a second one is added to the first. */
static void contribute(struct backward *b, const struct pz_op *from, uint32_t t, uint32_t g) {
  if (b->status != PZ_OK) return;
  if (b->grad[t] == PZ_NONE) {
    b->grad[t] = g;
    return;
  }
  uint32_t in[2] = {b->grad[t], g}, sum = like(b, t, "grad");
  if (sum == PZ_NONE) return;
  struct pz_op op = derived(from, PZ_OP_ADD, (struct ends){in, 2, &sum, 1});
  const struct pz_tensor *s = tensor(b, sum);
  op.replicated = b->options->tp > 1 && !s->split;
  op.flop = s->elems;
  op.dims = (struct pz_dims){1, s->elems / s->shape[s->n_dims - 1], s->shape[s->n_dims - 1], 1};
  add(b, op, from, "grad_sum");
  b->grad[t] = sum;
}

/* Sum of gradient g over rows, for an input that was broadcast. */
static void reduce(struct backward *b, const struct pz_op *from, uint32_t t, uint32_t g,
                   const char *suffix) {
  uint32_t out = like(b, t, "grad");
  if (out == PZ_NONE) return;
  struct pz_op op = derived(from, PZ_OP_REDUCE, (struct ends){&g, 1, &out, 1});
  op.flop = tensor(b, g)->elems;
  int64_t n = tensor(b, t)->elems;
  int64_t rows = tensor(b, g)->elems / n; /* 0: of experts that are more than the rows */
  op.dims = (struct pz_dims){1, rows ? rows : 1, n, 1};
  add(b, op, from, suffix);
  contribute(b, from, t, out);
}

static void grad_pass(struct backward *b, const struct pz_op *op, uint32_t g) {
  for (uint32_t i = 0; i < op->n_in; i++) {
    uint32_t t = op->in[i];
    if (!b->needs[t]) continue;
    if (tensor(b, t)->role == PZ_ROLE_PARAM)
      reduce(b, op, t, g, "bias_grad");
    else if (tensor(b, t)->elems < tensor(b, g)->elems)
      reduce(b, op, t, g, "broadcast_grad");
    else
      contribute(b, op, t, g);
  }
}

/* Does backward of `op` read input i?  A factor is read only for the other factor's gradient. */
static bool reads_input(const struct backward *b, const struct pz_op *op, uint32_t i) {
  unsigned saves = pz_op_info(op->kind)->saves;
  if (!(saves & (i == 0 ? PZ_SAVE_IN0 : PZ_SAVE_REST))) return false;
  if (op->kind == PZ_OP_LAYERNORM && i == 2) return false; /* the bias moves nothing back */
  if (op->kind != PZ_OP_MUL) return true;
  return b->needs[op->in[1 - i]];
}

static int64_t backward_flop(struct backward *b, const struct pz_op *op) {
  int64_t flop = op->dims.m;
  bool ok = pz_mul(&flop, op->dims.n) && pz_mul(&flop, pz_op_info(op->kind)->flop[PZ_BACKWARD]);
  if (!ok) failed(b, PZ_LIMIT);
  return flop;
}

/* Flash attention makes the scores again: five products for the forward's two, three of the query's
 * width and two of the value's, and the softmax again.  dims.k is their mean. */
static void flash_flop(struct backward *b, const struct pz_op *op, struct pz_op *back) {
  int64_t softmax = op->flop - op->matmul_flop;
  const int *per_score = pz_op_info(PZ_OP_SOFTMAX)->flop;
  const struct pz_tensor *context = tensor(b, op->out[0]);
  int64_t once = 2 * op->dims.batch * op->dims.m * op->dims.n;
  int64_t v = context->shape[context->n_dims - 1], k = op->matmul_flop / once - v;
  back->matmul_flop = once;
  if (!pz_mul(&back->matmul_flop, 3 * k + 2 * v)) failed(b, PZ_LIMIT);
  back->dims.k = (3 * k + 2 * v + 2) / 5;
  back->flop = back->matmul_flop;
  if (!pz_add(&back->flop, softmax + softmax / per_score[PZ_FORWARD] * per_score[PZ_BACKWARD]))
    failed(b, PZ_LIMIT);
}

/* Mamba-2 (state-spaces/mamba, ssd_combined.py: MambaSplitConv1dScanCombinedFn) makes C B, the chunks' states and the
 * convolution again.  Products with a head's state: that, and four for the gradients of state, x, B and C, for the
 * forward's two; with a chunk's scores three for one, of a head and of a group.  Delta rule
 * (fla-org/flash-linear-attention, ops/gated_delta_rule/chunk.py): states, new keys and values again. */
static void scan_flop(struct backward *b, const struct pz_op *op, struct pz_op *back) {
  int64_t n = op->dims.n, k = op->dims.k, q = op->span, tokens = op->dims.batch * op->dims.m;
  if (op->kind == PZ_OP_SSM_SCAN) {
    back->matmul_flop = op->matmul_flop;
    if (!pz_mul(&back->matmul_flop, 3)) failed(b, PZ_LIMIT);
    back->matmul_flop -= 2 * tokens * n * k;
  } else {
    back->matmul_flop = tokens;
    if (!pz_mul(&back->matmul_flop, 16 * n * k + (q + 1) * (9 * k + 5 * n) + 2 * q * q))
      failed(b, PZ_LIMIT);
  }
  back->flop = back->matmul_flop;
}

/* What is not kept but made again: rows that were gathered, and the convolution that Mamba-2's scan alone reads. */
static uint32_t made_again(struct backward *b, const struct pz_op *from, uint32_t x) {
  const struct pz_op *maker = NULL;
  uint32_t readers = 0;
  for (uint32_t i = 0; i < b->g->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(b->g, PZ_FORWARD, i);
    bool rows = op->kind == PZ_OP_ALL_GATHER && op->peers != PZ_PEERS_EXPERT_TENSOR;
    bool made = op->kind == PZ_OP_CONV1D && from->kind == PZ_OP_SSM_SCAN;
    if ((rows || made) && op->out[0] == x) maker = op;
    for (uint32_t k = 0; k < op->n_in; k++) readers += op->in[k] == x;
  }
  if (maker && maker->kind == PZ_OP_CONV1D && readers > 1) return x;
  if (!maker) return x;
  if (b->again[x] != PZ_NONE) return b->again[x];
  bool conv = maker->kind == PZ_OP_CONV1D;
  uint32_t out = like(b, x, "again");
  struct pz_op op =
      derived(maker, maker->kind, (struct ends){maker->in, conv ? maker->n_in : 1, &out, 1});
  if (conv) op.direction = PZ_FORWARD;
  op.flop = maker->flop;
  add(b, op, conv || maker->peers == PZ_PEERS_CONTEXT ? maker : from,
      conv ? "again" : "gather_again");
  return b->again[x] = out;
}

static void grad_pointwise(struct backward *b, const struct pz_op *op, uint32_t g) {
  unsigned saves = pz_op_info(op->kind)->saves;
  uint32_t in[1 + PZ_OP_MOST_INPUTS + PZ_OP_MOST_OUTPUTS], out[PZ_OP_MOST_INPUTS],
      to[PZ_OP_MOST_INPUTS];
  uint32_t n_in = 0, n_out = 0;
  in[n_in++] = g;
  for (uint32_t i = 0; i < op->n_in; i++)
    if (reads_input(b, op, i))
      in[n_in++] = op->op_class == PZ_CLASS_FUSED ? made_again(b, op, op->in[i]) : op->in[i];
  if (saves & PZ_SAVE_OUT) in[n_in++] = op->out[0];
  for (uint32_t o = 1; o < op->n_out && (saves & PZ_SAVE_AUX); o++) in[n_in++] = op->out[o];
  for (uint32_t i = 0; i < op->n_in; i++)
    if (b->needs[op->in[i]]) {
      to[n_out] = op->in[i];
      out[n_out++] = like(b, op->in[i], "grad");
    }
  struct pz_op back = derived(op, op->kind, (struct ends){in, n_in, out, n_out});
  if (op->kind == PZ_OP_ATTENTION)
    flash_flop(b, op, &back);
  else if (op->op_class == PZ_CLASS_FUSED)
    scan_flop(b, op, &back);
  else
    back.flop = backward_flop(b, op);
  /* the framework's softmax derivative forms gradient * output first */
  if (op->kind == PZ_OP_SOFTMAX && pz_kernels_eager(b->options->kernels))
    back.scratch_bytes = pz_tensor_bytes(tensor(b, op->out[0]));
  add(b, back, op, "backward");
  for (uint32_t i = 0; i < n_out; i++) contribute(b, op, to[i], out[i]);
}

/* One of the products that are a product's gradient: of `in`, for factor t. */
static void factor_grad(struct backward *b, const struct pz_op *op, uint32_t t,
                        const uint32_t in[2], struct pz_dims dims, const char *suffix) {
  uint32_t out = like(b, t, "grad");
  struct pz_op back = derived(op, PZ_OP_MATMUL, (struct ends){in, 2, &out, 1});
  back.dims = dims;
  back.grouped = op->grouped;
  if (t == op->in[1] && b->options->input_gradients_only)
    back.op_class = PZ_CLASS_NONE;
  else
    back.flop = back.matmul_flop = op->matmul_flop;
  add(b, back, op, suffix);
  contribute(b, op, t, out);
}

/* y = a c: da = g c^T has m x n' with n' = k, k' = n; dc = a^T g has m' = k, k' = m. */
static void grad_product(struct backward *b, const struct pz_op *op, uint32_t g) {
  uint32_t a = op->in[0], c = op->in[1];
  bool weight = tensor(b, c)->role == PZ_ROLE_PARAM;
  struct pz_dims d = op->dims;
  if (b->needs[a])
    factor_grad(b, op, a, (const uint32_t[]){g, c}, (struct pz_dims){d.batch, d.m, d.k, d.n},
                weight ? "input_grad" : "left_grad");
  if (b->needs[c])
    /* adapters save what was gathered (Megatron Bridge: sequence_parallel_input_regather is off) */
    factor_grad(b, op, c, (const uint32_t[]){pz_op_adapts(op) ? a : made_again(b, op, a), g},
                (struct pz_dims){d.batch, d.k, d.n, d.m}, weight ? "weight_grad" : "right_grad");
  if (op->n_in > 2 && b->needs[op->in[2]]) reduce(b, op, op->in[2], g, "bias_grad");
}

/* The parts' gradients become one tensor: written in place by fused kernels, concatenated by eager
 * ones, and where they are not all of it, zeros beside them. */
static void grad_split(struct backward *b, const struct pz_op *op) {
  uint32_t *in = pz_arena_alloc(b->g->arena, op->n_out, sizeof *in), n_in = 0;
  uint32_t whole = like(b, op->in[0], "grad");
  if (!in) failed(b, PZ_NO_MEMORY);
  if (!in || whole == PZ_NONE) return;
  int64_t rest = tensor(b, whole)->elems;
  for (uint32_t o = 0; o < op->n_out; o++) rest -= tensor(b, op->out[o])->elems;
  bool copies = pz_kernels_eager(b->options->kernels) || rest > 0;
  for (uint32_t o = 0; o < op->n_out; o++) {
    uint32_t g = b->grad[op->out[o]];
    if (g == PZ_NONE) continue;
    in[n_in++] = g;
    if (!copies) tensor(b, g)->storage = whole;
  }
  struct pz_op back = derived(op, PZ_OP_CONCAT, (struct ends){in, n_in, &whole, 1});
  back.op_class = copies ? PZ_CLASS_VECTOR : PZ_CLASS_NONE;
  const struct pz_tensor *t = tensor(b, whole);
  back.dims = (struct pz_dims){1, t->elems / t->shape[t->n_dims - 1], t->shape[t->n_dims - 1], 1};
  add(b, back, op, "join_grad");
  contribute(b, op, op->in[0], whole);
}

/* Parts of the gradient, as views of it. */
static void grad_join(struct backward *b, const struct pz_op *op, uint32_t g) {
  uint32_t *out = pz_arena_alloc(b->g->arena, op->n_in, sizeof *out);
  if (!out) failed(b, PZ_NO_MEMORY);
  for (uint32_t i = 0; out && i < op->n_in; i++) {
    out[i] = like(b, op->in[i], "grad");
    if (out[i] == PZ_NONE) return;
    tensor(b, out[i])->storage = tensor(b, g)->storage;
  }
  if (!out) return;
  struct pz_op back = derived(op, PZ_OP_SPLIT, (struct ends){&g, 1, out, op->n_in});
  back.replicated = false;
  add(b, back, op, "split_grad");
  for (uint32_t i = 0; i < op->n_in; i++) contribute(b, op, op->in[i], out[i]);
}

static void grad_collective(struct backward *b, const struct pz_op *op, uint32_t g) {
  if (op->kind == PZ_OP_ALL_REDUCE) {
    contribute(b, op, op->in[0], g);
    return;
  }
  int dual = op->kind == PZ_OP_TP_ENTER         ? PZ_OP_ALL_REDUCE
             : op->kind == PZ_OP_ALL_GATHER     ? PZ_OP_REDUCE_SCATTER
             : op->kind == PZ_OP_REDUCE_SCATTER ? PZ_OP_ALL_GATHER
             : op->kind == PZ_OP_ALL_TO_ALL     ? PZ_OP_ALL_TO_ALL
                                                : PZ_OP_SPLIT;
  uint32_t out[PZ_OP_MOST_INPUTS];
  for (uint32_t i = 0; i < op->n_in; i++) {
    out[i] = like(b, op->in[i], "grad");
    if (out[i] == PZ_NONE) return;
    if (dual == PZ_OP_SPLIT) tensor(b, out[i])->storage = tensor(b, g)->storage;
  }
  struct pz_op back = derived(op, dual, (struct ends){&g, 1, out, op->n_in});
  back.dims.batch = pz_peers_number(b->options, op->peers);
  add(b, back, op, pz_op_info(dual)->name);
  for (uint32_t i = 0; i < op->n_in; i++) contribute(b, op, op->in[i], out[i]);
}

static void differentiate(struct backward *b, const struct pz_op *op) {
  uint32_t g = b->grad[op->out[0]];
  enum pz_grad_rule rule = pz_op_info(op->kind)->grad;
  if (rule == PZ_GRAD_SPLIT && b->needs[op->in[0]]) grad_split(b, op);
  bool needed = false;
  for (uint32_t i = 0; i < op->n_in; i++) needed = needed || b->needs[op->in[i]];
  if (g == PZ_NONE || !needed) return;
  switch (rule) {
  case PZ_GRAD_PASS: grad_pass(b, op, g); break;
  case PZ_GRAD_POINTWISE: grad_pointwise(b, op, g); break;
  case PZ_GRAD_PRODUCT: grad_product(b, op, g); break;
  case PZ_GRAD_JOIN: grad_join(b, op, g); break;
  case PZ_GRAD_COLLECTIVE: grad_collective(b, op, g); break;
  case PZ_GRAD_SPLIT:
  case PZ_GRAD_NONE: break;
  }
}

/* A tensor has a gradient if it is a parameter that is trained, the layer's input, or made from one that has. */
static void mark_needs(struct backward *b) {
  for (uint32_t t = 0; t < b->g->tensors.n; t++)
    b->needs[t] =
        (tensor(b, t)->role == PZ_ROLE_PARAM && !tensor(b, t)->frozen) || t == b->g->input;
  for (uint32_t i = 0; i < b->g->n_also_in; i++) b->needs[b->g->also_in[i]] = true;
  for (uint32_t i = 0; i < b->g->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(b->g, PZ_FORWARD, i);
    bool any = false;
    for (uint32_t k = 0; k < op->n_in; k++) any = any || b->needs[op->in[k]];
    for (uint32_t o = 0; o < op->n_out; o++)
      b->needs[op->out[o]] = any && (o == 0 || op->kind == PZ_OP_SPLIT);
  }
}

enum pz_status pz_backward_derive(struct pz_graph *g, const struct pz_workload_options *options) {
  uint32_t n = g->tensors.n;
  struct backward b = {.g = g, .options = options};
  b.needs = pz_arena_alloc(g->arena, n, sizeof *b.needs);
  b.grad = pz_arena_alloc(g->arena, n, sizeof *b.grad);
  b.again = pz_arena_alloc(g->arena, n, sizeof *b.again);
  if (!b.needs || !b.grad || !b.again) return PZ_NO_MEMORY;
  for (uint32_t t = 0; t < n; t++) b.grad[t] = b.again[t] = PZ_NONE;
  mark_needs(&b);
  g->output_grad = b.grad[g->output] = like(&b, g->output, "grad");
  for (uint32_t i = 0; i < g->n_also_out; i++)
    b.grad[g->also_out[i]] = like(&b, g->also_out[i], "grad");
  for (uint32_t i = g->ops[PZ_FORWARD].n; i-- > 0 && b.status == PZ_OK;)
    differentiate(&b, pz_graph_op(g, PZ_FORWARD, i));
  if (g->input != PZ_NONE) g->input_grad = b.grad[g->input];
  return b.status;
}
