/* The placement problem: its formulas, which problem.h states and which are those of the published
 * program (Piper, NeurIPS 2021), the evaluation of given plans, and the problem of a model. */
#include "partition/problem.h"

#include <float.h>
#include <math.h>

#include "chip/chip.h"
#include "core/num.h"

/* ---- formulas ------------------------------------------------------------------------------- */

/* Returns the problem of plans inside one domain of the network, or in the whole network. */
struct pz_place_problem pz_place_within(const struct pz_place_problem *problem, uint32_t domain) {
  struct pz_place_problem inside = *problem;
  inside.n_domains = 0;
  if (domain >= problem->n_domains) return inside;
  inside.devices = problem->domains[domain].devices;
  inside.bytes_per_s = problem->domains[domain].bytes_per_s;
  return inside;
}

/* Returns the time of the gradient all-reduce of the stage that is charged, by the formula of the
 * published program: 4 (d - 1) / d P / bandwidth. */
double pz_place_allreduce_s(const struct pz_place_problem *problem, int64_t n_replicas,
                            double param_bytes) {
  return 4.0 * (double)(n_replicas - 1) / (double)n_replicas * param_bytes / problem->bytes_per_s;
}

/* Returns the time of a batch: its rounds (the slowest stage's microbatch) and gradient
 * all-reduce. */
double pz_place_time_s(const struct pz_place_problem *problem, double maxload_s, uint32_t n_stages,
                       int64_t n_replicas, double param_bytes) {
  double rounds = (double)(pz_ceil_div(problem->microbatches, n_replicas) + n_stages - 1);
  return maxload_s * rounds + pz_place_allreduce_s(problem, n_replicas, param_bytes);
}

/* Returns the best number of replicas.  More replicas have fewer microbatches each (rounds), but a
 * longer all-reduce.  Tries numbers of rounds in ascending order, each with the fewest replicas
 * that reach it.  The search ends when more rounds cost more than the whole all-reduce. */
struct pz_replicas pz_place_best_replicas(const struct pz_place_problem *problem, double maxload_s,
                                          uint32_t n_stages, int64_t n_devices, double param_bytes,
                                          double limit_s) {
  const struct pz_replicas none = {0, DBL_MAX};
  struct pz_replicas best = {0, limit_s};
  int64_t microbatches = problem->microbatches;
  int64_t most = n_devices > 0 ? problem->devices / n_devices : 0; /* replicas */
  if (most > microbatches) most = microbatches;
  if (most < 1) return none;
  double largest_allreduce_s = pz_place_allreduce_s(problem, most, param_bytes);
  int64_t first = pz_ceil_div(microbatches, most), rounds = first;
  for (;;) {
    if (maxload_s * (double)(rounds + n_stages - 1) >= best.time_s) break;
    if (maxload_s * (double)(rounds - first) > largest_allreduce_s) break;
    int64_t n_replicas = pz_ceil_div(microbatches, rounds);
    double time_s = pz_place_time_s(problem, maxload_s, n_stages, n_replicas, param_bytes);
    if (time_s < best.time_s) best = (struct pz_replicas){n_replicas, time_s};
    if (n_replicas == 1) break;
    rounds = pz_ceil_div(microbatches, n_replicas - 1); /* the next number that saves a replica */
  }
  return best.n ? best : none;
}

/* Returns the time at which all inputs of layer i from other stages have arrived: activations, or
 * in the backward pass gradients. */
static double inputs_arrive_s(const struct pz_place_problem *problem,
                              const struct pz_place_width *width, const uint32_t *stage_of,
                              uint32_t i, bool backward) {
  double latest_s = 0;
  for (uint32_t e = 0; e < width->n_edges; e++) {
    const struct pz_place_edge *edge = &width->edges[e];
    uint32_t receiver = backward ? edge->from : edge->to;
    uint32_t sender = backward ? edge->to : edge->from;
    if (receiver == i && stage_of[sender] != stage_of[i])
      latest_s = fmax(latest_s, edge->bytes / problem->bytes_per_s);
  }
  return latest_s;
}

/* Returns time and memory of stage k.  In each direction, layers wait for inputs from other
 * stages. */
struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *problem,
                                 const struct pz_place_width *width, const uint32_t *stage_of,
                                 uint32_t k, uint32_t n_stages) {
  struct pz_stage_sum sum = {0};
  uint32_t n_in_flight = n_stages - k - 1; /* microbatches besides the current one */
  double recompute_s = 0, input_bytes = 0;
  for (uint32_t i = 0; i < width->n; i++) {
    if (stage_of[i] != k) continue;
    const struct pz_place_layer *layer = &width->layers[i];
    sum.forward_s =
        fmax(sum.forward_s, inputs_arrive_s(problem, width, stage_of, i, false)) + layer->fwd_s;
    recompute_s += layer->fwd_s;
    sum.param_bytes += layer->param_bytes;
    sum.act_bytes += layer->act_bytes;
    sum.tensor_parallel = sum.tensor_parallel || layer->tensor_parallel;
  }
  sum.backward_s = problem->recompute && n_in_flight ? recompute_s : 0;
  for (uint32_t i = width->n; i > 0; i--) {
    if (stage_of[i - 1] != k) continue;
    double arrive_s = inputs_arrive_s(problem, width, stage_of, i - 1, true);
    sum.backward_s = fmax(sum.backward_s, arrive_s) + width->layers[i - 1].bwd_s;
  }
  for (uint32_t e = 0; e < width->n_edges; e++)
    if (stage_of[width->edges[e].to] == k && stage_of[width->edges[e].from] != k)
      input_bytes += width->edges[e].bytes;
  sum.load_s = sum.forward_s + sum.backward_s;
  sum.in_flight_bytes = n_in_flight * (problem->recompute ? input_bytes : sum.act_bytes);
  sum.memory_bytes = problem->state * sum.param_bytes + sum.act_bytes + sum.in_flight_bytes;
  return sum;
}

/* ---- plans that are given ------------------------------------------------------------------- */

/* Returns the stage of the layer with this id in a given plan.  `node` is its position in the
 * graph. */
static uint32_t fixed_stage(const struct pz_fixed *fixed, int64_t id, uint32_t node) {
  int64_t i = id - fixed->first, last = fixed->stages - 1;
  if (fixed->split == PZ_SPLIT_COMPAT)
    return (uint32_t)(node < fixed->layers ? node / pz_ceil_div(fixed->layers, fixed->stages)
                                           : last);
  if (i < 0) return 0;
  if (i >= fixed->layers) return (uint32_t)last;
  int64_t k = i * fixed->stages / fixed->layers; /* the largest k with floor(k L / p) <= i */
  while ((k + 1) * fixed->layers / fixed->stages <= i) k++;
  return (uint32_t)k;
}

/* Sets the stages and the step time of a plan whose layer i is in stage stage_of[i].  Returns NULL,
 * or why the plan is impossible: too little memory or too few devices. */
static const char *evaluate_stages(struct pz_call *call, const struct pz_place_problem *problem,
                                   const struct pz_fixed *fixed, const uint32_t *stage_of,
                                   struct pz_place_solution *plan) {
  const struct pz_place_width *width = &problem->widths[plan->width];
  uint32_t n = plan->n_stages, *layers = pz_alloc(call, width->n, sizeof *layers);
  double charged_bytes = 0, devices = 0;
  plan->stages = pz_alloc(call, n, sizeof *plan->stages);
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage_sum sum = pz_stage_sum(problem, width, stage_of, k, n);
    bool is_tensor_parallel = sum.tensor_parallel || fixed->split == PZ_SPLIT_COMPAT;
    struct pz_stage *stage = &plan->stages[k];
    *stage = (struct pz_stage){.layers = layers,
                               .devices = is_tensor_parallel ? width->tp : 1,
                               .load_s = sum.load_s,
                               .param_bytes = sum.param_bytes,
                               .memory_bytes = sum.memory_bytes};
    for (uint32_t i = 0; i < width->n; i++) {
      if (stage_of[i] != k) continue;
      layers[stage->n] = i;
      stage->n++;
    }
    layers += stage->n;
    if (stage->memory_bytes > problem->hbm_bytes)
      return pz_format(call, "stage %u of %u needs %.4g bytes, a device has %.4g", k + 1, n,
                       stage->memory_bytes, problem->hbm_bytes);
    plan->maxload_s = fmax(plan->maxload_s, stage->load_s);
    devices += (double)stage->devices;
    /* The all-reduce counts the largest stage, or in the original semantics the first one. */
    if (k == 0 || problem->semantics == PZ_SEMANTICS_CORRECTED)
      charged_bytes = fmax(charged_bytes, sum.param_bytes);
  }
  if (devices * (double)plan->replicas > (double)problem->devices)
    return pz_format(call, "it needs %.0f devices, there are %lld",
                     devices * (double)plan->replicas, (long long)problem->devices);
  plan->allreduce_s = pz_place_allreduce_s(problem, plan->replicas, charged_bytes);
  plan->time_s = pz_place_time_s(problem, plan->maxload_s, n, plan->replicas, charged_bytes);
  return NULL;
}

/* Evaluates a given plan.  Returns NULL, or why the plan is impossible. */
const char *pz_fixed_plan_evaluate(struct pz_call *call, const struct pz_place_problem *problem,
                                   const struct pz_fixed *fixed, struct pz_place_solution *out) {
  struct pz_place_solution plan = {.replicas = fixed->replicas,
                                   .n_stages = (uint32_t)fixed->stages};
  uint32_t stage_of[PZ_PLACE_MOST_LAYERS] = {0};
  if (!fixed->stages) return "not given";
  while (plan.width < problem->n_widths && problem->widths[plan.width].tp != fixed->tp)
    plan.width++;
  if (plan.width == problem->n_widths)
    return pz_format(call, "no layers are given for tensor-parallel degree %lld",
                     (long long)fixed->tp);
  if (fixed->stages > fixed->layers || fixed->stages > PZ_PLACE_MOST_LAYERS)
    return pz_format(call, "%lld stages are too many for %lld layers", (long long)fixed->stages,
                     (long long)fixed->layers);
  if (fixed->replicas > problem->microbatches)
    return pz_format(call, "%lld replicas are too many for %lld microbatches",
                     (long long)fixed->replicas, (long long)problem->microbatches);
  const struct pz_place_width *width = &problem->widths[plan.width];
  for (uint32_t i = 0; i < width->n; i++) stage_of[i] = fixed_stage(fixed, width->layers[i].id, i);
  for (uint32_t e = 0; e < width->n_edges; e++) {
    uint32_t from = stage_of[width->edges[e].from], to = stage_of[width->edges[e].to];
    if (from > to)
      return pz_format(call, "an edge of the graph goes back from stage %u to stage %u", from + 1,
                       to + 1);
  }
  double devices = (double)fixed->stages * (double)fixed->tp * (double)fixed->replicas;
  while (plan.domain < problem->n_domains &&
         (double)problem->domains[plan.domain].devices < devices)
    plan.domain++;
  struct pz_place_problem inside = pz_place_within(problem, plan.domain);
  const char *reason = evaluate_stages(call, &inside, fixed, stage_of, &plan);
  if (!reason) *out = plan;
  return reason;
}

/* ---- the problem of a model ----------------------------------------------------------------- */

/* Returns a problem on this number of devices, without layers and memory.  Levels of the network
 * inside the one that joins all devices become domains. */
struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices) {
  const struct pz_level *joining = pz_cluster_level(net, devices);
  struct pz_place_problem problem = {
      .devices = devices, .bytes_per_s = joining ? joining->bytes_per_s : 0, .n_widths = 1};
  for (int i = 0; joining && &net->level[i] < joining; i++) {
    problem.domains[i] = (struct pz_place_domain){net->level[i].devices, net->level[i].bytes_per_s};
    problem.n_domains++;
  }
  return problem;
}

/* Returns the layers of a workload as a chain, repeated as in the model. */
struct pz_place_width pz_place_layer_chain(struct pz_call *call, const struct pz_workload *workload,
                                           struct pz_layer_time (*times)[2], bool least) {
  enum { PARAM_BYTES = 2 }; /* of a weight */
  uint32_t most_layers = (uint32_t)workload->totals.layers, n = 0;
  struct pz_place_layer *layers = pz_alloc(call, most_layers, sizeof *layers);
  struct pz_place_edge *edges = pz_alloc(call, most_layers, sizeof *edges);
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    const struct pz_layer *layer = &workload->layers[i];
    const struct pz_layer_time *fwd = &times[i][PZ_FORWARD], *bwd = &times[i][PZ_BACKWARD];
    for (int64_t k = 0; k < layer->count && n < most_layers; k++) {
      layers[n] = (struct pz_place_layer){
          .id = n,
          .name = layer->name,
          .fwd_s = least ? fwd->least_s : fwd->s,
          .bwd_s = least ? bwd->least_s : bwd->s,
          .link_s = {fwd->link_s, bwd->link_s},
          .param_bytes = PARAM_BYTES * (double)(layer->params + layer->tied_params),
          .act_bytes = (double)layer->activation_bytes,
          .tensor_parallel = workload->options.tp > 1};
      edges[n] = (struct pz_place_edge){n, n + 1, (double)layer->output_bytes};
      n++;
    }
  }
  return (struct pz_place_width){.tp = workload->options.tp,
                                 .layers = layers,
                                 .edges = edges,
                                 .n = n,
                                 .n_edges = n ? n - 1 : 0};
}
