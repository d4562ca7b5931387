/* Incumbents: serial list scheduling of a priority and a mode for each task, and a local search
 * over both.  Problems too large for it get one pass of event-driven list scheduling. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/context.h"

enum { MOST_TASKS = 512 };

/* The use of the resources over time: from time[i] to time[i + 1]; the last goes on for ever. */
struct profile {
  double time[2 * MOST_TASKS + 2];
  int32_t use[2 * MOST_TASKS + 2][PZ_RESOURCES];
  int n;
};

struct local {
  struct pz_context *c;
  struct profile profile;
  struct pz_slot slots[MOST_TASKS];
  double priority[MOST_TASKS];
  uint32_t mode[MOST_TASKS];
  uint32_t ready[MOST_TASKS], waits[MOST_TASKS];
  uint64_t random;
  bool backward; /* from the end: successors first, times counted back */
};

static uint32_t draw(struct local *l, uint32_t n) {
  l->random = l->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((l->random >> 33) % n);
}

static bool room(const struct pz_problem *p, const int32_t use[PZ_RESOURCES],
                 const struct pz_mode *m) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (use[r] + m->use[r] > p->capacity[r]) return false;
  return true;
}

/* At a boundary only what runs on both sides counts; that is at most the smaller use. */
static bool room_at_point(const struct pz_problem *p, const struct profile *f, int i,
                          const struct pz_mode *m) {
  for (int r = 0; r < PZ_RESOURCES; r++) {
    int32_t left = i ? f->use[i - 1][r] : 0, right = f->use[i][r];
    if ((left < right ? left : right) + m->use[r] > p->capacity[r]) return false;
  }
  return true;
}

/* The earliest start from `ready` on: at `ready` itself or where the use changes. */
static double earliest(const struct pz_problem *p, const struct profile *f, double ready,
                       const struct pz_mode *m) {
  int i = 0;
  while (i + 1 < f->n && f->time[i + 1] <= ready) i++;
  double start = ready;
  if (m->s <= 0) {
    for (;; i++, start = f->time[i])
      if (f->time[i] >= start ? room_at_point(p, f, i, m) : room(p, f->use[i], m)) return start;
  }
  for (;;) {
    int k = i;
    while (k < f->n && f->time[k] < start + m->s && room(p, f->use[k], m)) k++;
    if (k >= f->n || f->time[k] >= start + m->s) return start;
    i = k + 1;
    start = f->time[i];
  }
}

static int split(struct profile *f, double t) {
  int i = f->n - 1;
  while (f->time[i] > t) i--;
  if (f->time[i] == t) return i;
  memmove(&f->time[i + 2], &f->time[i + 1], (size_t)(f->n - i - 1) * sizeof f->time[0]);
  memmove(&f->use[i + 2], &f->use[i + 1], (size_t)(f->n - i - 1) * sizeof f->use[0]);
  f->time[i + 1] = t;
  memcpy(f->use[i + 1], f->use[i], sizeof f->use[0]);
  f->n++;
  return i + 1;
}

static void occupy(struct profile *f, double start, double end, const struct pz_mode *m) {
  int a = split(f, start), b = split(f, end);
  for (int i = a; i < b; i++)
    for (int r = 0; r < PZ_RESOURCES; r++) f->use[i][r] += m->use[r];
}

/* What must be placed before a task, and what waits for it. */
struct neighbours {
  const uint32_t *list;
  uint32_t n;
};

static struct neighbours before(const struct local *l, uint32_t t) {
  const struct pz_task *k = &l->c->p->tasks[t];
  return l->backward ? (struct neighbours){k->succ, k->n_succ}
                     : (struct neighbours){k->pred, k->n_pred};
}

static struct neighbours after(const struct local *l, uint32_t t) {
  const struct pz_task *k = &l->c->p->tasks[t];
  return l->backward ? (struct neighbours){k->pred, k->n_pred}
                     : (struct neighbours){k->succ, k->n_succ};
}

static void place(struct local *l, uint32_t t) {
  const struct pz_problem *p = l->c->p;
  const struct pz_mode *m = &p->tasks[t].modes[l->mode[t]];
  double ready = 0;
  struct neighbours b = before(l, t);
  for (uint32_t k = 0; k < b.n; k++) ready = fmax(ready, l->slots[b.list[k]].end);
  double start = earliest(p, &l->profile, ready, m);
  l->slots[t] = (struct pz_slot){start, start + m->s, l->mode[t]};
  if (m->s > 0) occupy(&l->profile, start, start + m->s, m);
}

/* Do the tasks of no length still have room at their instants, after all others were placed? */
static bool points_have_room(const struct local *l) {
  const struct pz_problem *p = l->c->p;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_mode *m = &p->tasks[i].modes[l->slots[i].mode];
    int32_t use[PZ_RESOURCES] = {0};
    if (m->s > 0) continue;
    for (uint32_t k = 0; k < p->n; k++)
      for (int r = 0; r < PZ_RESOURCES; r++)
        if (l->slots[k].start < l->slots[i].start && l->slots[k].end > l->slots[i].start)
          use[r] += p->tasks[k].modes[l->slots[k].mode].use[r];
    if (!room(p, use, m)) return false;
  }
  return true;
}

/* Times from the end become times from the beginning. */
static void mirror(struct local *l, double makespan) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    struct pz_slot *s = &l->slots[i];
    double start = makespan - s->end;
    s->end = makespan - s->start;
    s->start = start > 0 ? start : 0;
  }
}

/* Place all tasks: among the ready ones the one of highest priority first. */
static double generate(struct local *l) {
  const struct pz_problem *p = l->c->p;
  uint32_t n_ready = 0;
  double makespan = 0;
  l->profile.n = 1;
  l->profile.time[0] = 0;
  memset(l->profile.use[0], 0, sizeof l->profile.use[0]);
  for (uint32_t i = 0; i < p->n; i++) {
    l->waits[i] = before(l, i).n;
    if (!l->waits[i]) l->ready[n_ready++] = i;
  }
  while (n_ready) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n_ready; i++)
      if (l->priority[l->ready[i]] > l->priority[l->ready[best]]) best = i;
    uint32_t t = l->ready[best];
    l->ready[best] = l->ready[--n_ready];
    place(l, t);
    makespan = fmax(makespan, l->slots[t].end);
    struct neighbours a = after(l, t);
    for (uint32_t k = 0; k < a.n; k++)
      if (--l->waits[a.list[k]] == 0) l->ready[n_ready++] = a.list[k];
  }
  l->c->steps += p->n;
  if (pz_better(l->c, makespan, l->c->best_s)) {
    if (l->backward) mirror(l, makespan);
    if (points_have_room(l)) pz_context_offer(l->c, l->slots, makespan);
  }
  return makespan;
}

/* The mode that takes the least of a mix of the chip's time. */
static uint32_t thrifty(const struct pz_context *c, uint32_t t, int mix) {
  const struct pz_task *task = &c->p->tasks[t];
  uint32_t best = 0;
  double least = DBL_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++) {
    double w = 0;
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (c->p->capacity[r] > 0) w += c->mix[mix][r] * task->modes[m].use[r] / c->p->capacity[r];
    w *= task->modes[m].s;
    if (w < least) least = w, best = m;
  }
  return best;
}

static uint32_t fastest(const struct pz_task *t) {
  uint32_t best = 0;
  for (uint32_t m = 1; m < t->n_modes; m++)
    if (t->modes[m].s < t->modes[best].s) best = m;
  return best;
}

/* The start: priorities by the longest way to the end, modes all fast, or all thrifty by some mix.
 */
static void first_tries(struct local *l) {
  const struct pz_problem *p = l->c->p;
  for (uint32_t i = 0; i < p->n; i++) l->priority[i] = l->c->tail_s[i] + l->c->least_s[i];
  for (int way = -1; way < PZ_MIXES; way++) {
    for (uint32_t i = 0; i < p->n; i++)
      l->mode[i] = way < 0 ? fastest(&p->tasks[i]) : thrifty(l->c, i, way);
    generate(l);
  }
}

double pz_local_try(struct pz_context *c, const uint32_t *mode, const double *priority) {
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct local *l = c->p->n <= MOST_TASKS ? pz_arena_alloc(&arena, 1, sizeof *l) : NULL;
  double makespan = DBL_MAX;
  if (l) {
    l->c = c;
    memcpy(l->mode, mode, c->p->n * sizeof *mode);
    memcpy(l->priority, priority, c->p->n * sizeof *priority);
    makespan = generate(l);
  }
  pz_arena_release(&arena);
  return makespan;
}

static void adopt_best(struct local *l) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    l->mode[i] = l->c->best[i].mode;
    l->priority[i] = l->backward ? l->c->best[i].end : -l->c->best[i].start;
  }
}

/* One move: another mode for a task, or a priority next to another's.  What was changed is returned
 * for undoing. */
struct move {
  uint32_t task, mode;
  double priority;
};

static struct move change(struct local *l) {
  const struct pz_problem *p = l->c->p;
  uint32_t t = draw(l, p->n);
  struct move old = {t, l->mode[t], l->priority[t]};
  if (p->tasks[t].n_modes > 1 && draw(l, 2)) {
    l->mode[t] = (l->mode[t] + 1 + draw(l, p->tasks[t].n_modes - 1)) % p->tasks[t].n_modes;
    if (draw(l, 2)) return old;
  }
  uint32_t other = draw(l, p->n);
  double step = 1e-6 * l->c->scale * (1 + draw(l, 1000)) / 1000;
  l->priority[t] = l->priority[other] + (draw(l, 2) ? step : -step);
  return old;
}

/* Threshold accepting: worse by a shrinking part of the makespan will do. */
static void anneal(struct local *l, int64_t until) {
  struct pz_context *c = l->c;
  adopt_best(l);
  double now = generate(l);
  int64_t begin = c->steps;
  while (c->steps < until && pz_open(c)) {
    double left = (double)(until - c->steps) / (double)(until - begin);
    struct move old[3];
    int n = 1 + (int)draw(l, 3);
    for (int i = 0; i < n; i++) old[i] = change(l);
    double next = generate(l);
    if (next <= now + 0.03 * left * left * c->best_s * draw(l, 1000) / 1000) {
      now = next;
      continue;
    }
    for (int i = n; i-- > 0;) {
      l->mode[old[i].task] = old[i].mode;
      l->priority[old[i].task] = old[i].priority;
    }
  }
}

/* ---- large problems ------------------------------------------------------------------------- */

/* One after another in topological order, each in its fastest mode: valid for any size. */
static void in_sequence(struct pz_context *c, struct pz_slot *slots) {
  double t = 0;
  for (uint32_t i = 0; i < c->p->n; i++) {
    uint32_t m = fastest(&c->p->tasks[i]);
    slots[i] = (struct pz_slot){t, t + c->p->tasks[i].modes[m].s, m};
    t = slots[i].end;
  }
  c->steps += c->p->n;
  pz_context_offer(c, slots, t);
}

enum pz_status pz_local_search(struct pz_context *c, int64_t steps, struct pz_error *err) {
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct pz_slot *slots = pz_arena_alloc(&arena, c->p->n, sizeof *slots);
  struct local *l = c->p->n <= MOST_TASKS ? pz_arena_alloc(&arena, 1, sizeof *l) : NULL;
  bool ok = slots && (l || c->p->n > MOST_TASKS);
  if (ok && c->best_s == DBL_MAX) in_sequence(c, slots);
  if (ok && l && c->p->n) {
    int64_t end = c->steps + steps;
    l->c = c;
    l->random = 20240721 + (uint64_t)steps;
    first_tries(l);
    for (int round = 1; round <= 4; round++) {
      l->backward = round % 2 == 0;
      anneal(l, c->steps + (end - c->steps) / (5 - round));
    }
  }
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
}
