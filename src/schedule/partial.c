#include "schedule/partial.h"

#include <float.h>
#include <string.h>

static const double ENOUGH_WORK = 0.5; /* of the best makespan */

/* ---- bounds --------------------------------------------------------------------------------- */

/* Of what waits only what is ready counts: the tail of each task has those after it in it. */
double pz_partial_path_bound(const struct pz_growth *g, const struct pz_partial *n) {
  const struct pz_context *c = g->c;
  double left = 0, bound = n->t;
  for (uint32_t i = 0; i < n->n_running; i++)
    bound = pz_larger(bound, n->run[i].end + c->tail_s[n->run[i].task]);
  for (int w = 0; w < g->words; w++)
    for (uint64_t ready = n->ready.w[w]; ready; ready &= ready - 1) {
      uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(ready));
      left = pz_larger(left, c->least_s[i] + c->tail_s[i]);
    }
  return pz_larger(bound, n->t + left);
}

/* Room as it comes: at[0], which is now, and at each end of what runs, latest last. */
struct room {
  uint32_t n;
  double at[PZ_EXACT_MOST_TASKS + 1];
  int32_t left[PZ_EXACT_MOST_TASKS + 1][PZ_RESOURCES];
};

static void find_room(const struct pz_growth *g, const struct pz_partial *n, struct room *x) {
  const struct pz_running *order[PZ_EXACT_MOST_TASKS];
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

/* The earliest end of a task that starts at `from` or later. */
static double earliest_end(const struct pz_growth *g, const struct room *x, uint32_t i,
                           double from) {
  const struct pz_task *t = &g->p->tasks[i];
  const bool *dropped = &g->c->dropped[g->c->mode_at[i]];
  double end = DBL_MAX;
  for (uint32_t m = t->n_modes; m-- > 0;) {
    if (from + t->modes[m].s >= end || dropped[m]) continue;
    uint32_t k = 0;
    while (k < x->n && !pz_mode_fits(x->left[k], &t->modes[m])) k++;
    end = pz_smaller(end, pz_larger(from, x->at[k]) + t->modes[m].s);
  }
  return end;
}

/* Tasks of which no two can run at once, with the earliest start of each: for every start and tail,
 * those that have no less, one after another. */
static double bound_queue(const struct pz_growth *g, const struct pz_partial *n,
                          const double *start) {
  double bound = 0;
  for (uint32_t k = 0; k < g->n_queue; k++) {
    double sum = 0, from = start[g->queue[k]];
    if (pz_bits_has(&n->started, g->queue[k])) continue;
    for (uint32_t q = 0; q < g->n_queue; q++) { /* by falling tail */
      uint32_t i = g->queue[q];
      if (pz_bits_has(&n->started, i) || start[i] < from) continue;
      sum += g->c->least_s[i];
      bound = pz_larger(bound, from + sum + g->c->tail_s[i]);
    }
  }
  return bound;
}

/* Paths, with no more room for each task than what runs leaves it until its end. */
double pz_partial_room_bound(const struct pz_growth *g, const struct pz_partial *n) {
  double start[PZ_EXACT_MOST_TASKS], end[PZ_EXACT_MOST_TASKS], bound = n->t;
  struct room x;
  if (!n->n_running) return bound;
  find_room(g, n, &x);
  for (uint32_t i = 0; i < n->n_running; i++) end[n->run[i].task] = n->run[i].end;
  for (int w = 0; w < g->words; w++)
    for (uint64_t left = g->all.w[w] & ~n->started.w[w]; left; left &= left - 1) {
      uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(left));
      const struct pz_task *t = &g->p->tasks[i];
      start[i] = n->t;
      for (uint32_t k = 0; k < t->n_pred; k++)
        if (!pz_bits_has(&n->finished, t->pred[k])) start[i] = pz_larger(start[i], end[t->pred[k]]);
      end[i] =
          start[i] < x.at[x.n] ? earliest_end(g, &x, i, start[i]) : start[i] + g->c->least_s[i];
      bound = pz_larger(bound, end[i] + g->c->tail_s[i]);
    }
  return pz_larger(bound, bound_queue(g, n, start));
}

/* For every tail: the work that still has it behind, on top of it. */
double pz_partial_work_bound(const struct pz_growth *g, const struct pz_partial *n) {
  double sum[PZ_MEASURES] = {0}, most[PZ_MEASURES] = {0}, part[PZ_EXACT_MOST_TASKS], bound = 0;
  const double *rate[PZ_EXACT_MOST_TASKS];
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
        most[k] = pz_larger(most[k], sum[k] + tail);
      }
  }
  for (int k = 0; k < g->n_measures; k++) bound = pz_larger(bound, most[k]);
  return n->t + bound;
}

/* At the prices of a relaxation. */
double pz_partial_price_bound(const struct pz_partial *n) { return n->t + n->left_s; }

/* ---- dominance ------------------------------------------------------------------------------ */

bool pz_partial_dominated(const struct pz_growth *g, const struct pz_going *a,
                          const struct pz_going *by) {
  if (by->t > a->t + 1e-12 * g->c->scale) return false;
  for (uint32_t i = 0; i < by->n; i++) {
    const struct pz_running *r = &by->run[i], *same = NULL;
    if (r->end <= a->t) continue;
    for (uint32_t k = 0; k < a->n && !same; k++)
      if (a->run[k].task == r->task) same = &a->run[k];
    if (!same || r->end > same->end) return false;
    const struct pz_task *task = &g->p->tasks[same->task];
    for (int k = 0; k < PZ_RESOURCES; k++)
      if (task->modes[r->mode].use[k] > task->modes[same->mode].use[k]) return false;
  }
  return true;
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* Is it ready, and the first of those alike that are?  One that is promised waits only for others
 * that are: exchanged with one that is not it might run alone. */
static bool eligible(const struct pz_growth *g, const struct pz_partial *n, uint32_t i) {
  if (!pz_bits_has(&n->ready, i)) return false;
  bool promised = pz_bits_has(&n->promised, i);
  uint64_t before = 0;
  for (int w = 0; w < g->words; w++)
    before |= g->alike[i].w[w] & n->ready.w[w] & (promised ? n->promised.w[w] : UINT64_MAX);
  return !before;
}

/* From what is started and finished. */
static void find_ready(const struct pz_growth *g, struct pz_partial *n) {
  n->ready = (struct pz_bits){{0}};
  for (uint32_t i = 0; i < g->p->n; i++)
    if (!pz_bits_has(&n->started, i) && pz_growth_within(g, &g->before[i], &n->finished))
      pz_bits_set(&n->ready, i);
}

static void finish(const struct pz_growth *g, struct pz_partial *n, uint32_t i) {
  const struct pz_task *t = &g->p->tasks[i];
  pz_bits_set(&n->finished, i);
  for (uint32_t k = 0; k < t->n_succ; k++)
    if (pz_growth_within(g, &g->before[t->succ[k]], &n->finished) &&
        !pz_bits_has(&n->started, t->succ[k])) /* late ones count as started */
      pz_bits_set(&n->ready, t->succ[k]);
}

/* If the task can take no time now. */
static bool passes(struct pz_growth *g, struct pz_partial *n, uint32_t i) {
  const struct pz_task *t = &g->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (g->c->dropped[g->c->mode_at[i] + m] || t->modes[m].s > 0 ||
        !pz_mode_fits(n->free, &t->modes[m]))
      continue;
    pz_bits_set(&n->started, i);
    pz_bits_clear(&n->ready, i);
    finish(g, n, i);
    n->alone_s += g->c->least_s[i];
    n->left_s -= g->c->prices.least[i];
    g->slots[i] = (struct pz_slot){n->t, n->t, m};
    return true;
  }
  return false;
}

/* A task of no length starts and ends as soon as there is room around the instant; that never
 * hurts. */
static void finish_points(struct pz_growth *g, struct pz_partial *n) {
  for (bool again = true; again;) {
    again = false;
    for (int w = 0; w < g->words; w++)
      for (uint64_t left = n->ready.w[w] & g->points.w[w]; left; left &= left - 1) {
        uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(left));
        if (eligible(g, n, i) && passes(g, n, i)) again = true;
      }
  }
}

/* Could the task have been started at the time before, through to now?  Then a schedule in which it
 * was is as good, unless a task of no length wants the room at this instant. */
static bool left_shifts(const struct pz_partial *n, uint32_t i, const struct pz_mode *m) {
  return n->t > n->t_before && pz_bits_has(&n->could_before, i) && pz_mode_fits(n->free_before, m);
}

static bool fits_within(const struct pz_growth *g, const struct pz_partial *n, uint32_t i,
                        double room_s) {
  const struct pz_task *t = &g->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (t->modes[m].s <= room_s && !g->c->dropped[g->c->mode_at[i] + m] &&
        pz_mode_fits(n->free, &t->modes[m]))
      return true;
  return false;
}

bool pz_partial_idles(const struct pz_growth *g, const struct pz_partial *n) {
  double room_s = DBL_MAX;
  for (uint32_t i = 0; i < n->n_running; i++) room_s = pz_smaller(room_s, n->run[i].end - n->t);
  for (int w = 0; w < g->words && !g->instants; w++)
    for (uint64_t left = n->ready.w[w]; left; left &= left - 1) {
      uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(left));
      if (g->c->least_s[i] <= room_s && eligible(g, n, i) && fits_within(g, n, i, room_s))
        return true;
    }
  return false;
}

/* With this task started now, by prices and its own path: a quick bound. */
static double bound_with(const struct pz_growth *g, const struct pz_partial *n, uint32_t i,
                         uint32_t mode) {
  const struct pz_context *c = g->c;
  double s = g->p->tasks[i].modes[mode].s, left = s + c->tail_s[i];
  const struct pz_prices *f = &c->prices;
  return n->t + pz_larger(left, n->left_s - f->least[i] + f->rate[c->mode_at[i] + mode] * s);
}

static bool may_start(const struct pz_growth *g, const struct pz_partial *n, uint32_t i,
                      uint32_t mode) {
  const struct pz_context *c = g->c;
  const struct pz_mode *m = &g->p->tasks[i].modes[mode];
  return !c->dropped[c->mode_at[i] + mode] && pz_mode_fits(n->free, m) &&
         (g->instants || !left_shifts(n, i, m)) &&
         pz_better(c, bound_with(g, n, i, mode), c->best_s);
}

struct pz_start pz_partial_starts(const struct pz_growth *g, const struct pz_partial *n) {
  struct pz_start k = {.n_modes = 0};
  uint32_t from = n->last_rank == PZ_NONE ? 0 : n->last_rank + 1;
  for (int w = 0; w < g->words; w++)
    for (uint64_t left = n->ready.w[w]; left; left &= left - 1) {
      uint32_t rank = g->rank[64 * w + __builtin_ctzll(left)];
      if (rank >= from) pz_bits_set(&k.ranks, rank);
    }
  return k;
}

/* On to the next task that may start. */
static bool next_task(const struct pz_growth *g, const struct pz_partial *n, struct pz_start *k) {
  for (int w = 0; w < g->words; w++)
    while (k->ranks.w[w]) {
      k->task = g->by_path[64 * w + __builtin_ctzll(k->ranks.w[w])];
      k->ranks.w[w] &= k->ranks.w[w] - 1;
      if (!eligible(g, n, k->task)) continue;
      k->next = 0;
      k->n_modes = g->p->tasks[k->task].n_modes;
      return true;
    }
  return false;
}

bool pz_partial_next(const struct pz_growth *g, const struct pz_partial *n, struct pz_start *k) {
  do {
    while (k->next < k->n_modes) {
      k->mode = k->next++;
      if (may_start(g, n, k->task, k->mode)) return true;
    }
  } while (next_task(g, n, k));
  return false;
}

void pz_partial_start(struct pz_growth *g, const struct pz_partial *from, uint32_t i, uint32_t mode,
                      struct pz_partial *to) {
  const struct pz_mode *m = &g->p->tasks[i].modes[mode];
  pz_partial_copy(to, from);
  pz_bits_set(&to->started, i);
  pz_bits_clear(&to->ready, i);
  pz_bits_clear(&to->promised, i);
  to->run[to->n_running++] = (struct pz_running){i, mode, from->t + m->s};
  to->alone_s += g->c->least_s[i];
  for (int r = 0; r < PZ_RESOURCES; r++) to->free[r] -= m->use[r];
  to->left_s += g->c->prices.rate[g->c->mode_at[i] + mode] * m->s - g->c->prices.least[i];
  to->last_rank = g->rank[i];
  g->slots[i] = (struct pz_slot){from->t, from->t + m->s, mode};
}

uint32_t pz_partial_fastest(const struct pz_growth *g, uint32_t i) {
  const struct pz_context *c = g->c;
  uint32_t m = 0;
  while (c->dropped[c->mode_at[i] + m] || c->p->tasks[i].modes[m].s > c->least_s[i]) m++;
  return m;
}

void pz_partial_alone(struct pz_growth *g, struct pz_partial *n, const struct pz_bits *tasks) {
  const struct pz_context *c = g->c;
  for (int w = 0; w < g->words; w++)
    for (uint64_t left = tasks->w[w]; left; left &= left - 1) {
      uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(left));
      g->slots[i] = (struct pz_slot){n->t, n->t + c->least_s[i], pz_partial_fastest(g, i)};
      n->t += c->least_s[i];
      n->alone_s += c->least_s[i];
      pz_bits_set(&n->started, i);
      pz_bits_set(&n->finished, i);
      n->left_s -= c->prices.least[i];
    }
  n->t_before = n->t;
  n->last_rank = PZ_NONE;
  find_ready(g, n);
  finish_points(g, n);
}

/* To the next end.  Tasks that end there leave; those of no length go through. */
void pz_partial_advance(struct pz_growth *g, const struct pz_partial *from, struct pz_partial *to) {
  double next = DBL_MAX;
  for (uint32_t i = 0; i < from->n_running; i++) next = pz_smaller(next, from->run[i].end);
  double slack = 1e-13 * g->c->scale;
  pz_partial_copy(to, from);
  to->t_before = from->t;
  to->t = next;
  to->wait = from->last_rank == PZ_NONE ? from->wait : ++g->n_waits;
  to->last_rank = PZ_NONE;
  to->n_running = 0;
  memcpy(to->free_before, from->free, sizeof to->free);
  for (int w = 0; w < g->words; w++)
    for (uint64_t left = from->ready.w[w]; left; left &= left - 1) {
      uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(left));
      if (eligible(g, from, i)) pz_bits_set(&to->could_before, i);
    }
  for (uint32_t i = 0; i < from->n_running; i++) {
    const struct pz_running *r = &from->run[i];
    to->left_s -= g->c->prices.rate[g->c->mode_at[r->task] + r->mode] * (next - from->t);
    if (r->end > next + slack) {
      to->run[to->n_running++] = *r;
      continue;
    }
    finish(g, to, r->task);
    for (int k = 0; k < PZ_RESOURCES; k++)
      to->free[k] += g->p->tasks[r->task].modes[r->mode].use[k];
  }
  finish_points(g, to);
}

/* ---- what does not change ------------------------------------------------------------------- */

/* Is the resource wanted by a task that leaves another one free? */
static bool matters(const struct pz_problem *p, int r) {
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++) {
      const int32_t *use = p->tasks[i].modes[m].use;
      for (int k = 0; use[r] && k < PZ_RESOURCES; k++)
        if (use[k] < p->capacity[k]) return true;
    }
  return false;
}

/* A mode's share of the chip, by mix. */
static double share(const struct pz_growth *g, const struct pz_mode *m, int mix) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) sum += g->c->mix[mix][r] * (double)m->use[r] / (double)g->p->capacity[r];
  return sum;
}

static void add_mix(struct pz_growth *g, int mix) {
  const struct pz_context *c = g->c;
  int at = g->n_measures++;
  for (uint32_t i = 0; i < g->p->n; i++) {
    g->work[i][at] = c->work[g->by_tail[i]][mix];
    for (uint32_t m = 0; m < g->p->tasks[i].n_modes; m++)
      g->rates[c->mode_at[i] + m][at] = share(g, &g->p->tasks[i].modes[m], mix);
  }
}

static void add_prices(struct pz_growth *g, const struct pz_prices *f) {
  int at = g->n_measures++;
  for (uint32_t i = 0; i < g->p->n; i++) g->work[i][at] = f->least[g->by_tail[i]];
  for (uint32_t m = 0; m < g->c->n_modes; m++) g->rates[m][at] = f->rate[m];
}

/* Mixes whose resources all matter, of which there is so much work that it may count, and prices;
 * a multiple of four, for the processor's sake. */
static void measure(struct pz_growth *g) {
  bool wanted[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) wanted[r] = matters(g->p, r);
  for (int k = 0; k < PZ_MIXES; k++) {
    double sum = 0;
    bool all = true;
    for (uint32_t i = 0; i < g->p->n; i++) sum += g->c->work[i][k];
    for (int r = 0; r < PZ_RESOURCES; r++) all = all && (wanted[r] || g->c->mix[k][r] <= 0);
    if (all && sum > ENOUGH_WORK * g->c->best_s) add_mix(g, k);
  }
  if (g->c->prices.sum > 0) add_prices(g, &g->c->prices);
  g->n_measures = (g->n_measures + 3) / 4 * 4;
}

/* Does the task take more than half of the resource in every mode? */
static bool takes_most(const struct pz_context *c, uint32_t i, int r) {
  const struct pz_task *t = &c->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (!c->dropped[c->mode_at[i] + m] && 2 * t->modes[m].use[r] <= c->p->capacity[r]) return false;
  return true;
}

/* Those of the resource of which there are the most, but for queues so long that work bounds tell
 * as much. */
static void find_queue(struct pz_growth *g) {
  for (int r = 0; r < PZ_RESOURCES; r++) {
    uint32_t n = 0, list[PZ_LONGEST_QUEUE];
    for (uint32_t k = 0; k < g->p->n && n <= PZ_LONGEST_QUEUE; k++)
      if (takes_most(g->c, g->by_tail[k], r) && n++ < PZ_LONGEST_QUEUE) list[n - 1] = g->by_tail[k];
    if (n > PZ_LONGEST_QUEUE || n < 2 || n <= g->n_queue) continue;
    g->n_queue = n;
    memcpy(g->queue, list, n * sizeof *list);
  }
}

/* Tasks by falling key, ties in topological order. */
static void order(const struct pz_growth *g, uint32_t *list, bool with_own_time) {
  for (uint32_t i = 0; i < g->p->n; i++) {
    const double *least = g->c->least_s, *tail = g->c->tail_s;
    uint32_t at = i;
    for (; at > 0; at--) {
      uint32_t q = list[at - 1];
      if (tail[q] + (with_own_time ? least[q] : 0) >= tail[i] + (with_own_time ? least[i] : 0))
        break;
      list[at] = q;
    }
    list[at] = i;
  }
}

/* The same modes, and the same of them dropped: one search over modes may have given a to one part
 * and b to the other, and then they are not alike in it. */
static bool same_modes(const struct pz_context *c, uint32_t a, uint32_t b) {
  const struct pz_task *t = &c->p->tasks[a];
  return pz_same_modes(t, &c->p->tasks[b]) &&
         !memcmp(&c->dropped[c->mode_at[a]], &c->dropped[c->mode_at[b]],
                 t->n_modes * sizeof *c->dropped);
}

/* Of tasks with the same modes and the same after them, when both are ready, one is the first: a
 * schedule that starts the other first is as good with the two exchanged. */
static void find_alike(struct pz_growth *g) {
  for (uint32_t a = 0; a < g->p->n; a++)
    for (uint32_t b = 0; b < g->p->n; b++)
      if (g->rank[a] < g->rank[b] && pz_growth_within(g, &g->after[b], &g->after[a]) &&
          pz_growth_within(g, &g->after[a], &g->after[b]) && same_modes(g->c, a, b))
        pz_bits_set(&g->alike[b], a);
}

bool pz_growth_init(struct pz_growth *g, struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *g = (struct pz_growth){.c = c, .p = c->p, .words = (int)(n + 63) / 64};
  g->slots = pz_arena_alloc(arena, n, sizeof *g->slots);
  g->by_tail = pz_arena_alloc(arena, n, sizeof *g->by_tail);
  g->by_path = pz_arena_alloc(arena, n, sizeof *g->by_path);
  g->rank = pz_arena_alloc(arena, n, sizeof *g->rank);
  g->alike = pz_arena_alloc(arena, n, sizeof *g->alike);
  g->work = pz_arena_alloc(arena, n, sizeof *g->work);
  g->rates = pz_arena_alloc(arena, c->n_modes, sizeof *g->rates);
  g->before = pz_arena_alloc(arena, n, sizeof *g->before);
  g->after = pz_arena_alloc(arena, n, sizeof *g->after);
  if (!g->work || !g->rates || !g->before || !g->after || !g->slots || !g->by_tail || !g->by_path ||
      !g->rank || !g->alike)
    return false;
  order(g, g->by_tail, false);
  measure(g);
  order(g, g->by_path, true);
  find_queue(g);
  for (uint32_t i = 0; i < n; i++) {
    g->rank[g->by_path[i]] = i;
    pz_bits_set(&g->all, i);
    if (c->least_s[i] <= 0) pz_bits_set(&g->points, i);
    g->instants = g->instants || pz_wants_instant(&c->p->tasks[i]);
  }
  pz_bits_order(g->p, g->before, g->after);
  find_alike(g);
  return true;
}

void pz_partial_begin(struct pz_growth *g, const bool *late, struct pz_partial *out) {
  *out = (struct pz_partial){.last_rank = PZ_NONE, .left_s = g->c->prices.sum};
  memcpy(out->free, g->p->capacity, sizeof out->free);
  for (uint32_t i = 0; late && i < g->p->n; i++) {
    if (!late[i]) continue;
    pz_bits_set(&out->started, i);
    pz_bits_set(&out->finished, i);
    out->left_s -= g->c->prices.least[i];
  }
  find_ready(g, out);
  finish_points(g, out);
}

size_t pz_partial_bytes(uint32_t n) {
  return (sizeof(struct pz_partial) + n * sizeof(struct pz_running) + 15) / 16 * 16;
}

void pz_partial_copy(struct pz_partial *to, const struct pz_partial *from) {
  if (to != from) memcpy(to, from, sizeof *from + from->n_running * sizeof *from->run);
}

bool pz_partial_complete(const struct pz_growth *g, const struct pz_partial *n) {
  return pz_growth_within(g, &g->all, &n->started);
}

double pz_partial_end(const struct pz_partial *n) {
  double end = n->t;
  for (uint32_t i = 0; i < n->n_running; i++) end = pz_larger(end, n->run[i].end);
  return end;
}
