#include "schedule/tree/deferred.h"

#include "schedule/bound/root_bound.h"
#include <float.h>
#include <math.h>

/* Tuned: tasks shorter than this part of the makespan are deferred, if they can end before that
 * part of the bound. */
static const double SHORT_PART = 0.03, END_PART = 0.9;

/* ---- in a schedule of the others ------------------------------------------------------------- */

static double busy(const struct pz_problem *p, const struct pz_mode *m) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) sum += (double)m->use[r] / (double)p->capacity[r];
  return sum * m->s;
}

/* Where it ends within the makespan and keeps least busy; otherwise where it ends first. */
static void put(struct pz_deferred *x, const struct pz_branching *g, uint32_t i, double makespan) {
  const struct pz_task *t = &g->p->tasks[i];
  struct pz_slot best = {0, DBL_MAX, 0};
  double ready = 0, least = DBL_MAX;
  for (uint32_t k = 0; k < t->n_pred; k++) ready = fmax(ready, g->slots[t->pred[k]].end);
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (g->c->eliminated[g->c->mode_at[i] + m]) continue;
    double start = pz_profile_earliest(&x->profile, ready, &t->modes[m]);
    double end = start + t->modes[m].s, b = busy(g->p, &t->modes[m]);
    if (end <= makespan ? b >= least : end >= best.end) continue;
    if (end <= makespan) least = b;
    best = (struct pz_slot){start, end, m};
  }
  g->slots[i] = best;
  pz_profile_occupy(&x->profile, best.start, &t->modes[best.mode]);
}

double pz_deferred_insert(struct pz_deferred *x, const struct pz_branching *g, double makespan) {
  double end = makespan;
  pz_profile_clear(&x->profile);
  for (uint32_t i = 0; i < g->p->n; i++)
    if (!x->is[i])
      pz_profile_occupy(&x->profile, g->slots[i].start, &g->p->tasks[i].modes[g->slots[i].mode]);
  for (uint32_t i = 0; i < g->p->n; i++) {
    if (!x->is[i]) continue;
    put(x, g, i, makespan);
    end = fmax(end, g->slots[i].end);
    if (g->slots[i].end > makespan) x->failed[i] = true;
  }
  if (end > makespan) x->unfit_s = fmin(x->unfit_s, makespan);
  return end;
}

/* ---- the search in two steps ----------------------------------------------------------------- */

/* Short tasks that nothing waits for: they mostly fit somewhere beside the others. */
static uint32_t choose_deferred(struct pz_deferred *x, const struct pz_context *c) {
  uint32_t n = 0;
  if (!c->o->deferred_tasks) return 0;
  c->count[PZ_T_deferred_tasks].calls++;
  for (uint32_t i = 0; i < c->p->n; i++) /* deferred tasks would not leave its capacity free */
    if (pz_milestone_uses(&c->p->tasks[i])) return 0;
  for (uint32_t i = c->p->n; i-- > 0;) {
    const struct pz_task *t = &c->p->tasks[i];
    x->is[i] = c->least_s[i] > 0 && c->least_s[i] < SHORT_PART * c->best_s &&
               c->head_s[i] + c->least_s[i] < END_PART * c->bound_s;
    for (uint32_t k = 0; k < t->n_succ; k++) x->is[i] = x->is[i] && x->is[t->succ[k]];
    n += x->is[i];
  }
  c->count[PZ_T_deferred_tasks].prunes += n;
  return n;
}

/* Those that did not fit are deferred no longer, nor what they wait for.  Returns how many still
 * are. */
static uint32_t readmit_failed(struct pz_deferred *x, const struct pz_problem *p) {
  uint32_t left = 0;
  for (uint32_t i = p->n; i-- > 0;) {
    const struct pz_task *t = &p->tasks[i];
    if (x->failed[i]) x->is[i] = false;
    for (uint32_t k = 0; k < t->n_succ; k++)
      if (!x->is[t->succ[k]]) x->is[i] = false;
    left += x->is[i];
  }
  return left;
}

/* The search of the others alone, with the tails that they have alone: if tails counted deferred
 * tasks, a schedule of the others could be dominated by one that is then refused for its deferred
 * tasks, and neither would count. */
static enum pz_status search_without_deferred(struct pz_context *c, pz_searcher *search,
                                              int64_t steps, struct pz_deferred *deferred,
                                              struct pz_error *err) {
  deferred->unfit_s = DBL_MAX;
  pz_bound_tails(c, deferred->is);
  enum pz_status status = search(c, steps, deferred, err);
  pz_bound_tighten(c);
  return status;
}

enum pz_status pz_deferred_search(struct pz_context *c, pz_searcher *search, int64_t steps,
                                  struct pz_error *err) {
  if (c->p->n == 0 || c->p->n > PZ_TREE_MOST_TASKS) return PZ_OK;
  struct pz_deferred deferred = {.is = pz_arena_alloc(c->arena, c->p->n, sizeof *deferred.is),
                                 .failed =
                                     pz_arena_alloc(c->arena, c->p->n, sizeof *deferred.failed)};
  if (!deferred.is || !deferred.failed || !pz_profile_init(&deferred.profile, c->p, c->arena))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  enum pz_status status = PZ_OK;
  int64_t end = c->steps + steps;
  for (uint32_t n = choose_deferred(&deferred, c), left = 0; n && status == PZ_OK && pz_open(c);
       n = left) {
    status = search_without_deferred(c, search, end - c->steps, &deferred, err);
    left = readmit_failed(&deferred, c->p);
    if (left == n) break;
  }
  if (status == PZ_OK && pz_open(c)) status = search(c, end - c->steps, NULL, err);
  return status;
}
