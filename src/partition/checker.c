/* Checks a plan independently of the solver: every layer is in exactly one stage, no edge goes
 * back, every stage fits in memory, the devices suffice, and the time is the one that follows
 * from the layers.  Shares the formulas of problem.c with the solver, but none of its tables. */
#include "partition/problem.h"

#include <math.h>

/* Raises PZ_INTERNAL unless stages, memory, devices and step time of the plan are right. */
void pz_place_check(struct pz_call *call, const struct pz_place_problem *whole,
                    const struct pz_place_solution *plan) {
  const struct pz_place_problem problem = pz_place_within(whole, plan->domain);
  const struct pz_place_width *width = &problem.widths[plan->width];
  uint32_t stage_of[PZ_PLACE_MOST_LAYERS], n = plan->n_stages;
  for (uint32_t i = 0; i < width->n; i++) stage_of[i] = PZ_NONE;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < plan->stages[k].n; i++) {
      uint32_t layer = plan->stages[k].layers[i];
      if (layer >= width->n || stage_of[layer] != PZ_NONE)
        pz_raise(call, PZ_INTERNAL, "checker: layer %u occurs twice or is unknown", layer);
      stage_of[layer] = k;
    }
  for (uint32_t i = 0; i < width->n; i++)
    if (stage_of[i] == PZ_NONE) pz_raise(call, PZ_INTERNAL, "checker: layer %u is missing", i);
  for (uint32_t edge = 0; edge < width->n_edges; edge++)
    if (stage_of[width->edges[edge].from] > stage_of[width->edges[edge].to])
      pz_raise(call, PZ_INTERNAL, "checker: an edge goes back to an earlier stage");

  double maxload_s = 0, charged_bytes = 0, devices = 0;
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage_sum sum = pz_stage_sum(&problem, width, stage_of, k, n);
    if (sum.memory_bytes > problem.hbm_bytes)
      pz_raise(call, PZ_INTERNAL, "checker: stage %u exceeds the memory", k + 1);
    maxload_s = fmax(maxload_s, sum.load_s);
    devices += sum.tensor_parallel ? (double)width->tp : 1;
    /* The all-reduce counts the largest stage, or in the original semantics the first one. */
    if (k == 0 || problem.semantics == PZ_SEMANTICS_CORRECTED)
      charged_bytes = fmax(charged_bytes, sum.param_bytes);
  }
  if (plan->replicas < 1 || plan->replicas > problem.microbatches ||
      devices * (double)plan->replicas > (double)problem.devices)
    pz_raise(call, PZ_INTERNAL, "checker: %lld replicas of %.0f devices", (long long)plan->replicas,
             devices);
  double time_s = pz_place_time_s(&problem, maxload_s, n, plan->replicas, charged_bytes);
  double tolerance = 1e-9 * fmax(fabs(time_s), fabs(plan->time_s));
  if (!(fabs(time_s - plan->time_s) <= tolerance))
    pz_raise(call, PZ_INTERNAL, "checker: the time is %.17g, not %.17g", time_s, plan->time_s);
}
