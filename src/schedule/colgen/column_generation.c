/* Column generation: a lower bound from a linear program over feasible subsets, and dual values
 * (Mingozzi et al. 1998; column generation and modes: Brucker and Knust 2000, 2003).
 *
 * A feasible subset is a set of tasks in modes that can run concurrently (pricing.h).  One runs at
 * every moment of a schedule, so the makespan is at least
 *     min  total time of the subsets,   such that for each task the times of the subsets with it,
 *          each divided by its duration in the mode it has there, sum to at least 1,
 * a linear program with very many columns.  Its dual gives each task a value and each of its modes
 * the rate value / duration, such that no subset has rates that sum to more than 1.  The sum of the
 * dual values is the bound; it also holds for the rest of a partial schedule.  Columns are
 * generated: solve with the subsets at hand (the restricted master problem), search for the subset
 * of largest value (the pricing problem), until none exceeds 1.  Dual values of an unfinished run
 * are divided by the value of that subset, which makes them feasible (Farley 1990): no proof
 * depends on the accuracy of the linear program. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/colgen/column_generation.h"

#include "lp/simplex.h"
#include "schedule/bound/root_bound.h"
#include "schedule/colgen/pricing.h"
#include "schedule/heuristic/local_search.h"

enum {
  MOST_ROUNDS = 200,
  WORK_PER_STEP = 600, /* of the simplex */
  MODES_PER_STEP = 4,  /* read */
  NODES_PER_STEP = 4,  /* of the pricing problem */
  FEW_NODES = 20,      /* tuned: for each first choice, while that finds columns */
  MOST_NODES = 20000   /* tuned: otherwise */
};

/* Cost of a subset with an eliminated mode; the others cost 1. */
static const double BANNED_COST = 1e3;

_Static_assert((int)PZ_COLGEN_MOST_TASKS <= (int)PZ_SUBSET_MOST_TASKS, "subsets hold every task");

struct pz_colgen {
  struct pz_context *c; /* of the call */
  const struct pz_problem *p;
  struct pz_arena arena;
  struct pz_simplex lp;
  struct pz_pricing pricing;
  double unit;           /* of time in the model */
  double *s;             /* by mode, in this unit; 0: not in the model */
  uint32_t *task_of;     /* by mode */
  uint32_t *row;         /* by task; PZ_NONE: it can take no time */
  double *shortest;      /* by task: of its modes; its row is multiplied by this */
  struct pz_vec subsets; /* uint32_t: for each column how many modes, and which */
  struct pz_vec time;    /* double: by column, of the solution */
  int64_t until;         /* steps */
  bool failed;           /* out of memory */
};

/* ---- columns --------------------------------------------------------------------------------- */

static void add_column(struct pz_colgen *x, const uint32_t *modes, uint32_t n) {
  static const double no_time = 0;
  if (x->failed) return;
  pz_simplex_col(&x->lp, 1);
  bool ok = pz_vec_push(&x->subsets, &n) && pz_vec_push(&x->time, &no_time);
  for (uint32_t k = 0; k < n && ok; k++) {
    uint32_t i = x->task_of[modes[k]];
    ok = pz_vec_push(&x->subsets, &modes[k]) != NULL;
    pz_simplex_put(&x->lp, x->row[i], x->shortest[i] / x->s[modes[k]]);
  }
  x->failed = !ok || x->lp.failed;
}

static void add_subset(struct pz_colgen *x, const struct pz_subset *p) {
  uint32_t modes[PZ_COLGEN_MOST_TASKS], n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t at = x->c->mode_at[p->task[i]] + p->mode[i];
    if (x->s[at] > 0 && x->row[p->task[i]] != PZ_NONE) modes[n++] = at;
  }
  if (n) add_column(x, modes, n);
}

/* The best subset for each first choice; those of a value above 1 are added to the model.  Were
 * there any? */
static bool add_improving_subsets(struct pz_colgen *x, int64_t nodes) {
  bool any = false;
  pz_pricing_reset(&x->pricing);
  for (uint32_t k = 0; k < x->pricing.n_order; k++) {
    int64_t left = (x->until - x->c->steps) * NODES_PER_STEP;
    x->pricing.most_nodes = left < 1 ? 1 : left < nodes ? left : nodes;
    pz_pricing_solve(&x->pricing, k);
    x->c->steps += x->pricing.nodes / NODES_PER_STEP;
    if (x->pricing.best.n == 0 || x->pricing.best.value <= 1 + 1e-9) continue;
    add_subset(x, &x->pricing.best);
    any = true;
  }
  return any;
}

/* What runs together in the incumbent, at each start. */
static void add_incumbent(struct pz_colgen *x) {
  const struct pz_slot *slots = x->c->best;
  for (uint32_t i = 0; i < x->p->n; i++) {
    struct pz_subset *p = &x->pricing.now;
    p->n = 0;
    for (uint32_t k = 0; k < x->p->n; k++)
      if (slots[k].start <= slots[i].start && slots[k].end > slots[i].start) {
        p->task[p->n] = k;
        p->mode[p->n++] = slots[k].mode;
      }
    if (p->n > 1) add_subset(x, p);
  }
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Durations in the model's unit, and rows of the tasks that take time. */
static void find_times(struct pz_colgen *x) {
  for (uint32_t i = 0; i < x->p->n; i++) {
    double least = DBL_MAX;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t at = x->c->mode_at[i] + m;
      x->task_of[at] = i;
      if (x->c->eliminated[at]) continue;
      x->s[at] = x->p->tasks[i].modes[m].s / x->unit;
      least = fmin(least, x->s[at]);
    }
    bool takes_time = least > 0 && least < DBL_MAX;
    x->shortest[i] = least;
    x->row[i] = takes_time ? pz_simplex_row(&x->lp, least) : PZ_NONE;
  }
}

/* Each mode alone as a subset, and those of the incumbent. */
static void build(struct pz_colgen *x) {
  find_times(x);
  for (uint32_t at = 0; at < x->c->n_modes; at++)
    if (x->s[at] > 0 && x->row[x->task_of[at]] != PZ_NONE) add_column(x, &at, 1);
  add_incumbent(x);
}

static bool allocate(struct pz_colgen *x) {
  uint32_t n = x->p->n, modes = x->c->n_modes;
  pz_vec_init(&x->subsets, &x->arena, sizeof(uint32_t));
  pz_vec_init(&x->time, &x->arena, sizeof(double));
  return PZ_ARRAY(&x->arena, x->s, modes) && PZ_ARRAY(&x->arena, x->task_of, modes) &&
         PZ_ARRAY(&x->arena, x->row, n) && PZ_ARRAY(&x->arena, x->shortest, n) &&
         pz_pricing_init(&x->pricing, x->c, &x->arena) && pz_simplex_init(&x->lp, n, &x->arena);
}

struct pz_colgen *pz_colgen_new(struct pz_context *c) {
  if (!c->o->column_generation || c->p->n == 0 || c->p->n > PZ_COLGEN_MOST_TASKS || !(c->scale > 0))
    return NULL;
  struct pz_colgen *x = pz_arena_alloc(c->arena, 1, sizeof *x);
  if (!x) return NULL;
  *x = (struct pz_colgen){.c = c, .p = c->p, .unit = c->scale / (c->p->n + 1)};
  pz_arena_init(&x->arena, c->arena->mem);
  if (allocate(x)) {
    build(x);
    return x;
  }
  pz_colgen_free(x);
  return NULL;
}

void pz_colgen_free(struct pz_colgen *x) {
  if (x) pz_arena_release(&x->arena);
}

/* ---- dual values ----------------------------------------------------------------------------- */

/* The model has the modes that the context has. */
static void follow(struct pz_colgen *x, struct pz_context *c) {
  const uint32_t *list = x->subsets.items;
  x->c = c;
  for (uint32_t at = 0, col = 0; !x->failed && at < x->subsets.n; at += list[at] + 1, col++) {
    bool off = false;
    for (uint32_t k = 1; k <= list[at]; k++) off = off || c->eliminated[list[at + k]];
    pz_simplex_cost(&x->lp, col, off ? BANNED_COST : 1);
  }
}

static void read_rates(struct pz_colgen *x) {
  for (uint32_t at = 0; at < x->c->n_modes; at++) {
    uint32_t i = x->task_of[at];
    bool in = x->s[at] > 0 && !x->c->eliminated[at] && x->row[i] != PZ_NONE;
    x->pricing.rate[at] = in ? fmax(0, x->lp.dual[x->row[i]]) * x->shortest[i] / x->s[at] : 0;
  }
}

/* The share of each mode in the solution. */
static void read_shares(struct pz_colgen *x) {
  const uint32_t *list = x->subsets.items;
  double *time = x->time.items, *part = x->c->lp_share;
  memset(time, 0, x->time.n * sizeof *time);
  memset(part, 0, x->c->n_modes * sizeof *part);
  pz_simplex_values(&x->lp, time);
  for (uint32_t at = 0, col = 0; at < x->subsets.n; at += list[at] + 1, col++)
    for (uint32_t k = 1; k <= list[at]; k++) part[list[at + k]] += time[col] / x->s[list[at + k]];
}

/* Keep the dual values, made feasible. */
static void keep_duals(struct pz_colgen *x) {
  struct pz_context *c = x->c;
  for (uint32_t k = 0; k < c->n_modes; k++)
    c->duals.rate[k] = x->pricing.rate[k] / fmax(1, x->pricing.most);
  c->derived = false;
}

static bool solve(struct pz_colgen *x) {
  int64_t work = x->lp.work;
  bool ok = !x->failed && pz_simplex_solve(&x->lp);
  x->c->steps += x->c->n_modes / MODES_PER_STEP + (x->lp.work - work) / WORK_PER_STEP;
  return ok;
}

/* Rounds of solving and adding subsets, until the bound is as good as the model's or reaches the
 * incumbent. */
static void generate(struct pz_colgen *x) {
  const struct pz_context *c = x->c;
  double best = c->duals.sum;
  for (int64_t round = 0; round < MOST_ROUNDS && solve(x); round++) {
    read_shares(x);
    read_rates(x);
    pz_pricing_begin(&x->pricing);
    bool more = add_improving_subsets(x, FEW_NODES) || add_improving_subsets(x, MOST_NODES);
    double bound = pz_duals_sum(c, x->pricing.rate, NULL) / fmax(1, x->pricing.most);
    if (bound > best) {
      best = bound;
      keep_duals(x);
    }
    if (!more || !pz_better(c, bound, c->best_s)) break;
    if (c->steps >= x->until) break;
  }
}

void pz_colgen_run(struct pz_colgen *x, struct pz_context *c, int64_t steps) {
  int64_t from = c->steps;
  x->until = c->steps + steps;
  x->pricing.n_cut = x->pricing.n_replaced = 0;
  follow(x, c);
  generate(x);
  c->count[PZ_T_column_generation].calls++;
  c->count[PZ_T_column_generation].steps += c->steps - from;
  c->count[PZ_T_pricing_multipliers].calls += c->o->pricing_multipliers;
  c->count[PZ_T_pricing_multipliers].prunes += x->pricing.n_cut;
  c->count[PZ_T_pricing_dominance].calls += c->o->pricing_dominance;
  c->count[PZ_T_pricing_dominance].prunes += x->pricing.n_replaced;
  pz_bound_tighten(c);
}

/* ---- incumbents ------------------------------------------------------------------------------ */

/* The draws of one task are spread evenly (multiples of the golden ratio). */
void pz_colgen_round(const struct pz_colgen *x, struct pz_context *c, int64_t draws) {
  struct pz_arena arena;
  uint32_t n = x->p->n;
  int64_t from = c->steps;
  if (!c->o->lp_rounding) return;
  pz_arena_init(&arena, c->arena->mem);
  uint32_t *mode = pz_arena_alloc(&arena, n, sizeof *mode);
  double *priority = pz_arena_alloc(&arena, n, sizeof *priority);
  for (uint32_t i = 0; priority && i < n; i++) priority[i] = c->tail_s[i] + c->least_s[i];
  for (int64_t k = 1; mode && priority && k <= draws && pz_open(c); k++) {
    for (uint32_t i = 0; i < n; i++) {
      double at = fmod((double)k * 0.6180339887498949 * (i + 1), 1);
      for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
        double part = c->lp_share[c->mode_at[i] + m];
        if (part < 1e-9) continue;
        mode[i] = m;
        if ((at -= part) < 0) break;
      }
    }
    pz_serial_schedule(c, mode, priority);
  }
  c->count[PZ_T_lp_rounding].calls++;
  c->count[PZ_T_lp_rounding].steps += c->steps - from;
  pz_arena_release(&arena);
}
