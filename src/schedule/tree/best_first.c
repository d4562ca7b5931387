/* Best-first branch and bound over schedules in order of time.
 *
 * The tree is that of depth_first.c, restricted to states: partial schedules just after a start, with a set of started
 * tasks of which some are running.  The next start is at the end of a running task or, after a wait, at a later end.
 * Where idle points pay (idle_point.h), they are branched on as described there.
 *
 * pz_best_first_search() alternates between two ways of choosing the next state to open (open_state).
 * open_least_bounds() opens the state with the least bound of the open list, which raises the lower bound and opens no
 * state whose bound exceeds the optimum.  dive() opens the best state for each number of started tasks, which finds good
 * schedules early.  Most dominated states are found before they are opened.  The price is memory. */
#include <float.h>
#include <string.h>

#include "core/map.h"
#include "schedule/tree/deferred.h"
#include "schedule/tree/idle_point.h"
#include "schedule/tree/partial_bound.h"

enum {
  BUCKETS = 512, /* intervals of bounds in the open list */
  MAX_LISTS = 1 << 18,
  MAX_STATES = 1 << 20,
  MAX_COMPARED = 16 /* tuned: number of states that a new one is compared with, newest first */
};

/* A partial schedule just after a start, which waits for the next end of a running task. */
struct state {
  const struct state *parent;
  struct state *next_in_bucket;
  struct state *next_in_list;    /* newest first */
  double bound, now;             /* lower bound on its completions, and its time */
  double next_end, last_end;     /* first and last end of the running tasks */
  double regret_s;               /* regret of the last idle point before it (idle_point.h) */
  struct pz_bits started, ready; /* as in struct pz_partial, like the next two members */
  double remaining_dual, serial;
  bool dominated; /* a state that was added later dominates this one */
  bool fresh;     /* see open_state() */
  uint32_t n_running;
  struct pz_running running[];
};

struct best_first {
  struct pz_branching tree;
  struct pz_idle idle;
  struct pz_call *call;               /* owns the states */
  int64_t last_step;                  /* effort limit */
  struct pz_deferred *deferred;       /* NULL if no task is deferred */
  const bool *is_deferred;            /* by task, or NULL */
  struct pz_partials nodes;           /* by depth, followed by the three below */
  struct pz_partial *after_wait;      /* scratch for the bound of a state */
  struct pz_partial *replay, *before; /* scratch for repeating a complete schedule */
  const struct state *opened;         /* the state that is being opened; NULL at the beginning */
  double regret_s; /* regret of the last idle point before the node that is expanded */
  bool fresh;      /* whether states that are added now are fresh, see open_state() */
  bool stopped;    /* by the effort limit or the limit of states */

  /* The open list: states by number of started tasks and bucket of the bound.  To find dominated
   * states, they are also listed by the hash of their started tasks. */
  struct state *candidate; /* a state that may be added */
  struct state **buckets;  /* BUCKETS for each number of started tasks */
  int *lowest;             /* by number of started tasks: no bucket below this one has states */
  int least_bucket;        /* no bucket below this one has states for any number of started tasks */
  struct state **lists;    /* states by the hash of their started tasks */
  uint32_t n_lists, n_states;
  double low_s, high_s; /* range of bounds that the buckets divide */
};

/* Returns whether schedules with this lower bound may be better than the incumbent. */
static bool could_improve(const struct best_first *search, double bound) {
  return pz_better(search->tree.context, bound, search->tree.context->incumbent_s);
}

/* Returns a lower bound on the completions of a node; cheaper bounds come first. */
static double completion_bound(const struct best_first *search, const struct pz_partial *node) {
  const struct pz_branching *tree = &search->tree;
  double bound = pz_partial_dual_bound(tree, node);
  if (could_improve(search, bound)) bound = pz_fmax(bound, pz_partial_residual_bound(tree, node));
  if (could_improve(search, bound)) bound = pz_fmax(bound, pz_partial_energy_bound(tree, node));
  return bound;
}

/* ---- states --------------------------------------------------------------------------------- */

/* Stores a node that waits for the next end as a state, without its bound, regret and freshness. */
static void set_state(struct state *state, const struct state *parent,
                      const struct pz_partial *node) {
  *state = (struct state){.parent = parent,
                          .now = node->now,
                          .next_end = DBL_MAX,
                          .started = node->started,
                          .ready = node->ready,
                          .remaining_dual = node->remaining_dual,
                          .serial = node->serial,
                          .n_running = node->n_running};
  memcpy(state->running, node->running, node->n_running * sizeof *state->running);
  for (uint32_t i = 0; i < node->n_running; i++) {
    state->next_end = pz_fmin(state->next_end, node->running[i].end);
    state->last_end = pz_fmax(state->last_end, node->running[i].end);
  }
}

/* Restores the partial schedule of a state as a node: the reverse of set_state(). */
static void expand_state(const struct best_first *search, const struct state *state,
                         struct pz_partial *node) {
  const struct pz_problem *problem = search->tree.problem;
  *node = (struct pz_partial){.started = state->started,
                              .finished = state->started,
                              .now = state->now,
                              .previous = state->now,
                              .last_rank = PZ_NONE,
                              .ready = state->ready,
                              .remaining_dual = state->remaining_dual,
                              .serial = state->serial,
                              .n_running = state->n_running};
  memcpy(node->residual, problem->capacity, sizeof node->residual);
  memcpy(node->running, state->running, state->n_running * sizeof *state->running);
  for (uint32_t i = 0; i < state->n_running; i++) {
    const struct pz_running *running = &state->running[i];
    const struct pz_mode *mode = &problem->tasks[running->task].modes[running->mode];
    pz_bits_clear(&node->finished, running->task);
    for (int r = 0; r < PZ_RESOURCES; r++) node->residual[r] -= mode->use[r];
  }
}

/* ---- dominance ------------------------------------------------------------------------------ */

/* Returns whether every completion of state b is possible from state a and no longer than from b.
 * Both have started the same tasks.  Nothing more starts in b before b->next_end, so that from then
 * on, the tasks that run in a must end no later than in b and use no more.
 *
 * The next start of a need not be compared and is set to 0, because every task of a has started by
 * b->next_end.  This holds for tasks that have ended in a by then.  Any other task runs in b too,
 * and uses no less there than in a.  Because no mode is worse than another in both use and duration,
 * it is at least as fast in b; because it ends no earlier in b, it started no later in a. */
static bool dominates(const struct pz_branching *tree, const struct state *a,
                      const struct state *b) {
  if (a->last_end > b->last_end) return false; /* a necessary condition that is cheap to test */
  const struct pz_going dominating = {.next_start = 0, .running = a->running, .n = a->n_running};
  const struct pz_going dominated = {
      .next_start = b->next_end, .running = b->running, .n = b->n_running};
  return pz_partial_dominated(tree, &dominated, &dominating);
}

/* Returns whether another state dominates the candidate.  Removes states that the candidate
 * dominates. */
static bool candidate_is_dominated(struct best_first *search) {
  const struct pz_branching *tree = &search->tree;
  const struct state *candidate = search->candidate;
  size_t list = pz_hash(&candidate->started, (size_t)tree->words * 8) % search->n_lists;
  struct state **at = &search->lists[list];
  struct pz_technique_count *count = &tree->context->count[PZ_T_state_dominance];
  uint32_t n_compared = 0;
  bool dominated = false;
  if (!tree->context->techniques->state_dominance) return false;
  while (*at && !dominated && n_compared < MAX_COMPARED) {
    struct state *state = *at;
    bool same = pz_branching_same(tree, &state->started, &candidate->started);
    dominated = same && dominates(tree, state, candidate);
    state->dominated = same && !dominated && dominates(tree, candidate, state);
    if (state->dominated)
      *at = state->next_in_list;
    else
      at = &state->next_in_list;
    n_compared++;
  }
  tree->context->steps += n_compared / PZ_LOOKS_PER_STEP;
  count->calls++;
  count->prunes += dominated;
  return dominated;
}

/* ---- the open list -------------------------------------------------------------------------- */

/* Adds the candidate to the open list, or stops the search if there are too many states. */
static void add_candidate(struct best_first *search) {
  const struct state *candidate = search->candidate;
  size_t bytes = sizeof(struct state) + candidate->n_running * sizeof(struct pz_running);
  if (search->n_states >= MAX_STATES) {
    search->stopped = true;
    return;
  }
  struct state *state = pz_alloc(search->call, 1, bytes);
  memcpy(state, candidate, bytes);
  /* the bucket of the bound: low_s to high_s in BUCKETS equal intervals */
  double position = (state->bound - search->low_s) / (search->high_s - search->low_s) * BUCKETS;
  int bucket = 0;
  if (!(position < 0)) bucket = position < BUCKETS - 1 ? (int)position : BUCKETS - 1;
  uint32_t n_started = pz_bits_count(&state->started);
  struct state **in_bucket = &search->buckets[(size_t)n_started * BUCKETS + (size_t)bucket];
  struct state **in_list =
      &search->lists[pz_hash(&state->started, (size_t)search->tree.words * 8) % search->n_lists];
  if (bucket < search->lowest[n_started]) search->lowest[n_started] = bucket;
  state->next_in_bucket = *in_bucket;
  state->next_in_list = *in_list;
  *in_bucket = state;
  *in_list = state;
  search->n_states++;
}

/* Removes a state with this number of started tasks, from the lowest bucket up to last_bucket that
 * has one which may lead to a better schedule.  Returns NULL if there is none. */
static struct state *remove_best(struct best_first *search, uint32_t n_started, int last_bucket) {
  struct state **buckets = &search->buckets[(size_t)n_started * BUCKETS];
  int *lowest = &search->lowest[n_started];
  for (; *lowest <= last_bucket; (*lowest)++) {
    struct state **first = &buckets[*lowest];
    while (*first) {
      struct state *state = *first;
      *first = state->next_in_bucket;
      if (!state->dominated && could_improve(search, state->bound)) return state;
    }
  }
  return NULL;
}

/* Returns a lower bound on the completions of all states in the open list. */
static double open_list_bound(const struct best_first *search) {
  return search->low_s + (search->high_s - search->low_s) * search->least_bucket / BUCKETS;
}

/* ---- complete schedules --------------------------------------------------------------------- */

/* Advances search->replay to the time of a state, and repeats the starts that lead to the state.  Tasks
 * that have started since then and are not running in the state have run alone at an idle point. */
static void replay_starts(struct best_first *search, const struct state *state) {
  struct pz_branching *tree = &search->tree;
  while (search->replay->n_running && search->replay->now < state->now) {
    pz_partial_copy(search->before, search->replay);
    pz_partial_advance(tree, search->before, search->replay);
  }
  struct pz_bits alone = pz_bits_minus(&state->started, &search->replay->started);
  for (uint32_t i = 0; i < state->n_running; i++) pz_bits_clear(&alone, state->running[i].task);
  if (pz_bits_count(&alone) > 0) pz_partial_alone(tree, search->replay, &alone);
  for (uint32_t i = 0; i < state->n_running; i++) {
    const struct pz_running *running = &state->running[i];
    if (!pz_bits_has(&search->replay->started, running->task))
      pz_partial_start(tree, search->replay, running->task, running->mode, search->replay);
  }
}

/* Updates the incumbent by a node that descends from the opened state and has started all tasks.
 * The slots are set by repeating all starts from the beginning. */
static void finish_schedule(struct best_first *search, const struct pz_partial *node) {
  struct pz_branching *tree = &search->tree;
  uint32_t depth = 0;
  double makespan = 0;
  if (!could_improve(search, pz_partial_end(node))) return;
  struct pz_call scratch = pz_scratch(search->call);
  for (const struct state *state = search->opened; state; state = state->parent) depth++;
  const struct state **path = pz_alloc(&scratch, depth + 1, sizeof *path);
  struct state *last =
      pz_alloc(&scratch, 1, sizeof(struct state) + node->n_running * sizeof(struct pz_running));
  set_state(last, search->opened, node);
  const struct state *ancestor = last;
  for (uint32_t k = depth + 1; k-- > 0; ancestor = ancestor->parent) path[k] = ancestor;
  pz_partial_begin(tree, search->is_deferred, search->replay);
  for (uint32_t k = 0; k <= depth; k++) replay_starts(search, path[k]);
  while (search->replay->n_running) { /* milestones at the end */
    pz_partial_copy(search->before, search->replay);
    pz_partial_advance(tree, search->before, search->replay);
  }
  for (uint32_t i = 0; i < tree->problem->n; i++)
    if (!search->deferred || !search->is_deferred[i])
      makespan = pz_fmax(makespan, tree->slots[i].end);
  if (search->deferred) makespan = pz_deferred_insert(search->deferred, tree, makespan);
  pz_update_incumbent(tree->context, tree->slots, makespan, PZ_T_best_first);
  pz_scratch_end(&scratch);
}

/* ---- branching ------------------------------------------------------------------------------ */

/* Adds a state for a node that waits for the next end, unless its bound prunes it, or it is dominated:
 * by a node in which one more task runs while it waits, by the last idle point, or by another state.
 * Where idle points are frequent, dominance prunes most and is tested before the bound. */
static void add_state(struct best_first *search, const struct pz_partial *node, double bound) {
  struct pz_branching *tree = &search->tree;
  struct state *state = search->candidate;
  bool idle_frequent = search->idle.frequent;
  if (pz_branching_within(tree, &tree->all, &node->started)) {
    finish_schedule(search, node);
    return;
  }
  if (idle_frequent && node->n_running < 2) return; /* decide_idle() tries tasks that run alone */
  if (pz_partial_wait_dominated(tree, node)) return;
  set_state(state, search->opened, node);
  state->regret_s = search->regret_s;
  state->fresh = search->fresh;
  if (idle_frequent) {
    /* the last idle point dominates a busy period that saves no time over running its tasks alone */
    const struct pz_context *context = tree->context;
    double alone_s = state->next_end - node->serial + 1e-12 * context->scale;
    context->count[PZ_T_idle_points].prunes += search->regret_s <= alone_s;
    if (search->regret_s <= alone_s || candidate_is_dominated(search)) return;
  }
  pz_partial_advance(tree, node, search->after_wait);
  state->bound = pz_fmax(bound, completion_bound(search, search->after_wait));
  if (search->opened) state->bound = pz_fmax(state->bound, search->opened->bound);
  if (!could_improve(search, state->bound)) return;
  if (!idle_frequent && candidate_is_dominated(search)) return;
  add_candidate(search);
}

/* Adds a state for every set of tasks that can start together at the node's time, in every choice
 * of their modes.  Each call starts one more task in one mode, adds the set that is started so far,
 * and calls itself to extend the set; pz_partial_next() gives each set only one order.  The bound
 * of busy periods (the times between idle points, idle_point.h) needs the regret of the last idle
 * point: its time, less the time of the tasks finished by then if each had run alone. */
static void expand_node(struct best_first *search, uint32_t depth) {
  struct pz_branching *tree = &search->tree;
  const struct pz_partial *node = pz_partial_at(&search->nodes, depth);
  struct pz_partial *child = pz_partial_at(&search->nodes, depth + 1);
  struct pz_start start = pz_partial_starts(tree, node);
  while (!search->stopped && pz_partial_next(tree, node, &start)) {
    pz_partial_start(tree, node, start.task, start.mode, child);
    tree->context->steps++;
    if (tree->context->steps >= search->last_step) search->stopped = true;
    double bound = pz_partial_path_bound(tree, child);
    if (search->idle.period_bound_pays && could_improve(search, bound))
      bound = pz_fmax(bound, pz_busy_period_bound(&search->idle, child, search->regret_s));
    if (!could_improve(search, bound)) continue;
    add_state(search, child, bound);
    expand_node(search, depth + 1);
  }
}

/* Branches on whether the next ready task with successors runs alone at this idle point or is postponed,
 * and calls itself for each choice.  After the last decision a busy period begins.  Of interchangeable
 * ready tasks, those that run alone come first. */
static void decide_idle(struct best_first *search, uint32_t depth) {
  struct pz_branching *tree = &search->tree;
  struct pz_partial *node = pz_partial_at(&search->nodes, depth),
                    *child = pz_partial_at(&search->nodes, depth + 1);
  uint32_t task = PZ_NONE; /* the first ready task with successors that is not postponed */
  for (int w = 0; w < tree->words && task == PZ_NONE; w++) {
    uint64_t with_successors = node->ready.words[w] & search->idle.inner.words[w];
    uint64_t undecided = with_successors & ~node->postponed.words[w];
    if (undecided) task = (uint32_t)(64 * w + __builtin_ctzll(undecided));
  }
  if (search->stopped || !could_improve(search, completion_bound(search, node))) return;
  if (task == PZ_NONE) {
    /* if nothing is postponed, one child also runs all remaining tasks one after another */
    if (pz_bits_count(&node->postponed) == 0) {
      struct pz_bits rest = pz_bits_minus(&tree->all, &node->started);
      pz_partial_copy(child, node);
      pz_partial_alone(tree, child, &rest);
      finish_schedule(search, child);
    }
    expand_node(search, depth);
    return;
  }
  tree->context->steps++;
  if (tree->context->steps >= search->last_step) search->stopped = true;
  uint64_t postponed_twins = 0; /* interchangeable tasks of lower rank that were postponed */
  for (int w = 0; w < tree->words; w++)
    postponed_twins |= tree->interchangeable[task].words[w] & node->postponed.words[w];
  if (!postponed_twins) {
    struct pz_bits only = {{0}};
    pz_bits_set(&only, task);
    pz_partial_copy(child, node);
    pz_partial_alone(tree, child, &only);
    decide_idle(search, depth + 1);
  }
  bool may_be_postponed = pz_bits_has(&search->idle.joining, task);
  if (!may_be_postponed) return; /* it can only run alone */
  pz_partial_copy(child, node);
  pz_bits_set(&child->postponed, task);
  decide_idle(search, depth + 1);
}

/* Branches on an idle point, unless another one dominates it. */
static void branch_from_idle(struct best_first *search, uint32_t depth) {
  static const struct pz_bits none;
  struct pz_partial *node = pz_partial_at(&search->nodes, depth);
  if (pz_idle_dominated(search->call, &search->idle, node)) return;
  search->regret_s = node->now - node->serial;
  search->fresh = true;
  node->postponed = none;
  node->ready_before = none;
  decide_idle(search, depth);
}

/* Expands a state at the next end, and after waiting at each later end.
 *
 * A state is fresh if all ready tasks might have started with its tasks.  At the first end after a fresh state, tasks that
 * could have started with it are left out: a state with them was added beside this one.  States that are added there are
 * not fresh, and at the first end after those all tasks may start again: a task that is left out there too could have
 * started with a state that itself left it out, and then no state with it would be added anywhere.  At later ends, tasks
 * that could have started before are left out: a state with them is added from here. */
static void open_state(struct best_first *search, const struct state *state) {
  static const struct pz_bits none;
  struct pz_branching *tree = &search->tree;
  struct pz_partial *waiting = pz_partial_at(&search->nodes, 0),
                    *node = pz_partial_at(&search->nodes, 1);
  search->opened = state;
  search->regret_s = state->regret_s;
  expand_state(search, state, waiting);
  while (waiting->n_running && !search->stopped) {
    pz_partial_advance(tree, waiting, node);
    bool is_later_end = waiting->now > state->now;
    search->fresh = !is_later_end && !state->fresh;
    if (search->fresh) node->ready_before = none;
    /* at the first end, the bound is that of the state */
    if (is_later_end && !could_improve(search, completion_bound(search, node))) return;
    if (pz_branching_within(tree, &tree->all, &node->started)) {
      finish_schedule(search, node);
      return;
    }
    if (search->idle.frequent && !node->n_running) {
      branch_from_idle(search, 1);
      return;
    }
    expand_node(search, 1);
    if (pz_partial_wait_dominated(tree, node)) return;
    pz_partial_copy(waiting, node);
  }
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Opens the best state for each number of started tasks.  Returns whether there was any state. */
static bool dive(struct best_first *search) {
  bool any = false;
  uint32_t n = search->tree.problem->n;
  for (uint32_t n_started = 0; n_started < n && !search->stopped; n_started++) {
    struct state *state = remove_best(search, n_started, BUCKETS - 1);
    if (!state) continue;
    open_state(search, state);
    search->tree.context->count[PZ_T_diving].calls++;
    any = true;
  }
  return any;
}

/* Opens the states of least bound until this step.  Of equal bounds, states with more started tasks
 * come first. */
static void open_least_bounds(struct best_first *search, int64_t until) {
  const struct pz_context *context = search->tree.context;
  while (search->least_bucket < BUCKETS && !search->stopped && context->steps < until) {
    /* no bound above the schedules into which deferred tasks did not fit can be proved */
    if (search->deferred) search->stopped = open_list_bound(search) >= search->deferred->unfit_s;
    struct state *state = NULL;
    for (uint32_t n_started = context->problem->n; n_started-- > 0 && !state;)
      state = remove_best(search, n_started, search->least_bucket);
    if (state)
      open_state(search, state);
    else
      search->least_bucket++;
  }
}

/* Searches from the beginning until the open list is empty or a limit is reached, and raises the
 * lower bound. */
static void search_states(struct best_first *search) {
  struct pz_context *context = search->tree.context;
  struct pz_partial *root = pz_partial_at(&search->nodes, 0);
  search->fresh = true;
  pz_partial_begin(&search->tree, search->is_deferred, root);
  if (pz_branching_within(&search->tree, &search->tree.all, &root->started))
    finish_schedule(search, root);
  else if (search->idle.frequent)
    branch_from_idle(search, 0);
  else
    expand_node(search, 0);
  if (context->techniques->diving) {
    int64_t steps_before = context->steps;
    while (dive(search)) { /* as many steps for the least bounds as the dive has used */
      open_least_bounds(search, 2 * context->steps - steps_before);
      steps_before = context->steps;
    }
  } else {
    open_least_bounds(search, INT64_MAX);
  }
  double proved = search->stopped ? open_list_bound(search) : context->incumbent_s;
  if (search->deferred) proved = pz_fmin(proved, search->deferred->unfit_s);
  /* states that were pruned lead to no schedule better than the incumbent */
  pz_update_bound(context, pz_fmin(proved, context->incumbent_s), PZ_T_best_first);
}

/* Searches for at most this number of steps.  `deferred` is NULL if no task is deferred. */
void pz_best_first_search(struct pz_context *context, int64_t steps, struct pz_deferred *deferred) {
  struct pz_technique_count *count = &context->count[PZ_T_best_first];
  uint32_t n = context->problem->n;
  int64_t steps_before = context->steps;
  if (!pz_open(context)) return;
  struct pz_call scratch = pz_scratch(context->call);
  struct best_first search = {
      .call = &scratch, .last_step = context->steps + steps, .deferred = deferred};
  if (deferred) search.is_deferred = deferred->is_deferred;
  search.nodes = pz_partials_new(&scratch, n, 2 * (size_t)n + 7);
  search.after_wait = pz_partial_at(&search.nodes, 2 * n + 4);
  search.replay = pz_partial_at(&search.nodes, 2 * n + 5);
  search.before = pz_partial_at(&search.nodes, 2 * n + 6);
  pz_branching_init(&scratch, &search.tree, context);
  /* the open list */
  search.low_s = context->lower_bound_s;
  search.high_s = context->incumbent_s;
  search.n_lists = 64;
  while (search.n_lists < MAX_LISTS && search.n_lists < steps / 8) search.n_lists *= 2;
  search.candidate = pz_alloc(&scratch, 1, sizeof(struct state) + n * sizeof(struct pz_running));
  search.lists = pz_alloc(&scratch, search.n_lists, sizeof *search.lists);
  search.buckets = pz_alloc(&scratch, (size_t)(n + 1) * BUCKETS, sizeof *search.buckets);
  search.lowest = pz_alloc(&scratch, n + 1, sizeof *search.lowest);
  for (uint32_t i = 0; i <= n; i++) search.lowest[i] = BUCKETS;
  pz_idle_init(&scratch, &search.idle, &search.tree);
  pz_automorphisms(&search.tree, search.is_deferred);
  search_states(&search);
  count->calls++;
  count->steps += context->steps - steps_before;
  pz_scratch_end(&scratch);
}
