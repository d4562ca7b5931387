#include "partition/problem.h"

#include <math.h>

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

/* Every layer in one stage, every edge to the same stage or a later one. */
static enum pz_status check_stages(const struct pz_place_width *w,
                                   const struct pz_place_solution *plan, uint32_t *stage,
                                   struct pz_error *err) {
  for (uint32_t i = 0; i < w->n; i++) stage[i] = PZ_NONE;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    for (uint32_t i = 0; i < plan->stages[k].n; i++) {
      uint32_t layer = plan->stages[k].layers[i];
      if (layer >= w->n || stage[layer] != PZ_NONE)
        return pz_fail(err, PZ_INTERNAL, "checker: layer %u occurs twice or is unknown", layer);
      stage[layer] = k;
    }
  for (uint32_t i = 0; i < w->n; i++)
    if (stage[i] == PZ_NONE) return pz_fail(err, PZ_INTERNAL, "checker: layer %u is missing", i);
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage[w->edges[e].from] > stage[w->edges[e].to])
      return pz_fail(err, PZ_INTERNAL, "checker: an edge goes back to an earlier stage");
  return PZ_OK;
}

enum pz_status pz_partition_check(const struct pz_place_problem *whole,
                                  const struct pz_place_solution *plan, struct pz_error *err) {
  const struct pz_place_problem within = pz_place_within(whole, plan->domain), *p = &within;
  const struct pz_place_width *w = &p->widths[plan->width];
  uint32_t stage[PZ_PLACE_MOST_LAYERS], n = plan->n_stages;
  double maxload = 0, params = 0, devices = 0;
  enum pz_status status = check_stages(w, plan, stage, err);
  for (uint32_t k = 0; k < n && status == PZ_OK; k++) {
    struct pz_stage_sum s = pz_stage_sum(p, w, stage, k, n);
    if (s.memory_bytes > p->hbm_bytes)
      status = pz_fail(err, PZ_INTERNAL, "checker: stage %u exceeds the memory", k + 1);
    maxload = fmax(maxload, s.load_s);
    devices += s.tensor_parallel ? (double)w->t : 1;
    if (k == 0 || p->semantics == PZ_SEMANTICS_CORRECTED) params = fmax(params, s.param_bytes);
  }
  if (status != PZ_OK) return status;
  if (plan->d < 1 || plan->d > p->microbatches || devices * (double)plan->d > (double)p->devices)
    return pz_fail(err, PZ_INTERNAL, "checker: %lld replicas of %.0f devices", (long long)plan->d,
                   devices);
  double time = pz_place_time_s(p, maxload, n, plan->d, params);
  if (!near(time, plan->time_s))
    return pz_fail(err, PZ_INTERNAL, "checker: the time is %.17g, not %.17g", time, plan->time_s);
  return PZ_OK;
}
