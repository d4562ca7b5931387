#include "schedule/context.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Shares of tensor cores, vector cores and link in a mix; each row sums to 1. */
static const double mixes[PZ_MIXES][PZ_RESOURCES] = {
    {1, 0, 0},       {0, 1, 0},     {0, 0, 1},     {0.5, 0.5, 0},   {0.75, 0.25, 0},
    {0.25, 0.75, 0}, {0.9, 0.1, 0}, {0.1, 0.9, 0}, {0.4, 0.4, 0.2},
};

static double mode_work(const struct pz_problem *p, const struct pz_mode *m,
                        const double mix[PZ_RESOURCES]) {
  double w = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (p->capacity[r] > 0) w += mix[r] * (double)m->use[r] / (double)p->capacity[r];
  return w * m->s;
}

static void derive(struct pz_context *c) {
  const struct pz_problem *p = c->p;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_task *t = &p->tasks[i];
    c->least_s[i] = DBL_MAX;
    for (int k = 0; k < PZ_MIXES; k++) c->work[i][k] = DBL_MAX;
    for (uint32_t m = 0; m < t->n_modes; m++) {
      c->least_s[i] = fmin(c->least_s[i], t->modes[m].s);
      for (int k = 0; k < PZ_MIXES; k++)
        c->work[i][k] = fmin(c->work[i][k], mode_work(p, &t->modes[m], mixes[k]));
    }
    for (uint32_t k = 0; k < t->n_pred; k++)
      c->head_s[i] = fmax(c->head_s[i], c->head_s[t->pred[k]] + c->least_s[t->pred[k]]);
    c->scale += c->least_s[i];
  }
  for (uint32_t i = p->n; i-- > 0;)
    for (uint32_t k = 0; k < p->tasks[i].n_succ; k++) {
      uint32_t s = p->tasks[i].succ[k];
      c->tail_s[i] = fmax(c->tail_s[i], c->tail_s[s] + c->least_s[s]);
    }
}

enum pz_status pz_context_init(struct pz_context *c, const struct pz_problem *p,
                               struct pz_arena *arena, struct pz_error *err) {
  *c = (struct pz_context){.p = p, .arena = arena, .best_s = DBL_MAX};
  c->least_s = pz_arena_alloc(arena, p->n, sizeof *c->least_s);
  c->head_s = pz_arena_alloc(arena, p->n, sizeof *c->head_s);
  c->tail_s = pz_arena_alloc(arena, p->n, sizeof *c->tail_s);
  c->work = pz_arena_alloc(arena, p->n, sizeof *c->work);
  c->best = pz_arena_alloc(arena, p->n, sizeof *c->best);
  if (!c->least_s || !c->head_s || !c->tail_s || !c->work || !c->best)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  memcpy(c->mix, mixes, sizeof mixes);
  derive(c);
  return PZ_OK;
}

bool pz_better(const struct pz_context *c, double a, double b) { return a < b - 1e-12 * c->scale; }

void pz_context_offer(struct pz_context *c, const struct pz_slot *slots, double makespan) {
  if (!pz_better(c, makespan, c->best_s)) return;
  memcpy(c->best, slots, c->p->n * sizeof *slots);
  c->best_s = makespan;
}
