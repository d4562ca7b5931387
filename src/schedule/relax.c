/* A relaxation as a linear program.
 *
 * Remove from a schedule the times at which an exclusive mode runs (one that excludes all others).
 * On the clock that remains, start times obey
 *  - arcs: a task starts after its predecessors end, and the schedule ends after each task;
 *  - work arcs: between the end of a and the start of b (or the beginning and the end) lies the
 *    work of all tasks that come after a and before b, on every resource.
 * The makespan is the exclusive time plus the length of the clock.
 *
 * Work arcs between pairs are many; those violated by the fractional solution are added, and it is
 * solved again.  Then modes become integer and CBC searches. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/bits.h"
#include "schedule/context.h"
#include "schedule/lp.h"

enum { MOST_ROUNDS = 8, MOST_NEW_ARCS = 24, STEPS_PER_TASK = 30 };

/* From a task (PZ_NONE: the beginning) to a task (PZ_NONE: the end); resource < 0: precedence. */
struct arc {
  uint32_t from, to;
  int resource;
};

_Static_assert((int)PZ_RELAX_MOST_TASKS <= (int)PZ_BITS, "sets hold every task");

struct relax {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_arena arena;
  struct pz_bits *after, *before; /* by task: all that must come after it, before it */
  bool *exclusive;                /* by mode */
  struct pz_vec arcs;
  uint32_t *col; /* by mode */
  uint32_t start_col, end_col;
  struct pz_lp_result lp;
  double unit; /* of time in the model */
};

static bool alive(const struct relax *x, uint32_t i, uint32_t m) {
  return !x->c->dropped[x->c->mode_at[i] + m];
}

/* Resources a mode takes some of, and those it takes all of. */
static uint32_t wants(const struct relax *x, const struct pz_mode *m, bool all) {
  uint32_t set = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r] && (!all || m->use[r] == x->p->capacity[r])) set |= 1u << r;
  return set;
}

/* A mode is exclusive if every mode of every task that could run beside it wants a resource of
 * which nothing is left.  `sets` has a bit for every set of resources that some such mode wants. */
static void find_exclusive(struct relax *x) {
  for (uint32_t i = 0; i < x->p->n; i++) {
    uint32_t sets = 0;
    for (uint32_t k = 0; k < x->p->n; k++) {
      if (k == i || pz_bits_has(&x->before[i], k) || pz_bits_has(&x->after[i], k)) continue;
      for (uint32_t m = 0; m < x->p->tasks[k].n_modes; m++)
        if (alive(x, k, m) && x->p->tasks[k].modes[m].s > 0)
          sets |= 1u << wants(x, &x->p->tasks[k].modes[m], false);
    }
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t full = wants(x, &x->p->tasks[i].modes[m], true);
      bool alone = true;
      for (uint32_t s = 0; s < 1u << PZ_RESOURCES; s++)
        if (sets >> s & 1 && !(s & full)) alone = false;
      x->exclusive[x->c->mode_at[i] + m] = alone;
    }
  }
}

static bool counts(const struct relax *x, const struct arc *a, uint32_t i) {
  return (a->from == PZ_NONE || pz_bits_has(&x->after[a->from], i)) &&
         (a->to == PZ_NONE || pz_bits_has(&x->before[a->to], i));
}

/* Part of a resource that a mode takes on the clock. */
static double part(const struct relax *x, uint32_t i, uint32_t m, int r) {
  const struct pz_mode *mode = &x->p->tasks[i].modes[m];
  if (x->exclusive[x->c->mode_at[i] + m] || !mode->use[r]) return 0;
  return (double)mode->use[r] / (double)x->p->capacity[r];
}

static bool push_arc(struct relax *x, uint32_t from, uint32_t to, int resource) {
  struct arc a = {from, to, resource};
  return pz_vec_push(&x->arcs, &a) != NULL;
}

static bool first_arcs(struct relax *x) {
  bool ok = true;
  for (uint32_t i = 0; i < x->p->n; i++) {
    const struct pz_task *t = &x->p->tasks[i];
    for (uint32_t k = 0; k < t->n_succ; k++) ok = ok && push_arc(x, i, t->succ[k], -1);
    if (!t->n_succ) ok = ok && push_arc(x, i, PZ_NONE, -1);
  }
  for (int r = 0; r < PZ_RESOURCES; r++) ok = ok && push_arc(x, PZ_NONE, PZ_NONE, r);
  return ok;
}

/* ---- the linear model ----------------------------------------------------------------------- */

static void put_arc(struct relax *x, struct pz_lp *lp, const struct arc *a) {
  uint32_t row = pz_lp_row(lp, 0, DBL_MAX);
  pz_lp_put(lp, row, a->to == PZ_NONE ? x->end_col : x->start_col + a->to, 1);
  if (a->from != PZ_NONE) pz_lp_put(lp, row, x->start_col + a->from, -1);
  for (uint32_t i = 0; i < x->p->n; i++) {
    bool work = a->resource >= 0 && counts(x, a, i);
    for (uint32_t m = 0; (work || i == a->from) && m < x->p->tasks[i].n_modes; m++) {
      uint32_t at = x->c->mode_at[i] + m;
      if (x->c->dropped[at] || x->exclusive[at]) continue;
      double p = i == a->from ? 1 : part(x, i, m, a->resource);
      pz_lp_put(lp, row, x->col[at], -p * x->p->tasks[i].modes[m].s / x->unit);
    }
  }
}

/* Columns: starts on the clock, its end, a part of every mode.  The first rows: one mode each. */
static void build(struct relax *x, struct pz_lp *lp, bool integer) {
  pz_lp_init(lp, &x->arena);
  for (uint32_t i = 0; i < x->p->n; i++) {
    uint32_t col = pz_lp_col(lp, 0, DBL_MAX, 0, false);
    if (i == 0) x->start_col = col;
  }
  x->end_col = pz_lp_col(lp, 0, DBL_MAX, 1, false);
  for (uint32_t i = 0; i < x->p->n; i++) {
    uint32_t row = pz_lp_row(lp, 1, 1);
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t at = x->c->mode_at[i] + m;
      if (x->c->dropped[at]) continue;
      double s = x->p->tasks[i].modes[m].s / x->unit;
      x->col[at] = pz_lp_col(lp, 0, integer ? 1 : DBL_MAX, x->exclusive[at] ? s : 0, integer);
      pz_lp_put(lp, row, x->col[at], 1);
    }
  }
  for (uint32_t k = 0; k < x->arcs.n; k++) put_arc(x, lp, pz_vec_at(&x->arcs, struct arc, k));
}

/* ---- arcs that a solution breaks ------------------------------------------------------------ */

/* Time of a task on the clock, its share of a resource, by the solution. */
static double solved(const struct relax *x, uint32_t i, int r) {
  double s = 0;
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
    uint32_t at = x->c->mode_at[i] + m;
    if (x->c->dropped[at] || x->exclusive[at]) continue;
    double p = r < 0 ? 1 : part(x, i, m, r);
    s += p * x->p->tasks[i].modes[m].s / x->unit * x->lp.x[x->col[at]];
  }
  return s;
}

struct broken {
  struct arc arc;
  double by;
};

static void keep_worst(struct broken *list, int *n, const struct broken *b) {
  if (*n == MOST_NEW_ARCS && list[MOST_NEW_ARCS - 1].by >= b->by) return;
  int at = *n < MOST_NEW_ARCS ? (*n)++ : MOST_NEW_ARCS - 1;
  for (; at > 0 && list[at - 1].by < b->by; at--) list[at] = list[at - 1];
  list[at] = *b;
}

/* By how much the work of tasks between the two does not fit between them. */
static void look_between(const struct relax *x, uint32_t from, uint32_t to, int r,
                         const double *work, struct broken *list, int *n) {
  struct broken b = {{from, to, r}, 0};
  double begin = from == PZ_NONE ? 0 : x->lp.x[x->start_col + from] + solved(x, from, -1);
  double end = x->lp.x[to == PZ_NONE ? x->end_col : x->start_col + to];
  for (uint32_t i = 0; i < x->p->n; i++)
    if (counts(x, &b.arc, i)) b.by += work[i];
  b.by -= end - begin;
  if (b.by > 1e-6) keep_worst(list, n, &b);
}

/* Were there any? */
static bool add_arcs(struct relax *x, double *work) {
  struct broken list[MOST_NEW_ARCS];
  int n = 0;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    double sum = 0;
    for (uint32_t i = 0; i < x->p->n; i++) sum += work[i] = solved(x, i, r);
    for (uint32_t a = 0; a < x->p->n && sum > 0; a++) {
      look_between(x, PZ_NONE, a, r, work, list, &n);
      look_between(x, a, PZ_NONE, r, work, list, &n);
      for (uint32_t b = a + 1; b < x->p->n; b++)
        if (pz_bits_has(&x->after[a], b)) look_between(x, a, b, r, work, list, &n);
    }
  }
  for (int i = 0; i < n; i++)
    if (!pz_vec_push(&x->arcs, &list[i].arc)) return false;
  return n > 0;
}

/* ---- incumbents ----------------------------------------------------------------------------- */

/* The modes the solution has most of, in the order of its clock. */
static void try_solution(struct relax *x) {
  uint32_t n = x->p->n;
  uint32_t *mode = pz_arena_alloc(&x->arena, n, sizeof *mode);
  double *priority = pz_arena_alloc(&x->arena, n, sizeof *priority);
  if (!mode || !priority) return;
  for (uint32_t i = 0; i < n; i++) {
    double most = -1;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t at = x->c->mode_at[i] + m;
      if (x->c->dropped[at] || x->lp.x[x->col[at]] <= most) continue;
      most = x->lp.x[x->col[at]];
      mode[i] = m;
    }
    priority[i] = -x->lp.x[x->start_col + i];
  }
  pz_local_try(x->c, mode, priority);
  for (uint32_t i = 0; i < n; i++) priority[i] = x->c->tail_s[i] + x->c->least_s[i];
  pz_local_try(x->c, mode, priority);
}

/* ---- the calls ------------------------------------------------------------------------------ */

static bool begin(struct relax *x, struct pz_context *c) {
  *x = (struct relax){.c = c, .p = c->p, .unit = c->scale / (double)(c->p->n + 1)};
  pz_arena_init(&x->arena, c->arena->mem);
  if (c->p->n == 0 || c->p->n > PZ_RELAX_MOST_TASKS || !(x->unit > 0)) return false;
  x->after = pz_arena_alloc(&x->arena, c->p->n, sizeof *x->after);
  x->before = pz_arena_alloc(&x->arena, c->p->n, sizeof *x->before);
  x->exclusive = pz_arena_alloc(&x->arena, c->n_modes, sizeof *x->exclusive);
  x->col = pz_arena_alloc(&x->arena, c->n_modes, sizeof *x->col);
  pz_vec_init(&x->arcs, &x->arena, sizeof(struct arc));
  if (!x->after || !x->before || !x->exclusive || !x->col) return false;
  pz_bits_order(x->p, x->before, x->after);
  find_exclusive(x);
  return first_arcs(x);
}

/* Solve, add what is broken, again.  False when the library fails. */
static bool converge(struct relax *x) {
  double *work = pz_arena_alloc(&x->arena, x->p->n, sizeof *work);
  for (int round = 0; work; round++) {
    struct pz_lp lp;
    build(x, &lp, false);
    pz_lp_solve(&lp, &x->lp);
    x->c->steps += STEPS_PER_TASK * (int64_t)x->p->n;
    if (x->lp.status != PZ_LP_OPTIMAL) return false;
    if (round == MOST_ROUNDS || !add_arcs(x, work)) return true;
  }
  return false;
}

void pz_relax_integer(struct pz_context *c, int nodes) {
  struct relax x;
  struct pz_lp lp;
  if (begin(&x, c) && converge(&x)) {
    struct pz_lp_limits limits = {.nodes = nodes, .plain = true};
    build(&x, &lp, true);
    pz_lp_solve_integer(&lp, &limits, NULL, &x.lp);
    /* the library looks for solutions better by 1e-5, and is exact to about 1e-7 */
    if (x.lp.status == PZ_LP_OPTIMAL || x.lp.status == PZ_LP_LIMIT)
      pz_context_raise(c, (x.lp.bound * (1 - 1e-6) - 1e-4) * x.unit);
    if (x.lp.found) try_solution(&x);
    pz_bound_tighten(c);
  }
  pz_arena_release(&x.arena);
}
