/* Assembling a workload: layers, their order, and totals.
 *
 * * For each layer of a list, build_layer() runs the builder and then the passes over its graph:
 * backward, fusion, memory, accounting. pz_describe_order() describes the order of the layers by
 * units that repeat, and sum_totals() sums up the model with overflow checks. */
#include "workload/assemble.h"

#include <string.h>

#include "core/num.h"
#include "workload/passes.h"

/* Frees a workload.  The arena is copied first, because its memory contains the struct itself. */
void pz_workload_free(struct pz_workload *workload) {
  if (!workload) return;
  struct pz_arena arena = ((struct pz_owned_workload *)workload)->arena;
  pz_arena_release(&arena);
}

/* Frees a struct pz_owned_workload when its call ends (a callback of pz_defer). */
static void free_owned(void *owned) {
  pz_workload_free(&((struct pz_owned_workload *)owned)->workload);
}

/* Returns an empty workload, which is freed when `call` ends unless pz_undefer() is called. */
struct pz_owned_workload *pz_workload_new(struct pz_call *call, struct pz_call *workload_call) {
  struct pz_arena arena;
  pz_arena_init(&arena);
  struct pz_owned_workload *owned = pz_arena_alloc(&arena, 1, sizeof *owned);
  if (!owned) pz_raise_memory(call, "a model");
  owned->arena = arena;
  pz_defer(call, free_owned, owned);
  *workload_call = pz_call_in(call, &owned->arena);
  return owned;
}

/* Builds the layer of a plan into *layer: runs the builder, then the passes over its graph, and
 * copies the results. */
static void build_layer(struct pz_call *workload_call, struct pz_owned_workload *owned,
                        const struct pz_layer_plan *plan, struct pz_layer *layer) {
  const struct pz_workload_options *options = &owned->workload.options;
  struct pz_graph graph;
  struct pz_builder builder;
  pz_graph_init(&graph, workload_call, owned->workload.model);
  pz_builder_init(&builder, &graph, options);
  plan->build(&builder, plan->ctx);
  pz_backward_derive(&graph, options);
  if (!pz_kernels_eager(options->kernels)) pz_fuse(&graph, options->kernels);
  pz_memory_layer(&graph, options, layer);
  if (plan->repeated && options->recompute == PZ_RECOMPUTE_FULL) {
    /* Backward begins with the forward operators, and only the input of the layer is saved. */
    struct pz_vec ops;
    pz_vec_init(&ops, workload_call->arena, sizeof(struct pz_op));
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      for (uint32_t i = 0; i < graph.ops[d].n; i++)
        pz_append(workload_call, &ops, pz_graph_op(&graph, d, i));
    graph.ops[PZ_BACKWARD] = ops;
    layer->saved = pz_copy(workload_call, &graph.input, 1, sizeof graph.input);
    layer->n_saved = 1;
    layer->activation_bytes = pz_tensor_bytes(pz_graph_tensor(&graph, graph.input));
  }
  pz_graph_account(&graph);
  owned->adaptable |= builder.adapter.found;

  layer->name = plan->name;
  layer->count = plan->count;
  layer->buffer_bytes = plan->buffer_bytes;
  layer->tensors = graph.tensors.items;
  layer->n_tensors = graph.tensors.n;
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    layer->ops[d] = (struct pz_ops){graph.ops[d].items, graph.ops[d].n};
  layer->input = graph.input;
  layer->output = graph.output;
  layer->output_grad = graph.output_grad;
  /* a layer that repeats the weights of another one counts no parameters of its own */
  layer->params = builder.params;
  layer->split_params = builder.split_params;
  layer->tied_params = builder.repeats_weights ? 0 : builder.tied_params;
  layer->model_params = builder.model_params;
  layer->group_grad_params = builder.repeats_weights ? 0 : builder.group_grad_params;
  layer->expert_params = builder.expert_params;
  layer->model_expert_params = builder.model_expert_params;
  layer->trained_params = builder.trained_params;
  layer->trained_expert_params = builder.trained_expert_params;
  layer->model_trained_params =
      options->lora.rank > 0 ? builder.model_trained_params : builder.model_params;
}

/* ---- order of the layers --------------------------------------------------------------------- */

/* Most layers of a repeated unit; known models have at most half as many. */
enum { LONGEST_UNIT = 16 };

/* Returns how often the first `unit` layers of a sequence occur one after another at its start. */
static uint32_t count_repeats(const uint32_t *sequence, uint32_t n, uint32_t unit) {
  uint32_t count = 1;
  while ((count + 1) * unit <= n &&
         memcmp(sequence, sequence + count * unit, unit * sizeof *sequence) == 0)
    count++;
  return count;
}

/* Describes a sequence of layers by units that repeat.  Each unit is the one whose repetitions
 * cover the most layers, and the shortest of equals. */
void pz_describe_order(struct pz_call *call, struct pz_workload *workload, const uint32_t *sequence,
                       uint32_t n) {
  struct pz_vec units;
  pz_vec_init(&units, call->arena, sizeof(struct pz_segment));
  uint32_t position = 0;
  while (position < n) {
    const uint32_t *rest = sequence + position;
    uint32_t n_rest = n - position, unit = 1, repeats = count_repeats(rest, n_rest, 1);
    for (uint32_t longer = 2; longer <= LONGEST_UNIT && 2 * longer <= n_rest; longer++) {
      uint32_t count = count_repeats(rest, n_rest, longer);
      if (count < 2 || count * longer <= repeats * unit) continue;
      unit = longer;
      repeats = count;
    }
    struct pz_segment segment = {pz_copy(call, rest, unit, sizeof *rest), unit, repeats};
    pz_append(call, &units, &segment);
    position += unit * repeats;
  }
  workload->order = units.items;
  workload->n_order = units.n;
}

/* ---- totals ---------------------------------------------------------------------------------- */

/* Adds value * count to *total.  Returns false if it overflows. */
static bool add_times(int64_t *total, int64_t value, int64_t count) {
  return pz_mul(&value, count) && pz_add(total, value);
}

/* Adds the FLOP and the number of operators of one direction of a layer.  Returns false if a sum
 * overflows. */
static bool add_operators(struct pz_totals *totals, const struct pz_layer *layer,
                          enum pz_direction direction) {
  bool forward = direction == PZ_FORWARD;
  int64_t *flop = forward ? &totals->forward_flop : &totals->backward_flop;
  int64_t *matmul_flop = forward ? &totals->matmul_forward_flop : &totals->matmul_backward_flop;
  const struct pz_ops *ops = &layer->ops[direction];
  bool fits = true;
  for (uint32_t i = 0; i < ops->n; i++)
    fits = fits && add_times(flop, ops->op[i].flop, layer->count) &&
           add_times(matmul_flop, ops->op[i].matmul_flop, layer->count);
  return fits && add_times(&totals->ops, ops->n, layer->count);
}

/* Sums up parameters, FLOP and bytes over all layers.  Raises an error if a sum overflows. */
static void sum_totals(struct pz_call *workload_call, struct pz_workload *workload) {
  struct pz_totals *totals = &workload->totals;
  bool fits = true;
  for (uint32_t i = 0; i < workload->n_layers && fits; i++) {
    const struct pz_layer *layer = &workload->layers[i];
    int64_t count = layer->count;
    /* A token does not use the routed experts to which it is not sent. */
    int64_t routed = layer->model_expert_params, active = layer->model_params;
    if (routed && workload->experts)
      active += routed / workload->experts * workload->experts_per_token - routed;
    fits = add_times(&totals->params, layer->params, count) &&
           add_times(&totals->model_params, layer->model_params, count) &&
           add_times(&totals->model_trained_params, layer->model_trained_params, count) &&
           add_times(&totals->split_params, layer->split_params, count) &&
           add_times(&totals->expert_params, layer->expert_params, count) &&
           add_times(&totals->active_params, active, count) &&
           add_times(&totals->activation_bytes, layer->activation_bytes, count) &&
           pz_add(&totals->activation_bytes, layer->shared_bytes) &&
           add_operators(totals, layer, PZ_FORWARD) && add_operators(totals, layer, PZ_BACKWARD);
    totals->layers += count;
  }
  if (!fits || !add_times(&totals->param_bytes, totals->params, PZ_B16))
    pz_raise_size_limit(workload_call, workload->model);
  totals->peak_bytes = pz_memory_peak(workload_call, workload);
}

/* Builds the layers of a plan.  Each reads the layer before it, unless its plan lists others. */
void pz_assemble(struct pz_call *workload_call, struct pz_owned_workload *owned,
                 const struct pz_layer_plan *plan, uint32_t n) {
  struct pz_workload *workload = &owned->workload;
  struct pz_layer *layers = pz_alloc(workload_call, n, sizeof *layers);
  for (uint32_t i = 0; i < n; i++) {
    build_layer(workload_call, owned, &plan[i], &layers[i]);
    const uint32_t previous = i - 1, *sources = plan[i].from ? plan[i].from : &previous;
    uint32_t n_default_sources = i > 0 ? 1 : 0; /* the first layer has no previous one */
    layers[i].n_from = plan[i].from ? plan[i].n_from : n_default_sources;
    layers[i].from = pz_copy(workload_call, sources, layers[i].n_from, sizeof *sources);
  }
  workload->layers = layers;
  workload->n_layers = n;
  if (!workload->order) {
    /* By default, each layer runs `count` times, one layer after the other. */
    struct pz_vec units;
    pz_vec_init(&units, workload_call->arena, sizeof(struct pz_segment));
    for (uint32_t i = 0; i < n; i++) {
      struct pz_segment segment = {pz_copy(workload_call, &i, 1, sizeof i), 1, layers[i].count};
      pz_append(workload_call, &units, &segment);
    }
    workload->order = units.items;
    workload->n_order = units.n;
  }
  sum_totals(workload_call, workload);
}
