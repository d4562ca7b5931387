/* Formulas of the placement problem, plans that are given, and the problem of a model.  The formulas are in problem.h; they
 * are those of the published program (Piper, NeurIPS 2021). */
#include "partition/problem.h"

#include <float.h>
#include <math.h>

#include "chip/chip.h"
#include "core/num.h"

/* ---- formulas ------------------------------------------------------------------------------- */

struct pz_place_problem pz_place_within(const struct pz_place_problem *p, uint32_t domain) {
  struct pz_place_problem inside = *p;
  inside.n_domains = 0;
  if (domain >= p->n_domains) return inside;
  inside.devices = p->domains[domain].devices;
  inside.bytes_per_s = p->domains[domain].bytes_per_s;
  return inside;
}

double pz_place_allreduce_s(const struct pz_place_problem *p, int64_t d, double param_bytes) {
  return 4.0 * (double)(d - 1) / (double)d * param_bytes / p->bytes_per_s;
}

double pz_place_time_s(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t d, double param_bytes) {
  double rounds = (double)(pz_ceil_div(p->microbatches, d) + n_stages - 1);
  return maxload_s * rounds + pz_place_allreduce_s(p, d, param_bytes);
}

/* Tries the numbers of rounds from the least possible upwards, each with the fewest replicas that reach it.  More rounds
 * make the all-reduce cheaper, but by no more than all of it, which ends the search. */
struct pz_replicas pz_place_best_replicas(const struct pz_place_problem *p, double maxload_s,
                                          uint32_t n_stages, int64_t n_devices, double param_bytes,
                                          double limit_s) {
  const struct pz_replicas none = {0, DBL_MAX};
  struct pz_replicas best = {0, limit_s};
  int64_t m = p->microbatches, most = n_devices > 0 ? p->devices / n_devices : 0;
  if (most > m) most = m;
  if (most < 1) return none;
  double largest_allreduce_s = pz_place_allreduce_s(p, most, param_bytes);
  int64_t first = pz_ceil_div(m, most), rounds = first;
  for (;;) {
    if (maxload_s * (double)(rounds + n_stages - 1) >= best.time_s) break;
    if (maxload_s * (double)(rounds - first) > largest_allreduce_s) break;
    int64_t d = pz_ceil_div(m, rounds);
    double time_s = pz_place_time_s(p, maxload_s, n_stages, d, param_bytes);
    if (time_s < best.time_s) best = (struct pz_replicas){d, time_s};
    if (d == 1) break;
    rounds = pz_ceil_div(m, d - 1);
  }
  return best.d ? best : none;
}

/* When all inputs of layer i from other stages have arrived: activations, or gradients in backward. */
static double inputs_arrive_s(const struct pz_place_problem *p, const struct pz_place_width *w,
                              const uint32_t *stage_of, uint32_t i, bool backward) {
  double latest_s = 0;
  for (uint32_t e = 0; e < w->n_edges; e++) {
    const struct pz_place_edge *edge = &w->edges[e];
    uint32_t receiver = backward ? edge->from : edge->to;
    uint32_t sender = backward ? edge->to : edge->from;
    if (receiver == i && stage_of[sender] != stage_of[i])
      latest_s = fmax(latest_s, edge->bytes / p->bytes_per_s);
  }
  return latest_s;
}

struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *p, const struct pz_place_width *w,
                                 const uint32_t *stage_of, uint32_t k, uint32_t n_stages) {
  struct pz_stage_sum s = {0};
  uint32_t n_in_flight = n_stages - k - 1; /* microbatches besides the current one */
  double recompute_s = 0, input_bytes = 0;
  for (uint32_t i = 0; i < w->n; i++) {
    if (stage_of[i] != k) continue;
    const struct pz_place_layer *l = &w->layers[i];
    s.forward_s = fmax(s.forward_s, inputs_arrive_s(p, w, stage_of, i, false)) + l->fwd_s;
    recompute_s += l->fwd_s;
    s.param_bytes += l->param_bytes;
    s.act_bytes += l->act_bytes;
    s.tensor_parallel = s.tensor_parallel || l->tensor_parallel;
  }
  s.backward_s = p->recompute && n_in_flight ? recompute_s : 0;
  for (uint32_t i = w->n; i > 0; i--) {
    if (stage_of[i - 1] != k) continue;
    double arrive_s = inputs_arrive_s(p, w, stage_of, i - 1, true);
    s.backward_s = fmax(s.backward_s, arrive_s) + w->layers[i - 1].bwd_s;
  }
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage_of[w->edges[e].to] == k && stage_of[w->edges[e].from] != k)
      input_bytes += w->edges[e].bytes;
  s.load_s = s.forward_s + s.backward_s;
  s.in_flight_bytes = n_in_flight * (p->recompute ? input_bytes : s.act_bytes);
  s.memory_bytes = p->state * s.param_bytes + s.act_bytes + s.in_flight_bytes;
  return s;
}

/* ---- plans that are given ------------------------------------------------------------------- */

/* The stage of the layer with this id, which is number `node` of the graph. */
static uint32_t fixed_stage(const struct pz_fixed *f, int64_t id, uint32_t node) {
  int64_t i = id - f->first, last = f->stages - 1;
  if (f->split == PZ_SPLIT_COMPAT)
    return (uint32_t)(node < f->layers ? node / pz_ceil_div(f->layers, f->stages) : last);
  if (i < 0) return 0;
  if (i >= f->layers) return (uint32_t)last;
  int64_t k = i * f->stages / f->layers; /* the largest k with floor(k L / p) <= i */
  while ((k + 1) * f->layers / f->stages <= i) k++;
  return (uint32_t)k;
}

/* Fills the stages and the time of a plan.  Returns why it is impossible, or NULL. */
static const char *evaluate_stages(struct pz_call *call, const struct pz_place_problem *p,
                                   const struct pz_fixed *f, const uint32_t *stage_of,
                                   struct pz_place_solution *plan) {
  const struct pz_place_width *w = &p->widths[plan->width];
  uint32_t n = plan->n_stages, *layers = pz_alloc(call, w->n, sizeof *layers);
  double charged_bytes = 0, devices = 0;
  plan->stages = pz_alloc(call, n, sizeof *plan->stages);
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage_sum s = pz_stage_sum(p, w, stage_of, k, n);
    bool on_t_devices = s.tensor_parallel || f->split == PZ_SPLIT_COMPAT;
    struct pz_stage *stage = &plan->stages[k];
    *stage = (struct pz_stage){.layers = layers,
                               .devices = on_t_devices ? w->t : 1,
                               .load_s = s.load_s,
                               .param_bytes = s.param_bytes,
                               .memory_bytes = s.memory_bytes};
    for (uint32_t i = 0; i < w->n; i++) {
      if (stage_of[i] != k) continue;
      layers[stage->n] = i;
      stage->n++;
    }
    layers += stage->n;
    if (stage->memory_bytes > p->hbm_bytes)
      return pz_format(call, "stage %u of %u needs %.4g bytes, a device has %.4g", k + 1, n,
                       stage->memory_bytes, p->hbm_bytes);
    plan->maxload_s = fmax(plan->maxload_s, stage->load_s);
    devices += (double)stage->devices;
    if (k == 0 || p->semantics == PZ_SEMANTICS_CORRECTED)
      charged_bytes = fmax(charged_bytes, s.param_bytes);
  }
  if (devices * (double)plan->d > (double)p->devices)
    return pz_format(call, "it needs %.0f devices, there are %lld", devices * (double)plan->d,
                     (long long)p->devices);
  plan->allreduce_s = pz_place_allreduce_s(p, plan->d, charged_bytes);
  plan->time_s = pz_place_time_s(p, plan->maxload_s, n, plan->d, charged_bytes);
  return NULL;
}

const char *pz_fixed_plan_evaluate(struct pz_call *call, const struct pz_place_problem *p,
                                   const struct pz_fixed *f, struct pz_place_solution *out) {
  struct pz_place_solution plan = {.d = f->d, .n_stages = (uint32_t)f->stages};
  uint32_t stage_of[PZ_PLACE_MOST_LAYERS] = {0};
  if (!f->stages) return "not given";
  while (plan.width < p->n_widths && p->widths[plan.width].t != f->t) plan.width++;
  if (plan.width == p->n_widths)
    return pz_format(call, "no layers are given for tensor-parallel degree %lld", (long long)f->t);
  if (f->stages > f->layers || f->stages > PZ_PLACE_MOST_LAYERS)
    return pz_format(call, "%lld stages are too many for %lld layers", (long long)f->stages,
                     (long long)f->layers);
  if (f->d > p->microbatches)
    return pz_format(call, "%lld replicas are too many for %lld microbatches", (long long)f->d,
                     (long long)p->microbatches);
  const struct pz_place_width *w = &p->widths[plan.width];
  for (uint32_t i = 0; i < w->n; i++) stage_of[i] = fixed_stage(f, w->layers[i].id, i);
  for (uint32_t e = 0; e < w->n_edges; e++) {
    uint32_t from = stage_of[w->edges[e].from], to = stage_of[w->edges[e].to];
    if (from > to)
      return pz_format(call, "an edge of the graph goes back from stage %u to stage %u", from + 1,
                       to + 1);
  }
  double devices = (double)f->stages * (double)f->t * (double)f->d;
  while (plan.domain < p->n_domains && (double)p->domains[plan.domain].devices < devices)
    plan.domain++;
  struct pz_place_problem inside = pz_place_within(p, plan.domain);
  const char *reason = evaluate_stages(call, &inside, f, stage_of, &plan);
  if (!reason) *out = plan;
  return reason;
}

/* ---- the problem of a model ----------------------------------------------------------------- */

struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices) {
  const struct pz_level *joining = pz_cluster_level(net, devices);
  struct pz_place_problem p = {
      .devices = devices, .bytes_per_s = joining ? joining->bytes_per_s : 0, .n_widths = 1};
  for (int i = 0; joining && &net->level[i] < joining; i++) {
    p.domains[i] = (struct pz_place_domain){net->level[i].devices, net->level[i].bytes_per_s};
    p.n_domains++;
  }
  return p;
}

struct pz_place_width pz_place_layer_chain(struct pz_call *call, const struct pz_workload *w,
                                           struct pz_layer_time (*times)[2], bool least) {
  enum { PARAM_BYTES = 2 };
  uint32_t most = (uint32_t)w->totals.layers, n = 0;
  struct pz_place_layer *layers = pz_alloc(call, most, sizeof *layers);
  struct pz_place_edge *edges = pz_alloc(call, most, sizeof *edges);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    const struct pz_layer_time *fwd = &times[i][PZ_FORWARD], *bwd = &times[i][PZ_BACKWARD];
    for (int64_t k = 0; k < l->count && n < most; k++) {
      layers[n] =
          (struct pz_place_layer){.id = n,
                                  .name = l->name,
                                  .fwd_s = least ? fwd->least_s : fwd->s,
                                  .bwd_s = least ? bwd->least_s : bwd->s,
                                  .link_s = {fwd->link_s, bwd->link_s},
                                  .param_bytes = PARAM_BYTES * (double)(l->params + l->tied_params),
                                  .act_bytes = (double)l->activation_bytes,
                                  .tensor_parallel = w->options.tp > 1};
      edges[n] = (struct pz_place_edge){n, n + 1, (double)l->output_bytes};
      n++;
    }
  }
  return (struct pz_place_width){
      .t = w->options.tp, .layers = layers, .edges = edges, .n = n, .n_edges = n ? n - 1 : 0};
}
