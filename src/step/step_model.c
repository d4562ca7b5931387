/* Step models (step_model.h): the graphs of a model's layers, and the times of their kernels and
 * layers.
 *
 * Kernels are timed once for each dispatcher of experts' tokens and set of CUDA graphs, layers
 * once for each combination of the plan's fields that they depend on (struct pz_timed_plan_key).
 * The last PZ_TIMED_PLANS combinations are kept, because plans that differ only in their pipeline
 * or in their replicas share them.  step_price.c prices plans from these times. */
#include "step/step_model.h"

#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "plan/pipeline_order.h"
#include "step/wide_layers.h"
#include "workload/workload.h"

/* ---- kernels -------------------------------------------------------------------------------- */

/* Returns whether the chip schedules the operators of a pass.  Split backward passes are not. */
bool pz_step_is_scheduled(const struct pz_chip *chip, const struct pz_plan *plan) {
  return chip->execution != PZ_CHIP_STREAM && plan->execution == PZ_EXECUTION_SCHEDULED &&
         !pz_pipeline_splits_backward((enum pz_pipeline_order)plan->pipeline);
}

/* Returns the context in which layers are timed for a plan, without the layer's number format. */
static struct pz_step_context step_context(struct pz_step_model *model, const struct pz_plan *plan,
                                           int64_t microbatches) {
  struct pz_cost *cost = &model->cost;
  const struct pz_workload *workload = model->workload;
  int chains = plan->halves > 0 ? 2 : 1;
  double collective_cores = cost->net.instant ? 0 : pz_beside_cores(model->constants, &cost->chip);
  /* The second half accumulates its gradients on those of the first, like a second microbatch, so
   * the layers need the times of at least two microbatches. */
  if (chains > 1) microbatches = pz_max(2, microbatches);
  return (struct pz_step_context){
      .cost = cost,
      .constants = model->constants,
      .network = &cost->net,
      .plan = plan,
      .seq = model->seq / pz_plan_cp(plan),
      .microbatches = microbatches,
      .mbs = plan->mbs / chains,
      .chains = chains,
      .flash = workload->options.attention == PZ_ATTENTION_FLASH,
      .adapted_modules = workload->options.lora.rank ? workload->options.lora.modules : 0,
      .gathers_weights = pz_plan_gathers_per_layer(plan),
      .scheduled = model->runs && pz_step_is_scheduled(&cost->chip, plan),
      .solved = model->solved,
      .experts_per_token = workload->experts_per_token,
      .expert_groups = workload->expert_groups,
      .imbalance = model->imbalance,
      .collective_cores = collective_cores};
}

/* Returns the number format of a layer's GEMMs.  Only repeated layers have less than 16 bits. */
static enum pz_format layer_format(const struct pz_layer *layer, const struct pz_plan *plan) {
  return pz_is_block(layer) && !layer->wide ? pz_plan_format(plan) : PZ_FORMAT_16BIT;
}

/* Returns the context in which pz_layer_step() times one layer under a plan: everything besides the
 * layer that its time depends on, including its number format.  If the chip schedules operators,
 * the solver may spend PZ_PASS_STEPS steps on the schedule of a pass. */
struct pz_step_context pz_step_layer_context(struct pz_step_model *model,
                                             const struct pz_plan *plan, uint32_t layer) {
  model->cost.net.devices = pz_plan_devices(plan); /* which part of a torus the job occupies */
  struct pz_step_context context = step_context(model, plan, pz_plan_microbatches(plan));
  context.format = layer_format(&pz_step_pass(model)->layers[layer], plan);
  context.solver_steps = PZ_PASS_STEPS;
  return context;
}

/* Times the kernels of all layers, which depend on the plan's dispatcher and CUDA graphs. */
static void time_kernels(struct pz_call *call, struct pz_step_model *model,
                         const struct pz_plan *plan, struct pz_kernel_variant *variant) {
  const int64_t any_microbatches = 1;
  struct pz_step_context context = step_context(model, plan, any_microbatches);
  const struct pz_workload *workload = pz_step_pass(model);
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    context.format = layer_format(&workload->layers[i], plan);
    pz_layer_kernels(call, &context, &workload->layers[i], &variant->kernels[i]);
  }
  variant->dispatcher = (int)pz_plan_dispatcher(plan);
  variant->cuda_graphs = plan->cuda_graphs;
  model->kernels = variant->kernels;
}

/* Discards all times, and times the kernels for one plan. */
static void restart_timing(struct pz_call *call, struct pz_step_model *model,
                           const struct pz_plan *plan) {
  for (int i = 0; i < 2 * PZ_TIMED_PLANS; i++) model->timed[i].valid = false;
  model->n_variants = 1;
  time_kernels(call, model, plan, &model->variant[0]);
}

/* Sets model->kernels to the variant of a plan.  A new variant is timed first. */
static void select_kernels(struct pz_call *call, struct pz_step_model *model,
                           const struct pz_plan *plan) {
  int dispatcher = (int)pz_plan_dispatcher(plan);
  for (int i = 0; i < model->n_variants; i++) {
    const struct pz_kernel_variant *variant = &model->variant[i];
    if (variant->dispatcher != dispatcher || variant->cuda_graphs != plan->cuda_graphs) continue;
    model->kernels = variant->kernels;
    return;
  }
  /* model->runs has the operators of one variant only */
  if (model->runs || model->n_variants == PZ_KERNEL_VARIANTS) {
    restart_timing(call, model, plan);
    return;
  }
  struct pz_kernel_variant *added = &model->variant[model->n_variants];
  struct pz_call model_call = pz_call_in(call, &model->arena);
  if (!added->kernels)
    added->kernels = pz_alloc(&model_call, model->workload->n_layers, sizeof *added->kernels);
  time_kernels(call, model, plan, added);
  model->n_variants++;
}

/* ---- making a model ------------------------------------------------------------------------- */

/* Loads the graphs of a model's layers, for microbatches of mbs samples, into *workload. */
static void load_workload(struct pz_call *call, const struct pz_job *job,
                          const struct pz_plan *plan, int64_t mbs, struct pz_workload **workload) {
  struct pz_error *err = pz_call_error(call);
  struct pz_workload_options options = pz_workload_options_default();
  const struct pz_framework *framework = pz_plan_framework(plan);
  bool is_eager = plan->execution == PZ_EXECUTION_EAGER;
  options.seq = plan->seq;
  options.cp = pz_plan_cp(plan);
  options.cp_form = plan->cp_form > 0 ? (enum pz_context_form)plan->cp_form : PZ_CONTEXT_RING;
  options.mbs = mbs;
  options.tp = plan->tp;
  options.ep = pz_plan_ep(plan);
  options.etp = options.ep > 1 ? pz_plan_etp(plan) : plan->etp;
  options.sequence_parallel = plan->sp && plan->tp > 1;
  options.attention = (enum pz_attention)plan->attention;
  options.kernels = is_eager ? framework->kernels : PZ_KERNELS_POINTWISE;
  if (job->chip->execution != PZ_CHIP_STREAM) options.kernels = PZ_KERNELS_FUSED;
  options.mtp = plan->mtp;
  options.imbalance = plan->imbalance;
  options.vocab_multiple = pz_plan_framework(plan)->vocab_multiple * plan->tp;
  if (!framework->dropout) options.dropout = 0;
  pz_must(call, pz_lora_parse(plan->peft, &options.lora, err));
  if (framework->rules == PZ_RULES_CORE) { /* share_expert_adapters of Megatron Bridge */
    options.lora.modules |= (int)PZ_LORA_SHARED_EXPERTS;
    if (!pz_lora_divides(&options.lora)) options.lora.modules |= (int)PZ_LORA_SHARED;
  }
  if (job->config)
    pz_must(call, pz_workload_parse(job->model, job->config, strlen(job->config), &options,
                                    workload, err));
  else
    pz_must(call, pz_workload_load(job->model, &options, workload, err));
  bool wide_predict = plan->bf16_modules & PZ_WIDE_PREDICT;
  if (plan->bf16_layers || plan->bf16_first_layers || wide_predict)
    pz_wide_layers(call, *workload, plan->bf16_first_layers, plan->bf16_layers, wide_predict);
}

/* Allocates the tables of kernel and layer times, and of operator times if passes are scheduled.
 * Layer times are stored for each kind of repeated layer (block), without recomputation (`block`)
 * and with that of the plan (`again`). */
static void allocate_tables(struct pz_call *model_call, struct pz_step_model *model,
                            bool scheduled) {
  uint32_t n_layers = model->workload->n_layers;
  struct pz_layer_kernels *kernels = pz_alloc(model_call, n_layers, sizeof *kernels);
  /* The table of the first variant; select_kernels() allocates those of others. */
  model->variant[0].kernels = kernels;
  model->kernels = kernels;
  model->block_params = pz_alloc(model_call, model->kinds.n, sizeof *model->block_params);
  /* PZ_TIMED_PLANS plans timed by bounds of schedules, and as many by solved schedules */
  for (int i = 0; i < 2 * PZ_TIMED_PLANS; i++) {
    struct pz_model_steps *steps = &model->timed[i].steps;
    steps->block = pz_alloc(model_call, model->kinds.n, sizeof *steps->block);
    steps->again = pz_alloc(model_call, model->kinds.n, sizeof *steps->again);
  }
  model->steps = &model->timed[0].steps;
  if (!scheduled) return;
  const struct pz_layer *layers = pz_step_pass(model)->layers;
  size_t n_ops = 0;
  for (uint32_t i = 0; i < n_layers; i++)
    n_ops += layers[i].ops[PZ_FORWARD].n + layers[i].ops[PZ_BACKWARD].n;
  model->runs = pz_alloc(model_call, n_ops + 1, sizeof *model->runs);
  model->solved = pz_solved_passes_new(model_call);
  struct pz_op_run *next = model->runs;
  for (uint32_t i = 0; i < n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
      kernels[i].runs[d] = next;
      next += layers[i].ops[d].n;
    }
}

/* Initialises the cost model of the chip and the network. */
static void set_cost_model(struct pz_step_model *model, const struct pz_chip *chip,
                           const struct pz_cluster *network, const struct pz_plan *plan,
                           struct pz_product_times *times) {
  const char *library = pz_plan_framework(plan)->attention;
  pz_cost_init(&model->cost, chip, network);
  pz_cluster_correct(&model->cost.net, &chip->correction);
  model->cost.causal = model->workload->causal;
  model->cost.attention_library = library ? library : plan->attention_library;
  model->cost.times = times;
}

/* Makes a step model: loads the graphs of layers, counts parameters, and times the kernels.  Times
 * come from graphs in which all experts get equally many tokens, and those of the experts are then
 * multiplied by model->imbalance (layer_step.c).  Memory comes from the graphs of the device whose
 * experts get the most tokens. */
struct pz_step_model *pz_step_model_new(struct pz_call *call, const struct pz_job *job,
                                        const struct pz_plan *plan) {
  struct pz_step_model *model = pz_calloc(1, sizeof *model);
  if (!model) pz_raise_memory(call, "the prediction");
  pz_defer(call, pz_step_model_free, model);
  struct pz_call model_call = pz_call_in(call, &model->arena);
  model->constants = job->constants ? job->constants : &pz_constants_default;
  struct pz_plan even = *plan;
  even.imbalance = model->imbalance = 1;
  load_workload(call, job, &even, plan->mbs, &model->workload);
  if (plan->halves > 0) load_workload(call, job, &even, plan->mbs / 2, &model->half_workload);
  if (model->workload->experts && plan->imbalance > 1) {
    load_workload(call, job, plan, plan->mbs, &model->fullest_workload);
    model->imbalance = model->fullest_workload->options.imbalance;
  }
  model->kinds = pz_layer_kinds_of(&model_call, model->workload);
  allocate_tables(&model_call, model, pz_step_is_scheduled(job->chip, plan));
  model->seq = model->workload->options.seq;
  model->n_blocks = model->kinds.n_blocks;
  /* Parameters are stored by kind of repeated layer.  Those of other layers are added up: before
   * the first repeated layer (embeddings) and after it (final norm, head). */
  uint32_t kind = 0; /* the next kind of repeated layer */
  for (uint32_t i = 0; i < model->workload->n_layers; i++) {
    const struct pz_layer *layer = &model->workload->layers[i];
    double expert = (double)layer->expert_params;
    double trained_expert = (double)layer->trained_expert_params;
    struct pz_step_params params = {(double)layer->params - expert, expert,
                                    (double)layer->trained_params - trained_expert, trained_expert};
    if (!pz_plan_trains_adapters(plan)) model->tied_params += (double)layer->tied_params;
    bool is_repeated = kind < model->kinds.n && model->kinds.layer[kind] == i;
    bool is_before = kind == 0;
    if (is_repeated)
      model->block_params[kind++] = params;
    else
      pz_step_params_add(is_before ? &model->before_params : &model->after_params, &params,
                         (double)layer->count);
  }
  set_cost_model(model, job->chip, job->net, plan, job->times);
  const struct pz_workload *largest =
      model->fullest_workload ? model->fullest_workload : model->workload;
  model->memory = pz_memory_model_of(largest, &model->kinds, job->chip, plan);
  restart_timing(call, model, plan);
  return model;
}

/* Changes the chip and the network of a model, and times its kernels again. */
void pz_step_model_set_chip(struct pz_call *call, struct pz_step_model *model,
                            const struct pz_chip *chip, const struct pz_cluster *network,
                            const struct pz_plan *plan, struct pz_product_times *times) {
  pz_cost_release(&model->cost);
  set_cost_model(model, chip, network, plan, times);
  pz_solved_passes_clear(model->solved);
  restart_timing(call, model, plan);
}

/* Frees a model, unless it is NULL; a pz_close_fn. */
void pz_step_model_free(void *object) {
  struct pz_step_model *model = object;
  if (!model) return;
  if (model->cost.chip.name[0]) pz_cost_release(&model->cost);
  pz_solved_passes_clear(model->solved);
  pz_workload_free(model->half_workload);
  pz_workload_free(model->fullest_workload);
  pz_workload_free(model->workload);
  pz_arena_release(&model->work);
  pz_arena_release(&model->arena);
  pz_free(model);
}

/* Returns a call that allocates intermediate data in the model, after freeing the previous data. */
struct pz_call pz_step_model_work(const struct pz_call *call, struct pz_step_model *model) {
  pz_arena_release(&model->work);
  return pz_call_in(call, &model->work);
}

/* ---- layers of a plan ----------------------------------------------------------------------- */

_Static_assert(sizeof(struct pz_timed_plan_key) == 10 * sizeof(int) + 3 * sizeof(int64_t),
               "keys are compared by bytes and must have no padding");

/* Returns everything in a plan on which layer times depend: plans with equal keys share them. */
static struct pz_timed_plan_key timed_plan_key(const struct pz_step_model *model,
                                               const struct pz_plan *plan, int64_t microbatches) {
  const struct pz_cluster *network = &model->cost.net;
  bool scatters = pz_plan_scatters_per_microbatch(plan);
  struct pz_timed_plan_key key = {.recompute = plan->recompute,
                                  .overlap = plan->overlap & (int)(PZ_OVERLAP_TP | PZ_OVERLAP_EP),
                                  .saved = plan->saved,
                                  .modules = pz_plan_recomputed_modules(plan),
                                  .pipeline = plan->pipeline,
                                  .dispatcher = (int)pz_plan_dispatcher(plan),
                                  .cuda_graphs = plan->cuda_graphs,
                                  .shards = scatters ? pz_plan_shards(plan) : 1,
                                  .expert_shards = scatters ? pz_plan_expert_shards(plan) : 1,
                                  .several_microbatches = microbatches > 1,
                                  .gathers_weights = pz_plan_gathers_per_layer(plan),
                                  .autocasts = pz_plan_autocasts(plan)};
  /* on a torus, collectives depend on the part that the job occupies */
  for (int i = 0; i < network->n_levels; i++)
    if (network->level[i].n_axes) key.devices = network->devices;
  return key;
}

/* Sets model->steps to the layer times of a plan: those of an earlier plan with the same key, or
 * new ones, which replace the oldest.  Lower bounds of schedules are in the first half of
 * model->timed, solved schedules in the second. */
void pz_step_model_time(struct pz_call *call, struct pz_step_model *model,
                        const struct pz_plan *plan, int64_t microbatches, enum pz_timing timing) {
  model->cost.net.devices = pz_plan_devices(plan); /* which part of a torus the job occupies */
  select_kernels(call, model, plan);
  struct pz_timed_plan_key key = timed_plan_key(model, plan, microbatches);
  struct pz_step_context context = step_context(model, plan, microbatches);
  struct pz_timed_plan *plans = model->timed;
  if (context.scheduled && timing == PZ_TIMING_SOLVED) {
    context.solver_steps = PZ_PASS_STEPS;
    plans += PZ_TIMED_PLANS;
  }
  for (int i = 0; i < PZ_TIMED_PLANS; i++) {
    if (!plans[i].valid || memcmp(&key, &plans[i].key, sizeof key) != 0) continue;
    model->steps = &plans[i].steps;
    return;
  }
  struct pz_call work = pz_step_model_work(call, model);
  struct pz_timed_plan *timed = &plans[model->n_timed++ % PZ_TIMED_PLANS];
  struct pz_model_steps *steps = &timed->steps;
  const bool recomputed = true;
  uint32_t kind = 0; /* the next kind of repeated layer */
  model->steps = steps;
  timed->valid = false;
  steps->before = steps->after = (struct pz_layer_step){.forward_s = 0};
  for (uint32_t i = 0; i < model->workload->n_layers; i++) {
    const struct pz_layer *layer = &pz_step_pass(model)->layers[i];
    context.format = layer_format(layer, plan);
    struct pz_layer_step step =
        pz_layer_step(&work, &context, layer, &model->kernels[i], !recomputed);
    bool is_repeated = kind < model->kinds.n && model->kinds.layer[kind] == i;
    bool is_before = kind == 0;
    if (!is_repeated) {
      pz_layer_step_add(is_before ? &steps->before : &steps->after, &step, (double)layer->count);
      continue;
    }
    steps->block[kind] = step;
    steps->again[kind] = step;
    if (plan->recompute != PZ_RECOMPUTATION_NONE)
      steps->again[kind] = pz_layer_step(&work, &context, layer, &model->kernels[i], recomputed);
    kind++;
  }
  timed->key = key;
  timed->valid = true;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Returns the bytes of host memory that each device of a stage needs for offloaded data. */
double pz_step_host_bytes(const struct pz_step_model *model, const struct pz_plan *plan,
                          int64_t stage) {
  return pz_host_bytes(&model->memory, plan, pz_plan_microbatches(plan), stage);
}

/* Returns the memory of a stage at its worst moment. */
struct pz_training_memory pz_step_memory(const struct pz_step_model *model,
                                         const struct pz_plan *plan, int64_t stage) {
  return pz_training_memory(&model->memory, plan, pz_plan_microbatches(plan), stage);
}

/* Returns the bytes that a device must offer: the upper end of the interval of reserved bytes. */
double pz_step_needed_bytes(const struct pz_step_model *model, const struct pz_plan *plan,
                            int64_t stage) {
  struct pz_training_memory peak = pz_step_memory(model, plan, stage);
  return pz_reserved_of(&model->memory, model->constants, plan, &peak).high;
}
