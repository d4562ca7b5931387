#include "step/training_memory.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"
#include "plan/pipeline_order.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- repeated layers ------------------------------------------------------------------------ */

/* Of the table of counts. */
static const int64_t MOST_ENTRIES = 1 << 22;

/* Layers that predict further tokens belong to the head. */
bool pz_is_block(const struct pz_layer *l) {
  return strncmp(l->name, "block", 5) == 0 || (l->count > 1 && strncmp(l->name, "predict", 7) != 0);
}

static void list_kinds(const struct pz_workload *w, struct pz_layer_kinds *k) {
  for (uint32_t i = 0; i < w->n_layers; i++)
    if (pz_is_block(&w->layers[i])) {
      k->layer[k->n++] = i;
      k->n_blocks += w->layers[i].count;
    }
  if (k->n) return;
  k->layer[k->n++] = 0;
  k->n_blocks = w->layers[0].count;
}

static uint32_t kind_of_layer(const struct pz_layer_kinds *k, uint32_t layer) {
  uint32_t i = 0;
  while (i < k->n && k->layer[i] != layer) i++;
  return i;
}

/* Layers one after another: each kind's count so far. */
static void count_kinds(const struct pz_workload *w, struct pz_layer_kinds *k) {
  int64_t at = 0, row = k->n_blocks + 1;
  for (uint32_t s = 0; s < w->n_order; s++)
    for (int64_t r = 0; r < w->order[s].repeats; r++)
      for (uint32_t u = 0; u < w->order[s].n_unit; u++) {
        uint32_t kind = kind_of_layer(k, w->order[s].unit[u]);
        if (kind == k->n || at == k->n_blocks) continue;
        for (uint32_t i = 0; i < k->n; i++)
          k->before[i * row + at + 1] = k->before[i * row + at] + (i == kind);
        at++;
      }
}

struct pz_layer_kinds pz_layer_kinds_of(struct pz_call *call, const struct pz_workload *w) {
  struct pz_layer_kinds k = {.layer = pz_alloc(call, w->n_layers, sizeof *k.layer)};
  list_kinds(w, &k);
  if (k.n == 1) return k;
  if (k.n_blocks >= MOST_ENTRIES / k.n)
    pz_raise(call, PZ_LIMIT, "%s has too many kinds of repeated layers for a training plan",
             w->model);
  k.before = pz_alloc(call, (size_t)k.n * ((size_t)k.n_blocks + 1), sizeof *k.before);
  count_kinds(w, &k);
  return k;
}

/* ---- a model ------------------------------------------------------------------------------- */

/* Bytes of a gradient in the optimizer's precision, and of a weight or a gradient in that of the layers. */
static const double MOST_GRADIENT_BYTES = 4, HALF_BYTES = 2;

/* Bytes of a moment of Adam, and of an element of the logits in the loss. */
static const double MOST_MOMENT_BYTES = 4, LOSS_BYTES = 4;

double pz_training_memory_sum(const struct pz_training_memory *m) {
  return m->weight_bytes + m->gradient_bytes + m->optimizer_bytes + m->activation_bytes +
         m->work_bytes + m->logit_bytes + m->communication_bytes + m->reserve_bytes;
}

static bool is_square(const struct pz_tensor *t, int64_t n) {
  return t->n_dims >= 3 && t->shape[t->n_dims - 2] == n && t->shape[t->n_dims - 1] == n;
}

/* Scores are of every query with every key; a dropout mask of them is one long row of bytes. */
static double core_bytes(const struct pz_workload *w, const struct pz_layer *l) {
  double bytes = 0;
  int64_t scores = 0;
  for (uint32_t i = 0; i < l->n_tensors; i++) {
    const struct pz_tensor *t = &l->tensors[i];
    if (t->role == PZ_ROLE_ACTIVATION && is_square(t, w->options.seq)) scores = t->elems;
  }
  for (uint32_t i = 0; i < l->n_saved; i++) {
    const struct pz_tensor *t = &l->tensors[l->saved[i]];
    bool mask = t->n_dims == 1 && t->elem_bytes == 1;
    if ((mask || is_square(t, w->options.seq)) && t->elems == scores)
      bytes += (double)(t->elems * t->elem_bytes);
  }
  return bytes;
}

static double largest_matrix(const struct pz_layer *l) {
  int64_t n = 0;
  for (uint32_t i = 0; i < l->n_tensors; i++)
    if (l->tensors[i].role == PZ_ROLE_PARAM) n = pz_max(n, l->tensors[i].elems);
  return (double)n;
}

/* A 16-bit gradient for each shape of a layer's matrices. */
static double placeholder_bytes(const struct pz_layer *l) {
  double n = 0;
  for (uint32_t i = 0; i < l->n_tensors; i++)
    if (l->tensors[i].role == PZ_ROLE_PARAM && l->tensors[i].n_dims > 1 && !l->tensors[i].frozen)
      n += (double)l->tensors[i].elems;
  return HALF_BYTES * n;
}

/* Work space of a GEMM of Transformer Engine, on Hopper and later (compute capability 9.0) and before, and streams of
 * grouped GEMMs with one each (get_cublas_workspace_size_bytes, get_multi_stream_cublas_workspace in its
 * pytorch/module/base.py). */
static const double ENGINE_BYTES = 32 << 20, OLD_ENGINE_BYTES = 4 << 20;
static const double GROUPED_STREAMS = 4;

/* Megatron's activations have tokens first, FlashAttention's samples: with several of them the result of attention is
 * copied, and both are saved (flash_attn in Transformer Engine's pytorch/attention; not cuDNN's kernels, which Transformer
 * Engine takes on Hopper and later). */
static bool copies_context(const struct pz_workload *w, const struct pz_plan *p, bool hopper) {
  const char *library = p->attention_library;
  bool named = library && *library;
  return pz_plan_framework(p)->transformer_engine && w->options.mbs > 1 &&
         (named ? strcmp(library, "fa2") == 0 : !hopper);
}

/* Bytes of the copies of tokens that a layer sends to its experts. */
static double routed_bytes(const struct pz_layer *l) {
  double bytes = 0;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    if (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_GATHER_ROWS)
      bytes = pz_fmax(bytes, (double)op->bytes_written);
  }
  return bytes;
}

struct pz_memory_model pz_memory_model_of(const struct pz_workload *w,
                                          const struct pz_layer_kinds *kinds,
                                          const struct pz_chip *chip, const struct pz_plan *p) {
  struct pz_memory_model m = {.w = w, .kinds = kinds};
  bool hopper = chip->calibration.fp8_speedup > 1;
  for (uint32_t k = 0; k < kinds->n && k < PZ_MEMORY_KINDS; k++)
    m.core_bytes[k] = core_bytes(w, &w->layers[kinds->layer[k]]);
  for (uint32_t k = 0; k < kinds->n; k++)
    m.placeholder_bytes =
        pz_fmax(m.placeholder_bytes, placeholder_bytes(&w->layers[kinds->layer[k]]));
  for (uint32_t i = 0; i < w->n_layers; i++)
    m.experts = m.experts || w->layers[i].model_expert_params > 0;
  for (uint32_t i = 0; i < w->n_layers; i++) {
    m.layer_params = pz_fmax(m.layer_params, (double)w->layers[i].params);
    m.routed_bytes = pz_fmax(m.routed_bytes, routed_bytes(&w->layers[i]));
  }
  for (uint32_t i = 0; i < w->n_layers; i++)
    m.matrix_params = pz_fmax(m.matrix_params, largest_matrix(&w->layers[i]));
  m.copies_context = copies_context(w, p, hopper);
  m.one_copy = pz_chip_has_nvfp4(chip);
  m.measured = chip->correction.memory;
  m.reserve_bytes = pz_plan_framework(p)->reserve_bytes;
  if (pz_plan_framework(p)->transformer_engine)
    m.reserve_bytes +=
        (hopper ? ENGINE_BYTES : OLD_ENGINE_BYTES) * (1 + (m.experts ? GROUPED_STREAMS : 0));
  return m;
}

/* ---- a layer in time ------------------------------------------------------------------------ */

/* Bytes relative to the moment at which a pass begins. */
struct layer_pass {
  double forward_peak, saved; /* saved: after forward */
  double backward_peak,
      freed;             /* freed: net of backward, without gradients of parameters; negative */
  double gradient_bytes; /* that backward leaves behind */
};

/* Bytes of the results that torchtitan's selection saves: those of the first, the third, ... GEMM of a layer, of attention
 * and of reduce-scatters (the list of its "op" mode, torchtitan/models/llama3/infra/parallelize.py).  Of a layer
 * with experts, whose modules are compiled one by one, no GEMM is seen by the selection (measured: Qwen3-30B-A3B on an H200).
 * `unread` is set to the part that backward does not read. */
static double alternate_bytes(const struct pz_layer *l, double *unread) {
  double saved = 0;
  uint32_t n = 0;
  *unread = 0;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    bool product = op->kind == PZ_OP_MATMUL && !l->model_expert_params;
    bool listed = op->kind == PZ_OP_ATTENTION || op->kind == PZ_OP_REDUCE_SCATTER;
    if (product) n++;
    if (!listed && !(product && n % 2)) continue;
    const struct pz_tensor *t = &l->tensors[op->out[0]];
    /* the sum behind attention is made again from it, that behind the MLP is the layer's result */
    bool read = op->kind == PZ_OP_REDUCE_SCATTER && i + 2 < l->ops[PZ_FORWARD].n;
    for (uint32_t k = 0; k < l->n_saved; k++) read = read || l->saved[k] == t->storage;
    double bytes = (double)(t->elems * t->elem_bytes);
    saved += bytes;
    if (!read) *unread += bytes;
  }
  return saved;
}

/* How activations of a repeated layer are saved. */
static enum pz_saved_form saved_form(const struct pz_layer *l, const struct pz_plan *p) {
  enum pz_format format = l->wide ? PZ_FORMAT_16BIT : pz_plan_format(p);
  enum pz_saved_form form = format ? pz_plan_framework(p)->fp8_saves : PZ_SAVED_16BIT;
  bool gate = p->act_precision > 0;
  if (format == PZ_FORMAT_NVFP4) return gate ? PZ_SAVED_GEMM_4BIT_GATE : PZ_SAVED_GEMM_4BIT;
  if (form != PZ_SAVED_GEMM_8BIT) return form;
  return gate ? PZ_SAVED_GEMM_8BIT_GATE : PZ_SAVED_GEMM_8BIT;
}

/* In 4 bit, in 8 with scales of 128, and in 8, each with a transposed copy. */
static const double NVFP4_BYTES = 2 * (0.5 + 1.0 / 16), BLOCK_BYTES = 2 * (1 + 4.0 / 128),
                    FP8_BYTES = 2;

/* Of the weights of 8- and 4-bit GEMMs, along rows and along columns, beside weight_bytes: with 4 bit, and where a
 * framework of 8-bit weights has others too (pz_plan_keeps_8bit_weights), those in 16 bit are kept; with one scale,
 * tensor cores that read operands in both directions need one copy. */
static double copied_weight_bytes(const struct pz_memory_model *m, const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  enum pz_format format = pz_plan_format(p);
  if (!format || !f->transformer_engine) return format ? f->fp8_weight_bytes : 0;
  if (format == PZ_FORMAT_NVFP4) return NVFP4_BYTES;
  if (format == PZ_FORMAT_FP8_BLOCK) return BLOCK_BYTES;
  return (pz_plan_keeps_8bit_weights(p) ? f->fp8_weight_bytes : FP8_BYTES) -
         (m->one_copy && format != PZ_FORMAT_MXFP8 ? 1 : 0);
}

/* Of a frozen weight of such GEMMs: in few bits alone (fp8_model_init of Transformer Engine, in NVIDIA's fine-tuning of MLPerf;
 * GB200 shows 69.8 GB beside the activations of 68.98e9 parameters).  Blackwell reads 8-bit operands with one scale of a
 * tensor in either order; else, and with scales of blocks, there is a transposed copy.  0: as it is. */
static double frozen_weight_bytes(const struct pz_memory_model *m, const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  enum pz_format format = pz_plan_format(p);
  if (!pz_plan_trains_adapters(p) || !format || !f->transformer_engine) return 0;
  if (p->precision == PZ_PRECISION_FP8 && !p->zero) return 0; /* as they are trained */
  if (format == PZ_FORMAT_NVFP4) return NVFP4_BYTES;
  if (format == PZ_FORMAT_MXFP8) return 2 * (1 + 1.0 / 32);
  if (format == PZ_FORMAT_FP8_BLOCK) return BLOCK_BYTES;
  return m->one_copy ? 1 : 2;
}

/* With a copy of the logits in fp32.  Forward: they are both there, the copy is saved.  Backward: the derivative takes its
 * place, is cast to 16 bit, and goes on as without (megatron/core/tensor_parallel/cross_entropy.py). */
static void copy_logits(struct layer_pass *x, double logits) {
  double more = (LOSS_BYTES - HALF_BYTES) * logits;
  x->forward_peak += LOSS_BYTES * logits;
  x->saved += more;
  x->backward_peak = pz_fmax(HALF_BYTES * logits, x->backward_peak - more);
  x->freed -= more;
}

/* A pass with so many bytes that backward recomputes in place of saving them. */
static void recompute_bytes(struct layer_pass *x, double bytes) {
  x->saved -= bytes;
  x->backward_peak += bytes;
  x->freed += bytes;
}

/* What weighting the experts' results saves of them (frameworks.def, routed_saved). */
static void keep_weighted(const struct pz_plan *p, const struct pz_layer *l, struct layer_pass *x) {
  double bytes = pz_plan_framework(p)->routed_saved_bytes / HALF_BYTES * routed_bytes(l);
  x->forward_peak += bytes;
  x->saved += bytes;
  x->freed -= bytes;
}

static double known_core_bytes(const struct pz_memory_model *m, const struct pz_layer *l) {
  for (uint32_t k = 0; k < m->kinds->n && k < PZ_MEMORY_KINDS; k++)
    if (&m->w->layers[m->kinds->layer[k]] == l) return m->core_bytes[k];
  return core_bytes(m->w, l);
}

static void recompute(const struct pz_memory_model *m, const struct pz_layer *l,
                      const struct pz_plan *p, enum pz_recomputation how, struct layer_pass *x) {
  double unread, out = (double)l->output_bytes;
  int modules = pz_plan_selective_modules(p);
  switch (how) {
  case PZ_RECOMPUTATION_FULL:
    /* where the result is recomputed, it is still there when backward begins */
    x->forward_peak = (double)l->live_plain.peak_bytes;
    recompute_bytes(x, x->saved - (p->saved ? pz_saved_bytes(l, p->saved) : out));
    x->backward_peak = pz_fmax((double)l->live[PZ_FORWARD].peak_bytes,
                               x->backward_peak + (pz_plan_framework(p)->stops_early ? 0 : out));
    break;
  case PZ_RECOMPUTATION_SELECTIVE:
    recompute_bytes(x, modules ? pz_modules_bytes(l, modules, saved_form(l, p))
                               : known_core_bytes(m, l));
    break;
  case PZ_RECOMPUTATION_ALTERNATE: {
    double gemms = alternate_bytes(l, &unread);
    recompute_bytes(x, pz_fmax(0, x->saved - out - (gemms - unread)));
    if (p->execution == PZ_EXECUTION_COMPILE) break; /* a compiled layer saves only what it reads */
    x->saved += unread;
    x->freed -= unread;
    break;
  }
  default: break;
  }
}

static struct layer_pass layer_pass(const struct pz_layer *l, enum pz_gradients gradients) {
  const struct pz_live *f = &l->live[PZ_FORWARD], *b = &l->live_backward[gradients],
                       *plain = &l->live_backward[PZ_GRADIENTS_IN_PLACE];
  bool stay = gradients == PZ_GRADIENTS_KEPT;
  return (struct layer_pass){.forward_peak = (double)f->peak_bytes,
                             .saved = (double)f->net_bytes,
                             .backward_peak = (double)b->peak_bytes,
                             .freed = (double)plain->net_bytes,
                             .gradient_bytes =
                                 stay ? (double)(b->net_bytes - plain->net_bytes) : 0};
}

/* ---- a stage -------------------------------------------------------------------------------- */

/* A stage while a microbatch goes forward and backward through one of its chunks. */
struct stage_walk {
  const struct pz_memory_model *m;
  const struct pz_plan *p;
  struct pz_pipeline_shape shape;
  struct pz_plan_layers layers;
  int64_t stage, chunk; /* chunk of the model */
  int64_t start, blocks,
      n_recomputed;    /* of the chunk: its first layer, layers, of these recomputed */
  int64_t n_offloaded; /* of the first layers too: those whose activations go to the host */
  enum pz_gradients gradients;
  struct layer_pass first[2][2]; /* of the first kind of repeated layer: recomputed, offloaded */
  double activation_bytes, gradient_bytes; /* now */
  double moving_bytes; /* beside a repeated layer: activations on their way to the host or back */
  double logit_bytes;  /* saved by the layers behind the blocks, now */
  double communication_bytes; /* transfers between stages */
  double
      scattered_params; /* of the layer before in backward, whose gradients are being scattered */
  bool titan, fsdp2;    /* torchtitan runs the plan; FSDP2 shards it */
  bool
      first_gradients; /* this is the first microbatch: sharded gradients appear layer by layer in its backward pass */
  bool
      second_gradients; /* a second set of sharded gradients stays allocated until the backward pass ends */
  struct pz_training_memory peak; /* parts that come and go, at the worst moment */
};

/* Of the layers before and behind the repeated ones, and of these by kind. */
enum { BEFORE = -1, BEHIND = -2 };

static int kind_of(const struct stage_walk *s, uint32_t i) {
  const struct pz_layer_kinds *k = s->m->kinds;
  uint32_t kind = kind_of_layer(k, i);
  return i < k->layer[0] ? BEFORE : kind < k->n ? (int)kind : BEHIND;
}

static const struct pz_layer *first_kind(const struct stage_walk *s) {
  return &s->m->w->layers[s->m->kinds->layer[0]];
}

static bool is_first(const struct stage_walk *s) { return s->chunk == 0; }
static bool is_last(const struct stage_walk *s) { return s->chunk == s->layers.chunks - 1; }

/* Does PyTorch's FSDP2 shard the plan?  It shards weights with ZeRO 2 too, which there means that gathered weights stay
 * from forward to backward (torchtitan: fsdp_reshard_after_forward "never"). */
static bool is_fsdp2(const struct pz_plan *p) {
  return pz_plan_framework(p)->shards_stages && p->zero >= 2 && pz_plan_shards_state(p);
}

/* Gathered weights stay, in 16 bit.  With several stages gradients are scattered once a step, and whole sums of them stay
 * until then (torch/distributed/pipelining/stage.py turns off the synchronisation of all but the last microbatch). */
static bool stays_gathered(const struct pz_plan *p) {
  return (p->zero == 3 && p->pp > 1) || (p->zero == 2 && is_fsdp2(p));
}

/* Are gradients scattered layer by layer with every microbatch? */
static bool scatters_layers(const struct pz_plan *p) { return is_fsdp2(p) && p->pp == 1; }

/* Weights gathered for a layer and the one that is fetched ahead, and in backward its whole gradient,
 * in 16 bit and as it is exchanged (FSDP: Zhao et al., arXiv 2304.11277, section 3.3).  A compiler gathers matrix by
 * matrix.  FSDP2 keeps the buffer of the layer before, in which gradients are scattered, through the backward pass of a layer
 * (reduce_scatter_state of torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py). */
static double gathered_bytes(const struct stage_walk *s, const struct pz_layer *l, bool backward) {
  const struct pz_plan *p = s->p;
  if (p->zero < 2 || !pz_plan_shards_state(p)) return 0;
  if (s->fsdp2) {
    double weights =
        stays_gathered(p) ? 0 : HALF_BYTES * (double)(l->params + first_kind(s)->params);
    double gradient = backward ? HALF_BYTES * (double)l->trained_params : 0;
    return weights + gradient + (p->pp == 1 && backward ? p->grad_bytes * s->scattered_params : 0);
  }
  if (stays_gathered(p)) return 0;
  double n = (double)l->params, next = (double)first_kind(s)->params,
         trained = (double)l->trained_params;
  if (pz_framework_compiles(pz_plan_framework(p))) {
    n = pz_fmin(n, s->m->matrix_params);
    next = pz_fmin(next, s->m->matrix_params);
    trained = pz_fmin(trained, n);
  }
  double gradient = backward ? trained * (HALF_BYTES + p->grad_bytes) : 0;
  return p->zero == 3 ? HALF_BYTES * (n + next) + gradient : gradient;
}

static double gradient_bytes(const struct pz_plan *p);
static bool is_torch_head(const struct stage_walk *s, uint32_t i);

/* A moment at which the layer at hand needs `extra` bytes. */
static void visit(struct stage_walk *s, const struct pz_layer *l, double extra, bool backward) {
  int kind = kind_of(s, (uint32_t)(l - s->m->w->layers));
  bool head = kind == BEHIND;
  struct pz_training_memory now = {
      .activation_bytes = s->activation_bytes + (kind >= 0 ? s->moving_bytes : 0),
      .gradient_bytes = s->gradient_bytes,
      .work_bytes = head ? 0 : extra,
      .logit_bytes = s->logit_bytes + (head ? extra : 0),
      .communication_bytes = s->communication_bytes + gathered_bytes(s, l, backward)};
  if (pz_training_memory_sum(&now) > pz_training_memory_sum(&s->peak)) s->peak = now;
}

/* Layers i of the chunk; of these, those recomputed, and those whose activations go to the host. */
struct repeats {
  int64_t n, recomputed, offloaded;
};

static struct repeats repeats_of(const struct stage_walk *s, uint32_t i) {
  const struct pz_layer_kinds *k = s->m->kinds;
  int kind = kind_of(s, i);
  if (kind < 0) {
    bool here = kind == BEFORE ? is_first(s) : is_last(s);
    return (struct repeats){.n = here ? s->m->w->layers[i].count : 0};
  }
  return (struct repeats){pz_kind_count(k, (uint32_t)kind, s->start, s->blocks),
                          pz_kind_count(k, (uint32_t)kind, s->start, s->n_recomputed),
                          pz_kind_count(k, (uint32_t)kind, s->start, s->n_offloaded)};
}

static int64_t repeats(const struct stage_walk *s, uint32_t i) { return repeats_of(s, i).n; }

/* A chunk of the stage begins. */
static void enter_chunk(struct stage_walk *s, int64_t chunk) {
  s->chunk = chunk;
  s->start = pz_layers_before(&s->layers, chunk);
  s->blocks = pz_layers_at(&s->layers, chunk);
  s->n_recomputed = pz_plan_recomputed_layers(s->p, s->stage, s->blocks);
  s->n_offloaded = pz_plan_offloaded_layers(s->p, s->blocks);
}

/* That in one of its slots. */
static void enter_slot(struct stage_walk *s, uint32_t slot) {
  enter_chunk(s, pz_pipeline_chunk_at(&s->shape, (uint32_t)s->stage, slot));
}

/* Of what a layer saves, that which goes to the host: all of it, or what some modules read of it. */
static double away_bytes(const struct stage_walk *s, const struct pz_layer *l, double saved) {
  if (!s->p->offload_modules) return saved;
  return pz_fmin(saved, pz_offloaded_bytes(l, s->p->offload_modules,
                                           pz_plan_recomputed_modules(s->p), saved_form(l, s->p)));
}

/* Bytes that torchtitan saves of a repeated layer besides those of its graph.  What a tensor-parallel group gathers for a
 * GEMM is saved as it was gathered, where Megatron gathers it again.  torchtitan runs a fused query-key-value
 * projection as three GEMMs, so that saving the value does not keep the whole fused tensor alive.  Under autocast the residual
 * stream is fp32. */
static double torch_saves_more(const struct pz_plan *p, const struct pz_layer *l) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  double bytes = 0;
  bool joint = false;
  if (pz_plan_framework(p)->rules != PZ_RULES_TITAN) return 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool gathers = op->kind == PZ_OP_ALL_GATHER && op->peers == PZ_PEERS_TENSOR;
    bool rotates = strcmp(op->name, "query_rotary") == 0 || strcmp(op->name, "key_rotary") == 0;
    joint = joint || strcmp(op->name, "qkv") == 0;
    if (gathers && p->tp > 1) bytes += (double)(op->bytes_written - op->bytes_read);
    if (rotates && joint) bytes -= (double)op->bytes_written;
  }
  return bytes + (pz_plan_autocasts(p) ? 2 * (double)l->output_bytes : 0);
}

/* Bytes of the keys and values of the whole context that attention gathers in a pass, with their gradients. */
static double torch_ring_bytes(const struct pz_plan *p, const struct pz_layer *l) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  double bytes = 0;
  if (pz_plan_framework(p)->rules != PZ_RULES_TITAN || p->cp == 1) return 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (op->kind == PZ_OP_ALL_GATHER && op->peers == PZ_PEERS_CONTEXT)
      bytes += (double)op->bytes_written;
  }
  return 2 * bytes;
}

/* Bytes of attention's results that selective recomputation saves besides the final one.  Context parallelism runs attention
 * step by step around a ring, and each step is an attention kernel: the first device has a whole result of the first step and
 * halves of the others (causal blocks in pairs). */
static double torch_ring_results(const struct pz_plan *p, const struct pz_layer *l) {
  bool ring = pz_plan_framework(p)->rules == PZ_RULES_TITAN && p->cp > 1 &&
              p->recompute == PZ_RECOMPUTATION_ALTERNATE;
  return ring ? (double)l->context_bytes * (1 + 0.5 * (double)(p->cp - 1)) : 0;
}

/* How a layer goes through the stage.  Gradients of embedding and head come from autograd, whatever the
 * GEMMs of the layers do. */
static struct layer_pass make_pass(const struct stage_walk *s, uint32_t i, bool recomputed,
                                   bool offloaded) {
  const struct pz_layer *l = &s->m->w->layers[i];
  bool passing = kind_of(s, i) < 0 && s->gradients == PZ_GRADIENTS_IN_PLACE;
  struct layer_pass x = layer_pass(l, passing ? PZ_GRADIENTS_PASSING : s->gradients);
  enum pz_recomputation how = (enum pz_recomputation)s->p->recompute;
  if (kind_of(s, i) >= 0) {
    double less = (double)l->less_bytes[saved_form(l, s->p)];
    if (s->m->copies_context) less -= (double)l->context_bytes;
    less -= torch_saves_more(s->p, l);
    x.saved -= less;
    x.freed += less;
  }
  enum pz_loss loss = pz_plan_loss(s->p);
  if (is_torch_head(s, i)) { /* walk_backward has its moments */
    x.saved = x.forward_peak = HALF_BYTES * (double)l->logits + (double)l->output_bytes;
    x.freed = -x.saved;
  }
  if (loss == PZ_LOSS_FP32) copy_logits(&x, (double)l->logits);
  if (loss == PZ_LOSS_BESIDE) x.backward_peak += HALF_BYTES * (double)l->logits;
  if (how == PZ_RECOMPUTATION_HALF) how = PZ_RECOMPUTATION_FULL;
  if (!recomputed) keep_weighted(s->p, l, &x);
  if (recomputed) recompute(s->m, l, s->p, how, &x);
  if (recomputed) recompute_bytes(&x, -torch_ring_results(s->p, l));
  x.backward_peak += torch_ring_bytes(s->p, l);
  if (offloaded)
    recompute_bytes(&x, away_bytes(s, l, x.saved)); /* they come back as others are made */
  return x;
}

static struct layer_pass pass_of(const struct stage_walk *s, uint32_t i, bool recomputed,
                                 bool offloaded) {
  if (i == s->m->kinds->layer[0]) return s->first[recomputed][offloaded];
  return make_pass(s, i, recomputed, offloaded);
}

/* Layers one after another that all go through the stage in the same way: the first `n_recomputed` of a chunk's
 * repeated layers are recomputed, or every second one, the first `n_offloaded` have their activations on the host.  Kinds
 * that alternate are walked one kind after the other. */
struct row {
  int64_t n;
  struct layer_pass x;
};

static struct row row_from(const struct stage_walk *s, uint32_t i, int64_t k) {
  struct repeats n = repeats_of(s, i);
  bool half = kind_of(s, i) >= 0 && s->p->recompute == PZ_RECOMPUTATION_HALF;
  bool again = half ? k % 2 == 0 : k < n.recomputed, away = k < n.offloaded;
  int64_t end = half ? k + 1 : again ? n.recomputed : n.n;
  if (away) end = pz_min(end, n.offloaded);
  return (struct row){end - k, pass_of(s, i, again, away)};
}

/* The row that ends before layer k. */
static struct row row_to(const struct stage_walk *s, uint32_t i, int64_t k) {
  struct repeats n = repeats_of(s, i);
  if (kind_of(s, i) >= 0 && s->p->recompute == PZ_RECOMPUTATION_HALF) return row_from(s, i, k - 1);
  bool again = k <= n.recomputed, away = k <= n.offloaded;
  int64_t start = again ? 0 : n.recomputed;
  if (!away) start = pz_max(start, n.offloaded);
  return (struct row){k - start, pass_of(s, i, again, away)};
}

/* What passes from chunk to chunk.  What is received stays, what is sent does not. */
static double passed_bytes(const struct stage_walk *s) {
  return (double)first_kind(s)->output_bytes;
}

/* Along a row bytes change by the same with every layer, so that its first or its last is the worst. */
static void walk_forward(struct stage_walk *s) {
  if (!is_first(s)) s->activation_bytes += passed_bytes(s);
  for (uint32_t i = 0; i < s->m->w->n_layers; i++) {
    double *now = kind_of(s, i) == BEHIND ? &s->logit_bytes : &s->activation_bytes;
    struct row r;
    for (int64_t k = 0; k < repeats(s, i); k += r.n) {
      r = row_from(s, i, k);
      visit(s, &s->m->w->layers[i], r.x.forward_peak, false);
      *now += (double)(r.n - 1) * r.x.saved;
      if (r.n > 1) visit(s, &s->m->w->layers[i], r.x.forward_peak, false);
      *now += r.x.saved;
    }
  }
  if (!is_last(s)) s->activation_bytes -= passed_bytes(s);
}

/* Bytes of the sharded gradients of a layer. */
static double shard_of_gradient(const struct stage_walk *s, const struct pz_layer *l) {
  double expert = (double)l->trained_expert_params, dense = (double)l->trained_params - expert;
  return gradient_bytes(s->p) *
         (dense / (double)pz_plan_shards(s->p) + expert / (double)pz_plan_expert_shards(s->p));
}

/* Ends the backward passes of n layers i. */
static void pass_backward(struct stage_walk *s, uint32_t i, const struct layer_pass *x, int64_t n) {
  double times = (double)n;
  if (n) s->scattered_params = (double)s->m->w->layers[i].trained_params;
  if (s->first_gradients || s->second_gradients)
    s->gradient_bytes += times * shard_of_gradient(s, &s->m->w->layers[i]);
  s->activation_bytes += times * x->freed;
  if (kind_of(s, i) == BEHIND) {
    s->activation_bytes += times * x->saved;
    s->logit_bytes -= times * x->saved;
  }
  s->gradient_bytes += times * x->gradient_bytes;
}

/* Is it the head and loss of torchtitan's models, which are modules of PyTorch of their own?  Layers that predict further
 * tokens contain a block besides, and torchtitan has none. */
static bool is_torch_head(const struct stage_walk *s, uint32_t i) {
  const struct pz_layer *l = &s->m->w->layers[i];
  return s->titan && kind_of(s, i) == BEHIND && l->logits > 0 &&
         strncmp(l->name, "predict", 7) != 0;
}

/* Bytes of each logit while the loss's derivative is made.  Compiled, the loss reads 16-bit logits and writes their
 * derivative; else logits are cast to fp32, and the log-softmax, its derivative and that of the loss are in fp32.  Logits
 * divided over a tensor-parallel group are a DTensor, whose loss PyTorch runs step by step
 * (torch/distributed/tensor/parallel/loss.py). */
static double loss_bytes(const struct pz_plan *p) {
  static const double COMPILED = 2 + 2, EAGER = 3 * 4, DIVIDED = 2 + 2 * 4;
  return p->tp > 1 ? DIVIDED : p->execution == PZ_EXECUTION_COMPILE ? COMPILED : EAGER;
}

/* Records one moment of the head's backward pass, given the bytes of logits, of gathered weights and of gradients. */
static void visit_head_moment(struct stage_walk *s, double logits, double weights,
                              double gradients) {
  double hidden = (double)first_kind(s)->output_bytes;
  struct pz_training_memory now = {.activation_bytes = s->activation_bytes,
                                   .gradient_bytes = s->gradient_bytes,
                                   .logit_bytes = logits + 2 * hidden,
                                   .communication_bytes =
                                       s->communication_bytes + weights + gradients};
  if (pz_training_memory_sum(&now) > pz_training_memory_sum(&s->peak)) s->peak = now;
}

/* Three moments that do not meet: the derivative of the loss, the GEMMs of the head, and the copy of its gradient to where
 * it is scattered from.  A stage of a pipeline keeps its result, the logits, until the end. */
static void visit_torch_head(struct stage_walk *s, const struct pz_layer *l) {
  const struct pz_plan *p = s->p;
  double logits = (double)l->logits, kept = p->pp > 1 ? HALF_BYTES * logits : 0;
  double trained = (double)l->trained_params, weights = 0;
  if (is_fsdp2(p) && !stays_gathered(p))
    weights = HALF_BYTES * (double)(l->params + first_kind(s)->params);
  visit_head_moment(s, loss_bytes(p) * logits, 0, 0);
  visit_head_moment(s, kept + HALF_BYTES * logits, weights, HALF_BYTES * trained);
  if (scatters_layers(p)) visit_head_moment(s, 0, weights, (HALF_BYTES + p->grad_bytes) * trained);
}

static void walk_backward(struct stage_walk *s) {
  const struct pz_workload *w = s->m->w;
  if (!is_last(s)) s->communication_bytes = passed_bytes(s);
  for (uint32_t i = w->n_layers; i-- > 0;) {
    struct row r;
    for (int64_t k = repeats(s, i); k > 0; k -= r.n) {
      r = row_to(s, i, k);
      if (is_torch_head(s, i)) {
        visit_torch_head(s, &w->layers[i]);
      } else {
        visit(s, &w->layers[i], r.x.backward_peak, true);
        int64_t left = r.n - 1;
        if (left > 1 && s->fsdp2) { /* from now on gradients of the same layer are scattered */
          pass_backward(s, i, &r.x, 1);
          visit(s, &w->layers[i], r.x.backward_peak, true);
          left--;
        }
        pass_backward(s, i, &r.x, left);
        if (r.n > 1) visit(s, &w->layers[i], r.x.backward_peak, true);
      }
      pass_backward(s, i, &r.x, 1);
    }
  }
  visit(s, &w->layers[0], 0, false); /* the optimizer's step */
}

/* Activations of a chunk that waits for its backward. */
static double waiting_bytes(const struct stage_walk *s) {
  double bytes = passed_bytes(s) * (!is_first(s) - !is_last(s));
  for (uint32_t i = 0; i < s->m->w->n_layers; i++) {
    struct repeats n = repeats_of(s, i);
    int64_t both = pz_min(n.recomputed, n.offloaded), away = n.offloaded - both;
    int64_t again = n.recomputed - both, plain = n.n - both - away - again;
    if (both) bytes += (double)both * pass_of(s, i, true, true).saved;
    if (away) bytes += (double)away * pass_of(s, i, false, true).saved;
    if (again) bytes += (double)again * pass_of(s, i, true, false).saved;
    if (plain) bytes += (double)plain * pass_of(s, i, false, false).saved;
  }
  return bytes;
}

/* Of the chunk, what is on the host between its forward and its backward. */
static double chunk_away_bytes(const struct stage_walk *s) {
  struct stage_walk kept = *s;
  kept.n_offloaded = 0;
  return s->n_offloaded ? waiting_bytes(&kept) - waiting_bytes(s) : 0;
}

/* A layer on its way to the host or back, beside the one at hand: the largest (Transformer Engine begins to fetch a layer
 * while another is at hand, on_group_commit_backward of its pytorch/cpu_offload.py). */
static double moving_bytes(const struct stage_walk *s) {
  double most = 0;
  for (uint32_t i = 0; i < s->m->w->n_layers && s->n_offloaded; i++) {
    struct repeats n = repeats_of(s, i);
    bool again = n.recomputed > 0;
    if (n.offloaded)
      most = pz_fmax(most, pass_of(s, i, again, false).saved - pass_of(s, i, again, true).saved);
  }
  return most;
}

enum { MOST_SLOTS = 2 * PZ_PLAN_MOST_CHUNKS }; /* DualPipe holds two copies */

/* One of a stage's slots. */
struct slot_walk {
  double waiting_bytes;
  struct pz_training_memory peak; /* while a microbatch goes through it and nothing else is there */
};

/* Chunks that a stage walks through in the same way: neither has an end of the model, and their layers are alike. */
static bool same_chunk(const struct stage_walk *a, const struct stage_walk *b) {
  return a->m->kinds->n == 1 && !is_first(a) && !is_first(b) && !is_last(a) && !is_last(b) &&
         a->blocks == b->blocks && a->n_recomputed == b->n_recomputed &&
         a->n_offloaded == b->n_offloaded;
}

static void walk_slot(struct stage_walk s, struct slot_walk *out) {
  out->waiting_bytes = waiting_bytes(&s);
  s.moving_bytes = moving_bytes(&s);
  walk_forward(&s);
  walk_backward(&s);
  out->peak = s.peak;
}

/* Whole numbers of bytes: sums of them below 2^53 are exact, in whatever order. */
static bool sums_exactly(double bytes, double times) {
  return bytes == floor(bytes) && fabs(bytes) * times < 0x1p51;
}

/* The same of interleaved chunks, from sums over the slots: in time linear in these, if the sums are exact; else false. */
static bool worst_interleaved(const struct stage_walk *s, const struct slot_walk *slots, uint32_t n,
                              struct pz_training_memory *worst) {
  double sums[MOST_SLOTS + 1], back[MOST_SLOTS + 1], bytes;
  double times = 4.0 * s->shape.stages * n; /* at most two rounds of passes are in flight */
  sums[0] = back[0] = 0;
  for (uint32_t c = 0; c < n; c++) {
    if (!sums_exactly(slots[c].waiting_bytes, times) ||
        !sums_exactly(slots[c].peak.activation_bytes, 2))
      return false;
    sums[c + 1] = sums[c] + slots[c].waiting_bytes;
    back[c + 1] = back[c] + slots[n - 1 - c].waiting_bytes;
  }
  for (uint32_t k = 0; k < pz_pipeline_moments(&s->shape); k++) {
    uint32_t at;
    if (!pz_pipeline_moment_bytes(&s->shape, (uint32_t)s->stage, k, sums, back, &at, &bytes))
      continue;
    struct pz_training_memory now = slots[at].peak;
    now.activation_bytes += bytes - slots[at].waiting_bytes;
    if (pz_training_memory_sum(&now) > pz_training_memory_sum(worst)) *worst = now;
  }
  return true;
}

/* The worst moment: a microbatch goes through one of the stage's chunks, the others in flight wait. */
static struct pz_training_memory worst_moment(struct stage_walk s) {
  struct slot_walk slots[MOST_SLOTS];
  uint32_t in_flight[MOST_SLOTS], at, n = pz_pipeline_slots(&s.shape);
  struct pz_training_memory worst = {.activation_bytes = -HUGE_VAL};
  struct stage_walk before = s;
  for (uint32_t c = 0; c < n; c++) {
    enter_slot(&s, c);
    if (c && same_chunk(&before, &s))
      slots[c] = slots[c - 1];
    else
      walk_slot(s, &slots[c]);
    before = s;
  }
  if (pz_pipeline_moments(&s.shape) > 1 && worst_interleaved(&s, slots, n, &worst)) return worst;
  for (uint32_t k = 0; k < pz_pipeline_moments(&s.shape); k++) {
    if (!pz_pipeline_moment(&s.shape, (uint32_t)s.stage, k, &at, in_flight)) continue;
    struct pz_training_memory now = slots[at].peak;
    for (uint32_t c = 0; c < n; c++)
      now.activation_bytes += ((double)in_flight[c] - (c == at)) * slots[c].waiting_bytes;
    if (pz_training_memory_sum(&now) > pz_training_memory_sum(&worst)) worst = now;
  }
  return worst;
}

/* ---- what stays ----------------------------------------------------------------------------- */

/* Of a stage: parameters, dense and of experts, and data that all layers read with constants of layers.
 * A copy of a tied matrix stands on both stages. */
struct stage_sums {
  double dense, expert, constants;
  double trained, trained_expert; /* of dense and expert, those that are trained */
  double blocks;                  /* of dense and expert, those with 8- or 4-bit GEMMs */
};

static struct stage_sums stage_sums(struct stage_walk s) {
  struct stage_sums n = {.constants = (double)first_kind(&s)->shared_bytes};
  for (uint32_t c = 0; c < pz_pipeline_slots(&s.shape); c++) {
    enter_slot(&s, c);
    for (uint32_t i = 0; i < s.m->w->n_layers; i++) {
      const struct pz_layer *l = &s.m->w->layers[i];
      double times = (double)repeats(&s, i);
      int64_t shared = kind_of(&s, i) < 0 ? l->shared_bytes : 0;
      int64_t tied = pz_pipeline_separates_ends(&s.shape) ? l->tied_params : 0;
      n.dense += times * (double)(l->params - l->expert_params + tied);
      n.expert += times * (double)l->expert_params;
      n.trained += times * (double)(l->trained_params - l->trained_expert_params +
                                    (pz_plan_trains_adapters(s.p) ? 0 : tied));
      n.trained_expert += times * (double)l->trained_expert_params;
      if (kind_of(&s, i) >= 0 && !l->wide) n.blocks += times * (double)l->params;
      n.constants += times * (double)(l->buffer_bytes + shared);
    }
  }
  return n;
}

static double most_gradient_bytes(const struct pz_framework *f) {
  return f->accumulation == PZ_ACCUMULATION_KEPT ? HALF_BYTES : MOST_GRADIENT_BYTES;
}

/* Bytes of a parameter's gradient, and of its optimizer state: a master copy, if weights have fewer bits, and two
 * moments. */
static double gradient_bytes(const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  if (pz_plan_trains_adapters(p) && f->adapter_state_bytes > 0)
    return 0; /* as backward leaves them */
  double most = pz_fmin(most_gradient_bytes(f), f->state_bytes - f->weight_bytes);
  return f->exchanges_sums ? pz_fmin(most, p->grad_bytes) : most;
}

static double optimizer_bytes(const struct pz_memory_model *m, const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  if (pz_plan_trains_adapters(p) && f->adapter_state_bytes > 0) return f->adapter_state_bytes;
  double rest = pz_fmax(0, f->state_bytes - f->weight_bytes - most_gradient_bytes(f));
  if (rest > 2 * MOST_MOMENT_BYTES) /* weights are not their own */
    rest = 2 * MOST_MOMENT_BYTES + pz_plan_master_bytes(p, m->experts);
  else if (rest < 2 * MOST_MOMENT_BYTES) /* moments of 16 bits are its own */
    return rest > 0 && p->moment_bytes > 0 ? 2 * p->moment_bytes : rest;
  return pz_fmax(0, rest - 2 * (MOST_MOMENT_BYTES - pz_plan_moment_bytes(p, m->experts)));
}

/* What parameters that so many devices share take: weights, gradients and optimizer state of those that are trained. */
static void add_state(const struct stage_walk *s, double n, double trained, int64_t shards,
                      struct pz_training_memory *to) {
  const struct pz_plan *p = s->p;
  const struct pz_framework *f = pz_plan_framework(p);
  double d = (double)shards;
  bool whole = shards > 1 && stays_gathered(p);
  bool gradients = p->zero > 2 || pz_plan_scatters_per_microbatch(p);
  bool later = is_fsdp2(p) && (p->pp > 1 || s->first_gradients); /* sharded gradients come later */
  double here = 1 - pz_plan_host_optimizer_fraction(p);
  to->weight_bytes +=
      n * f->weight_bytes / (p->zero > 2 || is_fsdp2(p) ? d : 1) + (whole ? n * HALF_BYTES : 0);
  if (!later)
    to->gradient_bytes +=
        trained * gradient_bytes(p) / (gradients ? d : 1) * (f->offloads_gradients ? here : 1);
  if (whole && p->pp > 1) to->gradient_bytes += trained * p->grad_bytes;
  to->optimizer_bytes += trained * optimizer_bytes(s->m, p) / (p->zero ? d : 1) * here;
}

static struct pz_training_memory state_bytes(const struct stage_walk *s) {
  const struct pz_framework *f = pz_plan_framework(s->p);
  struct stage_sums n = stage_sums(*s);
  int64_t copies = pz_plan_is_hybrid_sharded(s->p) ? 1 : pz_pipeline_copies(s->shape.order);
  struct pz_training_memory m = {.activation_bytes = n.constants,
                                 .reserve_bytes = s->m->reserve_bytes};
  add_state(s, n.dense, n.trained, pz_plan_shards(s->p) * copies, &m);
  add_state(s, n.expert, n.trained_expert, pz_plan_expert_shards(s->p) * copies, &m);
  m.weight_bytes += copied_weight_bytes(s->m, s->p) * n.blocks /
                    (double)(pz_plan_gathers_per_layer(s->p) ? pz_plan_shards(s->p) : 1);
  double frozen = frozen_weight_bytes(s->m, s->p);
  if (frozen > 0)
    m.weight_bytes += (frozen - copied_weight_bytes(s->m, s->p) - f->weight_bytes) *
                      (n.blocks - n.trained - n.trained_expert) /
                      (double)(pz_plan_gathers_per_layer(s->p) ? pz_plan_shards(s->p) : 1);
  if (pz_plan_autocasts(s->p)) m.weight_bytes += HALF_BYTES * (n.dense + n.expert); /* its casts */
  if (f->placeholder_gradients) m.gradient_bytes += s->m->placeholder_bytes;
  return m;
}

static struct stage_walk walk_of(const struct pz_memory_model *m, const struct pz_plan *p,
                                 int64_t stage) {
  return (struct stage_walk){.m = m,
                             .p = p,
                             .shape = pz_plan_pipeline_shape(p),
                             .layers = pz_plan_layers(p, m->kinds->n_blocks),
                             .stage = stage,
                             .titan = pz_plan_framework(p)->rules == PZ_RULES_TITAN,
                             .fsdp2 = is_fsdp2(p),
                             .gradients = pz_plan_framework(p)->gradients};
}

static void make_passes(struct stage_walk *s) {
  for (int again = 0; again < 2; again++)
    for (int away = 0; away <= (s->p->offload & PZ_OFFLOAD_ACTIVATIONS); away++)
      s->first[again][away] = make_pass(s, s->m->kinds->layer[0], again, away);
}

double pz_chunk_offload_bytes(const struct pz_memory_model *m, const struct pz_plan *p,
                              int64_t chunk) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  struct stage_walk s = walk_of(m, p, pz_pipeline_stage_of(&shape, (uint32_t)chunk));
  if (!(p->offload & PZ_OFFLOAD_ACTIVATIONS)) return 0;
  make_passes(&s);
  enter_chunk(&s, chunk);
  return chunk_away_bytes(&s);
}

/* Of a parameter whose state is on the host: an fp32 copy, its gradient, two moments. */
static const double HOST_STATE_BYTES = 16;

double pz_host_bytes(const struct pz_memory_model *m, const struct pz_plan *p, int64_t microbatches,
                     int64_t stage) {
  struct stage_walk s = walk_of(m, p, stage);
  double away[MOST_SLOTS], most = 0, state = 0;
  uint32_t in_flight[MOST_SLOTS], at, n = pz_pipeline_slots(&s.shape);
  if (!p->offload) return 0;
  s.shape.microbatches = (uint32_t)microbatches;
  make_passes(&s);
  for (uint32_t c = 0; c < n; c++) {
    enter_slot(&s, c);
    away[c] = chunk_away_bytes(&s);
  }
  for (uint32_t k = 0; k < pz_pipeline_moments(&s.shape); k++) {
    double now = 0;
    if (!pz_pipeline_moment(&s.shape, (uint32_t)stage, k, &at, in_flight)) continue;
    for (uint32_t c = 0; c < n; c++) now += (double)in_flight[c] * away[c];
    most = pz_fmax(most, now);
  }
  if (pz_plan_host_optimizer_fraction(p) > 0) {
    struct stage_sums sums = stage_sums(s);
    int64_t copies = pz_plan_is_hybrid_sharded(p) ? 1 : pz_pipeline_copies(s.shape.order);
    state = sums.dense / (double)(p->zero ? pz_plan_shards(p) * copies : 1) +
            sums.expert / (double)(p->zero ? pz_plan_expert_shards(p) * copies : 1);
  }
  return most + pz_plan_host_optimizer_fraction(p) * HOST_STATE_BYTES * state;
}

struct pz_training_memory pz_training_memory(const struct pz_memory_model *m,
                                             const struct pz_plan *p, int64_t microbatches,
                                             int64_t stage) {
  struct stage_walk s = walk_of(m, p, stage);
  s.shape.microbatches = (uint32_t)microbatches;
  s.first_gradients = scatters_layers(p) && microbatches == 1;
  /* with replicas of the shards, what is all-reduced over them (all_reduce_state of _fsdp_param_group.py) */
  s.second_gradients = scatters_layers(p) && microbatches > 1 && pz_plan_is_hybrid_sharded(p);
  struct pz_training_memory all = state_bytes(&s);
  bool sharded = p->zero > 1 && pz_plan_shards_state(p);
  if (sharded) s.gradients = PZ_GRADIENTS_IN_PLACE; /* counted as communication */
  if (s.gradients == PZ_GRADIENTS_KEPT && microbatches > 1) {
    /* the first microbatch's gradients are there when the next one's are added */
    struct stage_sums n = stage_sums(s);
    all.gradient_bytes += HALF_BYTES * (n.trained + n.trained_expert);
    s.gradients = PZ_GRADIENTS_PASSING;
  }
  make_passes(&s);
  struct pz_training_memory now = worst_moment(s);
  all.gradient_bytes += now.gradient_bytes;
  all.activation_bytes += now.activation_bytes;
  all.work_bytes = now.work_bytes;
  all.logit_bytes = now.logit_bytes;
  all.communication_bytes = now.communication_bytes;
  return all;
}

/* ---- what the allocator reserves ----------------------------------------------------------------- */

/* Of FSDP2: what is freed in one stream cannot be used in another before both meet, and blocks of other sizes leave gaps.
 * `gradients` of several stages stay through the step. */
static double fsdp2_gaps(const struct pz_memory_model *m, const struct pz_constants *k,
                         const struct pz_plan *p, const struct pz_training_memory *peak,
                         double moving) {
  bool stays = p->pp > 1;
  double bytes = k->reserved_dynamic * (moving + (stays ? 0 : peak->gradient_bytes)) +
                 k->reserved_routed * m->routed_bytes;
  if (!is_fsdp2(p)) return bytes;
  bytes += k->reserved_state * peak->optimizer_bytes;
  if (stays) /* sums in fp32 beside weights in 16 bit */
    return bytes +
           k->reserved_whole * peak->gradient_bytes * (1 + HALF_BYTES / MOST_GRADIENT_BYTES);
  return bytes + k->reserved_gathered * HALF_BYTES * m->layer_params;
}

/* Of Megatron Core, beside what stays through a step: the optimizer's temporaries, and with ZeRO 1 the blocks in which the
 * parameters were allocated one by one before they were copied into one buffer
 * (megatron/core/distributed/param_and_grad_buffer.py).  The temporaries are in fp32 and too large for these blocks;
 * activations use both. */
static double core_blocks(const struct pz_constants *k, const struct pz_plan *p,
                          const struct pz_training_memory *peak) {
  if (pz_plan_framework(p)->rules != PZ_RULES_CORE) return 0;
  return k->reserved_root * peak->optimizer_bytes + (p->zero == 1 ? peak->weight_bytes : 0);
}

static double allocator_bytes(const struct pz_memory_model *m, const struct pz_constants *k,
                              const struct pz_plan *p, const struct pz_training_memory *peak) {
  const struct pz_framework *f = pz_plan_framework(p);
  double sum = pz_training_memory_sum(peak);
  double moving =
      sum - peak->weight_bytes - peak->gradient_bytes - peak->optimizer_bytes - peak->reserve_bytes;
  if (pz_framework_compiles(f)) return sum; /* its buffers are laid out before it runs */
  if (f->shards_stages) return sum + fsdp2_gaps(m, k, p, peak, moving);
  return pz_fmax(sum * (1 + k->reserved_other), sum - moving + core_blocks(k, p, peak));
}

/* Groups of plans whose predictions are equally good: FSDP2, FSDP2 with several stages of tensor-parallel groups, programs
 * that XLA compiles, and the plans of all other frameworks, which have the interval of Megatron-LM. */
enum margin_group { FSDP2, DIVIDED_STAGES, COMPILED, OTHER };
static const struct {
  double low, high;
} margins[] = {
#define MARGIN(group, low, high, ranks) [group] = {low, high},
#include "step/memory_margin.def"
};

struct pz_reserved pz_reserved_of(const struct pz_memory_model *m, const struct pz_constants *k,
                                  const struct pz_plan *p, const struct pz_training_memory *peak) {
  const struct pz_framework *f = pz_plan_framework(p);
  enum margin_group group = OTHER;
  if (pz_framework_compiles(f)) group = COMPILED;
  if (f->shards_stages) group = p->pp > 1 && p->tp > 1 ? DIVIDED_STAGES : FSDP2;
  double bytes = allocator_bytes(m, k, p, peak);
  double low = margins[group].low, high = margins[group].high;
  if (m->measured > 0) low = pz_fmin(0, m->measured - 1), high = pz_fmax(0, m->measured - 1);
  if (p->memory_margin >= 0) high = p->memory_margin / 100;
  return (struct pz_reserved){bytes, bytes * (1 + pz_fmin(low, high)), bytes * (1 + high)};
}
