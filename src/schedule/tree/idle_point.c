/* Regret of idle points, the choice whether to branch on them, and the bound of busy periods (idle_point.h). */
#include "schedule/tree/idle_point.h"

#include <float.h>
#include <string.h>

#include "schedule/tree/partial_bound.h"

/* The number of idle points that are remembered. */
enum { MAX_PAST = 4096 };

/* Tuned: tasks must be this much slower in busy periods than alone for their bound to be tried. */
static const double BUSY_SLOW = 2;

struct past_idle_point {
  struct pz_bits done;
  double regret_s;
};

/* ---- regret ---------------------------------------------------------------------------------- */

static double slack(const struct pz_idle *x) { return 1e-12 * x->g->c->scale; }

bool pz_idle_dominated(struct pz_idle *x, const struct pz_partial *idle) {
  struct pz_technique_count *count = &x->g->c->count[PZ_T_idle_points];
  struct past_idle_point now = {idle->started, idle->t - idle->alone_s};
  count->calls++;
  x->g->c->steps += x->past.n / PZ_LOOKS_PER_STEP;
  for (uint32_t k = 0; k < x->past.n; k++) {
    const struct past_idle_point *p = pz_vec_at(&x->past, struct past_idle_point, k);
    if (p->regret_s <= now.regret_s + slack(x) && pz_branching_within(x->g, &p->done, &now.done)) {
      count->prunes++;
      return true;
    }
  }
  if (x->past.n < MAX_PAST) (void)pz_vec_push(&x->past, &now); /* without memory it is forgotten */
  return false;
}

bool pz_idle_dominates(const struct pz_idle *x, double regret_s, const struct pz_partial *n,
                       double next) {
  bool dominates = regret_s <= next - n->alone_s + slack(x);
  x->g->c->count[PZ_T_idle_points].prunes += dominates;
  return dominates;
}

uint32_t pz_idle_undecided(const struct pz_idle *x, const struct pz_partial *n) {
  for (int w = 0; w < x->g->words; w++) {
    uint64_t left = n->ready.w[w] & x->inner.w[w] & ~n->not_now.w[w];
    if (left) return (uint32_t)(64 * w + __builtin_ctzll(left));
  }
  return PZ_NONE;
}

/* ---- capacity -------------------------------------------------------------------------------- */

/* The least amount of each resource that some mode of the task uses. */
static struct pz_mode least_use(const struct pz_context *c, uint32_t i) {
  const struct pz_task *t = &c->p->tasks[i];
  struct pz_mode least = {0};
  memcpy(least.use, c->p->capacity, sizeof least.use);
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (c->eliminated[c->mode_at[i] + m]) continue;
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (t->modes[m].use[r] < least.use[r]) least.use[r] = t->modes[m].use[r];
  }
  return least;
}

/* Whether no other task of positive duration fits beside the task in this mode. */
static bool leaves_no_capacity(const struct pz_branching *g, const struct pz_mode *least,
                               uint32_t i, const struct pz_mode *m) {
  int32_t residual[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) residual[r] = g->p->capacity[r] - m->use[r];
  for (uint32_t k = 0; k < g->p->n; k++) {
    bool incompatible = k == i || pz_bits_has(&g->before[i], k) || pz_bits_has(&g->after[i], k);
    if (!incompatible && g->c->least_s[k] > 0 && pz_mode_fits(residual, &least[k])) return false;
  }
  return true;
}

/* Sets which modes of the task leave capacity for another task.  Returns the duration of the fastest of them, or
 * DBL_MAX. */
static double find_joining_modes(struct pz_idle *x, const struct pz_mode *least, uint32_t i) {
  const struct pz_context *c = x->g->c;
  const struct pz_task *t = &c->p->tasks[i];
  double s = DBL_MAX;
  for (uint32_t m = 0; m < t->n_modes; m++) {
    uint32_t at = c->mode_at[i] + m;
    x->joins[at] = !c->eliminated[at] && !leaves_no_capacity(x->g, least, i, &t->modes[m]);
    if (x->joins[at]) s = pz_fmin(s, t->modes[m].s);
  }
  return s;
}

/* Finds which tasks leave capacity for another, whether most fastest modes do not, and how much slower the modes are that
 * do. */
static void find_joining_tasks(struct pz_idle *x, struct pz_mode *least) {
  const struct pz_branching *g = x->g;
  const double *least_s = g->c->least_s;
  uint32_t n = 0, alone = 0;
  double joined = 0, faster = 0;
  for (uint32_t i = 0; i < g->p->n; i++) least[i] = least_use(g->c, i);
  for (uint32_t i = 0; i < g->p->n; i++) {
    const struct pz_task *t = &g->p->tasks[i];
    if (t->n_succ) pz_bits_set(&x->inner, i);
    if (least_s[i] <= 0) continue;
    double s = find_joining_modes(x, least, i);
    n++;
    alone += leaves_no_capacity(g, least, i, &t->modes[pz_partial_fastest(g, i)]);
    if (s >= DBL_MAX) continue;
    pz_bits_set(&x->joining, i);
    joined += s;
    faster += least_s[i];
  }
  const struct pz_techniques *o = g->c->o;
  x->frequent = o->idle_points && 2 * alone > n && !g->milestones_use;
  x->slow = x->frequent && o->busy_period_bound && joined > BUSY_SLOW * faster;
}

bool pz_idle_init(struct pz_idle *x, struct pz_branching *g, struct pz_arena *arena) {
  struct pz_mode *least = pz_arena_alloc(arena, g->p->n, sizeof *least);
  *x = (struct pz_idle){.g = g};
  x->joins = pz_arena_alloc(arena, g->c->n_modes, sizeof *x->joins);
  pz_vec_init(&x->past, arena, sizeof(struct past_idle_point));
  if (!least || !x->joins) return false;
  find_joining_tasks(x, least);
  return true;
}

/* ---- busy periods ---------------------------------------------------------------------------- */

/* Tasks that may still run in the busy period. */
struct busy_period {
  struct pz_residual residual;
  double end[PZ_TREE_MOST_TASKS];    /* by task: the earliest in the busy period */
  uint32_t list[PZ_TREE_MOST_TASKS]; /* the tasks that end after all running ones, by end */
  uint32_t n;
  double
      alone_s; /* time of the tasks that are done when all running ones have ended, if each had run alone */
  double left_s; /* dual value of the other tasks */
};

/* The earliest end of a task in the busy period, in a mode that leaves capacity for others. */
static double earliest_busy_end(const struct pz_idle *x, const struct pz_partial *n,
                                const struct busy_period *h, uint32_t i) {
  const struct pz_task *t = &x->g->p->tasks[i];
  double from = n->t, end = DBL_MAX;
  for (uint32_t k = 0; k < t->n_pred; k++)
    if (!pz_bits_has(&n->finished, t->pred[k])) from = pz_fmax(from, h->end[t->pred[k]]);
  if (x->g->c->least_s[i] <= 0) return from; /* a milestone */
  if (from >= x->g->c->best_s) return DBL_MAX;
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (x->joins[x->g->c->mode_at[i] + m])
      end = pz_fmin(end, pz_fmax(from, pz_residual_earliest(&h->residual, &t->modes[m])) +
                             t->modes[m].s);
  return end;
}

static void list_by_end(const struct pz_idle *x, struct busy_period *h, uint32_t i) {
  const struct pz_context *c = x->g->c;
  if (h->end[i] <= h->residual.at[h->residual.n]) {
    h->alone_s += c->least_s[i];
    return;
  }
  h->left_s += c->duals.least[i];
  if (h->end[i] >= c->best_s) return;
  uint32_t at = h->n++;
  for (; at > 0 && h->end[h->list[at - 1]] > h->end[i]; at--) h->list[at] = h->list[at - 1];
  h->list[at] = i;
}

static void find_ends(const struct pz_idle *x, const struct pz_partial *n, struct busy_period *h) {
  const struct pz_branching *g = x->g;
  pz_residual_find(g, n, &h->residual);
  h->n = 0;
  h->alone_s = n->alone_s;
  h->left_s = 0;
  for (uint32_t i = 0; i < n->n_running; i++) h->end[n->run[i].task] = n->run[i].end;
  PZ_EACH_BIT(i, g->words, g->all.w[w] & ~n->started.w[w]) {
    h->end[i] = earliest_busy_end(x, n, h, i);
    list_by_end(x, h, i);
  }
}

/* A busy period ends when all tasks that were started in it have ended.  For every possible end, the tasks that can be done
 * by then count as done, and the others take at least their dual values after it.  A busy period must also save time over
 * running its tasks alone; otherwise it can be left out. */
double pz_busy_period_bound(const struct pz_idle *x, const struct pz_partial *n, double regret_s) {
  const struct pz_context *c = x->g->c;
  struct busy_period h;
  double bound = DBL_MAX;
  find_ends(x, n, &h);
  double end = h.residual.at[h.residual.n];
  for (uint32_t k = 0; end < bound; k++) {
    if (end - h.alone_s < regret_s) bound = pz_fmin(bound, end + h.left_s);
    if (k == h.n) break;
    end = h.end[h.list[k]];
    h.alone_s += c->least_s[h.list[k]];
    h.left_s -= c->duals.least[h.list[k]];
  }
  x->g->c->count[PZ_T_busy_period_bound].calls++;
  x->g->c->count[PZ_T_busy_period_bound].prunes += !pz_better(c, bound, c->best_s);
  return bound;
}
