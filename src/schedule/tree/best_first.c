/* Best-first branch and bound.  The same tree as in depth_first.c, restricted to states, which are
 * partial schedules just after a start: a set of started tasks, some of them running.  The next start is at the end of a running task, or, after a wait, at a later
 * one; from idle points, where that pays, as in idle_point.h.
 *
 * The search alternates between opening the state with the least bound of the open list, which
 * raises the lower bound and opens no state whose bound exceeds the optimum, and diving: opening
 * the best state for each number of started tasks, which finds good schedules early.  Most
 * dominated states are found before they are opened.  The cost is memory. */
#include <float.h>
#include <string.h>

#include "core/map.h"
#include "schedule/tree/deferred.h"
#include "schedule/tree/idle_point.h"
#include "schedule/tree/partial_bound.h"

enum {
  BUCKETS = 512,
  MOST_LISTS = 1 << 18,
  MOST_STATES = 1 << 20,
  MOST_LOOKS = 16 /* tuned: states compared with a new one, newest first */
};

struct state {
  const struct state *parent;
  struct state *below;     /* in its bucket */
  struct state *next_same; /* in its list, newest first */
  double bound, t;
  double next, last; /* end of what runs */
  double regret_s;   /* of the last idle point before it */
  struct pz_bits started, ready;
  double left_s, alone_s; /* as in a partial schedule */
  bool dominated;
  bool fresh; /* see open_state */
  uint32_t n_running;
  struct pz_running run[];
};

struct best_first {
  struct pz_branching g;
  struct pz_idle idle;
  struct pz_arena *arena;
  int64_t until;
  struct pz_deferred *deferred; /* NULL: none */
  struct pz_partials nodes;     /* by depth, then those below */
  struct pz_partial *ahead, *now, *next;
  const struct state *from; /* the one that is opened; NULL: the beginning */
  double regret_s;          /* of the last idle point before what is expanded */
  int at;                   /* no bucket below this has states */
  bool fresh;               /* what is made now is; see open_state */
  bool stopped;
  /* the open list, ordered by number of started tasks and bound, and indexed by the set of started
   * tasks to find dominated ones */
  struct state *candidate; /* to become one */
  struct state **bucket;   /* by number of tasks started, and by bound from low_s on */
  int *lowest;             /* by number of tasks started: no bucket below this has states */
  struct state **list;     /* by hash of tasks started */
  uint32_t n_lists, n_states;
  double low_s, high_s;
};

static struct pz_partial *node_at(const struct best_first *x, uint32_t depth) {
  return pz_partial_at(&x->nodes, depth);
}

static double completion_bound(struct best_first *x, const struct pz_partial *n) {
  double most = x->g.c->best_s, bound = pz_partial_dual_bound(&x->g, n);
  if (pz_better(x->g.c, bound, most)) bound = pz_fmax(bound, pz_partial_residual_bound(&x->g, n));
  if (pz_better(x->g.c, bound, most)) bound = pz_fmax(bound, pz_partial_energy_bound(&x->g, n));
  return bound;
}

static void load(struct best_first *x, const struct state *s, struct pz_partial *n) {
  const struct pz_problem *p = x->g.p;
  *n = (struct pz_partial){.started = s->started,
                           .finished = s->started,
                           .t = s->t,
                           .t_before = s->t,
                           .last_rank = PZ_NONE,
                           .ready = s->ready,
                           .left_s = s->left_s,
                           .alone_s = s->alone_s,
                           .n_running = s->n_running};
  memcpy(n->free, p->capacity, sizeof n->free);
  memcpy(n->run, s->run, s->n_running * sizeof *s->run);
  for (uint32_t i = 0; i < s->n_running; i++) {
    const struct pz_running *r = &s->run[i];
    pz_bits_clear(&n->finished, r->task);
    for (int k = 0; k < PZ_RESOURCES; k++) n->free[k] -= p->tasks[r->task].modes[r->mode].use[k];
  }
}

/* ---- a state --------------------------------------------------------------------------------- */

static size_t state_bytes(uint32_t n_running) {
  return sizeof(struct state) + n_running * sizeof(struct pz_running);
}

static void state_fill(struct state *s, const struct state *parent, const struct pz_partial *n) {
  *s = (struct state){.parent = parent,
                      .t = n->t,
                      .next = DBL_MAX,
                      .started = n->started,
                      .ready = n->ready,
                      .left_s = n->left_s,
                      .alone_s = n->alone_s,
                      .n_running = n->n_running};
  memcpy(s->run, n->run, n->n_running * sizeof *s->run);
  for (uint32_t i = 0; i < n->n_running; i++) {
    s->next = pz_fmin(s->next, n->run[i].end);
    s->last = pz_fmax(s->last, n->run[i].end);
  }
}

/* ---- dominance ------------------------------------------------------------------------------- */

/* Nothing more starts before the next end: when they began does not matter.  (What runs in a beyond
 * that end runs in b too, no less wide, and so no slower, for of two modes neither is worse in
 * everything: it began in b no earlier.) */
static bool dominates(const struct pz_branching *g, const struct state *a, const struct state *b) {
  return a->last <= b->last &&
         pz_partial_dominated(g, &(struct pz_going){b->next, b->run, b->n_running},
                              &(struct pz_going){0, a->run, a->n_running});
}

static struct state **list_of(const struct best_first *x, const struct state *s) {
  return &x->list[pz_hash(&s->started, (size_t)x->g.words * 8) % x->n_lists];
}

/* Does a state dominate the candidate?  Those that the candidate dominates are taken no more. */
static bool store_dominates(struct best_first *x) {
  const struct state *n = x->candidate;
  uint32_t looks = 0;
  bool better = false;
  if (!x->g.c->o->state_dominance) return false;
  for (struct state **at = list_of(x, n), *s = *at; s && !better && looks < MOST_LOOKS;
       s = *at, looks++) {
    bool same = pz_branching_same(&x->g, &s->started, &n->started);
    better = same && dominates(&x->g, s, n);
    s->dominated = same && !better && dominates(&x->g, n, s);
    if (s->dominated)
      *at = s->next_same;
    else
      at = &s->next_same;
  }
  x->g.c->steps += looks / PZ_LOOKS_PER_STEP;
  x->g.c->count[PZ_T_state_dominance].calls++;
  x->g.c->count[PZ_T_state_dominance].prunes += better;
  return better;
}

/* ---- the best -------------------------------------------------------------------------------- */

/* The candidate becomes a state.  False: no memory. */
static bool store_add(struct best_first *x) {
  size_t bytes = state_bytes(x->candidate->n_running);
  struct state *s = x->n_states < MOST_STATES ? pz_arena_alloc(x->arena, 1, bytes) : NULL;
  if (!s) return false;
  memcpy(s, x->candidate, bytes);
  double at = (s->bound - x->low_s) / (x->high_s - x->low_s) * BUCKETS;
  int b = at < 0 ? 0 : at < BUCKETS - 1 ? (int)at : BUCKETS - 1;
  uint32_t started = pz_bits_count(&s->started);
  struct state **bucket = &x->bucket[(size_t)started * BUCKETS + (size_t)b];
  struct state **list = list_of(x, s);
  if (b < x->lowest[started]) x->lowest[started] = b;
  s->below = *bucket;
  s->next_same = *list;
  *bucket = *list = s;
  x->n_states++;
  return true;
}

/* Of the states with so many tasks started one of the lowest bucket, up to `most`, that may still
 * lead to a better schedule; NULL: there is none. */
static struct state *store_take(struct best_first *x, uint32_t started, int most) {
  const struct pz_context *c = x->g.c;
  struct state **bucket = &x->bucket[(size_t)started * BUCKETS], *s;
  for (int *at = &x->lowest[started]; *at <= most; ++*at)
    while ((s = bucket[*at])) {
      bucket[*at] = s->below;
      if (!s->dominated && pz_better(c, s->bound, c->best_s)) return s;
    }
  return NULL;
}

/* States in buckets from this on have no lower bound. */
static double store_bound(const struct best_first *x, int bucket) {
  return x->low_s + (x->high_s - x->low_s) * bucket / BUCKETS;
}

/* For a search of so many steps.  False: no memory. */
static bool store_init(struct best_first *x, int64_t steps) {
  const struct pz_context *c = x->g.c;
  uint32_t levels = c->p->n + 1;
  x->low_s = c->bound_s;
  x->high_s = c->best_s;
  for (x->n_lists = 64; x->n_lists < MOST_LISTS && x->n_lists < steps / 8;) x->n_lists *= 2;
  x->candidate = pz_arena_alloc(x->arena, 1, state_bytes(c->p->n));
  if (!x->candidate || !PZ_ARRAY(x->arena, x->list, x->n_lists) ||
      !PZ_ARRAY(x->arena, x->bucket, (size_t)levels * BUCKETS) ||
      !PZ_ARRAY(x->arena, x->lowest, levels))
    return false;
  for (uint32_t i = 0; i < levels; i++) x->lowest[i] = BUCKETS;
  return true;
}

/* ---- complete schedules ---------------------------------------------------------------------- */

static void go_on(struct best_first *x) {
  struct pz_partial *swap = x->now;
  x->now = x->next;
  x->next = swap;
}

/* On to what the state has just started; from an idle point what else it has done ran alone. */
static void start_of(struct best_first *x, const struct state *s) {
  for (; x->now->n_running && x->now->t < s->t; go_on(x))
    pz_partial_advance(&x->g, x->now, x->next);
  struct pz_bits alone = pz_bits_minus(&s->started, &x->now->started);
  for (uint32_t i = 0; i < s->n_running; i++) pz_bits_clear(&alone, s->run[i].task);
  if (!pz_bits_empty(&alone)) pz_partial_alone(&x->g, x->now, &alone);
  for (uint32_t i = 0; i < s->n_running; i++) {
    if (pz_bits_has(&x->now->started, s->run[i].task)) continue;
    pz_partial_start(&x->g, x->now, s->run[i].task, s->run[i].mode, x->next);
    go_on(x);
  }
}

/* Everything is started in n, a descendant of the state that is opened: repeats the starts from the
 * beginning, for the slots. */
static void complete(struct best_first *x, const struct pz_partial *n) {
  struct pz_arena arena;
  uint32_t depth = 0;
  if (!pz_better(x->g.c, pz_partial_end(n), x->g.c->best_s)) return;
  pz_arena_init(&arena, x->arena->mem);
  for (const struct state *s = x->from; s; s = s->parent) depth++;
  const struct state **path = pz_arena_alloc(&arena, depth + 1, sizeof *path);
  struct state *last = pz_arena_alloc(&arena, 1, state_bytes(n->n_running));
  bool ok = path && last;
  x->stopped = x->stopped || !ok;
  if (ok) {
    double makespan = 0;
    state_fill(last, x->from, n);
    for (const struct state *s = last, **to = path + depth; s; s = s->parent) *to-- = s;
    pz_partial_begin(&x->g, x->deferred ? x->deferred->is : NULL, x->now);
    for (uint32_t k = 0; k <= depth; k++) start_of(x, path[k]);
    for (; x->now->n_running; go_on(x)) /* what takes no time, at the end */
      pz_partial_advance(&x->g, x->now, x->next);
    for (uint32_t i = 0; i < x->g.p->n; i++)
      if (!x->deferred || !x->deferred->is[i]) makespan = pz_fmax(makespan, x->g.slots[i].end);
    if (x->deferred) makespan = pz_deferred_insert(x->deferred, &x->g, makespan);
    pz_update_incumbent(x->g.c, x->g.slots, makespan, PZ_T_best_first);
  }
  pz_arena_release(&arena);
}

/* What is left, which nothing waits for, runs alone. */
static void complete_alone(struct best_first *x, const struct pz_partial *n,
                           struct pz_partial *end) {
  struct pz_bits left = pz_bits_minus(&x->g.all, &n->started);
  pz_partial_copy(end, n);
  pz_partial_alone(&x->g, end, &left);
  complete(x, end);
}

/* ---- branching ------------------------------------------------------------------------------- */

static double busy_period_bound(const struct best_first *x, const struct pz_partial *n) {
  return x->idle.slow ? pz_busy_period_bound(&x->idle, n, x->regret_s) : 0;
}

/* A candidate that waits for the next end is a state, unless the wait is dominated, or an idle
 * point or another state is as good, or the bound prunes it.  Where idle points are frequent
 * dominance prunes most, elsewhere the bound: it is tested first. */
static void add_state(struct best_first *x, const struct pz_partial *n, double bound) {
  struct state *s = x->candidate;
  if (pz_partial_complete(&x->g, n)) {
    complete(x, n);
    return;
  }
  if (x->idle.frequent && n->n_running < 2) return; /* that is alone */
  if (pz_partial_wait_dominated(&x->g, n)) return;
  state_fill(s, x->from, n);
  s->regret_s = x->regret_s;
  s->fresh = x->fresh;
  if (x->idle.frequent && pz_idle_dominates(&x->idle, x->regret_s, n, s->next)) return;
  if (x->idle.frequent && store_dominates(x)) return;
  pz_partial_advance(&x->g, n, x->ahead);
  s->bound = pz_fmax(bound, completion_bound(x, x->ahead));
  if (x->from) s->bound = pz_fmax(s->bound, x->from->bound);
  if (!pz_better(x->g.c, s->bound, x->g.c->best_s)) return;
  if (!x->idle.frequent && store_dominates(x)) return;
  if (!store_add(x)) x->stopped = true;
}

static void count_step(struct best_first *x) { x->stopped |= ++x->g.c->steps >= x->until; }

/* Every set of tasks that can start now, in every mode. */
static void expand(struct best_first *x, uint32_t depth) {
  const struct pz_partial *n = node_at(x, depth);
  struct pz_partial *next = node_at(x, depth + 1);
  struct pz_start k = pz_partial_starts(&x->g, n);
  while (!x->stopped && pz_partial_next(&x->g, n, &k)) {
    pz_partial_start(&x->g, n, k.task, k.mode, next);
    count_step(x);
    double bound = pz_partial_path_bound(&x->g, next);
    if (pz_better(x->g.c, bound, x->g.c->best_s))
      bound = pz_fmax(bound, busy_period_bound(x, next));
    if (!pz_better(x->g.c, bound, x->g.c->best_s)) continue;
    add_state(x, next, bound);
    expand(x, depth + 1);
  }
}

/* Of interchangeable tasks that are ready at the same idle point those alone come first. */
static bool may_be_alone(const struct best_first *x, const struct pz_partial *n, uint32_t i) {
  uint64_t not_now = 0;
  for (int w = 0; w < x->g.words; w++) not_now |= x->g.interchangeable[i].w[w] & n->not_now.w[w];
  return !not_now;
}

/* What is ready runs alone or not now, each task after the other; then a busy period begins. */
static void decide(struct best_first *x, uint32_t depth) {
  struct pz_partial *n = node_at(x, depth), *next = node_at(x, depth + 1);
  uint32_t i = pz_idle_undecided(&x->idle, n);
  if (x->stopped || !pz_better(x->g.c, completion_bound(x, n), x->g.c->best_s)) return;
  if (i == PZ_NONE) {
    if (pz_bits_empty(&n->not_now)) complete_alone(x, n, next);
    expand(x, depth);
    return;
  }
  count_step(x);
  if (may_be_alone(x, n, i)) {
    struct pz_bits only = {{0}};
    pz_bits_set(&only, i);
    pz_partial_copy(next, n);
    pz_partial_alone(&x->g, next, &only);
    decide(x, depth + 1);
  }
  if (!pz_bits_has(&x->idle.joining, i)) return;
  pz_partial_copy(next, n);
  pz_bits_set(&next->not_now, i);
  decide(x, depth + 1);
}

static void branch_from_idle(struct best_first *x, uint32_t depth) {
  static const struct pz_bits none;
  struct pz_partial *n = node_at(x, depth);
  if (pz_idle_dominated(&x->idle, n)) return;
  x->regret_s = n->t - n->alone_s;
  n->not_now = none;
  x->fresh = true;
  n->could_before = none;
  decide(x, depth);
}

/* At the next end, or after waiting for a later one.
 *
 * A state is fresh if all that was ready might start with its tasks.  What could have is left out
 * at the first end after it: a state with it was made beside this one.  What is expanded there is
 * not fresh, and at the end after that all may start again: a task left out there too could have
 * started with a state that itself left it out, and then no state with it would be made anywhere.
 * At later ends, what waited for them is left out: a state with it is made from here. */
static void open_state(struct best_first *x, const struct state *s) {
  static const struct pz_bits none;
  x->from = s;
  x->regret_s = s->regret_s;
  load(x, s, node_at(x, 0));
  while (node_at(x, 0)->n_running && !x->stopped) {
    struct pz_partial *n = node_at(x, 1);
    pz_partial_advance(&x->g, node_at(x, 0), n);
    bool later = node_at(x, 0)->t > s->t; /* until then it is the state's own bound */
    x->fresh = !later && !s->fresh;
    if (x->fresh) n->could_before = none;
    if (later && !pz_better(x->g.c, completion_bound(x, n), x->g.c->best_s)) return;
    if (pz_partial_complete(&x->g, n)) {
      complete(x, n);
      return;
    }
    if (x->idle.frequent && !n->n_running) {
      branch_from_idle(x, 1);
      return;
    }
    expand(x, 1);
    if (pz_partial_wait_dominated(&x->g, n)) return;
    pz_partial_copy(node_at(x, 0), n);
  }
}

/* ---- the search ------------------------------------------------------------------------------ */

static void begin(struct best_first *x) {
  struct pz_partial *n = node_at(x, 0);
  x->fresh = true;
  pz_partial_begin(&x->g, x->deferred ? x->deferred->is : NULL, n);
  if (pz_partial_complete(&x->g, n))
    complete(x, n);
  else if (x->idle.frequent)
    branch_from_idle(x, 0);
  else
    expand(x, 0);
}

/* The best state for each number of tasks started.  False: there is none. */
static bool dive(struct best_first *x) {
  bool any = false;
  for (uint32_t started = 0; started < x->g.p->n && !x->stopped; started++) {
    struct state *s = store_take(x, started, BUCKETS - 1);
    if (s) open_state(x, s);
    x->g.c->count[PZ_T_diving].calls += s != NULL;
    any = any || s;
  }
  return any;
}

/* No more can be proved than what deferred tasks did not fit into. */
static bool reached(const struct best_first *x) {
  return x->deferred && store_bound(x, x->at) >= x->deferred->unfit_s;
}

/* The states of least bound, those with more tasks started first, up to so many steps. */
static void open_least_bounds(struct best_first *x, int64_t until) {
  while (x->at < BUCKETS && !x->stopped && x->g.c->steps < until) {
    x->stopped = reached(x);
    struct state *s = NULL;
    for (uint32_t started = x->g.p->n; started-- > 0 && !s;) s = store_take(x, started, x->at);
    if (s)
      open_state(x, s);
    else
      x->at++;
  }
}

static void search(struct best_first *x) {
  struct pz_context *c = x->g.c;
  begin(x);
  if (c->o->diving)
    for (int64_t from = c->steps; dive(x); from = c->steps)
      open_least_bounds(x, 2 * c->steps - from);
  else
    open_least_bounds(x, INT64_MAX);
  double proved = x->stopped ? store_bound(x, x->at) : c->best_s;
  if (x->deferred) proved = pz_fmin(proved, x->deferred->unfit_s);
  pz_update_bound(c, pz_fmin(proved, c->best_s), PZ_T_best_first); /* pruned: no better than it */
}

static bool prepare(struct best_first *x, struct pz_context *c) {
  uint32_t n = c->p->n;
  if (!pz_partials_init(&x->nodes, n, 2 * (size_t)n + 7, x->arena)) return false;
  x->ahead = node_at(x, 2 * n + 4);
  x->now = node_at(x, 2 * n + 5);
  x->next = node_at(x, 2 * n + 6);
  return pz_branching_init(&x->g, c, x->arena) && store_init(x, x->until - c->steps) &&
         pz_idle_init(&x->idle, &x->g, x->arena);
}

enum pz_status pz_best_first_search(struct pz_context *c, int64_t steps,
                                    struct pz_deferred *deferred, struct pz_error *err) {
  if (!pz_open(c)) return PZ_OK;
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct best_first x = {.arena = &arena, .until = c->steps + steps, .deferred = deferred};
  int64_t from = c->steps;
  bool ok = prepare(&x, c);
  if (ok) pz_automorphisms(&x.g, deferred ? deferred->is : NULL);
  if (ok) search(&x);
  c->count[PZ_T_best_first].calls++;
  c->count[PZ_T_best_first].steps += c->steps - from;
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule search");
}
