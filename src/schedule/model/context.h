/* Shared state of the solver's parts: derived data of a problem, the incumbent, and the proven
 * lower bound. */
#ifndef PZ_SCHEDULE_MODEL_CONTEXT_H
#define PZ_SCHEDULE_MODEL_CONTEXT_H

#include "schedule/model/problem.h"

/* Weights of the resources in a work bound; see bound.c.  Measures of work are mixes and prices, a
 * multiple of four with room for all: the processor adds them up in parts. */
enum { PZ_MIXES = 14, PZ_MEASURES = 16 };
_Static_assert((int)PZ_MIXES < (int)PZ_MEASURES && PZ_MEASURES % 4 == 0, "room for every measure");

/* Prices of time (price.c): while a task runs in a mode the bound may advance by its rate at most,
 * whatever else runs.  So what is left takes at least the sum, over tasks, of rate times duration;
 * tasks not yet begun in their cheapest mode. */
struct pz_duals {
  double *rate;  /* by mode */
  double *least; /* by task: least of rate times duration */
  double sum;    /* of least: a bound for the whole */
};

/* Of numbers: without a call, as fmax and fmin are where NaN counts. */
static inline double pz_larger(double a, double b) { return a > b ? a : b; }
static inline double pz_smaller(double a, double b) { return a < b ? a : b; }

/* What heads, tails and work were derived from, last. */
struct pz_derived {
  uint32_t n_eliminated;
  int n_dual_updates;
  bool head_tail, valid;
};

struct pz_context {
  const struct pz_problem *p;
  struct pz_arena *arena;
  uint32_t *mode_at; /* by task: its first mode in arrays by mode */
  uint32_t n_modes;
  bool *eliminated; /* by mode: not part of a schedule better than the best */
  double *least_s;  /* by task: its fastest mode */
  double *head_s;   /* earliest start */
  double *tail_s;   /* least time from its end to the end of all */
  bool head_tail;   /* heads and tails by work too, not by precedence alone */
  struct pz_derived derived;
  double (*work)[PZ_MIXES]; /* by task: least share of the chip's time it takes, for each mix of
                               resources */
  double mix[PZ_MIXES][PZ_RESOURCES];
  double *lp_share;      /* by mode: its part in a relaxation's solution, where there was one */
  struct pz_duals duals; /* all are 0 before there are any */
  int n_dual_updates;    /* how often they were changed */
  double scale;          /* a time everything is compared with: the sum of all */
  double time_unit;      /* all times are multiples of this; 0: of nothing */
  int64_t steps, most_steps;
  struct pz_slot *best; /* the incumbent */
  double best_s;        /* its makespan */
  double bound_s;       /* proven lower bound */
};

PZ_NODISCARD enum pz_status pz_context_init(struct pz_context *c, const struct pz_problem *p,
                                            struct pz_arena *arena, struct pz_error *err);

/* Is a better than b by more than rounding (by a grain, where there is one)? */
static inline bool pz_better(const struct pz_context *c, double a, double b) {
  return a < b - (c->time_unit > 0 ? c->time_unit * (1 - 1e-6) : 1e-12 * c->scale);
}

/* Is there still something between the bound and the incumbent? */
static inline bool pz_open(const struct pz_context *c) {
  return pz_better(c, c->bound_s, c->best_s);
}

/* Keep a schedule if it is better than the incumbent. */
void pz_update_incumbent(struct pz_context *c, const struct pz_slot *slots, double makespan);

/* Raise the bound, to the next multiple of the grain. */
void pz_update_bound(struct pz_context *c, double bound_s);

/* A copy that can lose modes and gain prices of its own, in another arena; the incumbent is shared.
 * False: no memory. */
bool pz_context_fork(const struct pz_context *c, struct pz_arena *arena, struct pz_context *out);

#endif
