/* Each of the searches that prove a schedule, alone. */
#ifndef PZ_TESTS_SEARCHING_H
#define PZ_TESTS_SEARCHING_H

#include "schedule/bound/root_bound.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/model/context.h"
#include "schedule/tree/deferred.h"
#include "unit/testing.h"

static inline void best_first_with_duals(struct pz_context *context) {
  struct pz_colgen *colgen = pz_colgen_new(context);
  if (colgen) pz_colgen_run(colgen, 10000000); /* NULL: no task takes time */
  if (pz_open(context)) pz_best_first_search(context, 10000000, NULL);
}

/* Searches that prove, and what only bounds. */
enum search {
  DEPTH_FIRST,
  DEPTH_WITH_DEFERRED,
  BEST_FIRST,
  BEST_WITH_DEFERRED,
  BEST_WITH_DUALS,
  SEARCHES,
  TWO_MACHINE
};

static inline void run_alone(struct pz_context *context, enum search which) {
  enum { STEPS = 10000000 };
  switch (which) {
  case DEPTH_FIRST: pz_depth_first_search(context, STEPS, NULL); return;
  case DEPTH_WITH_DEFERRED: pz_deferred_search(context, pz_depth_first_search, STEPS); return;
  case BEST_FIRST: pz_best_first_search(context, STEPS, NULL); return;
  case BEST_WITH_DEFERRED: pz_deferred_search(context, pz_best_first_search, STEPS); return;
  case BEST_WITH_DUALS: best_first_with_duals(context); return;
  default: pz_two_machine_bound(context);
  }
}

struct single_search {
  const struct pz_problem *p;
  enum search which;
  const bool *eliminated; /* by mode: not to be used (NULL: none) */
  const struct pz_techniques *techniques;
  double found;
};

static inline void run_single_search(struct pz_call *call, void *ctx) {
  struct single_search *x = ctx;
  struct pz_context *context = pz_context_new(call, x->p);
  struct pz_slot slots[PZ_TREE_MOST_TASKS];
  double t = 0;
  context->techniques = x->techniques;
  for (uint32_t i = 0; i < x->p->n; i++, t = slots[i - 1].end)
    slots[i] = (struct pz_slot){t, t + x->p->tasks[i].modes[0].duration, 0};
  for (uint32_t m = 0; x->eliminated && m < context->n_modes; m++)
    context->eliminated[m] = x->eliminated[m];
  context->energy_heads = x->which >= BEST_FIRST && x->which < SEARCHES;
  pz_bound_tighten(context);
  pz_update_incumbent(context, slots, t, PZ_T_NONE);
  pz_bound_tighten(context);
  if (pz_open(context)) run_alone(context, x->which);
  x->found = x->which > SEARCHES ? context->lower_bound_s : context->incumbent_s;
  assert_true(x->which > SEARCHES || !pz_open(context));
}

/* Each search alone, from one task after another: local search would hide what it misses.  Best
 * first has heads and tails by energy too. */
static inline double search_tuned(const struct pz_problem *p, enum search which,
                                  const bool *eliminated, const struct pz_techniques *techniques) {
  struct single_search x = {p, which, eliminated, techniques, 0};
  assert_int_equal(pz_border(run_single_search, &x, NULL), PZ_OK);
  return x.found;
}

static inline double search_without(const struct pz_problem *p, enum search which,
                                    const bool *eliminated) {
  return search_tuned(p, which, eliminated, &pz_techniques_all);
}

static inline double search_alone(const struct pz_problem *p, enum search which) {
  return search_without(p, which, NULL);
}

#endif
