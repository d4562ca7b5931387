/* Chooses deferred tasks and inserts them (deferred.h).
 *
 * pz_deferred_search() chooses tasks to defer and repeats the search, each time without those that did not fit
 * (readmit_failed), until all that are left fit or none is left.  pz_deferred_insert() is called by the searches for every
 * complete schedule. */
#include "schedule/tree/deferred.h"

#include <float.h>
#include <math.h>

#include "schedule/bound/root_bound.h"

/* Tuned: tasks shorter than this fraction of the makespan are deferred, if they can end before END_FRACTION of the
 * bound. */
static const double SHORT_FRACTION = 0.03, END_FRACTION = 0.9;

/* ---- inserting into a schedule -------------------------------------------------------------- */

/* Time of the mode, weighted by the fractions of the resources that it uses. */
static double resource_time(const struct pz_problem *p, const struct pz_mode *m) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) sum += (double)m->use[r] / (double)p->capacity[r];
  return sum * m->s;
}

/* Inserts a task in the mode that ends within the makespan and uses the least; if no mode does, in the one that ends
 * first. */
static void insert_task(struct pz_deferred *x, const struct pz_branching *g, uint32_t i,
                        double makespan) {
  const struct pz_task *t = &g->p->tasks[i];
  struct pz_slot best = {0, DBL_MAX, 0};
  double ready = 0, least = DBL_MAX;
  for (uint32_t k = 0; k < t->n_pred; k++) ready = fmax(ready, g->slots[t->pred[k]].end);
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (g->c->eliminated[g->c->mode_at[i] + m]) continue;
    double start = pz_profile_earliest(&x->profile, ready, &t->modes[m]);
    double end = start + t->modes[m].s, used = resource_time(g->p, &t->modes[m]);
    bool fits = end <= makespan;
    bool worse = fits ? used >= least : end >= best.end;
    if (worse) continue;
    if (fits) least = used;
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
    insert_task(x, g, i, makespan);
    end = fmax(end, g->slots[i].end);
    if (g->slots[i].end > makespan) x->failed[i] = true;
  }
  if (end > makespan) x->unfit_s = fmin(x->unfit_s, makespan);
  return end;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Chooses short tasks that no task waits for except deferred ones: these mostly fit beside the others.  Returns their
 * number.  Where milestones use resources no task is deferred, because it could occupy the capacity at their instants. */
static uint32_t choose_deferred(struct pz_deferred *x, const struct pz_context *c) {
  uint32_t n = 0;
  if (!c->o->deferred_tasks) return 0;
  c->count[PZ_T_deferred_tasks].calls++;
  for (uint32_t i = 0; i < c->p->n; i++)
    if (pz_milestone_uses(&c->p->tasks[i])) return 0;
  for (uint32_t i = c->p->n; i-- > 0;) {
    const struct pz_task *t = &c->p->tasks[i];
    bool is_short = c->least_s[i] > 0 && c->least_s[i] < SHORT_FRACTION * c->best_s;
    bool ends_early = c->head_s[i] + c->least_s[i] < END_FRACTION * c->bound_s;
    x->is[i] = is_short && ends_early;
    for (uint32_t k = 0; k < t->n_succ; k++) x->is[i] = x->is[i] && x->is[t->succ[k]];
    n += x->is[i];
  }
  c->count[PZ_T_deferred_tasks].prunes += n;
  return n;
}

/* Stops deferring the tasks that did not fit, and their predecessors.  Returns the number of tasks that are still
 * deferred. */
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

struct deferred_search {
  struct pz_context *c;
  pz_searcher *search;
  int64_t steps;
};

/* Searches the other tasks with the tails that they have alone.  If tails counted deferred tasks, a schedule of the others
 * could be dominated by one that is then refused for its deferred tasks, and neither would count. */
static void search_with_deferred(struct pz_call *call, void *ctx) {
  struct deferred_search *x = ctx;
  struct pz_context *c = x->c;
  struct pz_deferred deferred = {.is = pz_alloc(call, c->p->n, sizeof *deferred.is),
                                 .failed = pz_alloc(call, c->p->n, sizeof *deferred.failed)};
  int64_t end = c->steps + x->steps;
  if (!pz_profile_init(&deferred.profile, c->p, call->arena))
    pz_raise(call, PZ_NO_MEMORY, "out of memory");
  uint32_t n = choose_deferred(&deferred, c);
  while (n && pz_open(c)) {
    deferred.unfit_s = DBL_MAX;
    pz_bound_tails(c, deferred.is);
    struct pz_error err = {0};
    enum pz_status status = x->search(c, end - c->steps, &deferred, &err);
    pz_bound_tighten(c);
    if (status != PZ_OK) pz_raise_again(call, &err);
    uint32_t left = readmit_failed(&deferred, c->p);
    if (left == n) break;
    n = left;
  }
  if (pz_open(c)) pz_must(call, x->search(c, end - c->steps, NULL, pz_call_error(call)));
}

enum pz_status pz_deferred_search(struct pz_context *c, pz_searcher *search, int64_t steps,
                                  struct pz_error *err) {
  struct deferred_search x = {c, search, steps};
  if (c->p->n == 0 || c->p->n > PZ_TREE_MOST_TASKS) return PZ_OK;
  return pz_border(search_with_deferred, &x, err);
}
