/* Independent checker of a schedule: durations, precedence, capacities and makespan.  It shares only types with the
 * solvers. */
#include "schedule/model/schedule.h"

#include <math.h>
#include <stdlib.h>

static void check_task(struct pz_call *call, const struct pz_problem *p,
                       const struct pz_slot *slots, uint32_t i, double slack) {
  const struct pz_task *t = &p->tasks[i];
  const struct pz_slot *s = &slots[i];
  if (s->mode >= t->n_modes)
    pz_raise(call, PZ_INTERNAL, "checker: '%s' runs in mode %u of %u", t->name, s->mode,
             t->n_modes);
  if (!(s->start >= -slack) || !(fabs(s->end - s->start - t->modes[s->mode].s) <= slack))
    pz_raise(call, PZ_INTERNAL, "checker: '%s' runs from %g to %g, its mode takes %g", t->name,
             s->start, s->end, t->modes[s->mode].s);
  for (uint32_t k = 0; k < t->n_pred; k++)
    if (!(slots[t->pred[k]].end <= s->start + slack))
      pz_raise(call, PZ_INTERNAL, "checker: '%s' starts at %g, before '%s' ends at %g", t->name,
               s->start, p->tasks[t->pred[k]].name, slots[t->pred[k]].end);
}

/* The begin or end of a task, or a task of no length (POINT).  At one instant ends come first, then points, which need
 * their resources only around that instant, then starts. */
struct event {
  double time;
  uint32_t task;
  enum { END, POINT, START } what;
};

static int by_time(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->what > y->what) - (x->what < y->what);
}

static void check_capacities(struct pz_call *call, const struct pz_problem *p,
                             const struct pz_slot *slots, double slack) {
  struct event *events = pz_alloc(call, 2 * (size_t)p->n, sizeof *events);
  int64_t used[PZ_RESOURCES] = {0};
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
  for (uint32_t e = 0; e < n; e++) {
    uint32_t i = events[e].task;
    const struct pz_mode *m = &p->tasks[i].modes[slots[i].mode];
    for (int r = 0; r < PZ_RESOURCES; r++) {
      used[r] += events[e].what == END ? -m->use[r] : m->use[r];
      if (used[r] > p->capacity[r])
        pz_raise(call, PZ_INTERNAL,
                 "checker: at %g, when '%s' starts, %lld of %d units of resource %d are used",
                 slots[i].start, p->tasks[i].name, (long long)used[r], (int)p->capacity[r], r);
      if (events[e].what == POINT) used[r] -= m->use[r];
    }
  }
}

struct check_args {
  const struct pz_problem *p;
  const struct pz_slot *slots;
  double makespan;
};

static void check_schedule(struct pz_call *call, void *ctx) {
  struct check_args *x = ctx;
  double last = 0, slack = 1e-9 * fmax(1e-30, x->makespan);
  for (uint32_t i = 0; i < x->p->n; i++) {
    check_task(call, x->p, x->slots, i, slack);
    last = fmax(last, x->slots[i].end);
  }
  check_capacities(call, x->p, x->slots, slack);
  if (!(fabs(last - x->makespan) <= slack))
    pz_raise(call, PZ_INTERNAL, "checker: the last operator ends at %g, not at %g", last,
             x->makespan);
}

enum pz_status pz_schedule_check(const struct pz_problem *p, const struct pz_slot *slots,
                                 double makespan, struct pz_error *err) {
  struct check_args x = {p, slots, makespan};
  return pz_border(check_schedule, &x, err);
}
