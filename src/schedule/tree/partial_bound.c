/* Lower bounds on the makespan of every completion of a partial schedule. */
#include "schedule/tree/partial_bound.h"

#include <float.h>
#include <string.h>

void pz_residual_find(const struct pz_branching *g, const struct pz_partial *n,
                      struct pz_residual *x) {
  const struct pz_running *order[PZ_TREE_MOST_TASKS];
  for (uint32_t i = 0; i < n->n_running; i++) {
    uint32_t at = i;
    for (; at > 0 && order[at - 1]->end > n->run[i].end; at--) order[at] = order[at - 1];
    order[at] = &n->run[i];
  }
  x->n = n->n_running;
  x->at[0] = n->t;
  memcpy(x->left[0], n->free, sizeof n->free);
  for (uint32_t i = 0; i < x->n; i++) {
    const int32_t *use = g->p->tasks[order[i]->task].modes[order[i]->mode].use;
    x->at[i + 1] = order[i]->end;
    for (int r = 0; r < PZ_RESOURCES; r++) x->left[i + 1][r] = x->left[i][r] + use[r];
  }
}

/* Counts the bound and whether it prunes, and returns it. */
static double counted(const struct pz_branching *g, enum pz_technique by, double bound) {
  g->c->count[by].calls++;
  g->c->count[by].prunes += !pz_better(g->c, bound, g->c->best_s);
  return bound;
}

/* Of the tasks that are not started only ready ones count, because the tail of each task includes its successors. */
double pz_partial_path_bound(const struct pz_branching *g, const struct pz_partial *n) {
  const struct pz_context *c = g->c;
  double left = 0, bound = n->t;
  for (uint32_t i = 0; i < n->n_running; i++)
    bound = pz_fmax(bound, n->run[i].end + c->tail_s[n->run[i].task]);
  PZ_EACH_BIT(i, g->words, n->ready.w[w]) { left = pz_fmax(left, c->least_s[i] + c->tail_s[i]); }
  return pz_fmax(bound, n->t + left);
}

/* The earliest end of a task that starts at `from` or later. */
static double earliest_end(const struct pz_branching *g, const struct pz_residual *x, uint32_t i,
                           double from) {
  const struct pz_task *t = &g->p->tasks[i];
  const bool *eliminated = &g->c->eliminated[g->c->mode_at[i]];
  double end = DBL_MAX;
  for (uint32_t m = t->n_modes; m-- > 0;) {
    if (from + t->modes[m].s >= end || eliminated[m]) continue;
    end = pz_fmin(end, pz_fmax(from, pz_residual_earliest(x, &t->modes[m])) + t->modes[m].s);
  }
  return end;
}

/* The earliest start of a task, and its earliest end. */
struct span {
  double start, end;
};

/* The one-machine bound (Carlier 1982) of the disjunctive set, of which no two tasks run at once: for every start and
 * tail, the tasks that have at least these run one after another.  A task with a single mode starts no earlier than its
 * earliest end minus its duration. */
static double disjunctive_bound(const struct pz_branching *g, const struct pz_partial *n,
                                const struct span *at) {
  double start[PZ_LARGEST_DISJUNCTIVE], bound = 0;
  uint32_t list[PZ_LARGEST_DISJUNCTIVE], left = 0;
  for (uint32_t k = 0; k < g->n_disjunctive; k++) {
    uint32_t i = g->disjunctive[k];
    if (pz_bits_has(&n->started, i)) continue;
    start[left] = g->p->tasks[i].n_modes == 1 ? at[i].end - g->c->least_s[i] : at[i].start;
    list[left++] = i;
  }
  for (uint32_t k = 0; k < left; k++) {
    double sum = 0;
    for (uint32_t q = 0; q < left; q++) { /* by descending tail */
      if (start[q] < start[k]) continue;
      sum += g->c->least_s[list[q]];
      bound = pz_fmax(bound, start[k] + sum + g->c->tail_s[list[q]]);
    }
  }
  return bound;
}

static struct span earliest_span(const struct pz_branching *g, const struct pz_partial *n,
                                 const struct pz_residual *x, const struct span *at, uint32_t i) {
  const struct pz_task *t = &g->p->tasks[i];
  double start = n->t;
  for (uint32_t k = 0; k < t->n_pred; k++)
    if (!pz_bits_has(&n->finished, t->pred[k])) start = pz_fmax(start, at[t->pred[k]].end);
  bool residual = start >= x->at[x->n];
  return (struct span){start, residual ? start + g->c->least_s[i] : earliest_end(g, x, i, start)};
}

/* The longest path through the residual capacity: until they end, running tasks leave no more to each task. */
double pz_partial_residual_bound(const struct pz_branching *g, const struct pz_partial *n) {
  struct span at[PZ_TREE_MOST_TASKS];
  struct pz_residual x;
  double bound = n->t;
  if (!n->n_running || !g->c->o->residual_bound) return pz_partial_path_bound(g, n);
  pz_residual_find(g, n, &x);
  for (uint32_t i = 0; i < n->n_running; i++) {
    const struct pz_running *r = &n->run[i];
    at[r->task].end = r->end;
    bound = pz_fmax(bound, r->end + g->c->tail_s[r->task]);
  }
  PZ_EACH_BIT(i, g->words, g->all.w[w] & ~n->started.w[w]) {
    at[i] = earliest_span(g, n, &x, at, i);
    bound = pz_fmax(bound, at[i].end + g->c->tail_s[i]);
    if (bound >= g->c->best_s) return counted(g, PZ_T_residual_bound, bound);
  }
  counted(g, PZ_T_residual_bound, bound);
  if (!g->n_disjunctive) return bound;
  return pz_fmax(bound, counted(g, PZ_T_disjunctive_bound, disjunctive_bound(g, n, at)));
}

/* For every tail, the energy of the tasks with at least that tail, plus the tail. */
double pz_partial_energy_bound(const struct pz_branching *g, const struct pz_partial *n) {
  double sum[PZ_MEASURES] = {0}, most[PZ_MEASURES] = {0}, part[PZ_TREE_MOST_TASKS], bound = 0;
  const double *rate[PZ_TREE_MOST_TASKS];
  if (!g->c->o->node_energy_bound) return n->t;
  for (uint32_t i = 0; i < n->n_running; i++) {
    uint32_t t = n->run[i].task;
    part[t] = n->run[i].end - n->t;
    rate[t] = g->rates[g->c->mode_at[t] + n->run[i].mode];
  }
  for (uint32_t i = 0; i < g->p->n; i++) {
    uint32_t t = g->by_tail[i];
    if (pz_bits_has(&n->finished, t)) continue;
    bool runs = pz_bits_has(&n->started, t);
    const double *work = runs ? rate[t] : g->work[i], tail = g->c->tail_s[t];
    double left = runs ? part[t] : 1;
    for (int q = 0; q < g->n_measures; q += 4)
      for (int k = q; k < q + 4; k++) {
        sum[k] += work[k] * left;
        most[k] = pz_fmax(most[k], sum[k] + tail);
      }
  }
  for (int k = 0; k < g->n_measures; k++) bound = pz_fmax(bound, most[k]);
  return counted(g, PZ_T_node_energy_bound, n->t + bound);
}

/* The dual value of the rest (column_generation.c). */
double pz_partial_dual_bound(const struct pz_branching *g, const struct pz_partial *n) {
  if (!g->c->o->node_dual_bound || g->c->duals.sum <= 0) return n->t;
  return counted(g, PZ_T_node_dual_bound, n->t + n->left_s);
}
