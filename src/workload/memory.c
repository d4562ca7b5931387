#include "workload/passes.h"

#include <string.h>

#include "core/num.h"

/* Work space of the matrix library, eager mode: PyTorch gives cuBLAS and cuBLASLt 32 MiB each on
 * Hopper (defaults of CUBLAS_WORKSPACE_CONFIG and CUBLASLT_WORKSPACE_SIZE for compute
 * capability 9.0). */
static const int64_t LIBRARY_WORKSPACE_BYTES = INT64_C(2) * (32 << 20);

/* Per parameter: 16-bit weight; and gradient, which stays allocated between steps. */
static const int64_t WEIGHT_BYTES = 2, GRAD_BYTES = 2;

struct live {
  struct pz_graph *g;
  enum pz_direction dir;
  bool keep; /* what backward reads is kept */
  bool eager;
  enum pz_gradients gradients;
  uint32_t *last;    /* by storage: last operator of this direction that touches it, or PZ_NONE */
  const bool *saved; /* by storage */
  bool *held;        /* by storage: allocated now */
  bool *leaves;      /* by storage: goes to the next layer */
  int64_t now, peak;
};

static const struct pz_tensor *storage_of(const struct pz_graph *g, uint32_t t) {
  return pz_graph_tensor(g, pz_graph_tensor(g, t)->storage);
}

/* Parameters and shared data have their own accounts. */
static bool counted(const struct pz_tensor *s) {
  return s->role == PZ_ROLE_ACTIVATION || s->role == PZ_ROLE_GRAD;
}

/* Gradients that nothing consumes belong to parameters, except the one for the layer's input. */
static bool is_param_grad(const struct live *l, uint32_t t) {
  return pz_graph_tensor(l->g, t)->role == PZ_ROLE_GRAD && l->last[t] == PZ_NONE &&
         t != l->g->input_grad;
}

static void hold(struct live *l, uint32_t t) {
  uint32_t s = pz_graph_tensor(l->g, t)->storage;
  if (l->held[s] || !counted(pz_graph_tensor(l->g, s))) return;
  if (is_param_grad(l, t) && l->gradients == PZ_GRADIENTS_IN_PLACE) return;
  l->held[s] = true;
  l->now += pz_tensor_held_bytes(pz_graph_tensor(l->g, s));
}

static void drop(struct live *l, uint32_t s) {
  if (!l->held[s]) return;
  l->held[s] = false;
  l->now -= pz_tensor_held_bytes(pz_graph_tensor(l->g, s));
}

static bool stays(const struct live *l, uint32_t t) {
  return is_param_grad(l, t) &&
         (l->gradients == PZ_GRADIENTS_KEPT || pz_graph_tensor(l->g, t)->tied);
}

/* After operator i: free what it touched last.  Kept are: forward, what backward reads and the
 * result; backward, the gradient of the input, and of a tied weight until its owner adds its own.
 */
static void release_after(struct live *l, const struct pz_op *op, uint32_t i) {
  uint32_t out_s = pz_graph_tensor(l->g, l->g->output)->storage;
  for (uint32_t k = 0; k < op->n_in + op->n_out; k++) {
    uint32_t t = k < op->n_in ? op->in[k] : op->out[k - op->n_in];
    const struct pz_tensor *x = pz_graph_tensor(l->g, t);
    uint32_t s = x->storage;
    if (l->dir == PZ_FORWARD && (s == out_s || l->leaves[s] || (l->keep && l->saved[s]))) continue;
    if (l->dir == PZ_BACKWARD && (t == l->g->input_grad || stays(l, t))) continue;
    if (l->last[s] == PZ_NONE || l->last[s] <= i) drop(l, s);
  }
}

/* The derivative of the loss by one kernel takes the place of the logits (Megatron's and Transformer
 * Engine's kernels, and what torch.compile makes). */
static void make_place(struct live *l, const struct pz_op *op) {
  if (op->kind != PZ_OP_CROSS_ENTROPY || op->direction != PZ_BACKWARD) return;
  int64_t bytes = pz_tensor_bytes(pz_graph_tensor(l->g, op->out[0]));
  for (uint32_t k = 0; k < op->n_in; k++) {
    uint32_t s = pz_graph_tensor(l->g, op->in[k])->storage;
    if (pz_tensor_bytes(pz_graph_tensor(l->g, s)) == bytes) drop(l, s);
  }
}

/* Bytes of an operator beside its tensors.  A compiled embedding adds its gradient up in 32 bit and
 * converts the table (seen in the allocations of torch.compile, PyTorch 2.11). */
static int64_t scratch_of(const struct live *l, const struct pz_op *op) {
  bool table = op->kind == PZ_OP_EMBEDDING && op->direction == PZ_BACKWARD && !l->eager &&
               l->gradients == PZ_GRADIENTS_KEPT;
  return op->scratch_bytes + (table ? 4 * pz_graph_tensor(l->g, op->out[0])->elems : 0);
}

static void run(struct live *l) {
  const struct pz_vec *ops = &l->g->ops[l->dir];
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = pz_graph_op(l->g, l->dir, i);
    make_place(l, op);
    for (uint32_t o = 0; o < op->n_out; o++) hold(l, op->out[o]);
    if (l->now + scratch_of(l, op) > l->peak) l->peak = l->now + scratch_of(l, op);
    release_after(l, op, i);
  }
}

static void find_last(const struct pz_graph *g, enum pz_direction dir, uint32_t *last) {
  for (uint32_t t = 0; t < g->tensors.n; t++) last[t] = PZ_NONE;
  for (uint32_t i = 0; i < g->ops[dir].n; i++) {
    const struct pz_op *op = pz_graph_op(g, dir, i);
    for (uint32_t k = 0; k < op->n_in; k++) last[pz_graph_tensor(g, op->in[k])->storage] = i;
  }
}

static enum pz_status simulate(struct live l, struct pz_live *out) {
  struct pz_graph *g = l.g;
  enum pz_direction dir = l.dir;
  uint32_t n = g->tensors.n;
  l.last = pz_arena_alloc(g->arena, n, sizeof *l.last);
  l.held = pz_arena_alloc(g->arena, n, sizeof *l.held);
  l.leaves = pz_arena_alloc(g->arena, n, sizeof *l.leaves);
  if (!l.last || !l.held || !l.leaves) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < g->n_also_out; i++)
    l.leaves[pz_graph_tensor(g, g->also_out[i])->storage] = true;
  find_last(g, dir, l.last);
  if (dir == PZ_FORWARD) {
    if (g->input != PZ_NONE) l.held[g->input] = true;
    for (uint32_t i = 0; i < g->n_also_in; i++) l.held[g->also_in[i]] = true;
  } else {
    memcpy(l.held, l.saved, n * sizeof *l.saved);
    l.held[pz_graph_tensor(g, g->output_grad)->storage] = true;
  }
  run(&l);
  *out = (struct pz_live){.peak_bytes = l.peak, .net_bytes = l.now};
  return PZ_OK;
}

/* Is s, by storage, what combine adds up?  On GPUs the weights of a token's experts multiply inside the experts, behind
 * the activation (Megatron Core, transformer/moe/experts.py: permuted_probs), so that its derivative reads no result of
 * them. */
static bool is_combined(const struct pz_graph *g, const struct pz_op *backward, uint32_t s) {
  if (backward->kind != PZ_OP_COMBINE) return false;
  for (uint32_t i = 0; i < g->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(g, PZ_FORWARD, i);
    if (op->kind == PZ_OP_COMBINE && pz_graph_tensor(g, op->in[0])->storage == s) return true;
  }
  return false;
}

/* Storages that backward reads of what forward made, in order. */
static enum pz_status collect_saved(struct pz_graph *g, enum pz_kernels kernels,
                                    struct pz_layer *layer, bool *saved) {
  struct pz_vec list;
  pz_vec_init(&list, g->arena, sizeof(uint32_t));
  bool *shared = pz_arena_alloc(g->arena, g->tensors.n, sizeof *shared);
  if (!shared) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < g->ops[PZ_BACKWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(g, PZ_BACKWARD, i);
    for (uint32_t k = 0; k < op->n_in; k++) {
      uint32_t s = pz_graph_tensor(g, op->in[k])->storage;
      const struct pz_tensor *t = storage_of(g, op->in[k]);
      /* what is carried along is kept once, however many layers read it */
      bool common = t->role == PZ_ROLE_DATA || pz_graph_carries(g, s);
      if (common && !shared[s]) {
        shared[s] = true;
        layer->shared_bytes += pz_tensor_bytes(t);
      }
      if (t->role != PZ_ROLE_ACTIVATION || common || saved[s]) continue;
      if (kernels != PZ_KERNELS_FUSED && is_combined(g, op, s)) continue;
      saved[s] = true;
      layer->activation_bytes += pz_tensor_bytes(t);
      if (!pz_vec_push(&list, &s)) return PZ_NO_MEMORY;
    }
  }
  layer->saved = list.items;
  layer->n_saved = list.n;
  return PZ_OK;
}

/* ---- saved in fewer bits -------------------------------------------------------------------- */

/* The operator whose result a tensor is; NULL: it enters the layer. */
static const struct pz_op *maker_of(const struct pz_graph *g, uint32_t t) {
  for (uint32_t i = 0; i < g->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(g, PZ_FORWARD, i);
    for (uint32_t o = 0; o < op->n_out; o++)
      if (op->out[o] == t) return op;
  }
  return NULL;
}

static bool has_weight(const struct pz_graph *g, const struct pz_op *op) {
  for (uint32_t k = 0; k < op->n_in; k++)
    if (storage_of(g, op->in[k])->role == PZ_ROLE_PARAM) return !storage_of(g, op->in[k])->frozen;
  return false;
}

/* Inputs of GEMMs with weights that are trained, but for the router and adapters, which stay in 16 bit.  Of what is gathered for a GEMM the part of
 * this device is saved. */
static void note_inputs(const struct pz_graph *g, uint8_t *use) {
  for (uint32_t i = 0; i < g->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(g, PZ_FORWARD, i);
    bool gemm = op->kind == PZ_OP_MATMUL && has_weight(g, op) && !pz_op_adapts(op) &&
                strncmp(op->name, "router", 6) != 0;
    for (uint32_t k = 0; k < op->n_in && (gemm || op->kind == PZ_OP_SWIGLU); k++) {
      const struct pz_op *from = gemm ? maker_of(g, op->in[k]) : NULL;
      bool gathered = from && from->op_class == PZ_CLASS_COLLECTIVE;
      use[pz_graph_tensor(g, gathered ? from->in[0] : op->in[k])->storage] |=
          gemm ? PZ_SAVED_BY_GEMM : PZ_SAVED_BY_GATE;
    }
  }
}

static void note_readers(const struct pz_graph *g, uint8_t *use) {
  for (uint32_t i = 0; i < g->ops[PZ_BACKWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(g, PZ_BACKWARD, i);
    bool other = op->kind != PZ_OP_MATMUL && op->kind != PZ_OP_SWIGLU &&
                 op->op_class != PZ_CLASS_COLLECTIVE && op->op_class != PZ_CLASS_NONE;
    for (uint32_t k = 0; k < op->n_in && other; k++)
      use[pz_graph_tensor(g, op->in[k])->storage] |= PZ_SAVED_BY_OTHER;
  }
}

int64_t pz_saved_less(const struct pz_tensor *t, unsigned use, enum pz_saved_form form) {
  bool gemm = use & PZ_SAVED_BY_GEMM, other = use & PZ_SAVED_BY_OTHER;
  if (form == PZ_SAVED_16BIT || t->elem_bytes != 2) return 0;
  if (form != PZ_SAVED_8BIT) { /* a copy of its own where others read 16 bit */
    bool four = form == PZ_SAVED_GEMM_4BIT || form == PZ_SAVED_GEMM_4BIT_GATE;
    bool gate = form == PZ_SAVED_GEMM_8BIT_GATE || form == PZ_SAVED_GEMM_4BIT_GATE;
    int64_t copy = four ? t->elems * 9 / 16 : t->elems;
    if (gemm) return (other ? 0 : 2 * t->elems) - copy;
    return gate && use & PZ_SAVED_BY_GATE && !other ? t->elems : 0;
  }
  return gemm && other ? t->elems / 2 : use & (PZ_SAVED_BY_GEMM | PZ_SAVED_BY_GATE) ? t->elems : 0;
}

static enum pz_status find_uses(struct pz_graph *g, struct pz_layer *layer) {
  uint8_t *use = pz_arena_alloc(g->arena, g->tensors.n, sizeof *use);
  uint8_t *by = pz_arena_alloc(g->arena, layer->n_saved + 1, sizeof *by);
  if (!use || !by) return PZ_NO_MEMORY;
  note_inputs(g, use);
  note_readers(g, use);
  for (uint32_t i = 0; i < layer->n_saved; i++) {
    by[i] = use[layer->saved[i]];
    for (int f = 0; f < PZ_SAVED_FORMS; f++)
      layer->less_bytes[f] +=
          pz_saved_less(pz_graph_tensor(g, layer->saved[i]), by[i], (enum pz_saved_form)f);
  }
  layer->saved_by = by;
  for (uint32_t i = 0; i < g->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(g, PZ_FORWARD, i);
    if (op->kind == PZ_OP_CROSS_ENTROPY || op->kind == PZ_OP_LOG_SOFTMAX)
      layer->logits += pz_graph_tensor(g, op->in[0])->elems;
    if (op->kind == PZ_OP_ATTENTION)
      layer->context_bytes += pz_tensor_bytes(pz_graph_tensor(g, op->out[0]));
  }
  return PZ_OK;
}

enum pz_status pz_memory_layer(struct pz_graph *g, const struct pz_workload_options *options,
                               struct pz_layer *layer) {
  bool *saved = pz_arena_alloc(g->arena, g->tensors.n, sizeof *saved);
  if (!saved) return PZ_NO_MEMORY;
  enum pz_status status = collect_saved(g, options->kernels, layer, saved);
  if (status == PZ_OK) status = find_uses(g, layer);
  layer->output_bytes = pz_tensor_bytes(pz_graph_tensor(g, g->output)) + g->passing_bytes;
  for (uint32_t i = 0; i < g->n_also_out; i++)
    layer->output_bytes += pz_tensor_bytes(pz_graph_tensor(g, g->also_out[i]));
  struct live l = {.g = g, .saved = saved, .eager = pz_kernels_eager(options->kernels)};
  if (status == PZ_OK) status = simulate(l, &layer->live_plain);
  l.keep = true;
  if (status == PZ_OK) status = simulate(l, &layer->live[PZ_FORWARD]);
  l.dir = PZ_BACKWARD;
  for (int i = 0; i < PZ_GRADIENTS && status == PZ_OK; i++) {
    l.gradients = (enum pz_gradients)i;
    status = simulate(l, &layer->live_backward[i]);
  }
  layer->live[PZ_BACKWARD] =
      layer->live_backward[l.eager ? PZ_GRADIENTS_PASSING : PZ_GRADIENTS_IN_PLACE];
  return status;
}

/* A row of equal layers: the highest point is in the first or the last of them. */
static bool pass(int64_t *now, int64_t *peak, struct pz_live live, int64_t count) {
  int64_t rest = live.net_bytes, all = live.net_bytes, start = *now;
  if (!pz_mul(&rest, count - 1) || !pz_mul(&all, count)) return false;
  if (rest > 0 && !pz_add(&start, rest)) return false;
  if (!pz_add(&start, live.peak_bytes) || !pz_add(now, all)) return false;
  if (start > *peak) *peak = start;
  return true;
}

static bool recomputed(const struct pz_workload *w, const struct pz_layer *l) {
  return w->options.recompute == PZ_RECOMPUTE_FULL && l->input != PZ_NONE &&
         l != &w->layers[w->n_layers - 1];
}

/* Recomputation keeps a layer's input, whatever the layer would have freed. */
static struct pz_live keep_input(const struct pz_layer *l) {
  return (struct pz_live){.peak_bytes = l->live_plain.peak_bytes, .net_bytes = l->output_bytes};
}

/* Then it makes the forward again and goes backward. */
static struct pz_live again_and_back(const struct pz_layer *l) {
  const struct pz_live *f = &l->live[PZ_FORWARD], *b = &l->live[PZ_BACKWARD];
  int64_t back = f->net_bytes + b->peak_bytes;
  return (struct pz_live){.peak_bytes = f->peak_bytes > back ? f->peak_bytes : back,
                          .net_bytes = f->net_bytes + b->net_bytes};
}

/* What stays allocated: weights, gradients, constants. */
static bool add_fixed(int64_t *bytes, const struct pz_layer *l) {
  int64_t each = l->params, gradients = l->trained_params;
  return pz_mul(&each, WEIGHT_BYTES) && pz_mul(&gradients, GRAD_BYTES) &&
         pz_add(&each, gradients) && pz_add(&each, l->buffer_bytes) && pz_mul(&each, l->count) &&
         pz_add(bytes, each) && pz_add(bytes, l->shared_bytes);
}

/* One direction of a model, layer by layer as they run. */
struct walk {
  const struct pz_workload *w;
  int64_t now, peak;
};

static bool walk_layer(struct walk *k, uint32_t i, enum pz_direction d, int64_t count) {
  const struct pz_layer *l = &k->w->layers[i];
  struct pz_live live = l->live[d];
  if (recomputed(k->w, l)) live = d == PZ_FORWARD ? keep_input(l) : again_and_back(l);
  return pass(&k->now, &k->peak, live, count);
}

static bool walk_segment(struct walk *k, const struct pz_segment *s, enum pz_direction d) {
  if (s->n_unit == 1) return walk_layer(k, s->unit[0], d, s->repeats);
  for (int64_t r = 0; r < s->repeats; r++)
    for (uint32_t i = 0; i < s->n_unit; i++)
      if (!walk_layer(k, s->unit[d == PZ_FORWARD ? i : s->n_unit - 1 - i], d, 1)) return false;
  return true;
}

enum pz_status pz_memory_peak(const struct pz_workload *w, int64_t *bytes) {
  int64_t fixed = pz_kernels_eager(w->options.kernels) ? LIBRARY_WORKSPACE_BYTES : 0;
  struct walk k = {.w = w};
  bool ok = true;
  for (uint32_t i = 0; i < w->n_layers; i++) ok = ok && add_fixed(&fixed, &w->layers[i]);
  for (uint32_t i = 0; i < w->n_order; i++) ok = ok && walk_segment(&k, &w->order[i], PZ_FORWARD);
  for (uint32_t i = w->n_order; i-- > 0;) ok = ok && walk_segment(&k, &w->order[i], PZ_BACKWARD);
  if (!ok || !pz_add(&fixed, k.peak)) return PZ_LIMIT;
  *bytes = fixed;
  return PZ_OK;
}
