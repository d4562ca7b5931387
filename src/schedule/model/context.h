/* The state that all parts of the solver share: data derived from the problem, the incumbent, and the proven lower
 * bound. */
#ifndef PZ_SCHEDULE_MODEL_CONTEXT_H
#define PZ_SCHEDULE_MODEL_CONTEXT_H

#include "core/num.h"
#include "schedule/model/problem.h"
#include "schedule/options.h"

/* Surrogate resources ("mixes") are weighted sums of resources, each of which gives an energy bound (root_bound.c).
 * Measures of energy are the mixes and the dual values.  Their number is a multiple of four, so that the compiler
 * vectorises loops over them. */
enum { PZ_MIXES = 15, PZ_MEASURES = 16 };
_Static_assert((int)PZ_MIXES < (int)PZ_MEASURES && PZ_MEASURES % 4 == 0,
               "every measure has a place");

/* Weights of tensor cores, vector cores, link, HBM, GLB and power in a surrogate resource; each row sums
 * to 1. */
extern const double pz_mixes[PZ_MIXES][PZ_RESOURCES];

/* Dual values (column_generation.c): the rates of no feasible subset sum to more than 1.  Therefore the rest of a schedule
 * takes at least the sum, over its tasks, of rate times duration.  Tasks that are not started yet count with their least
 * value. */
struct pz_duals {
  double *rate;  /* by mode */
  double *least; /* by task: least of rate times duration */
  double sum;    /* of `least`: a lower bound of the makespan */
};

struct pz_context {
  const struct pz_problem *p;
  struct pz_arena *arena;
  const struct pz_techniques *o;
  struct pz_technique_count *count; /* by technique */
  uint32_t *mode_at;                /* by task: its first mode in arrays by mode */
  uint32_t n_modes;
  bool *eliminated; /* by mode: no schedule that is better than the incumbent has it */
  double *least_s;  /* by task: its fastest mode */
  double *head_s;   /* earliest start */
  double *tail_s;   /* least time from its end to the end of all */
  bool head_tail;   /* heads and tails are tightened by energy, not only by paths */
  bool derived;     /* heads, tails and work are up to date with eliminated modes and dual values */
  double (*work)[PZ_MIXES]; /* by task: least energy, by surrogate resource */
  double *lp_share;      /* by mode: its share in the last solution of the linear program, or 0 */
  struct pz_duals duals; /* all 0 before column generation */
  double scale;          /* the sum of all least durations, to which rounding errors are compared */
  double time_unit;      /* all times are integer multiples of this; 0: there is no such unit */
  int64_t steps, most_steps;
  struct pz_slot *best; /* the incumbent */
  double best_s;        /* its makespan */
  double bound_s;       /* proven lower bound */
};

/* With all techniques. */
PZ_NODISCARD enum pz_status pz_context_init(struct pz_context *c, const struct pz_problem *p,
                                            struct pz_arena *arena, struct pz_error *err);

/* Whether a is better than b by more than rounding errors, or by a time unit if there is one. */
static inline bool pz_better(const struct pz_context *c, double a, double b) {
  return a < b - (c->time_unit > 0 ? c->time_unit * (1 - 1e-6) : 1e-12 * c->scale);
}

/* A mode's use of a surrogate resource as a fraction of its capacity; multiplied by its duration, it is its energy. */
static inline double pz_mode_share(const struct pz_context *c, const struct pz_mode *m, int mix) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) sum += pz_mixes[mix][r] * (double)m->use[r] / (double)c->p->capacity[r];
  return sum;
}

/* Whether there is a gap between the bound and the incumbent. */
static inline bool pz_open(const struct pz_context *c) {
  return pz_better(c, c->bound_s, c->best_s);
}

/* Whether the schedule has eliminated modes, so that bounds do not hold for it. */
static inline bool pz_has_eliminated(const struct pz_context *c, const struct pz_slot *slots) {
  for (uint32_t i = 0; i < c->p->n; i++)
    if (c->eliminated[c->mode_at[i] + slots[i].mode]) return true;
  return false;
}

static inline bool pz_any_eliminated(const struct pz_context *c) {
  for (uint32_t m = 0; m < c->n_modes; m++)
    if (c->eliminated[m]) return true;
  return false;
}

/* Makes the schedule the incumbent if it is better. */
void pz_update_incumbent(struct pz_context *c, const struct pz_slot *slots, double makespan,
                         enum pz_technique by);

/* Raises the bound, rounded up to a multiple of the time unit.  With eliminated modes, the bound may hold only for
 * schedules that are better than the incumbent, and is limited to the incumbent's makespan. */
void pz_update_bound(struct pz_context *c, double bound_s, enum pz_technique by);

#endif
