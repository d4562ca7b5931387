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

/* The most entries of the table pz_layer_kinds.before that are allocated: 32 MiB. */
static const int64_t MOST_ENTRIES = 1 << 22;

/* Returns whether the layer is a repeated layer.  Those that predict further tokens are not. */
bool pz_is_block(const struct pz_layer *layer) {
  return strncmp(layer->name, "block", 5) == 0 ||
         (layer->count > 1 && strncmp(layer->name, "predict", 7) != 0);
}

/* Returns the index of the kind of repeated layer that layer `layer` of the workload is, or
 * kinds->n if it is not a repeated layer. */
static uint32_t kind_of_layer(const struct pz_layer_kinds *kinds, uint32_t layer) {
  uint32_t kind = 0;
  while (kind < kinds->n && kinds->layer[kind] != layer) kind++;
  return kind;
}

/* Finds the kinds of repeated layers (layers of the graph that occur several times in the model),
 * and the order in which they run. */
struct pz_layer_kinds pz_layer_kinds_of(struct pz_call *call, const struct pz_workload *workload) {
  struct pz_layer_kinds kinds = {.layer = pz_alloc(call, workload->n_layers, sizeof *kinds.layer)};
  for (uint32_t i = 0; i < workload->n_layers; i++)
    if (pz_is_block(&workload->layers[i])) {
      kinds.layer[kinds.n++] = i;
      kinds.n_blocks += workload->layers[i].count;
    }
  if (!kinds.n) { /* without repeated layers, the first layer counts as one */
    kinds.layer[kinds.n++] = 0;
    kinds.n_blocks = workload->layers[0].count;
  }
  if (kinds.n == 1) return kinds;
  if (kinds.n_blocks >= MOST_ENTRIES / kinds.n)
    pz_raise(call, PZ_LIMIT, "%s has too many kinds of repeated layers for a training plan",
             workload->model);
  /* count the repeated layers of each kind before each repeated layer */
  kinds.before =
      pz_alloc(call, (size_t)kinds.n * ((size_t)kinds.n_blocks + 1), sizeof *kinds.before);
  int64_t n_counted = 0, row_length = kinds.n_blocks + 1;
  for (uint32_t run = 0; run < workload->n_order; run++)
    for (int64_t repeat = 0; repeat < workload->order[run].repeats; repeat++)
      for (uint32_t unit = 0; unit < workload->order[run].n_unit; unit++) {
        uint32_t kind = kind_of_layer(&kinds, workload->order[run].unit[unit]);
        bool is_repeated = kind < kinds.n;
        if (!is_repeated || n_counted == kinds.n_blocks) continue;
        for (uint32_t i = 0; i < kinds.n; i++) {
          int64_t *before = &kinds.before[i * row_length + n_counted];
          before[1] = before[0] + (i == kind);
        }
        n_counted++;
      }
  return kinds;
}

/* ---- a model -------------------------------------------------------------------------------- */

/* Bytes of an fp32 gradient, of a 16-bit value, of an fp32 moment of Adam, and of an fp32 logit. */
static const double FP32_GRADIENT_BYTES = 4, BF16_BYTES = 2, FP32_MOMENT_BYTES = 4, LOSS_BYTES = 4;

double pz_training_memory_sum(const struct pz_training_memory *memory) {
  return memory->weight_bytes + memory->gradient_bytes + memory->optimizer_bytes +
         memory->activation_bytes + memory->work_bytes + memory->logit_bytes +
         memory->communication_bytes + memory->reserve_bytes;
}

/* Returns whether the last two dimensions of a tensor are n, as those of scores of n tokens. */
static bool is_square(const struct pz_tensor *tensor, int64_t n) {
  return tensor->n_dims >= 3 && tensor->shape[tensor->n_dims - 2] == n &&
         tensor->shape[tensor->n_dims - 1] == n;
}

/* Returns the bytes that the attention core of a layer saves without flash attention: the score
 * of every query with every key, and the dropout mask of one byte for each score. */
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

/* Bytes of the cuBLAS workspace of Transformer Engine on Hopper and later (compute capability
 * 9.0) and on older GPUs, and the number of streams for grouped GEMMs, which have one workspace
 * each (get_cublas_workspace_size_bytes, get_multi_stream_cublas_workspace in its
 * pytorch/module/base.py). */
static const double ENGINE_BYTES = 32 << 20, OLD_ENGINE_BYTES = 4 << 20;
static const double GROUPED_STREAMS = 4;

/* Returns the bytes of the tokens that a layer sends to experts, one copy for each chosen one. */
static double routed_bytes(const struct pz_layer *layer) {
  double bytes = 0;
  for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
    if (op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_GATHER_ROWS)
      bytes = pz_fmax(bytes, (double)op->bytes_written);
  }
  return bytes;
}

/* Returns the quantities of a model, for the framework and attention library of a plan, from which
 * the memory of plans is computed.  Megatron stores activations by token and FlashAttention by
 * sample, so a microbatch of several samples is copied (flash_attn in Transformer Engine's
 * pytorch/attention).  The kernels of cuDNN, the default on Hopper and later, need no copy.
 * Placeholders are the empty 16-bit gradients of a layer's matrices that Transformer Engine returns
 * where GEMMs add gradients to an fp32 buffer; all layers share them (plan/frameworks.def). */
struct pz_memory_model pz_memory_model_of(const struct pz_workload *workload,
                                          const struct pz_layer_kinds *kinds,
                                          const struct pz_chip *chip, const struct pz_plan *plan) {
  struct pz_memory_model model = {.workload = workload, .kinds = kinds};
  const struct pz_framework *framework = pz_plan_framework(plan);
  bool hopper = chip->calibration.fp8_speedup > 1; /* or later: older chips have no FP8 */
  /* maxima over the repeated layers, then over all layers */
  for (uint32_t kind = 0; kind < kinds->n; kind++) {
    const struct pz_layer *layer = &workload->layers[kinds->layer[kind]];
    double trained_params = 0; /* in matrices */
    if (kind < PZ_MEMORY_KINDS) model.core_bytes[kind] = core_bytes(workload, layer);
    for (uint32_t i = 0; i < layer->n_tensors; i++) {
      const struct pz_tensor *tensor = &layer->tensors[i];
      if (tensor->role == PZ_ROLE_PARAM && tensor->n_dims > 1 && !tensor->frozen)
        trained_params += (double)tensor->elems;
    }
    model.placeholder_bytes = pz_fmax(model.placeholder_bytes, BF16_BYTES * trained_params);
  }
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    const struct pz_layer *layer = &workload->layers[i];
    model.experts = model.experts || layer->model_expert_params > 0;
    model.layer_params = pz_fmax(model.layer_params, (double)layer->params);
    model.routed_bytes = pz_fmax(model.routed_bytes, routed_bytes(layer));
    for (uint32_t k = 0; k < layer->n_tensors; k++)
      if (layer->tensors[k].role == PZ_ROLE_PARAM)
        model.matrix_params = pz_fmax(model.matrix_params, (double)layer->tensors[k].elems);
  }
  /* copies and workspaces of libraries */
  const char *library = plan->attention_library;
  bool copying_kernels = library && *library ? strcmp(library, "fa2") == 0 : !hopper;
  model.copies_context =
      framework->transformer_engine && workload->options.mbs > 1 && copying_kernels;
  /* tensor cores read 8-bit operands along either dimension since Blackwell, which brought NVFP4 */
  model.reads_any_order = pz_chip_has_nvfp4(chip);
  model.measured_ratio = chip->correction.memory;
  model.reserve_bytes = framework->reserve_bytes;
  /* one workspace for plain GEMMs, and one for each stream of the experts' grouped GEMMs */
  double workspaces = 1 + (model.experts ? GROUPED_STREAMS : 0);
  if (framework->transformer_engine)
    model.reserve_bytes += (hopper ? ENGINE_BYTES : OLD_ENGINE_BYTES) * workspaces;
  return model;
}

/* ---- a layer in time ------------------------------------------------------------------------ */

/* The memory of a layer's forward and backward pass, in bytes relative to the pass's beginning. */
struct layer_pass {
  double forward_peak;
  double saved_bytes; /* activations that remain after the forward pass */
  double backward_peak;
  double net_backward_bytes; /* change over the backward pass without gradients, usually negative */
  double gradient_bytes;     /* parameter gradients that remain after the backward pass */
};

/* Returns the bytes that torchtitan's selective checkpointing by operator saves: the results of
 * every second GEMM of a layer from the first on, of attention and of reduce-scatters
 * (torchtitan/models/llama3/infra/parallelize.py).  In a layer with experts, whose modules are
 * compiled separately, it does not see the GEMMs (measured: Qwen3-30B-A3B on an H200).  Sets
 * *unread_bytes to the part that the backward pass does not read. */
static double alternate_bytes(const struct pz_layer *layer, double *unread_bytes) {
  double saved_bytes = 0;
  uint32_t n_gemms = 0;
  *unread_bytes = 0;
  for (uint32_t i = 0; i < layer->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &layer->ops[PZ_FORWARD].op[i];
    bool is_gemm = op->kind == PZ_OP_MATMUL && !layer->model_expert_params;
    bool is_listed = op->kind == PZ_OP_ATTENTION || op->kind == PZ_OP_REDUCE_SCATTER;
    if (is_gemm) n_gemms++;
    bool is_odd_gemm = is_gemm && n_gemms % 2;
    if (!is_listed && !is_odd_gemm) continue;
    const struct pz_tensor *tensor = &layer->tensors[op->out[0]];
    /* the first reduce-scatter is read to recompute the residual sum; the last is in the result */
    bool is_read = op->kind == PZ_OP_REDUCE_SCATTER && i + 2 < layer->ops[PZ_FORWARD].n;
    for (uint32_t k = 0; k < layer->n_saved; k++)
      is_read = is_read || layer->saved[k] == tensor->storage;
    double bytes = (double)(tensor->elems * tensor->elem_bytes);
    saved_bytes += bytes;
    if (!is_read) *unread_bytes += bytes;
  }
  return saved_bytes;
}

/* Returns which activations a repeated layer saves in 8 or 4 bit: none, the inputs of GEMMs, or
 * also those of the gate's activation function. */
static enum pz_saved_form saved_form(const struct pz_layer *layer, const struct pz_plan *plan) {
  enum pz_format format = layer->wide ? PZ_FORMAT_16BIT : pz_plan_format(plan);
  enum pz_saved_form fp8_form = format ? pz_plan_framework(plan)->fp8_saves : PZ_SAVED_16BIT;
  bool saves_gate_8bit = plan->act_precision > 0;
  if (format == PZ_FORMAT_NVFP4)
    return saves_gate_8bit ? PZ_SAVED_GEMM_4BIT_GATE : PZ_SAVED_GEMM_4BIT;
  if (fp8_form != PZ_SAVED_GEMM_8BIT) return fp8_form;
  return saves_gate_8bit ? PZ_SAVED_GEMM_8BIT_GATE : PZ_SAVED_GEMM_8BIT;
}

/* Bytes of a weight with its transposed copy: in NVFP4 with a scale for each 16 values, in FP8
 * with a scale for each 128 values, and in FP8 with one scale for each tensor. */
static const double NVFP4_BYTES = 2 * (0.5 + 1.0 / 16), BLOCK_BYTES = 2 * (1 + 4.0 / 128),
                    FP8_BYTES = 2;

/* Returns the bytes for each weight that its 8-bit or 4-bit copies occupy besides
 * framework->weight_bytes.  GEMMs read a copy along rows and a copy along columns.  Tensor cores
 * that read operands in any order need only one of them if each tensor has a single scale. */
static double copied_weight_bytes(const struct pz_memory_model *model, const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  enum pz_format format = pz_plan_format(plan);
  if (!format || !framework->transformer_engine) return format ? framework->fp8_weight_bytes : 0;
  if (format == PZ_FORMAT_NVFP4) return NVFP4_BYTES;
  if (format == PZ_FORMAT_FP8_BLOCK) return BLOCK_BYTES;
  return (pz_plan_keeps_8bit_weights(plan) ? framework->fp8_weight_bytes : FP8_BYTES) -
         (model->reads_any_order && format != PZ_FORMAT_MXFP8 ? 1 : 0);
}

/* Returns the bytes of a frozen weight that is stored in 8 or 4 bit only, or 0 if frozen weights
 * are stored like trained ones (fp8_model_init of Transformer Engine in NVIDIA's MLPerf
 * fine-tuning; measured on GB200: 69.8 GB besides activations for 68.98e9 parameters).  All but
 * Blackwell with one scale for each tensor store a transposed copy too. */
static double frozen_weight_bytes(const struct pz_memory_model *model, const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  enum pz_format format = pz_plan_format(plan);
  if (!pz_plan_trains_adapters(plan) || !format || !framework->transformer_engine) return 0;
  if (plan->precision == PZ_PRECISION_FP8 && !plan->zero) return 0;
  if (format == PZ_FORMAT_NVFP4) return NVFP4_BYTES;
  if (format == PZ_FORMAT_MXFP8) return 2 * (1 + 1.0 / 32);
  if (format == PZ_FORMAT_FP8_BLOCK) return BLOCK_BYTES;
  return model->reads_any_order ? 1 : 2;
}

/* Changes the memory of a layer's passes for `bytes` of activations that are not saved, but
 * recomputed or copied back from the host when the backward pass begins. */
static void recompute_instead(struct layer_pass *pass, double bytes) {
  pass->saved_bytes -= bytes;
  pass->backward_peak += bytes;
  pass->net_backward_bytes += bytes;
}

/* Changes the memory of a layer's passes, made without recomputation, to that with the plan's
 * recomputation; `kind` is its kind of repeated layer.  Ring attention runs one kernel for each
 * turn of the ring, whose results torchtitan's selective recomputation saves: with causal masks,
 * the first device has a whole result in the first turn and half of one in each other. */
static void recompute(const struct pz_memory_model *model, const struct pz_layer *layer,
                      uint32_t kind, const struct pz_plan *plan, struct layer_pass *pass) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  double unread_bytes, output_bytes = (double)layer->output_bytes;
  int modules = pz_plan_selective_modules(plan);
  switch (plan->recompute) {
  case PZ_RECOMPUTATION_FULL:
  case PZ_RECOMPUTATION_HALF:
    /* the recomputed result of a layer is still allocated when its backward pass begins */
    pass->forward_peak = (double)layer->live_plain.peak_bytes;
    recompute_instead(pass, pass->saved_bytes -
                                (plan->saved ? pz_saved_bytes(layer, plan->saved) : output_bytes));
    pass->backward_peak =
        pz_fmax((double)layer->live[PZ_FORWARD].peak_bytes,
                pass->backward_peak + (framework->stops_early ? 0 : output_bytes));
    break;
  case PZ_RECOMPUTATION_SELECTIVE:
    if (modules)
      recompute_instead(pass, pz_modules_bytes(layer, modules, saved_form(layer, plan)));
    else if (kind < PZ_MEMORY_KINDS)
      recompute_instead(pass, model->core_bytes[kind]);
    else
      recompute_instead(pass, core_bytes(model->workload, layer));
    break;
  case PZ_RECOMPUTATION_ALTERNATE: {
    /* of the saved results, the backward pass reads all but unread_bytes */
    double result_bytes = alternate_bytes(layer, &unread_bytes);
    double read_bytes = result_bytes - unread_bytes;
    recompute_instead(pass, pz_fmax(0, pass->saved_bytes - output_bytes - read_bytes));
    if (plan->execution != PZ_EXECUTION_COMPILE) {
      /* a compiled layer saves only what its backward pass reads */
      pass->saved_bytes += unread_bytes;
      pass->net_backward_bytes -= unread_bytes;
    }
    if (framework->rules == PZ_RULES_TITAN && plan->cp > 1) {
      double ring_results = 1 + 0.5 * (double)(plan->cp - 1); /* saved besides */
      recompute_instead(pass, -((double)layer->context_bytes * ring_results));
    }
    break;
  }
  default: break;
  }
}

/* ---- a stage -------------------------------------------------------------------------------- */

/* The state of a walk through a stage: a microbatch goes forward and back through one chunk (the
 * layers that the stage runs in one pass), and at every moment the allocated bytes are compared
 * with the peak.  A moment is the point in a layer's pass at which it allocates the most. */
struct stage_walk {
  const struct pz_memory_model *model;
  const struct pz_plan *plan;
  struct pz_pipeline_shape shape;
  struct pz_plan_layers layers;
  int64_t stage;
  bool is_first_chunk;  /* the current chunk contains the embedding */
  bool is_last_chunk;   /* the current chunk contains the head */
  int64_t first_block;  /* index of the chunk's first repeated layer */
  int64_t blocks;       /* number of repeated layers in the chunk */
  int64_t n_recomputed; /* how many of them, from the first on, are recomputed */
  int64_t n_offloaded;  /* how many of them, from the first on, offload activations */
  enum pz_gradients gradients;
  /* Passes of the first kind of repeated layer, by [recomputed][offloaded]. */
  struct layer_pass first_kind_passes[2][2];
  double activation_bytes, gradient_bytes; /* bytes allocated at the current moment */
  double moving_bytes;        /* bytes of activations that are copied to or from the host */
  double logit_bytes;         /* bytes saved by the layers after the repeated ones */
  double communication_bytes; /* bytes of buffers for transfers between stages */
  double scattered_params;    /* parameters of the layer whose gradients are being scattered */
  bool titan;                 /* the framework is torchtitan */
  bool fsdp2;                 /* PyTorch's FSDP2 shards the plan */
  /* The microbatch is the first: sharded gradients appear layer by layer in its backward pass. */
  bool first_gradients;
  /* A second set of sharded gradients stays allocated until the backward pass ends. */
  bool second_gradients;
  struct pz_training_memory peak; /* temporary memory at the worst moment so far */
};

/* Kinds of the layers before and after the repeated ones, which have kinds from 0 on. */
enum { BEFORE_BLOCKS = -1, AFTER_BLOCKS = -2 };

/* Returns the kind of layer i, or BEFORE_BLOCKS or AFTER_BLOCKS. */
static int layer_kind(const struct stage_walk *walk, uint32_t i) {
  const struct pz_layer_kinds *kinds = walk->model->kinds;
  uint32_t kind = kind_of_layer(kinds, i);
  if (i < kinds->layer[0]) return BEFORE_BLOCKS;
  return kind < kinds->n ? (int)kind : AFTER_BLOCKS;
}

/* Returns the first repeated layer. */
static const struct pz_layer *first_block_layer(const struct stage_walk *walk) {
  return &walk->model->workload->layers[walk->model->kinds->layer[0]];
}

/* Returns whether the layer is the head with the loss in torchtitan, where these are separate
 * modules.  Layers for multi-token prediction do not count. */
static bool is_titan_head(const struct stage_walk *walk, uint32_t i) {
  const struct pz_layer *layer = &walk->model->workload->layers[i];
  return walk->titan && layer_kind(walk, i) == AFTER_BLOCKS && layer->logits > 0 &&
         strncmp(layer->name, "predict", 7) != 0;
}

/* Returns whether PyTorch's FSDP2 shards the plan.  It shards weights even at ZeRO stage 2,
 * where gathered weights stay allocated from the forward to the backward pass
 * (fsdp_reshard_after_forward "never" of torchtitan). */
static bool is_fsdp2(const struct pz_plan *plan) {
  return pz_plan_framework(plan)->shards_stages && plan->zero >= 2 && pz_plan_shards_state(plan);
}

/* Returns whether gathered 16-bit weights stay allocated between passes.  With several stages,
 * unsharded gradient sums stay too, because gradients are scattered once a step
 * (torch/distributed/pipelining/stage.py synchronises the last microbatch only). */
static bool stays_gathered(const struct pz_plan *plan) {
  return (plan->zero == 3 && plan->pp > 1) || (plan->zero == 2 && is_fsdp2(plan));
}

/* Returns the temporary bytes of sharded weights and gradients while a layer runs: weights gathered
 * for it and for the prefetched layer, and in the backward pass its whole gradient (FSDP: Zhao et
 * al., arXiv 2304.11277, section 3.3).  A compiler gathers one matrix at a time.  FSDP2 also keeps
 * the reduce-scatter buffer of the previous layer
 * (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, reduce_scatter_state). */
static double gathered_bytes(const struct stage_walk *walk, const struct pz_layer *layer,
                             enum pz_direction direction) {
  const struct pz_plan *plan = walk->plan;
  bool backward = direction == PZ_BACKWARD;
  if (plan->zero < 2 || !pz_plan_shards_state(plan)) return 0;
  if (walk->fsdp2) {
    int64_t gathered = layer->params + first_block_layer(walk)->params;
    double weight_bytes = stays_gathered(plan) ? 0 : BF16_BYTES * (double)gathered;
    double gradient_bytes = backward ? BF16_BYTES * (double)layer->trained_params : 0;
    return weight_bytes + gradient_bytes +
           (plan->pp == 1 && backward ? plan->grad_bytes * walk->scattered_params : 0);
  }
  if (stays_gathered(plan)) return 0;
  double params = (double)layer->params, trained_params = (double)layer->trained_params;
  double next_params = (double)first_block_layer(walk)->params;
  if (pz_framework_compiles(pz_plan_framework(plan))) {
    params = pz_fmin(params, walk->model->matrix_params);
    next_params = pz_fmin(next_params, walk->model->matrix_params);
    trained_params = pz_fmin(trained_params, params);
  }
  double gradient_bytes = backward ? trained_params * (BF16_BYTES + plan->grad_bytes) : 0;
  return plan->zero == 3 ? BF16_BYTES * (params + next_params) + gradient_bytes : gradient_bytes;
}

static double gradient_bytes(const struct pz_plan *plan);

/* Updates the peak with a moment of a layer's pass, at which it uses `work_bytes` temporarily. */
static void record_moment(struct stage_walk *walk, const struct pz_layer *layer, double work_bytes,
                          enum pz_direction direction) {
  int kind = layer_kind(walk, (uint32_t)(layer - walk->model->workload->layers));
  bool is_head = kind == AFTER_BLOCKS;
  struct pz_training_memory now = {
      .activation_bytes = walk->activation_bytes + (kind >= 0 ? walk->moving_bytes : 0),
      .gradient_bytes = walk->gradient_bytes,
      .work_bytes = is_head ? 0 : work_bytes,
      .logit_bytes = walk->logit_bytes + (is_head ? work_bytes : 0),
      .communication_bytes = walk->communication_bytes + gathered_bytes(walk, layer, direction)};
  if (pz_training_memory_sum(&now) > pz_training_memory_sum(&walk->peak)) walk->peak = now;
}

/* How many times a layer occurs in a chunk, and how many of these are recomputed or offloaded. */
struct repeat_counts {
  int64_t n, recomputed, offloaded;
};

/* Counts the occurrences of layer i in the current chunk. */
static struct repeat_counts chunk_repeats(const struct stage_walk *walk, uint32_t i) {
  const struct pz_layer_kinds *kinds = walk->model->kinds;
  int kind = layer_kind(walk, i);
  if (kind < 0) {
    bool in_chunk = kind == BEFORE_BLOCKS ? walk->is_first_chunk : walk->is_last_chunk;
    return (struct repeat_counts){.n = in_chunk ? walk->model->workload->layers[i].count : 0};
  }
  return (struct repeat_counts){
      pz_kind_count(kinds, (uint32_t)kind, walk->first_block, walk->blocks),
      pz_kind_count(kinds, (uint32_t)kind, walk->first_block, walk->n_recomputed),
      pz_kind_count(kinds, (uint32_t)kind, walk->first_block, walk->n_offloaded)};
}

/* Makes a chunk of the model the current one. */
static void enter_chunk(struct stage_walk *walk, int64_t chunk) {
  walk->is_first_chunk = chunk == 0;
  walk->is_last_chunk = chunk == walk->layers.chunks - 1;
  walk->first_block = pz_layers_before(&walk->layers, chunk);
  walk->blocks = pz_layers_at(&walk->layers, chunk);
  walk->n_recomputed = pz_plan_recomputed_layers(walk->plan, walk->stage, walk->blocks);
  walk->n_offloaded = pz_plan_offloaded_layers(walk->plan, walk->blocks);
}

/* Returns the bytes that torchtitan saves for a repeated layer besides those of its graph.  It
 * saves gathered inputs of tensor-parallel GEMMs, which Megatron gathers again.  It computes
 * query, key and value by three GEMMs, so that saving the value does not keep a fused tensor
 * alive.  Under autocast, the residual stream is fp32. */
static double titan_extra_saved_bytes(const struct pz_plan *plan, const struct pz_layer *layer) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double bytes = 0;
  bool has_fused_qkv = false;
  if (pz_plan_framework(plan)->rules != PZ_RULES_TITAN) return 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool gathers = op->kind == PZ_OP_ALL_GATHER && op->peers == PZ_PEERS_TENSOR;
    bool rotates = strcmp(op->name, "query_rotary") == 0 || strcmp(op->name, "key_rotary") == 0;
    has_fused_qkv = has_fused_qkv || strcmp(op->name, "qkv") == 0;
    if (gathers && plan->tp > 1) bytes += (double)(op->bytes_written - op->bytes_read);
    if (rotates && has_fused_qkv) bytes -= (double)op->bytes_written;
  }
  return bytes + (pz_plan_autocasts(plan) ? 2 * (double)layer->output_bytes : 0);
}

/* Returns the bytes of the keys and values of the whole context that attention gathers in
 * torchtitan, with their gradients. */
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

/* Returns the memory of the passes of layer i of the graph: that of the graph, changed for the
 * number formats, the loss, the recomputation and the offload of the plan. */
static struct layer_pass make_pass(const struct stage_walk *walk, uint32_t i, bool recomputed,
                                   bool offloaded) {
  const struct pz_layer *layer = &walk->model->workload->layers[i];
  const struct pz_plan *plan = walk->plan;
  enum pz_saved_form form = saved_form(layer, plan);
  /* where gradients go: embedding and head always receive their gradients from autograd */
  bool from_autograd = layer_kind(walk, i) < 0 && walk->gradients == PZ_GRADIENTS_IN_PLACE;
  enum pz_gradients gradients = from_autograd ? PZ_GRADIENTS_PASSING : walk->gradients;
  const struct pz_live *backward = &layer->live_backward[gradients];
  int64_t net_backward_bytes = layer->live_backward[PZ_GRADIENTS_IN_PLACE].net_bytes;
  struct layer_pass pass = {.forward_peak = (double)layer->live[PZ_FORWARD].peak_bytes,
                            .saved_bytes = (double)layer->live[PZ_FORWARD].net_bytes,
                            .backward_peak = (double)backward->peak_bytes,
                            .net_backward_bytes = (double)net_backward_bytes};
  if (gradients == PZ_GRADIENTS_KEPT)
    pass.gradient_bytes = (double)(backward->net_bytes - net_backward_bytes);
  /* activations that a repeated layer saves in fewer (or more) bytes than its graph */
  if (layer_kind(walk, i) >= 0) {
    double unsaved_bytes = (double)layer->less_bytes[form];
    if (walk->model->copies_context) unsaved_bytes -= (double)layer->context_bytes;
    unsaved_bytes -= titan_extra_saved_bytes(plan, layer);
    pass.saved_bytes -= unsaved_bytes;
    pass.net_backward_bytes += unsaved_bytes;
  }
  /* memory that the kernel of the loss keeps besides the logits */
  enum pz_loss loss = plan->fused_loss ? PZ_LOSS_IN_PLACE : pz_plan_framework(plan)->loss;
  if (is_titan_head(walk, i)) { /* record_titan_head() covers its backward pass */
    pass.saved_bytes = BF16_BYTES * (double)layer->logits + (double)layer->output_bytes;
    pass.forward_peak = pass.saved_bytes;
    pass.net_backward_bytes = -pass.saved_bytes;
  }
  if (loss == PZ_LOSS_FP32) {
    /* Adds a copy of the logits in fp32, which the forward pass saves besides the logits.  In
     * the backward pass the derivative replaces it and is cast to 16 bit
     * (megatron/core/tensor_parallel/cross_entropy.py). */
    double logits = (double)layer->logits;
    double extra_bytes = (LOSS_BYTES - BF16_BYTES) * logits;
    pass.forward_peak += LOSS_BYTES * logits;
    pass.saved_bytes += extra_bytes;
    pass.backward_peak = pz_fmax(BF16_BYTES * logits, pass.backward_peak - extra_bytes);
    pass.net_backward_bytes -= extra_bytes;
  }
  if (loss == PZ_LOSS_BESIDE) pass.backward_peak += BF16_BYTES * (double)layer->logits;
  if (recomputed) {
    recompute(walk->model, layer, (uint32_t)layer_kind(walk, i), plan, &pass);
  } else {
    /* adds the expert results that are saved before they are weighted (frameworks.def) */
    double bytes = pz_plan_framework(plan)->routed_saved_bytes / BF16_BYTES * routed_bytes(layer);
    pass.forward_peak += bytes;
    pass.saved_bytes += bytes;
    pass.net_backward_bytes -= bytes;
  }
  pass.backward_peak += titan_gathered_kv_bytes(plan, layer);
  if (offloaded) { /* offloaded activations return in the backward pass, as recomputed ones do */
    double bytes = pass.saved_bytes;
    if (plan->offload_modules)
      bytes = pz_fmin(bytes, pz_offloaded_bytes(layer, plan->offload_modules,
                                                pz_plan_recomputed_modules(plan), form));
    recompute_instead(&pass, bytes);
  }
  return pass;
}

/* Like make_pass(), but uses the stored passes of the first repeated layer. */
static struct layer_pass pass_of_layer(const struct stage_walk *walk, uint32_t i, bool recomputed,
                                       bool offloaded) {
  if (i == walk->model->kinds->layer[0]) return walk->first_kind_passes[recomputed][offloaded];
  return make_pass(walk, i, recomputed, offloaded);
}

/* Consecutive occurrences of a layer in a chunk that use memory alike: all of them are recomputed
 * or none, and all of them offload their activations or none.  Alternating kinds of layers are
 * walked one kind after the other. */
struct layer_group {
  int64_t n;
  struct layer_pass pass;
};

/* Returns the group that starts with occurrence `index` of layer i in the current chunk. */
static struct layer_group group_starting_at(const struct stage_walk *walk, uint32_t i,
                                            int64_t index) {
  struct repeat_counts counts = chunk_repeats(walk, i);
  bool alternates = layer_kind(walk, i) >= 0 && walk->plan->recompute == PZ_RECOMPUTATION_HALF;
  bool recomputed = alternates ? index % 2 == 0 : index < counts.recomputed;
  bool offloaded = index < counts.offloaded;
  int64_t end = recomputed ? counts.recomputed : counts.n;
  if (alternates) end = index + 1; /* every second layer is recomputed */
  if (offloaded) end = pz_min(end, counts.offloaded);
  return (struct layer_group){end - index, pass_of_layer(walk, i, recomputed, offloaded)};
}

/* Returns the group that ends before occurrence `index` of layer i. */
static struct layer_group group_ending_before(const struct stage_walk *walk, uint32_t i,
                                              int64_t index) {
  struct repeat_counts counts = chunk_repeats(walk, i);
  bool alternates = layer_kind(walk, i) >= 0 && walk->plan->recompute == PZ_RECOMPUTATION_HALF;
  if (alternates) return group_starting_at(walk, i, index - 1); /* a group of one layer */
  bool recomputed = index <= counts.recomputed, offloaded = index <= counts.offloaded;
  int64_t start = recomputed ? 0 : counts.recomputed;
  if (!offloaded) start = pz_max(start, counts.offloaded);
  return (struct layer_group){index - start, pass_of_layer(walk, i, recomputed, offloaded)};
}

/* Updates the peak with the forward pass of a chunk.  Every layer of a group changes the bytes by
 * the same amount, so that its first or its last layer has the peak. */
static void walk_forward(struct stage_walk *walk) {
  /* a chunk keeps the activations that it receives, and frees those that it sends */
  double boundary_bytes = (double)first_block_layer(walk)->output_bytes;
  if (!walk->is_first_chunk) walk->activation_bytes += boundary_bytes;
  for (uint32_t i = 0; i < walk->model->workload->n_layers; i++) {
    const struct pz_layer *layer = &walk->model->workload->layers[i];
    bool is_head = layer_kind(walk, i) == AFTER_BLOCKS;
    double *saved_bytes = is_head ? &walk->logit_bytes : &walk->activation_bytes;
    struct layer_group group;
    for (int64_t index = 0; index < chunk_repeats(walk, i).n; index += group.n) {
      group = group_starting_at(walk, i, index);
      record_moment(walk, layer, group.pass.forward_peak, PZ_FORWARD);
      *saved_bytes += (double)(group.n - 1) * group.pass.saved_bytes;
      if (group.n > 1) record_moment(walk, layer, group.pass.forward_peak, PZ_FORWARD);
      *saved_bytes += group.pass.saved_bytes;
    }
  }
  if (!walk->is_last_chunk) walk->activation_bytes -= boundary_bytes;
}

/* Updates the allocated bytes of a walk for the ends of n backward passes of layer i: activations
 * and logits are freed, and gradients stay. */
static void end_backward(struct stage_walk *walk, uint32_t i, const struct layer_pass *pass,
                         int64_t n) {
  const struct pz_layer *layer = &walk->model->workload->layers[i];
  double times = (double)n;
  if (n) walk->scattered_params = (double)layer->trained_params;
  if (walk->first_gradients || walk->second_gradients) {
    double expert_params = (double)layer->trained_expert_params;
    double dense_params = (double)layer->trained_params - expert_params;
    double sharded_params = dense_params / (double)pz_plan_shards(walk->plan) +
                            expert_params / (double)pz_plan_expert_shards(walk->plan);
    walk->gradient_bytes += times * (gradient_bytes(walk->plan) * sharded_params);
  }
  walk->activation_bytes += times * pass->net_backward_bytes;
  if (layer_kind(walk, i) == AFTER_BLOCKS) {
    walk->activation_bytes += times * pass->saved_bytes;
    walk->logit_bytes -= times * pass->saved_bytes;
  }
  walk->gradient_bytes += times * pass->gradient_bytes;
}

/* Updates the peak with a moment of the head's backward pass that allocates these bytes, besides
 * the hidden state and its gradient.  logit_bytes are those of logits and loss. */
static void record_head_moment(struct stage_walk *walk, double logit_bytes, double weight_bytes,
                               double gradient_bytes) {
  double hidden_bytes = (double)first_block_layer(walk)->output_bytes;
  struct pz_training_memory now = {.activation_bytes = walk->activation_bytes,
                                   .gradient_bytes = walk->gradient_bytes,
                                   .logit_bytes = logit_bytes + 2 * hidden_bytes,
                                   .communication_bytes =
                                       walk->communication_bytes + weight_bytes + gradient_bytes};
  if (pz_training_memory_sum(&now) > pz_training_memory_sum(&walk->peak)) walk->peak = now;
}

/* Updates the peak with three moments of the head's backward pass: the derivative of the loss, the
 * GEMMs, and the copy of the gradient into the reduce-scatter buffer.  A pipeline stage keeps the
 * logits, which are its result.
 *
 * For each logit, a compiled loss reads a 16-bit logit and writes a 16-bit derivative.  An eager
 * loss holds the fp32 logit, its log-softmax and its derivative.  With tensor parallelism, the
 * logits are a DTensor (torch/distributed/tensor/parallel/loss.py). */
static void record_titan_head(struct stage_walk *walk, const struct pz_layer *layer) {
  /* bytes for each logit */
  static const double COMPILED = 2 + 2, EAGER = 3 * 4, DIVIDED = 2 + 2 * 4;
  const struct pz_plan *plan = walk->plan;
  double loss_bytes = plan->execution == PZ_EXECUTION_COMPILE ? COMPILED : EAGER;
  if (plan->tp > 1) loss_bytes = DIVIDED;
  double logits = (double)layer->logits, kept_bytes = plan->pp > 1 ? BF16_BYTES * logits : 0;
  double trained_params = (double)layer->trained_params, weight_bytes = 0;
  if (walk->fsdp2 && !stays_gathered(plan))
    weight_bytes = BF16_BYTES * (double)(layer->params + first_block_layer(walk)->params);
  record_head_moment(walk, loss_bytes * logits, 0, 0);
  record_head_moment(walk, kept_bytes + BF16_BYTES * logits, weight_bytes,
                     BF16_BYTES * trained_params);
  if (walk->fsdp2 && plan->pp == 1)
    record_head_moment(walk, 0, weight_bytes, (BF16_BYTES + plan->grad_bytes) * trained_params);
}

/* Updates the peak with the backward pass of a chunk and the optimizer's step. */
static void walk_backward(struct stage_walk *walk) {
  const struct pz_workload *workload = walk->model->workload;
  if (!walk->is_last_chunk)
    walk->communication_bytes = (double)first_block_layer(walk)->output_bytes;
  for (uint32_t i = workload->n_layers; i-- > 0;) {
    struct layer_group group;
    for (int64_t index = chunk_repeats(walk, i).n; index > 0; index -= group.n) {
      group = group_ending_before(walk, i, index);
      if (is_titan_head(walk, i)) {
        record_titan_head(walk, &workload->layers[i]);
      } else {
        /* the first and the last layer of a group have its peak; under FSDP2 also the second one,
         * the first beside which the gradients of an equal layer are scattered */
        record_moment(walk, &workload->layers[i], group.pass.backward_peak, PZ_BACKWARD);
        int64_t n_left = group.n - 1;
        if (n_left > 1 && walk->fsdp2) {
          end_backward(walk, i, &group.pass, 1);
          record_moment(walk, &workload->layers[i], group.pass.backward_peak, PZ_BACKWARD);
          n_left--;
        }
        end_backward(walk, i, &group.pass, n_left);
        if (group.n > 1)
          record_moment(walk, &workload->layers[i], group.pass.backward_peak, PZ_BACKWARD);
      }
      end_backward(walk, i, &group.pass, 1);
    }
  }
  record_moment(walk, &workload->layers[0], 0, PZ_FORWARD); /* during the optimizer's step */
}

/* Returns the bytes that a microbatch keeps allocated in the current chunk between its forward and
 * its backward pass: the input of the chunk, unless it is the first, and the saved activations of
 * its layers.  The output of a layer is part of its saved bytes, but not kept if it is sent on. */
static double waiting_bytes(const struct stage_walk *walk) {
  double boundary_bytes = (double)first_block_layer(walk)->output_bytes;
  double bytes = 0;
  if (!walk->is_first_chunk) bytes += boundary_bytes;
  if (!walk->is_last_chunk) bytes -= boundary_bytes;
  for (uint32_t i = 0; i < walk->model->workload->n_layers; i++) {
    struct repeat_counts counts = chunk_repeats(walk, i);
    int64_t n_both = pz_min(counts.recomputed, counts.offloaded);
    int64_t n_offloaded = counts.offloaded - n_both, n_recomputed = counts.recomputed - n_both;
    int64_t n_neither = counts.n - n_both - n_offloaded - n_recomputed;
    const bool redo = true, away = true; /* recomputed, offloaded */
    if (n_both) bytes += (double)n_both * pass_of_layer(walk, i, redo, away).saved_bytes;
    if (n_offloaded) bytes += (double)n_offloaded * pass_of_layer(walk, i, !redo, away).saved_bytes;
    if (n_recomputed)
      bytes += (double)n_recomputed * pass_of_layer(walk, i, redo, !away).saved_bytes;
    if (n_neither) bytes += (double)n_neither * pass_of_layer(walk, i, !redo, !away).saved_bytes;
  }
  return bytes;
}

/* Returns the bytes of a microbatch in the current chunk that are offloaded between its passes. */
static double chunk_offload_bytes(const struct stage_walk *walk) {
  struct stage_walk without_offload = *walk;
  without_offload.n_offloaded = 0;
  return walk->n_offloaded ? waiting_bytes(&without_offload) - waiting_bytes(walk) : 0;
}

/* Returns the most bytes of a layer that are transferred to or from the host while another layer
 * runs (on_group_commit_backward in pytorch/cpu_offload.py of Transformer Engine). */
static double moving_bytes(const struct stage_walk *walk) {
  double largest_bytes = 0;
  for (uint32_t i = 0; i < walk->model->workload->n_layers && walk->n_offloaded; i++) {
    struct repeat_counts counts = chunk_repeats(walk, i);
    if (!counts.offloaded) continue;
    const bool offloaded = true, recomputed = counts.recomputed > 0;
    double saved_bytes = pass_of_layer(walk, i, recomputed, !offloaded).saved_bytes;
    double device_bytes = pass_of_layer(walk, i, recomputed, offloaded).saved_bytes;
    largest_bytes = pz_fmax(largest_bytes, saved_bytes - device_bytes);
  }
  return largest_bytes;
}

enum { MOST_SLOTS = 2 * PZ_PLAN_MOST_CHUNKS }; /* DualPipe holds two copies of a stage */

/* The memory of the chunk in a slot of a stage; slots number the chunks that a stage holds. */
struct slot_memory {
  double waiting_bytes;           /* activations of a microbatch that waits for its backward pass */
  struct pz_training_memory peak; /* memory at the worst moment with a single microbatch */
};

/* Returns whether `times` summands up to `bytes` have the same sum in any order: they are
 * integers with a sum far below 2^53. */
static bool sums_exactly(double bytes, double times) {
  return bytes == floor(bytes) && fabs(bytes) * times < 0x1p51;
}

/* Does what worst_moment() does for interleaved chunks, in linear instead of quadratic time, by
 * prefix sums of waiting bytes over the slots.  Returns false if the sums would not be exact,
 * because they could then differ from those of worst_moment(). */
static bool worst_interleaved(const struct stage_walk *walk, const struct slot_memory *slots,
                              uint32_t n_slots, struct pz_training_memory *worst) {
  double waiting_sums[MOST_SLOTS + 1], reverse_sums[MOST_SLOTS + 1], bytes_in_flight;
  /* more than the microbatches in flight in all slots: at most two rounds of passes */
  double most_in_flight = 4.0 * walk->shape.stages * n_slots;
  waiting_sums[0] = reverse_sums[0] = 0;
  for (uint32_t slot = 0; slot < n_slots; slot++) {
    if (!sums_exactly(slots[slot].waiting_bytes, most_in_flight) ||
        !sums_exactly(slots[slot].peak.activation_bytes, 2))
      return false;
    waiting_sums[slot + 1] = waiting_sums[slot] + slots[slot].waiting_bytes;
    reverse_sums[slot + 1] = reverse_sums[slot] + slots[n_slots - 1 - slot].waiting_bytes;
  }
  for (uint32_t moment = 0; moment < pz_pipeline_moments(&walk->shape); moment++) {
    uint32_t current;
    if (!pz_pipeline_moment_bytes(&walk->shape, (uint32_t)walk->stage, moment, waiting_sums,
                                  reverse_sums, &current, &bytes_in_flight))
      continue;
    struct pz_training_memory now = slots[current].peak;
    now.activation_bytes += bytes_in_flight - slots[current].waiting_bytes;
    if (pz_training_memory_sum(&now) > pz_training_memory_sum(worst)) *worst = now;
  }
  return true;
}

/* Returns the temporary memory of a stage at its worst moment.  One microbatch goes through a chunk
 * of the stage, and those in flight wait, each with the bytes that it keeps in its chunk until its
 * backward pass.  The worst moment is found in two steps: the peak of each chunk with a single
 * microbatch, then the candidates of pz_pipeline_moment(), which say how many microbatches are in
 * flight in each slot when the backward pass of one slot begins. */
static struct pz_training_memory worst_moment(struct stage_walk walk) {
  struct slot_memory slots[MOST_SLOTS];
  uint32_t in_flight[MOST_SLOTS], current, n_slots = pz_pipeline_slots(&walk.shape);
  struct pz_training_memory worst = {.activation_bytes = -HUGE_VAL};
  struct stage_walk previous = walk; /* in the chunk of the slot before */
  for (uint32_t slot = 0; slot < n_slots; slot++) {
    enter_chunk(&walk, pz_pipeline_chunk_at(&walk.shape, (uint32_t)walk.stage, slot));
    /* a chunk between the ends of the model needs as much as an equal one before it */
    bool is_inner = !walk.is_first_chunk && !walk.is_last_chunk;
    bool follows_inner = slot && !previous.is_first_chunk && !previous.is_last_chunk;
    bool has_same_layers = walk.model->kinds->n == 1 && walk.blocks == previous.blocks &&
                           walk.n_recomputed == previous.n_recomputed &&
                           walk.n_offloaded == previous.n_offloaded;
    if (is_inner && follows_inner && has_same_layers) {
      slots[slot] = slots[slot - 1];
    } else {
      struct stage_walk slot_walk = walk;
      slot_walk.moving_bytes = moving_bytes(&walk);
      walk_forward(&slot_walk);
      walk_backward(&slot_walk);
      slots[slot] = (struct slot_memory){waiting_bytes(&walk), slot_walk.peak};
    }
    previous = walk;
  }
  bool is_interleaved = pz_pipeline_moments(&walk.shape) > 1;
  if (is_interleaved && worst_interleaved(&walk, slots, n_slots, &worst)) return worst;
  for (uint32_t moment = 0; moment < pz_pipeline_moments(&walk.shape); moment++) {
    if (!pz_pipeline_moment(&walk.shape, (uint32_t)walk.stage, moment, &current, in_flight))
      continue;
    struct pz_training_memory now = slots[current].peak;
    for (uint32_t slot = 0; slot < n_slots; slot++) {
      /* in flight, but not waiting: the microbatch whose passes are in slots[current].peak */
      double n_running = slot == current ? 1 : 0;
      now.activation_bytes += ((double)in_flight[slot] - n_running) * slots[slot].waiting_bytes;
    }
    if (pz_training_memory_sum(&now) > pz_training_memory_sum(&worst)) worst = now;
  }
  return worst;
}

/* ---- weights, gradients and optimizer state ------------------------------------------------- */

/* Parameters of a stage.  A tied embedding (also the head) is on the first and on the last
 * stage. */
struct stage_sums {
  double dense, expert;
  double constants;               /* bytes of data that all layers read, and of buffers */
  double trained, trained_expert; /* trained parameters among `dense` and `expert` */
  double blocks;                  /* parameters in layers with 8-bit or 4-bit GEMMs */
};

/* Sums up the parameters of all layers of a stage. */
static struct stage_sums stage_sums(struct stage_walk walk) {
  struct stage_sums sums = {.constants = (double)first_block_layer(&walk)->shared_bytes};
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&walk.shape); slot++) {
    enter_chunk(&walk, pz_pipeline_chunk_at(&walk.shape, (uint32_t)walk.stage, slot));
    for (uint32_t i = 0; i < walk.model->workload->n_layers; i++) {
      const struct pz_layer *layer = &walk.model->workload->layers[i];
      double occurrences = (double)chunk_repeats(&walk, i).n;
      int64_t shared = layer_kind(&walk, i) < 0 ? layer->shared_bytes : 0;
      int64_t tied = pz_pipeline_separates_ends(&walk.shape) ? layer->tied_params : 0;
      sums.dense += occurrences * (double)(layer->params - layer->expert_params + tied);
      sums.expert += occurrences * (double)layer->expert_params;
      sums.trained += occurrences * (double)(layer->trained_params - layer->trained_expert_params +
                                             (pz_plan_trains_adapters(walk.plan) ? 0 : tied));
      sums.trained_expert += occurrences * (double)layer->trained_expert_params;
      if (layer_kind(&walk, i) >= 0 && !layer->wide)
        sums.blocks += occurrences * (double)layer->params;
      sums.constants += occurrences * (double)(layer->buffer_bytes + shared);
    }
  }
  return sums;
}

/* Returns the bytes of a parameter's gradient between the passes: 2 in frameworks that keep
 * gradients in 16 bit instead of adding them up in fp32, and otherwise 4, if the state of the
 * framework (weights, gradients, optimizer) has as many. */
static double gradient_bytes(const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  if (pz_plan_trains_adapters(plan) && framework->adapter_state_bytes > 0)
    return 0; /* gradients of adapters are part of the passes */
  bool is_16bit = framework->accumulation == PZ_ACCUMULATION_KEPT;
  double bytes = pz_fmin(is_16bit ? BF16_BYTES : FP32_GRADIENT_BYTES,
                         framework->state_bytes - framework->weight_bytes);
  return framework->exchanges_sums ? pz_fmin(bytes, plan->grad_bytes) : bytes;
}

/* Returns the bytes of a parameter's optimizer state: a master copy, if weights have fewer bits,
 * and the two moments of Adam.  They are what remains of the framework's state without weights and
 * gradients, with the bytes that the plan gives the master copy and the moments. */
static double optimizer_bytes(const struct pz_memory_model *model, const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  if (pz_plan_trains_adapters(plan) && framework->adapter_state_bytes > 0)
    return framework->adapter_state_bytes;
  bool is_16bit_gradient = framework->accumulation == PZ_ACCUMULATION_KEPT;
  double remaining_bytes = pz_fmax(0, framework->state_bytes - framework->weight_bytes -
                                          (is_16bit_gradient ? BF16_BYTES : FP32_GRADIENT_BYTES));
  bool has_16bit_moments = remaining_bytes < 2 * FP32_MOMENT_BYTES;
  bool has_master_copy = remaining_bytes > 2 * FP32_MOMENT_BYTES;
  if (has_16bit_moments) {
    bool sets_moments = remaining_bytes > 0 && plan->moment_bytes > 0;
    return sets_moments ? 2 * plan->moment_bytes : remaining_bytes;
  }
  if (has_master_copy)
    remaining_bytes = 2 * FP32_MOMENT_BYTES + pz_plan_master_bytes(plan, model->experts);
  return pz_fmax(0, remaining_bytes -
                        2 * (FP32_MOMENT_BYTES - pz_plan_moment_bytes(plan, model->experts)));
}

/* Adds weights, gradients and optimizer state of `params` parameters of a stage, of which `trained`
 * have gradients.  With ZeRO, a device has one of `shards` parts of the optimizer state, and
 * depending on the ZeRO stage and the framework also of gradients and weights. */
static void add_state(const struct stage_walk *walk, double params, double trained, int64_t shards,
                      struct pz_training_memory *memory) {
  const struct pz_plan *plan = walk->plan;
  const struct pz_framework *framework = pz_plan_framework(plan);
  double shard_count = (double)shards;
  bool keeps_whole = shards > 1 && stays_gathered(plan); /* a gathered copy beside the shards */
  bool shards_gradients = plan->zero > 2 || pz_plan_scatters_per_microbatch(plan);
  /* FSDP2 allocates sharded gradients only within the step */
  bool within_step = is_fsdp2(plan) && (plan->pp > 1 || walk->first_gradients);
  double device_part = 1 - pz_plan_host_optimizer_fraction(plan); /* not offloaded to the host */
  bool shards_weights = plan->zero > 2 || is_fsdp2(plan);
  memory->weight_bytes += params * framework->weight_bytes / (shards_weights ? shard_count : 1) +
                          (keeps_whole ? params * BF16_BYTES : 0);
  if (!within_step)
    memory->gradient_bytes += trained * gradient_bytes(plan) /
                              (shards_gradients ? shard_count : 1) *
                              (framework->offloads_gradients ? device_part : 1);
  if (keeps_whole && plan->pp > 1) memory->gradient_bytes += trained * plan->grad_bytes;
  memory->optimizer_bytes +=
      trained * optimizer_bytes(walk->model, plan) / (plan->zero ? shard_count : 1) * device_part;
}

/* Returns the memory of a stage that stays allocated through the step: weights, gradients,
 * optimizer state, workspaces of libraries, and data that all layers read. */
static struct pz_training_memory state_bytes(const struct stage_walk *walk) {
  const struct pz_plan *plan = walk->plan;
  const struct pz_framework *framework = pz_plan_framework(plan);
  struct stage_sums sums = stage_sums(*walk);
  int64_t copies = pz_plan_is_hybrid_sharded(plan) ? 1 : pz_pipeline_copies(walk->shape.order);
  double layer_shards = (double)(pz_plan_gathers_per_layer(plan) ? pz_plan_shards(plan) : 1);
  double copied_bytes = copied_weight_bytes(walk->model, plan);
  double frozen_bytes = frozen_weight_bytes(walk->model, plan);
  struct pz_training_memory memory = {.activation_bytes = sums.constants,
                                      .reserve_bytes = walk->model->reserve_bytes};
  add_state(walk, sums.dense, sums.trained, pz_plan_shards(plan) * copies, &memory);
  add_state(walk, sums.expert, sums.trained_expert, pz_plan_expert_shards(plan) * copies, &memory);
  memory.weight_bytes += copied_bytes * sums.blocks / layer_shards;
  if (frozen_bytes > 0) /* replace the bytes of frozen weights, which have no 16-bit copy */
    memory.weight_bytes += (frozen_bytes - copied_bytes - framework->weight_bytes) *
                           (sums.blocks - sums.trained - sums.trained_expert) / layer_shards;
  if (pz_plan_autocasts(plan))
    memory.weight_bytes += BF16_BYTES * (sums.dense + sums.expert); /* weights cast to 16 bit */
  if (framework->placeholder_gradients) memory.gradient_bytes += walk->model->placeholder_bytes;
  return memory;
}

/* Returns the state of a walk through a stage before its first chunk. */
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

/* Computes the passes of the first repeated layer once, because every chunk uses them. */
static void set_first_passes(struct stage_walk *walk) {
  for (int recomputed = 0; recomputed < 2; recomputed++)
    for (int offloaded = 0; offloaded <= (walk->plan->offload & PZ_OFFLOAD_ACTIVATIONS);
         offloaded++)
      walk->first_kind_passes[recomputed][offloaded] =
          make_pass(walk, walk->model->kinds->layer[0], recomputed, offloaded);
}

/* Returns the bytes of a microbatch that are on the host between the passes of a chunk. */
double pz_chunk_offload_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                              int64_t chunk) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  struct stage_walk walk = start_walk(model, plan, pz_pipeline_stage_of(&shape, (uint32_t)chunk));
  if (!(plan->offload & PZ_OFFLOAD_ACTIVATIONS)) return 0;
  set_first_passes(&walk);
  enter_chunk(&walk, chunk);
  return chunk_offload_bytes(&walk);
}

/* Host bytes of a parameter's offloaded state: an fp32 copy, a gradient, two moments. */
static const double HOST_STATE_BYTES = 16;

/* Returns the most host bytes that a device of a stage needs: offloaded activations of the
 * microbatches in flight (pz_pipeline_moment() lists candidates), and offloaded optimizer state. */
double pz_host_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                     int64_t microbatches, int64_t stage) {
  struct stage_walk walk = start_walk(model, plan, stage);
  double offloaded_bytes[MOST_SLOTS], most_bytes = 0, params = 0;
  uint32_t in_flight[MOST_SLOTS], current, n_slots = pz_pipeline_slots(&walk.shape);
  if (!plan->offload) return 0;
  walk.shape.microbatches = (uint32_t)microbatches;
  set_first_passes(&walk);
  for (uint32_t slot = 0; slot < n_slots; slot++) {
    enter_chunk(&walk, pz_pipeline_chunk_at(&walk.shape, (uint32_t)walk.stage, slot));
    offloaded_bytes[slot] = chunk_offload_bytes(&walk);
  }
  for (uint32_t moment = 0; moment < pz_pipeline_moments(&walk.shape); moment++) {
    double bytes_in_flight = 0;
    if (!pz_pipeline_moment(&walk.shape, (uint32_t)stage, moment, &current, in_flight)) continue;
    for (uint32_t slot = 0; slot < n_slots; slot++)
      bytes_in_flight += (double)in_flight[slot] * offloaded_bytes[slot];
    most_bytes = pz_fmax(most_bytes, bytes_in_flight);
  }
  /* optimizer state: parameters for which this device updates it */
  if (pz_plan_host_optimizer_fraction(plan) > 0) {
    struct stage_sums sums = stage_sums(walk);
    int64_t shard_copies =
        pz_plan_is_hybrid_sharded(plan) ? 1 : pz_pipeline_copies(walk.shape.order);
    params = sums.dense / (double)(plan->zero ? pz_plan_shards(plan) * shard_copies : 1) +
             sums.expert / (double)(plan->zero ? pz_plan_expert_shards(plan) * shard_copies : 1);
  }
  return most_bytes + pz_plan_host_optimizer_fraction(plan) * HOST_STATE_BYTES * params;
}

/* Returns the memory of a stage at its worst moment, if a replica runs `microbatches` in a step:
 * what stays allocated through the step, and the temporary memory of worst_moment(). */
struct pz_training_memory pz_training_memory(const struct pz_memory_model *model,
                                             const struct pz_plan *plan, int64_t microbatches,
                                             int64_t stage) {
  struct stage_walk walk = start_walk(model, plan, stage);
  walk.shape.microbatches = (uint32_t)microbatches;
  /* FSDP2 without stages scatters the gradients of each layer in every microbatch */
  bool scatters_layers = walk.fsdp2 && plan->pp == 1;
  walk.first_gradients = scatters_layers && microbatches == 1;
  /* replicas of the shards all-reduce a second set of gradients (_fsdp_param_group.py) */
  walk.second_gradients = scatters_layers && microbatches > 1 && pz_plan_is_hybrid_sharded(plan);
  struct pz_training_memory memory = state_bytes(&walk);
  bool sharded = plan->zero > 1 && pz_plan_shards_state(plan);
  if (sharded) walk.gradients = PZ_GRADIENTS_IN_PLACE; /* gathered_bytes() counts whole gradients */
  if (walk.gradients == PZ_GRADIENTS_KEPT && microbatches > 1) {
    /* gradient sums stay allocated while those of the next microbatch are added */
    struct stage_sums sums = stage_sums(walk);
    memory.gradient_bytes += BF16_BYTES * (sums.trained + sums.trained_expert);
    walk.gradients = PZ_GRADIENTS_PASSING;
  }
  set_first_passes(&walk);
  struct pz_training_memory worst = worst_moment(walk);
  memory.gradient_bytes += worst.gradient_bytes;
  memory.activation_bytes += worst.activation_bytes;
  memory.work_bytes = worst.work_bytes;
  memory.logit_bytes = worst.logit_bytes;
  memory.communication_bytes = worst.communication_bytes;
  return memory;
}

/* ---- memory that the allocator reserves ----------------------------------------------------- */

/* Returns the bytes that the allocator is expected to reserve for a stage with this peak.
 *
 * With FSDP2, memory freed in one stream is not reusable in another before both synchronise, and
 * blocks of different sizes leave gaps; with several stages, gradients stay allocated through the
 * step.  Megatron Core reserves, beyond its state, the fp32 temporaries of the optimizer, and with
 * ZeRO 1 the separate blocks of the parameters before they are copied into one buffer
 * (megatron/core/distributed/param_and_grad_buffer.py).  Activations reuse both. */
static double allocator_bytes(const struct pz_memory_model *model,
                              const struct pz_constants *constants, const struct pz_plan *plan,
                              const struct pz_training_memory *peak) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  double sum = pz_training_memory_sum(peak);
  double temporary_bytes =
      sum - peak->weight_bytes - peak->gradient_bytes - peak->optimizer_bytes - peak->reserve_bytes;
  if (pz_framework_compiles(framework)) return sum; /* compilers place buffers statically */
  if (framework->shards_stages) {
    bool keeps_gradients = plan->pp > 1;
    double dynamic_bytes = temporary_bytes + (keeps_gradients ? 0 : peak->gradient_bytes);
    double gaps = constants->reserved_dynamic * dynamic_bytes +
                  constants->reserved_routed * model->routed_bytes;
    if (is_fsdp2(plan)) gaps += constants->reserved_state * peak->optimizer_bytes;
    if (is_fsdp2(plan) && keeps_gradients) /* fp32 gradient sums and 16-bit weights */
      gaps +=
          constants->reserved_whole * peak->gradient_bytes * (1 + BF16_BYTES / FP32_GRADIENT_BYTES);
    else if (is_fsdp2(plan))
      gaps += constants->reserved_gathered * BF16_BYTES * model->layer_params;
    return sum + gaps;
  }
  double parameter_blocks = plan->zero == 1 ? peak->weight_bytes : 0, megatron_bytes = 0;
  if (framework->rules == PZ_RULES_CORE)
    megatron_bytes = constants->reserved_root * peak->optimizer_bytes + parameter_blocks;
  return pz_fmax(sum * (1 + constants->reserved_other), sum - temporary_bytes + megatron_bytes);
}

/* Plans whose prediction of reserved memory has the same error interval (memory_margin.def): FSDP2,
 * FSDP2 with pipeline stages and tensor parallelism, programs compiled by XLA, and all others,
 * which use the interval of Megatron-LM. */
enum margin_group { FSDP2, DIVIDED_STAGES, COMPILED, OTHER };
static const struct {
  double low, high;
} margins[] = {
#define MARGIN(group, low, high, ranks) [group] = {low, high},
#include "step/memory_margin.def"
};

/* Returns the bytes that the allocator reserves for a stage, with the interval of their error. */
struct pz_reserved pz_reserved_of(const struct pz_memory_model *model,
                                  const struct pz_constants *constants, const struct pz_plan *plan,
                                  const struct pz_training_memory *peak) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  enum margin_group group = OTHER;
  if (pz_framework_compiles(framework)) group = COMPILED;
  if (framework->shards_stages) group = plan->pp > 1 && plan->tp > 1 ? DIVIDED_STAGES : FSDP2;
  double bytes = allocator_bytes(model, constants, plan, peak);
  double low = margins[group].low, high = margins[group].high;
  if (model->measured_ratio > 0) {
    low = pz_fmin(0, model->measured_ratio - 1);
    high = pz_fmax(0, model->measured_ratio - 1);
  }
  if (plan->memory_margin >= 0) high = plan->memory_margin / 100;
  return (struct pz_reserved){bytes, bytes * (1 + pz_fmin(low, high)), bytes * (1 + high)};
}
