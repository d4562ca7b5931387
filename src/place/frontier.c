#include "place/frontier.h"

#include <math.h>

#include "core/map.h"
#include "core/num.h"

_Static_assert(sizeof(struct pz_frontier) % sizeof(double) == 0 &&
                   sizeof(struct pz_frontier_plan) % sizeof(double) == 0,
               "counts lie behind the plans");

void pz_frontier_list_init(struct pz_frontier_list *list, struct pz_arena *arena) {
  pz_vec_init(&list->plans, arena, sizeof(struct pz_listed_plan));
  pz_vec_init(&list->counts, arena, sizeof(struct pz_part_counts));
}

size_t pz_frontier_bytes(const struct pz_frontier *f) {
  return sizeof *f + f->n_plans * sizeof(struct pz_frontier_plan) +
         (size_t)f->n_counts * pz_part_terms(f->kinds) * sizeof(double) +
         f->n_stages * sizeof(int64_t);
}

static const int64_t *stages_from(const struct pz_frontier *f, uint32_t first) {
  return (const int64_t *)(const void *)pz_frontier_counts(f, f->n_counts) + first;
}

/* ---- packing -------------------------------------------------------------------------------- */

static struct pz_frontier_plan pack_plan(const struct pz_listed_plan *p, uint32_t first_stage) {
  const struct pz_plan *x = &p->plan;
  return (struct pz_frontier_plan){.first_count = p->first_count,
                                   .n_counts = p->n_counts,
                                   .first_stage = x->stage_recompute ? first_stage : PZ_NONE,
                                   .vpp = (int32_t)x->vpp,
                                   .first_layers = (int32_t)x->first_layers,
                                   .last_layers = (int32_t)x->last_layers,
                                   .recompute_layers = (int32_t)x->recompute_layers,
                                   .zero = (uint8_t)x->zero,
                                   .pipeline = (uint8_t)x->pipeline,
                                   .recompute = (uint8_t)x->recompute};
}

static struct pz_frontier head_of(const struct pz_frontier_list *list, uint32_t kinds) {
  struct pz_frontier head = {list->plans.n, list->counts.n, 0, kinds};
  for (uint32_t i = 0; i < list->plans.n; i++) {
    const struct pz_plan *p = &pz_vec_at(&list->plans, struct pz_listed_plan, i)->plan;
    if (p->stage_recompute) head.n_stages += (uint32_t)p->pp;
  }
  return head;
}

struct pz_frontier *pz_frontier_pack(const struct pz_frontier_list *list, uint32_t kinds,
                                     struct pz_arena *arena) {
  struct pz_frontier head = head_of(list, kinds);
  struct pz_frontier *f = pz_arena_alloc(arena, 1, pz_frontier_bytes(&head));
  if (!f) return NULL;
  *f = head;
  struct pz_frontier_plan *plans = (struct pz_frontier_plan *)(f + 1);
  double *counts = (double *)(void *)(plans + f->n_plans);
  int64_t *stages = (int64_t *)(void *)(counts + (size_t)f->n_counts * pz_part_terms(kinds)),
          *stage = stages;
  for (uint32_t i = 0; i < f->n_plans; i++) {
    const struct pz_listed_plan *p = pz_vec_at(&list->plans, struct pz_listed_plan, i);
    plans[i] = pack_plan(p, (uint32_t)(stage - stages));
    for (int64_t k = 0; p->plan.stage_recompute && k < p->plan.pp; k++)
      *stage++ = p->plan.stage_recompute[k];
  }
  for (uint32_t i = 0; i < f->n_counts; i++)
    for (uint32_t k = 0; k < pz_part_terms(kinds); k++)
      *counts++ = pz_vec_at(&list->counts, struct pz_part_counts, i)->n[pz_part_term_at(kinds, k)];
  return f;
}

struct pz_plan pz_frontier_unpack(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                                  const struct pz_plan_space *space, const struct pz_step_shape *x,
                                  const struct pz_plan_grid *g) {
  struct pz_plan plan = pz_step_shape_plan(space->q, x);
  plan.pp = g->pp;
  plan.dp = g->dp;
  plan.vpp = p->vpp;
  plan.first_layers = p->first_layers;
  plan.last_layers = p->last_layers;
  plan.recompute_layers = p->recompute_layers;
  plan.zero = p->zero;
  plan.pipeline = p->pipeline;
  plan.recompute = p->recompute;
  plan.stage_recompute = p->first_stage == PZ_NONE ? NULL : stages_from(f, p->first_stage);
  pz_plan_space_settle(space, &plan);
  return plan;
}

/* ---- bounds --------------------------------------------------------------------------------- */

/* The longest stage of the plan. */
double pz_frontier_plan_s(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          const struct pz_part_seconds *t) {
  uint32_t n = pz_part_terms(f->kinds);
  const double *counts = pz_frontier_counts(f, p->first_count);
  double most = 0;
  for (uint32_t i = 0; i < p->n_counts; i++, counts += n) {
    double s = 0;
    for (uint32_t k = 0; k < n; k++) s += counts[k] * t->s[k];
    most = pz_fmax(most, s);
  }
  return most * (1 - 1e-9);
}

double pz_frontier_least_s(const struct pz_frontier *f, const struct pz_part_seconds *t) {
  double least = HUGE_VAL;
  for (uint32_t i = 0; i < f->n_plans; i++)
    least = pz_fmin(least, pz_frontier_plan_s(f, &pz_frontier_plans(f)[i], t));
  return least;
}
