#include "workload/build.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"

void pz_builder_init(struct pz_builder *b, struct pz_graph *graph,
                     const struct pz_workload_options *options) {
  int64_t part = options->cp > 1 ? options->seq / options->cp : options->seq;
  *b = (struct pz_builder){.graph = graph,
                           .options = options,
                           .part = part,
                           .tokens = options->mbs,
                           .adapting = {.x = PZ_NONE, .first = PZ_NONE, .pending = PZ_NONE}};
  if (!pz_mul(&b->tokens, part)) b->status = PZ_LIMIT;
}

bool pz_eager(const struct pz_builder *b) { return pz_kernels_eager(b->options->kernels); }

bool pz_composite(const struct pz_builder *b) { return b->options->kernels == PZ_KERNELS_EAGER; }

int64_t pz_rows_outside(const struct pz_builder *b) {
  return b->options->sequence_parallel ? b->tokens / b->options->tp : b->tokens;
}

int64_t pz_share(const struct pz_builder *b, int64_t n) {
  return n / b->options->tp + (b->options->slice < n % b->options->tp);
}

bool pz_folded(const struct pz_builder *b) {
  const struct pz_workload_options *o = b->options;
  return o->ep > 1 || (o->etp > 0 && o->etp != o->tp);
}

int64_t pz_local_experts(const struct pz_builder *b, int64_t n) {
  return pz_folded(b) ? n / b->options->ep : n;
}

int64_t pz_peers_number(const struct pz_workload_options *o, enum pz_peers peers) {
  switch (peers) {
  case PZ_PEERS_EXPERT: return o->ep;
  case PZ_PEERS_EXPERT_TENSOR: return o->etp;
  case PZ_PEERS_CONTEXT: return o->cp;
  case PZ_PEERS_TENSOR: break;
  }
  return o->tp;
}

static bool failed(struct pz_builder *b, enum pz_status status) {
  if (b->status == PZ_OK) b->status = status;
  return b->status != PZ_OK;
}

static struct pz_tensor *tensor(const struct pz_builder *b, uint32_t i) {
  return pz_graph_tensor(b->graph, i);
}

static uint32_t add_tensor(struct pz_builder *b, const char *name, enum pz_tensor_role role,
                           int elem_bytes, struct pz_shape shape) {
  uint32_t id = PZ_NONE;
  if (b->status != PZ_OK) return PZ_NONE;
  failed(b, pz_graph_add_tensor(b->graph, name, role, elem_bytes, shape, &id));
  return id;
}

uint32_t pz_build_input(struct pz_builder *b, int64_t width) {
  uint32_t x =
      add_tensor(b, "input", PZ_ROLE_ACTIVATION, PZ_B16, PZ_SHAPE(pz_rows_outside(b), width));
  if (x != PZ_NONE) tensor(b, x)->split = b->options->sequence_parallel;
  return b->graph->input = x;
}

/* One more in a list that ends up in the graph. */
static const uint32_t *one_more(struct pz_builder *b, const uint32_t *list, uint32_t *n,
                                uint32_t x) {
  uint32_t *all = pz_arena_alloc(b->graph->arena, *n + 1, sizeof *all);
  if (!all) {
    failed(b, PZ_NO_MEMORY);
    return list;
  }
  if (*n) memcpy(all, list, *n * sizeof *all);
  all[(*n)++] = x;
  return all;
}

void pz_build_also_out(struct pz_builder *b, uint32_t x) {
  struct pz_graph *g = b->graph;
  if (b->status == PZ_OK && x != PZ_NONE) g->also_out = one_more(b, g->also_out, &g->n_also_out, x);
}

uint32_t pz_build_carried(struct pz_builder *b, const char *name, int64_t width) {
  struct pz_graph *g = b->graph;
  uint32_t x = add_tensor(b, name, PZ_ROLE_ACTIVATION, PZ_B16, PZ_SHAPE(pz_rows_outside(b), width));
  if (x == PZ_NONE) return x;
  tensor(b, x)->split = b->options->sequence_parallel;
  g->also_in = one_more(b, g->also_in, &g->n_also_in, x);
  pz_build_also_out(b, x);
  return x;
}

void pz_build_output(struct pz_builder *b, uint32_t x) { b->graph->output = x; }

uint32_t pz_build_data(struct pz_builder *b, const char *name, int elem_bytes,
                       struct pz_shape shape) {
  size_t n = strlen(name);
  uint32_t id = pz_map_get(&b->graph->by_name, name, n);
  if (id != PZ_NONE) return id;
  id = add_tensor(b, name, PZ_ROLE_DATA, elem_bytes, shape);
  if (id == PZ_NONE || failed(b, pz_map_put(&b->graph->by_name, name, n, id))) return PZ_NONE;
  return id;
}

uint32_t pz_build_param(struct pz_builder *b, const char *name, struct pz_shape shape,
                        int64_t whole, bool tied) {
  uint32_t id = add_tensor(b, name, PZ_ROLE_PARAM, PZ_B16, shape);
  if (id == PZ_NONE) return id;
  struct pz_tensor *t = tensor(b, id);
  t->split = b->options->tp > 1 && t->elems != whole;
  t->tied = tied;
  t->frozen = b->options->lora.rank > 0 && !b->adapting.now;
  if (b->repeats && !tied) return id;
  bool ok = tied ? pz_add(&b->tied_params, t->elems)
                 : pz_add(&b->params, t->elems) && pz_add(&b->model_params, whole) &&
                       (!t->split || pz_add(&b->split_params, t->elems));
  if (!tied && !t->frozen)
    ok = ok && pz_add(&b->trained_params, t->elems) && pz_add(&b->model_trained_params, whole);
  /* with sequence parallelism each device has the gradient of its own tokens alone */
  if (!tied && !t->split && !t->frozen && b->options->sequence_parallel)
    b->group_grad_params += t->elems;
  return !ok && failed(b, PZ_LIMIT) ? PZ_NONE : id;
}

/* FLOP of a vector operator: per element of its largest side. */
static bool vector_flop(const struct pz_builder *b, struct pz_op *op) {
  const struct pz_tensor *x = tensor(b, op->in[0]), *y = tensor(b, op->out[0]);
  const struct pz_tensor *work = x->elems > y->elems && op->kind != PZ_OP_EMBEDDING ? x : y;
  op->dims.n = work->n_dims ? work->shape[work->n_dims - 1] : 1;
  op->dims.m = op->dims.n ? work->elems / op->dims.n : 0;
  op->dims.batch = op->op_class == PZ_CLASS_COLLECTIVE ? pz_peers_number(b->options, op->peers) : 1;
  op->dims.k = 1;
  op->flop = work->elems;
  return pz_mul(&op->flop, pz_op_info(op->kind)->flop[PZ_FORWARD]);
}

static void add_op(struct pz_builder *b, struct pz_op *op) {
  if (b->status != PZ_OK) return;
  failed(b, pz_graph_add_op(b->graph, PZ_FORWARD, op));
}

static struct pz_shape shape_of(const struct pz_tensor *t) {
  struct pz_shape s = {.n = t->n_dims};
  for (int i = 0; i < t->n_dims; i++) s.d[i] = t->shape[i];
  return s;
}

/* What is made from data alone is data: it has no gradient. */
static enum pz_tensor_role role_of_result(const struct pz_builder *b, const uint32_t *in) {
  for (int i = 0; i < PZ_OP_MOST_INPUTS && in[i] != PZ_NONE; i++)
    if (tensor(b, in[i])->role != PZ_ROLE_DATA) return PZ_ROLE_ACTIVATION;
  return PZ_ROLE_DATA;
}

uint32_t pz_build_op(struct pz_builder *b, const struct pz_emit *e) {
  if (b->status != PZ_OK || e->in[0] == PZ_NONE) return PZ_NONE;
  const struct pz_tensor *x = tensor(b, e->in[0]);
  const struct pz_op_info *info = pz_op_info(e->kind);
  bool split = x->split || (e->divides && b->options->tp > 1);
  enum pz_tensor_role role = role_of_result(b, e->in);
  uint32_t out[2], n_out = 1;
  out[0] = add_tensor(b, e->name, role, e->elem_bytes ? e->elem_bytes : x->elem_bytes,
                      e->shape.n ? e->shape : shape_of(x));
  if (out[0] == PZ_NONE) return PZ_NONE;
  tensor(b, out[0])->split = split;
  if (e->aux_shape.n) {
    char name[PZ_BUILD_NAME];
    out[1] = add_tensor(b, pz_build_name(name, e->name, "aux"), PZ_ROLE_ACTIVATION, e->aux_bytes,
                        e->aux_shape);
    if (out[1] == PZ_NONE) return PZ_NONE;
    tensor(b, out[1])->split = split;
    if (e->aux) *e->aux = out[1];
    n_out = 2;
  }
  struct pz_op op = {.name = e->name,
                     .kind = e->kind,
                     .op_class = info->op_class,
                     .peers = e->peers,
                     .in = e->in,
                     .out = out,
                     .n_out = n_out};
  while (op.n_in < PZ_OP_MOST_INPUTS && e->in[op.n_in] != PZ_NONE) op.n_in++;
  op.replicated = b->options->tp > 1 && !split && op.op_class == PZ_CLASS_VECTOR;
  if (!vector_flop(b, &op)) failed(b, PZ_LIMIT);
  add_op(b, &op);
  return b->status == PZ_OK ? out[0] : PZ_NONE;
}

uint32_t pz_build_shaped(struct pz_builder *b, int kind, const char *name, uint32_t x, uint32_t y,
                         struct pz_shape shape) {
  return pz_build_op(
      b, &(struct pz_emit){.kind = kind, .name = name, .in = {x, y, PZ_NONE}, .shape = shape});
}

uint32_t pz_build_step(struct pz_builder *b, int kind, const char *name, uint32_t x, uint32_t y) {
  return pz_build_shaped(b, kind, name, x, y, (struct pz_shape){0});
}

uint32_t pz_build_cast(struct pz_builder *b, const char *name, uint32_t x, int bytes) {
  return pz_build_op(
      b,
      &(struct pz_emit){.kind = PZ_OP_CAST, .name = name, .in = {x, PZ_NONE}, .elem_bytes = bytes});
}

char *pz_build_name(char buf[PZ_BUILD_NAME], const char *name, const char *part) {
  snprintf(buf, PZ_BUILD_NAME, "%s.%s", name, part);
  return buf;
}

void pz_build_split(struct pz_builder *b, const struct pz_split *s, uint32_t *out) {
  for (int i = 0; i < s->parts; i++) out[i] = PZ_NONE;
  if (b->status != PZ_OK) return;
  struct pz_tensor whole = *tensor(b, s->x);
  for (int i = 0; i < s->parts; i++) {
    out[i] = add_tensor(b, s->names[i], PZ_ROLE_ACTIVATION, whole.elem_bytes,
                        PZ_SHAPE(whole.shape[0], s->widths[i]));
    if (out[i] == PZ_NONE) return;
    tensor(b, out[i])->storage = whole.storage;
    tensor(b, out[i])->split = whole.split;
  }
  struct pz_op op = {.name = s->name,
                     .kind = PZ_OP_SPLIT,
                     .op_class = PZ_CLASS_NONE,
                     .in = &s->x,
                     .n_in = 1,
                     .out = out,
                     .n_out = (uint32_t)s->parts};
  add_op(b, &op);
}

uint32_t pz_build_join(struct pz_builder *b, const char *name, const uint32_t parts[2],
                       uint32_t whole, bool copy) {
  if (b->status != PZ_OK) return PZ_NONE;
  struct pz_tensor x = *tensor(b, whole);
  uint32_t y = add_tensor(b, name, PZ_ROLE_ACTIVATION, x.elem_bytes, shape_of(&x));
  if (y == PZ_NONE) return y;
  tensor(b, y)->split = x.split;
  if (!copy) tensor(b, y)->storage = x.storage;
  struct pz_op op = {.name = name,
                     .kind = PZ_OP_CONCAT,
                     .in = parts,
                     .n_in = 2,
                     .out = &y,
                     .n_out = 1,
                     .op_class = copy ? PZ_CLASS_VECTOR : PZ_CLASS_NONE,
                     .replicated = copy && b->options->tp > 1 && !x.split};
  vector_flop(b, &op);
  add_op(b, &op);
  return b->status == PZ_OK ? y : PZ_NONE;
}

/* 2 batch m n k; `rows` stands for batch * m where m was rounded up. */
static bool product_flop(struct pz_op *op, int64_t rows) {
  op->matmul_flop = 2;
  bool ok = pz_mul(&op->matmul_flop, rows) && pz_mul(&op->matmul_flop, op->dims.n) &&
            pz_mul(&op->matmul_flop, op->dims.k);
  op->flop = op->matmul_flop;
  return ok;
}

/* A parameter of routed experts.  On a grid of their own they are not a matter of the
 * tensor-parallel group. */
static uint32_t expert_param(struct pz_builder *b, const char *name, struct pz_shape shape,
                             int64_t whole) {
  int64_t split = b->split_params, partial = b->group_grad_params;
  uint32_t id = pz_build_param(b, name, shape, whole, false);
  if (id == PZ_NONE) return id;
  struct pz_tensor *t = tensor(b, id);
  t->experts = shape.d[0];
  if (pz_folded(b)) {
    t->split = t->elems != whole;
    b->split_params = split;
    b->group_grad_params = partial;
  }
  if (b->repeats) return id;
  bool ok = pz_add(&b->expert_params, t->elems) && pz_add(&b->model_expert_params, whole);
  if (!t->frozen) b->trained_expert_params += t->elems;
  return !ok && failed(b, PZ_LIMIT) ? PZ_NONE : id;
}

static uint32_t linear_bias(struct pz_builder *b, const struct pz_linear *l, int64_t width) {
  char name[PZ_BUILD_NAME];
  pz_build_name(name, l->name, "bias");
  if (l->experts)
    return expert_param(b, name, PZ_SHAPE(pz_local_experts(b, l->experts), width),
                        l->experts * l->out);
  return pz_build_param(b, name, PZ_SHAPE(width), l->out, l->tied_bias);
}

static uint32_t linear_weight(struct pz_builder *b, const struct pz_linear *l, int64_t in,
                              int64_t out) {
  char name[PZ_BUILD_NAME];
  pz_build_name(name, l->name, "weight");
  int64_t whole = l->in;
  if (!pz_mul(&whole, l->out) || (l->experts && !pz_mul(&whole, l->experts))) {
    failed(b, PZ_LIMIT);
    return PZ_NONE;
  }
  if (l->experts)
    return expert_param(b, name, PZ_SHAPE(pz_local_experts(b, l->experts), in, out), whole);
  return pz_build_param(b, name, PZ_SHAPE(in, out), whole, l->tied);
}

/* Rows of a product; with experts, as many of them as have rows, each with its share. */
static struct pz_dims linear_dims(int64_t experts, int64_t rows, int64_t in, int64_t out) {
  int64_t batch = 1;
  if (experts) batch = rows < experts ? rows : experts;
  return (struct pz_dims){batch, pz_ceil_div(rows, batch), out, in};
}

/* This device's part of a width that the linear layer divides. */
static int64_t linear_share(const struct pz_builder *b, const struct pz_linear *l, int64_t n) {
  return l->experts && pz_folded(b) ? n / b->options->etp : pz_share(b, n);
}

/* Is the result a part of what the tensor-parallel group makes?  On the experts' own grid every
 * device has tokens of its own. */
static bool linear_splits(const struct pz_builder *b, const struct pz_linear *l, bool x_split) {
  if (l->experts && pz_folded(b)) return x_split;
  return b->options->tp > 1 &&
         (l->divide == PZ_DIVIDE_COLUMNS || (l->divide == PZ_DIVIDE_NOT && x_split));
}

/* Bias in the product's own kernel.  A bias after partial sums comes after the sum, or, as the sum
 * is weighted where experts are combined, in parts: each device's is one of them. */
static bool linear_bias_now(const struct pz_builder *b, const struct pz_linear *l) {
  bool whole = l->divide != PZ_DIVIDE_ROWS;
  return l->bias && (whole || (l->experts ? b->options->etp : b->options->tp) == 1);
}

static uint32_t linear_op(struct pz_builder *b, const struct pz_linear *l, struct pz_op *op,
                          int64_t rows) {
  uint32_t y = op->out[0];
  bool ok = product_flop(op, rows);
  if (ok && op->n_in > 2) ok = pz_add(&op->flop, tensor(b, y)->elems);
  if (!ok) failed(b, PZ_LIMIT);
  add_op(b, op);
  if (b->status != PZ_OK) return PZ_NONE;
  if (!l->experts || !l->bias || op->n_in > 2) return y;
  char name[PZ_BUILD_NAME];
  return pz_build_step(b, PZ_OP_BIAS, pz_build_name(name, l->name, "add_bias"), y,
                       linear_bias(b, l, op->dims.n));
}

/* One adapter for all experts of a device, which each of them trains for itself: Megatron Core exchanges its gradients
 * as those of experts (allreduce of megatron/core/tensor_parallel/layers.py). */
static bool shares_experts(const struct pz_builder *b) {
  return b->options->lora.modules & PZ_LORA_SHARED_EXPERTS;
}

/* Adapters for experts, of all devices over which these are divided. */
static int64_t adapters_of(const struct pz_builder *b, int64_t experts) {
  if (!experts || !shares_experts(b)) return experts;
  return pz_folded(b) ? b->options->ep : 1;
}

static uint32_t plain_linear(struct pz_builder *b, const struct pz_linear *l) {
  if (b->status != PZ_OK || l->x == PZ_NONE) return PZ_NONE;
  int64_t in = l->divide == PZ_DIVIDE_ROWS ? linear_share(b, l, l->in) : l->in;
  int64_t out = l->divide == PZ_DIVIDE_COLUMNS ? linear_share(b, l, l->out) : l->out;
  uint32_t ins[3] = {l->x, linear_weight(b, l, in, out), PZ_NONE}, y;
  bool bias_now = linear_bias_now(b, l);
  if (bias_now) ins[2] = linear_bias(b, l, out);
  if (b->status != PZ_OK) return PZ_NONE;
  int64_t rows = tensor(b, l->x)->elems / in;
  bool x_split = tensor(b, l->x)->split, divided = l->divide != PZ_DIVIDE_NOT || x_split;
  y = add_tensor(b, l->name, PZ_ROLE_ACTIVATION, PZ_B16, PZ_SHAPE(rows, out));
  if (y == PZ_NONE) return y;
  tensor(b, y)->split = linear_splits(b, l, x_split);
  /* an undivided product inside a region: its gradient is one of partial sums */
  if (b->options->tp > 1 && !divided && !b->options->sequence_parallel && !l->outside &&
      !tensor(b, ins[1])->frozen)
    b->group_grad_params += tensor(b, ins[1])->elems + (bias_now ? tensor(b, ins[2])->elems : 0);
  struct pz_op op = {.name = l->name,
                     .kind = PZ_OP_MATMUL,
                     .op_class = PZ_CLASS_TENSOR,
                     .in = ins,
                     .n_in = bias_now ? 3 : 2,
                     .out = &y,
                     .n_out = 1,
                     .dims = linear_dims(pz_local_experts(b, l->experts), rows, in, out),
                     .grouped = l->experts > 0 && !(b->adapting.now && shares_experts(b)),
                     .replicated = b->options->tp > 1 && !divided};
  return linear_op(b, l, &op, rows);
}

uint32_t pz_build_contract(struct pz_builder *b, const struct pz_contract *c) {
  if (b->status != PZ_OK || c->a == PZ_NONE || c->c == PZ_NONE) return PZ_NONE;
  bool split = tensor(b, c->a)->split;
  uint32_t ins[3] = {c->a, c->c, c->bias};
  uint32_t y = add_tensor(b, c->name, PZ_ROLE_ACTIVATION, PZ_B16, c->shape);
  if (y == PZ_NONE) return y;
  tensor(b, y)->split = split;
  struct pz_op op = {.name = c->name,
                     .kind = PZ_OP_MATMUL,
                     .op_class = PZ_CLASS_TENSOR,
                     .in = ins,
                     .n_in = c->bias == PZ_NONE ? 2 : 3,
                     .out = &y,
                     .n_out = 1,
                     .dims = c->dims,
                     .replicated = b->options->tp > 1 && !split};
  int64_t rows = c->dims.batch;
  bool ok = pz_mul(&rows, c->dims.m) && product_flop(&op, rows);
  if (ok && c->bias != PZ_NONE) ok = pz_add(&op.flop, tensor(b, y)->elems);
  if (!ok) failed(b, PZ_LIMIT);
  add_op(b, &op);
  return b->status == PZ_OK ? y : PZ_NONE;
}

/* Both products, 2 batch m n (k + value_dim), and the softmax.  dims.k of the operator is the mean of
 * the two widths. */
static bool flash_work(const struct pz_flash *f, struct pz_op *op) {
  int64_t scores = f->dims.batch;
  bool ok = pz_mul(&scores, f->dims.m) && pz_mul(&scores, f->dims.n);
  int64_t softmax = scores;
  op->matmul_flop = scores;
  ok = ok && pz_mul(&op->matmul_flop, 2) && pz_mul(&op->matmul_flop, f->dims.k + f->value_dim) &&
       pz_mul(&softmax, pz_op_info(PZ_OP_SOFTMAX)->flop[PZ_FORWARD]);
  op->dims.k = (f->dims.k + f->value_dim + 1) / 2;
  op->flop = op->matmul_flop;
  return ok && pz_add(&op->flop, softmax);
}

uint32_t pz_build_flash(struct pz_builder *b, const struct pz_flash *f) {
  if (b->status != PZ_OK || f->in[0] == PZ_NONE) return PZ_NONE;
  bool split = tensor(b, f->in[0])->split;
  uint32_t out[2];
  out[0] = add_tensor(b, f->name, PZ_ROLE_ACTIVATION, PZ_B16, f->shape);
  out[1] =
      add_tensor(b, "log_sum_exp", PZ_ROLE_ACTIVATION, PZ_B32, PZ_SHAPE(f->dims.batch, f->dims.m));
  if (b->status != PZ_OK) return PZ_NONE;
  tensor(b, out[0])->split = tensor(b, out[1])->split = split;
  struct pz_op op = {.name = f->name,
                     .kind = PZ_OP_ATTENTION,
                     .op_class = PZ_CLASS_FUSED,
                     .in = f->in,
                     .n_in = f->in[3] == PZ_NONE ? 3 : 4,
                     .out = out,
                     .n_out = 2,
                     .dims = f->dims,
                     .span = f->span};
  if (!flash_work(f, &op)) failed(b, PZ_LIMIT);
  add_op(b, &op);
  return b->status == PZ_OK ? out[0] : PZ_NONE;
}

/* FLOP of a token: those of each head or group, times `times`. */
static bool scan_part(const struct pz_scan *s, struct pz_op *op, int64_t times, int64_t width) {
  return pz_mul(&times, s->dims.m) && pz_mul(&times, width) && pz_add(&op->matmul_flop, times);
}

/* Tokens of a chunk attend to those before them, (span + 1) / 2 on average.  Mamba-2 (Dao and Gu, arXiv 2405.21060,
 * section 6): scores of C and B for a group, these times x, the chunk's state, what the state before it gives.  Delta
 * rule (Yang et al., arXiv 2406.06484, section 3): scores of keys, their triangular inverse, which makes new keys and
 * values, what the state gives for keys and queries, its update, scores of queries and what they give. */
static bool scan_work(const struct pz_scan *s, struct pz_op *op) {
  int64_t n = s->dims.n, k = s->dims.k, before = s->span + 1;
  bool delta = s->kind == PZ_OP_DELTA_RULE;
  int64_t head =
      delta ? 6 * n * k + before * (3 * k + 2 * n) + s->span * s->span / 3 : 4 * n * k + before * k;
  bool ok =
      scan_part(s, op, s->dims.batch, head) && (delta || scan_part(s, op, s->groups, before * n));
  op->flop = op->matmul_flop;
  return ok;
}

uint32_t pz_build_scan(struct pz_builder *b, const struct pz_scan *s) {
  if (b->status != PZ_OK || s->in[0] == PZ_NONE) return PZ_NONE;
  bool split = tensor(b, s->in[0])->split;
  uint32_t out[2] = {add_tensor(b, s->name, PZ_ROLE_ACTIVATION, PZ_B16, s->shape),
                     add_tensor(b, "saved", PZ_ROLE_ACTIVATION, PZ_B16, s->saved)};
  if (b->status != PZ_OK) return PZ_NONE;
  tensor(b, out[0])->split = tensor(b, out[1])->split = split;
  struct pz_op op = {.name = s->name,
                     .kind = s->kind,
                     .op_class = PZ_CLASS_FUSED,
                     .in = s->in,
                     .out = out,
                     .n_out = 2,
                     .dims = s->dims,
                     .span = s->span};
  while (op.n_in < PZ_OP_MOST_INPUTS && s->in[op.n_in] != PZ_NONE) op.n_in++;
  if (!scan_work(s, &op)) failed(b, PZ_LIMIT);
  add_op(b, &op);
  return b->status == PZ_OK ? out[0] : PZ_NONE;
}

/* A collective, or its marker, with a result of this shape, divided or not. */
static uint32_t collective(struct pz_builder *b, int kind, const char *name, uint32_t x,
                           struct pz_shape shape, bool split) {
  if (b->status != PZ_OK || x == PZ_NONE) return PZ_NONE;
  char full[PZ_BUILD_NAME];
  bool gathers = kind == PZ_OP_ALL_GATHER || kind == PZ_OP_GATHER_COLUMNS;
  const char *part = gathers                    ? "gather"
                     : kind == PZ_OP_TP_ENTER   ? "enter"
                     : kind == PZ_OP_ALL_TO_ALL ? "all_to_all"
                                                : "sum";
  uint32_t y = pz_build_shaped(b, kind, pz_build_name(full, name, part), x, PZ_NONE, shape);
  if (y == PZ_NONE) return y;
  tensor(b, y)->split = split;
  if (kind == PZ_OP_TP_ENTER) tensor(b, y)->storage = tensor(b, x)->storage;
  return y;
}

static int64_t width_of(const struct pz_builder *b, uint32_t x) {
  const struct pz_tensor *t = tensor(b, x);
  return t->n_dims ? t->shape[t->n_dims - 1] : 1;
}

static int64_t rows_of(const struct pz_builder *b, uint32_t x) {
  return tensor(b, x)->elems / width_of(b, x);
}

/* ---- adapters ------------------------------------------------------------------------------- */

/* The module that a linear layer is, by its name; 0: it has no adapter. */
static int lora_module(const char *name) {
  static const struct {
    const char *name;
    int module;
  } known[] = {{"query", PZ_LORA_QUERY},       {"key", PZ_LORA_KEY},
               {"value", PZ_LORA_VALUE},       {"qkv", PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE},
               {"attention_out", PZ_LORA_OUT}, {"mlp_gate", PZ_LORA_GATE},
               {"mlp_up", PZ_LORA_UP},         {"mlp_gate_up", PZ_LORA_GATE | PZ_LORA_UP},
               {"mlp_down", PZ_LORA_DOWN},     {"shared_gate", PZ_LORA_GATE},
               {"shared_up", PZ_LORA_UP},      {"shared_gate_up", PZ_LORA_GATE | PZ_LORA_UP},
               {"shared_down", PZ_LORA_DOWN},  {"query_down", PZ_LORA_QUERY_DOWN},
               {"query_up", PZ_LORA_QUERY_UP}, {"kv_down", PZ_LORA_KV_DOWN},
               {"kv_up", PZ_LORA_KV_UP},       {"mamba_in", PZ_LORA_SSM_IN},
               {"delta_in", PZ_LORA_SSM_IN},   {"mamba_out", PZ_LORA_SSM_OUT},
               {"delta_out", PZ_LORA_SSM_OUT}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].module;
  return 0;
}

/* Layers of the group that Megatron has as one. */
static int lora_group(int module) {
  static const int groups[] = {PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE,
                               PZ_LORA_GATE | PZ_LORA_UP};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (module & groups[i]) return groups[i];
  return module;
}

/* x times the first matrix, whole on every device of the group: as in Megatron Bridge's ParallelLinearAdapter
 * (src/megatron/bridge/peft/utils.py) the rank is divided where the layer's columns are and the parts are gathered, or
 * inputs are divided as the layer's and partial sums are added up. */
static uint32_t adapter_first(struct pz_builder *b, const struct pz_linear *l, const char *name,
                              int group) {
  struct pz_adapting *a = &b->adapting;
  if (b->options->lora.modules & PZ_LORA_SHARED && a->x == l->x && a->group == group)
    return a->first;
  uint32_t x = l->x;
  if (b->options->lora.dropout > 0) {
    char dropout[PZ_BUILD_NAME];
    x = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_DROPOUT,
                                         .name = pz_build_name(dropout, l->name, "adapter_dropout"),
                                         .in = {x, PZ_NONE},
                                         .aux_shape = PZ_SHAPE(tensor(b, x)->elems),
                                         .aux_bytes = PZ_BYTE});
  }
  struct pz_linear first = {.name = name,
                            .x = x,
                            .in = l->in,
                            .out = b->options->lora.rank,
                            .divide = l->experts && l->divide == PZ_DIVIDE_COLUMNS ? PZ_DIVIDE_NOT
                                                                                   : l->divide,
                            .outside = l->outside,
                            .experts = adapters_of(b, l->experts)};
  uint32_t z = plain_linear(b, &first);
  if (z == PZ_NONE) return z;
  if (b->options->tp > 1 && !l->experts && l->divide != PZ_DIVIDE_NOT) {
    bool rows = l->divide == PZ_DIVIDE_ROWS;
    z = collective(b, rows ? PZ_OP_ALL_REDUCE : PZ_OP_GATHER_COLUMNS, name, z,
                   PZ_SHAPE(tensor(b, z)->shape[0], b->options->lora.rank), false);
    z = collective(b, PZ_OP_TP_ENTER, name, z, (struct pz_shape){0}, false);
  }
  a->x = l->x;
  a->first = z;
  a->group = group;
  return z;
}

/* The result of a layer whose inputs are divided, of which each device has columns: an all-to-all makes them rows where
 * those are divided (a2a_experimental there), else they are gathered.  It is added behind the layer's sum. */
static uint32_t adapter_leave(struct pz_builder *b, const struct pz_linear *l, const char *name,
                              uint32_t y) {
  if (b->status != PZ_OK || y == PZ_NONE) return PZ_NONE;
  bool sp = b->options->sequence_parallel;
  int64_t rows = tensor(b, y)->shape[0] / (sp ? b->options->tp : 1);
  return collective(b, sp ? PZ_OP_ALL_TO_ALL : PZ_OP_GATHER_COLUMNS, name, y,
                    PZ_SHAPE(rows, l->out), sp);
}

/* y + scale (x A) B */
static uint32_t adapt(struct pz_builder *b, const struct pz_linear *l, int module, uint32_t y) {
  char first[PZ_BUILD_NAME], second[PZ_BUILD_NAME], scale[PZ_BUILD_NAME], sum[PZ_BUILD_NAME];
  pz_build_name(first, l->name, "adapter_in");
  pz_build_name(second, l->name, "adapter_out");
  pz_build_name(scale, l->name, "adapter_scale");
  pz_build_name(sum, l->name, "adapter_add");
  bool later = b->options->tp > 1 && l->divide == PZ_DIVIDE_ROWS && !l->experts;
  b->adapting.now = true;
  struct pz_linear out = {.name = second,
                          .x = adapter_first(b, l, first, lora_group(module)),
                          .in = b->options->lora.rank,
                          .out = l->out,
                          .divide = later                            ? PZ_DIVIDE_COLUMNS
                                    : l->divide == PZ_DIVIDE_COLUMNS ? PZ_DIVIDE_COLUMNS
                                                                     : PZ_DIVIDE_NOT,
                          .outside = l->outside,
                          .experts = adapters_of(b, l->experts)};
  uint32_t z = plain_linear(b, &out);
  b->adapting.now = false;
  if (later) z = adapter_leave(b, l, second, z);
  z = pz_build_step(b, PZ_OP_SCALE, scale, z, PZ_NONE);
  if (!later) return pz_build_step(b, PZ_OP_ADD, sum, y, z);
  b->adapting.pending = z;
  return y;
}

uint32_t pz_build_linear(struct pz_builder *b, const struct pz_linear *l) {
  uint32_t y = plain_linear(b, l);
  int module = b->options->lora.rank > 0 ? lora_module(l->name) : 0;
  b->adapting.found |= module;
  return y != PZ_NONE && (module & b->options->lora.modules) ? adapt(b, l, module, y) : y;
}

uint32_t pz_build_enter(struct pz_builder *b, const char *name, uint32_t x) {
  if (b->status != PZ_OK || x == PZ_NONE || b->options->tp == 1) return x;
  bool sp = b->options->sequence_parallel;
  struct pz_shape shape = PZ_SHAPE(rows_of(b, x) * (sp ? b->options->tp : 1), width_of(b, x));
  return collective(b, sp ? PZ_OP_ALL_GATHER : PZ_OP_TP_ENTER, name, x, shape, false);
}

uint32_t pz_build_all_reduce(struct pz_builder *b, const char *name, uint32_t x) {
  return collective(b, PZ_OP_ALL_REDUCE, name, x, (struct pz_shape){0}, false);
}

uint32_t pz_build_leave(struct pz_builder *b, const char *name, uint32_t x, int64_t bias) {
  if (b->status != PZ_OK || x == PZ_NONE || b->options->tp == 1) return x;
  bool sp = b->options->sequence_parallel;
  struct pz_shape shape = PZ_SHAPE(rows_of(b, x) / (sp ? b->options->tp : 1), width_of(b, x));
  x = collective(b, sp ? PZ_OP_REDUCE_SCATTER : PZ_OP_ALL_REDUCE, name, x, shape, sp);
  if (b->adapting.pending != PZ_NONE) {
    char sum[PZ_BUILD_NAME];
    x = pz_build_step(b, PZ_OP_ADD, pz_build_name(sum, name, "adapter_add"), x,
                      b->adapting.pending);
    b->adapting.pending = PZ_NONE;
  }
  if (!bias || x == PZ_NONE) return x;
  char full[PZ_BUILD_NAME];
  uint32_t w = pz_build_param(b, pz_build_name(full, name, "bias"), PZ_SHAPE(bias), bias, false);
  return pz_build_step(b, PZ_OP_BIAS, pz_build_name(full, name, "add_bias"), x, w);
}

uint32_t pz_build_on_grid(struct pz_builder *b, int kind, const char *name, uint32_t x,
                          int64_t rows) {
  enum pz_peers peers = kind == PZ_OP_ALL_TO_ALL ? PZ_PEERS_EXPERT : PZ_PEERS_EXPERT_TENSOR;
  if (b->status != PZ_OK || x == PZ_NONE || pz_peers_number(b->options, peers) == 1) return x;
  const struct pz_tensor *t = tensor(b, x);
  return pz_build_op(b, &(struct pz_emit){.kind = kind,
                                          .name = name,
                                          .in = {x, PZ_NONE},
                                          .shape = PZ_SHAPE(rows, t->shape[1]),
                                          .peers = peers});
}

uint32_t pz_build_linear_outside(struct pz_builder *b, const struct pz_linear *l) {
  struct pz_linear local = *l;
  bool columns = b->options->tp > 1 && !b->options->sequence_parallel;
  local.divide = columns ? PZ_DIVIDE_COLUMNS : PZ_DIVIDE_NOT;
  if (columns) local.x = pz_build_enter(b, l->name, l->x);
  uint32_t y = pz_build_linear(b, &local);
  if (!columns || y == PZ_NONE) return y;
  return collective(b, PZ_OP_GATHER_COLUMNS, l->name, y, PZ_SHAPE(rows_of(b, y), l->out), false);
}
