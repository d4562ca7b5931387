/* Lower bounds at the root: the longest path; and energetic reasoning (Baptiste, Le Pape and
 * Nuijten 1999): for every combination of resources and every tail length, the work of all tasks
 * with at least that tail (or head) must fit before it.  A mode whose bound reaches the incumbent
 * is eliminated (Sprecher, Hartmann and Drexl 1997), which improves the bounds. */
#include "schedule/bound/root_bound.h"

#include "schedule/bound/head_tail.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

static double mode_work(const struct pz_context *c, const struct pz_mode *m, int mix) {
  double w = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) w += c->mix[mix][r] * (double)m->use[r] / (double)c->p->capacity[r];
  return w * m->s;
}

static void path_tails(struct pz_context *c, const bool *without) {
  memset(c->tail_s, 0, c->p->n * sizeof *c->tail_s);
  for (uint32_t i = c->p->n; i-- > 0;)
    for (uint32_t k = 0; k < c->p->tasks[i].n_succ; k++) {
      uint32_t s = c->p->tasks[i].succ[k];
      if (!without || !without[s])
        c->tail_s[i] = pz_fmax(c->tail_s[i], c->tail_s[s] + c->least_s[s]);
    }
}

void pz_bound_tails(struct pz_context *c, const bool *without) {
  c->derived.valid = false;
  path_tails(c, without);
  if (c->head_tail && c->o->head_tail_tightening) pz_head_tail_tails(c, without);
}

/* Least time and work over the modes that are left, heads and tails.  False: a task has none. */
static bool derive(struct pz_context *c) {
  const struct pz_problem *p = c->p;
  memset(c->head_s, 0, p->n * sizeof *c->head_s);
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_task *t = &p->tasks[i];
    c->least_s[i] = DBL_MAX;
    for (int k = 0; k < PZ_MIXES; k++) c->work[i][k] = DBL_MAX;
    for (uint32_t m = 0; m < t->n_modes; m++) {
      if (c->eliminated[c->mode_at[i] + m]) continue;
      c->least_s[i] = pz_fmin(c->least_s[i], t->modes[m].s);
      for (int k = 0; k < PZ_MIXES; k++)
        c->work[i][k] = pz_fmin(c->work[i][k], mode_work(c, &t->modes[m], k));
    }
    if (c->least_s[i] == DBL_MAX) return false;
    for (uint32_t k = 0; k < t->n_pred; k++)
      c->head_s[i] = pz_fmax(c->head_s[i], c->head_s[t->pred[k]] + c->least_s[t->pred[k]]);
  }
  path_tails(c, NULL);
  return true;
}

struct keyed {
  double key;
  uint32_t task;
};

static int descending(const void *a, const void *b) {
  const struct keyed *x = a, *y = b;
  return x->key < y->key ? 1 : x->key > y->key ? -1 : x->task < y->task ? -1 : 1;
}

/* Work of the tasks with key at least k, plus k: tails at the end, or heads at the beginning. */
static double work_bound(const struct pz_context *c, struct keyed *list, const double *key) {
  double sum[PZ_MIXES] = {0}, bound = 0;
  for (uint32_t i = 0; i < c->p->n; i++) list[i] = (struct keyed){key[i], i};
  qsort(list, c->p->n, sizeof *list, descending);
  for (uint32_t i = 0; i < c->p->n; i++)
    for (int k = 0; k < PZ_MIXES; k++) {
      sum[k] += c->work[list[i].task][k];
      bound = pz_fmax(bound, sum[k] + list[i].key);
    }
  return bound;
}

static void bound_root(struct pz_context *c, struct keyed *list) {
  double bound = 0;
  for (uint32_t i = 0; i < c->p->n; i++)
    bound = pz_fmax(bound, c->head_s[i] + c->least_s[i] + c->tail_s[i]);
  pz_update_bound(c, bound, PZ_T_NONE);
  if (!list || !c->o->energetic_bound) return; /* the path alone is a bound too */
  bound = work_bound(c, list, c->tail_s);
  bound = pz_fmax(bound, work_bound(c, list, c->head_s));
  c->count[PZ_T_energetic_bound].calls++;
  pz_update_bound(c, bound, PZ_T_energetic_bound);
}

/* A bound for schedules with this mode. */
static double mode_bound(const struct pz_context *c, uint32_t i, uint32_t m,
                         const double total[PZ_MIXES]) {
  const struct pz_mode *mode = &c->p->tasks[i].modes[m];
  double bound = c->head_s[i] + mode->s + c->tail_s[i];
  for (int k = 0; k < PZ_MIXES && c->o->energetic_bound; k++)
    bound = pz_fmax(bound, total[k] - c->work[i][k] + mode_work(c, mode, k));
  const struct pz_duals *f = &c->duals;
  return pz_fmax(bound, f->sum - f->least[i] + f->rate[c->mode_at[i] + m] * mode->s);
}

/* Were modes eliminated? */
static bool eliminate_modes(struct pz_context *c) {
  double total[PZ_MIXES] = {0};
  bool any = false;
  c->count[PZ_T_mode_elimination].calls++;
  for (uint32_t i = 0; i < c->p->n; i++)
    for (int k = 0; k < PZ_MIXES; k++) total[k] += c->work[i][k];
  for (uint32_t i = 0; i < c->p->n; i++)
    for (uint32_t m = 0; m < c->p->tasks[i].n_modes; m++) {
      bool *eliminated = &c->eliminated[c->mode_at[i] + m];
      if (*eliminated || pz_better(c, mode_bound(c, i, m, total), c->best_s)) continue;
      *eliminated = any = true;
      c->count[PZ_T_mode_elimination].prunes++;
    }
  return any;
}

/* The modes of least value may be gone: dual values hold for those that are left. */
static void update_duals(struct pz_context *c) {
  struct pz_duals *f = &c->duals;
  f->sum = 0;
  for (uint32_t i = 0; i < c->p->n; i++) {
    const struct pz_task *t = &c->p->tasks[i];
    f->least[i] = DBL_MAX;
    for (uint32_t m = 0; m < t->n_modes; m++)
      if (!c->eliminated[c->mode_at[i] + m])
        f->least[i] = pz_fmin(f->least[i], f->rate[c->mode_at[i] + m] * t->modes[m].s);
    f->sum += f->least[i];
  }
  pz_update_bound(c, f->sum, PZ_T_column_generation);
}

static struct pz_derived derived_from(const struct pz_context *c) {
  struct pz_derived d = {
      .n_dual_updates = c->n_dual_updates, .head_tail = c->head_tail, .valid = true};
  for (uint32_t m = 0; m < c->n_modes; m++) d.n_eliminated += c->eliminated[m];
  return d;
}

static bool up_to_date(const struct pz_context *c) {
  struct pz_derived now = derived_from(c), last = c->derived;
  return last.valid && last.n_eliminated == now.n_eliminated &&
         last.n_dual_updates == now.n_dual_updates && last.head_tail == now.head_tail;
}

/* Heads, tails and bounds of the modes that are left.  False: a task has none. */
static bool renew(struct pz_context *c, struct keyed *list) {
  if (up_to_date(c)) return true;
  if (!derive(c)) return false;
  update_duals(c);
  if (c->head_tail && c->o->head_tail_tightening) {
    c->count[PZ_T_head_tail_tightening].calls++;
    pz_update_bound(c, pz_head_tail_tighten(c), PZ_T_head_tail_tightening);
  }
  bound_root(c, list);
  c->derived = derived_from(c);
  return true;
}

void pz_bound_tighten(struct pz_context *c) {
  struct keyed *list = pz_arena_alloc(c->arena, c->p->n, sizeof *list);
  for (bool again = true; again && (c->bound_s <= 0 || pz_open(c));) {
    if (!renew(c, list)) { /* no schedule is better than the incumbent */
      pz_update_bound(c, c->best_s, PZ_T_mode_elimination);
      return;
    }
    again = c->best_s < DBL_MAX && c->o->mode_elimination && eliminate_modes(c);
  }
}
