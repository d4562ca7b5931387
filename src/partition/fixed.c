#include "partition/fixed.h"

#include <math.h>

#include "core/num.h"

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
  uint32_t stage[PZ_PLACE_MOST_LAYERS];
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
