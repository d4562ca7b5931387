/* Internal state of a search, shared by the files that run it. */
#ifndef PZ_SEARCH_STATE_H
#define PZ_SEARCH_STATE_H

#include <math.h>

#include "core/ranks.h"
#include "search/journal.h"
#include "search/objective.h"

enum { PZ_SEARCH_EFFORTS = PZ_EFFORT_FULL };

/* What a chip is judged by beside the models. */
struct pz_nature {
  double area_um2, watts;
};

struct pz_memo {
  struct pz_evaluation e;
  bool known, kept;       /* kept: the journal has it */
  bool changed;           /* here, and other ranks do not know it yet */
  uint32_t objective_run; /* as in pz_entry */
};

struct pz_search {
  const struct pz_search_task *task;
  const struct pz_point *points;
  uint32_t n_points, n_models;
  uint32_t n_runs;        /* begun so far */
  uint32_t objective_run; /* the one that runs, from 1; PZ_NO_RUN between them */
  struct pz_pool *pool;
  struct pz_search_options o;
  struct pz_bounds *bounds;
  struct pz_evaluator *evaluators; /* by worker */
  unsigned n_workers;
  uint64_t n_variants_elsewhere; /* evaluated by other ranks */
  struct pz_nature *nature;      /* by point */
  double *bound;                 /* samples/s, by point and model; negative: not known yet */
  struct pz_chip_boxes *boxes;   /* NULL: every point has its bound from the beginning */
  struct pz_memo *memo;          /* by point, model and effort */
  struct pz_arena arena;
};

static inline double *pz_bound_at(const struct pz_search *s, uint32_t point, uint32_t model) {
  return &s->bound[(size_t)point * s->n_models + model];
}

static inline struct pz_memo *pz_memo_at(const struct pz_search *s, uint32_t point, uint32_t model,
                                         enum pz_effort effort) {
  return &s->memo[((size_t)point * s->n_models + model) * PZ_SEARCH_EFFORTS + (size_t)effort - 1];
}

static inline double pz_rate(const struct pz_search *s, double time_s) {
  return time_s < HUGE_VAL ? (double)s->task->o.batch / time_s : 0;
}

static inline double pz_value_of(const struct pz_search *s, const struct pz_objective *o,
                                 uint32_t point, const double *samples_per_s) {
  return pz_objective_value(o, samples_per_s, s->nature[point].area_um2, s->nature[point].watts);
}

static inline bool pz_search_stopped(const struct pz_search *s) {
  return s->o.stop && atomic_load(s->o.stop);
}

/* Make sure the evaluation is in the memo. */
PZ_NODISCARD enum pz_status pz_search_know(struct pz_search *s, uint32_t point, uint32_t model,
                                           enum pz_effort effort, unsigned worker,
                                           struct pz_error *err);

/* What is new of these chips goes to the journal. */
PZ_NODISCARD enum pz_status pz_search_keep(struct pz_search *s, const uint32_t *points, uint32_t n,
                                           struct pz_error *err);

#endif
