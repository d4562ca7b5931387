/* Independent checker of a schedule: durations, precedence, capacities and makespan. */
#include "schedule/model/schedule.h"

#include <math.h>
#include <stdlib.h>

#include "core/alloc.h"

static enum pz_status check_task(const struct pz_problem *p, const struct pz_slot *slots,
                                 uint32_t i, double slack, struct pz_error *err) {
  const struct pz_task *t = &p->tasks[i];
  const struct pz_slot *s = &slots[i];
  if (s->mode >= t->n_modes)
    return pz_fail(err, PZ_INTERNAL, "checker: '%s' runs in mode %u of %u", t->name, s->mode,
                   t->n_modes);
  if (!(s->start >= -slack) || !(fabs(s->end - s->start - t->modes[s->mode].s) <= slack))
    return pz_fail(err, PZ_INTERNAL, "checker: '%s' runs from %g to %g, its mode takes %g", t->name,
                   s->start, s->end, t->modes[s->mode].s);
  for (uint32_t k = 0; k < t->n_pred; k++)
    if (!(slots[t->pred[k]].end <= s->start + slack))
      return pz_fail(err, PZ_INTERNAL, "checker: '%s' starts at %g, before '%s' ends at %g",
                     t->name, s->start, p->tasks[t->pred[k]].name, slots[t->pred[k]].end);
  return PZ_OK;
}

/* Where something begins or ends.  At one instant ends come first, then operators of no length,
 * which need their resources only around it, then starts. */
struct event {
  double key;
  uint32_t task;
  enum { END, POINT, START } what;
};

static int by_time(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->what != y->what ? (x->what < y->what ? -1 : 1) : 0;
}

static uint32_t list_events(const struct pz_problem *p, const struct pz_slot *slots, double slack,
                            struct event *events) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->tasks[i].modes[slots[i].mode].s <= 0) {
      events[n++] = (struct event){slots[i].start, i, POINT};
      continue;
    }
    events[n++] = (struct event){slots[i].start + slack, i, START};
    events[n++] = (struct event){slots[i].end - slack, i, END};
  }
  qsort(events, n, sizeof *events, by_time);
  return n;
}

static enum pz_status check_capacities(const struct pz_problem *p, const struct pz_slot *slots,
                                       double slack, struct event *events, struct pz_error *err) {
  int64_t used[PZ_RESOURCES] = {0};
  uint32_t n = list_events(p, slots, slack, events);
  for (uint32_t e = 0; e < n; e++) {
    uint32_t i = events[e].task;
    const struct pz_mode *m = &p->tasks[i].modes[slots[i].mode];
    for (int r = 0; r < PZ_RESOURCES; r++) {
      used[r] += events[e].what == END ? -m->use[r] : m->use[r];
      if (used[r] > p->capacity[r])
        return pz_fail(err, PZ_INTERNAL,
                       "checker: at %g, when '%s' starts, %lld of %d units of resource %d are used",
                       slots[i].start, p->tasks[i].name, (long long)used[r], (int)p->capacity[r],
                       r);
      if (events[e].what == POINT) used[r] -= m->use[r];
    }
  }
  return PZ_OK;
}

enum pz_status pz_schedule_check(const struct pz_problem *p, const struct pz_slot *slots,
                                 double makespan, struct pz_error *err) {
  double last = 0, slack = 1e-9 * fmax(1e-30, makespan);
  for (uint32_t i = 0; i < p->n; i++) {
    enum pz_status status = check_task(p, slots, i, slack, err);
    if (status != PZ_OK) return status;
    last = fmax(last, slots[i].end);
  }
  struct event *events = pz_calloc(2 * (size_t)p->n + 1, sizeof *events);
  if (!events) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the checker");
  enum pz_status status = check_capacities(p, slots, slack, events, err);
  pz_free(events);
  if (status == PZ_OK && !(fabs(last - makespan) <= slack))
    status = pz_fail(err, PZ_INTERNAL, "checker: the last operator ends at %g, not at %g", last,
                     makespan);
  return status;
}
