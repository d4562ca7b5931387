/* Moves between partial schedules, and rules that leave out moves (partial.h). */
#include "schedule/tree/partial.h"

#include <float.h>
#include <string.h>

/* ---- dominance ------------------------------------------------------------------------------- */

bool pz_partial_dominated(const struct pz_branching *g, const struct pz_going *a,
                          const struct pz_going *by) {
  if (by->t > a->t + 1e-12 * g->c->scale) return false;
  for (uint32_t i = 0; i < by->n; i++) {
    const struct pz_running *r = &by->run[i], *same = NULL;
    if (r->end <= a->t) continue;
    for (uint32_t k = 0; k < a->n && !same; k++)
      if (a->run[k].task == r->task) same = &a->run[k];
    if (!same || r->end > same->end) return false;
    if (r->mode == same->mode) continue;
    const struct pz_task *task = &g->p->tasks[same->task];
    for (int k = 0; k < PZ_RESOURCES; k++)
      if (task->modes[r->mode].use[k] > task->modes[same->mode].use[k]) return false;
  }
  return true;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Whether the task is ready, and the first of the ready tasks that are interchangeable with it. */
static bool eligible(const struct pz_branching *g, const struct pz_partial *n, uint32_t i) {
  if (!pz_bits_has(&n->ready, i)) return false;
  uint64_t before = 0;
  for (int w = 0; w < g->words; w++) before |= g->interchangeable[i].w[w] & n->ready.w[w];
  return !before;
}

/* Sets the ready tasks from the started and finished ones. */
static void find_ready(const struct pz_branching *g, struct pz_partial *n) {
  n->ready = (struct pz_bits){{0}};
  for (uint32_t i = 0; i < g->p->n; i++)
    if (!pz_bits_has(&n->started, i) && pz_branching_within(g, &g->before[i], &n->finished))
      pz_bits_set(&n->ready, i);
}

static void finish_task(const struct pz_branching *g, struct pz_partial *n, uint32_t i) {
  const struct pz_task *t = &g->p->tasks[i];
  pz_bits_set(&n->finished, i);
  for (uint32_t k = 0; k < t->n_succ; k++)
    if (pz_branching_within(g, &g->before[t->succ[k]], &n->finished) &&
        !pz_bits_has(&n->started, t->succ[k])) /* deferred ones count as started */
      pz_bits_set(&n->ready, t->succ[k]);
}

/* Starts and finishes the task if it can be a milestone now.  Returns whether it could. */
static bool start_milestone(struct pz_branching *g, struct pz_partial *n, uint32_t i) {
  const struct pz_task *t = &g->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (g->c->eliminated[g->c->mode_at[i] + m] || t->modes[m].s > 0 ||
        !pz_mode_fits(n->free, &t->modes[m]))
      continue;
    pz_bits_set(&n->started, i);
    pz_bits_clear(&n->ready, i);
    finish_task(g, n, i);
    n->alone_s += g->c->least_s[i];
    n->left_s -= g->c->duals.least[i];
    g->slots[i] = (struct pz_slot){n->t, n->t, m};
    return true;
  }
  return false;
}

/* Starts all milestones that fit.  It is never better to start one later. */
static void finish_milestones(struct pz_branching *g, struct pz_partial *n) {
  for (bool again = true; again;) {
    again = false;
    PZ_EACH_BIT(i, g->words, n->ready.w[w] & g->milestones.w[w]) {
      if (eligible(g, n, i) && start_milestone(g, n, i)) again = true;
    }
  }
}

/* Left shift: whether the task could have started at the previous decision time and run until now.  Then a schedule in
 * which it did is as good (only semi-active schedules need to be searched: Sprecher, Kolisch and Drexl 1995), unless a
 * milestone needs the capacity at this instant. */
static bool could_shift_left(const struct pz_partial *n, uint32_t i, const struct pz_mode *m) {
  return n->t > n->t_before && pz_bits_has(&n->could_before, i) && pz_mode_fits(n->free_before, m);
}

/* Whether some mode of the task fits now and takes at most this time. */
static bool fits_within(const struct pz_branching *g, const struct pz_partial *n, uint32_t i,
                        double slack_s) {
  const struct pz_task *t = &g->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (t->modes[m].s <= slack_s && !g->c->eliminated[g->c->mode_at[i] + m] &&
        pz_mode_fits(n->free, &t->modes[m]))
      return true;
  return false;
}

bool pz_partial_wait_dominated(const struct pz_branching *g, const struct pz_partial *n) {
  double slack_s = DBL_MAX;
  for (uint32_t i = 0; i < n->n_running; i++) slack_s = pz_fmin(slack_s, n->run[i].end - n->t);
  if (g->milestones_use || !g->c->o->wait_dominance) return false;
  g->c->count[PZ_T_wait_dominance].calls++;
  PZ_EACH_BIT(i, g->words, n->ready.w[w]) {
    if (g->c->least_s[i] <= slack_s && eligible(g, n, i) && fits_within(g, n, i, slack_s)) {
      g->c->count[PZ_T_wait_dominance].prunes++;
      return true;
    }
  }
  return false;
}

/* A lower bound with this task started now, by dual values and its own path. */
static double quick_bound(const struct pz_branching *g, const struct pz_partial *n, uint32_t i,
                          uint32_t mode) {
  const struct pz_context *c = g->c;
  double s = g->p->tasks[i].modes[mode].s, left = s + c->tail_s[i];
  const struct pz_duals *f = &c->duals;
  if (!c->o->node_dual_bound) return n->t + left;
  return n->t + pz_fmax(left, n->left_s - f->least[i] + f->rate[c->mode_at[i] + mode] * s);
}

static bool may_start(const struct pz_branching *g, const struct pz_partial *n, uint32_t i,
                      uint32_t mode) {
  const struct pz_context *c = g->c;
  const struct pz_mode *m = &g->p->tasks[i].modes[mode];
  if (c->eliminated[c->mode_at[i] + mode] || !pz_mode_fits(n->free, m)) return false;
  if (!g->milestones_use && c->o->left_shift) {
    bool shifts = could_shift_left(n, i, m);
    c->count[PZ_T_left_shift].calls++;
    c->count[PZ_T_left_shift].prunes += shifts;
    if (shifts) return false;
  }
  return pz_better(c, quick_bound(g, n, i, mode), c->best_s);
}

struct pz_start pz_partial_starts(const struct pz_branching *g, const struct pz_partial *n) {
  struct pz_start k = {.n_modes = 0};
  uint32_t from = n->last_rank == PZ_NONE ? 0 : n->last_rank + 1;
  PZ_EACH_BIT(i, g->words, n->ready.w[w]) {
    if (g->rank[i] >= from) pz_bits_set(&k.ranks, g->rank[i]);
  }
  return k;
}

/* Goes on to the next task that may start.  Returns whether there is one. */
static bool next_task(const struct pz_branching *g, const struct pz_partial *n,
                      struct pz_start *k) {
  for (int w = 0; w < g->words; w++)
    while (k->ranks.w[w]) {
      k->task = g->by_path[64 * w + __builtin_ctzll(k->ranks.w[w])];
      k->ranks.w[w] &= k->ranks.w[w] - 1;
      g->c->count[PZ_T_interchangeable_tasks].calls++;
      if (!eligible(g, n, k->task)) {
        g->c->count[PZ_T_interchangeable_tasks].prunes++;
        continue;
      }
      k->next = 0;
      k->n_modes = g->p->tasks[k->task].n_modes;
      return true;
    }
  return false;
}

bool pz_partial_next(const struct pz_branching *g, const struct pz_partial *n, struct pz_start *k) {
  do {
    while (k->next < k->n_modes) {
      k->mode = k->next++;
      if (may_start(g, n, k->task, k->mode)) return true;
    }
  } while (next_task(g, n, k));
  return false;
}

void pz_partial_start(struct pz_branching *g, const struct pz_partial *from, uint32_t i,
                      uint32_t mode, struct pz_partial *to) {
  const struct pz_mode *m = &g->p->tasks[i].modes[mode];
  pz_partial_copy(to, from);
  pz_bits_set(&to->started, i);
  pz_bits_clear(&to->ready, i);
  to->run[to->n_running++] = (struct pz_running){i, mode, from->t + m->s};
  to->alone_s += g->c->least_s[i];
  for (int r = 0; r < PZ_RESOURCES; r++) to->free[r] -= m->use[r];
  to->left_s += g->c->duals.rate[g->c->mode_at[i] + mode] * m->s - g->c->duals.least[i];
  to->last_rank = g->rank[i];
  g->slots[i] = (struct pz_slot){from->t, from->t + m->s, mode};
}

uint32_t pz_partial_fastest(const struct pz_branching *g, uint32_t i) {
  const struct pz_context *c = g->c;
  uint32_t m = 0;
  while (c->eliminated[c->mode_at[i] + m] || c->p->tasks[i].modes[m].s > c->least_s[i]) m++;
  return m;
}

void pz_partial_alone(struct pz_branching *g, struct pz_partial *n, const struct pz_bits *tasks) {
  const struct pz_context *c = g->c;
  PZ_EACH_BIT(i, g->words, tasks->w[w]) {
    g->slots[i] = (struct pz_slot){n->t, n->t + c->least_s[i], pz_partial_fastest(g, i)};
    n->t += c->least_s[i];
    n->alone_s += c->least_s[i];
    pz_bits_set(&n->started, i);
    pz_bits_set(&n->finished, i);
    n->left_s -= c->duals.least[i];
  }
  n->t_before = n->t;
  n->last_rank = PZ_NONE;
  find_ready(g, n);
  finish_milestones(g, n);
}

void pz_partial_advance(struct pz_branching *g, const struct pz_partial *from,
                        struct pz_partial *to) {
  double next = DBL_MAX;
  for (uint32_t i = 0; i < from->n_running; i++) next = pz_fmin(next, from->run[i].end);
  double slack = 1e-13 * g->c->scale;
  pz_partial_copy(to, from);
  to->t_before = from->t;
  to->t = next;
  to->wait = from->last_rank == PZ_NONE ? from->wait : ++g->n_waits;
  to->last_rank = PZ_NONE;
  to->n_running = 0;
  memcpy(to->free_before, from->free, sizeof to->free);
  PZ_EACH_BIT(i, g->words, from->ready.w[w]) {
    if (eligible(g, from, i)) pz_bits_set(&to->could_before, i);
  }
  for (uint32_t i = 0; i < from->n_running; i++) {
    const struct pz_running *r = &from->run[i];
    to->left_s -= g->c->duals.rate[g->c->mode_at[r->task] + r->mode] * (next - from->t);
    if (r->end > next + slack) {
      to->run[to->n_running++] = *r;
      continue;
    }
    finish_task(g, to, r->task);
    for (int k = 0; k < PZ_RESOURCES; k++)
      to->free[k] += g->p->tasks[r->task].modes[r->mode].use[k];
  }
  finish_milestones(g, to);
}

/* ---- from beginning to end ------------------------------------------------------------------- */

void pz_partial_begin(struct pz_branching *g, const bool *deferred, struct pz_partial *out) {
  *out = (struct pz_partial){.last_rank = PZ_NONE, .left_s = g->c->duals.sum};
  memcpy(out->free, g->p->capacity, sizeof out->free);
  for (uint32_t i = 0; deferred && i < g->p->n; i++) {
    if (!deferred[i]) continue;
    pz_bits_set(&out->started, i);
    pz_bits_set(&out->finished, i);
    out->left_s -= g->c->duals.least[i];
  }
  find_ready(g, out);
  finish_milestones(g, out);
}

bool pz_partials_init(struct pz_partials *x, uint32_t tasks, size_t n, struct pz_arena *arena) {
  x->node_bytes = (sizeof(struct pz_partial) + tasks * sizeof(struct pz_running) + 15) / 16 * 16;
  x->nodes = pz_arena_alloc(arena, n, x->node_bytes);
  return x->nodes != NULL;
}

void pz_partial_copy(struct pz_partial *to, const struct pz_partial *from) {
  if (to != from) memcpy(to, from, sizeof *from + from->n_running * sizeof *from->run);
}

bool pz_partial_complete(const struct pz_branching *g, const struct pz_partial *n) {
  return pz_branching_within(g, &g->all, &n->started);
}

double pz_partial_end(const struct pz_partial *n) {
  double end = n->t;
  for (uint32_t i = 0; i < n->n_running; i++) end = pz_fmax(end, n->run[i].end);
  return end;
}
