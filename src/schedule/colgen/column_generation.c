/* Column generation: a lower bound from a linear program over feasible subsets, and dual values (Mingozzi et al.
 * 1998; column generation and modes: Brucker and Knust 2000, 2003).
 *
 * A feasible subset is a set of tasks in modes that can run concurrently (pricing.h).  At every moment of a schedule one
 * such subset runs, so the makespan is at least
 *     min  total time of the subsets,   such that for each task the times of the subsets with it,
 *          each divided by its duration in the mode it has there, sum to at least 1,
 * a linear program with very many columns.  Its dual gives each task a value and each of its modes the rate value /
 * duration, such that no subset has rates that sum to more than 1.  The sum of the dual values is the bound; it also
 * holds for the rest of a partial schedule.
 *
 * Columns are generated: solve with the subsets at hand (the restricted master problem), search for the subset of
 * largest value (the pricing problem), until none exceeds 1.  Dual values of an unfinished run are divided by the
 * value of that subset, which makes them feasible (Farley 1990): no proof depends on the accuracy of the linear
 * program. */
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
  WORK_PER_STEP = 600, /* work of the simplex that counts as one step */
  MODES_PER_STEP = 4,  /* modes whose values are read in one step */
  NODES_PER_STEP = 4,  /* nodes of the pricing problem in one step */
  FEW_NODES = 20,      /* tuned: limit for each first choice, while that finds columns */
  MOST_NODES = 20000   /* tuned: limit otherwise */
};

/* Cost of a column whose subset has an eliminated mode, so that solutions avoid it; others cost 1. */
static const double BANNED_COST = 1e3;

_Static_assert((int)PZ_COLGEN_MOST_TASKS <= (int)PZ_SUBSET_MOST_TASKS, "subsets hold every task");

struct pz_colgen {
  struct pz_context *context;
  const struct pz_problem *problem;
  struct pz_simplex lp;
  struct pz_pricing pricing;
  double *duration;  /* by mode, in time units of the model, or 0 if the mode is not in the model */
  uint32_t *task_of; /* by mode */
  uint32_t *row;     /* by task; PZ_NONE if the task takes no time */
  double *shortest;  /* by task: its least duration, by which its row is multiplied */
  struct pz_vec columns; /* uint32_t: for each column the number of its modes, then the modes */
  struct pz_vec time;    /* double, by column: its value in the solution */
  int64_t last_step;     /* step at which the current run ends */
};

/* ---- columns --------------------------------------------------------------------------------- */

/* Adds a column for the subset of these modes. */
static void add_column(struct pz_colgen *colgen, const uint32_t *modes, uint32_t n) {
  static const double no_time = 0;
  struct pz_call *call = colgen->context->call;
  pz_simplex_add_column(&colgen->lp, 1);
  pz_append(call, &colgen->columns, &n);
  pz_append(call, &colgen->time, &no_time);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t task = colgen->task_of[modes[k]];
    pz_append(call, &colgen->columns, &modes[k]);
    pz_simplex_set_entry(&colgen->lp, colgen->row[task],
                         colgen->shortest[task] / colgen->duration[modes[k]]);
  }
}

/* Adds a column for the tasks of the subset that are in the model. */
static void add_subset(struct pz_colgen *colgen, const struct pz_subset *subset) {
  uint32_t modes[PZ_COLGEN_MOST_TASKS], n = 0;
  for (uint32_t k = 0; k < subset->n; k++) {
    uint32_t task = subset->task[k];
    uint32_t mode = colgen->context->first_mode[task] + subset->mode[k];
    if (colgen->duration[mode] > 0 && colgen->row[task] != PZ_NONE) modes[n++] = mode;
  }
  if (n) add_column(colgen, modes, n);
}

/* Finds the best subset for each first choice, and adds a column for each with a value above 1.
 * Returns whether any column was added. */
static bool add_improving_subsets(struct pz_colgen *colgen, int64_t most_nodes) {
  struct pz_pricing *pricing = &colgen->pricing;
  struct pz_context *context = colgen->context;
  bool any = false;
  pz_pricing_reset(pricing);
  for (uint32_t k = 0; k < pricing->n_choices; k++) {
    int64_t left = (colgen->last_step - context->steps) * NODES_PER_STEP;
    pricing->most_nodes = pz_max(1, pz_min(left, most_nodes));
    pz_pricing_solve(pricing, k);
    context->steps += pricing->nodes / NODES_PER_STEP;
    if (pricing->best.n == 0 || pricing->best.value <= 1 + 1e-9) continue;
    add_subset(colgen, &pricing->best);
    any = true;
  }
  return any;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Builds the linear program: a row for each task that takes time, a column for each mode alone, and a
 * column for each subset that the incumbent runs concurrently at the start of a task.  Durations
 * are in units of about the average task (`unit`), and each row is multiplied by the task's least one. */
static void build_model(struct pz_colgen *colgen) {
  struct pz_context *context = colgen->context;
  const struct pz_problem *problem = colgen->problem;
  const struct pz_slot *slots = context->incumbent;
  double unit = context->scale / (problem->n + 1);
  for (uint32_t i = 0; i < problem->n; i++) {
    double least = DBL_MAX;
    for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++) {
      uint32_t mode = context->first_mode[i] + m;
      colgen->task_of[mode] = i;
      if (context->eliminated[mode]) continue;
      colgen->duration[mode] = problem->tasks[i].modes[m].duration / unit;
      least = fmin(least, colgen->duration[mode]);
    }
    bool takes_time = least > 0 && least < DBL_MAX;
    colgen->shortest[i] = least;
    colgen->row[i] = takes_time ? pz_simplex_add_row(&colgen->lp, least) : PZ_NONE;
  }
  for (uint32_t mode = 0; mode < context->n_modes; mode++)
    if (colgen->duration[mode] > 0 && colgen->row[colgen->task_of[mode]] != PZ_NONE)
      add_column(colgen, &mode, 1);
  for (uint32_t i = 0; i < problem->n; i++) { /* the tasks that run when task i starts */
    struct pz_subset *subset = &colgen->pricing.current;
    subset->n = 0;
    for (uint32_t k = 0; k < problem->n; k++)
      if (slots[k].start <= slots[i].start && slots[k].end > slots[i].start) {
        subset->task[subset->n] = k;
        subset->mode[subset->n++] = slots[k].mode;
      }
    if (subset->n > 1) add_subset(colgen, subset);
  }
}

/* Returns the linear program with its first columns, or NULL if the technique does not apply. */
struct pz_colgen *pz_colgen_new(struct pz_context *context) {
  struct pz_call *call = context->call;
  uint32_t n = context->problem->n;
  if (!context->techniques->column_generation) return NULL;
  if (n == 0 || n > PZ_COLGEN_MOST_TASKS || !(context->scale > 0)) return NULL;
  struct pz_colgen *colgen = pz_alloc(call, 1, sizeof *colgen);
  colgen->context = context;
  colgen->problem = context->problem;
  pz_vec_init(&colgen->columns, call->arena, sizeof(uint32_t));
  pz_vec_init(&colgen->time, call->arena, sizeof(double));
  colgen->duration = pz_alloc(call, context->n_modes, sizeof *colgen->duration);
  colgen->task_of = pz_alloc(call, context->n_modes, sizeof *colgen->task_of);
  colgen->row = pz_alloc(call, n, sizeof *colgen->row);
  colgen->shortest = pz_alloc(call, n, sizeof *colgen->shortest);
  pz_pricing_init(call, &colgen->pricing, context);
  pz_simplex_init(&colgen->lp, call, n);
  build_model(colgen);
  return colgen;
}

/* ---- dual values ----------------------------------------------------------------------------- */

/* Sets the share of each mode in the solution: the time of the subsets with it / its duration. */
static void set_shares(struct pz_colgen *colgen) {
  const uint32_t *columns = colgen->columns.items;
  double *time = colgen->time.items, *share = colgen->context->lp_share;
  memset(time, 0, colgen->time.n * sizeof *time);
  memset(share, 0, colgen->context->n_modes * sizeof *share);
  pz_simplex_get_values(&colgen->lp, time);
  for (uint32_t at = 0, col = 0; at < colgen->columns.n; at += columns[at] + 1, col++)
    for (uint32_t k = 1; k <= columns[at]; k++) {
      uint32_t mode = columns[at + k];
      share[mode] += time[col] / colgen->duration[mode];
    }
}

/* Solves the linear program and adds subsets in rounds, until no subset improves it or its bound
 * reaches the incumbent.  The dual values of the best bound, made feasible, are stored in the
 * context. */
static void generate_columns(struct pz_colgen *colgen) {
  struct pz_context *context = colgen->context;
  struct pz_pricing *pricing = &colgen->pricing;
  double best_bound = context->duals.sum;
  for (int64_t round = 0; round < MOST_ROUNDS; round++) {
    const struct pz_simplex *lp = &colgen->lp;
    int64_t work_before = lp->work;
    bool solved = pz_simplex_solve(&colgen->lp);
    context->steps += context->n_modes / MODES_PER_STEP + (lp->work - work_before) / WORK_PER_STEP;
    if (!solved) break;
    set_shares(colgen);
    /* the rates of all modes follow from the dual values of the rows */
    for (uint32_t mode = 0; mode < context->n_modes; mode++) {
      uint32_t task = colgen->task_of[mode], row = colgen->row[task];
      double duration = colgen->duration[mode];
      bool in_model = duration > 0 && !context->eliminated[mode] && row != PZ_NONE;
      pricing->rate[mode] =
          in_model ? fmax(0, lp->dual[row]) * colgen->shortest[task] / duration : 0;
    }
    pz_pricing_begin(pricing);
    bool added = /* a thorough search only if the quick one finds nothing */
        add_improving_subsets(colgen, FEW_NODES) || add_improving_subsets(colgen, MOST_NODES);
    double largest_value = fmax(1, pricing->upper_bound);
    double bound = pz_duals_sum(context, pricing->rate, NULL) / largest_value;
    if (bound > best_bound) {
      best_bound = bound;
      for (uint32_t k = 0; k < context->n_modes; k++)
        context->duals.rate[k] = pricing->rate[k] / largest_value;
      context->derived = false;
    }
    if (!added || !pz_better(context, bound, context->incumbent_s)) break;
    if (context->steps >= colgen->last_step) break;
  }
}

/* Generates columns in about this number of steps and tightens the bounds.  Columns with eliminated
 * modes get a high cost first. */
void pz_colgen_run(struct pz_colgen *colgen, int64_t steps) {
  struct pz_context *context = colgen->context;
  struct pz_pricing *pricing = &colgen->pricing;
  struct pz_technique_count *count = context->count;
  const uint32_t *columns = colgen->columns.items;
  int64_t steps_before = context->steps;
  colgen->last_step = context->steps + steps;
  pricing->n_cut = pricing->n_dominated = 0;
  for (uint32_t at = 0, col = 0; at < colgen->columns.n; at += columns[at] + 1, col++) {
    bool banned = false;
    for (uint32_t k = 1; k <= columns[at]; k++)
      banned = banned || context->eliminated[columns[at + k]];
    pz_simplex_set_cost(&colgen->lp, col, banned ? BANNED_COST : 1);
  }
  generate_columns(colgen);
  count[PZ_T_column_generation].calls++;
  count[PZ_T_column_generation].steps += context->steps - steps_before;
  count[PZ_T_pricing_multipliers].calls += context->techniques->pricing_multipliers;
  count[PZ_T_pricing_multipliers].prunes += pricing->n_cut;
  count[PZ_T_pricing_dominance].calls += context->techniques->pricing_dominance;
  count[PZ_T_pricing_dominance].prunes += pricing->n_dominated;
  pz_bound_tighten(context);
}

/* ---- incumbents ------------------------------------------------------------------------------ */

/* Makes this number of schedules with modes that are drawn by their shares in the linear program.  The
 * random numbers of a task are multiples of the golden ratio modulo 1, which are spread evenly. */
void pz_colgen_round(const struct pz_colgen *colgen, int64_t draws) {
  static const double GOLDEN_RATIO = 0.6180339887498949;
  struct pz_context *context = colgen->context;
  uint32_t n = colgen->problem->n;
  int64_t steps_before = context->steps;
  if (!context->techniques->lp_rounding) return;
  struct pz_call scratch = pz_scratch(context->call);
  uint32_t *mode = pz_alloc(&scratch, n, sizeof *mode);
  double *priority = pz_alloc(&scratch, n, sizeof *priority);
  for (uint32_t i = 0; i < n; i++) priority[i] = context->tail_s[i] + context->least_s[i];
  for (int64_t draw = 1; draw <= draws && pz_open(context); draw++) {
    for (uint32_t i = 0; i < n; i++) {
      double left = fmod((double)draw * GOLDEN_RATIO * (i + 1), 1); /* the random number */
      for (uint32_t m = 0; m < colgen->problem->tasks[i].n_modes; m++) {
        double share = context->lp_share[context->first_mode[i] + m];
        if (share < 1e-9) continue;
        mode[i] = m;
        left -= share;
        if (left < 0) break;
      }
    }
    pz_serial_schedule(context, mode, priority);
  }
  context->count[PZ_T_lp_rounding].calls++;
  context->count[PZ_T_lp_rounding].steps += context->steps - steps_before;
  pz_scratch_end(&scratch);
}
