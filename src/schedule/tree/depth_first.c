/* Depth-first branch and bound over schedules in order of time (precedence trees of Patterson et al. 1989, with modes).
 *
 * A node is a time t with some tasks finished and some running.  It branches on the next task to start at t and its mode,
 * or on advancing to the next end.  Pruned are:
 * - nodes whose bound is not below the incumbent (is_promising);
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

/* A node that was visited before, for dominance. */
struct stored_node {
  struct stored_node *next;
  struct pz_bits started;
  double t;
  uint32_t wait;
  uint32_t n_running;
  struct pz_running run[];
};

struct depth_first {
  struct pz_branching g;
  struct pz_arena *arena;   /* of the stored nodes */
  int64_t until;            /* steps */
  struct pz_partials nodes; /* by depth */
  struct stored_node **bucket;
  uint32_t n_buckets, n_stored;
  struct pz_deferred *deferred; /* NULL: none */
  bool stopped;
};

static bool is_promising(struct depth_first *x, const struct pz_partial *n) {
  const struct pz_context *c = x->g.c;
  return pz_better(c, pz_partial_dual_bound(&x->g, n), c->best_s) &&
         pz_better(c, pz_partial_path_bound(&x->g, n), c->best_s) &&
         pz_better(c, pz_partial_energy_bound(&x->g, n), c->best_s);
}

/* Whether a stored node dominates this one; if not, this one is stored.  Nodes that follow from this one by waiting are not
 * alternatives to it.  If there is no memory the node is not stored, which costs time but not correctness. */
static bool is_dominated_or_stored(struct depth_first *x, const struct pz_partial *n) {
  struct stored_node **bucket = &x->bucket[pz_hash(&n->started, sizeof n->started) % x->n_buckets];
  const struct pz_going now = {n->t, n->run, n->n_running};
  struct pz_technique_count *count = &x->g.c->count[PZ_T_state_dominance];
  uint32_t looked = 0;
  count->calls++;
  for (const struct stored_node *s = *bucket; s; s = s->next) {
    const struct pz_going stored = {s->t, s->run, s->n_running};
    bool comparable = s->wait != n->wait && pz_branching_same(&x->g, &s->started, &n->started);
    if (comparable && pz_partial_dominated(&x->g, &now, &stored)) {
      count->prunes++;
      return true;
    }
    looked++;
  }
  x->g.c->steps += looked / PZ_LOOKS_PER_STEP;
  if (x->n_stored >= MAX_STORED_NODES) return false;
  struct stored_node *s = pz_arena_alloc(x->arena, 1, sizeof *s + n->n_running * sizeof *s->run);
  if (!s) return false;
  *s = (struct stored_node){.next = *bucket,
                            .started = n->started,
                            .t = n->t,
                            .wait = n->wait,
                            .n_running = n->n_running};
  memcpy(s->run, n->run, n->n_running * sizeof *s->run);
  *bucket = s;
  x->n_stored++;
  return false;
}

static void finish_schedule(struct depth_first *x, const struct pz_partial *n) {
  double makespan = pz_partial_end(n);
  if (!pz_better(x->g.c, makespan, x->g.c->best_s)) return;
  if (x->deferred) makespan = pz_deferred_insert(x->deferred, &x->g, makespan);
  pz_update_incumbent(x->g.c, x->g.slots, makespan, PZ_T_depth_first);
}

/* Visits the node at this depth and everything below it. */
static void visit_node(struct depth_first *x, uint32_t depth) {
  const struct pz_partial *n = pz_partial_at(&x->nodes, depth);
  struct pz_partial *child = pz_partial_at(&x->nodes, depth + 1);
  x->g.c->steps++;
  if (x->g.c->steps >= x->until) {
    x->stopped = true;
    return;
  }
  if (pz_partial_complete(&x->g, n)) {
    finish_schedule(x, n);
    return;
  }
  if (!is_promising(x, n)) return;
  bool just_advanced = n->last_rank == PZ_NONE;
  if (just_advanced && x->g.c->o->state_dominance && is_dominated_or_stored(x, n)) return;
  struct pz_start start = pz_partial_starts(&x->g, n);
  while (!x->stopped && pz_partial_next(&x->g, n, &start)) {
    pz_partial_start(&x->g, n, start.task, start.mode, child);
    visit_node(x, depth + 1);
  }
  if (x->stopped || n->n_running == 0 || pz_partial_wait_dominated(&x->g, n)) return;
  pz_partial_advance(&x->g, n, child);
  visit_node(x, depth + 1);
}

struct depth_first_args {
  struct pz_context *c;
  int64_t steps;
  struct pz_deferred *deferred;
};

static void search_depth_first(struct pz_call *call, void *ctx) {
  const struct depth_first_args *args = ctx;
  struct pz_context *c = args->c;
  struct depth_first x = {
      .arena = call->arena, .until = c->steps + args->steps, .deferred = args->deferred};
  uint32_t n = c->p->n;
  x.n_buckets = 64;
  while (x.n_buckets < MAX_BUCKETS && x.n_buckets < args->steps) x.n_buckets *= 2;
  x.bucket = pz_alloc(call, x.n_buckets, sizeof(struct stored_node *));
  bool ready = pz_partials_init(&x.nodes, n, 2 * (size_t)n + 3, call->arena) &&
               pz_branching_init(&x.g, c, call->arena);
  if (!ready) pz_raise(call, PZ_NO_MEMORY, "out of memory");
  pz_partial_begin(&x.g, x.deferred ? x.deferred->is : NULL, pz_partial_at(&x.nodes, 0));
  visit_node(&x, 0);
  if (x.stopped) return;
  double proved = x.deferred ? fmin(c->best_s, x.deferred->unfit_s) : c->best_s;
  pz_update_bound(c, proved, PZ_T_depth_first);
}

enum pz_status pz_depth_first_search(struct pz_context *c, int64_t steps,
                                     struct pz_deferred *deferred, struct pz_error *err) {
  struct depth_first_args args = {c, steps, deferred};
  int64_t from = c->steps;
  enum pz_status status = pz_border(search_depth_first, &args, err);
  c->count[PZ_T_depth_first].calls++;
  c->count[PZ_T_depth_first].steps += c->steps - from;
  return status;
}
