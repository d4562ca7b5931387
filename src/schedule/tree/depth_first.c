/* Depth-first branch and bound over schedules in order of time (precedence trees of Patterson et al. 1989, with modes).
 *
 * A node is a time with some tasks finished and some running.  It branches on the next task to start and its mode, or on
 * advancing to the next end.  The search prunes:
 * - nodes whose bound is not below the incumbent;
 * - nodes that are dominated by another one with the same tasks started, all of which end no later and use no more
 *   (is_dominated_or_stored);
 * - starts that were possible at the previous decision time (left shift), waits during which another task could have been
 *   completed, permutations of starts at the same time, and one of the two orders of identical ready tasks (partial.h).
 *
 * Deferred tasks, if given (deferred.h), are left out of the tree. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/map.h"
#include "schedule/tree/deferred.h"
#include "schedule/tree/partial_bound.h"

enum { MAX_BUCKETS = 1 << 16, MAX_STORED_NODES = 1 << 20 };

/* A node that was visited before, which may dominate later ones. */
struct stored_node {
  struct stored_node *next; /* next node in the bucket */
  struct pz_bits started;
  double now;
  uint32_t wait; /* as in struct pz_partial */
  uint32_t n_running;
  struct pz_running running[];
};

struct depth_first {
  struct pz_branching tree;
  struct pz_call *call;         /* owns the stored nodes */
  int64_t last_step;            /* step at which the search stops */
  struct pz_partials nodes;     /* the current branch, by depth */
  struct stored_node **buckets; /* hash table by started tasks */
  uint32_t n_buckets, n_stored;
  struct pz_deferred *deferred; /* NULL if no task is deferred */
  bool stopped;                 /* at the effort limit */
};

/* Returns whether a stored node dominates this one.  If not, stores this one, up to a limit.  Nodes
 * between which only time has advanced (the same `wait`) are not compared, because one follows from
 * the other. */
static bool is_dominated_or_stored(struct depth_first *search, const struct pz_partial *node) {
  struct pz_context *context = search->tree.context;
  struct pz_technique_count *count = &context->count[PZ_T_state_dominance];
  uint64_t hash = pz_hash(&node->started, sizeof node->started);
  struct stored_node **bucket = &search->buckets[hash % search->n_buckets];
  const struct pz_going going = {node->now, node->running, node->n_running};
  uint32_t n_compared = 0;
  count->calls++;
  for (const struct stored_node *stored = *bucket; stored; stored = stored->next) {
    const struct pz_going other = {stored->now, stored->running, stored->n_running};
    bool comparable = stored->wait != node->wait &&
                      pz_branching_same(&search->tree, &stored->started, &node->started);
    if (comparable && pz_partial_dominated(&search->tree, &going, &other)) {
      count->prunes++;
      return true;
    }
    n_compared++;
  }
  context->steps += n_compared / PZ_LOOKS_PER_STEP;
  if (search->n_stored >= MAX_STORED_NODES) return false;
  size_t running_bytes = node->n_running * sizeof *node->running;
  struct stored_node *stored = pz_alloc(search->call, 1, sizeof *stored + running_bytes);
  *stored = (struct stored_node){.next = *bucket,
                                 .started = node->started,
                                 .now = node->now,
                                 .wait = node->wait,
                                 .n_running = node->n_running};
  memcpy(stored->running, node->running, running_bytes);
  *bucket = stored;
  search->n_stored++;
  return false;
}

/* Visits the node at this depth and everything below it. */
static void visit_node(struct depth_first *search, uint32_t depth) {
  struct pz_branching *tree = &search->tree;
  struct pz_context *context = tree->context;
  const struct pz_partial *node = pz_partial_at(&search->nodes, depth);
  struct pz_partial *child = pz_partial_at(&search->nodes, depth + 1);
  context->steps++;
  if (context->steps >= search->last_step) {
    search->stopped = true;
    return;
  }
  if (pz_branching_within(tree, &tree->all, &node->started)) {
    double makespan = pz_partial_end(node);
    if (!pz_better(context, makespan, context->incumbent_s)) return;
    if (search->deferred) makespan = pz_deferred_insert(search->deferred, tree, makespan);
    pz_update_incumbent(context, tree->slots, makespan, PZ_T_depth_first);
    return;
  }
  double incumbent_s = context->incumbent_s; /* the cheaper bounds are tried first */
  if (!pz_better(context, pz_partial_dual_bound(tree, node), incumbent_s)) return;
  if (!pz_better(context, pz_partial_path_bound(tree, node), incumbent_s)) return;
  if (!pz_better(context, pz_partial_energy_bound(tree, node), incumbent_s)) return;
  bool just_advanced = node->last_rank == PZ_NONE;
  if (just_advanced && context->techniques->state_dominance && is_dominated_or_stored(search, node))
    return;
  struct pz_start start = pz_partial_starts(tree, node);
  while (!search->stopped && pz_partial_next(tree, node, &start)) {
    pz_partial_start(tree, node, start.task, start.mode, child);
    visit_node(search, depth + 1);
  }
  if (search->stopped || node->n_running == 0 || pz_partial_wait_dominated(tree, node)) return;
  pz_partial_advance(tree, node, child);
  visit_node(search, depth + 1);
}

/* Searches for at most this number of steps.  `deferred` is NULL if no task is deferred. */
void pz_depth_first_search(struct pz_context *context, int64_t steps,
                           struct pz_deferred *deferred) {
  struct pz_technique_count *count = &context->count[PZ_T_depth_first];
  struct pz_call scratch = pz_scratch(context->call);
  struct depth_first search = {
      .call = &scratch, .last_step = context->steps + steps, .deferred = deferred};
  uint32_t n = context->problem->n;
  int64_t steps_before = context->steps;
  search.n_buckets = 64;
  while (search.n_buckets < MAX_BUCKETS && search.n_buckets < steps) search.n_buckets *= 2;
  search.buckets = pz_alloc(&scratch, search.n_buckets, sizeof(struct stored_node *));
  search.nodes = pz_partials_new(&scratch, n, 2 * (size_t)n + 3);
  pz_branching_init(&scratch, &search.tree, context);
  pz_partial_begin(&search.tree, deferred ? deferred->is_deferred : NULL,
                   pz_partial_at(&search.nodes, 0));
  visit_node(&search, 0);
  if (!search.stopped) {
    double proved = context->incumbent_s;
    if (deferred) proved = fmin(proved, deferred->unfit_s);
    pz_update_bound(context, proved, PZ_T_depth_first);
  }
  count->calls++;
  count->steps += context->steps - steps_before;
  pz_scratch_end(&scratch);
}
