/* Checker of the dual values of column generation, for small problems.  It shares no code with
 * pricing or simplex: every feasible subset is enumerated, with a precedence relation of its own. */
#ifndef PZ_TESTS_DUAL_CHECKER_H
#define PZ_TESTS_DUAL_CHECKER_H

#include <float.h>

#include "schedule/model/problem.h"

enum { DUAL_CHECK_MOST = 12 };

struct dual_checker {
  const struct pz_problem *p;
  const double *rate;              /* by mode of all tasks, one task after another */
  const bool *eliminated;          /* by mode: not part of any subset */
  uint32_t first[DUAL_CHECK_MOST]; /* by task: its first mode */
  bool before[DUAL_CHECK_MOST][DUAL_CHECK_MOST];
  uint32_t mode[DUAL_CHECK_MOST]; /* of the subset at hand; PZ_NONE: not in it */
};

static inline struct dual_checker dual_checker(const struct pz_problem *p, const double *rate,
                                               const bool *eliminated) {
  struct dual_checker x = {.p = p, .rate = rate, .eliminated = eliminated};
  for (uint32_t i = 0, at = 0; i < p->n; at += p->tasks[i++].n_modes) {
    x.first[i] = at;
    for (uint32_t k = 0; k < p->tasks[i].n_pred; k++) {
      uint32_t q = p->tasks[i].pred[k];
      x.before[q][i] = true;
      for (uint32_t j = 0; j < q; j++)
        if (x.before[j][q]) x.before[j][i] = true;
    }
  }
  return x;
}

/* May the task in this mode join the subset of tasks before it? */
static inline bool dual_check_joins(const struct dual_checker *x, uint32_t i, uint32_t m) {
  for (uint32_t k = 0; k < i; k++)
    if (x->mode[k] != PZ_NONE && x->before[k][i]) return false;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    int64_t use = x->p->tasks[i].modes[m].use[r];
    for (uint32_t k = 0; k < i; k++)
      if (x->mode[k] != PZ_NONE) use += x->p->tasks[k].modes[x->mode[k]].use[r];
    if (use > x->p->capacity[r]) return false;
  }
  return true;
}

/* The largest sum of rates of a feasible subset, over tasks from i on. */
static inline double dual_check_largest(struct dual_checker *x, uint32_t i) {
  if (i == x->p->n) return 0;
  x->mode[i] = PZ_NONE;
  double largest = dual_check_largest(x, i + 1);
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
    uint32_t at = x->first[i] + m;
    if (x->eliminated[at] || !dual_check_joins(x, i, m)) continue;
    x->mode[i] = m;
    double value = x->rate[at] + dual_check_largest(x, i + 1);
    if (value > largest) largest = value;
    x->mode[i] = PZ_NONE;
  }
  return largest;
}

/* The bound that the rates prove: for each task the least of rate times duration. */
static inline double dual_check_bound(const struct dual_checker *x) {
  double sum = 0;
  for (uint32_t i = 0; i < x->p->n; i++) {
    double least = DBL_MAX;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      double value = x->rate[x->first[i] + m] * x->p->tasks[i].modes[m].duration;
      if (!x->eliminated[x->first[i] + m] && value < least) least = value;
    }
    sum += least;
  }
  return sum;
}

#endif
