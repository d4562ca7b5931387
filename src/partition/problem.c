#include "partition/problem.h"

#include <float.h>
#include <math.h>

#include "chip/chip.h"
#include "core/num.h"

struct pz_place_problem pz_place_within(const struct pz_place_problem *p, uint32_t domain) {
  struct pz_place_problem q = *p;
  q.n_domains = 0;
  if (domain >= p->n_domains) return q;
  q.devices = p->domains[domain].devices;
  q.bytes_per_s = p->domains[domain].bytes_per_s;
  return q;
}

double pz_place_allreduce_s(const struct pz_place_problem *p, int64_t d, double param_bytes) {
  return 4.0 * (double)(d - 1) / (double)d * param_bytes / p->bytes_per_s;
}

double pz_place_time_s(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t d, double param_bytes) {
  double rounds = (double)(pz_ceil_div(p->microbatches, d) + n_stages - 1);
  return maxload_s * rounds + pz_place_allreduce_s(p, d, param_bytes);
}

/* Rounds grow from the least possible; the exchange can save no more than all of it, which ends the
 * search. */
struct pz_replicas pz_place_best_d(const struct pz_place_problem *p, double maxload_s,
                                   uint32_t n_stages, int64_t n_devices, double param_bytes,
                                   double limit_s) {
  int64_t m = p->microbatches, most = n_devices > 0 ? p->devices / n_devices : 0;
  struct pz_replicas best = {0, limit_s}, none = {0, DBL_MAX};
  if (most > m) most = m;
  if (most < 1) return none;
  double all = pz_place_allreduce_s(p, most, param_bytes);
  int64_t first = pz_ceil_div(m, most);
  for (int64_t rounds = first;;) {
    if (maxload_s * (double)(rounds + n_stages - 1) >= best.time_s) break;
    if (maxload_s * (double)(rounds - first) > all) break;
    int64_t d = pz_ceil_div(m, rounds); /* the fewest replicas with so many rounds */
    double now = pz_place_time_s(p, maxload_s, n_stages, d, param_bytes);
    if (now < best.time_s) best = (struct pz_replicas){d, now};
    if (d == 1) break;
    rounds = pz_ceil_div(m, d - 1);
  }
  return best.d ? best : none;
}

/* When everything that layer i waits for is there; backward: gradients. */
static double inputs_s(const struct pz_place_problem *p, const struct pz_place_width *w,
                       const uint32_t *stage, uint32_t i, bool backward) {
  double t = 0;
  for (uint32_t e = 0; e < w->n_edges; e++) {
    uint32_t self = backward ? w->edges[e].from : w->edges[e].to;
    uint32_t other = backward ? w->edges[e].to : w->edges[e].from;
    if (self == i && stage[other] != stage[i]) t = fmax(t, w->edges[e].bytes / p->bytes_per_s);
  }
  return t;
}

struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *p, const struct pz_place_width *w,
                                 const uint32_t *stage, uint32_t k, uint32_t n_stages) {
  struct pz_stage_sum s = {0};
  uint32_t others = n_stages - k - 1; /* microbatches in flight beside the one at hand */
  double again_s = 0, in_bytes = 0;
  for (uint32_t i = 0; i < w->n; i++) {
    if (stage[i] != k) continue;
    const struct pz_place_layer *l = &w->layers[i];
    s.forward_s = fmax(s.forward_s, inputs_s(p, w, stage, i, false)) + l->fwd_s;
    again_s += l->fwd_s;
    s.param_bytes += l->param_bytes;
    s.act_bytes += l->act_bytes;
    s.tensor_parallel = s.tensor_parallel || l->tensor_parallel;
  }
  s.backward_s = p->recompute && others ? again_s : 0;
  for (uint32_t i = w->n; i-- > 0;)
    if (stage[i] == k)
      s.backward_s = fmax(s.backward_s, inputs_s(p, w, stage, i, true)) + w->layers[i].bwd_s;
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage[w->edges[e].to] == k && stage[w->edges[e].from] != k) in_bytes += w->edges[e].bytes;
  s.load_s = s.forward_s + s.backward_s;
  s.in_flight_bytes = others * (p->recompute ? in_bytes : s.act_bytes);
  s.memory_bytes = p->state * s.param_bytes + s.act_bytes + s.in_flight_bytes;
  return s;
}

/* ---- plans that are given ------------------------------------------------------------------- */

/* Of the layer with this id, which is the node-th of the graph. */
static uint32_t stage_of(const struct pz_fixed *f, int64_t id, uint32_t node) {
  int64_t i = id - f->first, last = f->stages - 1;
  if (f->split == PZ_SPLIT_COMPAT)
    return (uint32_t)(node < f->layers ? node / pz_ceil_div(f->layers, f->stages) : last);
  if (i < 0) return 0;
  if (i >= f->layers) return (uint32_t)last;
  int64_t k = i * f->stages / f->layers; /* the largest k with floor(k L / p) <= i */
  while ((k + 1) * f->layers / f->stages <= i) k++;
  return (uint32_t)k;
}

/* The stages with what they take, and the time. */
static enum pz_status evaluate(const struct pz_place_problem *p, const struct pz_fixed *f,
                               const uint32_t *stage, struct pz_arena *arena,
                               struct pz_place_solution *plan, struct pz_error *err) {
  const struct pz_place_width *w = &p->widths[plan->width];
  double params = 0, devices = 0;
  uint32_t n = plan->n_stages, *list = pz_arena_alloc(arena, w->n, sizeof *list);
  plan->stages = pz_arena_alloc(arena, n, sizeof *plan->stages);
  if (!plan->stages || !list)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the expert plan");
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage *out = &plan->stages[k];
    struct pz_stage_sum s = pz_stage_sum(p, w, stage, k, n);
    bool wide = s.tensor_parallel || f->split == PZ_SPLIT_COMPAT;
    *out = (struct pz_stage){.layers = list,
                             .devices = wide ? w->t : 1,
                             .load_s = s.load_s,
                             .param_bytes = s.param_bytes,
                             .memory_bytes = s.memory_bytes};
    for (uint32_t i = 0; i < w->n; i++)
      if (stage[i] == k) list[out->n++] = i;
    list += out->n;
    if (out->memory_bytes > p->hbm_bytes)
      return pz_fail(err, PZ_NO_ANSWER, "stage %u of %u needs %.4g bytes, a device has %.4g", k + 1,
                     n, out->memory_bytes, p->hbm_bytes);
    plan->maxload_s = fmax(plan->maxload_s, out->load_s);
    devices += (double)out->devices;
    if (k == 0 || p->semantics == PZ_SEMANTICS_CORRECTED) params = fmax(params, s.param_bytes);
  }
  if (devices * (double)plan->d > (double)p->devices)
    return pz_fail(err, PZ_NO_ANSWER, "it needs %.0f devices, there are %lld",
                   devices * (double)plan->d, (long long)p->devices);
  plan->allreduce_s = pz_place_allreduce_s(p, plan->d, params);
  plan->time_s = pz_place_time_s(p, plan->maxload_s, n, plan->d, params);
  return PZ_OK;
}

enum pz_status pz_fixed_plan(const struct pz_place_problem *p, const struct pz_fixed *f,
                             struct pz_arena *arena, struct pz_place_solution *out,
                             struct pz_error *err) {
  struct pz_place_solution plan = {.d = f->d, .n_stages = (uint32_t)f->stages};
  uint32_t stage[PZ_PLACE_MOST_LAYERS] = {0};
  double devices = (double)f->stages * (double)f->t * (double)f->d;
  if (!f->stages) return pz_fail(err, PZ_NO_ANSWER, "not given");
  while (plan.width < p->n_widths && p->widths[plan.width].t != f->t) plan.width++;
  if (plan.width == p->n_widths)
    return pz_fail(err, PZ_NO_ANSWER, "no layers are given for tensor-parallel degree %lld",
                   (long long)f->t);
  if (f->stages > f->layers || f->stages > PZ_PLACE_MOST_LAYERS)
    return pz_fail(err, PZ_NO_ANSWER, "%lld stages are too many for %lld layers",
                   (long long)f->stages, (long long)f->layers);
  if (f->d > p->microbatches)
    return pz_fail(err, PZ_NO_ANSWER, "%lld replicas are too many for %lld microbatches",
                   (long long)f->d, (long long)p->microbatches);
  const struct pz_place_width *w = &p->widths[plan.width];
  for (uint32_t i = 0; i < w->n; i++) stage[i] = stage_of(f, w->layers[i].id, i);
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage[w->edges[e].from] > stage[w->edges[e].to])
      return pz_fail(err, PZ_NO_ANSWER, "an edge of the graph goes back from stage %u to stage %u",
                     stage[w->edges[e].from] + 1, stage[w->edges[e].to] + 1);
  while (plan.domain < p->n_domains && (double)p->domains[plan.domain].devices < devices)
    plan.domain++;
  struct pz_place_problem q = pz_place_within(p, plan.domain);
  enum pz_status status = evaluate(&q, f, stage, arena, &plan, err);
  if (status == PZ_OK) *out = plan;
  return status;
}

/* ---- the problem of a model ----------------------------------------------------------------- */

struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices) {
  const struct pz_level *all = pz_cluster_level(net, devices);
  struct pz_place_problem p = {
      .devices = devices, .bytes_per_s = all ? all->bytes_per_s : 0, .n_widths = 1};
  for (int i = 0; all && &net->level[i] < all; i++)
    p.domains[p.n_domains++] =
        (struct pz_place_domain){net->level[i].devices, net->level[i].bytes_per_s};
  return p;
}

enum pz_status pz_place_chain(const struct pz_workload *w, struct pz_layer_time (*times)[2],
                              bool least, struct pz_arena *arena, struct pz_place_width *out,
                              struct pz_error *err) {
  enum { BYTES = 2 }; /* of a parameter */
  uint32_t n = (uint32_t)w->totals.layers, at = 0;
  struct pz_place_layer *layers = pz_arena_alloc(arena, n, sizeof *layers);
  struct pz_place_edge *edges = pz_arena_alloc(arena, n, sizeof *edges);
  if (!layers || !edges) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    const struct pz_layer_time *fwd = &times[i][PZ_FORWARD], *bwd = &times[i][PZ_BACKWARD];
    for (int64_t k = 0; k < l->count && at < n; k++, at++) {
      layers[at] =
          (struct pz_place_layer){.id = at,
                                  .name = l->name,
                                  .fwd_s = least ? fwd->least_s : fwd->s,
                                  .bwd_s = least ? bwd->least_s : bwd->s,
                                  .link_s = {fwd->link_s, bwd->link_s},
                                  .param_bytes = BYTES * (double)(l->params + l->tied_params),
                                  .act_bytes = (double)l->activation_bytes,
                                  .tensor_parallel = w->options.tp > 1};
      edges[at] = (struct pz_place_edge){at, at + 1, (double)l->output_bytes};
    }
  }
  *out = (struct pz_place_width){
      .t = w->options.tp, .layers = layers, .edges = edges, .n = at, .n_edges = at ? at - 1 : 0};
  return PZ_OK;
}
