/* The memory of a training plan (training_memory.h).
 *
 * The peak of a stage is found by walking through its chunks (the layers that it runs in one pass)
 * as one microbatch does, forward and backward, while the other microbatches in flight wait:
 * record_moment() compares the bytes at every layer (struct stage_walk).  The bytes of a layer's
 * pass come from its graph and are corrected for the plan's recomputation, offload and number
 * formats.  Weights, gradients and optimizer state stay through the step (state_bytes).  The last
 * section turns the peak into the bytes that PyTorch's allocator reserves. */
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

/* The largest table of layer counts. */
static const int64_t MOST_ENTRIES = 1 << 22;

/* Returns whether the layer is one of the repeated layers.  Layers that predict further tokens
 * belong to the head. */
bool pz_is_block(const struct pz_layer *layer) {
  return strncmp(layer->name, "block", 5) == 0 ||
         (layer->count > 1 && strncmp(layer->name, "predict", 7) != 0);
}

static void list_kinds(const struct pz_workload *workload, struct pz_layer_kinds *k) {
  for (uint32_t i = 0; i < workload->n_layers; i++)
    if (pz_is_block(&workload->layers[i])) {
      k->layer[k->n++] = i;
      k->n_blocks += workload->layers[i].count;
    }
  if (k->n) return;
  k->layer[k->n++] = 0;
  k->n_blocks = workload->layers[0].count;
}

static uint32_t kind_of_layer(const struct pz_layer_kinds *k, uint32_t layer) {
  uint32_t i = 0;
  while (i < k->n && k->layer[i] != layer) i++;
  return i;
}

/* Counts, for each kind, how many of the first i repeated layers belong to it. */
static void count_kinds(const struct pz_workload *workload, struct pz_layer_kinds *k) {
  int64_t at = 0, row = k->n_blocks + 1;
  for (uint32_t walk = 0; walk < workload->n_order; walk++)
    for (int64_t r = 0; r < workload->order[walk].repeats; r++)
      for (uint32_t u = 0; u < workload->order[walk].n_unit; u++) {
        uint32_t kind = kind_of_layer(k, workload->order[walk].unit[u]);
        if (kind == k->n || at == k->n_blocks) continue;
        for (uint32_t i = 0; i < k->n; i++)
          k->before[i * row + at + 1] = k->before[i * row + at] + (i == kind);
        at++;
      }
}

struct pz_layer_kinds pz_layer_kinds_of(struct pz_call *call, const struct pz_workload *workload) {
  struct pz_layer_kinds k = {.layer = pz_alloc(call, workload->n_layers, sizeof *k.layer)};
  list_kinds(workload, &k);
  if (k.n == 1) return k;
  if (k.n_blocks >= MOST_ENTRIES / k.n)
    pz_raise(call, PZ_LIMIT, "%s has too many kinds of repeated layers for a training plan",
             workload->model);
  k.before = pz_alloc(call, (size_t)k.n * ((size_t)k.n_blocks + 1), sizeof *k.before);
  count_kinds(workload, &k);
  return k;
}

/* ---- a model ------------------------------------------------------------------------------- */

/* Bytes of a gradient in the optimizer's precision, and of a weight or a gradient in that of the
 * layers. */
static const double MOST_GRADIENT_BYTES = 4, HALF_BYTES = 2;

/* Bytes of a moment of Adam, and of an element of the logits in the loss. */
static const double MOST_MOMENT_BYTES = 4, LOSS_BYTES = 4;

double pz_training_memory_sum(const struct pz_training_memory *memory) {
  return memory->weight_bytes + memory->gradient_bytes + memory->optimizer_bytes +
         memory->activation_bytes + memory->work_bytes + memory->logit_bytes +
         memory->communication_bytes + memory->reserve_bytes;
}

static bool is_square(const struct pz_tensor *tensor, int64_t n) {
  return tensor->n_dims >= 3 && tensor->shape[tensor->n_dims - 2] == n &&
         tensor->shape[tensor->n_dims - 1] == n;
}

/* Returns the bytes that the attention core of a layer saves without flash attention: scores of
 * every query with every key, and their dropout mask, which is one row of bytes. */
static double core_bytes(const struct pz_workload *workload, const struct pz_layer *layer) {
  double bytes = 0;
  int64_t scores = 0;
  for (uint32_t i = 0; i < layer->n_tensors; i++) {
    const struct pz_tensor *tensor = &layer->tensors[i];
    if (tensor->role == PZ_ROLE_ACTIVATION && is_square(tensor, workload->options.seq))
      scores = tensor->elems;
  }
  for (uint32_t i = 0; i < layer->n_saved; i++) {
    const struct pz_tensor *tensor = &layer->tensors[layer->saved[i]];
    bool mask = tensor->n_dims == 1 && tensor->elem_bytes == 1;
    if ((mask || is_square(tensor, workload->options.seq)) && tensor->elems == scores)
      bytes += (double)(tensor->elems * tensor->elem_bytes);
  }
  return bytes;
}

static double largest_matrix(const struct pz_layer *layer) {
  int64_t n = 0;
  for (uint32_t i = 0; i < layer->n_tensors; i++)
    if (layer->tensors[i].role == PZ_ROLE_PARAM) n = pz_max(n, layer->tensors[i].elems);
  return (double)n;
}

/* Returns the bytes of a 16-bit gradient of every trained matrix of a layer. */
static double placeholder_bytes(const struct pz_layer *layer) {
  double n = 0;
  for (uint32_t i = 0; i < layer->n_tensors; i++)
    if (layer->tensors[i].role == PZ_ROLE_PARAM && layer->tensors[i].n_dims > 1 &&
        !layer->tensors[i].frozen)
      n += (double)layer->tensors[i].elems;
  return HALF_BYTES * n;
}

/* Work space of a GEMM of Transformer Engine, on Hopper and later (compute capability 9.0) and
 * before, and streams of grouped GEMMs with one each (get_cublas_workspace_size_bytes,
 * get_multi_stream_cublas_workspace in its pytorch/module/base.py). */
static const double ENGINE_BYTES = 32 << 20, OLD_ENGINE_BYTES = 4 << 20;
static const double GROUPED_STREAMS = 4;

/* Megatron's activations have tokens first, FlashAttention's samples: with several of them the
 * result of attention is copied, and both are saved (flash_attn in Transformer Engine's
 * pytorch/attention; not cuDNN's kernels, which Transformer Engine takes on Hopper and later). */
static bool copies_context(const struct pz_workload *workload, const struct pz_plan *plan,
                           bool hopper) {
  const char *library = plan->attention_library;
  bool named = library && *library;
  return pz_plan_framework(plan)->transformer_engine && workload->options.mbs > 1 &&
         (named ? strcmp(library, "fa2") == 0 : !hopper);
}

/* Returns the bytes of the tokens that a layer sends to its experts, one copy for each chosen
 * expert. */
static double routed_bytes(const struct pz_layer *layer) {
  double bytes = 0;
  for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
    if (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_GATHER_ROWS)
      bytes = pz_fmax(bytes, (double)op->bytes_written);
  }
  return bytes;
}

struct pz_memory_model pz_memory_model_of(const struct pz_workload *workload,
                                          const struct pz_layer_kinds *kinds,
                                          const struct pz_chip *chip, const struct pz_plan *plan) {
  struct pz_memory_model model = {.w = workload, .kinds = kinds};
  bool hopper = chip->calibration.fp8_speedup > 1;
  for (uint32_t k = 0; k < kinds->n && k < PZ_MEMORY_KINDS; k++)
    model.core_bytes[k] = core_bytes(workload, &workload->layers[kinds->layer[k]]);
  for (uint32_t k = 0; k < kinds->n; k++)
    model.placeholder_bytes =
        pz_fmax(model.placeholder_bytes, placeholder_bytes(&workload->layers[kinds->layer[k]]));
  for (uint32_t i = 0; i < workload->n_layers; i++)
    model.experts = model.experts || workload->layers[i].model_expert_params > 0;
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    model.layer_params = pz_fmax(model.layer_params, (double)workload->layers[i].params);
    model.routed_bytes = pz_fmax(model.routed_bytes, routed_bytes(&workload->layers[i]));
  }
  for (uint32_t i = 0; i < workload->n_layers; i++)
    model.matrix_params = pz_fmax(model.matrix_params, largest_matrix(&workload->layers[i]));
  model.copies_context = copies_context(workload, plan, hopper);
  model.one_copy = pz_chip_has_nvfp4(chip);
  model.measured = chip->correction.memory;
  model.reserve_bytes = pz_plan_framework(plan)->reserve_bytes;
  if (pz_plan_framework(plan)->transformer_engine)
    model.reserve_bytes +=
        (hopper ? ENGINE_BYTES : OLD_ENGINE_BYTES) * (1 + (model.experts ? GROUPED_STREAMS : 0));
  return model;
}

/* ---- a layer in time ------------------------------------------------------------------------ */

/* The memory of a layer's forward and backward pass, in bytes relative to the beginning of each
 * pass. */
struct layer_pass {
  double forward_peak, saved; /* saved: after forward */
  double backward_peak,
      freed;             /* freed: net of backward, without gradients of parameters; negative */
  double gradient_bytes; /* that backward leaves behind */
};

/* Bytes of the results that torchtitan's selection saves: those of the first, the third, ... GEMM
 * of a layer, of attention and of reduce-scatters (the list of its "op" mode,
 * torchtitan/models/llama3/infra/parallelize.py).  Of a layer with experts, whose modules are
 * compiled one by one, no GEMM is seen by the selection (measured: Qwen3-30B-A3B on an H200).
 * `unread` is set to the part that backward does not read. */
static double alternate_bytes(const struct pz_layer *layer, double *unread) {
  double saved = 0;
  uint32_t n = 0;
  *unread = 0;
  for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
    bool product = op->kind == PZ_OP_MATMUL && !layer->model_expert_params;
    bool listed = op->kind == PZ_OP_ATTENTION || op->kind == PZ_OP_REDUCE_SCATTER;
    if (product) n++;
    if (!listed && !(product && n % 2)) continue;
    const struct pz_tensor *tensor = &layer->tensors[op->out[0]];
    /* the sum behind attention is made again from it, that behind the MLP is the layer's result */
    bool read = op->kind == PZ_OP_REDUCE_SCATTER && i + 2 < layer->ops[PZ_FORWARD].n;
    for (uint32_t k = 0; k < layer->n_saved; k++) read = read || layer->saved[k] == tensor->storage;
    double bytes = (double)(tensor->elems * tensor->elem_bytes);
    saved += bytes;
    if (!read) *unread += bytes;
  }
  return saved;
}

/* Returns the form in which the activations of a repeated layer are saved: in 16, 8 or 4 bit. */
static enum pz_saved_form saved_form(const struct pz_layer *layer, const struct pz_plan *plan) {
  enum pz_format format = layer->wide ? PZ_FORMAT_16BIT : pz_plan_format(plan);
  enum pz_saved_form form = format ? pz_plan_framework(plan)->fp8_saves : PZ_SAVED_16BIT;
  bool gate = plan->act_precision > 0;
  if (format == PZ_FORMAT_NVFP4) return gate ? PZ_SAVED_GEMM_4BIT_GATE : PZ_SAVED_GEMM_4BIT;
  if (form != PZ_SAVED_GEMM_8BIT) return form;
  return gate ? PZ_SAVED_GEMM_8BIT_GATE : PZ_SAVED_GEMM_8BIT;
}

/* Bytes of a weight with its transposed copy: in 4 bit, in 8 bit with a scale for each 128 values,
 * and in 8 bit. */
static const double NVFP4_BYTES = 2 * (0.5 + 1.0 / 16), BLOCK_BYTES = 2 * (1 + 4.0 / 128),
                    FP8_BYTES = 2;

/* Returns the bytes that a weight of an 8-bit or 4-bit GEMM has besides weight_bytes: its copies in
 * that format, along rows and along columns.  With 4 bit, and in frameworks of 8-bit weights that
 * have other weights too (pz_plan_keeps_8bit_weights), the 16-bit weight is kept.  With one scale,
 * tensor cores that read operands in both directions need only one copy. */
static double copied_weight_bytes(const struct pz_memory_model *model, const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  enum pz_format format = pz_plan_format(plan);
  if (!format || !framework->transformer_engine) return format ? framework->fp8_weight_bytes : 0;
  if (format == PZ_FORMAT_NVFP4) return NVFP4_BYTES;
  if (format == PZ_FORMAT_FP8_BLOCK) return BLOCK_BYTES;
  return (pz_plan_keeps_8bit_weights(plan) ? framework->fp8_weight_bytes : FP8_BYTES) -
         (model->one_copy && format != PZ_FORMAT_MXFP8 ? 1 : 0);
}

/* Returns the bytes of a frozen weight that is stored in 8 or 4 bit only (fp8_model_init of
 * Transformer Engine in NVIDIA's fine-tuning of MLPerf; measured on GB200: 69.8 GB besides
 * activations, for 68.98e9 parameters).  Blackwell reads 8-bit operands with one scale for a tensor
 * in either order; otherwise, and with scales of blocks, there is a transposed copy.  0 if frozen
 * weights are stored like trained ones. */
static double frozen_weight_bytes(const struct pz_memory_model *model, const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  enum pz_format format = pz_plan_format(plan);
  if (!pz_plan_trains_adapters(plan) || !format || !framework->transformer_engine) return 0;
  if (plan->precision == PZ_PRECISION_FP8 && !plan->zero) return 0; /* as they are trained */
  if (format == PZ_FORMAT_NVFP4) return NVFP4_BYTES;
  if (format == PZ_FORMAT_MXFP8) return 2 * (1 + 1.0 / 32);
  if (format == PZ_FORMAT_FP8_BLOCK) return BLOCK_BYTES;
  return model->one_copy ? 1 : 2;
}

/* Lets the backward pass recompute so many bytes instead of the forward pass saving them. */
static void recompute_instead(struct layer_pass *pass, double bytes) {
  pass->saved -= bytes;
  pass->backward_peak += bytes;
  pass->freed += bytes;
}

static double kind_core_bytes(const struct pz_memory_model *model, const struct pz_layer *layer) {
  for (uint32_t k = 0; k < model->kinds->n && k < PZ_MEMORY_KINDS; k++)
    if (&model->w->layers[model->kinds->layer[k]] == layer) return model->core_bytes[k];
  return core_bytes(model->w, layer);
}

static void recompute(const struct pz_memory_model *model, const struct pz_layer *layer,
                      const struct pz_plan *plan, enum pz_recomputation how,
                      struct layer_pass *pass) {
  double unread, out = (double)layer->output_bytes;
  int modules = pz_plan_selective_modules(plan);
  switch (how) {
  case PZ_RECOMPUTATION_FULL:
    /* where the result is recomputed, it is still there when backward begins */
    pass->forward_peak = (double)layer->live_plain.peak_bytes;
    recompute_instead(pass, pass->saved - (plan->saved ? pz_saved_bytes(layer, plan->saved) : out));
    pass->backward_peak =
        pz_fmax((double)layer->live[PZ_FORWARD].peak_bytes,
                pass->backward_peak + (pz_plan_framework(plan)->stops_early ? 0 : out));
    break;
  case PZ_RECOMPUTATION_SELECTIVE:
    recompute_instead(pass, modules ? pz_modules_bytes(layer, modules, saved_form(layer, plan))
                                    : kind_core_bytes(model, layer));
    break;
  case PZ_RECOMPUTATION_ALTERNATE: {
    double gemms = alternate_bytes(layer, &unread);
    recompute_instead(pass, pz_fmax(0, pass->saved - out - (gemms - unread)));
    if (plan->execution == PZ_EXECUTION_COMPILE)
      break; /* a compiled layer saves only what it reads */
    pass->saved += unread;
    pass->freed -= unread;
    break;
  }
  default: break;
  }
}

static struct layer_pass layer_pass(const struct pz_layer *layer, enum pz_gradients gradients) {
  const struct pz_live *live = &layer->live[PZ_FORWARD], *b = &layer->live_backward[gradients],
                       *plain = &layer->live_backward[PZ_GRADIENTS_IN_PLACE];
  bool stay = gradients == PZ_GRADIENTS_KEPT;
  return (struct layer_pass){.forward_peak = (double)live->peak_bytes,
                             .saved = (double)live->net_bytes,
                             .backward_peak = (double)b->peak_bytes,
                             .freed = (double)plain->net_bytes,
                             .gradient_bytes =
                                 stay ? (double)(b->net_bytes - plain->net_bytes) : 0};
}

/* ---- a stage -------------------------------------------------------------------------------- */

/* The state of a walk through a stage: one microbatch goes forward and backward through the current
 * chunk. */
struct stage_walk {
  const struct pz_memory_model *model;
  const struct pz_plan *plan;
  struct pz_pipeline_shape shape;
  struct pz_plan_layers layers;
  int64_t stage;
  int64_t chunk;        /* the current chunk of the model */
  int64_t start;        /* its first repeated layer */
  int64_t blocks;       /* its repeated layers */
  int64_t n_recomputed; /* of these, the first ones: recomputed */
  int64_t n_offloaded;  /* of these, the first ones: activations on the host */
  enum pz_gradients gradients;
  struct layer_pass first[2][2]; /* of the first kind of repeated layer: recomputed, offloaded */
  double activation_bytes, gradient_bytes; /* now */
  double moving_bytes;        /* now, of a layer's activations on their way to the host or back */
  double logit_bytes;         /* now, saved by the layers behind the repeated ones */
  double communication_bytes; /* transfers between stages */
  double scattered_params;    /* of the previous layer of the backward pass, being scattered */
  bool titan;                 /* torchtitan runs the plan */
  bool fsdp2;                 /* PyTorch's FSDP2 shards it */
  /* The microbatch is the first: sharded gradients appear layer by layer in its backward pass. */
  bool first_gradients;
  /* A second set of sharded gradients stays allocated until the backward pass ends. */
  bool second_gradients;
  struct pz_training_memory peak; /* parts that come and go, at the worst moment */
};

/* The kind of a layer: one of the repeated layers (0 and above), or before or behind them. */
enum { BEFORE = -1, BEHIND = -2 };

static int layer_kind(const struct stage_walk *walk, uint32_t i) {
  const struct pz_layer_kinds *k = walk->model->kinds;
  uint32_t kind = kind_of_layer(k, i);
  return i < k->layer[0] ? BEFORE : kind < k->n ? (int)kind : BEHIND;
}

static const struct pz_layer *first_kind(const struct stage_walk *walk) {
  return &walk->model->w->layers[walk->model->kinds->layer[0]];
}

static bool is_first_chunk(const struct stage_walk *walk) { return walk->chunk == 0; }
static bool is_last_chunk(const struct stage_walk *walk) {
  return walk->chunk == walk->layers.chunks - 1;
}

/* Returns whether PyTorch's FSDP2 shards the plan.  It shards weights with ZeRO 2 too, which there
 * means that gathered weights stay from forward to backward (torchtitan:
 * fsdp_reshard_after_forward "never"). */
static bool is_fsdp2(const struct pz_plan *plan) {
  return pz_plan_framework(plan)->shards_stages && plan->zero >= 2 && pz_plan_shards_state(plan);
}

/* Returns whether gathered weights stay allocated, in 16 bit.  With several stages gradients are
 * scattered once a step, and whole sums of them stay until then
 * (torch/distributed/pipelining/stage.py turns off the synchronisation of all but the last
 * microbatch). */
static bool stays_gathered(const struct pz_plan *plan) {
  return (plan->zero == 3 && plan->pp > 1) || (plan->zero == 2 && is_fsdp2(plan));
}

/* Returns whether gradients are scattered layer by layer in every microbatch. */
static bool scatters_layers(const struct pz_plan *plan) { return is_fsdp2(plan) && plan->pp == 1; }

/* Weights gathered for a layer and the one that is fetched ahead, and in backward its whole
 * gradient, in 16 bit and as it is exchanged (FSDP: Zhao et al., arXiv 2304.11277, section 3.3).
 * A compiler gathers matrix by matrix.  FSDP2 keeps the buffer of the layer before, in which
 * gradients are scattered, through the backward pass of a layer (reduce_scatter_state of
 * torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py). */
static double gathered_bytes(const struct stage_walk *walk, const struct pz_layer *layer,
                             bool backward) {
  const struct pz_plan *plan = walk->plan;
  if (plan->zero < 2 || !pz_plan_shards_state(plan)) return 0;
  if (walk->fsdp2) {
    double weights =
        stays_gathered(plan) ? 0 : HALF_BYTES * (double)(layer->params + first_kind(walk)->params);
    double gradient = backward ? HALF_BYTES * (double)layer->trained_params : 0;
    return weights + gradient +
           (plan->pp == 1 && backward ? plan->grad_bytes * walk->scattered_params : 0);
  }
  if (stays_gathered(plan)) return 0;
  double n = (double)layer->params, next = (double)first_kind(walk)->params,
         trained = (double)layer->trained_params;
  if (pz_framework_compiles(pz_plan_framework(plan))) {
    n = pz_fmin(n, walk->model->matrix_params);
    next = pz_fmin(next, walk->model->matrix_params);
    trained = pz_fmin(trained, n);
  }
  double gradient = backward ? trained * (HALF_BYTES + plan->grad_bytes) : 0;
  return plan->zero == 3 ? HALF_BYTES * (n + next) + gradient : gradient;
}

static double gradient_bytes(const struct pz_plan *plan);
static bool is_titan_head(const struct stage_walk *stage_walk, uint32_t i);

/* Records a moment at which the current layer needs `extra` bytes: it is the peak if it needs the
 * most so far. */
static void record_moment(struct stage_walk *walk, const struct pz_layer *layer, double extra,
                          bool backward) {
  int kind = layer_kind(walk, (uint32_t)(layer - walk->model->w->layers));
  bool head = kind == BEHIND;
  struct pz_training_memory now = {
      .activation_bytes = walk->activation_bytes + (kind >= 0 ? walk->moving_bytes : 0),
      .gradient_bytes = walk->gradient_bytes,
      .work_bytes = head ? 0 : extra,
      .logit_bytes = walk->logit_bytes + (head ? extra : 0),
      .communication_bytes = walk->communication_bytes + gathered_bytes(walk, layer, backward)};
  if (pz_training_memory_sum(&now) > pz_training_memory_sum(&walk->peak)) walk->peak = now;
}

/* How often a chunk has a layer of the graph, and how many of these layers are recomputed, and
 * have their activations on the host. */
struct repeat_counts {
  int64_t n, recomputed, offloaded;
};

static struct repeat_counts chunk_repeats(const struct stage_walk *walk, uint32_t i) {
  const struct pz_layer_kinds *k = walk->model->kinds;
  int kind = layer_kind(walk, i);
  if (kind < 0) {
    bool here = kind == BEFORE ? is_first_chunk(walk) : is_last_chunk(walk);
    return (struct repeat_counts){.n = here ? walk->model->w->layers[i].count : 0};
  }
  return (struct repeat_counts){pz_kind_count(k, (uint32_t)kind, walk->start, walk->blocks),
                                pz_kind_count(k, (uint32_t)kind, walk->start, walk->n_recomputed),
                                pz_kind_count(k, (uint32_t)kind, walk->start, walk->n_offloaded)};
}

static int64_t repeat_count(const struct stage_walk *walk, uint32_t i) {
  return chunk_repeats(walk, i).n;
}

/* Makes a chunk of the model the current one. */
static void enter_chunk(struct stage_walk *walk, int64_t chunk) {
  walk->chunk = chunk;
  walk->start = pz_layers_before(&walk->layers, chunk);
  walk->blocks = pz_layers_at(&walk->layers, chunk);
  walk->n_recomputed = pz_plan_recomputed_layers(walk->plan, walk->stage, walk->blocks);
  walk->n_offloaded = pz_plan_offloaded_layers(walk->plan, walk->blocks);
}

/* Makes the chunk in one of the stage's slots the current one. */
static void enter_slot(struct stage_walk *walk, uint32_t slot) {
  enter_chunk(walk, pz_pipeline_chunk_at(&walk->shape, (uint32_t)walk->stage, slot));
}

/* Returns the part of a layer's saved bytes that goes to the host: all of them, or the inputs of
 * some modules. */
static double layer_offload_bytes(const struct stage_walk *walk, const struct pz_layer *layer,
                                  double saved) {
  if (!walk->plan->offload_modules) return saved;
  return pz_fmin(saved, pz_offloaded_bytes(layer, walk->plan->offload_modules,
                                           pz_plan_recomputed_modules(walk->plan),
                                           saved_form(layer, walk->plan)));
}

/* Returns the bytes that torchtitan saves of a repeated layer besides those of its graph.  What a
 * tensor-parallel group gathers for a GEMM is saved as it was gathered, where Megatron gathers it
 * again.  torchtitan runs a fused query-key-value projection as three GEMMs, so that saving the
 * value does not keep the whole fused tensor alive.  Under autocast the residual stream is fp32. */
static double titan_extra_saved_bytes(const struct pz_plan *plan, const struct pz_layer *layer) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double bytes = 0;
  bool joint = false;
  if (pz_plan_framework(plan)->rules != PZ_RULES_TITAN) return 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool gathers = op->kind == PZ_OP_ALL_GATHER && op->peers == PZ_PEERS_TENSOR;
    bool rotates = strcmp(op->name, "query_rotary") == 0 || strcmp(op->name, "key_rotary") == 0;
    joint = joint || strcmp(op->name, "qkv") == 0;
    if (gathers && plan->tp > 1) bytes += (double)(op->bytes_written - op->bytes_read);
    if (rotates && joint) bytes -= (double)op->bytes_written;
  }
  return bytes + (pz_plan_autocasts(plan) ? 2 * (double)layer->output_bytes : 0);
}

/* Bytes of the keys and values of the whole context that attention gathers in a pass, with their
 * gradients. */
static double titan_gathered_kv_bytes(const struct pz_plan *plan, const struct pz_layer *layer) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double bytes = 0;
  if (pz_plan_framework(plan)->rules != PZ_RULES_TITAN || plan->cp == 1) return 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (op->kind == PZ_OP_ALL_GATHER && op->peers == PZ_PEERS_CONTEXT)
      bytes += (double)op->bytes_written;
  }
  return 2 * bytes;
}

/* Bytes of attention's results that selective recomputation saves besides the final one.  Context
 * parallelism runs attention step by step around a ring, and each step is an attention kernel: the
 * first device has a whole result of the first step and halves of the others (causal blocks in
 * pairs). */
static double titan_ring_result_bytes(const struct pz_plan *plan, const struct pz_layer *layer) {
  bool ring = pz_plan_framework(plan)->rules == PZ_RULES_TITAN && plan->cp > 1 &&
              plan->recompute == PZ_RECOMPUTATION_ALTERNATE;
  return ring ? (double)layer->context_bytes * (1 + 0.5 * (double)(plan->cp - 1)) : 0;
}

/* Returns the memory of layer i of the graph as the plan runs it.  Gradients of embedding and head
 * come from autograd, whatever the GEMMs of the layers do. */
static struct layer_pass make_pass(const struct stage_walk *walk, uint32_t i, bool recomputed,
                                   bool offloaded) {
  const struct pz_layer *layer = &walk->model->w->layers[i];
  bool passing = layer_kind(walk, i) < 0 && walk->gradients == PZ_GRADIENTS_IN_PLACE;
  struct layer_pass x = layer_pass(layer, passing ? PZ_GRADIENTS_PASSING : walk->gradients);
  enum pz_recomputation how = (enum pz_recomputation)walk->plan->recompute;
  if (layer_kind(walk, i) >= 0) {
    double less = (double)layer->less_bytes[saved_form(layer, walk->plan)];
    if (walk->model->copies_context) less -= (double)layer->context_bytes;
    less -= titan_extra_saved_bytes(walk->plan, layer);
    x.saved -= less;
    x.freed += less;
  }
  enum pz_loss loss = pz_plan_loss(walk->plan);
  if (is_titan_head(walk, i)) { /* walk_backward has its moments */
    x.saved = x.forward_peak = HALF_BYTES * (double)layer->logits + (double)layer->output_bytes;
    x.freed = -x.saved;
  }
  if (loss == PZ_LOSS_FP32) {
    /* Adds a copy of the logits in fp32, which the forward pass saves besides the logits.  In
     * the backward pass the derivative replaces it and is cast to 16 bit
     * (megatron/core/tensor_parallel/cross_entropy.py). */
    double logits = (double)layer->logits;
    double more = (LOSS_BYTES - HALF_BYTES) * logits;
    x.forward_peak += LOSS_BYTES * logits;
    x.saved += more;
    x.backward_peak = pz_fmax(HALF_BYTES * logits, x.backward_peak - more);
    x.freed -= more;
  }
  if (loss == PZ_LOSS_BESIDE) x.backward_peak += HALF_BYTES * (double)layer->logits;
  if (how == PZ_RECOMPUTATION_HALF) how = PZ_RECOMPUTATION_FULL;
  if (!recomputed) {
    /* Adds the copies of the experts' results that are saved when these are weighted
     * (frameworks.def, routed_saved_bytes). */
    const struct pz_plan *plan = walk->plan;
    double bytes = pz_plan_framework(plan)->routed_saved_bytes / HALF_BYTES * routed_bytes(layer);
    x.forward_peak += bytes;
    x.saved += bytes;
    x.freed -= bytes;
  }
  if (recomputed) recompute(walk->model, layer, walk->plan, how, &x);
  if (recomputed) recompute_instead(&x, -titan_ring_result_bytes(walk->plan, layer));
  x.backward_peak += titan_gathered_kv_bytes(walk->plan, layer);
  if (offloaded)
    recompute_instead(
        &x, layer_offload_bytes(walk, layer, x.saved)); /* they come back as others are made */
  return x;
}

static struct layer_pass pass_of_layer(const struct stage_walk *walk, uint32_t i, bool recomputed,
                                       bool offloaded) {
  if (i == walk->model->kinds->layer[0]) return walk->first[recomputed][offloaded];
  return make_pass(walk, i, recomputed, offloaded);
}

/* Layers one after another that all go through the stage in the same way: the first `n_recomputed`
 * of a chunk's repeated layers are recomputed, or every second one, the first `n_offloaded` have
 * their activations on the host.  Kinds that alternate are walked one kind after the other. */
struct row {
  int64_t n;
  struct layer_pass pass;
};

static struct row row_starting_at(const struct stage_walk *walk, uint32_t i, int64_t k) {
  struct repeat_counts n = chunk_repeats(walk, i);
  bool half = layer_kind(walk, i) >= 0 && walk->plan->recompute == PZ_RECOMPUTATION_HALF;
  bool again = half ? k % 2 == 0 : k < n.recomputed, away = k < n.offloaded;
  int64_t end = half ? k + 1 : again ? n.recomputed : n.n;
  if (away) end = pz_min(end, n.offloaded);
  return (struct row){end - k, pass_of_layer(walk, i, again, away)};
}

/* Returns the row of layers that ends before layer k. */
static struct row row_ending_before(const struct stage_walk *walk, uint32_t i, int64_t k) {
  struct repeat_counts n = chunk_repeats(walk, i);
  if (layer_kind(walk, i) >= 0 && walk->plan->recompute == PZ_RECOMPUTATION_HALF)
    return row_starting_at(walk, i, k - 1);
  bool again = k <= n.recomputed, away = k <= n.offloaded;
  int64_t start = again ? 0 : n.recomputed;
  if (!away) start = pz_max(start, n.offloaded);
  return (struct row){k - start, pass_of_layer(walk, i, again, away)};
}

/* Returns the bytes that one chunk sends to the next.  What is received stays allocated, what is
 * sent does not. */
static double boundary_bytes(const struct stage_walk *walk) {
  return (double)first_kind(walk)->output_bytes;
}

/* Records the moments of the forward pass of a chunk.  Every layer of a row changes the bytes by
 * the same amount, so that its first or its last layer is the worst. */
static void walk_forward(struct stage_walk *walk) {
  if (!is_first_chunk(walk)) walk->activation_bytes += boundary_bytes(walk);
  for (uint32_t i = 0; i < walk->model->w->n_layers; i++) {
    double *now = layer_kind(walk, i) == BEHIND ? &walk->logit_bytes : &walk->activation_bytes;
    struct row row;
    for (int64_t k = 0; k < repeat_count(walk, i); k += row.n) {
      row = row_starting_at(walk, i, k);
      record_moment(walk, &walk->model->w->layers[i], row.pass.forward_peak, false);
      *now += (double)(row.n - 1) * row.pass.saved;
      if (row.n > 1) record_moment(walk, &walk->model->w->layers[i], row.pass.forward_peak, false);
      *now += row.pass.saved;
    }
  }
  if (!is_last_chunk(walk)) walk->activation_bytes -= boundary_bytes(walk);
}

/* Returns the bytes of the sharded gradients of a layer. */
static double sharded_gradient_bytes(const struct stage_walk *walk, const struct pz_layer *layer) {
  double expert = (double)layer->trained_expert_params,
         dense = (double)layer->trained_params - expert;
  return gradient_bytes(walk->plan) * (dense / (double)pz_plan_shards(walk->plan) +
                                       expert / (double)pz_plan_expert_shards(walk->plan));
}

/* Updates the bytes after the backward passes of n layers with index i. */
static void end_backward(struct stage_walk *walk, uint32_t i, const struct layer_pass *layer_pass,
                         int64_t n) {
  double times = (double)n;
  if (n) walk->scattered_params = (double)walk->model->w->layers[i].trained_params;
  if (walk->first_gradients || walk->second_gradients)
    walk->gradient_bytes += times * sharded_gradient_bytes(walk, &walk->model->w->layers[i]);
  walk->activation_bytes += times * layer_pass->freed;
  if (layer_kind(walk, i) == BEHIND) {
    walk->activation_bytes += times * layer_pass->saved;
    walk->logit_bytes -= times * layer_pass->saved;
  }
  walk->gradient_bytes += times * layer_pass->gradient_bytes;
}

/* Returns whether the layer is the head with the loss of a model of torchtitan, which are separate
 * modules of PyTorch.  Layers that predict further tokens contain a block besides, and torchtitan
 * has none. */
static bool is_titan_head(const struct stage_walk *walk, uint32_t i) {
  const struct pz_layer *layer = &walk->model->w->layers[i];
  return walk->titan && layer_kind(walk, i) == BEHIND && layer->logits > 0 &&
         strncmp(layer->name, "predict", 7) != 0;
}

/* Returns the bytes for each logit while the derivative of the loss is computed.  Compiled, the
 * loss reads 16-bit logits and writes their derivative; else logits are cast to fp32, and the
 * log-softmax, its derivative and that of the loss are in fp32.  Logits divided over a
 * tensor-parallel group are a DTensor, whose loss PyTorch runs step by step
 * (torch/distributed/tensor/parallel/loss.py). */
static double loss_bytes(const struct pz_plan *plan) {
  static const double COMPILED = 2 + 2, EAGER = 3 * 4, DIVIDED = 2 + 2 * 4;
  return plan->tp > 1 ? DIVIDED : plan->execution == PZ_EXECUTION_COMPILE ? COMPILED : EAGER;
}

/* Records one moment of the head's backward pass, given the bytes of logits, of gathered weights
 * and of gradients. */
static void record_head_moment(struct stage_walk *walk, double logits, double weights,
                               double gradients) {
  double hidden = (double)first_kind(walk)->output_bytes;
  struct pz_training_memory now = {.activation_bytes = walk->activation_bytes,
                                   .gradient_bytes = walk->gradient_bytes,
                                   .logit_bytes = logits + 2 * hidden,
                                   .communication_bytes =
                                       walk->communication_bytes + weights + gradients};
  if (pz_training_memory_sum(&now) > pz_training_memory_sum(&walk->peak)) walk->peak = now;
}

/* Records three moments of the head that do not coincide: the derivative of the loss, the GEMMs of
 * the head, and the copy of its gradient to where it is scattered from.  A stage of a pipeline
 * keeps its result, the logits, until the end. */
static void record_titan_head(struct stage_walk *walk, const struct pz_layer *layer) {
  const struct pz_plan *plan = walk->plan;
  double logits = (double)layer->logits, kept = plan->pp > 1 ? HALF_BYTES * logits : 0;
  double trained = (double)layer->trained_params, weights = 0;
  if (is_fsdp2(plan) && !stays_gathered(plan))
    weights = HALF_BYTES * (double)(layer->params + first_kind(walk)->params);
  record_head_moment(walk, loss_bytes(plan) * logits, 0, 0);
  record_head_moment(walk, kept + HALF_BYTES * logits, weights, HALF_BYTES * trained);
  if (scatters_layers(plan))
    record_head_moment(walk, 0, weights, (HALF_BYTES + plan->grad_bytes) * trained);
}

static void walk_backward(struct stage_walk *walk) {
  const struct pz_workload *workload = walk->model->w;
  if (!is_last_chunk(walk)) walk->communication_bytes = boundary_bytes(walk);
  for (uint32_t i = workload->n_layers; i-- > 0;) {
    struct row row;
    for (int64_t k = repeat_count(walk, i); k > 0; k -= row.n) {
      row = row_ending_before(walk, i, k);
      if (is_titan_head(walk, i)) {
        record_titan_head(walk, &workload->layers[i]);
      } else {
        record_moment(walk, &workload->layers[i], row.pass.backward_peak, true);
        int64_t left = row.n - 1;
        if (left > 1 && walk->fsdp2) { /* from now on gradients of the same layer are scattered */
          end_backward(walk, i, &row.pass, 1);
          record_moment(walk, &workload->layers[i], row.pass.backward_peak, true);
          left--;
        }
        end_backward(walk, i, &row.pass, left);
        if (row.n > 1) record_moment(walk, &workload->layers[i], row.pass.backward_peak, true);
      }
      end_backward(walk, i, &row.pass, 1);
    }
  }
  record_moment(walk, &workload->layers[0], 0, false); /* the optimizer's step */
}

/* Returns the activations of a microbatch in a chunk that waits for its backward pass, in bytes. */
static double waiting_bytes(const struct stage_walk *walk) {
  double bytes = boundary_bytes(walk) * (!is_first_chunk(walk) - !is_last_chunk(walk));
  for (uint32_t i = 0; i < walk->model->w->n_layers; i++) {
    struct repeat_counts n = chunk_repeats(walk, i);
    int64_t both = pz_min(n.recomputed, n.offloaded), away = n.offloaded - both;
    int64_t again = n.recomputed - both, plain = n.n - both - away - again;
    if (both) bytes += (double)both * pass_of_layer(walk, i, true, true).saved;
    if (away) bytes += (double)away * pass_of_layer(walk, i, false, true).saved;
    if (again) bytes += (double)again * pass_of_layer(walk, i, true, false).saved;
    if (plain) bytes += (double)plain * pass_of_layer(walk, i, false, false).saved;
  }
  return bytes;
}

/* Returns the bytes of the chunk that are on the host between its forward and its backward pass. */
static double chunk_offload_bytes(const struct stage_walk *walk) {
  struct stage_walk kept = *walk;
  kept.n_offloaded = 0;
  return walk->n_offloaded ? waiting_bytes(&kept) - waiting_bytes(walk) : 0;
}

/* Returns the largest bytes of a layer on its way to the host or back beside the current one
 * (Transformer Engine begins to fetch a layer while another one runs, on_group_commit_backward of
 * its pytorch/cpu_offload.py). */
static double moving_bytes(const struct stage_walk *walk) {
  double most = 0;
  for (uint32_t i = 0; i < walk->model->w->n_layers && walk->n_offloaded; i++) {
    struct repeat_counts n = chunk_repeats(walk, i);
    bool again = n.recomputed > 0;
    if (n.offloaded)
      most = pz_fmax(most, pass_of_layer(walk, i, again, false).saved -
                               pass_of_layer(walk, i, again, true).saved);
  }
  return most;
}

enum { MOST_SLOTS = 2 * PZ_PLAN_MOST_CHUNKS }; /* DualPipe holds two copies */

/* The memory of the chunk in one of a stage's slots. */
struct slot_walk {
  double waiting_bytes;
  struct pz_training_memory peak; /* while a microbatch goes through it and nothing else is there */
};

/* Returns whether two chunks have the same memory: neither has an end of the model, and their
 * layers are the same. */
static bool is_same_chunk(const struct stage_walk *a, const struct stage_walk *b) {
  return a->model->kinds->n == 1 && !is_first_chunk(a) && !is_first_chunk(b) && !is_last_chunk(a) &&
         !is_last_chunk(b) && a->blocks == b->blocks && a->n_recomputed == b->n_recomputed &&
         a->n_offloaded == b->n_offloaded;
}

static void walk_slot(struct stage_walk walk, struct slot_walk *out) {
  out->waiting_bytes = waiting_bytes(&walk);
  walk.moving_bytes = moving_bytes(&walk);
  walk_forward(&walk);
  walk_backward(&walk);
  out->peak = walk.peak;
}

/* Returns whether sums of this many bytes are exact in any order: whole numbers whose sum is below
 * 2^53. */
static bool sums_exactly(double bytes, double times) {
  return bytes == floor(bytes) && fabs(bytes) * times < 0x1p51;
}

/* Finds the worst moment of interleaved chunks from prefix sums over the slots, in linear time.
 * Returns false if sums of bytes would not be exact. */
static bool worst_interleaved(const struct stage_walk *walk, const struct slot_walk *slots,
                              uint32_t n, struct pz_training_memory *worst) {
  double sums[MOST_SLOTS + 1], back[MOST_SLOTS + 1], bytes;
  double times = 4.0 * walk->shape.stages * n; /* at most two rounds of passes are in flight */
  sums[0] = back[0] = 0;
  for (uint32_t c = 0; c < n; c++) {
    if (!sums_exactly(slots[c].waiting_bytes, times) ||
        !sums_exactly(slots[c].peak.activation_bytes, 2))
      return false;
    sums[c + 1] = sums[c] + slots[c].waiting_bytes;
    back[c + 1] = back[c] + slots[n - 1 - c].waiting_bytes;
  }
  for (uint32_t k = 0; k < pz_pipeline_moments(&walk->shape); k++) {
    uint32_t at;
    if (!pz_pipeline_moment_bytes(&walk->shape, (uint32_t)walk->stage, k, sums, back, &at, &bytes))
      continue;
    struct pz_training_memory now = slots[at].peak;
    now.activation_bytes += bytes - slots[at].waiting_bytes;
    if (pz_training_memory_sum(&now) > pz_training_memory_sum(worst)) *worst = now;
  }
  return true;
}

/* Returns the worst moment of a stage: one microbatch goes through one of its chunks, and the
 * others in flight wait. */
static struct pz_training_memory worst_moment(struct stage_walk walk) {
  struct slot_walk slots[MOST_SLOTS];
  uint32_t in_flight[MOST_SLOTS], at, n = pz_pipeline_slots(&walk.shape);
  struct pz_training_memory worst = {.activation_bytes = -HUGE_VAL};
  struct stage_walk before = walk;
  for (uint32_t c = 0; c < n; c++) {
    enter_slot(&walk, c);
    if (c && is_same_chunk(&before, &walk))
      slots[c] = slots[c - 1];
    else
      walk_slot(walk, &slots[c]);
    before = walk;
  }
  if (pz_pipeline_moments(&walk.shape) > 1 && worst_interleaved(&walk, slots, n, &worst))
    return worst;
  for (uint32_t k = 0; k < pz_pipeline_moments(&walk.shape); k++) {
    if (!pz_pipeline_moment(&walk.shape, (uint32_t)walk.stage, k, &at, in_flight)) continue;
    struct pz_training_memory now = slots[at].peak;
    for (uint32_t c = 0; c < n; c++)
      now.activation_bytes += ((double)in_flight[c] - (c == at)) * slots[c].waiting_bytes;
    if (pz_training_memory_sum(&now) > pz_training_memory_sum(&worst)) worst = now;
  }
  return worst;
}

/* ---- what stays ----------------------------------------------------------------------------- */

/* Parameters of a stage, and constants in bytes: data that all layers read, and buffers of layers.
 * A tied matrix has a copy on the first and on the last stage. */
struct stage_sums {
  double dense, expert, constants;
  double trained, trained_expert; /* of dense and expert, those that are trained */
  double blocks;                  /* of dense and expert, those with 8- or 4-bit GEMMs */
};

static struct stage_sums stage_sums(struct stage_walk walk) {
  struct stage_sums n = {.constants = (double)first_kind(&walk)->shared_bytes};
  for (uint32_t c = 0; c < pz_pipeline_slots(&walk.shape); c++) {
    enter_slot(&walk, c);
    for (uint32_t i = 0; i < walk.model->w->n_layers; i++) {
      const struct pz_layer *layer = &walk.model->w->layers[i];
      double times = (double)repeat_count(&walk, i);
      int64_t shared = layer_kind(&walk, i) < 0 ? layer->shared_bytes : 0;
      int64_t tied = pz_pipeline_separates_ends(&walk.shape) ? layer->tied_params : 0;
      n.dense += times * (double)(layer->params - layer->expert_params + tied);
      n.expert += times * (double)layer->expert_params;
      n.trained += times * (double)(layer->trained_params - layer->trained_expert_params +
                                    (pz_plan_trains_adapters(walk.plan) ? 0 : tied));
      n.trained_expert += times * (double)layer->trained_expert_params;
      if (layer_kind(&walk, i) >= 0 && !layer->wide) n.blocks += times * (double)layer->params;
      n.constants += times * (double)(layer->buffer_bytes + shared);
    }
  }
  return n;
}

static double most_gradient_bytes(const struct pz_framework *framework) {
  return framework->accumulation == PZ_ACCUMULATION_KEPT ? HALF_BYTES : MOST_GRADIENT_BYTES;
}

/* Returns the bytes of a parameter's gradient. */
static double gradient_bytes(const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  if (pz_plan_trains_adapters(plan) && framework->adapter_state_bytes > 0)
    return 0; /* as backward leaves them */
  double most =
      pz_fmin(most_gradient_bytes(framework), framework->state_bytes - framework->weight_bytes);
  return framework->exchanges_sums ? pz_fmin(most, plan->grad_bytes) : most;
}

/* Returns the bytes of a parameter's optimizer state: a master copy, if weights have fewer bits,
 * and two moments. */
static double optimizer_bytes(const struct pz_memory_model *model, const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  if (pz_plan_trains_adapters(plan) && framework->adapter_state_bytes > 0)
    return framework->adapter_state_bytes;
  double rest =
      pz_fmax(0, framework->state_bytes - framework->weight_bytes - most_gradient_bytes(framework));
  if (rest > 2 * MOST_MOMENT_BYTES) /* weights are not their own */
    rest = 2 * MOST_MOMENT_BYTES + pz_plan_master_bytes(plan, model->experts);
  else if (rest < 2 * MOST_MOMENT_BYTES) /* moments of 16 bits are its own */
    return rest > 0 && plan->moment_bytes > 0 ? 2 * plan->moment_bytes : rest;
  return pz_fmax(0, rest - 2 * (MOST_MOMENT_BYTES - pz_plan_moment_bytes(plan, model->experts)));
}

/* Adds weights, gradients and optimizer state of n parameters, of which `trained` are trained and
 * which are sharded over so many devices. */
static void add_state(const struct stage_walk *walk, double n, double trained, int64_t shards,
                      struct pz_training_memory *to) {
  const struct pz_plan *plan = walk->plan;
  const struct pz_framework *framework = pz_plan_framework(plan);
  double d = (double)shards;
  bool whole = shards > 1 && stays_gathered(plan);
  bool gradients = plan->zero > 2 || pz_plan_scatters_per_microbatch(plan);
  bool later =
      is_fsdp2(plan) && (plan->pp > 1 || walk->first_gradients); /* sharded gradients come later */
  double here = 1 - pz_plan_host_optimizer_fraction(plan);
  to->weight_bytes += n * framework->weight_bytes / (plan->zero > 2 || is_fsdp2(plan) ? d : 1) +
                      (whole ? n * HALF_BYTES : 0);
  if (!later)
    to->gradient_bytes += trained * gradient_bytes(plan) / (gradients ? d : 1) *
                          (framework->offloads_gradients ? here : 1);
  if (whole && plan->pp > 1) to->gradient_bytes += trained * plan->grad_bytes;
  to->optimizer_bytes += trained * optimizer_bytes(walk->model, plan) / (plan->zero ? d : 1) * here;
}

static struct pz_training_memory state_bytes(const struct stage_walk *walk) {
  const struct pz_framework *framework = pz_plan_framework(walk->plan);
  struct stage_sums n = stage_sums(*walk);
  int64_t copies =
      pz_plan_is_hybrid_sharded(walk->plan) ? 1 : pz_pipeline_copies(walk->shape.order);
  struct pz_training_memory memory = {.activation_bytes = n.constants,
                                      .reserve_bytes = walk->model->reserve_bytes};
  add_state(walk, n.dense, n.trained, pz_plan_shards(walk->plan) * copies, &memory);
  add_state(walk, n.expert, n.trained_expert, pz_plan_expert_shards(walk->plan) * copies, &memory);
  memory.weight_bytes +=
      copied_weight_bytes(walk->model, walk->plan) * n.blocks /
      (double)(pz_plan_gathers_per_layer(walk->plan) ? pz_plan_shards(walk->plan) : 1);
  double frozen = frozen_weight_bytes(walk->model, walk->plan);
  if (frozen > 0)
    memory.weight_bytes +=
        (frozen - copied_weight_bytes(walk->model, walk->plan) - framework->weight_bytes) *
        (n.blocks - n.trained - n.trained_expert) /
        (double)(pz_plan_gathers_per_layer(walk->plan) ? pz_plan_shards(walk->plan) : 1);
  if (pz_plan_autocasts(walk->plan))
    memory.weight_bytes += HALF_BYTES * (n.dense + n.expert); /* its casts */
  if (framework->placeholder_gradients) memory.gradient_bytes += walk->model->placeholder_bytes;
  return memory;
}

static struct stage_walk start_walk(const struct pz_memory_model *model, const struct pz_plan *plan,
                                    int64_t stage) {
  return (struct stage_walk){.model = model,
                             .plan = plan,
                             .shape = pz_plan_pipeline_shape(plan),
                             .layers = pz_plan_layers(plan, model->kinds->n_blocks),
                             .stage = stage,
                             .titan = pz_plan_framework(plan)->rules == PZ_RULES_TITAN,
                             .fsdp2 = is_fsdp2(plan),
                             .gradients = pz_plan_framework(plan)->gradients};
}

static void set_first_passes(struct stage_walk *walk) {
  for (int again = 0; again < 2; again++)
    for (int away = 0; away <= (walk->plan->offload & PZ_OFFLOAD_ACTIVATIONS); away++)
      walk->first[again][away] = make_pass(walk, walk->model->kinds->layer[0], again, away);
}

double pz_chunk_offload_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                              int64_t chunk) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  struct stage_walk walk = start_walk(model, plan, pz_pipeline_stage_of(&shape, (uint32_t)chunk));
  if (!(plan->offload & PZ_OFFLOAD_ACTIVATIONS)) return 0;
  set_first_passes(&walk);
  enter_chunk(&walk, chunk);
  return chunk_offload_bytes(&walk);
}

/* Bytes of a parameter whose optimizer state is on the host: an fp32 copy, its gradient, and two
 * moments. */
static const double HOST_STATE_BYTES = 16;

double pz_host_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                     int64_t microbatches, int64_t stage) {
  struct stage_walk walk = start_walk(model, plan, stage);
  double away[MOST_SLOTS], most = 0, state = 0;
  uint32_t in_flight[MOST_SLOTS], at, n = pz_pipeline_slots(&walk.shape);
  if (!plan->offload) return 0;
  walk.shape.microbatches = (uint32_t)microbatches;
  set_first_passes(&walk);
  for (uint32_t c = 0; c < n; c++) {
    enter_slot(&walk, c);
    away[c] = chunk_offload_bytes(&walk);
  }
  for (uint32_t k = 0; k < pz_pipeline_moments(&walk.shape); k++) {
    double now = 0;
    if (!pz_pipeline_moment(&walk.shape, (uint32_t)stage, k, &at, in_flight)) continue;
    for (uint32_t c = 0; c < n; c++) now += (double)in_flight[c] * away[c];
    most = pz_fmax(most, now);
  }
  if (pz_plan_host_optimizer_fraction(plan) > 0) {
    struct stage_sums sums = stage_sums(walk);
    int64_t copies = pz_plan_is_hybrid_sharded(plan) ? 1 : pz_pipeline_copies(walk.shape.order);
    state = sums.dense / (double)(plan->zero ? pz_plan_shards(plan) * copies : 1) +
            sums.expert / (double)(plan->zero ? pz_plan_expert_shards(plan) * copies : 1);
  }
  return most + pz_plan_host_optimizer_fraction(plan) * HOST_STATE_BYTES * state;
}

struct pz_training_memory pz_training_memory(const struct pz_memory_model *model,
                                             const struct pz_plan *plan, int64_t microbatches,
                                             int64_t stage) {
  struct stage_walk walk = start_walk(model, plan, stage);
  walk.shape.microbatches = (uint32_t)microbatches;
  walk.first_gradients = scatters_layers(plan) && microbatches == 1;
  /* with replicas of the shards, what is all-reduced over them (all_reduce_state of
   * _fsdp_param_group.py) */
  walk.second_gradients =
      scatters_layers(plan) && microbatches > 1 && pz_plan_is_hybrid_sharded(plan);
  struct pz_training_memory all = state_bytes(&walk);
  bool sharded = plan->zero > 1 && pz_plan_shards_state(plan);
  if (sharded) walk.gradients = PZ_GRADIENTS_IN_PLACE; /* counted as communication */
  if (walk.gradients == PZ_GRADIENTS_KEPT && microbatches > 1) {
    /* the first microbatch's gradients are there when the next one's are added */
    struct stage_sums n = stage_sums(walk);
    all.gradient_bytes += HALF_BYTES * (n.trained + n.trained_expert);
    walk.gradients = PZ_GRADIENTS_PASSING;
  }
  set_first_passes(&walk);
  struct pz_training_memory now = worst_moment(walk);
  all.gradient_bytes += now.gradient_bytes;
  all.activation_bytes += now.activation_bytes;
  all.work_bytes = now.work_bytes;
  all.logit_bytes = now.logit_bytes;
  all.communication_bytes = now.communication_bytes;
  return all;
}

/* ---- what the allocator reserves
 * ----------------------------------------------------------------- */

/* Returns the bytes that PyTorch's allocator reserves for FSDP2 beyond the peak: memory freed in
 * one stream cannot be used in another before both synchronise, and blocks of different sizes
 * leave gaps.  With several stages, gradients stay allocated through the step. */
static double fsdp2_gaps(const struct pz_memory_model *model, const struct pz_constants *k,
                         const struct pz_plan *plan, const struct pz_training_memory *peak,
                         double moving) {
  bool stays = plan->pp > 1;
  double bytes = k->reserved_dynamic * (moving + (stays ? 0 : peak->gradient_bytes)) +
                 k->reserved_routed * model->routed_bytes;
  if (!is_fsdp2(plan)) return bytes;
  bytes += k->reserved_state * peak->optimizer_bytes;
  if (stays) /* sums in fp32 beside weights in 16 bit */
    return bytes +
           k->reserved_whole * peak->gradient_bytes * (1 + HALF_BYTES / MOST_GRADIENT_BYTES);
  return bytes + k->reserved_gathered * HALF_BYTES * model->layer_params;
}

/* Returns the bytes that Megatron Core reserves besides what stays through a step: the optimizer's
 * temporaries, and with ZeRO 1 the blocks in which the parameters were allocated one by one before
 * they were copied into one buffer (megatron/core/distributed/param_and_grad_buffer.py).  The
 * temporaries are in fp32 and too large for these blocks; activations use both. */
static double megatron_blocks(const struct pz_constants *k, const struct pz_plan *plan,
                              const struct pz_training_memory *peak) {
  if (pz_plan_framework(plan)->rules != PZ_RULES_CORE) return 0;
  return k->reserved_root * peak->optimizer_bytes + (plan->zero == 1 ? peak->weight_bytes : 0);
}

/* Returns the bytes that the allocator is expected to reserve for a stage with this peak. */
static double allocator_bytes(const struct pz_memory_model *model, const struct pz_constants *k,
                              const struct pz_plan *plan, const struct pz_training_memory *peak) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  double sum = pz_training_memory_sum(peak);
  double moving =
      sum - peak->weight_bytes - peak->gradient_bytes - peak->optimizer_bytes - peak->reserve_bytes;
  if (pz_framework_compiles(framework)) return sum; /* its buffers are laid out before it runs */
  if (framework->shards_stages) return sum + fsdp2_gaps(model, k, plan, peak, moving);
  return pz_fmax(sum * (1 + k->reserved_other), sum - moving + megatron_blocks(k, plan, peak));
}

/* Groups of plans whose predictions are equally good: FSDP2, FSDP2 with several stages of
 * tensor-parallel groups, programs that XLA compiles, and the plans of all other frameworks, which
 * have the interval of Megatron-LM. */
enum margin_group { FSDP2, DIVIDED_STAGES, COMPILED, OTHER };
static const struct {
  double low, high;
} margins[] = {
#define MARGIN(group, low, high, ranks) [group] = {low, high},
#include "step/memory_margin.def"
};

struct pz_reserved pz_reserved_of(const struct pz_memory_model *model, const struct pz_constants *k,
                                  const struct pz_plan *plan,
                                  const struct pz_training_memory *peak) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  enum margin_group group = OTHER;
  if (pz_framework_compiles(framework)) group = COMPILED;
  if (framework->shards_stages) group = plan->pp > 1 && plan->tp > 1 ? DIVIDED_STAGES : FSDP2;
  double bytes = allocator_bytes(model, k, plan, peak);
  double low = margins[group].low, high = margins[group].high;
  if (model->measured > 0)
    low = pz_fmin(0, model->measured - 1), high = pz_fmax(0, model->measured - 1);
  if (plan->memory_margin >= 0) high = plan->memory_margin / 100;
  return (struct pz_reserved){bytes, bytes * (1 + pz_fmin(low, high)), bytes * (1 + high)};
}
