/* A lower bound for busy periods between idle points (idle_point.h).  A busy period ends when all
 * tasks started in it have ended.  For every possible end time, the tasks that can be done by then
 * count as done; the others are still to come and take at least their dual values.  A busy period
 * must also save time over running its tasks alone; otherwise it can be left out. */
#include "schedule/tree/busy_period.h"

#include <float.h>

#include "schedule/tree/idle_point.h"
#include "schedule/tree/residual.h"

/* Tasks that may still run in the busy period. */
struct busy_period {
  struct pz_residual residual;
  double end[PZ_TREE_MOST_TASKS];    /* by task: the earliest in the busy period */
  uint32_t list[PZ_TREE_MOST_TASKS]; /* tasks by end, those that end after all that runs */
  uint32_t n;
  double alone_s; /* what is done when all that runs has ended, had each task run alone */
  double left_s;  /* dual value of the others */
};

/* Beside others, from when all that it waits for has ended. */
static double earliest_end(const struct pz_idle *x, const struct pz_partial *n,
                           const struct busy_period *h, uint32_t i) {
  const struct pz_task *t = &x->g->p->tasks[i];
  double from = n->t, end = DBL_MAX;
  for (uint32_t k = 0; k < t->n_pred; k++)
    if (!pz_bits_has(&n->finished, t->pred[k])) from = pz_fmax(from, h->end[t->pred[k]]);
  if (x->g->c->least_s[i] <= 0) return from; /* it can take no time */
  if (from >= x->g->c->best_s) return DBL_MAX;
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (x->joins[x->g->c->mode_at[i] + m])
      end = pz_fmin(end, pz_fmax(from, pz_residual_earliest(&h->residual, &t->modes[m])) +
                             t->modes[m].s);
  return end;
}

static void put(const struct pz_idle *x, struct busy_period *h, uint32_t i) {
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

static void look_ahead(const struct pz_idle *x, const struct pz_partial *n, struct busy_period *h) {
  const struct pz_branching *g = x->g;
  pz_residual_find(g, n, &h->residual);
  h->n = 0;
  h->alone_s = n->alone_s;
  h->left_s = 0;
  for (uint32_t i = 0; i < n->n_running; i++) h->end[n->run[i].task] = n->run[i].end;
  for (int w = 0; w < g->words; w++)
    for (uint64_t left = g->all.w[w] & ~n->started.w[w]; left; left &= left - 1) {
      uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(left));
      h->end[i] = earliest_end(x, n, h, i);
      put(x, h, i);
    }
}

double pz_busy_period_bound(const struct pz_idle *x, const struct pz_partial *n, double regret_s) {
  const struct pz_context *c = x->g->c;
  struct busy_period h;
  double bound = DBL_MAX;
  look_ahead(x, n, &h);
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
