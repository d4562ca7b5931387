/* Exact search, best first.
 *
 * The same tree as in exact.c, but of states in which something has just been started: a set of
 * tasks started, some of them running.  What comes next is started when one of them ends, or, after
 * a wait, a later one.  Of all states the one with the least bound is opened, so that none is
 * opened whose bound is above the least makespan, the bound of what is left only rises, and of
 * states with the same tasks started those that others dominate are mostly found before they are
 * opened.  The price is memory. */
#include <float.h>
#include <string.h>

#include "core/map.h"
#include "schedule/late.h"

enum { BUCKETS = 4096, MOST_STATES = 1 << 20, MOST_LISTS = 1 << 18, LOOKS_PER_STEP = 16 };

struct state {
  const struct state *parent;
  struct state *below; /* in its bucket */
  struct state *alike; /* in its list for dominance */
  double bound, t;
  double next, last; /* end of what runs */
  struct pz_bits started;
  double left[PZ_MOST_PRICES];
  uint32_t n_running;
  bool dominated;
  struct pz_running run[];
};

struct frontier {
  struct pz_growth g;
  struct pz_arena *arena;
  int64_t until;
  uint32_t n_states;
  struct pz_late *late; /* NULL: none */
  char *nodes;          /* by depth: struct pz_partial */
  size_t node_bytes;
  struct pz_partial *ahead;
  struct state *candidate; /* to become one */
  struct state **bucket;   /* by bound, from low_s on */
  struct state **list;     /* by hash of tasks started */
  uint32_t n_lists;
  double low_s, high_s;
  bool stopped;
};

static struct pz_partial *node_at(const struct frontier *x, uint32_t depth) {
  return (struct pz_partial *)(void *)(x->nodes + depth * x->node_bytes);
}

static double bound_of(struct frontier *x, const struct pz_partial *n) {
  double most = x->g.c->best_s, bound = pz_partial_price_bound(&x->g, n);
  if (pz_better(x->g.c, bound, most)) bound = pz_larger(bound, pz_partial_path_bound(&x->g, n));
  if (pz_better(x->g.c, bound, most)) bound = pz_larger(bound, pz_partial_work_bound(&x->g, n));
  return bound;
}

/* ---- states --------------------------------------------------------------------------------- */

static void load(struct frontier *x, const struct state *s, struct pz_partial *n) {
  const struct pz_problem *p = x->g.p;
  *n = (struct pz_partial){.started = s->started,
                           .finished = s->started,
                           .t = s->t,
                           .t_before = s->t,
                           .last_rank = PZ_NONE,
                           .n_running = s->n_running};
  memcpy(n->left, s->left, sizeof n->left);
  memcpy(n->free, p->capacity, sizeof n->free);
  memcpy(n->run, s->run, s->n_running * sizeof *s->run);
  for (uint32_t i = 0; i < s->n_running; i++) {
    const struct pz_running *r = &s->run[i];
    pz_bits_clear(&n->finished, r->task);
    for (int k = 0; k < PZ_RESOURCES; k++) n->free[k] -= p->tasks[r->task].modes[r->mode].use[k];
    x->g.slots[r->task] = (struct pz_slot){0, r->end, r->mode};
  }
  pz_partial_find_ready(&x->g, n);
}

/* Nothing more starts before the next end: when they began does not matter. */
static bool dominates(const struct frontier *x, const struct state *a, const struct state *b) {
  return a->last <= b->last &&
         pz_partial_dominated(&x->g, &(struct pz_going){b->next, b->run, b->n_running},
                              &(struct pz_going){0, a->run, a->n_running});
}

/* Is there a state that dominates this one?  Those that this one dominates are not opened. */
static bool seen_better(struct frontier *x, const struct state *n, struct state **list) {
  uint32_t looked = 0;
  bool better = false;
  for (struct state **at = list, *s = *at; s && !better; s = *at, looked++) {
    bool same = pz_growth_same(&x->g, &s->started, &n->started);
    better = same && dominates(x, s, n);
    s->dominated = same && !better && dominates(x, n, s);
    if (s->dominated)
      *at = s->alike;
    else
      at = &s->alike;
  }
  x->g.c->steps += looked / LOOKS_PER_STEP;
  return better;
}

static size_t state_bytes(uint32_t n_running) {
  return sizeof(struct state) + n_running * sizeof(struct pz_running);
}

static void fill(struct state *s, const struct state *parent, const struct pz_partial *n,
                 double bound) {
  *s = (struct state){.parent = parent,
                      .bound = bound,
                      .t = n->t,
                      .next = DBL_MAX,
                      .started = n->started,
                      .n_running = n->n_running};
  memcpy(s->left, n->left, sizeof s->left);
  memcpy(s->run, n->run, n->n_running * sizeof *s->run);
  for (uint32_t i = 0; i < n->n_running; i++) {
    s->next = pz_smaller(s->next, n->run[i].end);
    s->last = pz_larger(s->last, n->run[i].end);
  }
}

static void keep(struct frontier *x, const struct state *parent, const struct pz_partial *n,
                 double bound) {
  struct state **list = &x->list[pz_hash(&n->started, sizeof n->started) % x->n_lists], *s;
  fill(x->candidate, parent, n, bound);
  if (seen_better(x, x->candidate, list)) return;
  s = x->n_states < MOST_STATES ? pz_arena_alloc(x->arena, 1, state_bytes(n->n_running)) : NULL;
  if (!s) {
    x->stopped = true;
    return;
  }
  double at = (bound - x->low_s) / (x->high_s - x->low_s) * BUCKETS;
  struct state **bucket = &x->bucket[at < 0 ? 0 : at < BUCKETS - 1 ? (int)at : BUCKETS - 1];
  memcpy(s, x->candidate, state_bytes(n->n_running));
  s->below = *bucket;
  s->alike = *list;
  *bucket = *list = s;
  x->n_states++;
}

/* ---- complete schedules --------------------------------------------------------------------- */

static void start_of(struct frontier *x, const struct state *s, struct pz_partial **now,
                     struct pz_partial **next) {
  struct pz_partial *swap;
  for (; (*now)->t < s->t; swap = *now, *now = *next, *next = swap)
    pz_partial_advance(&x->g, *now, *next);
  for (uint32_t i = 0; i < s->n_running; i++) {
    if (pz_bits_has(&(*now)->started, s->run[i].task)) continue;
    pz_partial_start(&x->g, *now, s->run[i].task, s->run[i].mode, *next);
    swap = *now, *now = *next, *next = swap;
  }
}

static uint32_t depth_of(const struct state *s) {
  uint32_t n = 0;
  for (; s; s = s->parent) n++;
  return n;
}

/* Once more from the beginning, for the slots. */
static void replay(struct frontier *x, const struct state *const *path, uint32_t n,
                   struct pz_partial *now, struct pz_partial *next) {
  pz_partial_begin(&x->g, x->late ? x->late->is : NULL, now);
  for (uint32_t k = 0; k < n; k++) start_of(x, path[k], &now, &next);
  while (now->n_running) { /* what takes no time, at the end */
    struct pz_partial *swap = now;
    pz_partial_advance(&x->g, now, next);
    now = next;
    next = swap;
  }
}

/* Everything is started in n, which grew from the state. */
static void complete(struct frontier *x, const struct state *from, const struct pz_partial *n) {
  struct pz_arena arena;
  double makespan = pz_partial_end(n);
  if (!pz_better(x->g.c, makespan, x->g.c->best_s)) return;
  pz_arena_init(&arena, x->arena->mem);
  uint32_t depth = depth_of(from);
  const struct state **path = pz_arena_alloc(&arena, depth + 1, sizeof *path);
  struct pz_partial *now = pz_arena_alloc(&arena, 1, x->node_bytes);
  struct pz_partial *next = pz_arena_alloc(&arena, 1, x->node_bytes);
  struct state *last = pz_arena_alloc(&arena, 1, state_bytes(n->n_running));
  bool ok = path && now && next && last;
  x->stopped = x->stopped || !ok;
  if (ok) {
    fill(last, NULL, n, 0);
    path[depth] = last;
    for (uint32_t k = depth; from; from = from->parent) path[--k] = from;
    replay(x, path, depth + 1, now, next);
    if (x->late) makespan = pz_late_put(x->late, &x->g, makespan);
    pz_context_offer(x->g.c, x->g.slots, makespan);
  }
  pz_arena_release(&arena);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* What has been started in `next` is a state, unless it waits where it need not. */
static void add(struct frontier *x, const struct state *from, const struct pz_partial *next,
                double bound) {
  if (pz_partial_complete(&x->g, next)) {
    complete(x, from, next);
    return;
  }
  if (pz_partial_idles(&x->g, next)) return;
  pz_partial_advance(&x->g, next, x->ahead); /* what is left waits for the next end */
  bound = pz_larger(bound, bound_of(x, x->ahead));
  if (pz_better(x->g.c, bound, x->g.c->best_s))
    keep(x, from, next, pz_larger(bound, from ? from->bound : 0));
}

/* Every set of tasks that can start now, in every mode. */
static void grow(struct frontier *x, const struct state *from, uint32_t depth) {
  const struct pz_partial *n = node_at(x, depth);
  struct pz_partial *next = node_at(x, depth + 1);
  struct pz_start k = pz_partial_starts(n);
  while (!x->stopped && pz_partial_next(&x->g, n, &k)) {
    pz_partial_start(&x->g, n, k.task, k.mode, next);
    x->stopped = ++x->g.c->steps >= x->until;
    double bound = pz_partial_path_bound(&x->g, next);
    if (!pz_better(x->g.c, bound, x->g.c->best_s)) continue;
    add(x, from, next, bound);
    grow(x, from, depth + 1);
  }
}

/* At the next end, or after waiting for a later one.
 *
 * A task that could have started with the state's own is not left out here, though one left waiting
 * at a later end is: shifted to the left it would make another state, and that one might be
 * dominated by one from which the shift is not possible.  As it is, of the best schedules take
 * those through the largest set of a state that is kept, and of these one of least starts: what
 * comes next in it is a state that is kept, or dominated by one, of a larger set. */
static void open_state(struct frontier *x, const struct state *s) {
  static const struct pz_bits none;
  load(x, s, node_at(x, 0));
  while (node_at(x, 0)->n_running && !x->stopped) {
    pz_partial_advance(&x->g, node_at(x, 0), node_at(x, 1));
    if (node_at(x, 0)->t <= s->t) node_at(x, 1)->could_before = none;
    if (!pz_better(x->g.c, bound_of(x, node_at(x, 1)), x->g.c->best_s)) return;
    if (pz_partial_complete(&x->g, node_at(x, 1))) {
      complete(x, s, node_at(x, 1));
      return;
    }
    grow(x, s, 1);
    if (pz_partial_idles(&x->g, node_at(x, 1))) return;
    pz_partial_copy(node_at(x, 0), node_at(x, 1));
  }
}

static void search(struct frontier *x) {
  struct pz_context *c = x->g.c;
  int at = 0;
  pz_partial_begin(&x->g, x->late ? x->late->is : NULL, node_at(x, 0));
  if (pz_partial_complete(&x->g, node_at(x, 0))) complete(x, NULL, node_at(x, 0));
  grow(x, NULL, 0);
  while (at < BUCKETS && !x->stopped) {
    struct state *s = x->bucket[at];
    if (!s) {
      at++;
      continue;
    }
    x->bucket[at] = s->below;
    if (!s->dominated && pz_better(c, s->bound, c->best_s)) open_state(x, s);
  }
  double open_s = x->low_s + (x->high_s - x->low_s) * at / BUCKETS;
  double proved = x->stopped ? open_s : c->best_s;
  pz_context_raise(c, x->late ? pz_smaller(proved, x->late->unfit_s) : proved);
}

static bool prepare(struct frontier *x, struct pz_context *c) {
  uint32_t n = c->p->n;
  x->node_bytes = pz_partial_bytes(n);
  x->nodes = pz_arena_alloc(x->arena, (size_t)n + 3, x->node_bytes);
  x->ahead = pz_arena_alloc(x->arena, 1, x->node_bytes);
  x->candidate = pz_arena_alloc(x->arena, 1, state_bytes(n));
  for (x->n_lists = 64; x->n_lists < MOST_LISTS && x->n_lists < x->until - c->steps;)
    x->n_lists *= 2;
  x->list = pz_arena_alloc(x->arena, x->n_lists, sizeof(struct state *));
  x->bucket = pz_arena_alloc(x->arena, BUCKETS, sizeof(struct state *));
  x->low_s = c->bound_s;
  x->high_s = c->best_s;
  return x->nodes && x->ahead && x->candidate && x->list && x->bucket &&
         pz_growth_init(&x->g, c, x->arena);
}

enum pz_status pz_frontier_search(struct pz_context *c, int64_t steps, struct pz_late *late,
                                  struct pz_error *err) {
  if (!pz_open(c)) return PZ_OK;
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct frontier x = {.arena = &arena, .until = c->steps + steps, .late = late};
  bool ok = prepare(&x, c);
  if (ok) search(&x);
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule search");
}
