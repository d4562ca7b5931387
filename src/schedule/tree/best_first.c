/* Best-first branch and bound over schedules in order of time.
 *
 * The tree is that of depth_first.c, restricted to states: partial schedules just after a start, with a set of started
 * tasks of which some are running.  The next start is at the end of a running task or, after a wait, at a later end.
 * Where idle points pay (idle_point.h), they are branched on as described there.
 *
 * search_states() alternates between two ways of choosing the next state (open_state).  open_least_bounds() opens the
 * state with the least bound of the open list, which raises the lower bound and opens no state whose bound exceeds the
 * optimum.  dive() opens the best state for each number of started tasks, which finds good schedules early.  Most
 * dominated states are found before they are opened.  The price is memory. */
#include <float.h>
#include <string.h>

#include "core/map.h"
#include "schedule/tree/deferred.h"
#include "schedule/tree/idle_point.h"
#include "schedule/tree/partial_bound.h"

enum {
  BUCKETS = 512,
  MAX_LISTS = 1 << 18,
  MAX_STATES = 1 << 20,
  MAX_LOOKS = 16 /* tuned: states compared with a new one, newest first */
};

struct state {
  const struct state *parent;
  struct state *next_in_bucket;
  struct state *next_in_list; /* newest first */
  double bound, t;
  double next_end, last_end; /* of the running tasks */
  double regret_s;           /* of the last idle point before it */
  struct pz_bits started, ready;
  double left_s, alone_s; /* as in a partial schedule */
  bool dominated;
  bool fresh; /* see open_state() */
  uint32_t n_running;
  struct pz_running run[];
};

struct best_first {
  struct pz_branching g;
  struct pz_idle idle;
  struct pz_arena *arena;        /* of the states */
  int64_t until;                 /* steps */
  struct pz_deferred *deferred;  /* NULL: none */
  struct pz_partials nodes;      /* by depth, followed by the three below */
  struct pz_partial *after_wait; /* for bounds of a state */
  struct pz_partial *now, *next; /* for repeating a complete schedule */
  const struct state *opened;    /* the state that is being opened; NULL: the beginning */
  double regret_s;               /* of the last idle point before the node that is expanded */
  bool fresh;                    /* whether states that are made now are fresh, see open_state() */
  bool stopped;                  /* by the limit of steps, or for lack of memory */

  /* The open list: by number of started tasks and bucket of the bound.  To find dominated states, they are also listed by
   * the hash of their started tasks. */
  struct state *candidate; /* a state that may be added */
  struct state **bucket;
  int *lowest;      /* by number of started tasks: no bucket below this has states */
  int least_bucket; /* no bucket below this has states, whatever the number of started tasks */
  struct state **list;
  uint32_t n_lists, n_states;
  double low_s, high_s; /* range of bounds that the buckets divide */
};

static struct pz_partial *node_at(const struct best_first *x, uint32_t depth) {
  return pz_partial_at(&x->nodes, depth);
}

static const bool *deferred_tasks(const struct best_first *x) {
  return x->deferred ? x->deferred->is : NULL;
}

static bool could_improve(const struct best_first *x, double bound) {
  return pz_better(x->g.c, bound, x->g.c->best_s);
}

static void count_step(struct best_first *x) {
  x->g.c->steps++;
  if (x->g.c->steps >= x->until) x->stopped = true;
}

/* A lower bound of the completions of a node; cheaper bounds come first. */
static double completion_bound(struct best_first *x, const struct pz_partial *n) {
  double bound = pz_partial_dual_bound(&x->g, n);
  if (could_improve(x, bound)) bound = pz_fmax(bound, pz_partial_residual_bound(&x->g, n));
  if (could_improve(x, bound)) bound = pz_fmax(bound, pz_partial_energy_bound(&x->g, n));
  return bound;
}

/* ---- states --------------------------------------------------------------------------------- */

static size_t state_bytes(uint32_t n_running) {
  return sizeof(struct state) + n_running * sizeof(struct pz_running);
}

static void set_state(struct state *s, const struct state *parent, const struct pz_partial *n) {
  *s = (struct state){.parent = parent,
                      .t = n->t,
                      .next_end = DBL_MAX,
                      .started = n->started,
                      .ready = n->ready,
                      .left_s = n->left_s,
                      .alone_s = n->alone_s,
                      .n_running = n->n_running};
  memcpy(s->run, n->run, n->n_running * sizeof *s->run);
  for (uint32_t i = 0; i < n->n_running; i++) {
    s->next_end = pz_fmin(s->next_end, n->run[i].end);
    s->last_end = pz_fmax(s->last_end, n->run[i].end);
  }
}

/* Makes the partial schedule of a state. */
static void expand_state(const struct best_first *x, const struct state *s, struct pz_partial *n) {
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

/* ---- dominance ------------------------------------------------------------------------------ */

/* Whether what follows b can follow a.  Nothing more starts before the next end, so that the time when the running tasks
 * began does not matter.  (A task that runs in a beyond that end also runs in b, no less wide and so no slower, because of
 * two modes neither is worse in everything: it began in b no earlier.) */
static bool dominates(const struct pz_branching *g, const struct state *a, const struct state *b) {
  const struct pz_going going_a = {0, a->run, a->n_running};
  const struct pz_going going_b = {b->next_end, b->run, b->n_running};
  return a->last_end <= b->last_end && pz_partial_dominated(g, &going_b, &going_a);
}

static struct state **same_hash_list(const struct best_first *x, const struct state *s) {
  return &x->list[pz_hash(&s->started, (size_t)x->g.words * 8) % x->n_lists];
}

/* Whether a state dominates the candidate.  States that the candidate dominates are removed. */
static bool candidate_is_dominated(struct best_first *x) {
  const struct state *n = x->candidate;
  struct state **at = same_hash_list(x, n);
  struct pz_technique_count *count = &x->g.c->count[PZ_T_state_dominance];
  uint32_t looks = 0;
  bool dominated = false;
  if (!x->g.c->o->state_dominance) return false;
  while (*at && !dominated && looks < MAX_LOOKS) {
    struct state *s = *at;
    bool same = pz_branching_same(&x->g, &s->started, &n->started);
    dominated = same && dominates(&x->g, s, n);
    s->dominated = same && !dominated && dominates(&x->g, n, s);
    if (s->dominated)
      *at = s->next_in_list;
    else
      at = &s->next_in_list;
    looks++;
  }
  x->g.c->steps += looks / PZ_LOOKS_PER_STEP;
  count->calls++;
  count->prunes += dominated;
  return dominated;
}

/* ---- the open list -------------------------------------------------------------------------- */

/* Makes an empty list for a search of this number of steps. */
static void begin_open_list(struct pz_call *call, struct best_first *x, int64_t steps) {
  const struct pz_context *c = x->g.c;
  uint32_t levels = c->p->n + 1;
  x->low_s = c->bound_s;
  x->high_s = c->best_s;
  x->n_lists = 64;
  while (x->n_lists < MAX_LISTS && x->n_lists < steps / 8) x->n_lists *= 2;
  x->candidate = pz_alloc(call, 1, state_bytes(c->p->n));
  x->list = pz_alloc(call, x->n_lists, sizeof *x->list);
  x->bucket = pz_alloc(call, (size_t)levels * BUCKETS, sizeof *x->bucket);
  x->lowest = pz_alloc(call, levels, sizeof *x->lowest);
  for (uint32_t i = 0; i < levels; i++) x->lowest[i] = BUCKETS;
}

/* Adds the candidate to the open list, or stops the search if there is no memory. */
static void add_candidate(struct best_first *x) {
  size_t bytes = state_bytes(x->candidate->n_running);
  struct state *s = x->n_states < MAX_STATES ? pz_arena_alloc(x->arena, 1, bytes) : NULL;
  if (!s) {
    x->stopped = true;
    return;
  }
  memcpy(s, x->candidate, bytes);
  double at = (s->bound - x->low_s) / (x->high_s - x->low_s) * BUCKETS;
  int b = 0;
  if (!(at < 0)) b = at < BUCKETS - 1 ? (int)at : BUCKETS - 1;
  uint32_t started = pz_bits_count(&s->started);
  struct state **bucket = &x->bucket[(size_t)started * BUCKETS + (size_t)b];
  struct state **list = same_hash_list(x, s);
  if (b < x->lowest[started]) x->lowest[started] = b;
  s->next_in_bucket = *bucket;
  s->next_in_list = *list;
  *bucket = s;
  *list = s;
  x->n_states++;
}

/* Removes a state with this number of started tasks from its lowest bucket, up to `most`, that may still lead to a better
 * schedule.  Returns NULL if there is none. */
static struct state *remove_best(struct best_first *x, uint32_t started, int most) {
  struct state **bucket = &x->bucket[(size_t)started * BUCKETS];
  for (; x->lowest[started] <= most; x->lowest[started]++) {
    struct state **first = &bucket[x->lowest[started]];
    while (*first) {
      struct state *s = *first;
      *first = s->next_in_bucket;
      if (!s->dominated && could_improve(x, s->bound)) return s;
    }
  }
  return NULL;
}

/* A lower bound of the states that are left. */
static double open_list_bound(const struct best_first *x) {
  return x->low_s + (x->high_s - x->low_s) * x->least_bucket / BUCKETS;
}

/* ---- complete schedules --------------------------------------------------------------------- */

static void swap_nodes(struct best_first *x) {
  struct pz_partial *swap = x->now;
  x->now = x->next;
  x->next = swap;
}

/* Repeats the starts of a state.  Started tasks that are not running and were not started before ran alone at an idle
 * point. */
static void repeat_starts(struct best_first *x, const struct state *s) {
  while (x->now->n_running && x->now->t < s->t) {
    pz_partial_advance(&x->g, x->now, x->next);
    swap_nodes(x);
  }
  struct pz_bits alone = pz_bits_minus(&s->started, &x->now->started);
  for (uint32_t i = 0; i < s->n_running; i++) pz_bits_clear(&alone, s->run[i].task);
  if (!pz_bits_empty(&alone)) pz_partial_alone(&x->g, x->now, &alone);
  for (uint32_t i = 0; i < s->n_running; i++) {
    if (pz_bits_has(&x->now->started, s->run[i].task)) continue;
    pz_partial_start(&x->g, x->now, s->run[i].task, s->run[i].mode, x->next);
    swap_nodes(x);
  }
}

/* Node n, a descendant of the opened state, has started everything.  Repeats all starts from the beginning to set the
 * slots, and updates the incumbent. */
static void finish_schedule(struct best_first *x, const struct pz_partial *n) {
  struct pz_arena arena;
  uint32_t depth = 0;
  if (!could_improve(x, pz_partial_end(n))) return;
  pz_arena_init(&arena, x->arena->mem);
  for (const struct state *s = x->opened; s; s = s->parent) depth++;
  const struct state **path = pz_arena_alloc(&arena, depth + 1, sizeof *path);
  struct state *last = pz_arena_alloc(&arena, 1, state_bytes(n->n_running));
  if (path && last) {
    const bool *deferred = deferred_tasks(x);
    double makespan = 0;
    set_state(last, x->opened, n);
    const struct state *s = last;
    for (uint32_t k = depth + 1; k-- > 0; s = s->parent) path[k] = s;
    pz_partial_begin(&x->g, deferred, x->now);
    for (uint32_t k = 0; k <= depth; k++) repeat_starts(x, path[k]);
    while (x->now->n_running) { /* milestones at the end */
      pz_partial_advance(&x->g, x->now, x->next);
      swap_nodes(x);
    }
    for (uint32_t i = 0; i < x->g.p->n; i++)
      if (!deferred || !deferred[i]) makespan = pz_fmax(makespan, x->g.slots[i].end);
    if (deferred) makespan = pz_deferred_insert(x->deferred, &x->g, makespan);
    pz_update_incumbent(x->g.c, x->g.slots, makespan, PZ_T_best_first);
  } else {
    x->stopped = true; /* no memory: the bound is not proved */
  }
  pz_arena_release(&arena);
}

/* ---- branching ------------------------------------------------------------------------------ */

/* Makes a state of a node that waits for the next end, unless it is dominated by the wait, by an idle point or by another
 * state, or its bound prunes it.  Where idle points are frequent, dominance prunes most and is tested first, elsewhere
 * the bound. */
static void add_state(struct best_first *x, const struct pz_partial *n, double bound) {
  struct state *s = x->candidate;
  if (pz_partial_complete(&x->g, n)) {
    finish_schedule(x, n);
    return;
  }
  if (x->idle.frequent && n->n_running < 2) return; /* it runs alone, which decide_idle() tries */
  if (pz_partial_wait_dominated(&x->g, n)) return;
  set_state(s, x->opened, n);
  s->regret_s = x->regret_s;
  s->fresh = x->fresh;
  if (x->idle.frequent && pz_idle_dominates(&x->idle, x->regret_s, n, s->next_end)) return;
  if (x->idle.frequent && candidate_is_dominated(x)) return;
  pz_partial_advance(&x->g, n, x->after_wait);
  s->bound = pz_fmax(bound, completion_bound(x, x->after_wait));
  if (x->opened) s->bound = pz_fmax(s->bound, x->opened->bound);
  if (!could_improve(x, s->bound)) return;
  if (!x->idle.frequent && candidate_is_dominated(x)) return;
  add_candidate(x);
}

/* Tries every set of tasks that can start at the node, in every mode. */
static void expand_node(struct best_first *x, uint32_t depth) {
  const struct pz_partial *n = node_at(x, depth);
  struct pz_partial *child = node_at(x, depth + 1);
  struct pz_start start = pz_partial_starts(&x->g, n);
  while (!x->stopped && pz_partial_next(&x->g, n, &start)) {
    pz_partial_start(&x->g, n, start.task, start.mode, child);
    count_step(x);
    double bound = pz_partial_path_bound(&x->g, child);
    if (x->idle.slow && could_improve(x, bound))
      bound = pz_fmax(bound, pz_busy_period_bound(&x->idle, child, x->regret_s));
    if (!could_improve(x, bound)) continue;
    add_state(x, child, bound);
    expand_node(x, depth + 1);
  }
}

/* Of interchangeable tasks that are ready at the same idle point, those that run alone come first. */
static bool may_run_alone(const struct best_first *x, const struct pz_partial *n, uint32_t i) {
  uint64_t not_now = 0;
  for (int w = 0; w < x->g.words; w++) not_now |= x->g.interchangeable[i].w[w] & n->not_now.w[w];
  return !not_now;
}

/* Decides for one ready task after another whether it runs alone at this idle point or not now; then a busy period
 * begins. */
static void decide_idle(struct best_first *x, uint32_t depth) {
  struct pz_partial *n = node_at(x, depth), *child = node_at(x, depth + 1);
  uint32_t i = pz_idle_undecided(&x->idle, n);
  if (x->stopped || !could_improve(x, completion_bound(x, n))) return;
  if (i == PZ_NONE) {
    if (pz_bits_empty(&n->not_now)) { /* no task waits for what is left: it may run alone */
      struct pz_bits left = pz_bits_minus(&x->g.all, &n->started);
      pz_partial_copy(child, n);
      pz_partial_alone(&x->g, child, &left);
      finish_schedule(x, child);
    }
    expand_node(x, depth);
    return;
  }
  count_step(x);
  if (may_run_alone(x, n, i)) {
    struct pz_bits only = {{0}};
    pz_bits_set(&only, i);
    pz_partial_copy(child, n);
    pz_partial_alone(&x->g, child, &only);
    decide_idle(x, depth + 1);
  }
  if (!pz_bits_has(&x->idle.joining, i)) return;
  pz_partial_copy(child, n);
  pz_bits_set(&child->not_now, i);
  decide_idle(x, depth + 1);
}

static void branch_from_idle(struct best_first *x, uint32_t depth) {
  static const struct pz_bits none;
  struct pz_partial *n = node_at(x, depth);
  if (pz_idle_dominated(&x->idle, n)) return;
  x->regret_s = n->t - n->alone_s;
  n->not_now = none;
  x->fresh = true;
  n->could_before = none;
  decide_idle(x, depth);
}

/* Expands a state at the next end, and after waiting at each later end.
 *
 * A state is fresh if all ready tasks might have started with its tasks.  At the first end after a fresh state, tasks that
 * could have started with it are left out: a state with them was made beside this one.  States that are made there are not
 * fresh, and at the first end after those all tasks may start again: a task that is left out there too could have started
 * with a state that itself left it out, and then no state with it would be made anywhere.  At later ends, tasks that could
 * have started before are left out: a state with them is made from here. */
static void open_state(struct best_first *x, const struct state *s) {
  static const struct pz_bits none;
  x->opened = s;
  x->regret_s = s->regret_s;
  expand_state(x, s, node_at(x, 0));
  while (node_at(x, 0)->n_running && !x->stopped) {
    struct pz_partial *n = node_at(x, 1);
    pz_partial_advance(&x->g, node_at(x, 0), n);
    bool later = node_at(x, 0)->t > s->t;
    x->fresh = !later && !s->fresh;
    if (x->fresh) n->could_before = none;
    /* at the first end, the bound is that of the state */
    if (later && !could_improve(x, completion_bound(x, n))) return;
    if (pz_partial_complete(&x->g, n)) {
      finish_schedule(x, n);
      return;
    }
    if (x->idle.frequent && !n->n_running) {
      branch_from_idle(x, 1);
      return;
    }
    expand_node(x, 1);
    if (pz_partial_wait_dominated(&x->g, n)) return;
    pz_partial_copy(node_at(x, 0), n);
  }
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Opens the best state for each number of started tasks.  Returns whether there was one. */
static bool dive(struct best_first *x) {
  bool any = false;
  for (uint32_t started = 0; started < x->g.p->n && !x->stopped; started++) {
    struct state *s = remove_best(x, started, BUCKETS - 1);
    if (!s) continue;
    open_state(x, s);
    x->g.c->count[PZ_T_diving].calls++;
    any = true;
  }
  return any;
}

/* Opens the states of least bound, those with more tasks started first, until this number of steps. */
static void open_least_bounds(struct best_first *x, int64_t until) {
  while (x->least_bucket < BUCKETS && !x->stopped && x->g.c->steps < until) {
    /* no bound above the schedules into which deferred tasks did not fit can be proved */
    if (x->deferred) x->stopped = open_list_bound(x) >= x->deferred->unfit_s;
    struct state *s = NULL;
    for (uint32_t started = x->g.p->n; started-- > 0 && !s;)
      s = remove_best(x, started, x->least_bucket);
    if (s)
      open_state(x, s);
    else
      x->least_bucket++;
  }
}

static void search_states(struct best_first *x) {
  struct pz_context *c = x->g.c;
  struct pz_partial *root = node_at(x, 0);
  x->fresh = true;
  pz_partial_begin(&x->g, deferred_tasks(x), root);
  if (pz_partial_complete(&x->g, root))
    finish_schedule(x, root);
  else if (x->idle.frequent)
    branch_from_idle(x, 0);
  else
    expand_node(x, 0);
  if (c->o->diving) {
    int64_t from = c->steps;
    while (dive(x)) { /* as many steps again for the least bounds */
      open_least_bounds(x, 2 * c->steps - from);
      from = c->steps;
    }
  } else {
    open_least_bounds(x, INT64_MAX);
  }
  double proved = x->stopped ? open_list_bound(x) : c->best_s;
  if (x->deferred) proved = pz_fmin(proved, x->deferred->unfit_s);
  /* pruned states have no better schedule than the incumbent */
  pz_update_bound(c, pz_fmin(proved, c->best_s), PZ_T_best_first);
}

struct best_first_args {
  struct pz_context *c;
  int64_t steps;
  struct pz_deferred *deferred;
};

static void search_best_first(struct pz_call *call, void *ctx) {
  const struct best_first_args *args = ctx;
  struct pz_context *c = args->c;
  struct best_first x = {
      .arena = call->arena, .until = c->steps + args->steps, .deferred = args->deferred};
  uint32_t n = c->p->n;
  bool ready = pz_partials_init(&x.nodes, n, 2 * (size_t)n + 7, call->arena) &&
               pz_branching_init(&x.g, c, call->arena);
  if (!ready) pz_raise(call, PZ_NO_MEMORY, "out of memory");
  x.after_wait = node_at(&x, 2 * n + 4);
  x.now = node_at(&x, 2 * n + 5);
  x.next = node_at(&x, 2 * n + 6);
  begin_open_list(call, &x, args->steps);
  if (!pz_idle_init(&x.idle, &x.g, call->arena)) pz_raise(call, PZ_NO_MEMORY, "out of memory");
  pz_automorphisms(&x.g, deferred_tasks(&x));
  search_states(&x);
}

enum pz_status pz_best_first_search(struct pz_context *c, int64_t steps,
                                    struct pz_deferred *deferred, struct pz_error *err) {
  struct best_first_args args = {c, steps, deferred};
  int64_t from = c->steps;
  if (!pz_open(c)) return PZ_OK;
  enum pz_status status = pz_border(search_best_first, &args, err);
  c->count[PZ_T_best_first].calls++;
  c->count[PZ_T_best_first].steps += c->steps - from;
  return status;
}
