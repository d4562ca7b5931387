#include "partition/fit.h"

#include <float.h>

#include "partition/solve.h"

static bool try_with(const struct pz_place_problem *p, enum pz_semantics semantics, double bytes,
                     struct pz_fit *out) {
  struct pz_place_problem q = *p;
  struct pz_place_solution plan;
  struct pz_arena arena;
  struct pz_error none = {0};
  q.hbm_bytes = bytes;
  pz_arena_init(&arena, NULL);
  bool fits = pz_place_solve(&q, semantics, &arena, &plan, &none) == PZ_OK;
  for (uint32_t k = 0; fits && k < plan.n_stages; k++) {
    const struct pz_stage *s = &plan.stages[k];
    const struct pz_place_layer *layers = p->widths[plan.width].layers;
    if (k && s->memory_bytes <= out->memory_bytes) continue;
    *out = (struct pz_fit){.hbm_bytes = bytes,
                           .stage = k,
                           .n_stages = plan.n_stages,
                           .n_layers = s->n,
                           .first = layers[s->layers[0]].id,
                           .last = layers[s->layers[s->n - 1]].id,
                           .param_bytes = s->param_bytes,
                           .memory_bytes = s->memory_bytes};
  }
  pz_arena_release(&arena);
  return fits;
}

struct pz_fit pz_fit_least(const struct pz_place_problem *p, enum pz_semantics semantics) {
  struct pz_fit fit = {.hbm_bytes = DBL_MAX};
  double low = p->hbm_bytes, high = low > 1 ? 2 * low : 2;
  while (!try_with(p, semantics, high, &fit)) {
    low = high;
    if ((high *= 2) > 1e30) return (struct pz_fit){.hbm_bytes = DBL_MAX};
  }
  while (high > 1.001 * low) {
    double middle = (low + high) / 2;
    if (try_with(p, semantics, middle, &fit))
      high = middle;
    else
      low = middle;
  }
  return fit;
}
