/* Independent checker of a schedule: durations, precedence, capacities and makespan.  It shares only types with the
 * solvers.
 *
 * check_capacities() sweeps over the starts and ends of all tasks in order of time and counts the use of every resource. */
#include "schedule/model/schedule.h"

#include <math.h>
#include <stdlib.h>

/* The start or end of a task, or a task of zero duration (POINT).  At one instant ends come
 * first, then points, which need their resources only at that instant, then starts. */
struct event {
  double time;
  uint32_t task;
  enum { END, POINT, START } kind;
};

/* Compares two events for qsort(): by time, then by kind. */
static int compare_events(const void *left, const void *right) {
  const struct event *first = left, *second = right;
  if (first->time != second->time) return first->time < second->time ? -1 : 1;
  return (first->kind > second->kind) - (first->kind < second->kind);
}

/* Checks that the use of no resource exceeds its capacity at any instant. */
static void check_capacities(struct pz_call *call, const struct pz_problem *problem,
                             const struct pz_slot *slots, double slack) {
  struct event *events = pz_alloc(call, 2 * (size_t)problem->n, sizeof *events);
  int64_t used[PZ_RESOURCES] = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < problem->n; i++) {
    if (problem->tasks[i].modes[slots[i].mode].duration <= 0) {
      events[n++] = (struct event){slots[i].start, i, POINT};
      continue;
    }
    events[n++] = (struct event){slots[i].start + slack, i, START};
    events[n++] = (struct event){slots[i].end - slack, i, END};
  }
  qsort(events, n, sizeof *events, compare_events);
  for (uint32_t e = 0; e < n; e++) {
    uint32_t i = events[e].task;
    const struct pz_mode *mode = &problem->tasks[i].modes[slots[i].mode];
    for (int r = 0; r < PZ_RESOURCES; r++) {
      used[r] += events[e].kind == END ? -mode->use[r] : mode->use[r];
      if (used[r] > problem->capacity[r])
        pz_raise(call, PZ_INTERNAL,
                 "checker: at %g, when '%s' starts, %lld of %d units of resource %d are used",
                 slots[i].start, problem->tasks[i].name, (long long)used[r],
                 (int)problem->capacity[r], r);
      if (events[e].kind == POINT) used[r] -= mode->use[r];
    }
  }
}

/* Raises PZ_INTERNAL unless the schedule is valid and has this makespan. */
void pz_schedule_check(struct pz_call *call, const struct pz_problem *problem,
                       const struct pz_slot *slots, double makespan) {
  double last_end = 0, slack = 1e-9 * fmax(1e-30, makespan);
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    const struct pz_slot *slot = &slots[i];
    if (slot->mode >= task->n_modes)
      pz_raise(call, PZ_INTERNAL, "checker: '%s' runs in mode %u of %u", task->name, slot->mode,
               task->n_modes);
    double duration = task->modes[slot->mode].duration;
    if (!(slot->start >= -slack) || !(fabs(slot->end - slot->start - duration) <= slack))
      pz_raise(call, PZ_INTERNAL, "checker: '%s' runs from %g to %g, its mode takes %g", task->name,
               slot->start, slot->end, duration);
    for (uint32_t k = 0; k < task->n_pred; k++)
      if (!(slots[task->pred[k]].end <= slot->start + slack))
        pz_raise(call, PZ_INTERNAL, "checker: '%s' starts at %g, before '%s' ends at %g",
                 task->name, slot->start, problem->tasks[task->pred[k]].name,
                 slots[task->pred[k]].end);
    last_end = fmax(last_end, slot->end);
  }
  check_capacities(call, problem, slots, slack);
  if (!(fabs(last_end - makespan) <= slack))
    pz_raise(call, PZ_INTERNAL, "checker: the last operator ends at %g, not at %g", last_end,
             makespan);
}
