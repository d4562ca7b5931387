/* Chooses the deferred tasks and inserts them into schedules (deferred.h).
 *
 * pz_deferred_search() chooses tasks to defer and repeats the search, each time without those that did not fit,
 * until all that are left fit or none is left.  pz_deferred_insert() is called by the searches for every
 * complete schedule. */
#include "schedule/tree/deferred.h"

#include <float.h>
#include <math.h>

#include "schedule/bound/root_bound.h"

/* Tuned: tasks shorter than this fraction of the makespan are deferred, if they can end before
 * END_FRACTION of the bound. */
static const double SHORT_FRACTION = 0.03, END_FRACTION = 0.9;

/* ---- inserting into a schedule -------------------------------------------------------------- */

/* Inserts the deferred tasks into a complete schedule.  Returns the makespan with them.  Each task gets
 * the mode that uses the least resource time (its duration times the sum of the fractions of resources
 * that it uses) among those that end within the makespan, or if none does, the mode that ends first. */
double pz_deferred_insert(struct pz_deferred *deferred, const struct pz_branching *tree,
                          double makespan) {
  const struct pz_problem *problem = tree->problem;
  struct pz_slot *slots = tree->slots;
  double last_end = makespan;
  pz_profile_clear(&deferred->profile);
  for (uint32_t i = 0; i < problem->n; i++)
    if (!deferred->is_deferred[i])
      pz_profile_occupy(&deferred->profile, slots[i].start,
                        &problem->tasks[i].modes[slots[i].mode]);
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    double ready = 0, least_used = DBL_MAX;
    if (!deferred->is_deferred[i]) continue;
    slots[i] = (struct pz_slot){0, DBL_MAX, 0};
    for (uint32_t k = 0; k < task->n_pred; k++) ready = fmax(ready, slots[task->pred[k]].end);
    for (uint32_t m = 0; m < task->n_modes; m++) {
      const struct pz_mode *mode = &task->modes[m];
      if (tree->context->eliminated[tree->context->first_mode[i] + m]) continue;
      double start = pz_profile_earliest(&deferred->profile, ready, mode), fractions = 0;
      double end = start + mode->duration;
      for (int r = 0; r < PZ_RESOURCES; r++)
        if (mode->use[r]) fractions += (double)mode->use[r] / (double)problem->capacity[r];
      double used = fractions * mode->duration;
      bool fits = end <= makespan;
      bool worse = fits ? used >= least_used : end >= slots[i].end;
      if (worse) continue;
      if (fits) least_used = used;
      slots[i] = (struct pz_slot){start, end, m};
    }
    pz_profile_occupy(&deferred->profile, slots[i].start, &task->modes[slots[i].mode]);
    last_end = fmax(last_end, slots[i].end);
    if (slots[i].end > makespan) deferred->failed[i] = true;
  }
  if (last_end > makespan) deferred->unfit_s = fmin(deferred->unfit_s, makespan);
  return last_end;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Chooses short tasks whose successors are all deferred, because these mostly fit into schedules of
 * the other tasks.  Returns their number.  If milestones use resources, no task is deferred, because
 * it could occupy the capacity at their instants. */
static uint32_t choose_deferred(struct pz_deferred *deferred, const struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  struct pz_technique_count *count = &context->count[PZ_T_deferred_tasks];
  bool *is_deferred = deferred->is_deferred;
  uint32_t n = 0;
  if (!context->techniques->deferred_tasks) return 0;
  count->calls++;
  for (uint32_t i = 0; i < problem->n; i++)
    if (pz_milestone_uses(&problem->tasks[i])) return 0;
  for (uint32_t i = problem->n; i-- > 0;) {
    const struct pz_task *task = &problem->tasks[i];
    double least_s = context->least_s[i];
    bool is_short = least_s > 0 && least_s < SHORT_FRACTION * context->incumbent_s;
    bool ends_early = context->head_s[i] + least_s < END_FRACTION * context->lower_bound_s;
    is_deferred[i] = is_short && ends_early;
    for (uint32_t k = 0; k < task->n_succ; k++)
      is_deferred[i] = is_deferred[i] && is_deferred[task->succ[k]];
    n += is_deferred[i];
  }
  count->prunes += n; /* for this technique: the number of deferred tasks */
  return n;
}

/* Searches with deferred tasks, and finally with all tasks if the gap is still open.  While tasks are
 * deferred, the tails leave them out.  Otherwise a schedule of the other tasks could be dominated by
 * one into which the deferred tasks do not fit, and neither would be found. */
void pz_deferred_search(struct pz_context *context, pz_searcher *search, int64_t steps) {
  const struct pz_problem *problem = context->problem;
  int64_t end = context->steps + steps;
  if (problem->n == 0 || problem->n > PZ_TREE_MOST_TASKS) return;
  struct pz_call scratch = pz_scratch(context->call);
  struct pz_deferred deferred = {.profile = pz_profile_new(&scratch, problem)};
  deferred.is_deferred = pz_alloc(&scratch, problem->n, sizeof *deferred.is_deferred);
  deferred.failed = pz_alloc(&scratch, problem->n, sizeof *deferred.failed);
  uint32_t n = choose_deferred(&deferred, context);
  while (n && pz_open(context)) {
    deferred.unfit_s = DBL_MAX;
    pz_bound_tails(context, deferred.is_deferred);
    search(context, end - context->steps, &deferred);
    pz_bound_tighten(context);
    /* stop deferring the tasks that did not fit, and their predecessors */
    uint32_t n_left = 0;
    for (uint32_t i = problem->n; i-- > 0;) {
      bool still_deferred = deferred.is_deferred[i] && !deferred.failed[i];
      for (uint32_t k = 0; k < problem->tasks[i].n_succ; k++)
        still_deferred = still_deferred && deferred.is_deferred[problem->tasks[i].succ[k]];
      deferred.is_deferred[i] = still_deferred;
      n_left += still_deferred;
    }
    if (n_left == n) break; /* all fitted, or the search stopped at its effort limit */
    n = n_left;
  }
  if (pz_open(context)) search(context, end - context->steps, NULL);
  pz_scratch_end(&scratch);
}
