/* Memory of a layer and of a training step: the tensors that backward needs, and the bytes that
 * are live at each moment.
 *
 * pz_memory_layer() collects the saved tensors (collect_saved), finds out which operators read
 * them, so that forms with fewer bits can be applied (find_saved_uses), and simulates allocation
 * and release operator by operator (simulate). pz_memory_peak() adds up the layers of a model in
 * their order, with weights and gradients.
 *
 * Views share the storage of another tensor: arrays "by storage" are indexed by the tensor that
 * owns the bytes.  Parameters and shared data are accounted separately. */
#include "workload/passes.h"

#include <string.h>

#include "core/num.h"

/* Workspace of the matrix library in eager mode, in bytes: PyTorch gives cuBLAS and cuBLASLt 32
 * MiB each on Hopper (defaults of CUBLAS_WORKSPACE_CONFIG and CUBLASLT_WORKSPACE_SIZE for compute
 * capability 9.0). */
static const int64_t LIBRARY_WORKSPACE_BYTES = INT64_C(2) * (32 << 20);

/* Bytes of a parameter: its 16-bit weight, and its gradient, which stays allocated between
 * steps. */
static const int64_t WEIGHT_BYTES = 2, GRAD_BYTES = 2;

/* Returns the tensor that owns the bytes of a tensor. */
static uint32_t storage_of(const struct pz_graph *graph, uint32_t tensor) {
  return pz_graph_tensor(graph, tensor)->storage;
}

/* ---- live bytes ------------------------------------------------------------------------------ */

/* State of the simulation of one direction of a layer. */
struct simulation {
  struct pz_graph *graph;
  enum pz_direction direction;
  bool keeps_saved; /* forward keeps what backward reads, because it is not recomputed */
  bool eager;
  enum pz_gradients gradients;
  uint32_t *last_use; /* by storage: last operator of this direction that reads it, or PZ_NONE */
  const bool *saved;  /* by storage: whether backward reads it */
  bool *allocated;    /* by storage: whether it is allocated now */
  bool *leaves;       /* by storage: whether it is an additional result of the layer */
  int64_t bytes, peak_bytes; /* live bytes now, and their peak so far */
};

/* Returns whether a tensor is the gradient of a parameter: nothing in the layer reads it, and it is
 * not the gradient of the layer's input. */
static bool is_param_grad(const struct simulation *sim, uint32_t tensor) {
  return pz_graph_tensor(sim->graph, tensor)->role == PZ_ROLE_GRAD &&
         sim->last_use[tensor] == PZ_NONE && tensor != sim->graph->input_grad;
}

/* Releases the bytes of a tensor that owns its storage, if they are allocated. */
static void release_storage(struct simulation *sim, uint32_t storage) {
  if (!sim->allocated[storage]) return;
  sim->allocated[storage] = false;
  sim->bytes -= pz_tensor_held_bytes(pz_graph_tensor(sim->graph, storage));
}

/* Releases the storages that operator `index` is the last to use.  Forward keeps the layer's
 * results and what backward reads.  Backward keeps the gradient of the input, that of a tied
 * weight, to which its owner adds its own, and with PZ_GRADIENTS_KEPT those of all parameters. */
static void release_after(struct simulation *sim, const struct pz_op *op, uint32_t index) {
  uint32_t layer_result = storage_of(sim->graph, sim->graph->output);
  for (uint32_t k = 0; k < op->n_in + op->n_out; k++) {
    uint32_t tensor = k < op->n_in ? op->in[k] : op->out[k - op->n_in];
    uint32_t storage = storage_of(sim->graph, tensor);
    bool is_kept = false;
    if (sim->direction == PZ_FORWARD) {
      is_kept = storage == layer_result || sim->leaves[storage] ||
                (sim->keeps_saved && sim->saved[storage]);
    } else if (is_param_grad(sim, tensor)) {
      is_kept = sim->gradients == PZ_GRADIENTS_KEPT || pz_graph_tensor(sim->graph, tensor)->tied;
    } else {
      is_kept = tensor == sim->graph->input_grad;
    }
    bool is_used_later = sim->last_use[storage] != PZ_NONE && sim->last_use[storage] > index;
    if (!is_kept && !is_used_later) release_storage(sim, storage);
  }
}

/* Releases the logits before the derivative of a fused loss, which overwrites them (Megatron's and
 * Transformer Engine's kernels, and code that torch.compile generates).  The logits are the input
 * that has as many bytes as the derivative's result, their gradient. */
static void release_logits(struct simulation *sim, const struct pz_op *op) {
  if (op->kind != PZ_OP_CROSS_ENTROPY || op->direction != PZ_BACKWARD) return;
  int64_t gradient_bytes = pz_tensor_bytes(pz_graph_tensor(sim->graph, op->out[0]));
  for (uint32_t k = 0; k < op->n_in; k++) {
    uint32_t storage = storage_of(sim->graph, op->in[k]);
    if (pz_tensor_bytes(pz_graph_tensor(sim->graph, storage)) == gradient_bytes)
      release_storage(sim, storage);
  }
}

/* Returns the peak and the net change of the live bytes while one direction of a layer runs, with
 * an allocator that frees a tensor right after its last use. */
static struct pz_live simulate(struct simulation sim) {
  struct pz_graph *graph = sim.graph;
  uint32_t n_tensors = graph->tensors.n;
  const struct pz_vec *ops = &graph->ops[sim.direction];
  sim.last_use = pz_alloc(graph->call, n_tensors, sizeof *sim.last_use);
  sim.allocated = pz_alloc(graph->call, n_tensors, sizeof *sim.allocated);
  sim.leaves = pz_alloc(graph->call, n_tensors, sizeof *sim.leaves);
  for (uint32_t i = 0; i < graph->n_also_out; i++)
    sim.leaves[storage_of(graph, graph->also_out[i])] = true;
  for (uint32_t t = 0; t < n_tensors; t++) sim.last_use[t] = PZ_NONE;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = pz_graph_op(graph, sim.direction, i);
    for (uint32_t k = 0; k < op->n_in; k++) sim.last_use[storage_of(graph, op->in[k])] = i;
  }
  /* Marks the storages that are allocated before the first operator. */
  if (sim.direction == PZ_FORWARD) {
    if (graph->input != PZ_NONE) sim.allocated[graph->input] = true;
    for (uint32_t i = 0; i < graph->n_also_in; i++) sim.allocated[graph->also_in[i]] = true;
  } else {
    memcpy(sim.allocated, sim.saved, n_tensors * sizeof *sim.saved);
    sim.allocated[storage_of(graph, graph->output_grad)] = true;
  }
  /* Each operator allocates its results, and then releases what it is the last to use. */
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = pz_graph_op(graph, sim.direction, i);
    release_logits(&sim, op);
    for (uint32_t k = 0; k < op->n_out; k++) {
      uint32_t storage = storage_of(graph, op->out[k]);
      const struct pz_tensor *owner = pz_graph_tensor(graph, storage);
      bool is_counted = owner->role == PZ_ROLE_ACTIVATION || owner->role == PZ_ROLE_GRAD;
      /* Gradients of parameters that are computed in place are added to existing buffers. */
      bool is_in_place = sim.gradients == PZ_GRADIENTS_IN_PLACE && is_param_grad(&sim, op->out[k]);
      if (sim.allocated[storage] || !is_counted || is_in_place) continue;
      sim.allocated[storage] = true;
      sim.bytes += pz_tensor_held_bytes(owner);
    }
    /* A compiled embedding adds up its gradient in 32 bit and converts the whole table (observed in
     * the allocations of torch.compile, PyTorch 2.11). */
    bool converts_table = op->kind == PZ_OP_EMBEDDING && op->direction == PZ_BACKWARD &&
                          !sim.eager && sim.gradients == PZ_GRADIENTS_KEPT;
    int64_t scratch_bytes = op->scratch_bytes;
    if (converts_table) scratch_bytes += 4 * pz_graph_tensor(graph, op->out[0])->elems;
    sim.peak_bytes = pz_max(sim.peak_bytes, sim.bytes + scratch_bytes);
    release_after(&sim, op, i);
  }
  return (struct pz_live){.peak_bytes = sim.peak_bytes, .net_bytes = sim.bytes};
}

/* ---- saved tensors --------------------------------------------------------------------------- */

/* Returns whether a backward operator is the derivative of a combine (the weighted sum of a token's
 * experts) and reads a tensor that a combine in forward adds up.  On GPUs, the weights of a token's
 * experts are multiplied inside the experts, after the activation (Megatron Core,
 * transformer/moe/experts.py: permuted_probs), so this derivative does not read the results of the
 * experts. */
static bool reads_combined(const struct pz_graph *graph, const struct pz_op *backward,
                           uint32_t storage) {
  if (backward->kind != PZ_OP_COMBINE) return false;
  for (uint32_t i = 0; i < graph->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_FORWARD, i);
    if (op->kind == PZ_OP_COMBINE && storage_of(graph, op->in[0]) == storage) return true;
  }
  return false;
}

/* Lists the storages that backward reads, in the order of their first use, and marks them in
 * `saved`.  Data and tensors that the layer only passes on are shared by all layers, so they are
 * counted separately. */
static void collect_saved(struct pz_graph *graph, enum pz_kernels kernels, struct pz_layer *layer,
                          bool *saved) {
  struct pz_vec list;
  pz_vec_init(&list, graph->call->arena, sizeof(uint32_t));
  bool *shared = pz_alloc(graph->call, graph->tensors.n, sizeof *shared);
  for (uint32_t i = 0; i < graph->ops[PZ_BACKWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_BACKWARD, i);
    for (uint32_t k = 0; k < op->n_in; k++) {
      uint32_t storage = storage_of(graph, op->in[k]);
      const struct pz_tensor *owner = pz_graph_tensor(graph, storage);
      bool is_shared = owner->role == PZ_ROLE_DATA || pz_graph_carries(graph, storage);
      if (is_shared && !shared[storage]) {
        shared[storage] = true;
        layer->shared_bytes += pz_tensor_bytes(owner);
      }
      if (owner->role != PZ_ROLE_ACTIVATION || is_shared || saved[storage]) continue;
      if (kernels != PZ_KERNELS_FUSED && reads_combined(graph, op, storage)) continue;
      saved[storage] = true;
      layer->activation_bytes += pz_tensor_bytes(owner);
      pz_append(graph->call, &list, &storage);
    }
  }
  layer->saved = list.items;
  layer->n_saved = list.n;
}

/* Returns the forward operator that produces a tensor, or NULL if the tensor enters the layer. */
static const struct pz_op *find_producer(const struct pz_graph *graph, uint32_t tensor) {
  for (uint32_t i = 0; i < graph->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_FORWARD, i);
    for (uint32_t k = 0; k < op->n_out; k++)
      if (op->out[k] == tensor) return op;
  }
  return NULL;
}

/* Marks in uses[] the storages that gated activations (SwiGLU) and GEMMs with trained weights read,
 * which can be saved in fewer bits.  Routers and adapters stay in 16 bit.  If the input of a GEMM
 * was gathered from several devices, each device saves its own part. */
static void mark_forward_uses(const struct pz_graph *graph, uint8_t *uses) {
  for (uint32_t i = 0; i < graph->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_FORWARD, i);
    bool is_trained = false;
    for (uint32_t k = 0; k < op->n_in; k++) {
      const struct pz_tensor *owner = pz_graph_tensor(graph, storage_of(graph, op->in[k]));
      if (owner->role == PZ_ROLE_PARAM && !owner->frozen) is_trained = true;
    }
    bool stays_16bit = pz_op_adapts(op) || strncmp(op->name, "router", 6) == 0;
    bool is_gemm = op->kind == PZ_OP_MATMUL && is_trained && !stays_16bit;
    if (!is_gemm && op->kind != PZ_OP_SWIGLU) continue;
    for (uint32_t k = 0; k < op->n_in; k++) {
      const struct pz_op *producer = is_gemm ? find_producer(graph, op->in[k]) : NULL;
      bool is_gathered = producer && producer->op_class == PZ_CLASS_COLLECTIVE;
      uint32_t input = is_gathered ? producer->in[0] : op->in[k];
      uses[storage_of(graph, input)] |= is_gemm ? PZ_SAVED_BY_GEMM : PZ_SAVED_BY_GATE;
    }
  }
}

/* Returns the bytes by which a saved tensor is smaller in a form than in 16 bits.  `uses` says
 * which operators read it in backward; "gate" stands for a gated activation such as SwiGLU.  In
 * most forms GEMMs save a copy of their input in their own format, beside a 16-bit tensor that
 * others read.  PZ_SAVED_8BIT has one copy for all readers, as in DeepSeek-V3 (arXiv 2412.19437,
 * 3.3.3): in 8 bits, or in 12 (E5M6) if it is the input of a GEMM that others read too, such as the
 * result of attention, whose backward pass is sensitive to precision. */
int64_t pz_saved_less(const struct pz_tensor *tensor, unsigned uses, enum pz_saved_form form) {
  bool by_gemm = uses & PZ_SAVED_BY_GEMM, by_gate = uses & PZ_SAVED_BY_GATE;
  bool by_other = uses & PZ_SAVED_BY_OTHER;
  int64_t elements = tensor->elems;
  if (form == PZ_SAVED_16BIT || tensor->elem_bytes != 2) return 0;
  if (form == PZ_SAVED_8BIT) {
    if (by_gemm && by_other) return elements / 2; /* 1.5 bytes instead of 2 */
    return by_gemm || by_gate ? elements : 0;
  }
  bool four_bits = form == PZ_SAVED_GEMM_4BIT || form == PZ_SAVED_GEMM_4BIT_GATE;
  bool gates_too = form == PZ_SAVED_GEMM_8BIT_GATE || form == PZ_SAVED_GEMM_4BIT_GATE;
  if (by_gemm) {
    /* GEMMs read a copy, which replaces the 16-bit tensor unless other operators read that one.
     * A 4-bit copy has an 8-bit scale for each 16 values, so 9 bytes for 16 values. */
    int64_t copy_bytes = four_bits ? elements * 9 / 16 : elements;
    return (by_other ? 0 : 2 * elements) - copy_bytes;
  }
  return gates_too && by_gate && !by_other ? elements : 0;
}

/* Sets which operators read the saved tensors of a layer, the bytes that each form of saving them
 * in fewer bits takes off, and the sizes of logits and attention contexts. */
static void find_saved_uses(struct pz_graph *graph, struct pz_layer *layer) {
  uint8_t *uses = pz_alloc(graph->call, graph->tensors.n, sizeof *uses);
  uint8_t *saved_by = pz_alloc(graph->call, layer->n_saved + 1, sizeof *saved_by);
  /* operators of backward that read 16-bit tensors: not GEMMs, gated activations, or mere moves */
  mark_forward_uses(graph, uses);
  for (uint32_t i = 0; i < graph->ops[PZ_BACKWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_BACKWARD, i);
    bool is_other = op->kind != PZ_OP_MATMUL && op->kind != PZ_OP_SWIGLU &&
                    op->op_class != PZ_CLASS_COLLECTIVE && op->op_class != PZ_CLASS_NONE;
    for (uint32_t k = 0; k < op->n_in && is_other; k++)
      uses[storage_of(graph, op->in[k])] |= PZ_SAVED_BY_OTHER;
  }
  /* the uses of each saved tensor, and the bytes that each form takes off all of them */
  for (uint32_t i = 0; i < layer->n_saved; i++) {
    const struct pz_tensor *tensor = pz_graph_tensor(graph, layer->saved[i]);
    saved_by[i] = uses[layer->saved[i]];
    for (int form = 0; form < PZ_SAVED_FORMS; form++)
      layer->less_bytes[form] += pz_saved_less(tensor, saved_by[i], (enum pz_saved_form)form);
  }
  layer->saved_by = saved_by;
  for (uint32_t i = 0; i < graph->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = pz_graph_op(graph, PZ_FORWARD, i);
    if (op->kind == PZ_OP_CROSS_ENTROPY || op->kind == PZ_OP_LOG_SOFTMAX)
      layer->logits += pz_graph_tensor(graph, op->in[0])->elems;
    if (op->kind == PZ_OP_ATTENTION)
      layer->context_bytes += pz_tensor_bytes(pz_graph_tensor(graph, op->out[0]));
  }
}

/* Sets the members of a layer about memory.  Forward is simulated as in a layer that is recomputed
 * (live_plain) and as in others, and backward for each kind of gradient storage. */
void pz_memory_layer(struct pz_graph *graph, const struct pz_workload_options *options,
                     struct pz_layer *layer) {
  bool *saved = pz_alloc(graph->call, graph->tensors.n, sizeof *saved);
  collect_saved(graph, options->kernels, layer, saved);
  find_saved_uses(graph, layer);
  layer->output_bytes =
      pz_tensor_bytes(pz_graph_tensor(graph, graph->output)) + graph->passing_bytes;
  for (uint32_t i = 0; i < graph->n_also_out; i++)
    layer->output_bytes += pz_tensor_bytes(pz_graph_tensor(graph, graph->also_out[i]));
  bool eager = pz_kernels_eager(options->kernels);
  struct simulation sim = {.graph = graph, .saved = saved, .eager = eager};
  layer->live_plain = simulate(sim);
  sim.keeps_saved = true;
  layer->live[PZ_FORWARD] = simulate(sim);
  sim.direction = PZ_BACKWARD;
  for (int i = 0; i < PZ_GRADIENTS; i++) {
    sim.gradients = (enum pz_gradients)i;
    layer->live_backward[i] = simulate(sim);
  }
  layer->live[PZ_BACKWARD] =
      layer->live_backward[eager ? PZ_GRADIENTS_PASSING : PZ_GRADIENTS_IN_PLACE];
}

/* ---- the peak of a model --------------------------------------------------------------------- */

/* Returns the peak and net change of the live bytes in one direction of a layer.  With full
 * recomputation, all layers but the embedding, which has no input, and the head, which is the last
 * layer, keep only their result in forward, and their backward begins with the forward. */
static struct pz_live live_of_layer(const struct pz_workload *workload,
                                    const struct pz_layer *layer, enum pz_direction direction) {
  bool is_last = layer == &workload->layers[workload->n_layers - 1];
  bool is_recomputed =
      workload->options.recompute == PZ_RECOMPUTE_FULL && layer->input != PZ_NONE && !is_last;
  const struct pz_live *forward = &layer->live[PZ_FORWARD], *backward = &layer->live[PZ_BACKWARD];
  if (!is_recomputed) return layer->live[direction];
  if (direction == PZ_FORWARD)
    return (struct pz_live){.peak_bytes = layer->live_plain.peak_bytes,
                            .net_bytes = layer->output_bytes};
  return (struct pz_live){
      .peak_bytes = pz_max(forward->peak_bytes, forward->net_bytes + backward->peak_bytes),
      .net_bytes = forward->net_bytes + backward->net_bytes};
}

/* Live bytes of a model while its layers run one after another. */
struct model_memory {
  const struct pz_workload *workload;
  int64_t bytes, peak_bytes;
};

/* Simulates `count` equal layers, one after another.  Live bytes change by the same amount in each,
 * so the peak is in the last if they grow, otherwise in the first.  Returns false on overflow. */
static bool run_layers(struct model_memory *memory, uint32_t index, enum pz_direction direction,
                       int64_t count) {
  const struct pz_layer *layer = &memory->workload->layers[index];
  struct pz_live live = live_of_layer(memory->workload, layer, direction);
  int64_t growth_before_last = live.net_bytes, growth = live.net_bytes, peak = memory->bytes;
  if (!pz_mul(&growth_before_last, count - 1) || !pz_mul(&growth, count)) return false;
  bool peak_is_in_last = growth_before_last > 0;
  if (peak_is_in_last && !pz_add(&peak, growth_before_last)) return false;
  if (!pz_add(&peak, live.peak_bytes) || !pz_add(&memory->bytes, growth)) return false;
  memory->peak_bytes = pz_max(memory->peak_bytes, peak);
  return true;
}

/* Simulates all repetitions of a unit of layers, in backward from the last layer to the first.
 * Returns false if a size overflows. */
static bool run_segment(struct model_memory *memory, const struct pz_segment *segment,
                        enum pz_direction direction) {
  if (segment->n_unit == 1)
    return run_layers(memory, segment->unit[0], direction, segment->repeats);
  for (int64_t k = 0; k < segment->repeats; k++)
    for (uint32_t i = 0; i < segment->n_unit; i++) {
      uint32_t place = direction == PZ_FORWARD ? i : segment->n_unit - 1 - i;
      if (!run_layers(memory, segment->unit[place], direction, 1)) return false;
    }
  return true;
}

/* Returns the peak bytes of a training step: all layers forward, and then backward. */
int64_t pz_memory_peak(struct pz_call *call, const struct pz_workload *workload) {
  int64_t bytes = pz_kernels_eager(workload->options.kernels) ? LIBRARY_WORKSPACE_BYTES : 0;
  struct model_memory memory = {.workload = workload};
  bool fits = true;
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    /* Weights, gradients and constants stay allocated. */
    const struct pz_layer *layer = &workload->layers[i];
    int64_t fixed = layer->params, gradients = layer->trained_params;
    fits = fits && pz_mul(&fixed, WEIGHT_BYTES) && pz_mul(&gradients, GRAD_BYTES) &&
           pz_add(&fixed, gradients) && pz_add(&fixed, layer->buffer_bytes) &&
           pz_mul(&fixed, layer->count) && pz_add(&bytes, fixed) &&
           pz_add(&bytes, layer->shared_bytes);
  }
  for (uint32_t i = 0; i < workload->n_order; i++)
    fits = fits && run_segment(&memory, &workload->order[i], PZ_FORWARD);
  for (uint32_t remaining = workload->n_order; remaining > 0; remaining--)
    fits = fits && run_segment(&memory, &workload->order[remaining - 1], PZ_BACKWARD);
  if (!fits || !pz_add(&bytes, memory.peak_bytes)) pz_raise_size_limit(call, workload->model);
  return bytes;
}
