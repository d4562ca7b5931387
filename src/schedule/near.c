/* Epsilon-optimality: how near the incumbent is to the optimum when a proof takes too long.
 *
 * Searches for schedules better than the incumbent by a given fraction.  Modes that cannot occur in
 * such a schedule are removed, which may be far more than those that cannot occur in a better one.
 * If the removal does not raise the bound by half of that fraction, the search would be much like
 * the exact one and is skipped. */
#include <math.h>

#include "schedule/context.h"
#include "schedule/price.h"

enum { MOST_ROUNDS = 3 };

void pz_narrow(struct pz_context *c, struct pz_pricer *pricer, int64_t steps) {
  for (int round = 0; round < MOST_ROUNDS && pz_open(c) && pz_barrier_drop(c, steps); round++)
    if (pricer && pz_open(c)) pz_pricer_run(pricer, c, steps);
}

static double goal_of(const struct pz_context *c, double part) {
  double goal = (1 - part) * c->best_s;
  return c->grain > 0 ? floor(goal / c->grain) * c->grain : goal;
}

enum pz_status pz_near_search(struct pz_context *c, struct pz_pricer *pricer, double part,
                              int64_t steps, struct pz_error *err) {
  struct pz_context near;
  struct pz_arena arena;
  enum pz_status status = PZ_OK;
  double goal = goal_of(c, part);
  int64_t end = c->steps + steps;
  if (c->bound_s >= goal) return status;
  pz_arena_init(&arena, c->arena->mem);
  if (pz_context_fork(c, &arena, &near)) {
    near.best_s = goal;
    near.windows = c->windows;
    pz_bound_tighten(&near);
    pz_narrow(&near, pricer, steps / 8);
    if (pz_open(&near) && near.bound_s > (c->bound_s + goal) / 2)
      status = pz_late_search(&near, pz_frontier_search, end - near.steps, err);
    c->steps = near.steps;
    if (near.best_s < goal) c->best_s = near.best_s; /* a schedule was found */
    pz_context_raise(c, near.bound_s);
  }
  pz_arena_release(&arena);
  pz_bound_tighten(c);
  return status;
}
