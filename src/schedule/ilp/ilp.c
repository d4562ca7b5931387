#include "schedule/ilp/ilp.h"

#include <float.h>
#include <math.h>

#include "core/progress.h"
#include "lp/lp.h"
#include "schedule/bound/root_bound.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/model/checker.h"
#include "schedule/model/context.h"

/* Transitivity is implied by the times; beyond so many rows it costs more than it helps. */
enum { MOST_TRANSITIVE = 20000 };
static const double DEFAULT_SECONDS = 60;

struct ilp {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_arena arena;
  struct pz_lp lp;
  double unit;
  bool *before;      /* [i * n + j]: i precedes j */
  uint32_t *ordered; /* [i * n + j]: column of y_ij, or PZ_NONE */
  uint32_t *mode;    /* by mode: column of x */
  uint32_t start, end;
  bool handed_on[PZ_RESOURCES];
};

static size_t pair(const struct ilp *x, uint32_t i, uint32_t j) { return (size_t)i * x->p->n + j; }

static bool free_pair(const struct ilp *x, uint32_t i, uint32_t j) {
  return i != j && !x->before[pair(x, i, j)] && !x->before[pair(x, j, i)];
}

/* ---- columns --------------------------------------------------------------------------------- */

static void put_columns(struct ilp *x) {
  struct pz_lp *lp = &x->lp;
  uint32_t n = x->p->n;
  x->end = pz_lp_col(lp, 0, DBL_MAX, 1, false);
  pz_lp_name(lp, x->end, "C");
  x->start = lp->cols.n;
  for (uint32_t i = 0; i < n; i++)
    pz_lp_name(lp, pz_lp_col(lp, x->c->head_s[i] / x->unit, DBL_MAX, 0, false), "s%u", i);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t col = x->mode[x->c->mode_at[i] + m] = pz_lp_col(lp, 0, 1, 0, true);
      pz_lp_name(lp, col, "x%u_%u", i, m);
    }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++) {
      x->ordered[pair(x, i, j)] = PZ_NONE;
      if (!free_pair(x, i, j)) continue;
      uint32_t col = x->ordered[pair(x, i, j)] = pz_lp_col(lp, 0, 1, 0, true);
      pz_lp_name(lp, col, "y%u_%u", i, j);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* factor times the duration of task i. */
static void put_duration(struct ilp *x, uint32_t row, uint32_t i, double factor) {
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
    pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[i] + m],
              factor * x->p->tasks[i].modes[m].s / x->unit);
}

static void put_modes_and_ends(struct ilp *x) {
  struct pz_lp *lp = &x->lp;
  for (uint32_t i = 0; i < x->p->n; i++) {
    const struct pz_task *t = &x->p->tasks[i];
    uint32_t one = pz_lp_row(lp, 1, 1);
    pz_lp_row_name(lp, one, "mode_%u", i);
    for (uint32_t m = 0; m < t->n_modes; m++) pz_lp_put(lp, one, x->mode[x->c->mode_at[i] + m], 1);
    for (uint32_t k = 0; k < t->n_succ || k == 0; k++) {
      uint32_t row = pz_lp_row(lp, 0, DBL_MAX); /* to each successor, or to the end of all */
      pz_lp_row_name(lp, row, t->n_succ ? "before_%u_%u" : "end_%u", i, t->n_succ ? t->succ[k] : 0);
      pz_lp_put(lp, row, t->n_succ ? x->start + t->succ[k] : x->end, 1);
      pz_lp_put(lp, row, x->start + i, -1);
      put_duration(x, row, i, -1);
    }
  }
}

static void put_order(struct ilp *x, uint32_t i, uint32_t j) {
  struct pz_lp *lp = &x->lp;
  double big = (x->c->best_s - x->c->tail_s[i] - x->c->head_s[j]) / x->unit;
  uint32_t row = pz_lp_row(lp, -big, DBL_MAX);
  pz_lp_row_name(lp, row, "order_%u_%u", i, j);
  pz_lp_put(lp, row, x->start + j, 1);
  pz_lp_put(lp, row, x->start + i, -1);
  put_duration(x, row, i, -1);
  pz_lp_put(lp, row, x->ordered[pair(x, i, j)], -big);
}

static bool fit_together(const struct ilp *x, const struct pz_mode *a, const struct pz_mode *b) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (a->use[r] > x->p->capacity[r] - b->use[r]) return false;
  return true;
}

/* Mode m of i and the modes of j that do not fit beside it: one after the other. */
static void put_conflict(struct ilp *x, uint32_t i, uint32_t j, uint32_t m) {
  const struct pz_task *a = &x->p->tasks[i], *b = &x->p->tasks[j];
  uint32_t n = 0;
  for (uint32_t k = 0; k < b->n_modes; k++) n += !fit_together(x, &a->modes[m], &b->modes[k]);
  if (!n) return;
  uint32_t row = pz_lp_row(&x->lp, n == b->n_modes ? 0 : -1, DBL_MAX);
  pz_lp_row_name(&x->lp, row, "apart_%u_%u_%u", i, m, j);
  pz_lp_put(&x->lp, row, x->ordered[pair(x, i, j)], 1);
  pz_lp_put(&x->lp, row, x->ordered[pair(x, j, i)], 1);
  pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[i] + m], -1);
  for (uint32_t k = 0; k < b->n_modes && n < b->n_modes; k++)
    if (!fit_together(x, &a->modes[m], &b->modes[k]))
      pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[j] + k], -1);
}

static void put_pairs(struct ilp *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t j = i + 1; j < x->p->n; j++) {
      if (!free_pair(x, i, j)) continue;
      uint32_t row = pz_lp_row(&x->lp, -DBL_MAX, 1);
      pz_lp_row_name(&x->lp, row, "once_%u_%u", i, j);
      pz_lp_put(&x->lp, row, x->ordered[pair(x, i, j)], 1);
      pz_lp_put(&x->lp, row, x->ordered[pair(x, j, i)], 1);
      put_order(x, i, j);
      put_order(x, j, i);
      for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) put_conflict(x, i, j, m);
      for (uint32_t m = 0; m < x->p->tasks[j].n_modes; m++) put_conflict(x, j, i, m);
    }
}

/* y_ij + y_jk - 1 <= y_ik, where precedence makes some of them constants. */
static void put_transitive(struct ilp *x, uint32_t i, uint32_t j, uint32_t k) {
  const size_t at[] = {pair(x, i, j), pair(x, j, k), pair(x, i, k)};
  static const double sign[] = {1, 1, -1};
  double most = 1;
  for (int e = 0; e < 3; e++)
    if (x->ordered[at[e]] == PZ_NONE) most -= sign[e] * x->before[at[e]];
  for (int e = 0; e < 2; e++) /* never ordered so: nothing to say */
    if (x->ordered[at[e]] == PZ_NONE && !x->before[at[e]]) return;
  if (most > 1.5 || x->lp.rows.n > MOST_TRANSITIVE) return;
  uint32_t row = pz_lp_row(&x->lp, -DBL_MAX, most);
  pz_lp_row_name(&x->lp, row, "chain_%u_%u_%u", i, j, k);
  for (int e = 0; e < 3; e++)
    if (x->ordered[at[e]] != PZ_NONE) pz_lp_put(&x->lp, row, x->ordered[at[e]], sign[e]);
}

static void put_transitivity(struct ilp *x) {
  uint32_t n = x->p->n;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++)
      for (uint32_t k = 0; k < n; k++) {
        if (i == j || j == k || i == k) continue;
        if (free_pair(x, i, j) || free_pair(x, j, k)) put_transitive(x, i, j, k);
      }
}

static int32_t most_use(const struct ilp *x, uint32_t i, int r) {
  int32_t most = 0;
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
    if (x->p->tasks[i].modes[m].use[r] > most) most = x->p->tasks[i].modes[m].use[r];
  return most;
}

/* factor times the part of the resource that task i uses. */
static void put_use(struct ilp *x, uint32_t row, uint32_t i, int r, bool times_duration,
                    double factor) {
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
    const struct pz_mode *mode = &x->p->tasks[i].modes[m];
    double part = (double)mode->use[r] / fmax(1, x->p->capacity[r]);
    pz_lp_put(&x->lp, row, x->mode[x->c->mode_at[i] + m],
              factor * part * (times_duration ? mode->s / x->unit : 1));
  }
}

static void put_work(struct ilp *x, int r) {
  uint32_t row = pz_lp_row(&x->lp, 0, DBL_MAX);
  pz_lp_row_name(&x->lp, row, "work_%d", r);
  pz_lp_put(&x->lp, row, x->end, 1);
  for (uint32_t i = 0; i < x->p->n; i++) put_use(x, row, i, r, true, -1);
}

/* What j takes over from i. */
static void put_hand_on(struct ilp *x, int r, uint32_t i, uint32_t j, uint32_t out, uint32_t in) {
  uint32_t order = x->ordered[pair(x, i, j)];
  int32_t a = most_use(x, i, r), b = most_use(x, j, r);
  if ((order == PZ_NONE && !x->before[pair(x, i, j)]) || !a || !b) return;
  double most = (double)(a < b ? a : b) / x->p->capacity[r];
  uint32_t col = pz_lp_col(&x->lp, 0, most, 0, false);
  pz_lp_name(&x->lp, col, "f%d_%u_%u", r, i, j);
  pz_lp_put(&x->lp, out, col, 1);
  pz_lp_put(&x->lp, in, col, 1);
  if (order == PZ_NONE) return;
  uint32_t row = pz_lp_row(&x->lp, -DBL_MAX, 0);
  pz_lp_row_name(&x->lp, row, "hand_%d_%u_%u", r, i, j);
  pz_lp_put(&x->lp, row, col, 1);
  pz_lp_put(&x->lp, row, order, -most);
}

/* For each task a row of what comes in and one of what goes out. */
static void put_flow(struct ilp *x, int r) {
  struct pz_lp *lp = &x->lp;
  uint32_t n = x->p->n, first = lp->rows.n;
  for (uint32_t i = 0; i < n; i++) {
    pz_lp_row_name(lp, pz_lp_row(lp, 0, 0), "in_%d_%u", r, i);
    pz_lp_row_name(lp, pz_lp_row(lp, -DBL_MAX, 0), "out_%d_%u", r, i);
    put_use(x, first + 2 * i, i, r, false, -1);
    put_use(x, first + 2 * i + 1, i, r, false, -1);
  }
  uint32_t all = pz_lp_row(lp, -DBL_MAX, 1);
  pz_lp_row_name(lp, all, "capacity_%d", r);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t col = pz_lp_col(lp, 0, 1, 0, false);
    pz_lp_name(lp, col, "f%d_%u", r, i);
    pz_lp_put(lp, all, col, 1);
    pz_lp_put(lp, first + 2 * i, col, 1);
    for (uint32_t j = 0; j < n; j++)
      if (i != j) put_hand_on(x, r, i, j, first + 2 * i + 1, first + 2 * j);
  }
}

static void build(struct ilp *x) {
  pz_lp_init(&x->lp, &x->arena);
  put_columns(x);
  put_modes_and_ends(x);
  put_pairs(x);
  put_transitivity(x);
  for (int r = 0; r < PZ_RESOURCES; r++) put_work(x, r);
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (x->handed_on[r]) put_flow(x, r);
}

/* Can three tasks overfill it of which any two fit? */
static bool shared_by_many(const struct ilp *x, int r) {
  int64_t sum = 0;
  bool two_fit = false;
  for (uint32_t i = 0; i < x->p->n; i++) {
    sum += most_use(x, i, r);
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      int64_t use = x->p->tasks[i].modes[m].use[r];
      two_fit = two_fit || (use > 0 && 2 * use <= x->p->capacity[r]);
    }
  }
  return two_fit && sum > x->p->capacity[r];
}

/* ---- the search ------------------------------------------------------------------------------ */

static bool begin(struct ilp *x, struct pz_context *c) {
  uint32_t n = c->p->n;
  *x = (struct ilp){.c = c, .p = c->p, .unit = c->scale > 0 ? c->scale / (n + 1) : 1};
  pz_arena_init(&x->arena, c->arena->mem);
  x->before = pz_arena_alloc(&x->arena, (size_t)n * n, sizeof *x->before);
  x->ordered = pz_arena_alloc(&x->arena, (size_t)n * n, sizeof *x->ordered);
  x->mode = pz_arena_alloc(&x->arena, c->n_modes, sizeof *x->mode);
  if (!x->before || !x->ordered || !x->mode) return false;
  for (uint32_t j = 0; j < n; j++)
    for (uint32_t k = 0; k < c->p->tasks[j].n_pred; k++) {
      uint32_t direct = c->p->tasks[j].pred[k];
      x->before[pair(x, direct, j)] = true;
      for (uint32_t i = 0; i < direct; i++)
        if (x->before[pair(x, i, direct)]) x->before[pair(x, i, j)] = true;
    }
  return true;
}

/* The incumbent's modes and order as values of the columns. */
static double *starting_point(struct ilp *x) {
  const struct pz_slot *slots = x->c->best;
  double *value = pz_arena_alloc(&x->arena, x->lp.cols.n, sizeof *value);
  for (uint32_t i = 0; value && i < x->p->n; i++) {
    value[x->mode[x->c->mode_at[i] + slots[i].mode]] = 1;
    value[x->start + i] = slots[i].start / x->unit;
    for (uint32_t j = 0; j < x->p->n; j++) {
      if (x->ordered[pair(x, i, j)] == PZ_NONE || slots[i].end > slots[j].start) continue;
      bool both = slots[j].end <= slots[i].start && j < i;
      value[x->ordered[pair(x, i, j)]] = !both;
    }
  }
  if (value) value[x->end] = x->c->best_s / x->unit;
  return value;
}

/* Does i come before j in the solution? */
static bool comes_before(const struct ilp *x, const double *value, uint32_t i, uint32_t j) {
  uint32_t order = x->ordered[pair(x, i, j)];
  return x->before[pair(x, i, j)] || (order != PZ_NONE && value[order] > 0.5);
}

/* Every task at the end of the last that comes before it.  False: they go in a circle. */
static bool set_times(const struct ilp *x, const double *value, struct pz_slot *slots) {
  bool again = true;
  for (uint32_t pass = 0; again && pass <= x->p->n; pass++) {
    again = false;
    for (uint32_t j = 0; j < x->p->n; j++) {
      double start = 0;
      for (uint32_t i = 0; i < x->p->n; i++)
        if (i != j && comes_before(x, value, i, j)) start = fmax(start, slots[i].end);
      if (start <= slots[j].start) continue;
      slots[j].start = start;
      slots[j].end = start + x->p->tasks[j].modes[slots[j].mode].s;
      again = true;
    }
  }
  return !again;
}

/* The solution's modes and order as a schedule, with exact times.  DBL_MAX: a resource is
 * overfull. */
static double schedule_of(struct ilp *x, const double *value) {
  uint32_t n = x->p->n;
  struct pz_slot *slots = pz_arena_alloc(&x->arena, n, sizeof *slots);
  double makespan = 0;
  if (!slots) return DBL_MAX;
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      if (value[x->mode[x->c->mode_at[i] + m]] > 0.5) slots[i].mode = m;
    slots[i].end = x->p->tasks[i].modes[slots[i].mode].s;
  }
  if (!set_times(x, value, slots)) return DBL_MAX;
  for (uint32_t i = 0; i < n; i++) makespan = fmax(makespan, slots[i].end);
  if (pz_schedule_check(x->p, slots, makespan, NULL) != PZ_OK) return DBL_MAX;
  pz_update_incumbent(x->c, slots, makespan, PZ_T_NONE);
  return makespan;
}

/* Use of a resource while task i starts, by the solution. */
static double use_at(const struct ilp *x, const double *value, uint32_t i, int r) {
  double t = value[x->start + i] + 1e-6, sum = 0;
  for (uint32_t j = 0; j < x->p->n; j++) {
    double s = value[x->start + j], d = 0, use = 0;
    for (uint32_t m = 0; m < x->p->tasks[j].n_modes; m++) {
      double part = value[x->mode[x->c->mode_at[j] + m]];
      d += part * x->p->tasks[j].modes[m].s / x->unit;
      use += part * x->p->tasks[j].modes[m].use[r];
    }
    if (s <= t && s + d > t) sum += use;
  }
  return sum;
}

/* Model the resources that the solution overfills; all of them where none shows.  False: all are
 * modelled already. */
static bool hand_on_more(struct ilp *x, const double *value) {
  bool any = false;
  for (int r = 0; r < PZ_RESOURCES; r++)
    for (uint32_t i = 0; i < x->p->n && !x->handed_on[r]; i++)
      if (use_at(x, value, i, r) > x->p->capacity[r] + 0.5) any = x->handed_on[r] = true;
  for (int r = 0; r < PZ_RESOURCES && !any; r++)
    if (shared_by_many(x, r) && !x->handed_on[r]) any = x->handed_on[r] = true;
  return any;
}

static double bound_of(const struct ilp *x, const struct pz_lp_result *r) {
  double bound = r->status == PZ_LP_INFEASIBLE ? 0 : (r->bound * (1 - 1e-6) - 1e-4) * x->unit;
  return isfinite(bound) ? bound : 0;
}

static enum pz_status fail_solver(const struct pz_lp_result *r, struct pz_error *err) {
  if (!r->signal) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the ILP");
  return pz_fail(err, PZ_NO_MEMORY,
                 "CBC ended with signal %d: out of memory for the ILP, or a fault", r->signal);
}

static enum pz_status rounds(struct ilp *x, double until, enum pz_stop *stop,
                             struct pz_error *err) {
  struct pz_context *c = x->c;
  *stop = PZ_STOP_TIME;
  for (;;) {
    struct pz_lp_result r;
    struct pz_lp_limits limits = {.seconds = until - pz_clock_s()};
    if (limits.seconds <= 0) return PZ_OK;
    build(x);
    pz_lp_solve_integer(&x->lp, &limits, starting_point(x), &r);
    if (r.no_memory) return fail_solver(&r, err);
    c->steps++;
    pz_update_bound(c, fmin(bound_of(x, &r), c->best_s), PZ_T_NONE); /* CBC is inexact */
    if (!r.found) return PZ_OK;
    double made = schedule_of(x, r.x), said = r.objective * x->unit;
    if (r.status != PZ_LP_OPTIMAL) return PZ_OK;
    if (made <= said + 1e-4 * x->unit) { /* the best so far is no worse */
      pz_update_bound(c, c->best_s, PZ_T_NONE);
      *stop = PZ_STOP_PROVED;
      return PZ_OK;
    }
    if (!hand_on_more(x, r.x)) return PZ_OK;
  }
}

enum pz_status pz_ilp_search(struct pz_context *c, const struct pz_solve_options *options,
                             enum pz_stop *stop, struct pz_error *err) {
  struct ilp x;
  if (c->p->n > PZ_ILP_MOST_TASKS)
    return pz_fail(err, PZ_BAD_INPUT, "%u operators; accepted by the ILP: at most %d", c->p->n,
                   PZ_ILP_MOST_TASKS);
  double until = pz_clock_s() + (options->seconds > 0 ? options->seconds : DEFAULT_SECONDS);
  pz_bound_tighten(c); /* heads and tails; without an incumbent no mode is eliminated */
  enum pz_status status = pz_local_search(c, 0, err);
  if (status != PZ_OK) return status;
  c->bound_s = 0; /* the model is to find it */
  status = begin(&x, c) ? rounds(&x, until, stop, err)
                        : pz_fail(err, PZ_NO_MEMORY, "out of memory for the ILP");
  pz_arena_release(&x.arena);
  return status;
}

/* What the numbers in the names mean. */
static void put_notes(struct ilp *x) {
  pz_lp_note(&x->lp, x->unit < 1 ? "times in microseconds" : "times as given");
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      const struct pz_mode *mode = &x->p->tasks[i].modes[m];
      char buf[16];
      pz_lp_note(&x->lp, pz_arena_printf(&x->arena, "x%u_%u: %.200s, mode %s", i, m,
                                         x->p->tasks[i].name, pz_mode_name(mode, buf)));
    }
}

enum pz_status pz_ilp_write(const struct pz_problem *p, const char *path, struct pz_error *err) {
  struct pz_context c;
  struct pz_arena work;
  struct ilp x = {0};
  pz_arena_init(&work, NULL);
  pz_arena_init(&x.arena, NULL);
  enum pz_status status = pz_context_init(&c, p, &work, err);
  if (status == PZ_OK && p->n > PZ_ILP_MOST_TASKS)
    status = pz_fail(err, PZ_BAD_INPUT, "%u operators; accepted by the ILP: at most %d", p->n,
                     PZ_ILP_MOST_TASKS);
  if (status == PZ_OK) pz_bound_tighten(&c);
  if (status == PZ_OK) status = pz_local_search(&c, 0, err);
  if (status == PZ_OK && !begin(&x, &c))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the ILP");
  if (status == PZ_OK) {
    x.unit = c.time_unit > 0 ? 1 : 1e-6;
    for (int r = 0; r < PZ_RESOURCES; r++) x.handed_on[r] = shared_by_many(&x, r);
    build(&x);
    put_notes(&x);
    status = pz_lp_write(&x.lp, path, err);
  }
  pz_arena_release(&x.arena);
  pz_arena_release(&work);
  return status;
}
