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

/* Transitivity is implied by the times; beyond so many rows it costs more than it helps. */
enum { MOST_TRANSITIVE = 20000 };
static const double DEFAULT_SECONDS = 60;

struct ilp {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_arena arena;
  struct pz_lp lp;
  double unit;
  struct pz_bits *before; /* by task: all that precede it */
  uint32_t *ordered;      /* [i * n + j]: column of y_ij, or PZ_NONE */
  uint32_t *mode;         /* by mode: column of x */
  uint32_t start, end;
  bool handed_on[PZ_RESOURCES];
};

static size_t pair(const struct ilp *x, uint32_t i, uint32_t j) { return (size_t)i * x->p->n + j; }

static bool precedes(const struct ilp *x, uint32_t i, uint32_t j) {
  return pz_bits_has(&x->before[j], i);
}

static bool free_pair(const struct ilp *x, uint32_t i, uint32_t j) {
  return i != j && !precedes(x, i, j) && !precedes(x, j, i);
}

/* ---- columns --------------------------------------------------------------------------------- */

static void put_columns(struct ilp *x) {
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
          free_pair(x, i, j) ? pz_lp_col(lp, choice, "y%u_%u", i, j) : PZ_NONE;
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
    uint32_t one = pz_lp_row(lp, PZ_LP_EQUAL, 1, "mode_%u", i);
    for (uint32_t m = 0; m < t->n_modes; m++) pz_lp_put(lp, one, x->mode[x->c->mode_at[i] + m], 1);
    for (uint32_t k = 0; k < t->n_succ || k == 0; k++) { /* each successor, or the end of all */
      uint32_t row = t->n_succ ? pz_lp_row(lp, PZ_LP_AT_LEAST, 0, "before_%u_%u", i, t->succ[k])
                               : pz_lp_row(lp, PZ_LP_AT_LEAST, 0, "end_%u", i);
      pz_lp_put(lp, row, t->n_succ ? x->start + t->succ[k] : x->end, 1);
      pz_lp_put(lp, row, x->start + i, -1);
      put_duration(x, row, i, -1);
    }
  }
}

static void put_order(struct ilp *x, uint32_t i, uint32_t j) {
  struct pz_lp *lp = &x->lp;
  double big = (x->c->best_s - x->c->tail_s[i] - x->c->head_s[j]) / x->unit;
  uint32_t row = pz_lp_row(lp, PZ_LP_AT_LEAST, -big, "order_%u_%u", i, j);
  pz_lp_put(lp, row, x->start + j, 1);
  pz_lp_put(lp, row, x->start + i, -1);
  put_duration(x, row, i, -1);
  pz_lp_put(lp, row, x->ordered[pair(x, i, j)], -big);
}

static bool fit_together(const struct ilp *x, const struct pz_mode *a, const struct pz_mode *b) {
  int32_t residual[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) residual[r] = x->p->capacity[r] - b->use[r];
  return pz_mode_fits(residual, a);
}

/* Mode m of i and the modes of j that do not fit beside it: one after the other. */
static void put_conflict(struct ilp *x, uint32_t i, uint32_t j, uint32_t m) {
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

static void put_pairs(struct ilp *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t j = i + 1; j < x->p->n; j++) {
      if (!free_pair(x, i, j)) continue;
      uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_MOST, 1, "once_%u_%u", i, j);
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
  const uint32_t from[] = {i, j, i}, to[] = {j, k, k};
  static const double sign[] = {1, 1, -1};
  double most = 1;
  for (int e = 0; e < 3; e++) {
    if (x->ordered[pair(x, from[e], to[e])] != PZ_NONE) continue;
    bool before = precedes(x, from[e], to[e]);
    if (e < 2 && !before) return; /* never ordered so: nothing to say */
    most -= sign[e] * before;
  }
  if (most > 1.5 || x->lp.rows.n > MOST_TRANSITIVE) return;
  uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_MOST, most, "chain_%u_%u_%u", i, j, k);
  for (int e = 0; e < 3; e++) {
    uint32_t order = x->ordered[pair(x, from[e], to[e])];
    if (order != PZ_NONE) pz_lp_put(&x->lp, row, order, sign[e]);
  }
}

static void put_transitivity(struct ilp *x) {
  uint32_t n = x->p->n;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++)
      for (uint32_t k = 0; k < n; k++)
        if (i != k && (free_pair(x, i, j) || free_pair(x, j, k)) && i != j && j != k)
          put_transitive(x, i, j, k);
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
  uint32_t row = pz_lp_row(&x->lp, PZ_LP_AT_LEAST, 0, "work_%d", r);
  pz_lp_put(&x->lp, row, x->end, 1);
  for (uint32_t i = 0; i < x->p->n; i++) put_use(x, row, i, r, true, -1);
}

/* What j takes over from i. */
static void put_hand_on(struct ilp *x, int r, uint32_t i, uint32_t j, uint32_t out, uint32_t in) {
  uint32_t order = x->ordered[pair(x, i, j)];
  int32_t a = most_use(x, i, r), b = most_use(x, j, r);
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

/* For each task a row of what comes in and one of what goes out. */
static void put_flow(struct ilp *x, int r) {
  struct pz_lp *lp = &x->lp;
  uint32_t n = x->p->n, first = lp->rows.n;
  for (uint32_t i = 0; i < n; i++) {
    put_use(x, pz_lp_row(lp, PZ_LP_EQUAL, 0, "in_%d_%u", r, i), i, r, false, -1);
    put_use(x, pz_lp_row(lp, PZ_LP_AT_MOST, 0, "out_%d_%u", r, i), i, r, false, -1);
  }
  uint32_t all = pz_lp_row(lp, PZ_LP_AT_MOST, 1, "capacity_%d", r);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t col = pz_lp_col(lp, (struct pz_lp_col){.upper = 1}, "f%d_%u", r, i);
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

/* A first schedule with bounds of start and end, and the tables. */
static enum pz_status begin(struct ilp *x, struct pz_context *c, struct pz_error *err) {
  uint32_t n = c->p->n;
  *x = (struct ilp){.c = c, .p = c->p, .unit = c->scale > 0 ? c->scale / (n + 1) : 1};
  pz_arena_init(&x->arena, c->arena->mem);
  if (n > PZ_ILP_MOST_TASKS)
    return pz_fail(err, PZ_BAD_INPUT, "%u operators; accepted by the ILP: at most %d", n,
                   PZ_ILP_MOST_TASKS);
  pz_bound_tighten(c); /* heads and tails; without an incumbent no mode is eliminated */
  enum pz_status status = pz_local_search(c, 0, err);
  if (status != PZ_OK) return status;
  struct pz_bits *after;
  if (!PZ_ARRAY(&x->arena, x->before, n) || !PZ_ARRAY(&x->arena, after, n) ||
      !PZ_ARRAY(&x->arena, x->ordered, (size_t)n * n) || !PZ_ARRAY(&x->arena, x->mode, c->n_modes))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the ILP");
  pz_bits_order(c->p, x->before, after);
  return PZ_OK;
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
  return precedes(x, i, j) || (order != PZ_NONE && value[order] > 0.5);
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
  double bound = (r->bound * (1 - 1e-6) - 1e-4) * x->unit;
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
    double left_s = until - pz_clock_s();
    if (left_s <= 0) return PZ_OK;
    build(x);
    pz_lp_solve(&x->lp, left_s, starting_point(x), &r);
    if (r.failed) return fail_solver(&r, err);
    c->steps++;
    pz_update_bound(c, fmin(bound_of(x, &r), c->best_s), PZ_T_NONE); /* CBC is inexact */
    if (!r.found) return PZ_OK;
    double made = schedule_of(x, r.x), said = r.objective * x->unit;
    if (!r.optimal) return PZ_OK;
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
  double until = pz_clock_s() + (options->seconds > 0 ? options->seconds : DEFAULT_SECONDS);
  enum pz_status status = begin(&x, c, err);
  c->bound_s = 0; /* the model is to find it */
  if (status == PZ_OK) status = rounds(&x, until, stop, err);
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
  enum pz_status status = pz_context_init(&c, p, &work, err);
  if (status == PZ_OK) status = begin(&x, &c, err);
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
