#include "schedule/model/context.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/model/schedule.h"

const double pz_mixes[PZ_MIXES][PZ_RESOURCES] = {
    {1},
    {0, 1},
    {0, 0, 1},
    {0, 0, 0, 1},
    {0, 0, 0, 0, 1},
    {0.5, 0.5},
    {0.75, 0.25},
    {0.25, 0.75},
    {0.9, 0.1},
    {0.1, 0.9},
    {0.4, 0.4, 0.2},
    {0.5, 0, 0, 0.5},
    {0.2, 0, 0, 0.8},
    {0.8, 0, 0, 0.2},
    {0, 0, 0, 0, 0, 1},
};

/* The greatest common divisor of all durations if they are integers and their sums are exact, otherwise 0. */
static double common_time_unit(const struct pz_problem *p) {
  uint64_t g = 0;
  double sum = 0;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++) {
      double s = p->tasks[i].modes[m].s;
      sum += s;
      if (sum > 0x1p50 || s != floor(s)) return 0;
      uint64_t a = (uint64_t)s, b = g;
      while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
      }
      g = a;
    }
  return sum <= 0x1p26 * (double)g ? (double)g : 0; /* sums are exact to far less than a unit */
}

static bool allocate(struct pz_context *c) {
  uint32_t n = c->p->n;
  if (!PZ_ARRAY(c->arena, c->mode_at, n)) return false;
  for (uint32_t i = 0; i < n; i++) {
    c->mode_at[i] = c->n_modes;
    c->n_modes += c->p->tasks[i].n_modes;
  }
  return PZ_ARRAY(c->arena, c->count, PZ_TECHNIQUES + 1) &&
         PZ_ARRAY(c->arena, c->eliminated, c->n_modes) &&
         PZ_ARRAY(c->arena, c->lp_share, c->n_modes) &&
         PZ_ARRAY(c->arena, c->duals.rate, c->n_modes) && PZ_ARRAY(c->arena, c->duals.least, n) &&
         PZ_ARRAY(c->arena, c->least_s, n) && PZ_ARRAY(c->arena, c->head_s, n) &&
         PZ_ARRAY(c->arena, c->tail_s, n) && PZ_ARRAY(c->arena, c->work, n) &&
         PZ_ARRAY(c->arena, c->best, n);
}

enum pz_status pz_context_init(struct pz_context *c, const struct pz_problem *p,
                               struct pz_arena *arena, struct pz_error *err) {
  *c = (struct pz_context){.p = p,
                           .arena = arena,
                           .o = &pz_techniques_all,
                           .best_s = DBL_MAX,
                           .time_unit = common_time_unit(p)};
  if (!allocate(c)) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  c->scale = pz_problem_serial(p);
  return PZ_OK;
}

/* For assertions: the largest sum of rounding errors. */
#define SLACK(c) (1e-9 * (c)->scale)

void pz_update_incumbent(struct pz_context *c, const struct pz_slot *slots, double makespan,
                         enum pz_technique by) {
  if (!pz_better(c, makespan, c->best_s)) return;
  assert(makespan >= c->bound_s - SLACK(c) || pz_has_eliminated(c, slots));
  memcpy(c->best, slots, c->p->n * sizeof *slots);
  c->best_s = makespan;
  c->count[by].incumbents++;
}

void pz_update_bound(struct pz_context *c, double bound_s, enum pz_technique by) {
  if (c->time_unit > 0) bound_s = ceil(bound_s / c->time_unit - 1e-6) * c->time_unit;
  assert(bound_s <= c->best_s + SLACK(c) || pz_any_eliminated(c));
  bound_s = fmin(bound_s, c->best_s);
  if (!(bound_s > c->bound_s)) return;
  c->count[by].raised += bound_s - c->bound_s;
  c->bound_s = bound_s;
}
