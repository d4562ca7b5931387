/* Shared state of the solver's parts: derived data of a problem, the incumbent, and the proven
 * lower bound. */
#ifndef PZ_SCHEDULE_CONTEXT_H
#define PZ_SCHEDULE_CONTEXT_H

#include "schedule/solve.h"

/* Weights of the resources in a work bound; see bound.c.  Measures of work are mixes and prices, a
 * multiple of four with room for all: the processor adds them up in parts. */
enum { PZ_MIXES = 14, PZ_MEASURES = 16 };
_Static_assert((int)PZ_MIXES < (int)PZ_MEASURES && PZ_MEASURES % 4 == 0, "room for every measure");

/* Prices of time (price.c): while a task runs in a mode the bound may advance by its rate at most,
 * whatever else runs.  So what is left takes at least the sum, over tasks, of rate times duration;
 * tasks not yet begun in their cheapest mode. */
struct pz_prices {
  double *rate;  /* by mode */
  double *least; /* by task: least of rate times duration */
  double sum;    /* of least: a bound for the whole */
};

/* Of numbers: without a call, as fmax and fmin are where NaN counts. */
static inline double pz_larger(double a, double b) { return a > b ? a : b; }
static inline double pz_smaller(double a, double b) { return a < b ? a : b; }

struct pz_pricer;

/* What heads, tails and work were derived from, last. */
struct pz_derived {
  uint32_t n_dropped;
  int n_priced;
  bool windows, valid;
};

struct pz_context {
  const struct pz_problem *p;
  struct pz_arena *arena;
  uint32_t *mode_at; /* by task: its first mode in arrays by mode */
  uint32_t n_modes;
  bool *dropped;   /* by mode: not part of a schedule better than the best */
  double *least_s; /* by task: its fastest mode */
  double *head_s;  /* earliest start */
  double *tail_s;  /* least time from its end to the end of all */
  bool windows;    /* heads and tails by work too, not by precedence alone */
  struct pz_derived derived;
  double (*work)[PZ_MIXES]; /* by task: least share of the chip's time it takes, for each mix of
                               resources */
  double mix[PZ_MIXES][PZ_RESOURCES];
  double *part;            /* by mode: its part in a relaxation's solution, where there was one */
  struct pz_prices prices; /* all are 0 before there are any */
  int n_priced;            /* how often they were changed */
  double scale;            /* a time everything is compared with: the sum of all */
  double grain;            /* all times are multiples of this; 0: of nothing */
  int64_t steps, most_steps;
  struct pz_slot *best; /* the incumbent */
  double best_s;        /* its makespan */
  double bound_s;       /* proven lower bound */
};

PZ_NODISCARD enum pz_status pz_context_init(struct pz_context *c, const struct pz_problem *p,
                                            struct pz_arena *arena, struct pz_error *err);

/* Is a better than b by more than rounding (by a grain, where there is one)? */
static inline bool pz_better(const struct pz_context *c, double a, double b) {
  return a < b - (c->grain > 0 ? c->grain * (1 - 1e-6) : 1e-12 * c->scale);
}

/* Is there still something between the bound and the incumbent? */
static inline bool pz_open(const struct pz_context *c) {
  return pz_better(c, c->bound_s, c->best_s);
}

/* Keep a schedule if it is better than the incumbent. */
void pz_context_offer(struct pz_context *c, const struct pz_slot *slots, double makespan);

/* Raise the bound, to the next multiple of the grain. */
void pz_context_raise(struct pz_context *c, double bound_s);

/* bound.c: bound_s from critical paths and work; modes that no better schedule has are dropped. */
void pz_bound_tighten(struct pz_context *c);
/* Tails as they are without some tasks (NULL: with all), until the next time. */
void pz_bound_tails(struct pz_context *c, const bool *without);

/* window.c: raises heads and tails by work, and returns a bound for the whole; 0: more than so many
 * tasks, or no memory. */
enum { PZ_WINDOW_MOST_TASKS = 128 };
double pz_window_raise(struct pz_context *c);
/* The longest paths from the end of i to the beginning of j, at i * n + j; 0 where i is not before
 * j. */
struct pz_bits;
void pz_window_paths(const struct pz_context *c, const struct pz_bits *before, double *path);
/* Tails alone, without some tasks that no other waits for. */
void pz_window_tails(struct pz_context *c, const bool *without);

/* halves.c: raises the bound by what two cores of a kind can share, where times are integers. */
void pz_halves_raise(struct pz_context *c);

/* A copy that can lose modes and gain prices of its own, in another arena; the incumbent is shared.
 * False: no memory. */
bool pz_context_fork(const struct pz_context *c, struct pz_arena *arena, struct pz_context *out);

/* branch.c: branch and bound over modes, with prices and exact search at its nodes; without a
 * pricer exact search alone. */
PZ_NODISCARD enum pz_status pz_branch(struct pz_context *c, struct pz_pricer *pricer, int64_t steps,
                                      struct pz_error *err);

/* greedy.c: one pass of list scheduling in order of time with these modes, for any size. */
PZ_NODISCARD enum pz_status pz_greedy(struct pz_context *c, const uint32_t *mode,
                                      struct pz_error *err);

/* local.c: list scheduling and local search from the incumbent, up to `steps` steps.  PZ_NO_MEMORY
 * is the only error. */
enum { PZ_LOCAL_MOST_TASKS = 512 };
PZ_NODISCARD enum pz_status pz_local_search(struct pz_context *c, int64_t steps,
                                            struct pz_error *err);
/* One schedule: these modes, tasks by falling priority.  Returns its makespan. */
double pz_local_try(struct pz_context *c, const uint32_t *mode, const double *priority);

/* Everything in the incumbent as early as what starts before it allows. */
void pz_local_settle(struct pz_context *c);

/* A search that proves the incumbent (bound_s = best_s), or stops after `steps` steps.  Late tasks,
 * where there are, are fitted into the schedules of the others, and the bound is that of the
 * others. */
enum { PZ_EXACT_MOST_TASKS = 256 };
struct pz_late;
typedef enum pz_status pz_searcher(struct pz_context *c, int64_t steps, struct pz_late *late,
                                   struct pz_error *err);

/* exact.c: depth first; frontier.c: best first. */
PZ_NODISCARD pz_searcher pz_exact_search, pz_frontier_search;

/* late.c: a search first without short tasks that nothing waits for, as long as those that do not
 * fit are few, then with all.  Does nothing for more than PZ_EXACT_MOST_TASKS tasks. */
PZ_NODISCARD enum pz_status pz_late_search(struct pz_context *c, pz_searcher *search, int64_t steps,
                                           struct pz_error *err);

#endif
