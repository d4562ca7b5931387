/* The state that all parts of the exact solver share: data derived from the problem, the
 * incumbent (the best schedule found so far), and the proven lower bound on the makespan. */
#ifndef PZ_SCHEDULE_MODEL_CONTEXT_H
#define PZ_SCHEDULE_MODEL_CONTEXT_H

#include "core/num.h"
#include "schedule/model/problem.h"
#include "schedule/options.h"

/* A surrogate resource ("mix") is a weighted sum of resources.  The energy of a task is its
 * duration times the fraction of a surrogate resource that it uses; the energy of all tasks is a
 * lower bound on the makespan (bound/root_bound.c).  Energy is measured by the mixes and by the dual
 * values.  The number of measures is a multiple of four, so that loops over them are vectorised. */
enum { PZ_MIXES = 15, PZ_MEASURES = 16 };
_Static_assert((int)PZ_MIXES < (int)PZ_MEASURES && PZ_MEASURES % 4 == 0,
               "there is room for the mixes and the dual values");

/* Weights of tensor cores, vector cores, link, HBM, GLB and power in each surrogate resource; a
 * row sums to 1. */
extern const double pz_mixes[PZ_MIXES][PZ_RESOURCES];

/* Dual values of the linear program over feasible subsets (colgen/column_generation.c): the
 * rates of tasks that can run at the same time never sum to more than 1.  Therefore the rest of
 * a schedule is at least as long as the sum, over its tasks, of rate times duration; a task
 * whose mode is not chosen yet counts with its least value. */
struct pz_duals {
  double *rate;  /* by mode */
  double *least; /* by task: the least product of rate and duration over its modes */
  double sum;    /* sum of `least`, which is a lower bound on the makespan */
};

struct pz_context {
  struct pz_call *call; /* owns the context; scratch memory comes from it */
  const struct pz_problem *problem;
  const struct pz_techniques *techniques; /* the techniques that are switched on */
  struct pz_technique_count *count;       /* statistics by technique */
  uint32_t *first_mode;                   /* by task: index of its first mode in arrays by mode */
  uint32_t n_modes;                       /* number of modes of all tasks */
  bool *eliminated;  /* by mode: no schedule that is better than the incumbent uses it */
  double *least_s;   /* by task: duration of its fastest mode */
  double *head_s;    /* by task: lower bound on its start */
  double *tail_s;    /* by task: lower bound on the time from its end to the end of the schedule */
  bool energy_heads; /* heads and tails are tightened by energy, and not only by paths */
  bool derived;      /* heads, tails and energy are up to date with eliminated modes and duals */
  double (*energy)[PZ_MIXES]; /* [task][mix]: least energy of the task's modes */
  double *lp_share;      /* by mode: its share in the last solution of the linear program, or 0 */
  struct pz_duals duals; /* all 0 before column generation */
  double scale;          /* sum of the least durations, to which rounding errors are compared */
  double time_unit; /* all durations are integer multiples of this; 0 if there is no such unit */
  int64_t steps, most_steps; /* effort spent so far, and its limit */
  struct pz_slot *incumbent; /* by task: the best schedule found */
  double incumbent_s;        /* makespan of the incumbent, or DBL_MAX before the first one */
  double lower_bound_s;      /* proven lower bound on the makespan of every schedule */
};

/* Returns a context with all techniques switched on.  It lives as long as the call and keeps a
 * pointer to it. */
struct pz_context *pz_context_new(struct pz_call *call, const struct pz_problem *problem);

/* Returns whether makespan a is smaller than b by more than rounding errors, or by a time unit
 * if there is one. */
static inline bool pz_better(const struct pz_context *context, double a, double b) {
  double unit = context->time_unit;
  return a < b - (unit > 0 ? unit * (1 - 1e-6) : 1e-12 * context->scale);
}

/* Returns the fraction of a surrogate resource that a mode uses: the sum over resources of the fraction
 * of the capacity that it uses, weighted by row `mix` of pz_mixes. */
static inline double pz_mode_share(const struct pz_context *context, const struct pz_mode *mode,
                                   int mix) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (mode->use[r])
      sum += pz_mixes[mix][r] * (double)mode->use[r] / (double)context->problem->capacity[r];
  return sum;
}

/* Returns whether there is a gap between the lower bound and the incumbent. */
static inline bool pz_open(const struct pz_context *context) {
  return pz_better(context, context->lower_bound_s, context->incumbent_s);
}

/* Returns whether the schedule uses an eliminated mode, or if `slots` is NULL, whether any mode
 * is eliminated. */
static inline bool pz_has_eliminated(const struct pz_context *context,
                                     const struct pz_slot *slots) {
  for (uint32_t i = 0; i < context->problem->n; i++)
    for (uint32_t m = 0; m < context->problem->tasks[i].n_modes; m++)
      if (context->eliminated[context->first_mode[i] + m] && (!slots || slots[i].mode == m))
        return true;
  return false;
}

/* Replaces the incumbent if the schedule is better, and credits the technique that found it. */
void pz_update_incumbent(struct pz_context *context, const struct pz_slot *slots, double makespan_s,
                         enum pz_technique found_by);

/* Raises the lower bound to this one, rounded up to a multiple of the time unit, if that is higher.
 * After modes were eliminated, a bound may hold only for schedules better than the incumbent, so it
 * is limited to the incumbent's makespan. */
void pz_update_bound(struct pz_context *context, double bound_s, enum pz_technique found_by);

#endif
