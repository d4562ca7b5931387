/* Each of the searches that prove a schedule, alone. */
#ifndef PZ_TESTS_SEARCHING_H
#define PZ_TESTS_SEARCHING_H

#include "schedule/bound/root_bound.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/model/context.h"
#include "schedule/tree/deferred.h"
#include "unit/testing.h"

static inline enum pz_status best_first_with_duals(struct pz_context *c, struct pz_error *err) {
  struct pz_colgen *colgen = pz_colgen_new(c);
  if (colgen) pz_colgen_run(colgen, c, 10000000); /* NULL: no task takes time */
  pz_colgen_free(colgen);
  return pz_open(c) ? pz_best_first_search(c, 10000000, NULL, err) : PZ_OK;
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

static inline enum pz_status run_alone(struct pz_context *c, enum search which,
                                       struct pz_error *err) {
  enum { STEPS = 10000000 };
  switch (which) {
  case DEPTH_FIRST: return pz_depth_first_search(c, STEPS, NULL, err);
  case DEPTH_WITH_DEFERRED: return pz_deferred_search(c, pz_depth_first_search, STEPS, err);
  case BEST_FIRST: return pz_best_first_search(c, STEPS, NULL, err);
  case BEST_WITH_DEFERRED: return pz_deferred_search(c, pz_best_first_search, STEPS, err);
  case BEST_WITH_DUALS: return best_first_with_duals(c, err);
  default: pz_two_machine_bound(c); return PZ_OK;
  }
}

/* Each search alone, from one task after another: local search would hide what it misses.  Best
 * first has heads and tails by energy too.  `eliminated`, by mode: not to be used (NULL: none). */
static inline double search_tuned(const struct pz_problem *p, enum search which,
                                  const bool *eliminated, const struct pz_techniques *techniques) {
  struct pz_arena arena;
  struct pz_context c;
  struct pz_slot slots[PZ_TREE_MOST_TASKS];
  struct pz_error err = {0};
  double t = 0;
  pz_arena_init(&arena, NULL);
  assert_int_equal(pz_context_init(&c, p, &arena, &err), PZ_OK);
  c.o = techniques;
  for (uint32_t i = 0; i < p->n; i++, t = slots[i - 1].end)
    slots[i] = (struct pz_slot){t, t + p->tasks[i].modes[0].s, 0};
  for (uint32_t m = 0; eliminated && m < c.n_modes; m++) c.eliminated[m] = eliminated[m];
  c.head_tail = which >= BEST_FIRST && which < SEARCHES;
  pz_bound_tighten(&c);
  pz_update_incumbent(&c, slots, t, PZ_T_NONE);
  pz_bound_tighten(&c);
  if (pz_open(&c)) assert_int_equal(run_alone(&c, which, &err), PZ_OK);
  double found = which > SEARCHES ? c.bound_s : c.best_s;
  assert_true(which > SEARCHES || !pz_open(&c));
  pz_arena_release(&arena);
  return found;
}

static inline double search_without(const struct pz_problem *p, enum search which,
                                    const bool *eliminated) {
  return search_tuned(p, which, eliminated, &pz_techniques_all);
}

static inline double search_alone(const struct pz_problem *p, enum search which) {
  return search_without(p, which, NULL);
}

#endif
