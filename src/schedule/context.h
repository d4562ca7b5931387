/* What the parts of the solver share: derived numbers of a problem and the best schedule so far. */
#ifndef PZ_SCHEDULE_CONTEXT_H
#define PZ_SCHEDULE_CONTEXT_H

#include "schedule/solve.h"

/* Weights of the resources in a work bound; see bound.c. */
enum { PZ_MIXES = 9 };

struct pz_context {
  const struct pz_problem *p;
  struct pz_arena *arena;
  double *least_s;          /* by task: its fastest mode */
  double *head_s;           /* earliest start by precedence alone */
  double *tail_s;           /* from its end to the end of all, by precedence alone */
  double (*work)[PZ_MIXES]; /* by task: least share of the chip's time it takes, for each mix of
                               resources */
  double mix[PZ_MIXES][PZ_RESOURCES];
  double scale; /* a time everything is compared with: the sum of all */
  int64_t steps, most_steps;
  struct pz_slot *best; /* the incumbent */
  double best_s;        /* its makespan */
  double bound_s;       /* proven lower bound */
};

PZ_NODISCARD enum pz_status pz_context_init(struct pz_context *c, const struct pz_problem *p,
                                            struct pz_arena *arena, struct pz_error *err);

/* Is a better than b by more than rounding? */
bool pz_better(const struct pz_context *c, double a, double b);

/* Keep a schedule if it is better than the incumbent. */
void pz_context_offer(struct pz_context *c, const struct pz_slot *slots, double makespan);

/* bound.c: bound_s from critical paths and work. */
void pz_bound_root(struct pz_context *c);

/* local.c: list scheduling and local search from the incumbent, up to `steps` steps.  PZ_NO_MEMORY
 * is the only error.
 */
PZ_NODISCARD enum pz_status pz_local_search(struct pz_context *c, int64_t steps,
                                            struct pz_error *err);

/* exact.c: branch and bound; proves the incumbent (bound_s = best_s) or stops after `steps` steps.
 * Does nothing for problems of more than PZ_EXACT_MOST_TASKS tasks. */
enum { PZ_EXACT_MOST_TASKS = 256 };
PZ_NODISCARD enum pz_status pz_exact_search(struct pz_context *c, int64_t steps,
                                            struct pz_error *err);

#endif
