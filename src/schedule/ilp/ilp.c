/* Builds and solves the integer program (ilp.h).
 *
 * build_model() adds columns and rows to an empty model.  solve_rounds() lets CBC solve it, makes an exact schedule of the
 * solution (adopt_solution), and adds handovers for the resources that this overfills, until the schedule is as short as
 * the solution. */
#include "schedule/ilp/ilp.h"

#include <float.h>
#include <math.h>

#include "core/progress.h"
#include "lp/lp.h"
#include "schedule/bound/root_bound.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/model/bits.h"
#include "schedule/model/context.h"
#include "schedule/model/schedule.h"

/* Rows of the model above which transitivity is left out.  It is implied by the times, and then costs more than it helps. */
enum { MAX_ROWS_WITH_TRANSITIVE = 20000 };
static const double DEFAULT_SECONDS = 60;

struct ilp {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_call memory; /* of the model */
  struct pz_lp lp;
  double unit;                  /* of time in the model */
  struct pz_bits *before;       /* by task: all its predecessors, direct and indirect */
  uint32_t *ordered;            /* [i * n + j]: column of y_ij, or PZ_NONE */
  uint32_t *mode;               /* by mode: column of x */
  uint32_t start, end;          /* column of the first start, and of C */
  bool handovers[PZ_RESOURCES]; /* resources whose handovers are modelled */
};

static size_t pair(const struct ilp *x, uint32_t i, uint32_t j) { return (size_t)i * x->p->n + j; }

static bool precedes(const struct ilp *x, uint32_t i, uint32_t j) {
  return pz_bits_has(&x->before[j], i);
}

static bool is_unordered(const struct ilp *x, uint32_t i, uint32_t j) {
  return i != j && !precedes(x, i, j) && !precedes(x, j, i);
}

/* ---- columns --------------------------------------------------------------------------------- */

static void add_columns(struct ilp *x) {
  static const struct pz_lp_col choice = {.upper = 1, .integer = true};
  struct pz_lp *lp = &x->lp;
  uint32_t n = x->p->n;
  x->end = pz_lp_col(lp, (struct pz_lp_col){.upper = DBL_MAX, .cost = 1}, "C");
  x->start = lp->cols.n;
  for (uint32_t i = 0; i < n; i++)
    pz_lp_col(lp, (struct pz_lp_col){x->c->head_s[i] / x->unit, DBL_MAX, 0, false, ""}, "s%u", i);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      x->mode[x->c->mode_at[i] + m] = pz_lp_col(lp, choice, "x%u_%u", i, m);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++)
      x->ordered[pair(x, i, j)] =
          is_unordered(x, i, j) ? pz_lp_col(lp, choice, "y%u_%u", i, j) : PZ_NONE;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds the duration of task i, times a factor, to a row. */
static void add_duration_terms(struct ilp *x, uint32_t row, uint32_t i, double factor) {
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
    pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[i] + m],
              factor * x->p->tasks[i].modes[m].s / x->unit);
}

static void add_mode_and_end_rows(struct ilp *x) {
  struct pz_lp *lp = &x->lp;
  for (uint32_t i = 0; i < x->p->n; i++) {
    const struct pz_task *t = &x->p->tasks[i];
    uint32_t one = pz_lp_row(lp, PZ_LP_EQUAL, 1, "mode_%u", i);
    for (uint32_t m = 0; m < t->n_modes; m++) pz_lp_put(lp, one, x->mode[x->c->mode_at[i] + m], 1);
    for (uint32_t k = 0; k < t->n_succ || k == 0;
         k++) { /* before each successor, or the end of all */
      uint32_t row = t->n_succ ? pz_lp_row(lp, PZ_LP_AT_LEAST, 0, "before_%u_%u", i, t->succ[k])
                               : pz_lp_row(lp, PZ_LP_AT_LEAST, 0, "end_%u", i);
      pz_lp_put(lp, row, t->n_succ ? x->start + t->succ[k] : x->end, 1);
      pz_lp_put(lp, row, x->start + i, -1);
      add_duration_terms(x, row, i, -1);
    }
  }
}

static void add_order_row(struct ilp *x, uint32_t i, uint32_t j) {
  struct pz_lp *lp = &x->lp;
  double big = (x->c->best_s - x->c->tail_s[i] - x->c->head_s[j]) / x->unit;
  uint32_t row = pz_lp_row(lp, PZ_LP_AT_LEAST, -big, "order_%u_%u", i, j);
  pz_lp_put(lp, row, x->start + j, 1);
  pz_lp_put(lp, row, x->start + i, -1);
  add_duration_terms(x, row, i, -1);
  pz_lp_put(lp, row, x->ordered[pair(x, i, j)], -big);
}

static bool fit_together(const struct ilp *x, const struct pz_mode *a, const struct pz_mode *b) {
  int32_t residual[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) residual[r] = x->p->capacity[r] - b->use[r];
  return pz_mode_fits(residual, a);
}

/* Lets i in mode m and j in the modes that do not fit beside it run one after the other. */
static void add_conflict_row(struct ilp *x, uint32_t i, uint32_t j, uint32_t m) {
  const struct pz_task *a = &x->p->tasks[i], *b = &x->p->tasks[j];
  uint32_t n = 0;
  for (uint32_t k = 0; k < b->n_modes; k++) n += !fit_together(x, &a->modes[m], &b->modes[k]);
  if (!n) return;
  uint32_t row =
      pz_lp_row(&x->lp, PZ_LP_AT_LEAST, n == b->n_modes ? 0 : -1, "apart_%u_%u_%u", i, m, j);
  pz_lp_put(&x->lp, row, x->ordered[pair(x, i, j)], 1);
  pz_lp_put(&x->lp, row, x->ordered[pair(x, j, i)], 1);
  pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[i] + m], -1);
  for (uint32_t k = 0; k < b->n_modes && n < b->n_modes; k++)
    if (!fit_together(x, &a->modes[m], &b->modes[k]))
      pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[j] + k], -1);
}

static void add_pair_rows(struct ilp *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t j = i + 1; j < x->p->n; j++) {
      if (!is_unordered(x, i, j)) continue;
      uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_MOST, 1, "once_%u_%u", i, j);
      pz_lp_put(&x->lp, row, x->ordered[pair(x, i, j)], 1);
      pz_lp_put(&x->lp, row, x->ordered[pair(x, j, i)], 1);
      add_order_row(x, i, j);
      add_order_row(x, j, i);
      for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) add_conflict_row(x, i, j, m);
      for (uint32_t m = 0; m < x->p->tasks[j].n_modes; m++) add_conflict_row(x, j, i, m);
    }
}

/* Adds y_ij + y_jk - 1 <= y_ik.  Precedence makes some of these constants. */
static void add_transitive_row(struct ilp *x, uint32_t i, uint32_t j, uint32_t k) {
  const uint32_t from[] = {i, j, i}, to[] = {j, k, k};
  static const double sign[] = {1, 1, -1};
  double most = 1;
  for (int e = 0; e < 3; e++) {
    if (x->ordered[pair(x, from[e], to[e])] != PZ_NONE) continue;
    bool before = precedes(x, from[e], to[e]);
    if (e < 2 && !before) return; /* it is 0, and the row holds */
    most -= sign[e] * before;
  }
  if (most > 1.5 || x->lp.rows.n > MAX_ROWS_WITH_TRANSITIVE) return;
  uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_MOST, most, "chain_%u_%u_%u", i, j, k);
  for (int e = 0; e < 3; e++) {
    uint32_t order = x->ordered[pair(x, from[e], to[e])];
    if (order != PZ_NONE) pz_lp_put(&x->lp, row, order, sign[e]);
  }
}

static void add_transitive_rows(struct ilp *x) {
  uint32_t n = x->p->n;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++)
      for (uint32_t k = 0; k < n; k++)
        if (i != k && (is_unordered(x, i, j) || is_unordered(x, j, k)) && i != j && j != k)
          add_transitive_row(x, i, j, k);
}

static int32_t largest_use(const struct ilp *x, uint32_t i, int r) {
  int32_t most = 0;
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
    if (x->p->tasks[i].modes[m].use[r] > most) most = x->p->tasks[i].modes[m].use[r];
  return most;
}

/* Adds the fraction of the resource that task i uses, times a factor, to a row. */
static void add_use_terms(struct ilp *x, uint32_t row, uint32_t i, int r, bool times_duration,
                          double factor) {
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
    const struct pz_mode *mode = &x->p->tasks[i].modes[m];
    double part = (double)mode->use[r] / fmax(1, x->p->capacity[r]);
    pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[i] + m],
              factor * part * (times_duration ? mode->s / x->unit : 1));
  }
}

static void add_work_row(struct ilp *x, int r) {
  uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_LEAST, 0, "work_%d", r);
  pz_lp_put(&x->lp, row, x->end, 1);
  for (uint32_t i = 0; i < x->p->n; i++) add_use_terms(x, row, i, r, true, -1);
}

/* Adds what j takes over from i, to the rows of what goes out of i and what comes into j. */
static void add_handover(struct ilp *x, int r, uint32_t i, uint32_t j, uint32_t out, uint32_t in) {
  uint32_t order = x->ordered[pair(x, i, j)];
  int32_t a = largest_use(x, i, r), b = largest_use(x, j, r);
  if ((order == PZ_NONE && !precedes(x, i, j)) || !a || !b) return;
  double most = (double)(a < b ? a : b) / x->p->capacity[r];
  uint32_t col = pz_lp_col(&x->lp, (struct pz_lp_col){.upper = most}, "f%d_%u_%u", r, i, j);
  pz_lp_put(&x->lp, out, col, 1);
  pz_lp_put(&x->lp, in, col, 1);
  if (order == PZ_NONE) return;
  uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_MOST, 0, "hand_%d_%u_%u", r, i, j);
  pz_lp_put(&x->lp, row, col, 1);
  pz_lp_put(&x->lp, row, order, -most);
}

/* Adds for each task a row of what comes in and one of what goes out. */
static void add_handover_rows(struct ilp *x, int r) {
  struct pz_lp *lp = &x->lp;
  uint32_t n = x->p->n, first = lp->rows.n;
  for (uint32_t i = 0; i < n; i++) {
    add_use_terms(x, pz_lp_row(lp, PZ_LP_EQUAL, 0, "in_%d_%u", r, i), i, r, false, -1);
    add_use_terms(x, pz_lp_row(lp, PZ_LP_AT_MOST, 0, "out_%d_%u", r, i), i, r, false, -1);
  }
  uint32_t all = pz_lp_row(lp, PZ_LP_AT_MOST, 1, "capacity_%d", r);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t col = pz_lp_col(lp, (struct pz_lp_col){.upper = 1}, "f%d_%u", r, i);
    pz_lp_put(lp, all, col, 1);
    pz_lp_put(lp, first + 2 * i, col, 1);
    for (uint32_t j = 0; j < n; j++)
      if (i != j) add_handover(x, r, i, j, first + 2 * i + 1, first + 2 * j);
  }
}

static void build_model(struct ilp *x) {
  pz_lp_init(&x->lp, x->memory.arena);
  add_columns(x);
  add_mode_and_end_rows(x);
  add_pair_rows(x);
  add_transitive_rows(x);
  for (int r = 0; r < PZ_RESOURCES; r++) add_work_row(x, r);
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (x->handovers[r]) add_handover_rows(x, r);
}

/* Whether three tasks can overfill the resource, although any two of them fit. */
static bool can_overfill_by_three(const struct ilp *x, int r) {
  int64_t sum = 0;
  bool two_fit = false;
  for (uint32_t i = 0; i < x->p->n; i++) {
    sum += largest_use(x, i, r);
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      int64_t use = x->p->tasks[i].modes[m].use[r];
      two_fit = two_fit || (use > 0 && 2 * use <= x->p->capacity[r]);
    }
  }
  return two_fit && sum > x->p->capacity[r];
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Finds a first schedule and bounds of start and end, and allocates the tables.  The model's memory is the call's. */
static struct ilp begin_ilp(struct pz_call *call, struct pz_context *c) {
  uint32_t n = c->p->n;
  struct ilp x = {
      .c = c, .p = c->p, .memory = *call, .unit = c->scale > 0 ? c->scale / (n + 1) : 1};
  if (n > PZ_ILP_MOST_TASKS)
    pz_raise(call, PZ_BAD_INPUT, "%u operators; accepted by the ILP: at most %d", n,
             PZ_ILP_MOST_TASKS);
  pz_bound_tighten(c); /* sets heads and tails; without an incumbent no mode is eliminated */
  pz_local_search(call, c, 0);
  struct pz_bits *after = pz_alloc(call, n, sizeof *after);
  x.before = pz_alloc(call, n, sizeof *x.before);
  x.ordered = pz_alloc(call, (size_t)n * n, sizeof *x.ordered);
  x.mode = pz_alloc(call, c->n_modes, sizeof *x.mode);
  pz_bits_order(c->p, x.before, after);
  return x;
}

/* The incumbent's modes and order as values of the columns. */
static const double *starting_point(struct ilp *x) {
  const struct pz_slot *slots = x->c->best;
  double *value = pz_alloc(&x->memory, x->lp.cols.n, sizeof *value);
  for (uint32_t i = 0; i < x->p->n; i++) {
    value[x->mode[x->c->mode_at[i] + slots[i].mode]] = 1;
    value[x->start + i] = slots[i].start / x->unit;
    for (uint32_t j = 0; j < x->p->n; j++) {
      uint32_t order = x->ordered[pair(x, i, j)];
      if (order == PZ_NONE || slots[i].end > slots[j].start) continue;
      bool both_ways = slots[j].end <= slots[i].start; /* two milestones at one instant */
      value[order] = !(both_ways && j < i);
    }
  }
  value[x->end] = x->c->best_s / x->unit;
  return value;
}

/* Whether i comes before j in the solution. */
static bool comes_before(const struct ilp *x, const double *value, uint32_t i, uint32_t j) {
  uint32_t order = x->ordered[pair(x, i, j)];
  return precedes(x, i, j) || (order != PZ_NONE && value[order] > 0.5);
}

/* Starts every task when the last one that comes before it ends.  Returns false if the order has a cycle. */
static bool set_start_times(const struct ilp *x, const double *value, struct pz_slot *slots) {
  bool changed = true;
  for (uint32_t pass = 0; changed && pass <= x->p->n; pass++) {
    changed = false;
    for (uint32_t j = 0; j < x->p->n; j++) {
      double start = 0;
      for (uint32_t i = 0; i < x->p->n; i++)
        if (i != j && comes_before(x, value, i, j)) start = fmax(start, slots[i].end);
      if (start <= slots[j].start) continue;
      slots[j].start = start;
      slots[j].end = start + x->p->tasks[j].modes[slots[j].mode].s;
      changed = true;
    }
  }
  return !changed;
}

/* Makes a schedule with exact times of the solution's modes and order; it becomes the incumbent if it is better.  Returns
 * its makespan, or DBL_MAX if a resource is overfilled. */
static double adopt_solution(struct ilp *x, const double *value) {
  uint32_t n = x->p->n;
  struct pz_slot *slots = pz_alloc(&x->memory, n, sizeof *slots);
  double makespan = 0;
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      if (value[x->mode[x->c->mode_at[i] + m]] > 0.5) slots[i].mode = m;
    slots[i].end = x->p->tasks[i].modes[slots[i].mode].s;
  }
  if (!set_start_times(x, value, slots)) return DBL_MAX;
  for (uint32_t i = 0; i < n; i++) makespan = fmax(makespan, slots[i].end);
  if (pz_schedule_check(x->p, slots, makespan, NULL) != PZ_OK) return DBL_MAX;
  pz_update_incumbent(x->c, slots, makespan, PZ_T_NONE);
  return makespan;
}

/* The use of a resource when task i starts, by the solution. */
static double used_at_start(const struct ilp *x, const double *value, uint32_t i, int r) {
  double t = value[x->start + i] + 1e-6, sum = 0;
  for (uint32_t j = 0; j < x->p->n; j++) {
    double start = value[x->start + j], duration = 0, use = 0;
    for (uint32_t m = 0; m < x->p->tasks[j].n_modes; m++) {
      double chosen = value[x->mode[x->c->mode_at[j] + m]];
      duration += chosen * x->p->tasks[j].modes[m].s / x->unit;
      use += chosen * x->p->tasks[j].modes[m].use[r];
    }
    if (start <= t && start + duration > t) sum += use;
  }
  return sum;
}

/* Models handovers of the resources that the solution overfills, or of all if none seems overfilled.  Returns false if all
 * have been modelled before. */
static bool model_more_handovers(struct ilp *x, const double *value) {
  bool any = false;
  for (int r = 0; r < PZ_RESOURCES; r++)
    for (uint32_t i = 0; i < x->p->n && !x->handovers[r]; i++)
      if (used_at_start(x, value, i, r) > x->p->capacity[r] + 0.5) any = x->handovers[r] = true;
  for (int r = 0; r < PZ_RESOURCES && !any; r++)
    if (can_overfill_by_three(x, r) && !x->handovers[r]) any = x->handovers[r] = true;
  return any;
}

/* CBC's bound, less its tolerances. */
static double proven_bound_s(const struct ilp *x, const struct pz_lp_result *r) {
  double bound = (r->bound * (1 - 1e-6) - 1e-4) * x->unit;
  return isfinite(bound) ? bound : 0;
}

/* Solves the model, with more handovers in each round, until the schedule is as short as the solution.  Returns why the
 * gap is left open. */
static enum pz_stop solve_rounds(struct pz_call *call, struct ilp *x, double until_s) {
  struct pz_context *c = x->c;
  for (;;) {
    struct pz_lp_result r;
    double left_s = until_s - pz_clock_s();
    if (left_s <= 0) return PZ_STOP_TIME;
    build_model(x);
    pz_lp_solve(&x->lp, left_s, starting_point(x), &r);
    if (r.failed && r.signal)
      pz_raise(call, PZ_NO_MEMORY,
               "CBC ended with signal %d: out of memory for the ILP, or a fault", r.signal);
    if (r.failed) pz_raise(call, PZ_NO_MEMORY, "out of memory for the ILP");
    c->steps++;
    pz_update_bound(c, fmin(proven_bound_s(x, &r), c->best_s), PZ_T_NONE);
    if (!r.found) return PZ_STOP_TIME;
    double makespan = adopt_solution(x, r.x), claimed_s = r.objective * x->unit;
    if (!r.optimal) return PZ_STOP_TIME;
    if (makespan <= claimed_s + 1e-4 * x->unit) { /* no schedule is better than the incumbent */
      pz_update_bound(c, c->best_s, PZ_T_NONE);
      return PZ_STOP_PROVED;
    }
    if (!model_more_handovers(x, r.x)) return PZ_STOP_TIME;
  }
}

struct ilp_search {
  struct pz_context *c;
  double until_s;
  enum pz_stop *stop;
};

static void search_by_ilp(struct pz_call *call, void *ctx) {
  struct ilp_search *search = ctx;
  struct ilp x = begin_ilp(call, search->c);
  search->c->bound_s = 0; /* the model has to find the bound by itself */
  *search->stop = solve_rounds(call, &x, search->until_s);
}

enum pz_status pz_ilp_search(struct pz_context *c, const struct pz_solve_options *options,
                             enum pz_stop *stop, struct pz_error *err) {
  double seconds = options->seconds > 0 ? options->seconds : DEFAULT_SECONDS;
  struct ilp_search search = {c, pz_clock_s() + seconds, stop};
  return pz_border(search_by_ilp, &search, err);
}

/* ---- the file ------------------------------------------------------------------------------- */

struct ilp_file {
  const struct pz_problem *p;
  const char *path;
};

/* Writes the whole model, with notes on what the numbers in the names mean. */
static void write_model(struct pz_call *call, void *ctx) {
  const struct ilp_file *file = ctx;
  const struct pz_problem *p = file->p;
  struct pz_context c;
  pz_must(call, pz_context_init(&c, p, call->arena, pz_call_error(call)));
  struct ilp x = begin_ilp(call, &c);
  x.unit = c.time_unit > 0 ? 1 : 1e-6;
  for (int r = 0; r < PZ_RESOURCES; r++) x.handovers[r] = can_overfill_by_three(&x, r);
  build_model(&x);
  pz_lp_note(&x.lp, x.unit < 1 ? "times in microseconds" : "times as given");
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++) {
      char mode[16];
      pz_lp_note(&x.lp, pz_format(call, "x%u_%u: %.200s, mode %s", i, m, p->tasks[i].name,
                                  pz_mode_name(&p->tasks[i].modes[m], mode)));
    }
  pz_must(call, pz_lp_write(&x.lp, file->path, pz_call_error(call)));
}

enum pz_status pz_ilp_write(const struct pz_problem *p, const char *path, struct pz_error *err) {
  struct ilp_file file = {p, path};
  return pz_border(write_model, &file, err);
}
