/* Prices a plan from the layer times of a step model (step_model.h).
 *
 * The step is the simulated pipeline of the stages, the exchange of gradients and weights between
 * replicas, the optimizer, and the waiting for stragglers; find_terms() divides the pipeline's
 * time into the terms of a prediction. Collectives run beside compute if the plan overlaps them: a
 * *window* is the compute beside a collective, and exposed_s() returns what the collective adds to
 * its time. The bound of a step (pz_step_bound) replaces the simulation by a lower bound.
 *
 * A *chunk* is the group of layers that a stage runs in one pass; a slot of a stage holds one. */
#include <math.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "plan/model_shape.h"
#include "plan/pipeline_order.h"
#include "step/pass_schedule.h"
#include "step/step_energy.h"
#include "step/step_model.h"

/* A plan that is being priced. */
struct pricing {
  const struct pz_step_model *model;
  const struct pz_plan *plan;
  int64_t microbatches; /* microbatches of a replica in a step */
  struct pz_pipeline_shape shape;
  struct pz_plan_layers layers;
  int64_t last_chunk; /* index of the last chunk of the model */
  /* The share of the microbatches that each copy of a stage runs: half of them in bidirectional
   * pipelines, which have two copies. */
  double copy_share;
  struct pz_wire_time send;     /* time to send a microbatch's activations to the next stage */
  bool overlaps_send;           /* sends run beside the pass of a chunk */
  struct pz_step_params params; /* parameters of a device of the largest stage */
  double host_bytes_per_s;      /* rate between a device and its host, each way */
  /* The shares of the device's PCIe link that host copies and traffic between nodes use at their
   * full rates.  network_link_share is 0 if the network interface does not use this link. */
  double host_link_share, network_link_share;
};

/* ---- layers of a chunk ---------------------------------------------------------------------- */

/* The number of layers of one kind in a chunk, and how many of them are recomputed. */
struct chunk_layers {
  int64_t total, recomputed;
};

/* Counts the layers of a kind in a chunk. */
static struct chunk_layers chunk_layers(const struct pricing *pricing, int64_t chunk,
                                        uint32_t kind) {
  const struct pz_layer_kinds *kinds = &pricing->model->kinds;
  const struct pz_plan *plan = pricing->plan;
  struct chunk_layers count = {.total = pz_layers_at(&pricing->layers, chunk)};
  if (plan->recompute != PZ_RECOMPUTATION_NONE)
    count.recomputed = pz_plan_recomputed_layers(
        plan, pz_pipeline_stage_of(&pricing->shape, (uint32_t)chunk), count.total);
  if (kinds->n == 1) return count;
  int64_t start = pz_layers_before(&pricing->layers, chunk);
  return (struct chunk_layers){pz_kind_count(kinds, kind, start, count.total),
                               pz_kind_count(kinds, kind, start, count.recomputed)};
}

/* Returns how many repeated layers of a kind the plan recomputes, in all stages. */
int64_t pz_step_recomputed(const struct pz_step_model *model, const struct pz_plan *plan,
                           uint32_t kind) {
  struct pricing pricing = {.model = model,
                            .plan = plan,
                            .shape = pz_plan_pipeline_shape(plan),
                            .layers = pz_plan_layers(plan, model->n_blocks)};
  int64_t sum = 0;
  for (int64_t chunk = 0; chunk < plan->pp * plan->vpp; chunk++)
    sum += chunk_layers(&pricing, chunk, kind).recomputed;
  return sum;
}

/* ---- windows -------------------------------------------------------------------------------- */

/* Passes of layers that collectives may run beside, in seconds. */
struct window {
  double pass_s;
  double kernels_s, contended_s; /* kernels alone, and while collectives run beside them */
  double busy_s[PZ_WIRES];       /* busy time of the links by the layers' own collectives */
  double host_copy_s;            /* copies of activations to the host or back */
  double host_wait_s;            /* time for which the passes wait for these copies */
};

/* Adds the passes of `times` equal layers, each of pass_s seconds, to a window. */
static void add_layers(struct window *window, const struct pz_pass *pass, double pass_s,
                       double times) {
  window->pass_s += times * pass_s;
  window->kernels_s += times * pz_kernels_s(pass);
  window->contended_s += times * pass->contended_s;
  for (int i = 0; i < PZ_WIRES; i++) window->busy_s[i] += times * pass->busy_s[i];
}

/* Adds a window to a sum, multiplied by `times`. */
static void add_window(struct window *sum, const struct window *window, double times) {
  sum->pass_s += times * window->pass_s;
  sum->kernels_s += times * window->kernels_s;
  sum->contended_s += times * window->contended_s;
  sum->host_copy_s += times * window->host_copy_s;
  sum->host_wait_s += times * window->host_wait_s;
  for (int i = 0; i < PZ_WIRES; i++) sum->busy_s[i] += times * window->busy_s[i];
}

/* Returns the seconds for which copies to or from the host keep the device's link busy.  They run
 * beside the pass at the link's rate and cost nothing else (ref/h200/overlap.csv).  Traffic that
 * leaves the node takes a part of a shared link (DGX H100 user guide, network modules). */
static double host_link_s(const struct pricing *pricing, double host_copy_s, double outer_s) {
  if (!(host_copy_s > 0)) return 0;
  return pz_fmax(host_copy_s,
                 pricing->host_link_share * host_copy_s + pricing->network_link_share * outer_s);
}

/* Returns the seconds that a collective adds to a window, the compute that it runs beside: the
 * maximum of what it adds because it slows kernels down and may be longer than the window, of the
 * time for which links are busy beyond the window, and of the same for copies to the host. */
static double exposed_s(const struct pricing *pricing, const struct window *window,
                        const struct pz_wire_time *time) {
  double slowdown = 1, kernel_part = 0;
  if (window->kernels_s > 0) slowdown = pz_fmax(1, window->contended_s / window->kernels_s);
  if (window->pass_s > 0) kernel_part = pz_fmin(1, window->kernels_s / window->pass_s);
  double window_slowdown = 1 / (1 - kernel_part * (1 - 1 / slowdown));
  double added_s = pz_beside_exposed_s(time->s, window->pass_s, window_slowdown);
  for (int i = 0; i < PZ_WIRES; i++)
    added_s = pz_fmax(added_s, time->busy_s[i] + window->busy_s[i] - window->pass_s);
  double outer_s = time->busy_s[PZ_WIRE_OUTER] + window->busy_s[PZ_WIRE_OUTER];
  double link_s = host_link_s(pricing, window->host_copy_s, outer_s);
  added_s = pz_fmax(added_s, link_s - window->pass_s - window->host_wait_s);
  return pz_fmax(0, added_s);
}

/* The forward and the backward pass of one microbatch through a chunk or a stage. */
struct chunk_windows {
  struct window forward, backward;
};

/* Returns the passes of one microbatch through a chunk, which collectives may run beside. */
static struct chunk_windows chunk_windows(const struct pricing *pricing, int64_t chunk) {
  const struct pz_step_model *model = pricing->model;
  const struct pz_model_steps *steps = model->steps;
  struct chunk_windows windows = {{.pass_s = 0}, {.pass_s = 0}};
  struct window *forward = &windows.forward, *backward = &windows.backward;
  for (uint32_t kind = 0; kind < model->kinds.n; kind++) {
    const struct pz_layer_step *block = &steps->block[kind], *again = &steps->again[kind];
    struct chunk_layers counts = chunk_layers(pricing, chunk, kind);
    add_layers(forward, &block->forward, block->forward_s, (double)counts.total);
    add_layers(backward, &block->backward, block->backward_s,
               (double)(counts.total - counts.recomputed));
    if (counts.recomputed)
      add_layers(backward, &again->backward, again->backward_s, (double)counts.recomputed);
  }
  if (chunk == 0) {
    add_layers(forward, &steps->before.forward, steps->before.forward_s, 1);
    add_layers(backward, &steps->before.backward, steps->before.backward_s, 1);
  }
  if (chunk == pricing->last_chunk) {
    add_layers(forward, &steps->after.forward, steps->after.forward_s, 1);
    add_layers(backward, &steps->after.backward, steps->after.backward_s, 1);
  }
  if (!(pricing->plan->offload & PZ_OFFLOAD_ACTIVATIONS)) return windows;
  double copy_s =
      pz_chunk_offload_bytes(&model->memory, pricing->plan, chunk) / pricing->host_bytes_per_s;
  for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    struct window *window = direction == PZ_FORWARD ? forward : backward;
    double link_s = host_link_s(pricing, copy_s, window->busy_s[PZ_WIRE_OUTER]);
    window->host_copy_s = copy_s;
    window->host_wait_s = pz_fmax(0, link_s - window->pass_s);
  }
  return windows;
}

/* ---- chunks in time ------------------------------------------------------------------------- */

/* Returns the exposed seconds of a transfer to the next stage beside (or after) a pass.  A transfer
 * that is not overlapped also makes host and device wait for each other. */
static double send_s(const struct pricing *pricing, const struct window *pass) {
  const struct pz_step_model *model = pricing->model;
  if (pricing->plan->pp == 1) return 0;
  if (pricing->overlaps_send) return exposed_s(pricing, pass, &pricing->send);
  return pricing->send.s + (model->cost.net.instant ? 0 : model->constants->synchronise_s);
}

/* Returns the pipeline to simulate, with the pass times of all chunks stored in the arrays. */
static struct pz_pipeline make_pipeline(const struct pricing *pricing, double *forward_s,
                                        double *backward_s, double *weight_gradient_s) {
  const struct pz_step_model *model = pricing->model;
  for (int64_t chunk = 0; chunk <= pricing->last_chunk; chunk++) {
    bool last = chunk == pricing->last_chunk;
    /* between the ends of the model, a chunk takes as long as an equal one before it */
    if (model->kinds.n == 1 && chunk > 1 && !last) {
      struct chunk_layers layers = chunk_layers(pricing, chunk, 0);
      struct chunk_layers previous = chunk_layers(pricing, chunk - 1, 0);
      if (layers.total == previous.total && layers.recomputed == previous.recomputed) {
        forward_s[chunk] = forward_s[chunk - 1];
        backward_s[chunk] = backward_s[chunk - 1];
        weight_gradient_s[chunk] = weight_gradient_s[chunk - 1];
        continue;
      }
    }
    struct chunk_windows windows = chunk_windows(pricing, chunk);
    const struct window *forward = &windows.forward, *backward = &windows.backward;
    forward_s[chunk] = forward->pass_s + send_s(pricing, forward) + forward->host_wait_s;
    backward_s[chunk] = backward->pass_s + send_s(pricing, backward) + backward->host_wait_s;
    weight_gradient_s[chunk] = last ? model->steps->after.backward.weight_gradient_s : 0;
    for (uint32_t kind = 0; kind < model->kinds.n; kind++)
      weight_gradient_s[chunk] += (double)chunk_layers(pricing, chunk, kind).total *
                                  model->steps->block[kind].backward.weight_gradient_s;
  }
  return (struct pz_pipeline){.stages = (uint32_t)pricing->plan->pp,
                              .chunks = (uint32_t)pricing->plan->vpp,
                              .microbatches = (uint32_t)pricing->microbatches,
                              .order = pricing->shape.order,
                              .forward_s = forward_s,
                              .backward_s = backward_s,
                              .weight_s = weight_gradient_s};
}

/* ---- exchange of gradients and weights ------------------------------------------------------ */

/* Returns the parameters on a device of a stage.  If the first and the last stage are different,
 * both hold a copy of an embedding that is also the head. */
static struct pz_step_params stage_params(const struct pricing *pricing, int64_t stage) {
  const struct pz_step_model *model = pricing->model;
  struct pz_step_params params = {.dense = 0};
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&pricing->shape); slot++) {
    int64_t chunk = pz_pipeline_chunk_at(&pricing->shape, (uint32_t)stage, slot);
    bool last = chunk == pricing->last_chunk;
    for (uint32_t kind = 0; kind < model->kinds.n; kind++)
      pz_step_params_add(&params, &model->block_params[kind],
                         (double)chunk_layers(pricing, chunk, kind).total);
    if (chunk == 0) pz_step_params_add(&params, &model->before_params, 1);
    if (last) pz_step_params_add(&params, &model->after_params, 1);
    if (last && pz_pipeline_separates_ends(&pricing->shape)) {
      params.dense += model->tied_params;
      params.trained += model->tied_params;
    }
  }
  return params;
}

/* A group of devices with the same parameters.  ZeRO divides their optimizer state (stages 2 and
 * 3 also gradients and weights) over `shards` of the replicas. */
struct param_group {
  double params, trained; /* parameters of a device before sharding */
  int64_t replicas, shards;
  int64_t stride; /* distance between members of the group, in devices */
};

/* Returns the group of devices that hold the same dense parameters of the largest stage, or if
 * `experts` is set, the same experts, which are distributed over devices in another way.  With two
 * copies of every stage there are twice as many replicas. */
static struct param_group param_group(const struct pricing *pricing, bool experts) {
  const struct pz_plan *plan = pricing->plan;
  int64_t copies = pz_pipeline_copies(pricing->shape.order);
  int64_t shard_copies = pz_plan_is_hybrid_sharded(plan) ? 1 : copies;
  if (experts)
    return (struct param_group){pricing->params.expert, pricing->params.trained_expert,
                                pz_plan_expert_replicas(plan) * copies,
                                pz_plan_expert_shards(plan) * shard_copies,
                                pz_plan_ep(plan) * pz_plan_etp(plan)};
  return (struct param_group){pricing->params.dense, pricing->params.trained,
                              pz_plan_replicas(plan) * copies, pz_plan_shards(plan) * shard_copies,
                              plan->tp};
}

/* Collectives between replicas: weights gathered for the forward and again for the backward pass,
 * gradients reduced, and with hybrid sharding reduced between shards once a step. */
struct exchange_times {
  struct pz_wire_time gather, regather, scatter, last;
};

/* Returns the time of n_collectives between the shards of a group, over `bytes` in total.  In a
 * framework with node_gather, each device gathers for all devices of its node that are in the
 * group, so that the bytes are multiplied. */
static struct pz_wire_time group_time(const struct pricing *pricing,
                                      const struct param_group *group, enum pz_collective kind,
                                      double bytes, double n_collectives) {
  const struct pz_cluster *network = &pricing->model->cost.net;
  double times = 1;
  struct pz_wire_time sum = {.s = 0};
  bool spans_nodes =
      network->n_levels > 1 && group->shards * group->stride > network->level[0].devices;
  if (pz_plan_framework(pricing->plan)->node_gather && spans_nodes)
    times = (double)pz_max(1, network->level[0].devices / group->stride);
  struct pz_wire_time collective =
      pz_network_time(pricing->model->constants, network, kind, times * bytes / n_collectives,
                      (struct pz_group){group->shards, group->stride});
  pz_wire_add(&sum, &collective, n_collectives);
  return sum;
}

/* Adds the collectives of a step over the weights and gradients of a group of replicas. */
static void add_exchange(const struct pricing *pricing, const struct param_group *group,
                         struct exchange_times *times) {
  static const double WEIGHT_BYTES = 2;
  const struct pz_plan *plan = pricing->plan;
  const struct pz_step_model *model = pricing->model;
  const struct pz_constants *constants = model->constants;
  if (group->replicas <= 1 || !(group->params > 0)) return;
  double n_collectives; /* one for each layer, or for each bucket of parameters */
  if (pz_plan_gathers_per_layer(plan))
    n_collectives = (double)(model->n_blocks + model->workload->n_layers - 1);
  else
    n_collectives =
        ceil(group->trained / pz_fmax(constants->bucket_params,
                                      constants->replica_params * (double)group->replicas));
  double gathered_params = plan->zero > 2 ? group->params : group->trained;
  enum pz_collective reduce = plan->zero ? PZ_COLLECTIVE_REDUCE_SCATTER : PZ_COLLECTIVE_ALL_REDUCE;
  struct pz_wire_time gather = group_time(pricing, group, PZ_COLLECTIVE_ALL_GATHER,
                                          gathered_params * WEIGHT_BYTES, n_collectives);
  struct pz_wire_time scatter =
      group_time(pricing, group, reduce, group->trained * plan->grad_bytes, n_collectives);
  if (pz_plan_gathers_per_layer(plan)) pz_wire_add(&times->regather, &gather, 1);
  if (plan->zero) pz_wire_add(&times->gather, &gather, 1);
  pz_wire_add(&times->scatter, &scatter, 1);
  /* hybrid sharding all-reduces the shards between groups that each hold a whole copy */
  struct pz_group shard_replicas = {group->replicas / group->shards, group->stride * group->shards};
  if (shard_replicas.devices <= 1) return;
  double bytes = group->trained / (double)group->shards * plan->grad_bytes;
  struct pz_wire_time all_reduce = pz_network_time(
      constants, &model->cost.net, PZ_COLLECTIVE_ALL_REDUCE, bytes / n_collectives, shard_replicas);
  pz_wire_add(&times->last, &all_reduce, n_collectives);
}

/* Returns the passes of a microbatch through the first stage, whose backward pass is the last. */
static struct chunk_windows first_stage_windows(const struct pricing *pricing) {
  struct chunk_windows sum = {{.pass_s = 0}, {.pass_s = 0}};
  double copy_share = pricing->copy_share;
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&pricing->shape); slot++) {
    struct chunk_windows chunk =
        chunk_windows(pricing, pz_pipeline_chunk_at(&pricing->shape, 0, slot));
    for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
      bool is_forward = direction == PZ_FORWARD;
      struct window *window = is_forward ? &chunk.forward : &chunk.backward;
      struct window *stage = is_forward ? &sum.forward : &sum.backward;
      window->pass_s += send_s(pricing, window);
      add_window(stage, window, copy_share);
      if (pricing->plan->pp > 1)
        for (int i = 0; i < PZ_WIRES; i++) stage->busy_s[i] += copy_share * pricing->send.busy_s[i];
    }
  }
  return sum;
}

/* The times of collectives that run beside compute, and of those that run alone. */
struct overlap {
  struct pz_wire_time beside;
  double alone_s;
};

/* Adds the time of a collective to `overlap`, divided into the parts that run alone and beside
 * compute.  Without overlap, all of it runs alone.  With a collective for each layer, those of the
 * first and last layers of the model and of one repeated layer run alone; in a compiled loop over
 * layers, those of the first of four groups of GEMMs. */
static void add_overlap(const struct pricing *pricing, struct overlap *overlap,
                        const struct pz_wire_time *time, bool overlaps) {
  static const double GROUPS = 4;
  const struct pz_step_model *model = pricing->model;
  double alone_part = 1;
  if (overlaps && !pz_plan_gathers_per_layer(pricing->plan)) {
    alone_part = 0;
  } else if (overlaps && pz_framework_compiles(pz_plan_framework(pricing->plan))) {
    alone_part = 1 / GROUPS;
  } else if (overlaps) {
    double stage_params = pricing->params.dense + pricing->params.expert;
    double end_params = model->before_params.dense + model->after_params.dense;
    double layer_params = model->block_params[0].dense + model->block_params[0].expert;
    alone_part = pz_fmin(1, (end_params + layer_params) / stage_params);
  }
  overlap->alone_s += alone_part * time->s;
  pz_wire_add(&overlap->beside, time, 1 - alone_part);
}

/* Returns what collectives add to a window: those that run alone, and what others expose. */
static double overlap_s(const struct pricing *pricing, const struct window *window,
                        const struct overlap *overlap) {
  return overlap->alone_s + exposed_s(pricing, window, &overlap->beside);
}

/* Returns the exposed seconds of the exchange of weights, or of gradients, that happens once a step
 * beside a stage's passes of a microbatch.
 *
 * Interleaved stages exchange each chunk beside the passes of a group of microbatches through the
 * other chunks.  The first chunk gathers its weights beside its own pass only, and the last one
 * sends its gradients after it (Megatron Core, schedules.py: param_sync_func, grad_sync_func). */
static double exchange_once_s(const struct pricing *pricing, const struct window *window,
                              const struct overlap *overlap, bool gradients) {
  const struct pz_plan *plan = pricing->plan;
  double chunks = (double)plan->vpp;
  bool exchanges_chunks = pricing->shape.order == PZ_PIPELINE_INTERLEAVED && chunks >= 2 &&
                          !pz_plan_gathers_per_layer(plan);
  if (!exchanges_chunks) return overlap_s(pricing, window, overlap);
  double microbatch_group = (double)pz_min(plan->pp, pricing->microbatches);
  double own_passes = gradients ? 0 : 1; /* passes of the chunk itself beside its exchange */
  struct window own_pass = {.pass_s = 0}, passes = {.pass_s = 0};
  struct overlap chunk_overlap = {.alone_s = overlap->alone_s / chunks};
  add_window(&own_pass, window, own_passes / chunks);
  add_window(&passes, window, ((chunks - 1) * microbatch_group + own_passes) / chunks);
  pz_wire_add(&chunk_overlap.beside, &overlap->beside, 1 / chunks);
  return pz_fmax(overlap_s(pricing, &own_pass, &chunk_overlap),
                 overlap_s(pricing, &passes, overlap));
}

/* Finds the exposed and the hidden seconds of the exchange of gradients and weights in a step. */
static void find_exchange(const struct pricing *pricing, struct pz_prediction *out) {
  const struct pz_plan *plan = pricing->plan;
  const struct pz_step_model *model = pricing->model;
  const bool experts = true, gradients = true;
  struct param_group groups[2] = {param_group(pricing, !experts), param_group(pricing, experts)};
  struct exchange_times times = {.gather = {.s = 0}};
  struct overlap forward = {.alone_s = 0}, backward = {.alone_s = 0};
  bool overlaps_gradients = plan->overlap & PZ_OVERLAP_GRAD;
  bool overlaps_params = plan->overlap & PZ_OVERLAP_PARAM;
  double n_gathers = pz_plan_gathers_per_layer(plan) ? (double)pricing->microbatches : 1;
  double n_scatters = pz_plan_scatters_per_microbatch(plan) ? (double)pricing->microbatches : 1;
  add_exchange(pricing, &groups[0], &times);
  add_exchange(pricing, &groups[1], &times);
  out->parts.gradient_s = 0;
  if (pz_pipeline_separates_ends(&pricing->shape) && model->tied_params > 0) {
    /* the two copies of a tied matrix all-reduce their gradients */
    struct pz_group ends = {2, plan->tp * pz_plan_replicas(plan) * (plan->pp - 1)};
    struct pz_wire_time time =
        pz_network_time(model->constants, &model->cost.net, PZ_COLLECTIVE_ALL_REDUCE,
                        model->tied_params * plan->grad_bytes, ends);
    out->parts.gradient_s = time.s;
  }
  if (!(times.scatter.s + times.last.s > 0)) return;
  /* what the collectives add to the passes of the first stage, and what these hide */
  struct chunk_windows windows = first_stage_windows(pricing);
  add_overlap(pricing, &forward, &times.gather, overlaps_params);
  add_overlap(pricing, &backward, &times.regather, overlaps_params);
  add_overlap(pricing, &backward, &times.scatter, overlaps_gradients);
  struct overlap last_backward = backward; /* of the last microbatch */
  /* a compiled loop over layers has its gradients only at its end */
  if (pz_framework_compiles(pz_plan_framework(plan)) || !overlaps_gradients)
    last_backward.alone_s += times.last.s;
  else
    pz_wire_add(&last_backward.beside, &times.last, 1);
  double gather_s = n_gathers > 1
                        ? n_gathers * overlap_s(pricing, &windows.forward, &forward)
                        : exchange_once_s(pricing, &windows.forward, &forward, !gradients);
  double exchange_s = gather_s +
                      (n_scatters - 1) * overlap_s(pricing, &windows.backward, &backward) +
                      exchange_once_s(pricing, &windows.backward, &last_backward, gradients);
  double total_s =
      n_gathers * (times.gather.s + times.regather.s) + n_scatters * times.scatter.s + times.last.s;
  out->gradient_hidden_s = pz_fmax(0, total_s - exchange_s); /* rounding may make it negative */
  /* on an unmeasured chip, concurrent links use a part of the power, and kernels take longer */
  struct pz_pass_power power = pz_pass_power_of(&model->cost.chip);
  double power_s = 0;
  if (power.room_watts > 0 && out->gradient_hidden_s > 0) {
    double link_j[2];
    for (int i = 0; i < 2; i++) {
      double others = 1 - 1 / (double)groups[i].replicas;
      link_j[i] = groups[i].trained * others * pz_exchange_bytes(plan) *
                  pz_tech_at(model->cost.chip.tech)->link_j;
    }
    double s = (link_j[0] + link_j[1]) / power.room_watts;
    power_s = out->gradient_hidden_s * pz_fmin(1, s / total_s);
  }
  out->parts.gradient_s += exchange_s + power_s;
}

/* Finds the seconds of the optimizer.  The host updates offloaded state while gradients and weights
 * are copied, in both directions at the rate of the link. */
static void find_optimizer(const struct pricing *pricing, struct pz_prediction *out) {
  static const double GRADIENT_BYTES = 4; /* in fp32 */
  const struct pz_plan *plan = pricing->plan;
  const struct pz_step_model *model = pricing->model;
  const struct pz_constants *constants = model->constants;
  const bool experts = true;
  struct param_group dense = param_group(pricing, !experts), expert = param_group(pricing, experts);
  double device_params = dense.trained / (double)(plan->zero ? dense.shards : 1) +
                         expert.trained / (double)(plan->zero ? expert.shards : 1);
  double host_fraction = pz_plan_host_optimizer_fraction(plan);
  double updated_params = device_params * (1 - host_fraction);
  struct pz_power update = pz_cost_optimizer_step(
      &model->cost, updated_params * pz_plan_optimizer_bytes(plan, model->memory.experts),
      updated_params, constants->optimizer_efficiency);
  double device_s = pz_corrected(model->cost.chip.correction.elementwise) * update.latency_s;
  out->parts.optimizer_s = device_s;
  if (!(host_fraction > 0)) return;
  double host_s = device_params * host_fraction *
                  pz_fmax(constants->host_update_bytes / constants->host_update_bytes_per_s,
                          GRADIENT_BYTES / pricing->host_bytes_per_s);
  out->parts.optimizer_s = pz_fmax(device_s, host_s);
}

/* ---- the terms of a step -------------------------------------------------------------------- */

/* Returns the sum of a stage's layer times for a microbatch, on average over the copies of the
 * stage that bidirectional pipelines have. */
static struct pz_layer_step stage_step(const struct pricing *pricing, int64_t stage) {
  const struct pz_model_steps *steps = pricing->model->steps;
  struct pz_layer_step sum = {.forward_s = 0};
  double copy_share = pricing->copy_share;
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&pricing->shape); slot++) {
    int64_t chunk = pz_pipeline_chunk_at(&pricing->shape, (uint32_t)stage, slot);
    for (uint32_t kind = 0; kind < pricing->model->kinds.n; kind++) {
      struct chunk_layers counts = chunk_layers(pricing, chunk, kind);
      pz_layer_step_add(&sum, &steps->block[kind],
                        copy_share * (double)(counts.total - counts.recomputed));
      pz_layer_step_add(&sum, &steps->again[kind], copy_share * (double)counts.recomputed);
    }
    if (chunk == 0) pz_layer_step_add(&sum, &steps->before, copy_share);
    if (chunk == pricing->last_chunk) pz_layer_step_add(&sum, &steps->after, copy_share);
  }
  return sum;
}

/* Seconds for which a stage waits in a microbatch: for other stages, and for copies to the host. */
struct stage_waits {
  double transfer_s, host_s;
};

/* Returns the waits of a stage in a microbatch, on average over the copies of the stage. */
static struct stage_waits sum_stage_waits(const struct pricing *pricing, int64_t stage) {
  struct stage_waits sum = {0, 0};
  double copy_share = pricing->copy_share;
  if (pricing->plan->pp == 1 && !pricing->plan->offload) return sum;
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&pricing->shape); slot++) {
    struct chunk_windows chunk =
        chunk_windows(pricing, pz_pipeline_chunk_at(&pricing->shape, (uint32_t)stage, slot));
    sum.transfer_s +=
        copy_share * (send_s(pricing, &chunk.forward) + send_s(pricing, &chunk.backward));
    sum.host_s += copy_share * (chunk.forward.host_wait_s + chunk.backward.host_wait_s);
  }
  return sum;
}

/* Divides the pipeline's time, out->step_s, into the terms of the slowest stage and the bubble. */
static void find_terms(const struct pricing *pricing, struct pz_prediction *out) {
  int64_t slowest = 0;
  struct pz_layer_step step = {.forward_s = 0};
  for (int64_t stage = 0; stage < pricing->plan->pp; stage++) {
    struct pz_layer_step stage_times = stage_step(pricing, stage);
    if (stage_times.forward_s + stage_times.backward_s > step.forward_s + step.backward_s) {
      step = stage_times;
      slowest = stage;
    }
  }
  const struct pz_pass *forward = &step.forward, *backward = &step.backward;
  struct stage_waits waits = sum_stage_waits(pricing, slowest);
  double microbatches = (double)pricing->microbatches;
  struct pz_training_parts *parts = &out->parts;
  parts->products_s = microbatches * (forward->gemm_s + backward->gemm_s);
  parts->attention_s = microbatches * (forward->attention_s + backward->attention_s);
  parts->elementwise_s = microbatches * (forward->elementwise_s + backward->elementwise_s);
  parts->tensor_s = microbatches * (forward->collective_s + backward->collective_s);
  parts->launch_s = microbatches * step.launch_s;
  parts->expert_s = microbatches * (forward->expert_s + backward->expert_s);
  out->tensor_hidden_s = microbatches * step.hidden_s;
  out->expert_hidden_s = microbatches * step.expert_hidden_s;
  out->offload_s = microbatches * waits.host_s;
  parts->transfer_s = microbatches * waits.transfer_s + out->offload_s;
  parts->bubble_s =
      pz_fmax(0, out->step_s - parts->products_s - parts->attention_s - parts->elementwise_s -
                     parts->tensor_s - parts->expert_s - parts->launch_s - parts->transfer_s);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Finds the peak and reserved bytes of the fullest stage, and of all in *detail unless NULL. */
static void find_memory(struct pz_call *call, const struct pricing *pricing,
                        struct pz_prediction *out, struct pz_prediction_detail *detail) {
  const struct pz_step_model *model = pricing->model;
  size_t stages = (size_t)pricing->plan->pp;
  if (detail) {
    detail->stages = pz_alloc(call, stages, sizeof *detail->stages);
    detail->reserved_bytes = pz_alloc(call, stages, sizeof *detail->reserved_bytes);
    detail->layers = model->n_blocks;
  }
  out->usable_bytes = pz_usable_bytes(&model->cost.chip, model->constants);
  out->usable_host_bytes = pz_usable_host_bytes(&model->cost.chip, model->constants);
  for (int64_t stage = 0; stage < pricing->plan->pp; stage++) {
    struct pz_training_memory memory =
        pz_training_memory(&model->memory, pricing->plan, pricing->microbatches, stage);
    double bytes = pz_training_memory_sum(&memory);
    struct pz_reserved reserved =
        pz_reserved_of(&model->memory, model->constants, pricing->plan, &memory);
    if (detail) {
      detail->stages[stage] = memory;
      detail->reserved_bytes[stage] = reserved.bytes;
    }
    if (reserved.high > out->needed_bytes) {
      out->needed_bytes = reserved.high;
      out->reserved_bytes = reserved.bytes;
      out->reserved_low_bytes = reserved.low;
    }
    out->host_bytes = pz_fmax(out->host_bytes, pz_step_host_bytes(model, pricing->plan, stage));
    if (bytes <= out->peak_bytes) continue;
    out->peak_bytes = bytes;
    out->peak = memory;
    out->peak_stage = (uint32_t)stage;
  }
}

/* ---- entry points --------------------------------------------------------------------------- */

/* Raises an error if the plan is inconsistent, or does not fit the layers or the network. */
void pz_step_check(struct pz_call *call, const struct pz_step_model *model,
                   const struct pz_plan *plan) {
  pz_require_plan(call, plan);
  pz_require_chunks(call, plan, model->n_blocks);
  pz_require_layer_counts(call, plan, model->n_blocks);
  if (!model->cost.net.n_levels && pz_plan_devices(plan) > 1)
    pz_raise(call, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: a cluster",
             model->cost.chip.name);
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  pz_require_pipeline(call, &shape);
}

/* Sets the rate of copies to the host, and the shares of the device's PCIe link that these copies
 * and traffic between nodes use.  Unless the chip has a link of its own for the host
 * (host_own_link), both pass through one link, whose rate is the larger one of the two. */
static void set_host_link(struct pricing *pricing) {
  const struct pz_chip *chip = &pricing->model->cost.chip;
  const struct pz_cluster *network = &pricing->model->cost.net;
  const struct pz_constants *constants = pricing->model->constants;
  const struct pz_level *between_nodes = &network->level[1];
  bool shares_link = network->n_levels > 1 && !chip->host_own_link;
  double host_rate =
      chip->host_bytes_per_s > 0 ? chip->host_bytes_per_s : constants->host_bytes_per_s;
  double link_rate = pz_fmax(host_rate, shares_link ? between_nodes->bytes_per_s : 0);
  pricing->host_bytes_per_s = host_rate;
  pricing->host_link_share = host_rate / link_rate;
  if (shares_link)
    pricing->network_link_share = pz_network_outer_rate(constants, between_nodes) / link_rate;
}

/* Checks the plan, times its layers (model->steps), and returns what all terms of the step need:
 * the use of the host link, the transfer between stages, and the parameters of the largest stage. */
static struct pricing start_pricing(struct pz_call *call, struct pz_step_model *model,
                                    const struct pz_plan *plan, enum pz_timing timing) {
  pz_step_check(call, model, plan);
  struct pricing pricing = {.model = model,
                            .plan = plan,
                            .microbatches = pz_plan_microbatches(plan),
                            .shape = pz_plan_pipeline_shape(plan),
                            .layers = pz_plan_layers(plan, model->n_blocks),
                            .last_chunk = plan->pp * plan->vpp - 1};
  pricing.copy_share = 1.0 / (double)pz_pipeline_copies(pricing.shape.order);
  pz_step_model_time(call, model, plan, pricing.microbatches, timing);
  set_host_link(&pricing);
  if (plan->pp > 1) {
    const struct pz_layer *layer = &model->workload->layers[model->kinds.layer[0]];
    double bytes = (double)layer->output_bytes / (double)(plan->sp ? 1 : plan->tp);
    struct pz_group neighbours = {2, plan->tp * pz_plan_replicas(plan)};
    pricing.send =
        pz_network_time(model->constants, &model->cost.net, PZ_COLLECTIVE_SEND, bytes, neighbours);
    /* in a split backward pass, weight gradients fill the wait for a transfer */
    pricing.overlaps_send = (plan->overlap & PZ_OVERLAP_P2P) ||
                            pz_pipeline_splits_backward((enum pz_pipeline_order)plan->pipeline);
  }
  for (int64_t stage = 0; stage < plan->pp; stage++) {
    struct pz_step_params params = stage_params(&pricing, stage);
    double largest_so_far = pricing.params.dense + pricing.params.expert;
    if (params.dense + params.expert > largest_so_far) pricing.params = params;
  }
  return pricing;
}

/* Returns the part by which waiting for stragglers lengthens a step on `devices`. */
double pz_step_waiting(const struct pz_constants *constants, const struct pz_cluster *network,
                       int64_t devices) {
  const struct pz_constants *values = constants ? constants : &pz_constants_default;
  if (network && network->instant) return 0;
  return values->waiting * pz_fmax(0, log((double)devices / values->waiting_from));
}

/* Prices a plan: simulates its pipeline, adds exchange, optimizer and waiting to its time, and
 * finds the terms of the step, its rates and the memory. */
struct pz_prediction pz_step_price(struct pz_call *call, struct pz_step_model *model,
                                   const struct pz_plan *plan,
                                   struct pz_prediction_detail *detail) {
  struct pz_prediction prediction = {0};
  struct pricing pricing = start_pricing(call, model, plan, PZ_TIMING_SOLVED);
  size_t chunks = (size_t)(plan->pp * plan->vpp);
  struct pz_call work = pz_step_model_work(call, model);
  double *times = pz_alloc(&work, 3 * chunks, sizeof *times);
  struct pz_pipeline pipeline = make_pipeline(&pricing, times, times + chunks, times + 2 * chunks);
  bool events = detail && !detail->no_events;
  struct pz_pipeline_run run = pz_pipeline_simulate(&work, &pipeline, events ? call : NULL);
  if (events) detail->run = run;
  prediction.bound_s = pz_pipeline_bound_s(&pipeline);
  prediction.step_s = run.end_s;
  prediction.microbatches = pricing.microbatches;
  find_terms(&pricing, &prediction);
  find_exchange(&pricing, &prediction);
  find_optimizer(&pricing, &prediction);
  prediction.step_s += prediction.parts.gradient_s + prediction.parts.optimizer_s;
  prediction.parts.waiting_s =
      pz_step_waiting(model->constants, &model->cost.net, pz_plan_devices(plan)) *
      prediction.step_s;
  prediction.step_s += prediction.parts.waiting_s;
  pz_step_rates(&work, model, plan, &prediction);
  if (detail) {
    detail->stage_s = pz_alloc(call, (size_t)plan->pp, sizeof *detail->stage_s);
    for (int64_t stage = 0; stage < plan->pp; stage++) {
      /* the busy time of a device: passes, exchange and optimizer */
      struct pricing stage_pricing = pricing;
      struct pz_prediction exchange = {0};
      struct pz_layer_step step = stage_step(&pricing, stage);
      struct stage_waits waits = sum_stage_waits(&pricing, stage);
      stage_pricing.params = stage_params(&pricing, stage);
      find_exchange(&stage_pricing, &exchange);
      find_optimizer(&stage_pricing, &exchange);
      double passes_s = step.forward_s + step.backward_s + waits.transfer_s + waits.host_s;
      detail->stage_s[stage] = (double)pricing.microbatches * passes_s + exchange.parts.gradient_s +
                               exchange.parts.optimizer_s;
    }
  }
  find_memory(call, &pricing, &prediction, detail);
  return prediction;
}

/* Returns a lower bound of the plan's step: computed like the step of pz_step_price(), but from
 * lower bounds of the pipeline and of the passes. */
double pz_step_bound(struct pz_call *call, struct pz_step_model *model,
                     const struct pz_plan *plan) {
  enum { MAX_CHUNKS = 1024 };
  double forward_s[MAX_CHUNKS], backward_s[MAX_CHUNKS], weight_gradient_s[MAX_CHUNKS];
  struct pz_prediction prediction = {0};
  if (plan->pp * plan->vpp > MAX_CHUNKS)
    pz_raise(call, PZ_LIMIT, "%lld chunks; accepted: at most %d", (long long)(plan->pp * plan->vpp),
             MAX_CHUNKS);
  struct pricing pricing = start_pricing(call, model, plan, PZ_TIMING_BOUND);
  struct pz_pipeline pipeline = make_pipeline(&pricing, forward_s, backward_s, weight_gradient_s);
  prediction.step_s = pz_pipeline_bound_s(&pipeline);
  find_exchange(&pricing, &prediction);
  find_optimizer(&pricing, &prediction);
  double waiting = pz_step_waiting(model->constants, &model->cost.net, pz_plan_devices(plan));
  return (prediction.step_s + prediction.parts.gradient_s + prediction.parts.optimizer_s) *
         (1 + waiting);
}

struct pz_prediction pz_predict(struct pz_call *call, const struct pz_job *job,
                                const struct pz_plan *plan, struct pz_prediction_detail *detail) {
  pz_require_plan(call, plan);
  struct pz_step_model *model = pz_step_model_new(call, job, plan);
  struct pz_prediction prediction = pz_predict_with(call, job, model, plan, detail);
  pz_close(call, model);
  return prediction;
}

struct pz_prediction pz_predict_with(struct pz_call *call, const struct pz_job *job,
                                     struct pz_step_model *model, const struct pz_plan *plan,
                                     struct pz_prediction_detail *detail) {
  struct pz_prediction prediction = pz_step_price(call, model, plan, detail);
  if (detail && detail->model)
    *detail->model =
        pz_model_shape_or_other(call, job->model, job->config, model->workload, model->n_blocks);
  return prediction;
}
