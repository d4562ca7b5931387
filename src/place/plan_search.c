#include "place/plan_search.h"

#include "place/plan_pricing.h"

static enum pz_status price_grids(struct pz_plan_pricing *s) {
  struct pz_plan_space *space = s->space;
  enum pz_status status = PZ_OK;
  pz_plan_grids_sort(&space->grids);
  for (uint32_t i = 0; i < space->grids.n && status == PZ_OK; i++) {
    const struct pz_plan_grid *g = pz_vec_at(&space->grids, struct pz_plan_grid, i);
    status =
        pz_plan_pricing_promises(s, g) ? pz_plan_pricing_grid(s, g) : pz_plan_pricing_exclude(s, g);
  }
  if (status == PZ_OK && !s->found.certificate.plans) return pz_plan_space_empty(space);
  return status == PZ_OK ? pz_plan_pricing_least(s) : status;
}

enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                              struct pz_found_plans *out, struct pz_error *err) {
  struct pz_arena work;
  struct pz_plan_space space;
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  enum pz_status status = pz_plan_question_check(q, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&work, NULL);
  pz_plan_space_init(&space, q, &work);
  pz_plan_memory_init(&memory, &space, false);
  pz_plan_memory_set_chip(&memory, q->chip);
  status = pz_plan_space_list(&space, err);
  if (status == PZ_OK) status = pz_plan_memory_begin(&memory, &work);
  if (status == PZ_OK) status = pz_plan_pricing_begin(&pricing, &space, &memory, arena);
  if (status == PZ_OK) status = price_grids(&pricing);
  if (status == PZ_OK) *out = pricing.found;
  pz_plan_memory_release(&memory);
  pz_plan_space_release(&space);
  pz_arena_release(&work);
  return status;
}
